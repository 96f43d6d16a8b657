"""Sizes that modules leave open, operations of other dialects that only say shapes, and calls."""

from __future__ import annotations

import io

import numpy as np
import pytest
from refusing import refused

import tosa_convert as tc
from tosa_convert.errors import TosaConvertError
from tosa_convert.graph import Graph
from tosa_convert.graph.compare import compare

OPEN = "tensor<?x?xf32>"
#: Lines of a function of %x : tensor<2x3xf32> -> the type of its result, and what its operators are.
SETTLED = [
    # What `tosa-infer-shapes` writes, and an open chain.
    ("%0 = tosa.abs %x : (S) -> S; %1 = tensor.cast %0 : S to O; return %1 : O", (2, 3), "ABS"),
    ("%0 = tosa.abs %x : (S) -> O; %1 = tosa.exp %0 : (O) -> O; return %1 : O", (2, 3), "ABS EXP"),
    (
        "%0 = tosa.abs %x : (S) -> tensor<*xf32>; %1 = tensor.cast %0 : tensor<*xf32> to O;"
        "return %1 : O",
        (2, 3),
        "ABS",
    ),
    # Casts of casts, of an input, and one that nothing uses.
    (
        "%0 = tensor.cast %x : S to O; %1 = tensor.cast %0 : O to tensor<?x3xf32>;"
        "%2 = tensor.cast %x : S to O; return %1 : tensor<?x3xf32>",
        (2, 3),
        "",
    ),
    # What remains, in today's RESHAPE and SLICE, with a result that is settled or not.
    *(
        (
            "%s = tosa.const_shape {values = dense<[3, -1]> : tensor<2xindex>} : () -> !tosa.shape<2>;"
            f"%0 = tosa.reshape %x, %s : (S, !tosa.shape<2>) -> {result}; return %0 : {result}",
            (3, 2),
            "CONST_SHAPE RESHAPE",
        )
        for result in ("tensor<3x2xf32>", OPEN)
    ),
    (
        "%b = tosa.const_shape {values = dense<[0, 1]> : tensor<2xindex>} : () -> !tosa.shape<2>;"
        "%s = tosa.const_shape {values = dense<[2, -1]> : tensor<2xindex>} : () -> !tosa.shape<2>;"
        "%0 = tosa.slice %x, %b, %s : (S, !tosa.shape<2>, !tosa.shape<2>) -> O; return %0 : O",
        (2, 2),
        "CONST_SHAPE CONST_SHAPE SLICE",
    ),
    # Sizes that nothing uses; those that `expand_shape` takes are those of its result.
    (
        "%c = arith.constant 0 : index; %d = tensor.dim %x, %c : S; %m = arith.muli %d, %d : index;"
        "%e = tensor.empty(%m) : tensor<?xf32>; %0 = tosa.abs %x : (S) -> S; return %0 : S",
        (2, 3),
        "ABS",
    ),
    (
        "%c = arith.constant 0 : index; %d = tensor.dim %x, %c : S;"
        "%g = tensor.cast %x : S to O; %0 = tensor.collapse_shape %g [[0, 1]] : O into tensor<?xf32>;"
        "%1 = tensor.expand_shape %0 [[0, 1]] output_shape [%d, 2] : tensor<?xf32> into tensor<?x2xf32>;"
        "return %1 : tensor<?x2xf32>",
        (3, 2),
        "CONST_SHAPE RESHAPE CONST_SHAPE RESHAPE",
    ),
    # Old text: the product needs the rank of the sum, and gives it another one.
    (
        '%c = "tosa.const"() <{value = dense<1.0> : tensor<3xf32>}> : () -> tensor<3xf32>;'
        "%0 = tosa.add %c, %c : (tensor<3xf32>, tensor<3xf32>) -> tensor<*xf32>;"
        "%1 = tosa.mul %0, %x {shift = 0 : i8} : (tensor<*xf32>, S) -> tensor<*xf32>;"
        "return %1 : tensor<*xf32>",
        (2, 3),
        "CONST ADD CONST CONST_SHAPE RESHAPE MUL",
    ),
]
#: Lines that are refused -> what the message has.
REFUSED = [
    (
        "%0 = tosa.abs %x : (S) -> S; %1 = tensor.cast %0 : S to tensor<4x3xf32>;"
        "return %1 : tensor<4x3xf32>",
        "unsupported-shape",
        "'tensor.cast' says FP32 [4, 3], and its operand is FP32 [2, 3] by -:2:7",
    ),
    (
        "%0 = tensor.collapse_shape %x [[0, 1]] : S into tensor<*xf32>; return %0 : tensor<*xf32>",
        "unsupported-shape",
        "RESHAPE infers one size",
    ),
    (
        "%c = arith.constant 0 : index; %d = tensor.dim %x, %c : S;"
        "%e = tensor.splat %x[%d] : O; %0 = tosa.abs %e : (O) -> O; return %0 : O",
        "unsupported-type",
        "'tensor.splat' is not a TOSA operator",
    ),
    (
        "%0 = call @none(%x) : (S) -> S; return %0 : S",
        "foreign-operator",
        "no function of this name",
    ),
    ("%0 = call @main(%x) : (S) -> S; return %0 : S", "foreign-operator", "it calls itself"),
    ("%0 = call @f(%x) : (S) -> O; return %0 : O", "foreign-operator", "its type is not that of"),
]
CALLS = """
func.func @main(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %0 = call @twice(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = func.call @twice(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = call @same(%1) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0, %2 : tensor<2x3xf32>, tensor<2x3xf32>
}
func.func private @same(%x: tensor<2x3xf32>) -> tensor<2x3xf32> { return %x : tensor<2x3xf32> }
func.func private @twice(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %c = "tosa.const"() <{values = dense<true> : tensor<i1>}> : () -> tensor<i1>
  %0 = tosa.cond_if %c (%y = %x) : tensor<i1> (tensor<2x3xf32>) -> tensor<2x3xf32> {
    %1 = tosa.add %y, %y : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    tosa.yield %1 : tensor<2x3xf32>
  } else {
    tosa.yield %y : tensor<2x3xf32>
  }
  return %0 : tensor<2x3xf32>
}
"""


