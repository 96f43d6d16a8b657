"""Changed official tests: we accept nothing that MLIR's verifier or the reference model refuses.

For all operators: `nox -s conformance`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from oracle import compare_mutants, official_suite
from oracle.compare_mutants import Judgement, Tally
from unit.building import op

import tosa_convert as tc

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(bool(official_suite.missing()), reason=official_suite.missing()),
]

OPERATORS = ("add", "concat", "conv3d", "max_pool2d", "pad", "reshape", "slice_shape", "tile")


@pytest.fixture(scope="module")
def files(official_cases: list[official_suite.Case]) -> list[Path]:
    """Return a valid program of some operators."""
    first = {case.operator: case.tosa for case in reversed(official_cases)}
    return [first[name] for name in OPERATORS]


@pytest.mark.slow
def test_we_accept_nothing_that_another_judge_refuses(files: list[Path]) -> None:
    tally = compare_mutants.compare(files, 4, 1)
    assert not tally.unusable
    assert tally.programs >= 25
    assert tally.refused >= 15
    assert not tally.wrong, "\n".join(tally.lines())


def test_mutants_are_copies() -> None:
    for name in ("ADD", "CONCAT", "PAD"):
        graph = tc.golden.generate(seed=1, operators=1, kinds=[name])
        before = tc.dumps(graph, "json")
        made = [tc.dumps(mutant, "json") for _, _, mutant in compare_mutants.mutants(graph, 5, "s")]
        assert len(made) >= 2
        assert set(made) - {before}
        assert tc.dumps(graph, "json") == before


@pytest.mark.parametrize(
    ("found", "is_wrong"),
    [
        (Judgement(("add-rank",), "refused", "", "refused"), False),
        (Judgement((), "", "refused", ""), False),
        (Judgement((), "refused", "", ""), True),
        (Judgement((), "", "", "refused"), True),
        (Judgement(("add-rank",), "", "refused", ""), True),
        (Judgement(("mul-shift",), "", "refused", ""), False),
    ],
)
def test_what_only_we_accept_or_refuse_is_wrong(found: Judgement, is_wrong: bool) -> None:
    tally = Tally()
    tally.add("x is [2]", op("ADD", "x y", "z"), found)
    assert bool(tally.wrong) is is_wrong
