"""Locations in messages: a position that editors open, and the name that a framework gave."""

from __future__ import annotations

import pytest
from unit.building import op

from tosa_convert.graph.model import located, name_in_location


@pytest.mark.parametrize(
    ("location", "text"),
    [
        ("", "path"),
        ("loc(unknown)", "path"),
        ('loc("f.mlir":2:8)', "f.mlir:2:8: path"),
        ('loc("add"("f.mlir":12:345))', 'f.mlir:12:345: loc("add"("f.mlir":12:345)): path'),
        ('loc("f.mlir":0:8)', 'loc("f.mlir":0:8): path'),
        ('loc("f\\tg":2:8)', 'loc("f\\tg":2:8): path'),
        ('loc("f\tg":2:8)', 'loc("f\tg":2:8): path'),
        ('loc("add")', 'loc("add"): path'),
    ],
)
def test_a_path_follows_the_position_in_a_file(location: str, text: str) -> None:
    assert located("path", op("ABS", location=location)) == text


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