def module(lines: str) -> bytes:
    """Return a module of lines in which S is the type of %x and O is open."""
    lines = lines.replace(";", "\n ")
    for short, full in (("S", "tensor<2x3xf32>"), ("O", OPEN)):
        for before in " (":
            for after in (" ", ",", ")", "\n"):
                lines = f"{lines}\n".replace(f"{before}{short}{after}", f"{before}{full}{after}")
    result = lines.strip().rpartition(": ")[2]
    text = f"func.func @main(%x: tensor<2x3xf32>) -> {result} {{\n {lines}}}\n"
    other = "func.func private @f(%x: S) -> S { return %x : S }".replace("S", "tensor<2x3xf32>")
    return (text + other).encode()


def kinds(graph: Graph) -> str:
    return " ".join(op.spec.name for op in graph.main.operators)


@pytest.mark.parametrize(("lines", "shape", "operators"), SETTLED)
def test_sizes_that_follow_are_settled_on_reading(
    lines: str, shape: tuple[int, ...], operators: str
) -> None:
    graph = tc.load(module(lines))
    (result,) = graph.main.outputs
    assert graph.main.tensors[result].shape == shape
    assert kinds(graph) == operators
    assert not list(tc.validate(graph))
    given = {"TosaInput_0": np.arange(6, dtype=np.float32).reshape(2, 3)}
    assert tc.golden.run(graph, given, engine="numpy").outputs[result].shape == shape


