"""The fenced blocks of a Markdown document, and how each kind is run.

| block | what happens |
|---|---|
| `mlir`, `json`, `yaml` | the file that its first line names (`// f.mlir`, `# f.yml`) is written |
| `python` whose first line is `# f.py` | that file is written |
| `python` | a script; it must succeed, without warnings |
| `sh` | a script for bash; it must succeed |
| `console` | each `$ command` is run; the lines after it are its output; `...` matches any text |

A `sh` block of lines that begin with `pip install` says what to install; a test checks that the extras
exist, and it is not run. After a line `<!-- needs: PACKAGE ... -->` blocks run only where these packages
are installed, until the next heading. The block after a line `<!-- not run: REASON -->` is not run, and
`text` never is.

Other blocks, and code outside of blocks, are errors: a document stays true only if it is run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

#: Time limit of a block, in seconds.
TIME_LIMIT = 300

#: Language of a block that is a file -> what precedes the name in its first line.
FILES = {"mlir": "// ", "json": "// ", "yaml": "# "}
RUN = {"sh", "console", "python"}
#: Diagrams, and what a reader only looks at.
SHOWN = {"mermaid", "text"}
#: Languages of blocks that have to say why they are not run.
NOT_RUN = {"cpp"}

#: Packages that the blocks up to the next heading need.
_NEEDS = re.compile(r"<!-- needs: (?P<packages>[\w. -]+) -->")
#: The first line of Python that is a file.
#: Why the next block is not run.
_NOT_RUN = re.compile(r"<!-- not run: (?P<reason>.+) -->")
_PYTHON_FILE = re.compile(r"# (\w+\.py)\n")
_FENCE = re.compile(r"^(?P<mark>`{3,}|~{3,})(?P<rest>.*)$")
#: Lines that Markdown shows as code without a fence.
_OTHER_CODE = re.compile(r"^(?: {4,}|\t)(?! *[-*0-9|])\S|<(?:pre|code)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the line of its opening fence, and its content.

    needs: packages without which it does not run.
    not_run: why it is not run at all, or "".
    """

    language: str
    line: int
    text: str
    needs: tuple[str, ...] = ()
    not_run: str = ""

    @property
    def installs(self) -> bool:
        """Return whether it only says what to install."""
        return self.language == "sh" and all(
            line.startswith("pip install ") for line in self.text.splitlines()
        )


def blocks(text: str) -> list[Block]:
    """Return all blocks of a document; ValueError for code that is not in a known kind of block."""
    result: list[Block] = []
    lines = text.splitlines()
    number = 0
    needs: tuple[str, ...] = ()
    not_run = ""
    while number < len(lines):
        if mark := _NEEDS.fullmatch(lines[number]):
            needs = tuple(mark["packages"].split())
        elif mark := _NOT_RUN.fullmatch(lines[number]):
            not_run = mark["reason"]
        elif lines[number].startswith("#"):
            needs = ()
        fence = _FENCE.match(lines[number].lstrip())
        if fence is None:
            if _OTHER_CODE.search(lines[number]):
                raise ValueError(f"line {number + 1}: code outside of a fence: {lines[number]!r}")
            number += 1
            continue
        language = fence["rest"].strip()
        if fence["mark"] != "```" or lines[number] != lines[number].lstrip():
            raise ValueError(f"line {number + 1}: a fence is ``` at the start of the line")
        if language not in {*FILES, *RUN, *SHOWN} and not (language in NOT_RUN and not_run):
            raise ValueError(f"line {number + 1}: no way to run a block of {language!r}")
        try:
            end = lines.index("```", number + 1)
        except ValueError:
            raise ValueError(f"line {number + 1}: the block does not end") from None
        text = "\n".join(lines[number + 1 : end]) + "\n"
        result.append(Block(language, number + 1, text, needs, not_run))
        not_run = ""
        number = end + 1
    return result


def environment() -> dict[str, str]:
    """Return the environment with this interpreter's commands first on PATH, as if activated."""
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path, "LC_ALL": "C.UTF-8", "PYTHONWARNINGS": "error"}


def run_block(block: Block, folder: Path) -> str:
    """Run a block in a folder; the problem, or ""."""
    if block.language in SHOWN or block.installs or block.not_run:
        return ""
    if block.language in FILES:
        first, _, rest = block.text.partition("\n")
        name = first.removeprefix(FILES[block.language])
        if name == first or Path(name).name != name:
            return f"its first line is {first!r}, expected `{FILES[block.language]}NAME`"
        text = rest if block.language == "json" else f"{first}\n{rest}"
        (folder / name).write_text(text, encoding="utf-8")
        return ""
    if python_file := _PYTHON_FILE.match(block.text) if block.language == "python" else None:
        (folder / python_file[1]).write_text(block.text, encoding="utf-8")
        return ""
    if block.language == "console":
        return _console(block.text, folder)
    if block.language == "python":
        command = [sys.executable, "-c", block.text]
    else:
        command = _bash(block.text, "-euo", "pipefail")
    code, output = _call(command, folder)
    return f"exit code {code}\n{output}" if code else ""


def _bash(script: str, *strict: str) -> list[str]:
    bash = shutil.which("bash")
    assert bash is not None, "the documents' commands are for bash"
    return [bash, *strict, "-c", script]


def _call(command: list[str], folder: Path) -> tuple[int, str]:
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        timeout=TIME_LIMIT,
        check=False,
    )
    return done.returncode, done.stdout


def _console(text: str, folder: Path) -> str:
    steps: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], []))
        elif not steps:
            return f"{line!r} is not the output of a command"
        else:
            steps[-1][1].append(line)
    for command, expected in steps:
        code, output = _call(_bash(command), folder)
        if code:
            return f"$ {command}\nexit code {code} (to show one: `command; echo $?`)\n{output}"
        if not matches(output, expected):
            wanted = "\n".join(expected)
            return f"$ {command}\nprinted\n{output}\nand the document says\n{wanted}"
    return ""


def matches(output: str, expected: list[str]) -> bool:
    """Return whether the lines are the whole output; `...` matches any text in a line, or any lines."""
    parts = []
    for line in expected:
        if line.strip() == "...":
            parts.append(r"(?:.*\n)*")
        else:
            parts.append(".*".join(map(re.escape, line.rstrip().split("..."))) + r"[ \t]*\n")
    # The last line may have no newline, and empty lines do not count.
    lines = [line for line in output.splitlines() if line.strip()]
    return re.fullmatch("".join(parts), "".join(f"{line}\n" for line in lines)) is not None
