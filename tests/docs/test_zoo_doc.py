"""docs/zoo.md shows what was measured, for every network."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from docs import zoo_tables

DOCUMENT = "docs/zoo.md"


@pytest.mark.parametrize("mark", zoo_tables.TABLES)
def test_the_table_is_what_was_measured(root: Path, mark: str) -> None:
    make: Callable[[], str] = zoo_tables.TABLES[mark]
    text = (root / DOCUMENT).read_text(encoding="utf-8")
    section = re.search(f"<!-- {mark} -->\n(.*?)<!-- /{mark} -->", text, re.DOTALL)
    assert section is not None, f"{DOCUMENT} has no <!-- {mark} --> section"
    assert section[1] == f"\n{make()}\n", "run python tests/docs/regenerate.py"


def test_every_network_was_measured_and_no_other() -> None:
    expected = {name: family for family, name, _ in zoo_tables.networks()}
    measured = {name: row["family"] for name, row in zoo_tables.results()["networks"].items()}
    assert measured == expected, "run python zoo/measure_zoo.py"


def test_there_are_at_least_fifty_networks_and_each_names_its_paper() -> None:
    titles = [title for _, _, title in zoo_tables.networks()]
    assert len(titles) >= 50
    assert [title for title in titles if not re.search(r"\(.*(19|20)\d\d\)", title)] == []


def test_every_network_that_is_not_equal_is_explained(root: Path) -> None:
    text = (root / DOCUMENT).read_text(encoding="utf-8").partition("<!-- /networks -->")[2]
    explained = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    rows = zoo_tables.results()["networks"]
    failing = {
        name
        for name, row in rows.items()
        if not all(row[frontend]["equal"] for frontend in zoo_tables.FRONTENDS)
    }
    assert explained == failing
