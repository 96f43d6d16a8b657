"""Command lines that are parsed without click mean what they mean to click."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tosa_convert.cli.ending import before_work, exit_code_of
from tosa_convert.cli.main import VERBS, run, tosa_flatbuffer, verb
from tosa_convert.cli.messages import STANDARD_OUTPUT, user_of
from tosa_convert.cli.start import PlainCall, help_text, plain_call
from tosa_convert.cli.verbs import DESCRIBED
from tosa_convert.version import version_text


def by_click(name: str, words: list[str]) -> tuple[dict[str, Any], dict[str, Any], str | None]:
    """Return the parameters, what the context remembers, and what is standard output."""
    ctx = verb(name).make_context(name, list(words), parent=click.Context(tosa_flatbuffer))
    ctx.params.pop("version", None)
    return ctx.params, ctx.meta, user_of(STANDARD_OUTPUT)


def hold_together(call: PlainCall) -> None:
    """Assert that click finds the same in the words of a call."""
    params, meta, output = by_click(call.name, list(call.words))
    assert call.values == params
    found = {f"--{key}" for key in ("quiet", "verbose") if key in meta}
    assert found == call.given.keys() & {"--quiet", "--verbose"}
    assert (output is not None) == (call.values.get("output") == "-")


#: Lines for click, though nothing in them is unknown.
CONTRADICTIONS = (
    "convert a.tosa -q -v",
    "convert --export-to-flatbuffer --import-from-flatbuffer a",
    "convert a.tosa --generic --generic",
    "diff a.tosa",
    "diff a.tosa b.tosa c.tosa",
    "diff - -",
    "repack a.tosa",
    "show a.tosa --all-bytes",
    "show a.tosa --hex --json",
)


@pytest.mark.parametrize("line", CONTRADICTIONS)
def test_contradictions_are_for_click(line: str) -> None:
    assert plain_call("", line.split()) is None


def words_of(name: str) -> list[str]:
    """Return words of which the command lines of a verb are made.

    Right, wrong, and at the wrong place.
    """
    flags = [
        flag
        for row in verb(name).params
        if isinstance(row, click.Option)
        for flag in (*row.opts, *getattr(row, "old", ()))
        if flag not in ("--help", "-h", "--version")
    ]
    known = DESCRIBED[name].options.split() * 3
    values = ["a.tosa", "-", "", "x", "1", "tosa", "mlir", "1.0", "8k", "offset", "--", "-5", "a=b"]
    joined = [f"{flag}={value}" for flag in known for value in ("tosa", "", "1.0", "x")]
    return [*flags, *known, *values, *values, *joined, "-oFILE", "-qo", "--outp", "--nonsense"]


@pytest.mark.parametrize("name", DESCRIBED)
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_what_is_parsed_without_click_is_what_click_finds(name: str, data: st.DataObject) -> None:
    words = data.draw(st.lists(st.sampled_from(words_of(name)), max_size=5))
    files = data.draw(st.lists(st.sampled_from(["a.tosa", "-"]), max_size=2))
    needed = data.draw(st.sampled_from([[], ["-o", "c.json"]]))
    call = plain_call("", [name, *files, *needed, *words])
    if call is not None:
        hold_together(call)


def test_a_shell_that_completes_is_answered_by_click(monkeypatch: pytest.MonkeyPatch) -> None:
    assert plain_call("", ["show", "a.tosa"]) is not None
    monkeypatch.setenv("_TOSA_FLATBUFFER_COMPLETE", "bash_complete")
    assert plain_call("", ["show", "a.tosa"]) is None


#: Plain lines that the verb refuses once it sees what they name.
REFUSED = (
    "convert a.mlir --export-to-flatbuffer --to mlir",
    "convert a.tosa --import-from-flatbuffer --to json",
    "convert a.tosa b.tosa",
    "show a.tosa b.tosa --operators",
    "validate a.tosa -",
    "validate missing.tosa",
    "repack missing.tosa -o b.tosa",
    "convert missing.tosa -o b.tosa -q",
)


@pytest.mark.parametrize("line", REFUSED)
def test_refusals_are_the_same(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.tosa", "b.tosa", "a.mlir"):
        Path(name).write_text("", encoding="utf-8")
    expected = run(tosa_flatbuffer, line.split()), capsys.readouterr()
    call = plain_call("", line.split())
    assert call is not None
    found = exit_code_of(lambda: call.run(before_work)), capsys.readouterr()
    assert found == expected
    assert found[0] in (2, 3)
    assert found[1].err or found[1].out


def test_the_version_is_printed_by_little_more_than_python() -> None:
    code = (
        "import sys; before = set(sys.modules); sys.argv[1:] = ['--version']\n"
        "import os; os._exit = lambda code: print(code, *set(sys.modules) - before)\n"
        "from tosa_convert.cli import start\n"
        "start._main = lambda *words: None\n"
        "start.main()"
    )
    words = [sys.executable, "-c", code]
    out = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
    version, modules = out.splitlines()
    ours = {"tosa_convert", "tosa_convert.cli", "tosa_convert.cli.start", "tosa_convert.version"}
    assert {"0", *ours} <= set(modules.split()) <= {"0", "__future__", *ours}
    assert version == version_text("tosa-flatbuffer").rstrip()


@pytest.fixture(scope="module")
def help_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a checkout what only an installation has."""
    folder = tmp_path_factory.mktemp("help")
    # In a process of its own, as a build: click remembers the help options of commands that have run.
    code = "import sys; from pathlib import Path; from manual.help_texts import write_help\n"
    words = [sys.executable, "-c", f"{code}write_help(Path(sys.argv[1]))", str(folder)]
    subprocess.run(words, check=True, timeout=60, cwd=Path(__file__).parents[3])
    return folder


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the process that of an installed program, without a terminal."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(sys, "argv", ["/bin/tosa-flatbuffer"])
    monkeypatch.setattr(sys.modules["__main__"], "__package__", None)
    monkeypatch.setattr(sys, "__stdout__", None)


