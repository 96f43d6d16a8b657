"""Changed modules: we read the numbers that MLIR reads, and explain what only one of us refuses."""

from __future__ import annotations

import pytest
from oracle import compare_refusals


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("form", "count"),
    [
        ("text", 20),
        *(pytest.param(*row, marks=pytest.mark.slow) for row in (("text", 120), ("bytecode", 60))),
    ],
)
def test_mutants_are_read_as_mlir_reads_them(form: str, count: int) -> None:
    tally = compare_refusals.compare({form: count}, seed=5)
    counts = tally.counts[form]
    assert sum(counts.values()) == count
    assert counts["all refuse"] >= count // 4
    assert counts["all accept, equal"] >= count // 20
    assert not tally.unexplained(), "\n".join(tally.lines())


def test_a_difference_without_an_explanation_is_listed() -> None:
    tally = compare_refusals.Tally()
    tally.add("text", b"", "only MLIR refuses", "MLIR refuses: something new")
    tally.add("text", b"", "only we refuse", "we refuse: duplicate-name: twice")
    assert tally.unexplained() == ["MLIR refuses: something new"]
