"""Locations in messages: a position that editors open, and the name that a framework gave."""

from __future__ import annotations

import pytest

from tosa_convert.graph.model import name_in_location


@pytest.mark.parametrize(
    ("location", "name"),
    [
        ("", ""),
        ("loc(unknown)", ""),
        ('loc("f.mlir":2:8)', ""),
        ('loc("add")', "add"),
        ('loc("add"("f.mlir":2:8))', "add"),
        ('loc("a"(fused["b"]))', "a"),
        (r'loc("s\C3\BCm")', "süm"),
        (r'loc("a\"b\\c")', r'a"b\c'),
        (r'loc("\FF")', "\ufffd"),
    ],
)
def test_a_name_is_what_a_location_begins_with(location: str, name: str) -> None:
    assert name_in_location(location) == name
