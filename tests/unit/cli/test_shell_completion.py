"""What a shell shows for Tab: verbs, options, choices and file names, without doing any work."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from manual.commands import programs, verbs

#: What click needs to know to write and to answer a shell's script.
SHELLS = ("bash", "zsh", "fish")
#: A value of an option that is, or has in it, the name of a file or folder.
FILE = re.compile(r"\b(FILES?|DIR|NPZ|BACKEND|PROGRAM|IN)\b")


def completions(line: str) -> list[tuple[str, str]]:
    """The kind and the text of what bash is offered at the end of a line."""
    words = line.split(" ")
    program = words[0]
    environment = {
        **os.environ,
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        f"_{program.replace('-', '_').upper()}_COMPLETE": "bash_complete",
    }
    entry = "main_convert" if program.endswith("-convert") else "main"
    code = f"import sys; sys.argv[0] = {program!r}; from tosa_convert.cli.main import {entry}; {entry}()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return [(kind, text) for kind, _, text in (row.partition(",") for row in done.stdout.split())]


def test_verbs_are_completed() -> None:
    assert completions("tosa-flatbuffer con") == [("plain", "convert")]
    assert {text for _, text in completions("tosa-flatbuffer ")} == {
        verb.name for verb in verbs() if not verb.depth
    }
    assert ("plain", "strip") in completions("tosa-flatbuffer weights s")


def test_options_and_their_choices_are_completed() -> None:
    assert ("plain", "--weights") in completions("tosa-flatbuffer-convert x --we")
    assert ("plain", "--weights") in completions("tosa-flatbuffer convert x --we")
    assert completions("tosa-flatbuffer convert --weights n") == [("plain", "npy")]


@pytest.mark.parametrize(
    "line",
    [
        "tosa-flatbuffer check m",
        "tosa-flatbuffer-convert m",
        "tosa-flatbuffer convert m.tosa -o n",
        "tosa-flatbuffer check m.tosa -i image=i",
        "tosa-flatbuffer check m.tosa --against b",
    ],
)
def test_file_names_are_completed(line: str) -> None:
    assert [kind for kind, _ in completions(line)] == ["file"]


def test_every_value_that_is_a_file_is_completed() -> None:
    for documented in (*verbs(), *programs()):
        for parameter in documented.command.params:
            if FILE.search(parameter.metavar or ""):
                items = parameter.shell_complete(documented.context, "")
                kinds = {item.type for item in items}
                assert kinds & {"file", "dir"}, f"{documented.name}: {parameter.name}"


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("program", ["tosa-flatbuffer", "tosa-flatbuffer-convert"])
def test_the_script_for_a_shell_is_valid(shell: str, program: str, tmp_path: Path) -> None:
    entry = "main_convert" if program.endswith("-convert") else "main"
    code = f"import sys; sys.argv[0] = {program!r}; from tosa_convert.cli.main import {entry}; {entry}()"
    variable = f"_{program.replace('-', '_').upper()}_COMPLETE"
    if shell == "bash" and sys.platform in {"win32", "darwin"}:
        pytest.skip("click needs bash 4.4 to write its script")
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, variable: f"{shell}_source"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert variable in done.stdout
    assert program in done.stdout
    executable = shutil.which(shell)
    if executable is None:
        pytest.skip(f"{shell} is not installed, so its script is not parsed")
    script = tmp_path / "script"
    script.write_text(done.stdout, encoding="utf-8")
    subprocess.run([executable, "-n", str(script)], check=True)


def test_what_does_not_exist_is_not_completed() -> None:
    assert completions("tosa-flatbuffer abs") == []
    assert completions("tosa-flatbuffer convert --abs") == []
