"""Official tests: programs that break one rule are refused by that rule, and valid ones have no finding.

The negative tests are made once in pytest's cache. For more of them, and for all valid ones:
 `nox -s conformance`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from oracle import compare_negatives, compare_positives, official_negatives, official_suite
from rules.error_if_rules import NEVER_MADE, RULES
from unit.building import graph, op, tensor

import tosa_convert as tc
from tosa_convert import golden

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(bool(official_suite.missing()), reason=official_suite.missing()),
]


@pytest.fixture(scope="module")
def negatives(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return one test for each operator and condition."""
    return official_negatives.sample(request.config, tmp_path_factory.mktemp("negatives"))


@pytest.mark.slow
def test_every_negative_test_is_refused_by_a_rule_that_its_name_says(negatives: Path) -> None:
    tally = compare_negatives.Tally()
    for test in official_negatives.cases(negatives):
        tally.add(test)
    assert tally.files >= 490
    assert tally.passed, "\n".join(tally.lines())


def test_the_table_has_a_row_for_each_condition() -> None:
    assert set(RULES) == official_negatives.conditions() - NEVER_MADE


def test_a_test_that_is_refused_for_another_reason_does_not_pass(tmp_path: Path) -> None:
    values = [
        tensor("x", "INT32", (2, 3)),
        tensor("y", "INT32", (2, 4)),
        tensor("z", "INT32", (2, 3)),
    ]
    file = tmp_path / "test.tosa"
    tc.save(graph("x y", "z", values, [op("ADD", "x y", "z")]), file, validate=False)
    tally = compare_negatives.Tally()
    tally.add(official_negatives.Negative(file, "BroadcastShapesMismatch", "add"))
    assert not tally.otherwise
    tally.add(official_negatives.Negative(file, "PadSmallerZero", "add"))
    assert [test.condition for test, _ in tally.otherwise] == ["PadSmallerZero"]
    assert not tally.passed


def test_a_valid_program_is_no_refused_test(tmp_path: Path) -> None:
    file = tmp_path / "test.tosa"
    tc.save(golden.generate(1, 5), file)
    tally = compare_negatives.Tally()
    tally.add(official_negatives.Negative(file, "RankMismatch", "add"))
    assert tally.accepted
    assert not tally.passed


@pytest.mark.slow
def test_valid_official_tests_have_no_finding_and_all_shapes_are_derived(
    official_cases: list[official_suite.Case],
) -> None:
    tally = compare_positives.Tally()
    for case in official_cases:
        tally.add(str(case.tosa), tc.load(case.tosa))
    assert tally.programs >= 900
    assert tally.passed, "\n".join(tally.findings)
    assert not tally.partly
    never = {"custom", "variable", "variable_read", "variable_write", "const"}
    assert {name.upper() for name in official_suite.operators() if name not in never} == set(
        tally.derived
    ) | {"ASSERT_EQUAL_SHAPE"}


@pytest.mark.slow
def test_random_programs_have_no_finding_and_all_shapes_are_derived() -> None:
    tally = compare_positives.Tally()
    for seed in range(60):
        tally.add(f"random graph {seed}", golden.generate(seed, 20))
    assert tally.passed, "\n".join(tally.findings)
    assert not tally.partly
    assert sum(tally.derived.values()) > 1000
