"""The command-line tool on several inputs and directories."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from unit.building import branching, example
from unit.cli.test_cli import TEXT, convert, listing, save

import tosa_convert as tc
from tosa_convert.cli.main import run, verb
from tosa_convert.graph import compare

__all__ = ["convert"]  # the fixture


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_several_inputs_go_into_a_directory(convert: Any, tmp_path: Path) -> None:
    save(tmp_path / "a.tosa", example())
    save(tmp_path / "b.tosa", branching())
    code, out, err = convert("a.tosa", "b.tosa", "--to", "json", "-o", "out/below")
    assert (code, out) == (0, b"")
    assert err == "2 of 2 files converted\n"
    assert tree(tmp_path / "out") == ["below/a.json", "below/b.json"]
    assert compare(tc.load(tmp_path / "out/below/b.json"), branching()) is None


def test_a_directory_keeps_its_structure(convert: Any, tmp_path: Path) -> None:
    for name in ("a.tosa", "deep/er/b.tosa", "deep/c.tosa", "a.b.tosa"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        save(tmp_path / "in" / name, example())
    (tmp_path / "in" / "readme.txt").write_text("not a program")
    (tmp_path / "in" / "folder.tosa").mkdir()
    code, _, err = convert("in", "--to", "json", "-o", "out")
    assert code == 0
    assert err == "4 of 4 files converted\n"
    assert tree(tmp_path / "out") == ["a.b.json", "a.json", "deep/c.json", "deep/er/b.json"]


def test_models_below_a_directory_are_converted_and_shown(
    convert: Any, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (tmp_path / "in/below").mkdir(parents=True)
    for name in ("a.tflite", "below/b.onnx", "c.pt2", "d.keras"):
        (tmp_path / "in" / name).write_bytes(b"\xfe\xed")
    code, _, err = convert("in", "-o", "out")
    assert (code, err.count("as its extension says")) == (3, 4)
    assert "0 of 4 files converted" in err
    assert run(verb("show"), [str(tmp_path / "in")]) == 3
    assert capfdbinary.readouterr().err.count(b"as its extension says") == 4


def test_a_shape_applies_to_the_programs_that_have_the_input(convert: Any, tmp_path: Path) -> None:
    for name, inputs in (("a", "x"), ("b", "y"), ("c", "x y")):
        arguments = ", ".join(
            f'%{one}: tensor<?x3xi8> {{tosa.tensor_name = "{one}"}}' for one in inputs.split()
        )
        first = inputs.split()[0]
        (tmp_path / f"{name}.mlir").write_text(
            f"func.func @main({arguments}) -> tensor<?x3xi8> {{ return %{first} : tensor<?x3xi8> }}"
        )
    files = ("a.mlir", "b.mlir", "c.mlir")
    code, _, err = convert(*files, "-o", "out", "--input-shape", "x=4x3")
    assert (code, err) == (0, "3 of 3 files converted\n")
    shapes = {name: tc.load(tmp_path / f"out/{name}.tosa").main.tensors for name in "abc"}
    assert shapes["a"]["x"].shape == shapes["c"]["x"].shape == (4, 3)
    assert shapes["b"]["y"].shape == (-1, 3)
    code, _, err = convert(*files, "-o", "out", "--input-shape", "x=4x3", "--input-shape", "z=1x3")
    assert code == 2
    assert "--input-shape z: error: none of the files that were converted has an input" in err


def test_a_bug_that_one_file_triggers_does_not_stop_the_others(
    convert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tosa_convert.formats.flatbuffer import read

    real = read.read

    def failing(data: memoryview, where: str, *options: Any) -> Any:
        if where == "b.tosa":
            raise TypeError("a bug of ours")
        return real(data, where, *options)

    monkeypatch.setattr(read, "read", failing)
    for name in "abc":
        save(tmp_path / f"{name}.tosa", example())
    code, _, err = convert("a.tosa", "b.tosa", "c.tosa", "--to", "json", "-o", "out")
    assert code == 70
    assert "TypeError: a bug of ours" in err
    assert "b.tosa: internal error in tosa-convert" in err
    assert err.endswith("2 of 3 files converted\n")
    assert tree(tmp_path / "out") == ["a.json", "c.json"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="file names of POSIX are bytes")
@pytest.mark.parametrize("environment", [{}, {"LC_ALL": "C", "PYTHONUTF8": "0"}])
def test_a_file_name_that_is_not_utf_8_is_converted(
    tmp_path: Path, torch_mlir: Any, environment: dict[str, str]
) -> None:
    folder = os.fsencode(tmp_path)
    names = [b"a", b"b\xff\xe9", "é".encode()]
    try:
        for name in names:
            with open(os.path.join(folder, name + b".mlir"), "w") as file:
                file.write(TEXT)
    except OSError:
        pytest.skip("this file system has no such names")
    options: Any = {
        "env": {**os.environ, "PYTHONCOERCECLOCALE": "0", **environment},
        "cwd": tmp_path,
        "capture_output": True,
        "check": False,
    }
    command = [sys.executable, "-m", "tosa_convert", "convert"]
    done = subprocess.run([*command, ".", "-o", "out"], **options)
    assert (done.returncode, done.stderr) == (0, b"3 of 3 files converted\n")
    for name in names:
        one = subprocess.run([*command, name + b".mlir", "-o", b"one.tosa"], **options)
        assert (one.returncode, one.stderr) == (0, b"")
        with open(os.path.join(folder, b"out", name + b".tosa"), "rb") as file:
            assert file.read() == (tmp_path / "one.tosa").read_bytes()


@pytest.mark.parametrize("content", [b"", b"\x89PNG\r\n\x1a\n\0", b"\x10\0\0\0TOSA", None])
def test_a_file_that_is_not_a_program_does_not_stop_the_others(
    convert: Any, tmp_path: Path, torch_mlir: Any, content: bytes | None
) -> None:
    save(tmp_path / "a.tosa", example())
    if content is not None:
        (tmp_path / "b.tosa").write_bytes(content)
    code, _, err = convert("b.tosa", "a.tosa", "-o", "out")
    assert code == (2 if content is None else 3)
    assert re.search("b.tosa: (byte .*)?error:", err)
    assert err.endswith("1 of 2 files converted\n")
    assert tree(tmp_path / "out") == ["a.mlir"]


def test_the_worst_failure_is_the_exit_code(convert: Any, tmp_path: Path, torch_mlir: Any) -> None:
    (tmp_path / "a.mlir").write_text("func.func @f(%a: tensor<2xf64>) { return }")
    (tmp_path / "b.mlir").write_text("func.func @f(")
    code, _, err = convert("a.mlir", "b.mlir", "-o", "out")
    assert code == 4
    assert "a.mlir:1:1: error:" in err
    assert "b.mlir:1:" in err


def test_two_inputs_with_one_output_are_refused_before_anything_is_written(
    convert: Any, tmp_path: Path
) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        save(tmp_path / folder / "m.tosa", example())
    code, _, err = convert("one/m.tosa", "two/m.tosa", "--to", "json", "-o", "out")
    assert code == 2
    assert "two/m.tosa: error: its output out/m.json is also that of one/m.tosa" in err
    assert not (tmp_path / "out").exists()


def test_two_names_of_one_input_are_refused_as_well(convert: Any, tmp_path: Path) -> None:
    save(tmp_path / "m.tosa", example())
    (tmp_path / "n").mkdir()
    code, _, err = convert("m.tosa", "./m.tosa", "n/../m.tosa", "--to", "json", "-o", "out")
    assert code == 2
    assert "[option-conflict]" in err


@pytest.mark.parametrize("output", [".", "in"])
def test_no_input_is_overwritten_by_the_output_of_another(
    convert: Any, tmp_path: Path, torch_mlir: Any, output: str
) -> None:
    (tmp_path / "in").mkdir()
    os.chdir(tmp_path / "in")
    (tmp_path / "in" / "m.mlir").write_text(TEXT)
    save(tmp_path / "in" / "m.tosa", example())
    before = (tmp_path / "in" / "m.tosa").read_bytes()
    code, _, err = convert("m.mlir", "m.tosa", "-o", "../in" if output == "in" else ".")
    assert code == 2
    assert "[would-overwrite-input]" in err
    assert (tmp_path / "in" / "m.tosa").read_bytes() == before
    assert (tmp_path / "in" / "m.mlir").read_text() == TEXT


def test_outputs_may_lie_beside_the_inputs(convert: Any, tmp_path: Path) -> None:
    save(tmp_path / "a.tosa", example())
    save(tmp_path / "b.tosa", example())
    assert convert("a.tosa", "b.tosa", "--to", "json", "-o", ".")[0] == 0
    assert listing(tmp_path) == ["a.json", "a.tosa", "b.json", "b.tosa"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["a.tosa", "-", "-o", "out"], 2, "standard input cannot be one of several"),
        (["a.tosa", "b.tosa", "-o", "-"], 2, "several inputs need a directory"),
        (["empty", "-o", "out"], 3, "no file below it has one of the extensions"),
        (["a.tosa", "b.tosa", "-o", "a.tosa"], 2, "the output is the input file"),
        (["a.tosa", "b.tosa", "--to", "json", "-o", "a.tosa/below"], 2, "[file-error]"),
    ],
)
def test_a_wrong_request_changes_nothing(
    convert: Any, tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    save(tmp_path / "a.tosa", example())
    save(tmp_path / "b.tosa", example())
    (tmp_path / "empty").mkdir()
    found, _, err = convert(*arguments)
    assert found == code
    assert message in err
    assert "Traceback" not in err
    assert listing(tmp_path) == ["a.tosa", "b.tosa", "empty"]


@pytest.mark.slow
def test_two_processes_do_what_one_does(convert: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for index in range(6):
        save(tmp_path / "in" / f"{index}.tosa", example() if index % 2 else branching())
    (tmp_path / "in" / "bad.tosa").write_bytes(b"\x10\0\0\0TOSA")
    results = {}
    for jobs in ("1", "2"):
        code, _, err = convert("in", "--to", "json", "-j", jobs, "-o", f"out{jobs}")
        assert code == 3
        folder = tmp_path / f"out{jobs}"
        results[jobs] = err, {name: (folder / name).read_bytes() for name in tree(folder)}
    assert results["1"] == results["2"]
    assert len(results["1"][1]) == 6


@pytest.mark.slow
def test_a_missing_file_is_reported_by_a_worker_process_too(convert: Any) -> None:
    code, _, err = convert("no.mlir", "none.mlir", "--to", "tosa", "-o", "out", "-j", "2")
    assert code == 2
    assert err.count("[file-error]") == 2
    assert "Traceback" not in err
