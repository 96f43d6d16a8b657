"""docs/zoo.md and docs/networks.md are about published networks, each measured or explained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs import network_tables, zoo_tables

#: Authors and year, in brackets.
PAPER = re.compile(r"\([^()]*(19|20)\d\d\)")


def test_every_result_is_of_a_published_network(root: Path) -> None:
    lines = (root / "zoo" / "published.txt").read_text(encoding="utf-8").splitlines()
    names = [line.split()[0] for line in lines if line and not line.startswith("#")]
    assert len(set(names)) == len(names)
    assert {row["name"] for row in network_tables.rows()} <= set(names)


@pytest.mark.parametrize("framework", zoo_tables.WAYS)
def test_every_network_was_measured_and_no_other(framework: str) -> None:
    expected = {name for _, name, _ in zoo_tables.networks(framework)}
    ways = zoo_tables.WAYS[framework].values()
    first, *others = (set(zoo_tables.rows_of(beginning)) for beginning in ways)
    assert first == expected, "run what docs/zoo.md says"
    assert all(other <= expected for other in others)


def test_each_row_is_of_a_case_that_the_suite_names() -> None:
    beginnings = tuple(start for ways in zoo_tables.WAYS.values() for start in ways.values())
    names = [row["case"] for row in zoo_tables.results()["answers"]]
    assert names == sorted(set(names))
    assert [name for name in names if not name.startswith(beginnings)] == []
    for framework in ("torch", "jax"):
        families = {row[0] for row in zoo_tables.networks(framework)}
        starts = f"{framework}/"
        made = [name.removeprefix(starts) for name in names if name.startswith(starts)]
        assert {name.partition(".py:")[0] for name in made} == families


@pytest.mark.parametrize(("framework", "least"), [("torch", 50), ("keras", 20), ("jax", 45)])
def test_each_network_names_its_paper(framework: str, least: int) -> None:
    titles = [title for _, _, title in zoo_tables.networks(framework)]
    assert len(titles) >= least
    assert [title for title in titles if not PAPER.search(title)] == []


def test_the_same_name_means_the_same_paper() -> None:
    papers: dict[str, set[str]] = {}
    for framework in zoo_tables.WAYS:
        for _, name, title in zoo_tables.networks(framework):
            found = PAPER.search(title)
            assert found is not None
            papers.setdefault(name, set()).add(found[0])
    assert {name: of for name, of in papers.items() if len(of) > 1} == {}


@pytest.mark.parametrize(
    ("framework", "way"),
    [(framework, way) for framework, ways in zoo_tables.WAYS.items() for way in ways],
)
def test_every_network_that_is_not_equal_is_explained(root: Path, framework: str, way: str) -> None:
    text = (
        (root / "docs" / "zoo.md").read_text(encoding="utf-8").partition("## What is not equal")[2]
    )
    lines = re.findall(r"^\| (`.*) \| (.*?) \|.*\|$", text, re.MULTILINE)
    explained = [name for names, of in lines if of == way for name in re.findall(r"`(\w+)`", names)]
    rows = zoo_tables.rows_of(zoo_tables.WAYS[framework][way])
    names = {name for _, name, _ in zoo_tables.networks(framework)}
    failing = {name for name in names if name not in rows or rows[name]["status"] != "pass"}
    assert sorted(explained) == sorted(failing)
