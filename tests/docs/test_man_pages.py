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
def test_man_formats_every_page_without_a_warning(tmp_path: Path) -> None:
    if shutil.which("man") is None:
        pytest.skip("man is not installed")
    paths = [tmp_path / name for name in pages()]
    for path in paths:
        path.write_text(pages()[path.name], encoding="utf-8")
    words = ["man", "--warnings", "-E", "UTF-8", "-Tutf8", "-Z", "-l", *map(str, paths)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if "invalid option" in done.stderr or "unrecognized option" in done.stderr:
        pytest.skip("this man does not check pages")
    assert (done.returncode, done.stderr) == (0, "")
