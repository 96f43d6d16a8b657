"""Where the objects of a flatbuffer may end: each may be the last of the file, and none goes beyond."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from unit.both_readers import read
from unit.building import counting, encode, example
from unit.graph.test_verify import zoo

from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.flatbuffer.read import read_few
from tosa_convert.graph import Graph


@pytest.mark.parametrize(
    ("make", "out_of_line"), [(example, True), (counting, False), (zoo, False)]
)
def test_a_changed_byte_is_read_alike_in_both_ways(
    make: Callable[[], Graph], out_of_line: bool
) -> None:
    sound = encode(make(), out_of_line=out_of_line)
    read(sound)
    rng = random.Random(f"{make.__name__} {out_of_line}")
    taken = refused = 0
    for position in rng.sample(range(len(sound)), 100):
        old = sound[position]
        changed = bytearray(sound)
        changed[position] = rng.choice([old ^ 1, old + 4 & 255, old - 4 & 255, 255, 0, 128])
        try:
            read(changed)
        except TosaConvertError:
            refused += 1
            continue
        # What is right is taken by the reader of few tables, too.
        assert read_few(memoryview(changed)) is not None, position
        taken += 1
    assert min(taken, refused) > 10
