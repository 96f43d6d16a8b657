"""The tables of the documents are those that regenerate.py writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from docs.regenerate import all_tables, with_tables


@pytest.mark.parametrize("name", all_tables())
def test_the_tables_of_a_document_are_as_they_are_made(root: Path, name: str) -> None:
    path = root / "docs" / f"{name}.md"
    tables = all_tables()[name]
    assert path.read_text(encoding="utf-8") == with_tables(path, tables), (
        "run python tests/docs/regenerate.py"
    )
