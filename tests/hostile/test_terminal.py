"""Texts from outside reach the terminal as text: names of files and cases, and names in programs."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unit.building import branching, example, graph, op, tensor

import tosa_convert as tc
from tosa_convert.cli.main import VERBS, run, verb
from tosa_convert.errors import Finding, TosaConvertError, printable
from tosa_convert.golden.checking.check import bisect_command
from tosa_convert.io.log import warning
from tosa_convert.rules.infer import Cause

#: ESC, a C1 control, a direction mark, a line end that forges a finding, and a line separator.
EVIL = "e\x1b[31m\x9b2J\u202e\nerror: forged\u2028"
#: The same for a file: also bytes that are not UTF-8.
EVIL_FILE = EVIL + "\udcff"
EVIL_NAME = os.fsdecode(os.fsencode(EVIL_FILE)) if sys.platform == "linux" else "e\u202e"


def refused(text: str) -> list[str]:
    """Return the characters of a text that a terminal obeys."""
    kinds = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    return [c for c in text if c != "\n" and unicodedata.category(c) in kinds]


def test_every_character_that_a_terminal_obeys_is_escaped() -> None:
    for code in (*range(0x20), *range(0x7F, 0xA0), 0x61C, *range(0x200E, 0x2010), 0x2028, 0x2029):
        assert printable(chr(code)).isprintable(), code
    for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xD800, 0xDCFF, 0xFEFF):
        assert printable(chr(code)).isprintable(), code
    assert printable("näïve 名") == "näïve 名"


@pytest.mark.parametrize(
    "name", ["::stop-commands::x", "  ::error::x", "a ##vso[task.x]", "###[debug]y", "##teamcity[x"]
)
def test_a_name_is_no_command_for_a_ci_runner(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run the verbs that print names, also where a name is the first of its line."""
    monkeypatch.chdir(tmp_path)
    made = tensor(name, "FP32", (3,))
    program = graph("x", "x", [tensor("x", "FP32", (3,)), made], [op("ABS", "x", "x")])
    program.main.operators[0].outputs = (name,)
    program.main.outputs = [name]
    tc.save(program, f"{name}.tosa")
    np.savez(f"{name}.npz", **{name: np.zeros(3, np.float32)})
    Path("bad.mlir").write_text(f"func.func @f() {{\n{name}\n")
    for words in (
        ["show", "--tensors", f"{name}.tosa"],
        ["show", f"{name}.tosa"],
        ["data", f"{name}.npz"],
        ["show", "--operators", f"{name}.tosa"],
        ["validate", f"{name}.tosa", "--profile", "PRO-INT"],
        ["convert", "bad.mlir", "-o", "x.tosa"],
        ["check", f"{name}.tosa", "--against", "numpy", "--random", "0", "--engine", "numpy"],
        ["run", f"{name}.tosa", "--random", "0", "--engine", "numpy"],
        ["diff", f"{name}.tosa", "bad.mlir"],
    ):
        run(verb(words[0]), words[1:])
        printed = capsys.readouterr()
        for line in (printed.out + printed.err).splitlines():
            assert not line.lstrip().startswith("::"), words
            assert not any(head in line for head in ("##vso[", "##[", "##teamcity[")), words


@pytest.mark.parametrize("part", ["where", "message", "hint", "excerpt"])
def test_a_finding_is_printed_without_control_characters(part: str) -> None:
    texts = {"where": "m", "message": "wrong", part: EVIL}
    printed = str(TosaConvertError(Finding("file-error", **texts)))
    assert not refused(printed)
    assert "\nerror: forged" not in printed


@pytest.mark.parametrize(
    "words", [(EVIL_NAME, "seed-1", "x.npz"), ("m.tosa", "edges-1", EVIL_NAME)]
)
def test_an_advised_command_is_printed_without_control_characters(
    words: tuple[str, str, str],
) -> None:
    command = bisect_command(*words)
    assert not refused(command)
    assert "\n" not in command


def test_a_warning_is_logged_without_control_characters(caplog: pytest.LogCaptureFixture) -> None:
    warning("%s, %d of %.1f", Cause(f"input {EVIL}", [EVIL]), 1, 2.5)
    (text,) = caplog.messages
    assert not refused(text)
    assert text.endswith(", 1 of 2.5")
    assert "\n" not in text


