"""For every code that an input can cause, the smallest such file and the message about it.

Comments in the files say what is wrong with them. Binary files are written in hexadecimal, with
comments. `where` and `hint` are parts of the location and the hint of the first finding.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from refusing import error_of

import tosa_convert as tc
from tosa_convert import api
from tosa_convert.errors import CODES, Category

FILES = Path(__file__).parent / "files"
CASES = sorted(path for path in FILES.iterdir() if path.name != "README.md")

#: Codes that a file cannot cause, and why.
ELSEWHERE = {
    "verification-failed": "it would be a defect of ours; tests of --verify cause it on purpose",
    "invalid-operator": "of validating a program; tests/contract/test_writing_validates.py",
    "outside-profile": "of a target; tests/rules/test_validate.py",
    "outside-level": "of a target; tests/rules/test_validate.py",
    "unsupported-by-reader": "of a target; tests/rules/test_validate.py",
    "refmodel-refused": "of running a program; tests/golden",
    "refmodel-failed": "of running a program; tests/golden",
    "refmodel-timeout": "of running a program; tests/golden",
    "backend-failed": "of running a program; tests/golden",
    "backend-refused": "of running a program; tests/golden",
    "backend-unreachable": "of running a program; tests/golden",
    "not-lowered": "of a framework's model; tests/frontends",
    "frontend-failed": "of a framework's model; tests/frontends",
}
_NOTE = re.compile(r"^(?://|#) (where|hint|options): *(.*)$", re.MULTILINE)


def code_of(path: Path) -> str:
    """Return the code that a file is about: its name, of which a variant's is the beginning."""
    return max((code for code in CODES if path.stem.startswith(code)), key=len)


def bytes_of(text: str) -> bytes:
    """Hexadecimal bytes without their comments."""
    return bytes.fromhex(re.sub(r"#.*", "", text))


def laid_out(case: Path, folder: Path) -> Path:
    """Return the case as files: hexadecimal ones become bytes. Returns the program's path."""
    if case.is_dir():
        shutil.copytree(case, folder, dirs_exist_ok=True)
    else:
        shutil.copy(case, folder)
    for path in folder.rglob("*.hex"):
        path.with_suffix("").write_bytes(bytes_of(path.read_text()))
        path.unlink()
    return folder / "m.json" if case.is_dir() else folder / case.name.removesuffix(".hex")


def notes(case: Path) -> dict[str, str]:
    return dict(_NOTE.findall((case / "m.json" if case.is_dir() else case).read_text()))


def refusal(path: Path, options: dict[str, str]) -> tc.TosaConvertError:
    """Return the error of reading a file and writing it again."""
    return error_of(read_and_write, path, options)


def read_and_write(path: Path, options: dict[str, str]) -> None:
    graph = api.stamp(tc.load(path), options.get("tosa_version", ""))
    pieces: Any = api.render(graph, "tosa", weights=options.get("weights", "auto"))  # type: ignore[arg-type]
    for piece in pieces:
        assert len(piece)


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_a_file_is_refused_with_its_code_and_location(case: Path, tmp_path: Path) -> None:
    if case.suffix == ".mlir":
        pytest.importorskip("torch_mlir", reason="reads MLIR")
    expected = notes(case)
    options = dict(pair.split("=") for pair in expected.get("options", "").split())
    path = laid_out(case, tmp_path)
    error = refusal(path, options)
    finding = error.findings[0]
    assert finding.code == code_of(case), str(error)
    assert expected["where"] in finding.where
    assert expected["hint"] in finding.hint
    assert bool(expected["hint"]) == bool(finding.hint), "the note should show the hint"
    assert finding.message
    # The message names the file, unless the location is within the program.
    if "where" in expected and re.match(r"line |byte |:\d", expected["where"]):
        assert path.name in finding.where


def test_every_code_of_an_input_has_a_file() -> None:
    codes = {
        code
        for code, (category, _) in CODES.items()
        if category in (Category.BAD_INPUT, Category.UNSUPPORTED)
    }
    assert {code_of(case) for case in CASES} == codes - ELSEWHERE.keys()
    assert ELSEWHERE.keys() <= codes


def test_files_are_tiny() -> None:
    sizes = {
        path: path.stat().st_size
        for case in CASES
        for path in (case, *case.rglob("*"))
        if path.is_file()
    }
    assert max(sizes.values()) < 2048, max(sizes, key=sizes.__getitem__)
