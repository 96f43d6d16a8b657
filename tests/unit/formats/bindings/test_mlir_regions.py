"""Control flow and variables: regions, their names, and captured values."""

from __future__ import annotations

from typing import Any

import pytest
from unit.building import branching, counting, graph, op, region, tensor

import tosa_convert as tc
from tosa_convert.builder import Builder, Value
from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.bindings.modules import read, write
from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.formats.flatbuffer.read import read as read_flatbuffer
from tosa_convert.formats.flatbuffer.write import plan
from tosa_convert.formats.mlir.write import function as writing
from tosa_convert.formats.mlir.write.function import MAX_NESTING
from tosa_convert.graph import Graph, compare, dtype, verify
from tosa_convert.graph.model import SoftwareVersion
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


def test_each_region_is_named_after_its_location(parse: Any) -> None:
    found = read(parse(function(cond_if("r", "a"))))
    assert verify(found) == []
    assert names(found) == ["f", "-_L2_tosa.cond_if_then_region", "-_L2_tosa.cond_if_else_region"]
    assert [region.blocks[0].name for region in found.regions[1:]] == [
        "-_L2_tosa.cond_if_then_region_bb0",
        "-_L2_tosa.cond_if_else_region_bb0",
    ]
    operator = found.main.operators[0]
    assert operator.attributes == {"then_graph": names(found)[1], "else_graph": names(found)[2]}
    assert found.regions[1].blocks[0].inputs == ["TosaInput_2"]
    assert found.regions[1].blocks[0].outputs == ["TosaOutput_1"]
    assert found.regions[2].blocks[0].outputs == ["TosaInput_3"]


def test_regions_of_two_operators_on_one_line_get_different_names(parse: Any) -> None:
    found = read(parse(function(cond_if("q", "a") + " " + cond_if("r", "q"))))
    assert verify(found) == []
    assert len(set(names(found))) == len(names(found)) == 5
    first, second = found.main.operators
    assert not set(first.attributes.values()) & set(second.attributes.values())


def test_operators_without_a_line_are_numbered(parse: Any) -> None:
    text = function(cond_if("q", "a") + " loc(unknown) " + cond_if("r", "q") + ' loc("n")')
    assert names(read(parse(text)))[1:] == [
        "0_tosa.cond_if_then_region",
        "0_tosa.cond_if_else_region",
        "1_tosa.cond_if_then_region",
        "1_tosa.cond_if_else_region",
    ]


@pytest.mark.parametrize(
    ("file", "stem"),
    [
        ("dir/model.x.mlir", "model.x"),
        ("model", "model"),
        (".hidden", ".hidden"),
        ("a\\\\b.py", None),
    ],
)
def test_the_name_of_a_region_has_the_stem_of_the_file_without_folders(
    parse: Any, file: str, stem: str | None
) -> None:
    text = function(cond_if("r", "a") + f' loc("{file}":7:1)')
    found = names(read(parse(text)))[1]
    if stem is not None:
        assert found == f"{stem}_L7_tosa.cond_if_then_region"
    assert "dir" not in found


def test_a_function_may_have_the_name_that_a_region_would_get(parse: Any) -> None:
    text = function(cond_if("r", "a")).replace("@f", '@"-_L2_tosa.cond_if_then_region"')
    found = read(parse(text))
    assert verify(found) == []
    assert len(set(names(found))) == 3


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


def test_a_loop_has_a_condition_and_a_body(parse: Any) -> None:
    kind = "tensor<i32>"
    text = (
        f"func.func @f(%a: {kind}) -> {kind} {{\n"
        f'%r = "tosa.while_loop"(%a) ({{ ^bb0(%x: {kind}): %1 = "tosa.greater"(%x, %x) : '
        f'({kind}, {kind}) -> tensor<i1> "tosa.yield"(%1) : (tensor<i1>) -> () }}, '
        f'{{ ^bb0(%x: {kind}): "tosa.yield"(%x) : ({kind}) -> () }}) : ({kind}) -> {kind}\n'
        f"return %r : {kind}\n}}\n"
    )
    found = read(parse(text))
    assert verify(found) == []
    assert names(found)[1:] == [
        "-_L2_tosa.while_loop_cond_region",
        "-_L2_tosa.while_loop_body_region",
    ]
    assert found.main.operators[0].attributes == {
        "cond_graph": names(found)[1],
        "body_graph": names(found)[2],
    }


