"""`-` is standard input and standard output wherever a verb reads or writes a file."""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from unit.building import encode, graph, op, tensor

import tosa_convert as tc
from manual.commands import verbs
from tosa_convert.cli.main import run, tosa_flatbuffer
from tosa_convert.cli.option import Folder, NamesFile, Option
from tosa_convert.formats.write import dumps
from tosa_convert.golden.arrays import save_npz
from tosa_convert.graph import Graph, compare
from tosa_convert.io.formats import WRITTEN, sniff

RUN = ["--random", "1"]
#: Verb -> the arguments with which it reads a program from standard input.
READS = {
    "bisect": ["-", *RUN, "--against", "other.tosa"],
    "check": ["-", *RUN, "--against", "other.tosa"],
    "convert": ["-", "-o", "out.mlir"],
    "diff": ["-", "m.tosa"],
    "doctor": ["-", "--for", "flatc"],
    "extract": ["-", "--outputs", "y", "-o", "out.tosa"],
    "power": ["-", *RUN],
    "reduce": ["-", "--command", "false", "--expect-exit", "1", "--work", "work"],
    "repack": ["-", "-o", "out.tosa"],
    "report": ["--dot"],
    "rewrite": ["-", "-o", "out.tosa"],
    "run": ["-", *RUN],
    "show": ["-"],
    "upgrade": ["-", "-o", "out.tosa"],
    "validate": ["-"],
    "weights export": ["-", "-o", "folder"],
    "weights import": ["-", "m.weights", "-o", "out.tosa"],
    "weights strip": ["-", "-o", "out.tosa"],
}
#: Verb -> the arguments with which it writes a program to standard output.
WRITES = {
    "convert": ["m.tosa", "--to", "tosa", "-o", "-"],
    "extract": ["m.tosa", "--outputs", "y", "-o", "-"],
    "generate": ["--seed", "1", "-o", "-"],
    "reduce": ["m.tosa", "--command", "false", "--expect-exit", "1", "--work", "work", "-o", "-"],
    "repack": ["m.tosa", "-o", "-"],
    "rewrite": ["m.tosa", "-o", "-"],
    "upgrade": ["m.tosa", "-o", "-"],
    "weights import": ["m.tosa", "m.weights", "-o", "-"],
    "weights strip": ["m.tosa", "-o", "-"],
}
#: Verbs whose arguments are not programs.
OTHERS = {"chain", "data", "explain", "extensions", "frontends", "fuzz", "generate", "suite"}
#: Verbs whose -o is not a program.
REPORTS = {"report", "run", "validate", "weights export"}
NEED_REFERENCE = {"bisect", "check", "power", "run", "suite"}
AGAINST = "m.tosa --random 1 --against other.tosa"
SUITE = "suite cases --against false --jobs 1"
#: Option that names a file to read -> a command with it, and a file.
READ_OPTIONS = {
    "bisect --input": ("bisect m.tosa --against other.tosa -i {}", "x.npz"),
    "bisect --variables": (f"bisect {AGAINST} --variables {{}}", "no.npz"),
    "check --calibration": ("check m.tosa --against other.tosa --calibration {}", "samples.npz"),
    "check --input": ("check m.tosa --against other.tosa -i {}", "x.npz"),
    "check --variables": (f"check {AGAINST} --variables {{}}", "no.npz"),
    "data paths": ("data {}", "x.npz"),
    "power --calibration": ("power m.tosa --calibration {}", "samples.npz"),
    "power --input": ("power m.tosa -i {}", "x.npz"),
    "power --variables": ("power m.tosa --random 1 --variables {}", "no.npz"),
    "reduce --input": ("reduce m.tosa --command false --expect-exit 1 --work work -i {}", "x.npz"),
    "report --errors": ("report m.tosa --dot --errors {}", "errors.json"),
    "run --input": ("run m.tosa -i {}", "x.npz"),
    "run --variables": ("run m.tosa --random 1 --variables {}", "no.npz"),
    "suite --baseline": (f"{SUITE} --baseline {{}}", "old.json"),
    "suite --xfail": (f"{SUITE} --xfail {{}}", "xfail.txt"),
}
#: Option that names a file to write -> a command with it, and the start of the file, if it is not the
#: same each time.
WRITE_OPTIONS = {
    "report --output": ("report m.tosa --dot -o {}", b""),
    "run --bounds": ("run m.tosa --random 1 --bounds {}", b""),
    "run --intermediates": ("run m.tosa --random 1 --intermediates {}", b""),
    "run --output": ("run m.tosa --random 1 -o {}", b""),
    "run --save-inputs": ("run m.tosa --random 1 --save-inputs {}", b""),
    "run --save-variables": ("run m.tosa --random 1 --save-variables {}", b""),
    "suite --html": (f"{SUITE} --html {{}}", b"<!doctype html>"),
    "suite --json-report": (f"{SUITE} --json-report {{}}", b'{\n "tool": '),
    "suite --junit": (f"{SUITE} --junit {{}}", b"<?xml"),
    "upgrade --json-report": ("upgrade m.tosa -o out.tosa --json-report {}", b""),
    "validate --output": ("validate m.tosa --json -o {}", b""),
}

