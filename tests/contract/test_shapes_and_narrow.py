"""Shapes that become static, and element types that become narrower, both only on request."""

from __future__ import annotations

import importlib.util
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract.conftest import CASES

import tosa_convert as tc
from tosa_convert.bindings.packages import Bindings
from tosa_convert.cli.main import run as run_tool
from tosa_convert.cli.main import verb

#: Beside the checkout; no part of the project.
MODELS = Path("../shared/models")
NARROW = ("i64", "f64")


@pytest.fixture
def reference(oracle: Any) -> Any:
    """Run a program on the reference model: (program, inputs in order) -> outputs in order."""
    from tosa_convert import golden
    from tosa_convert.golden.programs import input_slots

    def run(graph: tc.Graph, *inputs: Any) -> list[Any]:
        slots = input_slots(graph)
        given = {slot.key: array for slot, array in zip(slots, inputs, strict=True)}
        outputs = golden.run(graph, given).outputs
        return [outputs[name] for name in graph.main.outputs]

    return run


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What is reported, a line each."""
    caplog.set_level(logging.INFO, "tosa_convert")
    lines: list[str] = []
    caplog.handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    return lines


def export(bindings: Bindings, text: str, **options: Any) -> tc.Graph:
    module = bindings.ir.Module.parse(text, bindings.new_context())
    before = str(module)
    graph = tc.load(tc.export_tosa_func_to_flatbuffer(module, **options))
    assert str(module) == before, "the caller's module was changed"
    return graph


def shapes(graph: tc.Graph) -> dict[str, Any]:
    return {name: tensor.shape for name, tensor in graph.main.tensors.items()}


# -- shapes -------------------------------------------------------------------------------------

DYNAMIC = """
func.func @f(%x: tensor<?x4xf32> {tosa.tensor_name = "x"}, %y: tensor<1x?xf32>)
    -> (tensor<?x4xf32> {tosa.tensor_name = "z"}) {
  %0 = tosa.add %x, %y : (tensor<?x4xf32>, tensor<1x?xf32>) -> tensor<?x4xf32>
  %1 = tosa.abs %0 : (tensor<?x4xf32>) -> tensor<?x4xf32>
  return %1 : tensor<?x4xf32>
}
"""
#: A reshape to whatever is left.
REST = """
func.func @f(%x: tensor<?x2x3xf32> {tosa.tensor_name = "x"}) -> tensor<?x?xf32> {
  %s = tosa.const_shape {values = dense<[-1, 6]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %0 = tosa.reshape %x, %s : (tensor<?x2x3xf32>, !tosa.shape<2>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}
"""


def test_the_shapes_of_arguments_reach_the_results(torch_mlir: Bindings, reference: Any) -> None:
    given = {"x": (2, 4), "arg1": (1, 4)}
    graph = export(torch_mlir, DYNAMIC, input_shapes=given)
    assert set(shapes(graph).values()) == {(2, 4), (1, 4)}
    x, y = np.arange(8, dtype=np.float32).reshape(2, 4) - 3, np.ones((1, 4), np.float32)
    (z,) = reference(graph, x, y)
    np.testing.assert_array_equal(z, np.abs(x + y))


def test_a_reshape_to_what_is_left_gets_its_sizes(torch_mlir: Bindings, reference: Any) -> None:
    graph = export(torch_mlir, REST, input_shapes={"x": (5, 2, 3)})
    (shape,) = graph.main.shapes.values()
    assert shape.values() == (5, 6)
    x = np.arange(30, dtype=np.float32).reshape(5, 2, 3)
    np.testing.assert_array_equal(reference(graph, x)[0], x.reshape(5, 6))


def test_an_unranked_argument_may_get_a_shape(torch_mlir: Bindings) -> None:
    text = (
        "func.func @f(%x: tensor<*xf32>) -> tensor<*xf32> "
        "{ %0 = tosa.exp %x : (tensor<*xf32>) -> tensor<*xf32> return %0 : tensor<*xf32> }"
    )
    assert set(shapes(export(torch_mlir, text, input_shapes={"arg0": (2, 3)})).values()) == {(2, 3)}


def test_names_are_those_of_the_file(torch_mlir: Bindings) -> None:
    for key in ("TosaInput_0", "arg1"):
        graph = export(torch_mlir, DYNAMIC, input_shapes={"x": (2, 4), key: (1, 4)})
        assert set(shapes(graph).values()) == {(2, 4), (1, 4)}


def test_what_does_not_fit_is_refused_all_at_once(torch_mlir: Bindings) -> None:
    with pytest.raises(tc.TosaConvertError) as caught:
        export(torch_mlir, DYNAMIC, input_shapes={"nobody": (1,), "x": (2, 5), "arg1": (4,)})
    assert [(f.code, f.message) for f in caught.value.findings] == [
        ("unknown-argument", 'no argument is called "nobody"'),
        ("unsupported-shape", 'argument "x": the shape 2x5 does not fit its type tensor<?x4xf32>'),
        ("unsupported-shape", 'argument "arg1": the shape 4 does not fit its type tensor<1x?xf32>'),
    ]
    assert caught.value.findings[0].hint == 'arguments: "x", "TosaInput_0"'


def test_what_stays_dynamic_is_told_with_the_reason(torch_mlir: Bindings, told: list[str]) -> None:
    text = """
    func.func @f(%x: tensor<?xf32>, %y: tensor<?xf32>, %p: tensor<1x?x2xf32>, %i: tensor<1x3xi32>)
        -> (tensor<?xf32>, tensor<?xf32>, tensor<?x?xf32>) {
      %0 = tosa.abs %x : (tensor<?xf32>) -> tensor<?xf32>
      %1 = tosa.abs %y : (tensor<?xf32>) -> tensor<?xf32>
      %2 = tosa.custom %0 {domain_name = "d", implementation_attrs = "", operator_name = "o"}
          : (tensor<?xf32>) -> tensor<?x?xf32>
      return %0, %1, %2 : tensor<?xf32>, tensor<?xf32>, tensor<?x?xf32>
    }
    """
    graph = export(torch_mlir, text, input_shapes={"arg0": (7,)})
    assert shapes(graph)["TosaOutput_0"] == (7,)
    by_name = {line.split('"')[1]: line for line in told if "stays dynamic" in line}
    assert set(by_name) == {"TosaInput_1", "TosaInput_2", "TosaOutput_1", "TosaOutput_2"}
    assert by_name["TosaInput_1"].endswith("no shape was given for it")
    assert "ABS has the dynamic input TosaInput_1" in by_name["TosaOutput_1"]
    assert "CUSTOM has static inputs, and MLIR infers no shape" in by_name["TosaOutput_2"]


def test_nothing_is_told_where_all_is_static(torch_mlir: Bindings, told: list[str]) -> None:
    export(torch_mlir, DYNAMIC, input_shapes={"x": (2, 4), "arg1": (1, 4)})
    assert told == []


def test_bindings_without_the_pass_are_refused_by_name(tmp_path: Path) -> None:
    from tosa_convert.bindings.packages import default_bindings, installed

    if "iree.compiler" not in installed():
        pytest.skip("the MLIR bindings iree.compiler are not installed")
    iree = default_bindings("iree.compiler")
    with pytest.raises(tc.TosaConvertError) as caught:
        export(iree, DYNAMIC, input_shapes={"x": (2, 4), "arg1": (1, 4)})
    assert caught.value.code == "missing-bindings"
    assert f"{iree} does not have the pass tosa-infer-shapes" in str(caught.value)


@pytest.mark.parametrize("text", ["x", "x=", "=2", "x=2xa", "x=-1x4", "x=2,4"])
def test_the_option_says_what_it_expects(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], torch_mlir: Bindings
) -> None:
    source = tmp_path / "m.mlir"
    source.write_text(DYNAMIC, encoding="utf-8")
    target = tmp_path / "m.tosa"
    code = run_tool(verb("convert"), [str(source), "-o", str(target), "--input-shape", text])
    said = capsys.readouterr().err
    if text in ("x=", "=2"):  # no sizes: rank 0; no name: nobody's
        assert code in (2, 4)
        assert "error" in said.lower()
    else:
        assert code == 2
        assert "expected NAME=SIZExSIZE" in said
    assert not target.exists()


@pytest.mark.oracle
@pytest.mark.parametrize("model", ["hello_world_float", "hello_world_int8"])
def test_hello_world_runs_with_the_shape_it_is_given(
    model: str, root: Path, tmp_path: Path, torch_mlir: Bindings, oracle: Any
) -> None:
    source = (root / MODELS / f"{model}.tflite").resolve()
    if not source.exists():
        pytest.skip("there is no ../shared/models beside the checkout")
    if importlib.util.find_spec("tosa_converter_for_tflite") is None:
        pytest.skip("tosa-converter-for-tflite is not installed")
    module, target = tmp_path / "m.mlirbc", tmp_path / "m.tosa"
    converter = Path(sys.executable).with_name("tosa-converter-for-tflite")
    subprocess.run([converter, source, "--bytecode", "-o", module], check=True, capture_output=True)
    dynamic = tc.load(module)
    name = dynamic.main.inputs[0]
    assert -1 in (dynamic.main.tensors[name].shape or ())
    argument = f"{name}=1x1"
    assert run_tool(
        verb("convert"), [str(module), "-o", str(target), "--input-shape", argument]
    ) == 0  # fmt: skip
    graph = tc.load(target)
    assert all(tensor.element_count() is not None for tensor in graph.main.tensors.values())
    from tosa_convert import golden

    kind = graph.main.tensors[name].dtype.numpy
    for x in (0.0, 1.0, 3.0):
        given = np.array([[round(x / 0.02456) - 128]] if kind == np.int8 else [[x]]).astype(kind)
        (found,) = golden.run(graph, {name: given}).outputs.values()
        value = (float(found[0, 0]) - 4) * 0.0084 if kind == np.int8 else float(found[0, 0])
        assert value == pytest.approx(np.sin(x), abs=0.1)


# -- narrowing ----------------------------------------------------------------------------------

PROGRAMS = sorted(path.stem for path in CASES.glob("narrow_*.mlir"))


@pytest.mark.oracle
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_narrowed_program_gives_torchs_answer(
    name: str, torch_mlir: Bindings, reference: Any
) -> None:
    text = (CASES / f"{name}.mlir").read_text(encoding="utf-8")
    with pytest.raises(tc.TosaConvertError) if "f64" in text else _nothing():
        export(torch_mlir, text)
    graph = export(torch_mlir, text, narrow=NARROW)
    kinds = {tensor.dtype.name for tensor in graph.main.tensors.values()}
    assert not kinds & {"INT64", "FP64"}
    given = np.load(CASES / f"{name}_in.npy")
    expected = [np.load(path) for path in sorted(CASES.glob(f"{name}_out*.npy"))]
    assert expected
    (slot,) = graph.main.inputs
    narrow = given.astype(graph.main.tensors[slot].dtype.numpy)
    assert (narrow == given).all()
    found = reference(graph, narrow)
    assert len(found) == len(expected)
    for ours, torchs in zip(found, expected, strict=True):
        assert ours.shape == torchs.shape
        assert ours.dtype == {"int64": "int32", "float64": "float32"}.get(
            str(torchs.dtype), str(torchs.dtype)
        )
        np.testing.assert_array_equal(ours, torchs)


class _nothing:  # noqa: N801
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


def test_the_programs_hold_what_torch_mlir_leaves() -> None:
    text = "".join((CASES / f"{name}.mlir").read_text(encoding="utf-8") for name in PROGRAMS)
    for what in ("arith.constant dense", "xi64>", "xf64>", "dense_resource<torch_tensor"):
        assert what in text
    assert len(PROGRAMS) >= 7


def unary(operator: str, kind: str, result: str = "", attributes: str = "") -> str:
    result = result or kind
    return (
        f'func.func @f(%x: {kind} {{tosa.tensor_name = "x"}}) -> ({result} {{tosa.tensor_name = "y"}}) '
        f'{{ %0 = "{operator}"(%x) {attributes} : ({kind}) -> {result} return %0 : {result} }}'
    )


I64, F64, I32 = "tensor<4xi64>", "tensor<4xf64>", "tensor<4xi32>"


def constant(values: str, kind: str = I64, form: str = "tosa.const", resources: str = "") -> str:
    if form == "arith.constant":
        made = f"arith.constant {values} : {kind}"
    else:
        made = f'"tosa.const"() <{{values = {values} : {kind}}}> : () -> {kind}'
    return (
        f'func.func @f() -> ({kind} {{tosa.tensor_name = "y"}}) '
        f"{{ %0 = {made} return %0 : {kind} }}{resources}"
    )


def resource(*numbers: int) -> str:
    raw = np.array(numbers, "<i8").tobytes().hex().upper()
    return f'\n{{-# dialect_resources: {{ builtin: {{ r: "0x08000000{raw}" }} }} #-}}'


@pytest.mark.parametrize("form", ["tosa.const", "arith.constant", "resource", "variable"])
@pytest.mark.parametrize("fits", [True, False])
def test_i64_constants_fit_or_are_refused_in_every_form(
    form: str, fits: bool, torch_mlir: Bindings, told: list[str]
) -> None:
    numbers = [0, -1, -(2**31), 2**31 - (1 if fits else 0)]
    values = f"dense<{numbers}>"
    if form == "resource":
        text = constant("dense_resource<r>", resources=resource(*numbers))
    elif form == "variable":
        text = f"tosa.variable @v = {values} : {I64}\n" + (
            f'func.func @f() -> ({I64} {{tosa.tensor_name = "y"}}) '
            f'{{ %0 = "tosa.variable_read"() {{name = "v"}} : () -> {I64} return %0 : {I64} }}'
        )
    else:
        text = constant(values, form=form)
    if not fits:
        with pytest.raises(tc.TosaConvertError) as caught:
            export(torch_mlir, text, narrow=["i64"])
        assert caught.value.code == "value-out-of-range"
        assert "element 3 is 2147483648, which does not fit i32" in str(caught.value)
        assert caught.value.findings[0].hint.startswith("leave i64 out of the types to narrow")
        return
    graph = export(torch_mlir, text, narrow=["i64"])
    name = "Variable_0" if form == "variable" else "y"
    tensor = graph.main.tensors[name]
    assert tensor.dtype.name == "INT32"
    assert tensor.data is not None
    assert tensor.data.numpy().tolist() == numbers
    (line,) = told
    assert line.startswith("narrowed i64 to i32 in ")
    assert set(line.partition("tensors: ")[2].split(", ")) == set(graph.main.tensors)


@pytest.mark.parametrize("form", ["tosa.const", "arith.constant"])
def test_splats_are_narrowed_too(form: str, torch_mlir: Bindings) -> None:
    graph = export(torch_mlir, constant("dense<-7>", form=form), narrow=["i64"])
    data = graph.main.tensors["y"].data
    assert data is not None
    assert data.numpy().tolist() == [-7] * 4
    with pytest.raises(tc.TosaConvertError, match="element 0 is 4294967296"):
        export(torch_mlir, constant("dense<4294967296>", form=form), narrow=["i64"])


def test_f64_constants_are_rounded_with_a_report_and_refused_beyond_f32(
    torch_mlir: Bindings, told: list[str]
) -> None:
    graph = export(
        torch_mlir, constant("dense<[0.1, 0.5, 0x7FF0000000000000, -0.0]>", F64), narrow=["f64"]
    )
    data = graph.main.tensors["y"].data
    assert data is not None
    assert data.numpy().tobytes() == np.array([0.1, 0.5, np.inf, -0.0], "f4").tobytes()
    assert told == [
        "narrowed f64 to f32 in 1 tensors: y",
        "narrowing f64 to f32 rounded 1 constant elements",
    ]
    with pytest.raises(tc.TosaConvertError, match=r"element 1 is 1e\+300, which does not fit f32"):
        export(torch_mlir, constant("dense<[0.1, 1.0e300, 0.0, 0.0]>", F64), narrow=["f64"])


def test_only_what_is_asked_for_is_narrowed(torch_mlir: Bindings, told: list[str]) -> None:
    graph = export(torch_mlir, unary("tosa.abs", I64))
    assert graph.main.tensors["y"].dtype.name == "INT64"
    assert graph.version == tc.graph.versions.V1_1_DRAFT
    with pytest.raises(tc.TosaConvertError, match="TOSA has no element type f64"):
        export(torch_mlir, unary("tosa.abs", F64), narrow=["i64"])
    assert told == []
    narrowed = export(torch_mlir, unary("tosa.abs", I64), narrow=["i64"])
    assert narrowed.version == tc.graph.versions.V1_0
    assert told == ["narrowed i64 to i32 in 2 tensors: x, y"]
    with pytest.raises(tc.TosaConvertError, match=r"found 'i32', expected some of i64, f64"):
        export(torch_mlir, unary("tosa.abs", I64), narrow=["i32"])


@pytest.mark.parametrize(
    ("source", "target"), [(I64, I32), (I32, I64), (F64, "tensor<4xf32>"), ("tensor<4xf32>", F64)]
)
def test_a_cast_with_nothing_left_to_do_becomes_an_identity(
    source: str, target: str, torch_mlir: Bindings, reference: Any
) -> None:
    graph = export(torch_mlir, unary("tosa.cast", source, target), narrow=NARROW)
    assert [op.spec.name for op in graph.main.operators] == ["IDENTITY"]
    x = np.arange(4).astype(graph.main.tensors["x"].dtype.numpy)
    np.testing.assert_array_equal(reference(graph, x)[0], x)


def test_a_cast_with_something_to_do_stays(torch_mlir: Bindings) -> None:
    for source, target in ((I64, "tensor<4xi8>"), ("tensor<4xf32>", I64), (F64, I64)):
        graph = export(torch_mlir, unary("tosa.cast", source, target), narrow=NARROW)
        assert [op.spec.name for op in graph.main.operators] == ["CAST"]


def clamp(kind: str, low: str, high: str) -> str:
    element = kind[len("tensor<4x") : -1]
    return unary(
        "tosa.clamp",
        kind,
        attributes=f"{{min_val = {low} : {element}, max_val = {high} : {element}}}",
    )


@pytest.mark.parametrize(
    ("kind", "low", "high", "expected"),
    [
        (I64, "-5", "7", (-5, 7)),
        (I64, "0", str(2**63 - 1), (0, 2**31 - 1)),
        (I64, str(-(2**63)), "9", (-(2**31), 9)),
        (F64, "-0.5", "2.25", (-0.5, 2.25)),
        (F64, "0.0", "1.7976931348623157E+308", (0.0, float(np.finfo("f4").max))),
        (F64, "-1.0e300", "0x7FF0000000000000", (float(np.finfo("f4").min), np.inf)),
    ],
)
def test_bounds_are_narrowed_and_those_beyond_everything_stay_beyond(
    kind: str, low: str, high: str, expected: tuple[Any, Any], torch_mlir: Bindings, told: list[str]
) -> None:
    graph = export(torch_mlir, clamp(kind, low, high), narrow=NARROW)
    (operator,) = graph.main.operators
    dtype = "<i4" if kind == I64 else "<f4"
    found = tuple(
        np.frombuffer(operator.attributes[name][:4], dtype)[0]  # type: ignore[index, arg-type]
        for name in ("min_val", "max_val")
    )
    assert found == expected
    moved = (
        any(len(text) > 15 and not text.startswith("0x") for text in (low, high)) or "e300" in low
    )
    assert any("moved 1 bounds beyond the type" in line for line in told) == moved


def test_bounds_that_leave_nothing_are_refused(torch_mlir: Bindings) -> None:
    for kind, low, high in (
        (I64, str(2**40), str(2**41)),
        (I64, str(-(2**41)), str(-(2**40))),
        (F64, "1.0e300", "1.0e301"),
    ):
        with pytest.raises(tc.TosaConvertError, match="a number that fits"):
            export(torch_mlir, clamp(kind, low, high), narrow=NARROW)


@pytest.mark.parametrize(
    ("operator", "value", "expected"),
    [("minimum", 2**63 - 1, 2**31 - 1), ("maximum", -(2**63), -(2**31)), ("minimum", 7, 7)],
)
def test_a_constant_that_bounds_nothing_stays_beyond(
    operator: str, value: int, expected: int, torch_mlir: Bindings, told: list[str]
) -> None:
    """clamp(min=0) of integers is lowered to a minimum with the largest i64."""

    def text(operator: str, value: int, other: str = "") -> str:
        return (
            f"func.func @f(%x: {I64}) -> {I64} {{ "
            f'%c = "tosa.const"() <{{values = dense<{value}> : {I64}}}> : () -> {I64} '
            f"%0 = tosa.{operator} %x, %c : ({I64}, {I64}) -> {I64} {other} return %0 : {I64} }}"
        )

    graph = export(torch_mlir, text(operator, value), narrow=["i64"])
    (data,) = (t.data for t in graph.main.tensors.values() if t.data is not None)
    assert data.numpy().tolist() == [expected] * 4
    assert any("moved" in line for line in told) == (value != expected)
    if value == expected:
        return
    also = f"%1 = tosa.add %x, %c : ({I64}, {I64}) -> {I64}"
    opposite = {"minimum": "maximum", "maximum": "minimum"}[operator]
    for refused in (text(operator, value, also), text(opposite, value), text("add", value)):
        with pytest.raises(tc.TosaConvertError, match="does not fit i32"):
            export(torch_mlir, refused, narrow=["i64"])


def test_a_rounded_bound_is_reported(torch_mlir: Bindings, told: list[str]) -> None:
    export(torch_mlir, clamp(F64, "0.1", "0.5"), narrow=["f64"])
    assert "narrowing f64 to f32 rounded 1 bounds of CLAMP" in told


def test_an_operator_that_counts_bits_is_refused(torch_mlir: Bindings) -> None:
    shift = (
        f"func.func @f(%x: {I64}, %n: {I64}) -> {I64} {{ %0 = tosa.logical_right_shift %x, %n : "
        f"({I64}, {I64}) -> {I64} return %0 : {I64} }}"
    )
    for text, name in ((unary("tosa.clz", I64), "tosa.clz"), (shift, "tosa.logical_right_shift")):
        with pytest.raises(tc.TosaConvertError) as caught:
            export(torch_mlir, text, narrow=["i64"])
        assert f"'{name}' depends on the bits" in str(caught.value)
        assert caught.value.code == "value-out-of-range"
        export(torch_mlir, text)
    export(torch_mlir, unary("tosa.clz", I32), narrow=["i64"])


def test_the_tool_reports_every_tensor_on_stderr(tmp_path: Path, torch_mlir: Bindings) -> None:
    done = subprocess.run(
        [
            sys.executable, "-m", "tosa_convert", "convert", CASES / "narrow_bounds.mlir",
            "-o", tmp_path / "m.tosa", "--narrow", "i64,f64",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )  # fmt: skip
    assert done.stdout == ""
    reported = next(line for line in done.stderr.splitlines() if "narrowed i64 to i32" in line)
    module = (CASES / "narrow_bounds.mlir").read_text(encoding="utf-8")
    count = sum(
        "xi64>" in line.rpartition("->")[2] for line in module.splitlines() if " = " in line
    )
    assert f"in {count} tensors: " in reported
    assert len(reported.partition("tensors: ")[2].split(", ")) == count


UNSIZED = """
func.func @main(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %0 = tosa.exp %x : (tensor<?x3xf32>) -> tensor<?x3xf32>
  return %0 : tensor<?x3xf32>
}
"""


@pytest.mark.parametrize("kind", ["tosa", "json", "mlir"])
def test_a_file_of_any_format_gets_sizes_for_its_arguments(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("torch_mlir", reason="infers shapes")
    path = tmp_path / f"m.{kind}"
    tc.save(tc.load(UNSIZED.encode()), path)
    assert set(shapes(tc.load(path)).values()) == {(-1, 3)}
    assert set(shapes(tc.load(path, input_shapes={"arg0": (2, 3)})).values()) == {(2, 3)}
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.load(path, input_shapes={"arg7": (2, 3)})
    assert caught.value.code == "unknown-argument"


@pytest.mark.parametrize("kind", ["tosa", "mlirbc"])
def test_programs_are_run_with_the_sizes_given(kind: str, tmp_path: Path, oracle: Any) -> None:
    pytest.importorskip("torch_mlir", reason="infers shapes")
    from tosa_convert import golden
    from tosa_convert.options import ReadOptions

    path = tmp_path / f"m.{kind}"
    tc.save(tc.load(UNSIZED.encode()), path)
    command = [str(path), "--random", "1", "-o", str(tmp_path / "out.npz")]
    assert run_tool(verb("run"), command) == 4
    assert run_tool(verb("run"), [*command, "--input-shape", "arg0=2x3"]) == 0
    (found,) = np.load(tmp_path / "out.npz").values()
    assert found.shape == (2, 3)
    result = golden.run(path, random=1, read=ReadOptions(input_shapes={"arg0": (2, 3)}))
    (again,) = result.outputs.values()
    assert np.array_equal(found, again)
    assert run_tool(verb("check"), [*command[:3], "--input-shape", "arg0=2x3",
                                    "--against", str(tmp_path / "out.npz")]) == 0  # fmt: skip
