"""docs/computation.md lists the definitions as they are."""

from __future__ import annotations

from pathlib import Path

from docs import computation_tables


def test_the_table_of_definitions_is_that_of_the_docstrings(root: Path) -> None:
    text = (root / "docs" / "computation.md").read_text(encoding="utf-8")
    start, end = "<!-- definitions -->\n", "<!-- /definitions -->"
    shown = text.partition(start)[2].partition(end)[0].strip()
    assert shown == computation_tables.definitions().strip(), "python tests/docs/regenerate.py"
