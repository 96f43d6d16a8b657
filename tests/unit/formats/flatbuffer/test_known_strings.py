"""Strings by position, kept in arrays: found as in a dict."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tosa_convert.formats.flatbuffer.columns import KnownStrings, _distinct

PLACES = st.sets(st.integers(0, 30), max_size=8)


@settings(max_examples=60)
@given(st.lists(PLACES, max_size=5), st.lists(st.lists(st.integers(0, 30), min_size=1), max_size=5))
def test_strings_are_found_as_in_a_dict(added: list[set[int]], asked: list[list[int]]) -> None:
    known, expected = KnownStrings(), dict[int, str]()
    for places in added:
        fresh = known.unknown(np.array(sorted(places), np.int64))
        assert fresh.tolist() == sorted(places - expected.keys())
        texts = [f"string at {place}" for place in fresh.tolist()]
        known.add(fresh, texts)
        expected.update(zip(fresh.tolist(), texts, strict=True))
    for wanted in asked:
        found = known.find(np.array(wanted, np.int64))
        if not expected.keys() >= set(wanted):
            assert found is None
            continue
        assert found is not None
        assert all(text is expected[place] for place, text in zip(wanted, found, strict=True))


@pytest.mark.parametrize(
    ("positions", "expected"),
    [
        ([4], [4]),
        ([4, 4], [4]),
        ([4, 8, 12], [4, 8, 12]),
        ([4, 12, 8], [4, 8, 12]),
        ([4, 8, 8], [4, 8]),
        ([8, 4, 8], [4, 8]),
    ],
)
def test_positions_are_sorted_and_each_is_there_once(
    positions: list[int], expected: list[int]
) -> None:
    assert _distinct(np.array(positions, np.int64)).tolist() == expected
