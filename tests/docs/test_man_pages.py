"""Man pages: every program and verb has one, with every option, and man accepts them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from manual.commands import verbs
from manual.man_pages import exit_codes, pages, release_date


def plain(text: str) -> str:
    """Return the text of a page without the escapes."""
    return text.replace("\\-", "-").replace("\\e", "\\").replace("\\&", "").replace("\\:", "")


def test_every_program_and_every_verb_has_a_page() -> None:
    names = {f"tosa-flatbuffer-{verb.name.replace(' ', '-')}.1" for verb in verbs()}
    assert set(pages()) == {"tosa-flatbuffer.1"} | names


def test_a_page_has_every_option_and_every_exit_code(root: Path) -> None:
    codes = exit_codes((root / "docs/command-line.md").read_text(encoding="utf-8"))
    assert ("0", "done") in codes
    for verb in verbs():
        text = plain(pages()[f"tosa-flatbuffer-{verb.name.replace(' ', '-')}.1"])
        for heading, rows in verb.options():
            assert f"\n.SS {heading}\n" in text
            assert all(f"\n.B {names}\n" in text for names, _ in rows)
        assert all(f"\n.B {code}\n" in text for code, _ in codes)


def test_the_main_page_lists_the_verbs() -> None:
    listed = re.findall(r"^\.B ([a-z ]+)$", plain(pages()["tosa-flatbuffer.1"]), re.MULTILINE)
    assert listed == [verb.name for verb in verbs()]


def test_pages_depend_on_the_release_and_not_on_the_clock() -> None:
    changelog = "# Changelog\n\n## 1.1.0, not released yet\n\n## 1.0.0, 2030-01-31\n"
    assert release_date(changelog, "1.0.0") == "2030-01-31"
    assert release_date(changelog, "1.1.0") == "not released"
    assert pages() == pages()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(pages()))
def test_man_formats_a_page_without_a_warning(name: str, tmp_path: Path) -> None:
    if shutil.which("man") is None:
        pytest.skip("man is not installed")
    page = tmp_path / name
    page.write_text(pages()[name], encoding="utf-8")
    words = ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", str(page)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if "invalid option" in done.stderr or "unrecognized option" in done.stderr:
        pytest.skip("this man does not check pages")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", sorted(pages()))
def test_mandoc_has_no_warning(name: str, tmp_path: Path) -> None:
    if shutil.which("mandoc") is None:
        pytest.skip("mandoc is not installed")
    page = tmp_path / name
    page.write_text(pages()[name], encoding="utf-8")
    words = ["mandoc", "-Tlint", "-Wwarning", str(page)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if "cannot parse date" not in line]
    assert not found
