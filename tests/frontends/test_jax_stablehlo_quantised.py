"""Quantised modules of StableHLO compute what the specification's formulas give."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest
from frontends.jax_runs import jax

import tosa_convert as tc
from tosa_convert.cli.main import run, tosa_flatbuffer
from tosa_convert.errors import TosaConvertError
from tosa_convert.frontends.process.request import PROGRAM_FILE, Request

convert = pytest.importorskip("tosa_convert.frontends.stablehlo.convert")
Array = npt.NDArray[Any]

_IMAGE: Final = "!quant.uniform<i8:f32, 0.1:3>"
_RESULT: Final = "!quant.uniform<i8:f32, 1.7:-5>"
_SUM: Final = "!quant.uniform<i32:f32, 0.03>"
_WEIGHTS: Final = "!quant.uniform<i8<-127:127>:f32:1, {0.1, 0.02}>"
_BYTES: Final = "!quant.uniform<u8:f32, 0.2:100>"


def module(arguments: str, result: str, body: str) -> str:
    """Return the text of a module; its arguments are %a0, %a1, ... and its result is %r."""
    given = ", ".join(f"%a{i}: tensor<{kind}>" for i, kind in enumerate(arguments.split("; ")))
    head = f"func.func @main({given}) -> tensor<{result}> {{"
    return f"{head}\n  {body}\n  return %r : tensor<{result}>\n}}\n"


def lowered(folder: Path, text: str) -> tc.Graph:
    """Return the program of a module, which TOSA allows."""
    (folder / "m.mlir").write_text(text)
    request = Request(frontend="stablehlo", source=str(folder / "m.mlir"), shown="m.mlir")
    assert convert.lower(request, folder).not_lowered == []
    graph = tc.load(folder / PROGRAM_FILE)
    assert tc.validate(graph) == []
    return graph


def outcome(folder: Path, text: str, *arrays: Array) -> Array:
    """Return what the program of a module computes."""
    graph = lowered(folder, text)
    inputs = dict(zip(graph.main.inputs, arrays, strict=True))
    (found,) = tc.golden.run(graph, inputs, engine="numpy").outputs.values()
    return found


def quantised(numbers: Array, scale: Any, zero: Any, low: int = -128, high: int = 127) -> Array:
    """Return the integers of numbers, by the specification's formula."""
    found: Array = np.clip(np.round(numbers / scale) + zero, low, high)
    return found


def drawn(seed: int, *shape: int, low: int = -128) -> Array:
    """Return random INT8."""
    return np.random.default_rng(seed).integers(low, 128, shape).astype(np.int8)


def numbers(stored: Array, scale: Any, zero: Any) -> Array:
    """Return what integers stand for."""
    found: Array = (stored.astype(np.float64) - zero) * scale
    return found


def test_the_specifications_examples_of_quantising(tmp_path: Path) -> None:
    kind = "!quant.uniform<i8:f32:0, {0.1:-30, 0.5:-20}>"
    body = f"%r = stablehlo.uniform_quantize %a0 : (tensor<2xf32>) -> tensor<2x{kind}>"
    text = module("2xf32", f"2x{kind}", body)
    made = outcome(tmp_path, text, np.array([4.0, 15.0], np.float32))
    assert made.dtype == np.int8
    assert made.tolist() == [10, 10]
    body = f"%r = stablehlo.uniform_dequantize %a0 : (tensor<2x{kind}>) -> tensor<2xf32>"
    made = outcome(tmp_path, module(f"2x{kind}", "2xf32", body), np.array([10, 10], np.int8))
    np.testing.assert_allclose(made, [4.0, 15.0], rtol=1e-6)
    body = (
        f"%c = stablehlo.constant dense<10> : tensor<2xi8>\n"
        f"  %q = stablehlo.bitcast_convert %c : (tensor<2xi8>) -> tensor<2x{kind}>\n"
        f"  %d = stablehlo.uniform_dequantize %q : (tensor<2x{kind}>) -> tensor<2xf32>\n"
        "  %r = stablehlo.add %a0, %d : tensor<2xf32>"
    )
    made = outcome(tmp_path, module("2xf32", "2xf32", body), np.zeros(2, np.float32))
    np.testing.assert_allclose(made, [4.0, 15.0], rtol=1e-6)


def test_halves_are_quantised_to_even_and_limits_hold(tmp_path: Path) -> None:
    kind = "!quant.uniform<i8<-100:100>:f32, 0.5:1>"
    body = f"%r = stablehlo.uniform_quantize %a0 : (tensor<5xf32>) -> tensor<5x{kind}>"
    x = np.array([0.25, 0.75, -0.25, 1e9, -1e9], np.float32)
    assert outcome(tmp_path, module("5xf32", f"5x{kind}", body), x).tolist() == [1, 3, 1, 100, -100]


