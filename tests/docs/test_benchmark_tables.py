"""Check that published times are not older than formats and graph by more than a release."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from docs.benchmark_tables import measured, outdated, releases


def test_the_times_are_of_this_release_or_the_last(root: Path) -> None:
    versions = releases((root / "CHANGELOG.md").read_text(encoding="utf-8"))
    sources = runpy.run_path(str(root / "benchmarks" / "places.py"))["sources"]()
    assert not outdated(measured(), sources, versions), (
        "python benchmarks/run.py --full --merge benchmarks/measured.json on an idle machine, "
        "and python tests/docs/regenerate.py"
    )


@pytest.mark.parametrize(
    ("version", "sources", "is_old"),
    [
        ("0.3.0", "other", False),
        ("0.2.0", "other", False),
        ("0.1.0", "same", False),
        ("0.1.0", "other", True),
        ("9.9.9", "other", True),
    ],
)
def test_times_of_two_releases_ago_are_old_if_the_sources_have_changed(
    version: str, sources: str, is_old: bool
) -> None:
    row = {"id": "one/export", "measured": {"version": version, "sources": sources}}
    found = outdated({"rows": [row]}, "same", ["0.3.0", "0.2.0", "0.1.0"])
    assert found == (["one/export"] if is_old else [])
