"""`convert --split-input-file`, and options of MLIR's tools with one dash."""

from __future__ import annotations

from pathlib import Path

import pytest

import tosa_convert as tc
from tosa_convert.cli.main import run, verb

FUNCTION = """func.func @{0}(%a: tensor<2x{2}>) -> tensor<2x{2}> {{
  %0 = tosa.{1} %a : (tensor<2x{2}>) -> tensor<2x{2}>
  return %0 : tensor<2x{2}>
}}
"""
#: The first part begins with comments, the third is empty, and TOSA forbids the fourth.
TEXT = "// RUN: x\n" + "// -----\n".join(
    (
        FUNCTION.format("one", "abs", "f32"),
        FUNCTION.format("one", "exp", "f32"),
        "\n// nothing\n",
        FUNCTION.format("bad", "abs", "i8"),
        FUNCTION.format("last", "log", "f32"),
    )
)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "m.mlir"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.mark.parametrize("flag", ["--split-input-file", "-split-input-file"])
@pytest.mark.parametrize(
    ("output", "names"),
    [("o.tosa", "o.0.tosa o.1.tosa o.4.tosa"), ("d/", "d/m.0.tosa d/m.1.tosa d/m.4.tosa")],
)
def test_each_part_is_converted_and_a_failure_stops_none(
    flag: str, output: str, names: str, source: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(verb("convert"), [flag, str(source), "-o", f"{source.parent}/{output}"]) == 3
    for name, operator in zip(names.split(), ("ABS", "EXP", "LOG"), strict=True):
        (op,) = tc.load(source.parent / name).main.operators
        assert op.spec.name == operator
        assert (op.location == 'loc("m.mlir":8:8)') == (operator == "EXP")
    printed = capfd.readouterr().err
    assert f'{source}:16:8: region "bad" block "main" operator #0 ABS: error: ' in printed
    assert "%0 = tosa.abs %a : (tensor<2xi8>)" in printed
    assert "3 of 4 parts converted" in printed


def test_parts_are_printed_as_mlir_prints_them(
    source: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source.write_text(TEXT.partition("\n// nothing")[0], encoding="utf-8")
    assert run(verb("convert"), [str(source), "--to", "mlir"]) != 0
    assert capfd.readouterr().err.count("--split-input-file") == 2
    arguments = ["--split-input-file", str(source), "--to", "mlir", "--no-locations"]
    assert run(verb("convert"), arguments) == 0
    first, marker, second = capfd.readouterr().out.partition("// -----\n")
    assert marker
    assert "tosa.abs" in first
    assert "tosa.exp" in second


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "several parts need files: name them with -o NAME or -o DIR, or --to mlir"),
        (["--check", "-o", "o.tosa"], "--split-input-file is for one MLIR text"),
    ],
)
def test_what_parts_cannot_have_is_refused(
    arguments: list[str], message: str, source: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(verb("convert"), ["--split-input-file", str(source), *arguments]) == 2
    assert message in capfd.readouterr().err


def test_one_dash_before_another_option_names_the_option(
    source: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["convert", "-tosa-version=1.0", str(source)]
    monkeypatch.setattr("sys.argv", ["tosa-flatbuffer", *arguments])
    assert run(verb("convert"), arguments[1:]) == 2
    printed = capfd.readouterr().err
    assert "there is no option -tosa-version" in printed
    assert "did you mean --tosa-version?" in printed