@pytest.mark.parametrize("text", [function(cond_if("r", "a")), NESTED])
def test_control_flow_survives_the_round_trip_through_mlir(
    parse: Any, bindings: Bindings, context: Any, text: str
) -> None:
    found = read(parse(text))
    again = read(write(found, bindings, context))
    assert compare(found, again, locations=True) is None
    generated = read(write(found, bindings, context, names="generate"))
    assert compare(found, generated, names=False) is None


def test_names_of_a_file_survive_the_round_trip_through_mlir(
    bindings: Bindings, context: Any
) -> None:
    made = branching()
    again = read(write(made, bindings, context))
    assert compare(made, again) is None
    text = str(write(made, bindings, context, names="generate"))
    assert '"then"' not in text


@pytest.mark.parametrize(
    "value",
    ["7 : i32", '"then"', "[]", "[7, 8]", "[{}, {}]", '[{name = 7}, {inputs = 7, outputs = "x"}]',
     '[{name = "f"}, {name = "f"}]', '[{inputs = ["a", "a", "a"]}, {outputs = [1, 2]}]'],
)  # fmt: skip
def test_region_names_in_another_form_are_ignored(parse: Any, value: str) -> None:
    text = function(cond_if("r", "a").replace("}) :", f"}}) {{tosa.regions = {value}}} :"))
    found = read(parse(text))
    assert verify(found) == []
    assert len(found.regions) == 3


def test_a_region_may_use_only_its_arguments(parse: Any) -> None:
    inner = f'%t1 = "tosa.add"(%t, %a) : ({T}, {T}) -> {T} "tosa.yield"(%t1) : ({T}) -> ()'
    with pytest.raises(TosaConvertError) as caught:
        read(parse(function(cond_if("r", "a", then=inner))))
    assert [finding.code for finding in caught.value.findings] == ["captured-value"]
    assert "%arg1" in caught.value.findings[0].message


def test_a_captured_value_has_its_name_in_the_text(parse: Any) -> None:
    cube = "tensor<1x4x8xf32>"
    two = f'%re, %im = "tosa.fft2d"(%x, %x) <{{inverse = false}}> : ({cube}, {cube}) -> ({cube}, {cube})'
    inner = f'"tosa.exp"(%im) : ({cube}) -> {cube} "tosa.yield"(%t) : ({T}) -> ()'
    text = function(f"{two} " + cond_if("r", "a", then=inner)).replace("(", f"(%x: {cube}, ", 1)
    with pytest.raises(TosaConvertError) as caught:
        read(parse(text))
    assert (
        "'tosa.exp' uses %output_imag from outside its region" in caught.value.findings[0].message
    )


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


def test_regions_may_be_nested_as_deep_as_tosa_allows(bindings: Bindings, context: Any) -> None:
    made = nested(MAX_NESTING)
    module = write(made, bindings, context, names="generate")
    assert len(read(module).regions) == 2 * MAX_NESTING + 1


@pytest.mark.parametrize("depth", [MAX_NESTING + 1, 5000])
def test_deeper_nesting_is_refused_without_recursion(
    bindings: Bindings, context: Any, depth: int
) -> None:
    with pytest.raises(TosaConvertError, match=f"nested more than {MAX_NESTING} deep") as caught:
        write(nested(depth), bindings, context)
    assert caught.value.code == "too-large"


def test_shared_regions_cannot_make_an_enormous_module_of_a_small_file(
    bindings: Bindings, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "OPERATORS_FREE", 1000)
    made = nested(64, branches=2)
    assert verify(made) == []
    with pytest.raises(TosaConvertError, match="a copy of a region for each use") as caught:
        write(made, bindings, context)
    assert caught.value.code == "too-large"
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


