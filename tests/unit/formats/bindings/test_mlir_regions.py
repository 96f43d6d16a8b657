"""Control flow and variables: regions, their names, and captured values."""

from __future__ import annotations

from typing import Any

import pytest
from refusing import refused
from unit.building import branching, counting, graph, op, region, tensor

import tosa_convert as tc
from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.bindings.modules import read, write
from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.formats.mlir.write import function as writing
from tosa_convert.formats.mlir.write.function import MAX_NESTING
from tosa_convert.graph import Graph, compare, dtype, verify
from tosa_convert.io.formats import Format
from tosa_convert.io.options import Names

T = "tensor<2xf32>"
ARGUMENTS = f"%c: tensor<i1>, %a: {T}"


def cond_if(result: str, operand: str, then: str = "", otherwise: str = "") -> str:
    """Return a cond_if on one line whose regions exponentiate and keep their argument."""
    then = then or f'%t1 = "tosa.exp"(%t) : ({T}) -> {T} "tosa.yield"(%t1) : ({T}) -> ()'
    otherwise = otherwise or f'"tosa.yield"(%e) : ({T}) -> ()'
    return (
        f'%{result} = "tosa.cond_if"(%c, %{operand}) ({{ ^bb0(%t: {T}): {then} }}, '
        f"{{ ^bb0(%e: {T}): {otherwise} }}) : (tensor<i1>, {T}) -> {T}"
    )


def function(body: str) -> str:
    return f"func.func @f({ARGUMENTS}) -> {T} {{\n{body}\nreturn %r : {T}\n}}\n"


def names(found: Graph) -> list[str]:
    return [region.name for region in found.regions]


NESTED = function(
    cond_if(
        "q",
        "a",
        then=f'%t1 = "tosa.cond_if"(%k, %t) ({{ ^bb0(%x: {T}): "tosa.yield"(%x) : ({T}) -> () }}, '
        f'{{ ^bb0(%x: {T}): "tosa.yield"(%x) : ({T}) -> () }}) : (tensor<i1>, {T}) -> {T} '
        f'"tosa.yield"(%t1) : ({T}) -> ()',
    ).replace(f"^bb0(%t: {T}):", f'^bb0(%t: {T}): %k = "tosa.const"() <{{values = dense<true> : '
              'tensor<i1>}> : () -> tensor<i1>')
    + "\n"
    + cond_if("r", "q")
)  # fmt: skip


def test_regions_are_listed_depth_first(parse: Any) -> None:
    found = read(parse(NESTED))
    assert verify(found) == []
    assert names(found) == [
        "f",
        "-_L2_tosa.cond_if_then_region",
        "-_L2_tosa.cond_if_then_region_1",
        "-_L2_tosa.cond_if_else_region_1",
        "-_L2_tosa.cond_if_else_region",
        "-_L3_tosa.cond_if_then_region",
        "-_L3_tosa.cond_if_else_region",
    ]


def test_an_empty_region_is_refused_by_mlir_or_by_us(
    parse: Any, bindings: Bindings, context: Any
) -> None:
    text = function(f'%r = "tosa.cond_if"(%c, %a) ({{ }}, {{ }}) : (tensor<i1>, {T}) -> {T}')
    try:
        module = parse(text)
    except bindings.ir.MLIRError:
        return
    with pytest.raises(TosaConvertError) as caught:
        read(module)
    assert caught.value.code in ("malformed-structure", "malformed-mlir")


def nested(depth: int, *, branches: int = 1) -> Graph:
    """cond_if within cond_if; with two branches each region is run from two places."""

    def operator(number: int) -> Any:
        then = f"{number}" if number < depth else "end"
        return op("COND_IF", "c c x", "y", then_graph=then,
                  else_graph=then if branches == 2 else "end")  # fmt: skip

    def values() -> list[Any]:
        return [tensor("c", "BOOL", ()), tensor("x"), tensor("y")]

    made = graph("c x", "y", values(), [operator(1)])
    for number in range(1, depth):
        made.regions.append(region(f"{number}", "c x", "y", values(), [operator(number + 1)]))
    made.regions.append(region("end", "c x", "x", values(), []))
    return made


@pytest.mark.parametrize("depth", [MAX_NESTING + 1, 5000])
def test_deeper_nesting_is_refused_without_recursion(
    bindings: Bindings, context: Any, depth: int
) -> None:
    with refused("too-large", match=f"nested more than {MAX_NESTING} deep"):
        write(nested(depth), bindings, context)


