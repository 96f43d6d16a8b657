"""The official tests with their inputs as constants: clean-up computes what the reference model does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from oracle import official_suite
from rewrites.programs import assert_same_bits, rewritten, with_constants

import tosa_convert as tc
from tosa_convert.qualify.suite.official_case import case_inputs, read_case

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(bool(official_suite.missing()), reason=official_suite.missing()),
    pytest.mark.usefixtures("refmodel"),
]


def check(folders: Iterable[Path]) -> Counter[str]:
    """Compare programs with their rewritten forms; counts what was compared, and the changes."""
    found: Counter[str] = Counter()
    for folder in folders:
        case = read_case(folder)
        if case.is_expected_to_fail:
            continue
        graph = with_constants(case.graph, case_inputs(case))
        made, report = rewritten(graph, "clean-up")
        if made is graph:
            continue
        for change in report.changes:
            found[change.rewrite] += change.count
        if graph.main.inputs:
            continue  # block-scaled
        try:
            expected = tc.run(graph).outputs
        except tc.TosaConvertError:
            found["refused"] += 1  # see `equal_constants`: a shape that is asserted and used
            continue
        found["compared"] += 1
        try:
            assert_same_bits(tc.run(made).outputs, expected)
        except AssertionError as error:
            raise AssertionError(f"{folder}: {error}") from None
    return found


@pytest.mark.long
def test_a_part_of_the_sample_computes_the_same_when_rewritten(
    official_cases: list[official_suite.Case],
) -> None:
    found = check(case.tosa.parent for case in official_cases[::3])
    assert found["fold-constants"] > 100
    assert found["compared"] > 133
    assert found["refused"] < 2
