"""Check the figures of the page about the tests, and that it names what the configuration says."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tosa_convert.errors import CODES

PAGE = "docs/how-we-test.md"


def count(pattern: str, paths: Iterable[Path]) -> int:
    return sum(
        len(re.findall(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)) for path in paths
    )


def test_the_figures_of_the_page_are_about_right(root: Path) -> None:
    rows = re.findall(
        r"^\| ([^|]+) \| ([\d,]+) \|$", (root / PAGE).read_text("utf-8"), re.MULTILINE
    )
    stated = {what.split(",")[0]: int(number.replace(",", "")) for what, number in rows}
    tests = list((root / "tests").rglob("*.py"))
    assert stated.keys() == {
        "lines of Python in the package",
        "lines of Python in the tests",
        "test functions",
        "hand-written programs that are compared with `tosa-opt`",
        "programs of releases since 2022",
        "networks of the zoo",
        "error codes",
    }
    counted = (
        count("\n", (root / "tosa_convert").rglob("*.py")),
        count("\n", tests),
        count(r"^ *(?:async )?def test_", tests),
        count(r"func\.func ", (root / "tests/oracle/cases").glob("*.mlir")),
        len([path for path in (root / "tests/old_programs").iterdir() if path.is_file()]),
        count(r"^def make_", (root / "zoo").glob("*.py")),
        len(CODES),
    )
    for (what, number), found in zip(stated.items(), counted, strict=True):
        assert 0.8 * number <= found <= 1.2 * number, f"{what}: {found}, the page says {number}"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is new in Python 3.11")
def test_the_page_names_what_coverage_leaves_out(root: Path) -> None:
    import tomllib

    text = (root / PAGE).read_text(encoding="utf-8")
    coverage = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["coverage"]
    for path in coverage["report"]["omit"]:
        name = path.removeprefix("tosa_convert/").removesuffix("/*")
        assert f"`{name}`" in text or f"`{name.removeprefix('frontends/')}`" in text, path
