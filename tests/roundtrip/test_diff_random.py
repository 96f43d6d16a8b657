"""Random programs and random changes of them: `diff` finds a difference exactly where `compare` does."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roundtrip.graphs import graphs
from roundtrip.mutations import MUTATIONS
from unit.graph.test_compare import renamed

import tosa_convert as tc
from tosa_convert.golden import generate
from tosa_convert.graph import Graph

SWAPPED = {"added": "removed", "removed": "added"}


def counts(left: Graph, right: Graph, *, swapped: bool = False) -> dict[Any, int]:
    found = tc.diff(left, right).counts()
    return {
        (subject, SWAPPED.get(kind, kind) if swapped else kind): count
        for (subject, kind), count in found.items()
    }


@pytest.mark.slow
@given(graphs())
@settings(max_examples=20, deadline=None)
def test_a_random_program_equals_itself_with_other_names(made: Graph) -> None:
    assert tc.diff(made, made).changes == ()
    assert tc.diff(made, made, names=True, locations=True).changes == ()
    assert tc.diff(made, renamed(copy.deepcopy(made))).changes == ()


@pytest.mark.slow
@given(graphs(), st.integers(0, 2**32), st.sampled_from(sorted(MUTATIONS)))
@settings(max_examples=50, deadline=None)
def test_a_change_of_any_program_is_found_exactly_if_it_is_one(
    made: Graph, seed: int, name: str
) -> None:
    rng = random.Random(seed)
    changed = copy.deepcopy(made)
    MUTATIONS[name](changed, rng.choice([block for _, block in changed.blocks()]), rng)
    check(made, changed)


def check(left: Graph, right: Graph) -> None:
    differs = tc.compare(left, right, names=False) is not None
    assert bool(tc.diff(left, right)) == differs
    assert bool(tc.diff(right, left)) == differs
    differs = tc.compare(left, right, locations=True) is not None
    assert bool(tc.diff(left, right, names=True, locations=True)) == differs


#: How the classes of changes are reported, if a program has no other change because of them.
EXPECTED = {
    "attribute": {("operator", "changed")},
    "data": {("constant", "changed")},
    "inserted": {("operator", "added")},
    "moved": {("operator", "moved"), ("constant", "moved")},
    "shape": {("operator", "changed"), ("input", "changed"), ("variable", "changed")},
    "symbol": {("variable", "changed"), ("variable", "added"), ("variable", "removed")},
    "shared_constant": {("constant", "added")},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTATIONS)
def test_each_class_of_changes_is_found_and_named(name: str) -> None:
    tried = 0
    for seed in range(60):
        rng = random.Random(f"{name} {seed}")
        made = generate(seed, rng.choice((3, 10, 30)))
        changed = copy.deepcopy(made)
        if not MUTATIONS[name](changed, rng.choice([b for _, b in changed.blocks()]), rng):
            continue
        check(made, changed)
        renamed(changed)
        found = counts(made, changed)
        assert bool(found) == (tc.compare(made, changed, names=False) is not None)
        assert found == counts(changed, made, swapped=True)
        assert not found or found.keys() & EXPECTED.get(name, found.keys()), found
        tried += 1
        if tried == 6:
            return
    assert tried, "no program has anything to change"


@pytest.mark.slow
def test_different_programs_differ() -> None:
    for seed in range(20):
        left, right = generate(seed, 8), generate(seed + 1, 8)
        check(left, right)
        assert counts(left, right)
