"""Operators on shapes."""

from __future__ import annotations

from typing import Final

from tosa_convert.golden.random_graphs.builder import (
    ELEMENT_TYPES,
    RECENT,
    NoOperandsError,
    RandomBuilder,
    Shape,
    rule,
)
from tosa_convert.rules.families.shapes import ARITHMETIC

#: The largest size, and the longest shape: tensors have at most this rank.
_MOST: Final = 1 << 20
_LONGEST: Final = 6


def _shape(g: RandomBuilder, length: int = -1) -> Shape:
    """Return a shape, an existing one or a new one; of this length, if one is given."""
    available = [
        s
        for s in g.shapes[-RECENT:]
        if 1 <= len(s.sizes) <= _LONGEST and length in (-1, len(s.sizes))
    ]
    if available and g.random.random() < 0.7:
        return g.random.choice(available)
    count = g.random.randint(1, 4) if length < 0 else length
    return g.shape([g.random.randint(1, 12) for _ in range(count)], new=True)


@rule(*ARITHMETIC)
def _binary(g: RandomBuilder, name: str) -> None:
    one = _shape(g)
    other = _shape(g, len(one.sizes))
    made = list(map(ARITHMETIC[name], one.sizes, other.sizes))
    if any(size is None or not 0 <= size <= _MOST for size in made):
        raise NoOperandsError
    g.emit(name, one, other)


@rule("EXP2_SHAPE", "LOG2_CEIL_SHAPE", "LOG2_FLOOR_SHAPE")
def _logarithm(g: RandomBuilder, name: str) -> None:
    one = _shape(g)
    low, high = (0, 12) if name == "EXP2_SHAPE" else (1, _MOST)
    if not all(low <= size <= high for size in one.sizes):
        raise NoOperandsError
    g.emit(name, one)


@rule("CONCAT_SHAPE")
def _concat(g: RandomBuilder, name: str) -> None:
    parts = [_shape(g) for _ in range(g.random.randint(1, 3))]
    if sum(len(part.sizes) for part in parts) > _LONGEST:
        raise NoOperandsError
    g.emit(name, parts)


@rule("SLICE_SHAPE")
def _slice(g: RandomBuilder, name: str) -> None:
    one = _shape(g)
    start = g.random.randrange(len(one.sizes))
    g.emit(name, one, start, g.random.randint(1, len(one.sizes) - start))


@rule("DIM")
def _dim(g: RandomBuilder, name: str) -> None:
    t = g.pick(ELEMENT_TYPES)
    g.emit(name, t, axis=g.random.randrange(len(t.shape)))


@rule("ASSERT_EQUAL_SHAPE")
def _assert_equal(g: RandomBuilder, name: str) -> None:
    # The reference model frees a shape at its first assertion: no other operator may take it.
    fresh = [s for s in g.shapes if s.name not in g.used and 1 <= len(s.sizes) <= _LONGEST]
    one = g.random.choice(fresh) if fresh else g.shape((g.random.randint(1, 12),), new=True)
    broadcast = g.random.random() < 0.5
    ones = [1 if broadcast and g.random.random() < 0.3 else size for size in one.sizes]
    other = g.shape(ones, new=True)
    g.emit(name, one, other, allow_broadcast=broadcast)
    g.shapes[:] = [shape for shape in g.shapes if shape not in (one, other)]
