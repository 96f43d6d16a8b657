"""The outputs of `convert`: directories, directions, and the first error that is reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from oracle.small_programs import convolution
from unit.building import example

import tosa_convert as tc
from tosa_convert.cli.main import run, verb
from tosa_convert.io.formats import sniff


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tc.save(example(), "m.tosa")
    Path("folder").mkdir()


def convert(*arguments: str) -> int:
    return run(verb("convert"), list(arguments))


def format_of(path: str) -> str:
    return sniff(memoryview(Path(path).read_bytes()), path)


@pytest.mark.parametrize(
    ("output", "expected"),
    [("folder", "folder/m.json"), ("folder/", "folder/m.json"), ("new/", "new/m.json"),
     ("new/deeper/", "new/deeper/m.json"), (".", "m.json")],
)  # fmt: skip
def test_a_directory_gets_a_file_of_the_inputs_name(output: str, expected: str) -> None:
    assert convert("m.tosa", "-o", output, "--to", "json") == 0
    assert format_of(expected) == "json"


@pytest.mark.usefixtures("torch_mlir")
def test_a_directory_gets_the_other_side_without_a_format() -> None:
    assert convert("m.tosa", "-o", "folder") == 0
    assert format_of("folder/m.mlir") == "mlir"
    assert convert("folder/m.mlir", "-o", "folder") == 0
    assert format_of("folder/m.tosa") == "tosa"


def test_a_directory_does_not_hide_that_input_and_output_are_one_file() -> None:
    assert convert("m.tosa", "-o", ".", "--to", "tosa") == 2


def test_a_directory_for_standard_input_needs_a_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import io
    import sys

    data = Path("m.tosa").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert convert("-", "-o", "folder", "--to", "json") == 2
    assert "name a file for standard input" in capsys.readouterr().err


@pytest.mark.parametrize("output", ["x", "x.txt", "m.tosa", "folder", "missing/x.json"])
def test_a_missing_input_is_reported_before_anything_about_the_output(
    output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert convert("gone.tosa", "-o", output) == 2
    message = capsys.readouterr().err
    assert message.startswith("gone.tosa: error: cannot be read: ")
    assert message.count("error:") == 1


def test_a_missing_input_is_reported_first_by_every_verb(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for arguments in (["repack"], ["weights", "strip"], ["extract", "--outputs", "y"]):
        name, *rest = arguments
        assert run(verb(name), [*rest, "gone.tosa", "-o", "x.txt"]) == 2
        assert "gone.tosa: error: cannot be read: " in capsys.readouterr().err


@pytest.mark.usefixtures("torch_mlir")
@pytest.mark.parametrize(
    ("flag", "source", "output", "written"),
    [
        ("--export-to-flatbuffer", "m.mlir", "q.mlir", None),
        ("--export-to-flatbuffer", "m.mlir", "q.bc", None),
        ("--export-to-flatbuffer", "m.mlir", "q.json", "json"),
        ("--export-to-flatbuffer", "m.mlir", "q.tosa", "tosa"),
        ("--export-to-flatbuffer", "m.mlir", "q.fb", "tosa"),
        ("--import-from-flatbuffer", "m.tosa", "q.tosa", None),
        ("--import-from-flatbuffer", "m.tosa", "q.json", None),
        ("--import-from-flatbuffer", "m.tosa", "q.mlirbc", "mlirbc"),
        ("--import-from-flatbuffer", "m.tosa", "q.mlir", "mlir"),
        ("--import-from-flatbuffer", "m.tosa", "q", "mlir"),
    ],
)
def test_a_direction_writes_what_the_extension_says_or_refuses_it(
    flag: str, source: str, output: str, written: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    tc.save(example(), "m.mlir")
    code = convert(flag, source, "-o", output)
    if written is None:
        assert code == 2
        assert f"{flag} does not write" in capsys.readouterr().err
        assert not Path(output).exists()
    else:
        assert code == 0
        assert format_of(output) == written


@pytest.mark.parametrize("consumer", ["vela", "flatc"])
@pytest.mark.parametrize("output", ["n.json", "n.mlir", "n.mlirbc"])
def test_a_consumer_of_tosa_files_refuses_other_formats(
    consumer: str, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert convert("m.tosa", "-o", output, "--for", consumer) == 2
    expected = "(--for) does not apply to" if output == "n.json" else f"{consumer} reads TOSA"
    assert expected in capsys.readouterr().err
    assert not Path(output).exists()
    tc.save(convolution(), "m.tosa")
    assert convert("m.tosa", "-o", "n.tosa", "--for", consumer) == 0


def test_repack_refuses_other_formats_for_a_consumer(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(verb("repack"), ["m.tosa", "-o", "n.json", "--for", "vela"]) == 2
    assert "(--for) does not apply to" in capsys.readouterr().err


def test_verification_of_standard_output_happens(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: Any
) -> None:
    from tosa_convert.formats import write as writing

    assert convert("m.tosa", "--to", "json", "--verify") == 0
    assert capfdbinary.readouterr().out == tc.dumps(tc.load("m.tosa"), "json")
    damaged = tc.dumps(tc.load("m.tosa"), "json")[:-2]
    monkeypatch.setattr(writing, "_render_sound", lambda *_: [damaged])
    assert convert("m.tosa", "--to", "json", "--verify") != 0
    assert capfdbinary.readouterr().out == b""


@pytest.mark.parametrize("flags", [["--func", "f"], ["--func", "f", "--input-shape", "x=1"]])
def test_other_verbs_refuse_options_that_do_not_apply(
    flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    if "--input-shape" in flags:
        code = run(verb("run"), ["m.tosa", "--random", "1", *flags])
    else:
        code = run(verb("extract"), ["m.tosa", "--outputs", "y", "-o", "n.tosa", *flags])
    assert code == 2
    assert "the option func (--func) does not apply to TOSA flatbuffer" in capsys.readouterr().err
