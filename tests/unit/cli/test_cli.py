"""The command-line tool on one input: options, exit codes, outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from unit.building import encode, example

from tosa_convert.cli import convert_file
from tosa_convert.cli.main import run, verb
from tosa_convert.graph import Graph
from tosa_convert.version import __version__

TEXT = """module {
  func.func @f(%a: tensor<2xf32> {tosa.tensor_name = "x"}) -> tensor<2xf32> {
    %0 = tosa.exp %a : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
"""


@pytest.fixture
def convert(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Any:
    """Run `convert` in a folder of its own: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str, command: Any = None) -> tuple[int, bytes, str]:
        capfdbinary.readouterr()
        code = run(command or verb("convert"), list(arguments))
        out, err = capfdbinary.readouterr()
        return code, out, err.decode()

    return call


@pytest.fixture
def m(tmp_path: Path, torch_mlir: Any) -> Path:
    """m.mlir in the folder of the test."""
    path = tmp_path / "m.mlir"
    path.write_text(TEXT)
    return path


def save(path: Path, made: Graph) -> None:
    path.write_bytes(encode(made))


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["m.tosa", "-o", "out.txt"], "the extension '.txt' does not name a format"),
        (["m.tosa", "-o", "out"], "the extension '' does not name a format"),
        (["m.tosa", "-o", "m.tosa"], "the output is the input file"),
        (["m.tosa", "-o", "./m.tosa"], "the output is the input file"),
        (["m.tosa", "-o", "folder/../m.tosa"], "the output is the input file"),
        (["m.tosa", "-o", "link.tosa"], "the output is the input file"),
        (["m.tosa", "-o", "hard.tosa"], "the output is the input file"),
        (["m.tosa", "-o", "missing/out.json"], "cannot be written: No such file"),
        (["gone.tosa", "-o", "out.json"], "gone.tosa: error: cannot be read: No such file"),
        (["m.tosa", "--to", "onnx"], "--to: error: found 'onnx', expected one of"),
        (["m.tosa", "--names", "mine"], "--names: error: found 'mine', expected one of"),
        (["m.tosa", "--tosa-version", "0.80"], "--tosa-version: error: found '0.80', expected one of"),
        (["m.tosa", "--weights", "beside"], "--weights: error: found 'beside', expected one of"),
        (["m.tosa", "--no-such-option"], "there is no option --no-such-option"),
        (["m.tosa", "--export-to-flatbuffer", "--import-from-flatbuffer"], "exclude each other"),
        (["m.tosa", "--export-to-flatbuffer", "--to", "mlir"], "does not write MLIR text"),
        (["m.tosa", "--import-from-flatbuffer", "--to", "json"], "does not write TOSA flatbuffer as"),
        (["m.tosa", "--input-shape", "x", "-o", "out.json"], "expected NAME=SIZE"),
        (["m.tosa", "--weights", "npy"], "MLIR stores its constants inside"),
        (["m.tosa", "--weights", "npy", "--to", "tosa"], "there is no file"),
        (["m.tosa", "m.tosa"], "several inputs need a directory"),
        (["m.tosa", "gone.tosa", "-o", "m.tosa"], "the output is the input file"),
        (["folder"], "several inputs need a directory"),
    ],
)  # fmt: skip
def test_a_wrong_request_is_exit_code_2_and_changes_nothing(
    convert: Any, tmp_path: Path, arguments: list[str], message: str
) -> None:
    save(tmp_path / "m.tosa", example())
    before = (tmp_path / "m.tosa").read_bytes()
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.tosa").symlink_to("m.tosa")
    (tmp_path / "hard.tosa").hardlink_to(tmp_path / "m.tosa")
    code, out, err = convert(*arguments)
    assert (code, out) == (2, b"")
    assert message in err
    assert "Traceback" not in err
    assert listing(tmp_path) == ["folder", "hard.tosa", "link.tosa", "m.tosa"]
    assert (tmp_path / "m.tosa").read_bytes() == before


@pytest.mark.usefixtures("m")
def test_a_direction_that_does_not_fit_the_input_is_refused(convert: Any, tmp_path: Path) -> None:
    code, _, err = convert("m.mlir", "--import-from-flatbuffer")
    assert code == 3
    assert "--import-from-flatbuffer reads flatbuffers and their JSON, found MLIR text" in err
    save(tmp_path / "m.tosa", example())
    code, _, err = convert("m.tosa", "--export-to-flatbuffer")
    assert code == 3
    assert "--export-to-flatbuffer reads MLIR, found TOSA flatbuffer" in err


def test_a_bug_of_ours_is_exit_code_70_with_a_trace(
    convert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "m.tosa", example())

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no such luck")

    monkeypatch.setattr(convert_file, "read", broken)
    code, out, err = convert("m.tosa", "-o", "out.json")
    assert (code, out) == (70, b"")
    assert "RuntimeError: no such luck" in err
    assert f"internal error in tosa-convert {__version__}: please report it" in err
    assert listing(tmp_path) == ["m.tosa"]


def test_an_interrupt_is_exit_code_130(
    convert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "m.tosa", example())

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(convert_file, "read", interrupted)
    assert convert("m.tosa", "-o", "out.json")[0] == 130
    assert listing(tmp_path) == ["m.tosa"]


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        ImportError("a.so: failed to map segment from shared object"),
        OSError(12, "Cannot allocate memory"),
    ],
)
@pytest.mark.parametrize("files", [["m.tosa"], ["m.tosa", "n.tosa"]])
def test_too_little_memory_is_no_bug_of_ours(
    error: Exception,
    files: list[str],
    convert: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in files:
        save(tmp_path / name, example())

    def broken(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(convert_file, "read", broken)
    target = ["-o", "out.json"] if len(files) == 1 else ["--to", "json", "-o", "out"]
    code, out, err = convert(*files, *target)
    assert (code, out) == (4, b"")
    assert "there is not enough memory" in err
    assert "please report" not in err


@pytest.mark.parametrize("exists", [False, True])
def test_only_a_location_in_a_file_that_is_here_is_printed_as_a_place(
    exists: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.mlir").write_text(
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        '  %0 = math.absf %x : tensor<4xf32> loc("net.py":12:4)\n'
        "  return %0 : tensor<4xf32>\n}\n"
    )
    if exists:
        (tmp_path / "net.py").touch()
    assert run(verb("convert"), ["a.mlir", "-o", "a.tosa"]) == 4
    place = "net.py:12:4" if exists else "net.py line 12 (no such file here)"
    assert capsys.readouterr().err.startswith(f"{place}: error: 'math.absf' is not a TOSA operator")
