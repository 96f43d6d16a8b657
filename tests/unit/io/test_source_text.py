"""Errors in MLIR text quote the line that they are about."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from refusing import error_of

import tosa_convert as tc
from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.formats.mlir.text.parse.cursor import quoting

SYNTAX = """func.func @f(%x: tensor<2xf32>) {
\t%0 = tosa.abs %y : (tensor<2xf32>) -> tensor<2xf32>
  return
}
"""
FOREIGN = """// Two operators that TOSA does not have.
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = arith.addf %x, %x : tensor<2xf32>
  %1 = arith.mulf %0, %0 : tensor<2xf32>
  return %1 : tensor<2xf32>
}
"""
STABLEHLO = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "stablehlo.add"(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""


def refusal(source: bytes | Path) -> tuple[Finding, ...]:
    return error_of(tc.load, source).findings


@pytest.fixture(params=["bytes", "file"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> object:
    """Return text -> the source to load, and its name in MLIR's locations."""

    def make(text: str) -> tuple[bytes | Path, str]:
        if request.param == "bytes":
            return text.encode(), "-"
        path = tmp_path / "m.mlir"
        path.write_text(text)
        return path, str(path)

    return make


def test_a_syntax_error_quotes_the_line(source: object) -> None:
    assert callable(source)
    given, name = source(SYNTAX)
    (finding,) = refusal(given)
    assert finding.where == f"{name}:2:16"
    assert finding.excerpt == (
        "    %0 = tosa.abs %y : (tensor<2xf32>) -> tensor<2xf32>\n" + " " * 18 + "^"
    )


def test_findings_in_standard_input_quote_their_lines() -> None:
    command = [sys.executable, "-m", "tosa_convert", "convert"]
    done = subprocess.run(command, input=FOREIGN.encode(), capture_output=True, check=False)
    assert done.returncode == 4
    lines = done.stderr.decode().splitlines()
    index = lines.index("      %0 = arith.addf %x, %x : tensor<2xf32>")
    assert lines[index + 1] == " " * 11 + "^"


def test_locations_of_another_file_of_the_same_name_are_not_quoted() -> None:
    """Text printed from standard input has locations in "-", which is not this text."""
    text = FOREIGN.replace("%x : tensor<2xf32>\n", '%x : tensor<2xf32> loc("-":1:4)\n')
    findings = refusal(text.encode())
    assert findings[0].where == "-:1:4"
    assert [finding.excerpt for finding in findings] == ["", ""]


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        (
            "func.func @f() {\n  tfl.thing\n  return\n}",
            "'tfl.thing' is not a TOSA operator",
            ".tflite file",
        ),
        ('module { "onnx.Abs"() : () -> () }', "'onnx.Abs' is not", ".onnx file"),
        (
            "func.func @f(%a: !torch.vtensor<[2],f32>) { return }",
            "!torch.vtensor<[2],f32> is not a tensor",
            "the extra `mlir`",
        ),
        ("module { vendor.op }", "'vendor.op' is not a TOSA operator", "lower it to TOSA"),
    ],
)
def test_text_of_another_dialect_is_foreign_and_says_how_to_lower_it(
    text: str, said: str, hint: str
) -> None:
    (finding,) = refusal(text.encode())
    assert finding.code in ("foreign-operator", "unsupported-type")
    assert said in finding.message
    assert hint in finding.hint
    assert finding.excerpt


def test_a_module_of_stablehlo_is_a_model() -> None:
    (finding,) = refusal(STABLEHLO.encode())
    assert finding.code == "unrecognised-input"
    assert "a module of StableHLO" in finding.message
    assert "tosa-flatbuffer-convert" in finding.hint


def test_an_error_that_is_not_in_the_text_stays_the_same_object() -> None:
    error = fail("no-function", "elsewhere", "nothing")
    with pytest.raises(TosaConvertError) as caught, quoting(memoryview(b"a")):
        raise error
    assert caught.value is error
