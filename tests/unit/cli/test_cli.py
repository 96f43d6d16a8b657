"""The command-line tool on one input: options, exit codes, outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from unit.building import PRODUCER, branching, example, graph, op, tensor

import tosa_convert as tc
from tosa_convert.cli import convert_file
from tosa_convert.cli.main import run, tosa_flatbuffer, verb
from tosa_convert.formats.flatbuffer.write import plan
from tosa_convert.graph import Graph, compare
from tosa_convert.version import __version__, draft_name

TEXT = """module {
  func.func @f(%a: tensor<2xf32> {tosa.tensor_name = "x"}) -> tensor<2xf32> {
    %0 = tosa.exp %a : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
"""
TWO = "func.func @f() { return }\nfunc.func @g(%a: tensor<2xi64>) { return }\n"


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
    path.write_bytes(b"".join(plan(made, PRODUCER).pieces()))


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.usefixtures("m")
def test_mlir_becomes_a_flatbuffer_and_comes_back(convert: Any, tmp_path: Path) -> None:
    assert convert("m.mlir", "-o", "m.tosa") == (0, b"", "")
    assert tc.load(tmp_path / "m.tosa").main.inputs == ["x"]
    assert convert("m.tosa", "-o", "n.mlir") == (0, b"", "")
    assert convert("n.mlir", "-o", "n.tosa") == (0, b"", "")
    assert (tmp_path / "n.tosa").read_bytes() == (tmp_path / "m.tosa").read_bytes()
    assert listing(tmp_path) == ["m.mlir", "m.tosa", "n.mlir", "n.tosa"]


@pytest.mark.usefixtures("m")
@pytest.mark.parametrize("extension", ["tosa", "json", "mlir", "mlirbc", "bc"])
def test_the_extension_says_what_is_written(convert: Any, tmp_path: Path, extension: str) -> None:
    assert convert("m.mlir", "-o", f"out.{extension}")[0] == 0
    found = tc.load(tmp_path / f"out.{extension}")
    assert compare(tc.load(tmp_path / "m.mlir"), found) is None


@pytest.mark.usefixtures("m")
@pytest.mark.parametrize("kind", ["tosa", "json", "mlir", "mlirbc"])
def test_an_option_wins_over_the_extension(convert: Any, tmp_path: Path, kind: str) -> None:
    from tosa_convert.io.formats import sniff

    assert convert("m.mlir", "--to", kind, "-o", "out.xyz")[0] == 0
    assert sniff(memoryview((tmp_path / "out.xyz").read_bytes()), "") == kind


@pytest.mark.usefixtures("m")
def test_without_an_output_the_other_side_goes_to_stdout(convert: Any, tmp_path: Path) -> None:
    code, out, err = convert("m.mlir")
    assert (code, err) == (0, "")
    assert out[4:8] == b"TOSA"
    (tmp_path / "m.tosa").write_bytes(out)
    code, out, err = convert("m.tosa")
    assert (code, err) == (0, "")
    assert b"module attributes {tosa.description" in out
    assert convert("m.tosa", "-o", "-")[1] == out


@pytest.mark.usefixtures("m")
def test_names_and_versions_are_as_requested(convert: Any, tmp_path: Path) -> None:
    assert convert("m.mlir", "--names", "generate", "--tosa-version", "1.1", "-o", "m.tosa")[0] == 0
    found = tc.load(tmp_path / "m.tosa")
    assert found.main.inputs == ["TosaInput_0"]
    assert str(found.version) == "1.1.0 draft"
    assert convert("m.mlir", "-o", "m.tosa")[0] == 0
    assert str(tc.load(tmp_path / "m.tosa").version) == "1.0.0"


def test_a_version_that_cannot_express_the_graph_is_refused(convert: Any, tmp_path: Path) -> None:
    save(tmp_path / "m.tosa", graph("x", "x", [tensor("x", "INT64")], []))
    code, _, err = convert("m.tosa", "--tosa-version", "1.0", "-o", "n.tosa")
    assert code == 4
    assert "INT64 needs TOSA 1.1" in err
    assert listing(tmp_path) == ["m.tosa"]


def test_a_function_is_chosen_by_name(convert: Any, tmp_path: Path, torch_mlir: Any) -> None:
    (tmp_path / "two.mlir").write_text(TWO)
    code, _, err = convert("two.mlir", "-o", "two.tosa")
    assert code == 2
    assert err.count("[ambiguous-function]") == 2
    assert "two.mlir:1:1: error: function @f is one of 2" in err
    assert listing(tmp_path) == ["two.mlir"]
    for name in ("g", "@g"):
        assert convert("two.mlir", "--func", name, "-o", "two.tosa")[0] == 0
        assert tc.load(tmp_path / "two.tosa").regions[0].name == "g"
    code, _, err = convert("two.mlir", "--func", "h", "-o", "no.tosa")
    assert code == 2
    assert "no function @h with a body; found @f, @g" in err


def test_weights_are_stored_where_requested(convert: Any, tmp_path: Path) -> None:
    weight = bytes(range(240)) * 10
    save(
        tmp_path / "m.tosa",
        graph("", "w", [tensor("w", "INT8", (2400,), weight)], [op("CONST", "", "w")]),
    )
    assert convert("m.tosa", "--weights", "offset", "-o", "o.tosa")[0] == 0
    assert (tmp_path / "o.tosa").read_bytes().endswith(weight)
    assert convert("o.tosa", "--weights", "embedded", "-o", "e.tosa")[0] == 0
    assert convert("e.tosa", "--weights", "npy", "-o", "n.tosa")[0] == 0
    assert (tmp_path / "n.weights").is_dir()
    assert weight not in (tmp_path / "n.tosa").read_bytes()
    for name in ("o.tosa", "e.tosa", "n.tosa"):
        assert compare(tc.load(tmp_path / "m.tosa"), tc.load(tmp_path / name)) is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["m.tosa", "-o", "out.txt"], "the extension '.txt' does not name a format"),
        (["m.tosa", "-o", "out"], "the extension '' does not name a format"),
        (["m.tosa", "-o", "m.tosa"], "the output is the input file"),
        (["m.tosa", "-o", "./m.tosa"], "the output is the input file"),
        (["m.tosa", "-o", "link.tosa"], "the output is the input file"),
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
    code, out, err = convert(*arguments)
    assert (code, out) == (2, b"")
    assert message in err
    assert "Traceback" not in err
    assert listing(tmp_path) == ["folder", "link.tosa", "m.tosa"]
    assert (tmp_path / "m.tosa").read_bytes() == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "[empty-input]"),
        (b"\x89PNG\r\n\x1a\n\0\0", "[unrecognised-input]"),
        (b"func.func @f(", "[malformed-mlir]"),
        (b"ML\xefR\x0d and nothing after it", "[malformed-mlir]"),
        (b"\x10\0\0\0TOSA\0\0\0\0", "[malformed-flatbuffer]"),
        (b"{", "[malformed-json]"),
        (b"module {}\n\xff", "[unrecognised-input]"),
        (b"module {}\n" + b" " * 5000 + b"\xff", "[malformed-mlir]"),
        (b"\xef\xbb\xbfmodule {\n", "[malformed-mlir]"),
    ],
)
def test_bad_input_is_exit_code_3_and_leaves_nothing(
    convert: Any, tmp_path: Path, torch_mlir: Any, content: bytes, message: str
) -> None:
    (tmp_path / "m").write_bytes(content)
    code, out, err = convert("m", "-o", "out.tosa")
    assert (code, out) == (3, b"")
    assert message in err
    assert "Traceback" not in err
    assert listing(tmp_path) == ["m"]


def test_a_program_that_cannot_be_converted_is_exit_code_4_with_every_finding(
    convert: Any, tmp_path: Path, torch_mlir: Any
) -> None:
    body = "%0 = arith.addf %a, %a : tensor<2xf64>\n  return %0 : tensor<2xf64>"
    signature = "@f(%a: tensor<2xf64>) -> tensor<2xf64>"
    (tmp_path / "m.mlir").write_text(f"func.func {signature} {{\n  {body}\n}}\n")
    code, out, err = convert("m.mlir", "-o", "out.tosa")
    assert (code, out) == (4, b"")
    assert "m.mlir:1:1: error: argument 0: tensor<2xf64>: TOSA has no element type f64" in err
    assert "m.mlir:2:8: error: 'arith.addf' is not a TOSA operator" in err
    assert listing(tmp_path) == ["m.mlir"]


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


def test_help_and_version_are_exit_code_0(convert: Any) -> None:
    code, out, _ = convert("--help")
    assert code == 0
    assert b"--export-to-flatbuffer" in out
    code, out, _ = convert("--version")
    assert code == 0
    assert out.decode().endswith(f"{__version__}; TOSA 1.0, and 1.1 as {draft_name()}\n")
    code, out, _ = convert("--version", command=tosa_flatbuffer)
    assert code == 0
    assert out.decode().endswith(f"{__version__}; TOSA 1.0, and 1.1 as {draft_name()}\n")


def test_the_convert_verb_equals_the_convert_command(convert: Any, tmp_path: Path) -> None:
    save(tmp_path / "m.tosa", branching())
    assert convert("convert", "m.tosa", "-o", "a.json", command=tosa_flatbuffer)[0] == 0
    assert convert("m.tosa", "-o", "b.json")[0] == 0
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_the_same_input_gives_the_same_bytes_from_any_folder(
    convert: Any, tmp_path: Path, torch_mlir: Any
) -> None:
    outputs = set()
    for name in ("one", "other/below"):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "m.mlir").write_text(TEXT)
        assert convert(str(folder / "m.mlir"), "-o", str(folder / "m.tosa"))[0] == 0
        outputs.add((folder / "m.tosa").read_bytes())
    assert len(outputs) == 1
    assert convert(str(folder / "m.mlir"), "--full-paths", "-o", "full.tosa")[0] == 0
    assert str(folder).encode() in (tmp_path / "full.tosa").read_bytes()


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
