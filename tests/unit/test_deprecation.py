"""Names that go: the table, its document and the decorator."""

from __future__ import annotations

import datetime
import importlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tosa_convert.deprecation import (
    DEPRECATED,
    Deprecation,
    TosaConvertDeprecationWarning,
    deprecated,
)
from tosa_convert.version import __version__

YEAR = datetime.timedelta(days=365)
ROW = Deprecation(since="0.1.0", announced="2026-01-31", removal="2027-01-31", instead="b")
TODAY = datetime.datetime.now(datetime.timezone.utc).date()


def numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def problems(table: Mapping[str, Deprecation], today: datetime.date) -> Iterator[str]:
    """Yield what is wrong with a table on a day."""
    for name, row in table.items():
        announced, removal = map(datetime.date.fromisoformat, (row.announced, row.removal))
        if removal - announced < YEAR:
            yield f"{name}: less than a year from {announced} to {removal}"
        if today >= removal:
            yield f"{name}: it may go since {removal}: remove it, or move the day"
        if numbers(row.since) > numbers(__version__):
            yield f"{name}: {row.since} is not released yet, this is {__version__}"
        if not row.instead:
            yield f"{name}: say what to write instead"


def test_the_days_of_the_table_are_those_of_the_policy() -> None:
    assert not list(problems(DEPRECATED, TODAY))


@pytest.mark.parametrize(
    ("changed", "today", "said"),
    [
        ({}, "2026-06-01", ""),
        ({}, "2027-01-31", "it may go since"),
        ({"removal": "2026-12-31"}, "2026-06-01", "less than a year"),
        ({"since": "99.0.0"}, "2026-06-01", "is not released yet"),
        ({"instead": ""}, "2026-06-01", "say what to write"),
    ],
)
def test_a_row_against_the_policy_is_found(changed: dict[str, str], today: str, said: str) -> None:
    fields = {name: getattr(ROW, name) for name in ("since", "announced", "removal", "instead")}
    table = {"a": Deprecation(**{**fields, **changed})}
    found = list(problems(table, datetime.date.fromisoformat(today)))
    assert len(found) == bool(said)
    assert said in "".join(found)


def test_every_name_of_the_table_is_decorated() -> None:
    for name in DEPRECATED:
        module, _, member = name.rpartition(".")
        assert hasattr(getattr(importlib.import_module(module), member), "__deprecated__"), name


def test_every_decorated_name_is_in_the_table(root: Path) -> None:
    """The decorator refuses others, as soon as their module is imported."""
    files = (root / "tosa_convert").rglob("*.py")
    texts = {path.name: path.read_text(encoding="utf-8") for path in files}
    named = {
        name
        for file, text in texts.items()
        if file != "deprecation.py"
        for name in re.findall(r'^ *@deprecated\("([\w.]+)"\)', text, re.MULTILINE)
    }
    assert named == set(DEPRECATED)


def test_the_document_has_the_table(root: Path) -> None:
    text = (root / "docs/deprecations.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| `([\w.]+)` \| (.+) \| (.+) \| (.+) \| (.+) \|$", text, re.MULTILINE)
    rows = [(name, r.since, r.announced, r.removal, r.instead) for name, r in DEPRECATED.items()]
    assert [(*row[:4], row[4].strip("`")) for row in shown] == rows
    assert ("nothing is deprecated" in text) is not bool(rows)


def test_a_deprecated_function_works_and_warns_at_the_line_of_its_caller() -> None:
    @deprecated("a", {"a": ROW})
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    said = "a is deprecated since 0.1.0, and may be gone from 2027-01-31 on: use b"
    with pytest.warns(TosaConvertDeprecationWarning, match=said) as caught:
        assert double(4) == 8
    assert caught[0].filename == __file__
    assert (double.__name__, double.__doc__) == ("double", "Double a number.")
    assert issubclass(TosaConvertDeprecationWarning, DeprecationWarning)
