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


@pytest.mark.parametrize("narrow", ["", "i64,f64"])
def test_without_the_request_they_are_refused(narrow: str) -> None:
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.load(TEXT.encode(), narrow=narrow)
    assert {finding.code for finding in caught.value.findings} == {"unsupported-dtype"}
    assert all("--narrow quant" in finding.hint for finding in caught.value.findings)


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
