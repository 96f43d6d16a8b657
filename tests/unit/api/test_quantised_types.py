"""Quantised element types become the integers that they are stored as, on request."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import tosa_convert as tc
from tosa_convert.cli.main import run, verb

U8, I8 = "!quant.uniform<u8:f32, 0.5:128>", "!quant.uniform<i8<-127:127>:f32, 0.5:3>"
TEXT = f"""
func.func @main(%x: tensor<4x{U8}>) -> tensor<5x{I8}> {{
  %0 = "tosa.rescale"(%x) {{double_round = false, input_zp = 128 : i32, multiplier = [1073741824 : i32],
    output_zp = 3 : i32, per_channel = false, scale32 = true, shift = [30 : i32]}}
    : (tensor<4x{U8}>) -> tensor<4x{I8}>
  %1 = "tosa.const"() {{value = dense<2> : tensor<1xi8>}}
    : () -> tensor<1x!quant.uniform<i8:f32:0, {{0.5:3}}>>
  %2 = "tosa.concat"(%0, %1) {{axis = 0 : i64}}
    : (tensor<4x{I8}>, tensor<1x!quant.uniform<i8:f32:0, {{0.5:3}}>>) -> tensor<5x{I8}>
  return %2 : tensor<5x{I8}>
}}
"""


def identity(element: str) -> bytes:
    kind = f"tensor<4x{element}>"
    return f"""func.func @f(%x: {kind}) -> {kind} {{
        %0 = "tosa.identity"(%x) : ({kind}) -> {kind}
        return %0 : {kind} }}""".encode()


def test_the_integers_are_taken_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    graph = tc.load(TEXT.encode(), narrow="quant")
    assert tc.validate(graph) == []
    (rescale,) = (op for op in graph.main.operators if op.spec.name == "RESCALE")
    assert rescale.attributes["input_unsigned"]
    assert not rescale.attributes["output_unsigned"]
    assert {tensor.dtype.name for tensor in graph.main.tensors.values()} == {"INT8", "INT32"}
    (constant,) = (op for op in graph.main.operators if op.outputs[0] == "layer_1")
    data = graph.main.tensors[constant.outputs[0]].data
    assert data is not None
    assert data.numpy().tolist() == [2]
    assert (
        "quantised types became the integers that they are stored as in 4 tensors, and their scales "
        "and zero points are lost: TosaInput_0, layer_0, layer_1, TosaOutput_0" in caplog.text
    )


@pytest.mark.parametrize("narrow", ["", "i64,f64"])
def test_without_the_request_they_are_refused(narrow: str) -> None:
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.load(TEXT.encode(), narrow=narrow)
    assert {finding.code for finding in caught.value.findings} == {"unsupported-dtype"}
    assert all("--narrow quant" in finding.hint for finding in caught.value.findings)


@pytest.mark.parametrize(
    ("element", "dtype"),
    [
        ("!quant.uniform<i16:f32, 0.25>", "INT16"),
        ("!quant.uniform<i32:f32:0, {0.1,0.2,0.3,0.4}>", "INT32"),
        ("!quant.uniform<i4<-8:7>:f32, 1.0>", "INT4"),
        ("!quant.any<i8<-16:7>:f32>", "INT8"),
    ],
)
def test_the_integer_is_that_of_the_type(element: str, dtype: str) -> None:
    graph = tc.load(identity(element), narrow=["quant"])
    assert graph.main.tensors["TosaInput_0"].dtype.name == dtype


@pytest.mark.parametrize(
    "element", ["!quant.calibrated<f32<-0.9:1.2>>", "!quant.uniform<i24:f32, 0.5>"]
)
def test_what_tosa_has_no_integer_for_is_refused(element: str) -> None:
    with pytest.raises(tc.TosaConvertError, match="TOSA has no element type"):
        tc.load(identity(element), narrow=["quant"])


def test_convert_and_upgrade_narrow_quantised_types_on_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    (tmp_path / "m.mlir").write_text(TEXT, encoding="utf-8")
    for name in ("convert", "upgrade"):
        target = tmp_path / f"{name}.tosa"
        words = [str(tmp_path / "m.mlir"), "-o", str(target)]
        assert run(verb(name), words) == 4
        assert not target.exists()
        assert run(verb(name), [*words, "--narrow", "quant"]) == 0
        assert tc.validate(tc.load(target)) == []
