"""Errors in MLIR text quote the line that they are about."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tosa_convert as tc
from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.formats.bindings.packages import Bindings, default_bindings, installed
from tosa_convert.formats.mlir.text.parse.cursor import SourceText, quoting

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
FOREIGN_EXCERPTS = [
    "  %0 = arith.addf %x, %x : tensor<2xf32>\n       ^",
    "  %1 = arith.mulf %0, %0 : tensor<2xf32>\n       ^",
]
STABLEHLO = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "stablehlo.add"(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""
MIXED = STABLEHLO.replace(
    "return", '%1 = "tosa.abs"(%0) : (tensor<2xf32>) -> tensor<2xf32>\n  return'
)
TFL = STABLEHLO.replace("stablehlo", "tfl")


def refusal(source: bytes | Path) -> tuple[Finding, ...]:
    with pytest.raises(TosaConvertError) as caught:
        tc.load(source)
    return caught.value.findings


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


def test_findings_at_operators_quote_their_lines(source: object) -> None:
    assert callable(source)
    given, _ = source(FOREIGN)
    findings = refusal(given)
    assert [finding.code for finding in findings] == ["foreign-operator"] * 2
    assert [finding.excerpt for finding in findings] == FOREIGN_EXCERPTS


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


def test_bytecode_is_not_quoted(bindings: Bindings) -> None:
    module = bindings.ir.Module.parse(FOREIGN, bindings.new_context())
    pieces: list[bytes] = []

    class Sink:
        def write(self, piece: bytes) -> None:
            pieces.append(piece)

    module.operation.write_bytecode(Sink())
    findings = refusal(b"".join(pieces))
    assert {finding.where for finding in findings} == {"-:3:8", "-:4:8"}
    assert {finding.excerpt for finding in findings} == {""}


def test_a_file_whose_name_is_not_utf8_is_read(tmp_path: Path) -> None:
    path = os.fsdecode(bytes(tmp_path) + b"/caf\xe9.mlir")
    try:
        Path(path).write_text(FOREIGN)
    except (OSError, UnicodeError):
        pytest.skip("the file system takes only names that are UTF-8")
    findings = refusal(Path(path))
    assert [finding.code for finding in findings] == ["foreign-operator"] * 2
    Path(path).write_text("func.func @f(%x: tensor<2xf32>) { return }")
    assert tc.load(path).main.inputs == ["TosaInput_0"]


def test_a_program_of_another_dialect_is_foreign() -> None:
    (finding,) = refusal(TFL.encode())
    assert (finding.code, finding.where) == ("foreign-operator", "-:2:8")
    assert finding.message == "'tfl.add' is not a TOSA operator"
    assert ".tflite file" in finding.hint
    assert finding.excerpt.endswith("\n" + " " * 7 + "^")


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


def test_bytecode_of_another_dialect_is_foreign() -> None:
    if "iree.compiler" not in installed():
        pytest.skip("only IREE's bindings can write StableHLO")
    iree = default_bindings("iree.compiler")
    module = iree.ir.Module.parse(MIXED, iree.new_context())
    pieces: list[bytes] = []

    class Sink:
        def write(self, piece: bytes) -> None:
            pieces.append(piece)

    module.operation.write_bytecode(Sink())
    (finding,) = refusal(b"".join(pieces))
    assert (finding.code, finding.where) == ("foreign-operator", "-:2:8")
    assert finding.message == "'stablehlo.add' is not a TOSA operator"


def test_a_module_of_stablehlo_is_a_model() -> None:
    (finding,) = refusal(STABLEHLO.encode())
    assert finding.code == "unrecognised-input"
    assert "a module of StableHLO" in finding.message
    assert "tosa-flatbuffer-convert" in finding.hint


def test_a_module_that_mixes_tosa_and_stablehlo_is_a_program_with_foreign_operators() -> None:
    (finding,) = refusal(MIXED.encode())
    assert finding.code == "foreign-operator"
    assert "tosa-flatbuffer-convert" in finding.hint


def test_a_program_whose_locations_name_stablehlo_is_a_program() -> None:
    text = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = tosa.abs %x : (tensor<2xf32>) -> tensor<2xf32> loc("stablehlo.abs")
  return %0 : tensor<2xf32>
}
"""
    assert len(tc.load(text.encode()).main.operators) == 1


def test_an_unknown_tosa_operator_is_not_foreign() -> None:
    (finding,) = refusal(b'func.func @f() { "tosa.no_such_operator"() : () -> () return }')
    assert finding.code == "unsupported-operator"


@pytest.mark.parametrize("size", [0, 5, 1 << 20, (1 << 20) + 1, 3 << 20])
def test_a_position_is_an_offset_and_back(size: int) -> None:
    data = b"x" * size + b"\nabc\n\nde"
    text = SourceText(memoryview(data), "f.mlir")
    for offset in {0, size, size + 1, size + 3, size + 5, size + 6, size + 8}:
        line = data[:offset].count(b"\n") + 1
        column = offset - (data.rfind(b"\n", 0, offset) + 1) + 1
        assert text.where(offset) == f"f.mlir:{line}:{column}"
        assert text.offset(f"f.mlir:{line}:{column}") == offset


@pytest.mark.parametrize("where", ["", "f.mlir", "g.mlir:1:1", "f.mlir:9:1", "f.mlir:0:0", "1:1"])
def test_a_location_elsewhere_is_not_in_the_text(where: str) -> None:
    assert SourceText(memoryview(b"a\nb"), "f.mlir").offset(where) is None


def test_an_error_that_is_not_in_the_text_stays_the_same_object() -> None:
    error = fail("no-function", "elsewhere", "nothing")
    with pytest.raises(TosaConvertError) as caught, quoting(memoryview(b"a")):
        raise error
    assert caught.value is error
