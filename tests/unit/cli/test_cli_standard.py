"""`-` is standard input and standard output in every verb that reads or writes a program."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from unit.building import PRODUCER, graph, op, tensor

import tosa_convert as tc
from manual.commands import verbs
from tosa_convert.cli.main import run, tosa_flatbuffer
from tosa_convert.formats.flatbuffer.write import plan
from tosa_convert.formats.write import dumps
from tosa_convert.golden.arrays.npz import save_npz
from tosa_convert.graph import Graph, compare
from tosa_convert.io.formats import FORMATS, sniff

RUN = ["--random", "1"]
#: Verb -> the arguments with which it reads a program from standard input.
READS = {
    "bisect": ["-", *RUN, "--against", "other.tosa"],
    "check": ["-", *RUN, "--against", "other.tosa"],
    "convert": ["-", "-o", "out.mlir"],
    "diff": ["-", "m.tosa"],
    "doctor": ["-", "--for", "flatc"],
    "extract": ["-", "--outputs", "y", "-o", "out.tosa"],
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
OTHERS = {"data", "frontends", "generate", "suite"}
#: Verbs whose -o is not a program.
REPORTS = {"report", "run", "validate", "weights export"}
NEED_REFERENCE = {"bisect", "check", "run"}

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
    data = b"".join(plan(program(), PRODUCER).pieces())
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
@pytest.mark.parametrize("kind", FORMATS)
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
    Path("two.tosa").write_bytes(b"".join(plan(two, PRODUCER).pieces()))
    code, _, err = piped("run", ["two.tosa", "-i", "x.npz", "-o", "y2.npy"])
    assert (code, 'found 2: "y", "w"' in err, "name an .npz file" in err) == (2, True, True), err
    assert not Path("y2.npy").exists()
