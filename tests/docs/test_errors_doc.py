"""docs/errors.md agrees with the table of error codes, and shows what the program prints."""

from __future__ import annotations

import re
import shutil
import sys
from importlib import metadata
from pathlib import Path

import pytest
from docs.error_examples import EXAMPLES, WITHOUT_EXAMPLE, message_of

from tosa_convert.errors import CODES
from tosa_convert.formats.bindings.packages import installed

DOCUMENT = "docs/errors.md"
NOT_RAISED = "Not raised by this version"

_SECTION = re.compile(
    r"^### `(?P<code>[^`]+)`\n\n(?P<first>[^\n]+)\n\n(?P<text>.+?)\n"
    r"(?:\n```text\n(?P<shown>.+?)\n```\n)?"
    r"(?=\n##|\Z)",
    re.MULTILINE | re.DOTALL,
)


@pytest.fixture(scope="module")
def sections() -> dict[str, re.Match[str]]:
    text = Path(__file__).resolve().parents[2].joinpath(DOCUMENT).read_text(encoding="utf-8")
    matches = {match["code"]: match for match in _SECTION.finditer(text)}
    assert len(matches) == text.count("\n### "), "a section does not have the form of the others"
    return matches


def raised() -> set[str]:
    """Codes that occur as a string anywhere in the package except in their table."""
    package = Path(__file__).resolve().parents[2] / "tosa_convert"
    source = "\n".join(
        path.read_text(encoding="utf-8")
        for path in sorted(package.rglob("*.py"))
        if path.name != "errors.py"
    )
    return {code for code in CODES if f'"{code}"' in source}


def test_every_code_has_a_section_and_every_section_a_code(
    sections: dict[str, re.Match[str]],
) -> None:
    assert list(sections) == list(CODES), "the sections have the order of errors.CODES"


@pytest.mark.parametrize("code", CODES)
def test_a_section_has_the_exit_code_the_meaning_and_an_explanation(
    sections: dict[str, re.Match[str]], code: str
) -> None:
    category, meaning = CODES[code]
    section = sections[code]
    assert section["first"] == f"Exit code {int(category)}: {meaning}."
    if code not in raised():
        assert section["text"].startswith(NOT_RAISED), f"nothing in the package raises {code}"
        return
    assert not section["text"].startswith(NOT_RAISED)
    assert len(section["text"]) > 60
    assert section["shown"] is not None
    assert re.search(rf"(^|: )error: .+ \[{code}(: [a-z0-9-]+)?\]$", section["shown"], re.MULTILINE)


def test_every_code_that_is_raised_has_an_example_or_a_reason_for_none() -> None:
    assert raised() == EXAMPLES.keys() | WITHOUT_EXAMPLE.keys()


@pytest.mark.parametrize("code", EXAMPLES)
def test_the_document_shows_what_the_program_prints(
    sections: dict[str, re.Match[str]],
    code: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needs = EXAMPLES[code][0]
    if needs == "mlir" and next(iter(installed()), "") != "torch_mlir":
        pytest.skip("the example is written for the bindings torch_mlir, which are not installed")
    if needs == "refmodel":
        try:
            metadata.version("tosa-tools")
        except metadata.PackageNotFoundError:
            pytest.skip("the TOSA reference model (tosa-tools) is not installed")
    if code == "missing-layout" and sys.version_info < (3, 11):
        pytest.skip("the example says how to install a library that needs Python 3.11")
    if code in ("refmodel-failed", "refmodel-timeout", "backend-failed"):
        if sys.platform == "win32" or not shutil.which("false"):
            pytest.skip("the example replaces the model by a program of the shell")
    monkeypatch.chdir(tmp_path)
    message = message_of(code)
    assert sections[code]["shown"] == message, f"run python tests/docs/regenerate.py\n{message}"
