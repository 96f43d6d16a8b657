"""Each .mlir file here is a test; its RUN lines say how it is run.

A line `RUN: command` is run; commands may be joined by ` | ` and continued with a backslash. In them,
`%tool` is the command-line tool, `%s` this file, `%t` an unused path, and `filecheck` compares its input
with the CHECK lines of the file. A command may begin with `exits N`, the expected exit code (0 by
default), and end with `2>&1`.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from sampling import one_in

pytest.importorskip("filecheck", reason="filecheck is not installed")

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*.mlir"))
PYTHON = shlex.quote(sys.executable)
TOOL = f"{PYTHON} -m tosa_convert convert"
RUN = re.compile(r"^// RUN: (.*)$", re.MULTILINE)


def commands(path: Path) -> list[str]:
    """Return the RUN lines of a file, with continuation lines joined."""
    joined = "\n".join(RUN.findall(path.read_text(encoding="utf-8"))).replace("\\\n", " ")
    return joined.splitlines()


def run(line: str, path: Path, scratch: Path) -> None:
    """Run the commands of a line, each on the output of the previous one."""
    data = b""
    for command in line.split(" | "):
        words = shlex.split(
            command.replace("%tool", TOOL)
            .replace("%s", shlex.quote(path.name))
            .replace("%t", shlex.quote(str(scratch / path.stem)))
        )
        expected = 0
        if words[0] == "exits":
            expected, words = int(words[1]), words[2:]
        merged = words[-1] == "2>&1"
        if merged:
            words.pop()
        if words[0] == "filecheck":
            words[:1] = [sys.executable, "-m", "filecheck"]
        found = subprocess.run(
            words,
            input=data,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merged else subprocess.PIPE,
            cwd=path.parent,
            timeout=120,
            check=False,
        )
        data = found.stdout
        stderr = "" if merged else found.stderr.decode()
        assert found.returncode == expected, f"{command}\n{stderr}{data.decode(errors='replace')}"


@pytest.mark.usefixtures("torch_mlir")
@pytest.mark.parametrize("path", one_in(6, FILES), ids=lambda path: path.stem)
def test_a_text_file_does_what_its_run_lines_say(path: Path, tmp_path: Path) -> None:
    lines = commands(path)
    assert lines, "a test without a RUN line"
    assert any("filecheck" in line for line in lines), (
        "a test that compares nothing: it needs filecheck"
    )
    for line in lines:
        run(line, path, tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("torch_mlir")
@pytest.mark.parametrize(
    "text",
    [
        "// RUN: %tool %s --to mlir | filecheck %s\n// CHECK: not there\nfunc.func @f() { return }\n",
        "// RUN: exits 3 %tool %s --to mlir\nfunc.func @f() { return }\n",
        "// RUN: %tool %s --to mlir\nfunc.func @f(\n",
        "// RUN: %tool %s --to mlir | filecheck %s\n"
        "// CHECK-NOT: func.func\nfunc.func @f() { return }\n",
    ],
)
def test_a_text_test_can_fail(text: str, tmp_path: Path) -> None:
    path = tmp_path / "failing.mlir"
    path.write_text(text)
    (line,) = commands(path)
    with pytest.raises(AssertionError):
        run(line, path, tmp_path)