ALL = {verb.name: verb.command for verb in verbs() if not isinstance(verb.command, click.Group)}


def program() -> Graph:
    tensors = [
        tensor("x", "INT32", (2,)),
        tensor("w", "INT32", (2,), np.array([10, 13], np.int32).tobytes()),
        tensor("y", "INT32", (2,)),
    ]
    return graph("x", "y", tensors, [op("CONST", "", "w"), op("ADD", "x w", "y")])


@pytest.fixture
def piped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Any:
    """Run a verb on `m.tosa` in standard input: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    data = encode(program())
    for name in ("m.tosa", "other.tosa"):
        Path(name).write_bytes(data)
    tc.export_weights(program(), "m.weights")

    def call(
        name: str, arguments: list[str], given: bytes = data, stdin: Any = io.TextIOWrapper
    ) -> tuple[int, bytes, str]:
        monkeypatch.setattr(sys, "stdin", stdin(io.BytesIO(given)))
        capfdbinary.readouterr()
        code = run(tosa_flatbuffer, [*name.split(), *arguments])
        out, err = capfdbinary.readouterr()
        return code, out, err.decode()

    return call


def test_every_verb_is_tested() -> None:
    assert READS.keys() | OTHERS == ALL.keys()
    with_output = {
        name
        for name, command in ALL.items()
        if any("--output" in param.opts for param in command.params)
    }
    assert WRITES.keys() | REPORTS == with_output
    for name in WRITES:
        assert any("--to" in param.opts for param in ALL[name].params), name


@pytest.mark.parametrize("name", READS)
def test_a_program_is_read_from_standard_input(
    name: str, piped: Any, request: pytest.FixtureRequest
) -> None:
    if name in NEED_REFERENCE:
        request.getfixturevalue("refmodel")
    code, _, err = piped(name, READS[name])
    assert (code, "error" in err) == (0, False), err
    assert not Path("-").exists()
    if Path("out.tosa").exists():
        assert tc.load("out.tosa").main.outputs == ["y"]


@pytest.mark.parametrize("name", [name for name in READS if READS[name][0] == "-"])
def test_bytes_are_not_changed_on_their_way_through_standard_input(name: str, piped: Any) -> None:
    code, out, err = piped(name, READS[name], b"\x10\0\0\0TOSA\r\n\xff")
    assert (code, "<stdin>" in out.decode() + err) == (3, True), err


@pytest.mark.parametrize("name", WRITES)
def test_a_program_is_written_to_standard_output(
    name: str, piped: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = piped(name, WRITES[name])
    assert code == 0, err
    assert sniff(memoryview(out), "") == "tosa"
    found = tc.load(out)
    if name not in ("generate", "reduce", "weights strip"):
        assert compare(found, program()) is None
    assert not Path("-").exists()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    code, out, err = piped(name, WRITES[name])
    assert (code, out, "does not go to a terminal" in err) == (2, b"", True)


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("kind", WRITTEN)
def test_a_verb_that_writes_a_program_writes_every_format(name: str, kind: str, piped: Any) -> None:
    if name == "repack" and kind.startswith("mlir"):
        pytest.skip("repack is for flatbuffers and their JSON")
    given = [word for word in WRITES[name] if word not in ("--to", "tosa")]
    code, out, err = piped(name, [*given, "--to", kind])
    assert (code, sniff(memoryview(out), "")) == (0, kind), err


@pytest.mark.parametrize("name", WRITES)
def test_a_hint_names_an_option_that_the_verb_has(name: str, piped: Any) -> None:
    given = [word for word in WRITES[name] if word not in ("--to", "tosa")]
    code, _, err = piped(name, [*given[:-1], "out.xyz"])
    assert (code, "choose the format with --to" in err) == (2, True), err


def test_the_input_format_is_that_of_standard_output(piped: Any) -> None:
    text = dumps(program(), "mlir")
    for name in ("extract", "rewrite", "upgrade", "weights strip"):
        options = ["--outputs", "y"] if name == "extract" else []
        code, out, err = piped(name, ["-", *options, "-o", "-"], text)
        assert (code, sniff(memoryview(out), "")) == (0, "mlir"), err


@pytest.mark.parametrize(
    "words", ["diff - -", "convert - -", "validate - -", "show - m.tosa", "convert - - -o folder"]
)
def test_standard_input_is_read_once(words: str, piped: Any) -> None:
    name, *arguments = words.split()
    code, _, err = piped(name, arguments)
    assert (code, "standard input" in err or "several inputs" in err) == (2, True)


def names_of(*kinds: type) -> set[str]:
    """Return the parameters of these types: `verb --flag` or `verb argument`."""
    return {
        f"{name} {param.flag if isinstance(param, Option) else param.name}"
        for name, command in ALL.items()
        for param in command.params
        if type(param.type) in kinds
    }


@pytest.fixture
def files(piped: Any) -> None:
    """Make the files of READ_OPTIONS, and a case for `suite`."""
    save_npz("x.npz", {"x": np.array([1, 2], np.int32)})
    save_npz("samples.npz", {"x": np.array([[1, 2], [3, 4]], np.int32)})
    save_npz("no.npz", {})
    Path("xfail.txt").write_text("* the backend has no program\n")
    Path("old.json").write_text('{"answers": [{"case": "gone", "status": "pass"}]}')
    answer = {"case": "a", "operator": "ADD", "status": "wrong"}
    Path("errors.json").write_text(json.dumps({"answers": [answer]}))
    Path("cases/one").mkdir(parents=True)
    shutil.copy("m.tosa", "cases/one/model.tosa")
    shutil.copy("x.npz", "cases/one/inputs.npz")


def marked(names: Iterable[str]) -> list[Any]:
    """Mark those of the verb that takes seconds."""
    return [
        pytest.param(name, marks=pytest.mark.slow if name.startswith("suite") else ())
        for name in names
    ]


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("name", marked(READ_OPTIONS))
def test_a_file_is_read_from_standard_input(
    name: str, piped: Any, request: pytest.FixtureRequest
) -> None:
    command, file = READ_OPTIONS[name]
    verb, *words = command.split()
    if verb in NEED_REFERENCE:
        request.getfixturevalue("refmodel")
    expected = piped(verb, [word.format(file) for word in words])
    assert expected[0] in (0, 1)
    found = piped(verb, [word.format("-") for word in words], Path(file).read_bytes())
    seconds = re.compile(rb"[0-9.]+ s, [0-9.]+ cases/s")
    assert seconds.sub(b"", found[1]) == seconds.sub(b"", expected[1])
    assert found[0] == expected[0]
    assert "error" not in found[2]
    assert not Path("-").exists()
    assert piped(verb, [word.format("-") for word in words], b"\xff\0")[2].startswith("<stdin>")


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("name", marked(WRITE_OPTIONS))
def test_a_file_is_written_to_standard_output(
    name: str, piped: Any, request: pytest.FixtureRequest
) -> None:
    command, start = WRITE_OPTIONS[name]
    verb, *words = command.split()
    if verb in NEED_REFERENCE:
        request.getfixturevalue("refmodel")
    file = Path("file.npz" if verb == "run" else "file")
    code, out, _ = piped(verb, [word.format(file) for word in words])
    assert code in (0, 1)
    found = piped(verb, [word.format("-") for word in words])
    assert found[0] == code
    if start:
        assert found[1].startswith(start)
        assert file.read_bytes().startswith(start)
    else:
        assert found[1] == file.read_bytes()
    # What is printed for people goes elsewhere.
    assert not out or out.decode()[:20] in found[2]
    assert not Path("-").exists()


@pytest.mark.parametrize("name", sorted(names_of(Folder, NamesFile)))
def test_what_is_no_file_is_not_taken_from_standard_streams(name: str, piped: Any) -> None:
    *verb, param = name.split()
    words = {"folder": ["m.tosa", "-"], "cases": ["-"]}.get(param, [param, "-"])
    if verb == ["suite"] and param != "cases":
        words += ["--against", "false"] if param != "--against" else []
        words += ["cases", "--work", "out"] if param == "--depends" else []
    code, out, err = piped(" ".join(verb), words)
    assert (code, out) == (2, b"")
    assert re.search("- is standard input or output|cannot be read from standard input", err), err


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("run m.tosa --random 1 -o - --save-inputs -", "--output and --save-inputs cannot both be"),
        ("run m.tosa --random 1 -o - --json", "--output and --json cannot both be"),
        ("upgrade m.tosa -o - --json-report -", "--output and --json-report cannot both be"),
        ("suite cases --against x --junit - --html -", "--junit and --html cannot both be"),
        ("run - -i -", "MODEL and --input cannot both be standard input"),
        ("run m.tosa -i a=- -i b=-", "--input and --input cannot both be standard input"),
        ("report --errors -", "MODEL and --errors cannot both be standard input"),
        ("convert -i - --check", "[IN]... and --input cannot both be standard input"),
    ],
)
def test_a_stream_is_used_once(command: str, expected: str, piped: Any) -> None:
    verb, *words = command.split()
    code, out, err = piped(verb, words)
    assert (code, out, expected in err) == (2, b"", True), err


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("run m.tosa --random 1 -o ./m.tosa", "the output is the input file"),
        ("run m.tosa --random 1 --save-inputs m.tosa", "the output is the input file"),
        ("run m.tosa --random 1 --bounds m.tosa", "the output is the input file"),
        ("run m.tosa --random 1 -o other.tosa", "written as .npz or .npy, found .tosa"),
        ("run m.tosa --random 1 -o a.txt", "written as .npz or .npy, found .txt"),
        ("validate - m.tosa --sarif -o m.tosa", "the output is the input file"),
        ("run m.tosa --random 1 -o a.npz --bounds ./a.npz", "--output and --bounds cannot both be"),
        ("suite cases --against x --junit a --html a", "--junit and --html cannot both be a"),
    ],
)
def test_no_file_is_written_twice_or_over_the_program(
    command: str, expected: str, piped: Any
) -> None:
    verb, *words = command.split()
    before = Path("m.tosa").read_bytes()
    code, out, err = piped(verb, words)
    assert (code, out, expected in err) == (2, b"", True), err
    assert Path("m.tosa").read_bytes() == before
    assert not Path("a.npz").exists()


def test_what_has_no_name_needs_one(piped: Any) -> None:
    assert "-o DIR" in piped("weights export", ["-"])[2]
    assert "-o DIR" in piped("generate", ["--seed", "1", "--count", "2", "-o", "-"])[2]


@pytest.mark.parametrize("name", [name for name in READS if "-" in READS[name]])
def test_a_terminal_is_no_input(name: str, piped: Any) -> None:
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    code, _, err = piped(name, READS[name], stdin=Terminal)
    assert (code, "no input" in err) == (2, True), err


@pytest.mark.usefixtures("refmodel")
def test_outputs_of_a_run_go_where_they_are_wanted(piped: Any) -> None:
    save_npz("x.npz", {"x": np.array([1, 2], np.int32)})
    given = ["m.tosa", "-i", "x.npz"]
    code, out, err = piped("run", [*given, "-o", "-"])
    assert (code, "output y" in err) == (0, True)
    with np.load(io.BytesIO(out)) as found:
        assert found["y"].tolist() == [11, 15]
    assert piped("run", [*given, "-o", "y.npy", "--save-inputs", "in.npy"])[0] == 0
    assert np.load("y.npy").tolist() == [11, 15]
    assert np.load("in.npy").tolist() == [1, 2]
    two = program()
    two.main.outputs.append("w")
    Path("two.tosa").write_bytes(encode(two))
    code, _, err = piped("run", ["two.tosa", "-i", "x.npz", "-o", "y2.npy"])
    assert (code, 'found 2: "y", "w"' in err, "name an .npz file" in err) == (2, True, True), err
    assert not Path("y2.npy").exists()