def test_the_differences_of_programs_are_printed_without_control_characters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tc.save(example(), "m.tosa")
    data = Path("m.tosa").read_bytes().replace(b"tosa-convert", b"tosa-\x1b[31mXX")
    Path("other.tosa").write_bytes(data)
    tc.save(branching(), "branching.tosa")
    assert run(verb("diff"), ["other.tosa", "branching.tosa"]) == 1
    printed = capsys.readouterr().out
    assert "\\x1b[31mXX" in printed
    assert not refused(printed.replace("\n", ""))


def _renamed(row: Any) -> Any:
    """Return JSON of `example` with evil names of values, regions, blocks and locations."""
    if isinstance(row, dict):
        return {key: _renamed(value) for key, value in row.items()}
    if isinstance(row, list):
        return [_renamed(value) for value in row]
    if row in ("x", "s", "y", "m", "w", "main"):
        return f"{row}{EVIL}"
    return row.replace("f.mlir", f"f{EVIL}") if isinstance(row, str) else row


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a program whose file, values, locations and regions have evil names."""
    monkeypatch.chdir(tmp_path)
    program = _renamed(json.loads(tc.dumps(example(), "json")))
    (tmp_path / f"{EVIL_NAME}.json").write_text(json.dumps(program))
    tc.save(tc.load(tmp_path / f"{EVIL_NAME}.json"), tmp_path / f"{EVIL_NAME}.tosa")
    (tmp_path / f"{EVIL_NAME}.mlir").write_text(f"func.func @f() {{\n  {EVIL}")
    np.savez(tmp_path / f"{EVIL_NAME}.npz", **{f"y{EVIL}": np.zeros(3, np.float32)})
    (tmp_path / f"{EVIL_NAME}.npy").write_bytes(b"\x93NUMPY")
    (tmp_path / "case" / EVIL_NAME).mkdir(parents=True)
    (tmp_path / "case" / EVIL_NAME / "model.tosa").write_text(EVIL)
    return tmp_path


FILES = [
    f"{EVIL_NAME}{extension}" for extension in (".tosa", ".mlir", ".json", ".npz", ".npy", ".no")
]
#: Verb -> its arguments after a file, where it needs any.
WORDS = {
    "bisect": ["--against", FILES[3]],
    "check": ["--random", "1", "--reference", FILES[3], "--against", FILES[3]],
    "convert": ["-o", f"out{EVIL_NAME}.mlir"],
    "diff": ["other.tosa"],
    "extract": ["--outputs", f"s{EVIL}", "-o", f"out{EVIL_NAME}.tosa"],
    "generate": ["--seed", "1", "--count", "1", "-o", f"out{EVIL_NAME}"],
    "reduce": ["--command", "false", "--work", f"out{EVIL_NAME}"],
    "repack": ["-o", f"out{EVIL_NAME}.json"],
    "report": ["-o", f"out{EVIL_NAME}.dot"],
    "rewrite": ["-o", f"out{EVIL_NAME}.tosa"],
    "run": ["-i", FILES[3]],
    "show": ["--tensors", "--operators"],
    "suite": ["--jobs", "1", "--timeout", "5", "--junit", "out.xml"],
    "upgrade": ["-o", f"out{EVIL_NAME}.mlir"],
    "validate": ["--least"],
}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such file names")
@pytest.mark.parametrize("name", sorted(VERBS))
def test_no_verb_prints_what_a_terminal_obeys(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tc.save(tc.load(folder / FILES[0]), folder / "other.tosa")
    for file in ["case"] if name == "suite" else FILES:
        starts = [[file]]
        if name == "generate":
            starts = [[]]
        if name == "suite":
            starts += [[file, "--against", file, "--html", "out.html"]]
        if name == "show":
            starts += [[file, "other.tosa"], [file, "--constants"]]
        if name == "weights":
            starts = [["export", file], ["strip", file, "-o", f"out{EVIL_NAME}.tosa"]]
            starts += [["import", file, file, "-o", f"out{EVIL_NAME}.tosa"]]
        for start in starts:
            code = run(verb(name), [*start, *WORDS.get(name, [])])
            printed = capsys.readouterr()
            said = f"{name} {start}: {printed}"
            assert code in (0, 1, 2, 3, 4), said
            assert not refused(printed.out + printed.err), said
            assert "\nerror: forged" not in printed.out + printed.err, said


def test_a_message_about_the_command_line_is_printed_as_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words in (["--jobs", EVIL], [f"--{EVIL}"], ["--limit", EVIL]):
        assert run(verb("show"), words) == 2
        assert not refused(capsys.readouterr().err), words
