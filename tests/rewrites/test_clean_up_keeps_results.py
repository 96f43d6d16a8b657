"""Clean-up never changes what a program computes: random programs on the reference model."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rewrites.frozen import frozen
from rewrites.programs import assert_same_bits, rewritten

import tosa_convert as tc
from tosa_convert.golden.running.programs import input_arrays
from tosa_convert.graph import Graph
from tosa_convert.qualify.random_graphs.generate import RULES
from tosa_convert.rewrites import names_of

#: Operators that clean-up folds and merges; programs of these alone give it more to do.
FOLDED = sorted(
    {
        "ADD",
        "SUB",
        "MUL",
        "ABS",
        "CAST",
        "SELECT",
        "EQUAL",
        "GREATER",
        "MAXIMUM",
        "MINIMUM",
        "NEGATE",
    }
    | {"RESHAPE", "TRANSPOSE", "SLICE", "PAD", "TILE", "CONCAT", "REVERSE", "IDENTITY", "GATHER"}
    | {
        "CEIL",
        "CLAMP",
        "FLOOR",
        "RECIPROCAL",
        "RSQRT",
        "REDUCE_MAX",
        "REDUCE_MIN",
        "INTDIV",
        "BITWISE_NOT",
    }
)
#: Operators that change the layout only.
MOVED = ["RESHAPE", "TRANSPOSE"]
#: Operators that take any layout, among those that change it.
LAID_OUT = ["TRANSPOSE", "ABS", "ADD", "CEIL", "REVERSE"]


def assert_clean_up_keeps_results(graph: Graph, seed: int, *names: str) -> int:
    """Returns how many changes there were."""
    made, report = rewritten(graph, *names)
    assert tc.validate(made) == []
    # Random inputs depend on the operators that use them.
    inputs = input_arrays(graph, None, seed)
    assert_same_bits(tc.run(made, inputs).outputs, tc.run(graph, inputs).outputs)
    return sum(change.count for change in report.changes)


@pytest.mark.slow
@pytest.mark.usefixtures("refmodel")
@settings(max_examples=10)
@given(seed=st.integers(0, 10**6), operators=st.integers(1, 25))
def test_programs_of_any_operators_keep_their_results(seed: int, operators: int) -> None:
    assert_clean_up_keeps_results(frozen(seed, operators), seed, "clean-up")


@pytest.mark.slow
@pytest.mark.usefixtures("refmodel")
@settings(max_examples=10)
@given(
    seed=st.integers(0, 10**6),
    kinds=st.sampled_from([FOLDED, *(FOLDED[start::4] for start in range(4))]),
)
def test_programs_of_folded_and_merged_operators_keep_their_results(
    seed: int, kinds: list[str]
) -> None:
    assert_clean_up_keeps_results(frozen(seed, 20, kinds=kinds), seed, "clean-up")


@pytest.mark.slow
@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize(
    "name", sorted({*names_of("clean-up")} - {"fold-padding", "fold-signs", "tied-weights"})
)
def test_each_rewrite_alone_changes_some_of_these_programs(name: str) -> None:
    """Random programs have no weight twice, no rotated rows, no padded images: these have their own."""
    changes = 0
    for seed in range(20, 60, 2):
        changes += assert_clean_up_keeps_results(frozen(seed, 20, kinds=MOVED), seed, name)
        changes += assert_clean_up_keeps_results(frozen(seed, 20), seed, name)
        changes += assert_clean_up_keeps_results(frozen(seed, 30, kinds=LAID_OUT), seed, name)
        if changes:
            return
    raise AssertionError("no program was changed")


def test_the_kinds_can_be_generated() -> None:
    assert set(FOLDED) <= set(RULES)
