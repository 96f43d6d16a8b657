"""mypy and pyright see the public functions as `public_functions.py` and `builder_calls.py` say."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

FILE = Path(__file__).with_name("public_functions.py")
BUILDER = Path(__file__).with_name("builder_calls.py")
#: If set, both checkers must be installed; `nox -s types`, which CI runs, sets it.
REQUIRED = "TOSA_CONVERT_REQUIRE_TYPE_CHECKERS"


class Report(NamedTuple):
    """A checker's report on a file, by line: revealed types and errors."""

    revealed: dict[int, str]
    errors: dict[int, str]


def check_with_mypy(files: Sequence[Path], root: Path, folder: Path) -> dict[str, Report]:
    config = folder / "mypy.ini"
    config.write_text(
        "[mypy]\nstrict = True\nshow_error_codes = True\nignore_missing_imports = True\n"
        # Ignore reports about other files.
        "[mypy-tosa_convert.*]\nignore_errors = True\n"
    )
    words = ["--config-file", str(config), "--cache-dir", str(folder / "cache"), "--no-pretty"]
    output = call([sys.executable, "-m", "mypy", *words, *map(str, files)], root)
    found = {file.name: Report({}, {}) for file in files}
    for match in re.finditer(r"^(.+?):(\d+): (note|error): (.*)$", output, re.MULTILINE):
        path, line, severity, text = match.groups()
        report = found.get(Path(path).name)
        if report is not None and severity == "error":
            report.errors[int(line)] = text
        elif report is not None and text.startswith("Revealed type is"):
            report.revealed[int(line)] = plain(text.partition('"')[2].rpartition('"')[0])
    return found


def check_with_pyright(files: Sequence[Path], root: Path, folder: Path) -> dict[str, Report]:
    for file in files:
        if file.parent != folder:
            shutil.copy(file, folder)  # what it checks is below its configuration
    config = folder / "pyrightconfig.json"
    config.write_text(
        json.dumps(
            {
                "include": [file.name for file in files],
                "extraPaths": [str(root)],
                "typeCheckingMode": "strict",
                # No errors for packages without types or for unused results of calls.
                "reportMissingTypeStubs": False,
                "reportUnknownMemberType": False,
                "reportUnknownVariableType": False,
                "reportUnknownArgumentType": False,
            }
        )
    )
    words = ["--project", str(config), "--outputjson", "--pythonpath", sys.executable]
    output = call([sys.executable, "-m", "pyright", *words], root)
    found = {file.name: Report({}, {}) for file in files}
    for row in json.loads(output[output.index("{") :])["generalDiagnostics"]:
        report = found[Path(row["file"]).name]
        line, text = row["range"]["start"]["line"] + 1, row["message"]
        if row["severity"] == "error":
            report.errors[line] = text
        elif match := re.fullmatch(r'Type of ".*" is "(.*)"', text, re.DOTALL):
            report.revealed[line] = plain(match[1])
    return found


CHECKERS: dict[str, Callable[[Sequence[Path], Path, Path], dict[str, Report]]] = {
    "mypy": check_with_mypy,
    "pyright": check_with_pyright,
}


def call(command: list[str], root: Path) -> str:
    done = subprocess.run(
        command,
        cwd=root,
        env={**os.environ, "MYPYPATH": str(root), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=300,
    )
    # 1: errors, as expected. More: the checker did not run.
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def plain(text: str) -> str:
    """Return a type without the names of modules."""
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", text)


def expectations(file: Path) -> Report:
    """Return the expectations in the comments of the file."""
    revealed, errors = {}, {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        code, _, comment = line.partition("  # ")
        if code.lstrip().startswith("reveal_type("):
            assert comment.startswith("reveals "), f"line {number}: `# reveals TYPE` is missing"
            revealed[number] = comment.removeprefix("reveals ")
        elif comment.startswith("error: "):
            errors[number] = comment
    return Report(revealed, errors)


def disagreements(expected: Report, found: Report) -> list[str]:
    """Return the differences between a checker's report and the expectations."""
    problems = []
    for line in sorted(expected.revealed.keys() | found.revealed.keys()):
        wanted, got = expected.revealed.get(line), found.revealed.get(line)
        if wanted != got:
            problems.append(f"line {line}: expected {wanted}, found {got}")
    for line in sorted(expected.errors.keys() - found.errors.keys()):
        problems.append(f"line {line}: no error, expected {expected.errors[line]}")
    for line in sorted(found.errors.keys() - expected.errors.keys()):
        problems.append(f"line {line}: error: {found.errors[line]}")
    return problems


def require(checker: str) -> None:
    """Skip where a checker is not installed, unless it has to be."""
    if importlib.util.find_spec(checker) is None:
        reason = f"{checker} is not installed: pip install '.[dev]'; nox -s types runs this"
        if os.environ.get(REQUIRED):
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.mark.parametrize("checker", CHECKERS)
def test_the_public_functions_have_the_types_that_users_see(
    checker: str, root: Path, tmp_path: Path
) -> None:
    """One run of the checker, which takes seconds, judges all files; the last has three mistakes."""
    require(checker)
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import tosa_convert as tc\n"
        "reveal_type(tc.load('m'))  # reveals Graph\n"
        "reveal_type(tc.load('m'))  # reveals bytes\n"
        "tc.load('m')  # error: expected, and not there\n"
        "tc.load(3)\n"
    )
    files = [FILE, BUILDER, wrong]
    reports = CHECKERS[checker](files, root, tmp_path)
    problems = [disagreements(expectations(file), reports[file.name]) for file in files]
    assert problems[:2] == [[], []], checker
    assert [row.partition(":")[0] for row in problems[2]] == ["line 3", "line 4", "line 5"]


def test_every_public_name_is_in_the_file() -> None:
    import tosa_convert as tc

    text = FILE.read_text(encoding="utf-8")
    missing = [name for name in tc.__all__ if not re.search(rf"\btc\.{name}\b", text)]
    # `verify` and errors return findings; a caller does not make one.
    assert missing == ["Finding"]


def test_names_of_modules_are_left_out() -> None:
    assert plain("builtins.list[tosa_convert.errors.Finding]") == "list[Finding]"
    assert plain("tuple[int, ...] | None") == "tuple[int, ...] | None"