def test_shared_regions_cannot_make_an_enormous_module_of_a_small_file(
    bindings: Bindings, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "OPERATORS_FREE", 1000)
    made = nested(64, branches=2)
    assert verify(made) == []
    with refused("too-large", match="a copy of a region for each use"):
        write(made, bindings, context)
    small = nested(5, branches=2)
    assert len(read(write(small, bindings, context, names="generate")).regions) == 63


def sharing() -> Graph:
    """Return two COND_IFs that run regions: `outer` runs `then` twice, and the main graph runs both."""
    made = branching()
    values = [tensor("c", "BOOL", ()), tensor("a"), tensor("b")]
    inner = op("COND_IF", "c a", "b", then_graph="then", else_graph="then")
    made.main.operators[0].attributes.update(then_graph="outer", else_graph="outer")
    made.main.tensors["z"] = tensor("z")
    made.main.operators.append(op("COND_IF", "c y", "z", then_graph="outer", else_graph="then_1"))
    made.main.outputs = ["z"]
    for region_ in made.regions[1:]:
        block = region_.blocks[0]
        block.inputs.insert(0, "c")
        block.tensors["c"] = values[0]
    made.regions.insert(1, region("outer", "c a", "b", values, [inner]))
    # A name that the second copy of `then` would get.
    made.regions[3].name = "then_1"
    inner.inputs = ("c", "c", "a")
    for operator in made.main.operators:
        operator.inputs = (operator.inputs[0], "c", *operator.inputs[1:])
    assert verify(made) == []
    return made


@pytest.mark.parametrize("file_format", ["mlirbc", "mlir"])
@pytest.mark.parametrize("names", ["retain", "generate"])
def test_what_shares_regions_can_be_verified(
    bindings: Bindings, file_format: Format, names: Names
) -> None:
    made = sharing()
    for locations in (True, False) if file_format == "mlir" else (True,):
        data = tc.dumps(made, file_format, names=names, verify=True, locations=locations)
        assert compare(made, tc.load(data), names=names == "retain") is None


@pytest.mark.parametrize("file_format", ["mlirbc", "mlir"])
def test_to_verify_a_region_that_no_operator_runs_is_refused(file_format: Format) -> None:
    made = branching()
    made.regions.append(region("stray", "a", "a", [tensor("a")], []))
    with refused("option-conflict", match='that no operator runs: "stray"'):
        tc.dumps(made, file_format, verify=True)
    assert tc.dumps(made, "tosa", verify=True)


def test_a_region_that_no_operator_runs_is_omitted_with_a_warning(
    bindings: Bindings, context: Any, caplog: pytest.LogCaptureFixture
) -> None:
    made = branching()
    write(made, bindings, context)
    assert caplog.messages == []
    made.regions.append(region("stray", "a", "a", [tensor("a")], []))
    again = read(write(made, bindings, context))
    assert len(again.regions) == 3
    (message,) = caplog.messages
    assert 'omitted, because MLIR cannot hold them: "stray"' in message


@pytest.mark.parametrize("misuse", ["operand", "output", "copy"])
def test_a_variable_used_as_a_value_is_refused(
    bindings: Bindings, context: Any, misuse: str
) -> None:
    made = counting()
    if misuse == "operand":
        made.main.operators[1].inputs = ("x", "v")
    elif misuse == "output":
        made.main.outputs = ["v"]
    else:
        other = tensor("w", "INT32", (1,))
        other.variable, other.variable_name = True, "w"
        made.main.tensors["w"] = other
        made.main.operators.append(op("IDENTITY", "v", "w"))
    with pytest.raises(TosaConvertError, match="is a variable, expected a value"):
        write(made, bindings, context)


def test_a_variable_that_differs_between_blocks_is_refused(
    bindings: Bindings, context: Any
) -> None:
    made = branching()
    for block, kind in zip((made.main, made.regions[1].blocks[0]), ("INT32", "INT8"), strict=True):
        state = tensor("v", kind, (1,))
        state.variable, state.variable_name = True, "v"
        block.tensors["v"] = state
    with refused("malformed-tensor", match=r"@v is INT8 .* here and INT32"):
        write(made, bindings, context)


def test_an_unranked_variable_is_refused_and_a_dynamic_one_is_not(
    bindings: Bindings, context: Any
) -> None:
    made = counting()
    made.main.tensors["v"].data = None
    made.main.tensors["v"].shape = None
    with refused("unsupported-shape", match="@counter is unranked"):
        write(made, bindings, context)
    made = counting()
    for name in ("v", "r", "x", "sum"):
        made.main.tensors[name].shape, made.main.tensors[name].data = (-1,), None
    again = read(write(made, bindings, context))
    assert again.main.tensors["v"].shape == (-1,)
    assert again.main.tensors["v"].dtype is dtype("INT32")