@pytest.mark.parametrize(
    ("result", "scale", "zero", "error"), [(_RESULT, 1.7, -5, 1), (_SUM, 0.03, 0, 1)]
)
def test_a_product_with_scales_by_channel(
    tmp_path: Path, result: str, scale: float, zero: int, error: int
) -> None:
    kinds = f"tensor<4x30x{_IMAGE}>, tensor<30x2x{_WEIGHTS}>"
    body = (
        "%r = stablehlo.dot_general %a0, %a1, contracting_dims = [1] x [0] : "
        f"({kinds}) -> tensor<4x2x{result}>"
    )
    text = module(f"4x30x{_IMAGE}; 30x2x{_WEIGHTS}", f"4x2x{result}", body)
    x, weights = drawn(1, 4, 30), drawn(2, 30, 2, low=-127)
    made = outcome(tmp_path, text, x, weights)
    product = numbers(x, 0.1, 3) @ numbers(weights, np.array([0.1, 0.02]), 0)
    limits = (-128, 127) if made.dtype == np.int8 else (-(2**31), 2**31 - 1)
    expected = quantised(product, scale, zero, *limits)
    assert np.unique(expected).size > 3
    assert np.abs(made - expected).max() <= error
    assert np.mean(made == expected) > 0.8
    operators = {row.spec.name for row in tc.load(tmp_path / PROGRAM_FILE).main.operators}
    assert "MATMUL" in operators
    assert ("RESCALE" in operators) == (made.dtype == np.int8)
    assert "CAST" not in operators or made.dtype == np.int32


@pytest.mark.parametrize("image", [_IMAGE, _BYTES])
def test_a_convolution_pads_with_what_stands_for_zero(tmp_path: Path, image: str) -> None:
    weights = "!quant.uniform<i8:f32, 0.05:7>"
    kinds = f"tensor<1x5x5x2x{image}>, tensor<3x3x2x4x{weights}>"
    body = (
        "%r = stablehlo.convolution(%a0, %a1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
        "window = {stride = [2, 2], pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, "
        f"feature_group_count = 1 : i64}} : ({kinds}) -> tensor<1x3x3x4x{_RESULT}>"
    )
    text = module(f"1x5x5x2x{image}; 3x3x2x4x{weights}", f"1x3x3x4x{_RESULT}", body)
    x, w = drawn(1, 1, 5, 5, 2), drawn(2, 3, 3, 2, 4)
    scale, zero, stored = (0.1, 3, x) if image == _IMAGE else (0.2, 100, x.view(np.uint8))
    real = numbers(stored, scale, zero).astype(np.float32), numbers(w, 0.05, 7).astype(np.float32)
    layout = ("NHWC", "HWIO", "NHWC")
    made = jax.lax.conv_general_dilated(
        *real, (2, 2), [(1, 1), (1, 1)], dimension_numbers=layout, precision="highest"
    )
    expected = quantised(np.asarray(made, np.float64), 1.7, -5)
    assert np.abs(outcome(tmp_path, text, x, w).astype(int) - expected).max() <= 1


def test_other_operators_compute_with_what_integers_stand_for(tmp_path: Path) -> None:
    other = "!quant.uniform<i8:f32, 0.05:-8>"
    kinds = f"tensor<50x{_IMAGE}>, tensor<50x{other}>"
    body = f"%r = stablehlo.add %a0, %a1 : ({kinds}) -> tensor<50x{_RESULT}>"
    x, y = drawn(1, 50), drawn(2, 50)
    made = outcome(tmp_path, module(f"50x{_IMAGE}; 50x{other}", f"50x{_RESULT}", body), x, y)
    expected = quantised(numbers(x, 0.1, 3) + numbers(y, 0.05, -8), 1.7, -5)
    assert np.abs(made - expected).max() <= 1
    assert np.mean(made == expected) > 0.9


def test_integers_are_moved_as_they_are(tmp_path: Path) -> None:
    text = f"""!q = {_IMAGE}
func.func @main(%x: tensor<2x3x!q>) -> tensor<3x!q> {{
  %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3x!q>) -> tensor<3x2x!q>
  %c = "stablehlo.constant"() <{{value = dense<-128> : tensor<i8>}}> : () -> tensor<!q>
  %r = "stablehlo.reduce"(%t, %c) <{{dimensions = array<i64: 1>}}> ({{
  ^bb0(%a: tensor<!q>, %b: tensor<!q>):
    %m = stablehlo.maximum %a, %b : tensor<!q>
    stablehlo.return %m : tensor<!q>
  }}) : (tensor<3x2x!q>, tensor<!q>) -> tensor<3x!q>
  return %r : tensor<3x!q>
}}
"""
    x = drawn(1, 2, 3)
    np.testing.assert_array_equal(outcome(tmp_path, text, x), x.max(axis=0))
    assert not {"RESCALE", "CAST"} & {
        row.spec.name for row in lowered(tmp_path, text).main.operators
    }


