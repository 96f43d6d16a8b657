"""Element types become narrower on request: i64 to i32, f64 to f32."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract.conftest import CASES
from contract.exporting import export
from refusing import refused

import tosa_convert as tc
from tosa_convert.formats.bindings.packages import Bindings

NARROW = ("i64", "f64")
PROGRAMS = sorted(path.stem for path in CASES.glob("narrow_*.mlir"))


@pytest.mark.oracle
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_narrowed_program_gives_torchs_answer(
    name: str, torch_mlir: Bindings, reference: Any
) -> None:
    text = (CASES / f"{name}.mlir").read_text(encoding="utf-8")
    with pytest.raises(tc.TosaConvertError) if "f64" in text else contextlib.nullcontext():
        export(torch_mlir, text, validate=False)
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


def test_the_programs_contain_what_torch_mlir_produces() -> None:
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


def test_f32_becomes_f16_with_a_report_of_what_is_lost(reports: list[str]) -> None:
    kinds = {"WIDE": "tensor<3xf32>", "HALF": "tensor<3xf16>"}
    text = """func.func @f(%x: WIDE, %y: tensor<3xf64>) -> (WIDE, tensor<3xf64>) {
  %c = "tosa.const"() <{values = dense<[1.0, 0.1, 1.0e-9]> : WIDE}> : () -> WIDE
  %0 = tosa.add %x, %c : (WIDE, WIDE) -> WIDE
  %1 = tosa.clamp %0 {min_val = -3.4e38 : f32, max_val = 6.1 : f32} : (WIDE) -> WIDE
  %2 = tosa.cast %1 : (WIDE) -> HALF
  %3 = tosa.cast %2 : (HALF) -> WIDE
  return %3, %y : WIDE, tensor<3xf64>
}"""
    for name, kind in kinds.items():
        text = text.replace(name, kind)
    graph = tc.load(text.encode(), narrow="f32,f64")
    assert {tensor.dtype.name for tensor in graph.main.tensors.values()} == {"FP16"}
    assert not list(tc.validate(graph))
    assert [line.partition(":")[0] for line in reports] == [
        "narrowed f64 to f16 in 1 tensor",
        "narrowed f32 to f16 in 5 tensors",
        "narrowing f32 to f16 rounded 2 constant elements",
        "narrowing f32 to f16 made 0 of 1 small constant element",
        "narrowing f32 to f16 rounded 1 bound of CLAMP",
        "narrowing moved 1 bound to the end of the type's range",
    ]
    with pytest.raises(tc.TosaConvertError, match=r"element 0 is 65520\.0, which does not fit f16"):
        tc.load(text.replace("1.0, 0.1", "65520.0, 0.1").encode(), narrow="f32")


@pytest.mark.parametrize("form", ["tosa.const", "arith.constant", "resource", "variable"])
@pytest.mark.parametrize("fits", [True, False])
def test_i64_constants_fit_or_are_refused_in_every_form(
    form: str, fits: bool, torch_mlir: Bindings, reports: list[str]
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
        with refused(
            "value-out-of-range", "element 3 is 2147483648, which does not fit i32"
        ) as caught:
            export(torch_mlir, text, narrow=["i64"])
        assert caught.value.findings[0].hint.startswith("leave i64 out of the types to narrow")
        return
    graph = export(torch_mlir, text, narrow=["i64"])
    name = "Variable_0" if form == "variable" else "y"
    tensor = graph.main.tensors[name]
    assert tensor.dtype.name == "INT32"
    assert tensor.data is not None
    assert tensor.data.numpy().tolist() == numbers
    (line,) = reports
    assert line.startswith("narrowed i64 to i32 in ")
    assert set(line.partition(": ")[2].split(", ")) == set(graph.main.tensors)


def test_f64_constants_are_rounded_with_a_report_and_refused_beyond_f32(
    torch_mlir: Bindings, reports: list[str]
) -> None:
    graph = export(
        torch_mlir, constant("dense<[0.1, 0.5, 0x7FF0000000000000, -0.0]>", F64), narrow=["f64"]
    )
    data = graph.main.tensors["y"].data
    assert data is not None
    assert data.numpy().tobytes() == np.array([0.1, 0.5, np.inf, -0.0], "f4").tobytes()
    assert reports == [
        "narrowed f64 to f32 in 1 tensor: y",
        "narrowing f64 to f32 rounded 1 constant element",
    ]
    with pytest.raises(tc.TosaConvertError, match=r"element 1 is 1e\+300, which does not fit f32"):
        export(torch_mlir, constant("dense<[0.1, 1.0e300, 0.0, 0.0]>", F64), narrow=["f64"])


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
def test_bounds_are_narrowed_and_those_beyond_the_type_saturate(
    kind: str,
    low: str,
    high: str,
    expected: tuple[Any, Any],
    torch_mlir: Bindings,
    reports: list[str],
) -> None:
    graph = export(torch_mlir, clamp(kind, low, high), narrow=NARROW)
    found: tuple[Any, ...]
    if kind == I64:
        found = tuple(bounds_of(graph))
    else:
        (operator,) = graph.main.operators
        found = tuple(
            np.frombuffer(operator.attributes[name][:4], "<f4")[0]  # type: ignore[index, arg-type]
            for name in ("min_val", "max_val")
        )
    assert found == expected
    moved = (
        any(len(text) > 15 and not text.startswith("0x") for text in (low, high)) or "e300" in low
    )
    assert any("moved 1 bound to the end of the type" in line for line in reports) == moved


def bounds_of(graph: tc.Graph) -> list[int]:
    """Return the only elements of all constants, in order."""
    data = (graph.main.tensors[op.outputs[0]].data for op in graph.main.operators[::2])
    return [constant.numpy().item() for constant in data if constant is not None]


def test_names_of_the_bounds_of_a_narrowed_clamp_are_not_those_of_other_values(
    torch_mlir: Bindings,
) -> None:
    first, second, result = (
        f'{I64} {{tosa.tensor_name = "{name}"}}' for name in ("y_min_val", "y_maximum", "y")
    )
    text = (
        f"func.func @f(%x: {first}, %z: {second}) -> ({result}) {{ "
        f"%0 = tosa.clamp %x {{min_val = -3 : i64, max_val = 7 : i64}} : ({I64}) -> {I64} "
        f"return %0 : {I64} }}"
    )
    main = export(torch_mlir, text, narrow=["i64"]).main
    assert main.inputs == ["y_min_val", "y_maximum"]
    names = [op.outputs[0] for op in main.operators]
    assert names == ["y_min_val_1", "y_maximum_1", "y_max_val", "y"]


def test_a_clamp_of_unknown_rank_stays_and_is_refused(
    torch_mlir: Bindings, reports: list[str]
) -> None:
    """Operands of MAXIMUM must have the same rank, and a constant of unknown rank does not exist."""
    kind = "tensor<*xi64>"
    text = (
        f"func.func @f(%x: {kind}) -> {kind} {{ %0 = tosa.clamp %x {{min_val = -3 : i64, "
        f"max_val = 7 : i64}} : ({kind}) -> {kind} return %0 : {kind} }}"
    )
    graph = export(torch_mlir, text, narrow=["i64"], validate=False)
    assert [op.spec.name for op in graph.main.operators] == ["CLAMP"]
    assert not any("replaced" in line for line in reports)
    assert {finding.rule for finding in tc.validate(graph)} == {"clamp-input-type"}


def test_bounds_that_admit_no_value_are_refused(torch_mlir: Bindings) -> None:
    for kind, low, high in (
        (I64, str(2**40), str(2**41)),
        (I64, str(-(2**41)), str(-(2**40))),
        (F64, "1.0e300", "1.0e301"),
    ):
        with pytest.raises(tc.TosaConvertError, match="a number that fits"):
            export(torch_mlir, clamp(kind, low, high), narrow=NARROW)


def test_a_rounded_bound_is_reported(torch_mlir: Bindings, reports: list[str]) -> None:
    export(torch_mlir, clamp(F64, "0.1", "0.5"), narrow=["f64"])
    assert "narrowing f64 to f32 rounded 1 bound of CLAMP" in reports


def test_an_operator_that_counts_bits_is_refused(torch_mlir: Bindings) -> None:
    shift = (
        f"func.func @f(%x: {I64}, %n: {I64}) -> {I64} {{ %0 = tosa.logical_right_shift %x, %n : "
        f"({I64}, {I64}) -> {I64} return %0 : {I64} }}"
    )
    for text, name in ((unary("tosa.clz", I64), "tosa.clz"), (shift, "tosa.logical_right_shift")):
        with refused("value-out-of-range", f"'{name}' depends on the upper bits"):
            export(torch_mlir, text, narrow=["i64"])
        export(torch_mlir, text)
    export(torch_mlir, unary("tosa.clz", I32), narrow=["i64"])


def test_the_command_reports_every_tensor_on_stderr(tmp_path: Path, torch_mlir: Bindings) -> None:
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
