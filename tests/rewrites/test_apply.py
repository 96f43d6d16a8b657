"""The table of rewrites, the choice among them, and the report."""

from __future__ import annotations

import pytest
from rewrites.programs import program, rewritten

import tosa_convert as tc
from tosa_convert.errors import TosaConvertError
from tosa_convert.graph import Graph
from tosa_convert.rewrites.table import GROUPS


def both() -> Graph:
    """Return a program that a repair and clean-up change."""
    return program(lambda b: b.pow(b.input("x", "fp32", (2,)), 2.0))


def test_every_rewrite_has_a_name_a_group_and_a_reason() -> None:
    rows = tc.rewrites.REWRITES
    assert len({row.name for row in rows}) == len(rows)
    for row in rows:
        assert row.group in GROUPS
        assert row.name == row.name.lower().replace(" ", "-")
        assert row.reason
        assert not row.reason.endswith(".")


def test_names_choose_rewrites_and_groups() -> None:
    every = tc.rewrites.names_of()
    assert every == tuple(row.name for row in tc.rewrites.REWRITES if row.group != "reader")
    repairs, clean_up = tc.rewrites.names_of("repair"), tc.rewrites.names_of("clean-up")
    assert {*repairs, *clean_up, *tc.rewrites.names_of("rounding")} == set(every)
    assert not set(repairs) & set(clean_up)
    assert tc.rewrites.names_of("unused-operators", "pow-by-constant") == (
        "pow-by-constant",
        "unused-operators",
    )


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(TosaConvertError, match="pow-by-constant") as caught:
        tc.rewrites.apply(both(), "no-such-rewrite")
    assert caught.value.code == "option-conflict"


def test_only_what_was_asked_for_changes() -> None:
    made, report = rewritten(both(), "repair")
    assert {change.rewrite for change in report.changes} == {"pow-by-constant"}
    assert [op.spec.name for op in made.main.operators] == ["CONST", "CONST", "MUL"]


def test_a_report_counts_equal_changes_and_names_the_first_places() -> None:
    def build(b: object) -> tuple[object, ...]:
        x = b.input("x", "fp32", (2,))  # type: ignore[attr-defined]
        return tuple(b.pow(x, 2.0) for _ in range(6))  # type: ignore[attr-defined]

    _, report = rewritten(program(build), "pow-by-constant")  # type: ignore[arg-type]
    (change,) = report.changes
    assert change.count == 6
    assert len(change.places) == 4
    assert str(report).endswith("... 2 more")
    assert ", 6 times: " in str(report)
