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


@pytest.mark.parametrize("ways", [zoo_tables.TORCH, zoo_tables.TFLITE])
def test_every_network_was_measured_and_no_other(ways: dict[str, str]) -> None:
    expected = {name for _, name, _ in zoo_tables.networks(keras=ways is zoo_tables.TFLITE)}
    first, *others = (set(zoo_tables.rows_of(beginning)) for beginning in ways.values())
    assert first == expected, "run what docs/zoo.md says"
    assert all(other <= expected for other in others)


def test_each_row_is_of_a_case_that_the_suite_names() -> None:
    beginnings = (*zoo_tables.TORCH.values(), *zoo_tables.TFLITE.values())
    names = [row["case"] for row in zoo_tables.results()["answers"]]
    assert names == sorted(set(names))
    assert [name for name in names if not name.startswith(beginnings)] == []
    families = {row[0] for row in zoo_tables.networks(keras=False)}
    made = [name.removeprefix("torch/") for name in names if name.startswith("torch/")]
    assert {name.partition(".py:")[0] for name in made} == families


@pytest.mark.parametrize(("keras", "least"), [(False, 50), (True, 20)])
def test_each_network_names_its_paper(keras: bool, least: int) -> None:
    titles = [title for _, _, title in zoo_tables.networks(keras=keras)]
    assert len(titles) >= least
    assert [title for title in titles if not re.search(r"\(.*(19|20)\d\d\)", title)] == []


@pytest.mark.parametrize("way", [*zoo_tables.TORCH, *zoo_tables.TFLITE])
def test_every_network_that_is_not_equal_is_explained(root: Path, way: str) -> None:
    text = (root / DOCUMENT).read_text(encoding="utf-8").partition("## What is not equal")[2]
    lines = re.findall(r"^\| (`.*) \| (.*?) \|.*\|$", text, re.MULTILINE)
    explained = [name for names, of in lines if of == way for name in re.findall(r"`(\w+)`", names)]
    beginning = {**zoo_tables.TORCH, **zoo_tables.TFLITE}[way]
    rows = zoo_tables.rows_of(beginning)
    names = {name for _, name, _ in zoo_tables.networks(keras=way in zoo_tables.TFLITE)}
    failing = {name for name in names if name not in rows or rows[name]["status"] != "pass"}
    assert sorted(explained) == sorted(failing)