def test_a_sum_of_quantised_numbers_is_refused_with_its_line(tmp_path: Path) -> None:
    body = f"""%z = stablehlo.uniform_quantize %a1 : (tensor<f32>) -> tensor<{_IMAGE}>
  %r = "stablehlo.reduce"(%a0, %z) <{{dimensions = array<i64: 0>}}> ({{
  ^bb0(%a: tensor<{_IMAGE}>, %b: tensor<{_IMAGE}>):
    %m = stablehlo.add %a, %b : tensor<{_IMAGE}>
    stablehlo.return %m : tensor<{_IMAGE}>
  }}) : (tensor<3x{_IMAGE}>, tensor<{_IMAGE}>) -> tensor<{_IMAGE}>"""
    (tmp_path / "m.mlir").write_text(module(f"3x{_IMAGE}; f32", _IMAGE, body))
    with pytest.raises(TosaConvertError, match="not-lowered") as caught:
        tc.frontends.from_file(tmp_path / "m.mlir")
    assert "m.mlir:3" in str(caught.value)


def in_bytecode(text: str) -> bytes:
    """Return a module as bytecode that IREE writes."""
    ir: Any = pytest.importorskip("iree.compiler.ir")
    sink = io.BytesIO()
    with ir.Context():
        ir.Module.parse(text).operation.write_bytecode(sink)
    return sink.getvalue()


def test_bytecode_becomes_the_program_of_the_text(tmp_path: Path) -> None:
    kinds = f"tensor<4x30x{_IMAGE}>, tensor<30x2x{_WEIGHTS}>"
    body = (
        '%w = "stablehlo.constant"() <{value = dense<7> : tensor<30x2xi8>}> : () -> '
        f"tensor<30x2x{_WEIGHTS}>\n"
        "  %p = stablehlo.dot_general %a0, %w, contracting_dims = [1] x [0] : "
        f"({kinds}) -> tensor<4x2x{_RESULT}>\n"
        f"  %r = stablehlo.uniform_dequantize %p : (tensor<4x2x{_RESULT}>) -> tensor<4x2xf32>"
    )
    text = module(f"4x30x{_IMAGE}", "4x2xf32", body)
    x = drawn(1, 4, 30)
    expected = outcome(tmp_path, text, x)
    assert np.unique(expected).size > 3
    (tmp_path / "m.mlirbc").write_bytes(in_bytecode(text))
    graph = tc.frontends.from_file(tmp_path / "m.mlirbc")
    assert tc.validate(graph) == []
    (name,) = graph.main.inputs
    (found,) = tc.golden.run(graph, {name: x}, engine="numpy").outputs.values()
    np.testing.assert_array_equal(found, expected)


def test_bytecode_without_iree_is_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = f"%r = stablehlo.uniform_quantize %a0 : (tensor<2xf32>) -> tensor<2x{_IMAGE}>"
    (tmp_path / "m.mlirbc").write_bytes(in_bytecode(module("2xf32", f"2x{_IMAGE}", body)))
    monkeypatch.setitem(sys.modules, "iree.compiler.ir", None)
    request = Request(frontend="stablehlo", source=str(tmp_path / "m.mlirbc"), shown="m.mlirbc")
    with pytest.raises(TosaConvertError, match="unsupported-dtype") as caught:
        convert.lower(request, tmp_path)
    assert "pip install iree-base-compiler" in caught.value.findings[0].hint


def test_the_tool_checks_a_quantised_module(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    kinds = f"tensor<4x30x{_IMAGE}>, tensor<30x2x{_WEIGHTS}>"
    body = (
        f"%w = stablehlo.uniform_quantize %a1 : (tensor<30x2xf32>) -> tensor<30x2x{_WEIGHTS}>\n"
        "  %r = stablehlo.dot_general %a0, %w, contracting_dims = [1] x [0] : "
        f"({kinds}) -> tensor<4x2x{_RESULT}>"
    )
    (tmp_path / "m.mlir").write_text(module(f"4x30x{_IMAGE}; 30x2xf32", f"4x2x{_RESULT}", body))
    line = ["convert", str(tmp_path / "m.mlir"), "-o", str(tmp_path / "m.tosa"), "--check"]
    assert run(tosa_flatbuffer, line) == 0, capfd.readouterr()
    assert "interpreter: it does not know quantised types" in capfd.readouterr().out