@pytest.mark.usefixtures("called")
@pytest.mark.parametrize("name", ["", *VERBS, "weights export"])
def test_the_help_of_an_installation_is_what_click_prints(
    name: str, help_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*name.split(), "--help"]
    found = help_text("tosa-flatbuffer", words, str(help_folder))
    assert run(tosa_flatbuffer, words) == 0
    assert found == capsys.readouterr().out
    assert found.count("\n") > 5


#: Command lines and surroundings whose help click prints.
HELP_OF_CLICK: tuple[tuple[str, dict[str, str], str], ...] = (
    ("--help", {"COLUMNS": "60"}, "/bin/tosa-flatbuffer"),
    ("--help", {"_TOSA_FLATBUFFER_COMPLETE": "bash_complete"}, "/bin/tosa-flatbuffer"),
    ("--help", {}, "/bin/tosa_convert/__main__.py"),
    ("nonsense --help", {}, "/bin/tosa-flatbuffer"),
    ("convert a.tosa --help", {}, "/bin/tosa-flatbuffer"),
    ("../convert --help", {}, "/bin/tosa-flatbuffer"),
    ("--help --help", {}, "/bin/tosa-flatbuffer"),
    ("--help convert", {}, "/bin/tosa-flatbuffer"),
    ("", {}, "/bin/tosa-flatbuffer"),
)


@pytest.mark.usefixtures("called")
@pytest.mark.parametrize(("line", "variables", "program"), HELP_OF_CLICK)
def test_other_help_is_for_click(
    line: str,
    variables: dict[str, str],
    program: str,
    help_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", [program])
    assert help_text("tosa-flatbuffer", line.split(), str(help_folder)) == ""


def test_the_help_of_an_installation_is_printed_by_little_more_than_python(
    help_folder: Path,
) -> None:
    code = (
        "import sys; before = set(sys.modules); sys.argv[:] = ['tosa-flatbuffer', 'show', '-h']\n"
        "import os; os._exit = lambda code: print(code, *set(sys.modules) - before)\n"
        "from tosa_convert.cli import start\n"
        f"start.help_text.__defaults__ = ({str(help_folder)!r},)\n"
        "start._main = lambda *words: None\n"
        "start.main()"
    )
    words = [sys.executable, "-c", code]
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    out = subprocess.run(
        words, capture_output=True, text=True, check=True, timeout=60, env=environment
    ).stdout
    text, _, modules = out.removesuffix("\n").rpartition("\n")
    ours = {"tosa_convert", "tosa_convert.cli", "tosa_convert.cli.start", "tosa_convert.version"}
    assert (
        {"0", *ours} - {"tosa_convert.version"}
        <= set(modules.split())
        <= {"0", "__future__", *ours}
    )
    assert text.startswith("Usage: tosa-flatbuffer show [OPTIONS]")
