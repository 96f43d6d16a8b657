"""Operators on shapes."""

from __future__ import annotations

from collections.abc import Callable

from tosa_convert.golden.generate.builder import KINDS, Maker, rule

#: Sizes stay below this, and shapes as short as a tensor's.
_MOST = 1 << 20
_LONGEST = 6
Sizes = tuple[int, ...]


def _shape(m: Maker, length: int = -1) -> tuple[str, Sizes]:
    """A shape: one there is, or a new one; of this length if one is given."""
    known = [s for s in m.shapes if 1 <= len(s[1]) <= _LONGEST and length in (-1, len(s[1]))]
    if known and m.random.random() < 0.7:
        return m.random.choice(known)
    count = m.random.randint(1, 4) if length < 0 else length
    sizes = tuple(m.random.randint(1, 12) for _ in range(count))
    return m.shape(sizes, new=True), sizes


_BINARY: dict[str, Callable[[int, int], int]] = {
    "ADD_SHAPE": lambda a, b: a + b,
    "SUB_SHAPE": lambda a, b: a - b,
    "MUL_SHAPE": lambda a, b: a * b,
    "MAX_SHAPE": max,
    "MIN_SHAPE": min,
    "MOD_SHAPE": lambda a, b: a % b,
    "DIV_CEIL_SHAPE": lambda a, b: -(-a // b),
    "DIV_FLOOR_SHAPE": lambda a, b: a // b,
}


@rule(*_BINARY)
def _binary(m: Maker, name: str) -> bool:
    one, left = _shape(m)
    other, right = _shape(m, len(left))
    if name in ("MOD_SHAPE", "DIV_CEIL_SHAPE", "DIV_FLOOR_SHAPE") and min(right) < 1:
        return False
    sizes = tuple(map(_BINARY[name], left, right))
    if min(sizes) < 0 or max(sizes) > _MOST:
        return False
    return m.emit_shape(name, [one, other], sizes)


@rule("EXP2_SHAPE", "LOG2_CEIL_SHAPE", "LOG2_FLOOR_SHAPE")
def _logarithm(m: Maker, name: str) -> bool:
    one, sizes = _shape(m)
    if name == "EXP2_SHAPE":
        if max(sizes) > 12:
            return False
        return m.emit_shape(name, [one], [2**size for size in sizes])
    if min(sizes) < 1:
        return False
    ceil = name == "LOG2_CEIL_SHAPE"
    return m.emit_shape(name, [one], [(s - 1 if ceil else s >> 1).bit_length() for s in sizes])


@rule("CONCAT_SHAPE")
def _concat(m: Maker, name: str) -> bool:
    parts = [_shape(m) for _ in range(m.random.randint(1, 3))]
    sizes = [size for _, part in parts for size in part]
    return len(sizes) <= _LONGEST and m.emit_shape(name, [part for part, _ in parts], sizes)


@rule("SLICE_SHAPE")
def _slice(m: Maker, name: str) -> bool:
    one, sizes = _shape(m)
    start = m.random.randrange(len(sizes))
    count = m.random.randint(1, len(sizes) - start)
    operands = [one, m.const("INT32", [start], (1,)), m.const("INT32", [count], (1,))]
    return m.emit_shape(name, operands, sizes[start : start + count])


@rule("DIM")
def _dim(m: Maker, name: str) -> bool:
    v = m.pick(KINDS)
    if v is None:
        return False
    axis = m.random.randrange(len(v.shape))
    return m.emit_shape(name, [v.name], [v.shape[axis]], axis=axis)


@rule("ASSERT_EQUAL_SHAPE")
def _assert_equal(m: Maker, name: str) -> bool:
    # The reference model lets a shape go with the first assertion: nothing else may take it.
    fresh = [s for s in m.shapes if s[0] not in m.used and 1 <= len(s[1]) <= _LONGEST]
    one = m.random.choice(fresh)[0] if fresh else m.shape((m.random.randint(1, 12),), new=True)
    sizes = dict(m.shapes)[one]
    broadcast = m.random.random() < 0.5
    ones = tuple(1 if broadcast and m.random.random() < 0.3 else size for size in sizes)
    other = m.shape(ones, new=True)
    m.append(name, [one, other], (), {"allow_broadcast": broadcast})
    m.shapes = [s for s in m.shapes if s[0] not in (one, other)]
    return True