@pytest.mark.parametrize("package", ["torch_mlir"])
@pytest.mark.parametrize("lines", [row[0] for row in SETTLED[:-1]])
def test_bytecode_of_mlir_reads_like_its_text(lines: str, package: str) -> None:
    ir = pytest.importorskip(f"{package}.ir")
    text = module(lines)
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        try:
            parsed = ir.Module.parse(text.decode())
        except Exception as error:
            pytest.skip(f"these bindings have another TOSA: {str(error)[:80]}")
        data = io.BytesIO()
        parsed.operation.write_bytecode(data)
    compare(tc.load(data.getvalue()), tc.load(text), locations=False)


def test_a_flatbuffer_with_open_sizes_keeps_them_and_runs() -> None:
    graph = tc.load(module(SETTLED[1][0]))
    for name in ("layer_0", graph.main.outputs[0]):
        graph.main.tensors[name].shape = (-1, -1)
    graph.version = tc.graph.versions.V1_1_DRAFT
    stored = tc.dumps(graph, "tosa")
    assert tc.load(stored).main.tensors["layer_0"].shape == (-1, -1)
    result = tc.golden.run(
        stored, {"TosaInput_0": np.ones((2, 3), np.float32)}, engine="numpy"
    ).outputs
    assert result["TosaOutput_0"].shape == (2, 3)


@pytest.mark.parametrize(("lines", "code", "message"), REFUSED)
def test_what_does_not_follow_is_refused_with_both_places(
    lines: str, code: str, message: str
) -> None:
    with refused(code) as caught:
        tc.load(module(lines))
    assert any(message in finding.message for finding in caught.value.findings)


def test_calls_of_private_functions_are_inlined() -> None:
    graph = tc.load(CALLS.encode())
    assert kinds(graph) == "CONST COND_IF CONST COND_IF"
    assert len(graph.regions) == 5
    assert not list(tc.validate(graph))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    results = tc.golden.run(graph, {graph.main.inputs[0]: x}, engine="numpy").outputs
    assert [list(results[name].ravel()) for name in graph.main.outputs] == [
        list((x * factor).ravel()) for factor in (2, 4)
    ]


def test_calls_and_casts_of_captured_values_are_passed_in() -> None:
    a = "tensor<2xf32>"
    text = f"""func.func @main(%a: {a}, %c: tensor<i1>) -> {a} {{
  %k = tensor.cast %a : {a} to tensor<?xf32>
  %0 = tosa.cond_if %c (%x = %a) : tensor<i1> ({a}) -> {a} {{
    %1 = func.call @g(%a) : ({a}) -> {a}
    %2 = tensor.cast %k : tensor<?xf32> to {a}
    %3 = tosa.add %1, %2 : ({a}, {a}) -> {a}
    tosa.yield %3 : {a}
  }} else {{
    %1 = func.call @g(%x) : ({a}) -> {a}
    tosa.yield %1 : {a}
  }}
  return %0 : {a}
}}
func.func private @g(%a: {a}) -> {a} {{
  %0 = tosa.exp %a : ({a}) -> {a}
  return %0 : {a}
}}"""
    graph = tc.load(text.encode(), pass_captured=True)
    assert not list(tc.validate(graph))
    given = {"TosaInput_0": np.zeros(2, np.float32), "TosaInput_1": np.array(True)}
    result = tc.golden.run(graph, given, engine="numpy").outputs["TosaOutput_0"]
    np.testing.assert_array_equal(result, np.ones(2, np.float32))
    with pytest.raises(TosaConvertError, match="uses %arg0 from outside its region"):
        tc.load(text.encode())


def test_calls_that_become_too_many_operators_are_refused() -> None:
    call = "%{} = call @f{}(%{}) : (tensor<2xf32>) -> tensor<2xf32>"
    functions = [
        f"func.func {'private ' * bool(index)}@f{index}(%x: tensor<2xf32>) -> tensor<2xf32> {{\n"
        f"  {call.format(0, index + 1, 'x')}\n  {call.format(1, index + 1, 0)}\n"
        "  return %1 : tensor<2xf32>\n}"
        for index in range(20)
    ]
    end = "func.func private @f20(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }"
    with pytest.raises(TosaConvertError, match="become too many operators"):
        tc.load("\n".join([*functions, end]).encode())