def test_a_region_that_several_operators_run_is_one_region_again(
    bindings: Bindings, context: Any, caplog: pytest.LogCaptureFixture
) -> None:
    made = sharing()
    module = write(made, bindings, context)
    assert caplog.messages == [
        "MLIR cannot share a region, so each operator that runs one of these has a copy: "
        '"outer" (3 copies), "then" (6 copies)'
    ]
    again = read(module)
    assert compare(made, again) is None
    # Names are not generated for copies that are gone, so a second round trip is the same.
    assert str(write(again, bindings, context)) == str(module)
    generated = read(write(made, bindings, context, names="generate"))
    assert len(generated.regions) == 11
    assert compare(made, generated, names=False) is None


def test_a_copy_that_a_pass_changed_remains(parse: Any, bindings: Bindings, context: Any) -> None:
    made = sharing()
    text = str(write(made, bindings, context))
    changed = parse(text.replace("tosa.exp", "tosa.abs", 1))
    found = read(changed)
    assert verify(found) == []
    assert names(found) == ["main", "outer", "then", "then_2", "outer_1", "then_1"]
    kinds = {r.name: [o.spec.name for o in r.blocks[0].operators] for r in found.regions}
    assert kinds["then"] == ["ABS"]
    assert kinds["then_2"] == ["EXP"]
    runs = [
        [o.attributes[row.name] for o in r.blocks[0].operators for row in o.spec.regions]
        for r in found.regions
    ]
    assert runs[0] == ["outer", "outer_1", "outer_1", "then_1"]
    assert runs[1] == ["then", "then_2"]
    assert runs[4] == ["then_2", "then_2"]


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
    with pytest.raises(TosaConvertError, match='that no operator runs: "stray"') as caught:
        tc.dumps(made, file_format, verify=True)
    assert caught.value.code == "option-conflict"
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


def test_a_variable_survives_the_round_trip_through_every_format(
    bindings: Bindings, context: Any
) -> None:
    made = counting()
    module = write(made, bindings, context)
    again = read(module)
    assert compare(made, again, names=False) is None
    data = b"".join(plan(again, SoftwareVersion(1, 0, 0)).pieces())
    assert compare(again, read_flatbuffer(data), locations=True) is None


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
    with pytest.raises(TosaConvertError, match=r"@v is INT8 .* here and INT32") as caught:
        write(made, bindings, context)
    assert caught.value.code == "malformed-tensor"


def test_an_unranked_variable_is_refused_and_a_dynamic_one_is_not(
    bindings: Bindings, context: Any
) -> None:
    made = counting()
    made.main.tensors["v"].data = None
    made.main.tensors["v"].shape = None
    with pytest.raises(TosaConvertError, match="@counter is unranked") as caught:
        write(made, bindings, context)
    assert caught.value.code == "unsupported-shape"
    made = counting()
    for name in ("v", "r", "x", "sum"):
        made.main.tensors[name].shape, made.main.tensors[name].data = (-1,), None
    again = read(write(made, bindings, context))
    assert again.main.tensors["v"].shape == (-1,)
    assert again.main.tensors["v"].dtype is dtype("INT32")


@pytest.mark.parametrize("form", ["mlir", "mlirbc", "json", "tosa"])
def test_a_block_lists_the_variables_that_it_uses_and_the_main_block_all(form: Format) -> None:
    b = Builder()
    x, condition = b.input("x", "fp32", (2,)), b.input("condition", "bool", ())
    used, unused = (b.variable(name, "fp32", (2,), initial=1) for name in ("used", "unused"))

    def then(inner: Builder, value: Value) -> Value:
        inner.write(used, inner.add(inner.read(used), value))
        return value

    (y,) = b.cond_if(condition, [x], then, lambda inner, value: inner.negate(value))
    b.output(b.add(y, b.read(unused)))
    made = b.graph()
    again = tc.load(tc.dumps(made, form))
    assert compare(made, again, names=True, locations=True) is None
    listed = [
        {(t.variable_name, t.data is not None) for t in block.tensors.values() if t.variable}
        for _, block in again.blocks()
    ]
    assert listed == [{("used", True), ("unused", True)}, {("used", True)}, set()]
    # As tosa-opt does: the program is the same, but every block lists every variable.
    everywhere = tc.load(tc.dumps(made, "mlir"), names="generate")
    assert [sum(t.variable for t in b.tensors.values()) for _, b in everywhere.blocks()] == [2] * 3
    assert compare(made, everywhere, names=False) is None
