"""Operators on shapes."""

from __future__ import annotations

from collections.abc import Callable

from tosa_convert.golden.random_graphs.builder import ELEMENT_TYPES, GraphBuilder, rule

#: The largest size, and the longest shape: tensors have at most this rank.
_MOST = 1 << 20
_LONGEST = 6
Sizes = tuple[int, ...]


def _shape(builder: GraphBuilder, length: int = -1) -> tuple[str, Sizes]:
    """A shape: an existing one or a new one; of this length, if one is given."""
    available = [
        s for s in builder.shapes if 1 <= len(s[1]) <= _LONGEST and length in (-1, len(s[1]))
    ]
    if available and builder.random.random() < 0.7:
        return builder.random.choice(available)
    count = builder.random.randint(1, 4) if length < 0 else length
    sizes = tuple(builder.random.randint(1, 12) for _ in range(count))
    return builder.shape(sizes, new=True), sizes


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
def _binary(builder: GraphBuilder, name: str) -> bool:
    one, left = _shape(builder)
    other, right = _shape(builder, len(left))
    if name in ("MOD_SHAPE", "DIV_CEIL_SHAPE", "DIV_FLOOR_SHAPE") and min(right) < 1:
        return False
    sizes = tuple(map(_BINARY[name], left, right))
    if min(sizes) < 0 or max(sizes) > _MOST:
        return False
    return builder.emit_shape(name, [one, other], sizes)


@rule("EXP2_SHAPE", "LOG2_CEIL_SHAPE", "LOG2_FLOOR_SHAPE")
def _logarithm(builder: GraphBuilder, name: str) -> bool:
    one, sizes = _shape(builder)
    if name == "EXP2_SHAPE":
        if max(sizes) > 12:
            return False
        return builder.emit_shape(name, [one], [2**size for size in sizes])
    if min(sizes) < 1:
        return False
    ceil = name == "LOG2_CEIL_SHAPE"
    return builder.emit_shape(
        name, [one], [(s - 1 if ceil else s >> 1).bit_length() for s in sizes]
    )


@rule("CONCAT_SHAPE")
def _concat(builder: GraphBuilder, name: str) -> bool:
    parts = [_shape(builder) for _ in range(builder.random.randint(1, 3))]
    sizes = [size for _, part in parts for size in part]
    return len(sizes) <= _LONGEST and builder.emit_shape(name, [part for part, _ in parts], sizes)


@rule("SLICE_SHAPE")
def _slice(builder: GraphBuilder, name: str) -> bool:
    one, sizes = _shape(builder)
    start = builder.random.randrange(len(sizes))
    count = builder.random.randint(1, len(sizes) - start)
    operands = [one, builder.const("INT32", [start], (1,)), builder.const("INT32", [count], (1,))]
    return builder.emit_shape(name, operands, sizes[start : start + count])


@rule("DIM")
def _dim(builder: GraphBuilder, name: str) -> bool:
    v = builder.pick(ELEMENT_TYPES)
    if v is None:
        return False
    axis = builder.random.randrange(len(v.shape))
    return builder.emit_shape(name, [v.name], [v.shape[axis]], axis=axis)


@rule("ASSERT_EQUAL_SHAPE")
def _assert_equal(builder: GraphBuilder, name: str) -> bool:
    # The reference model frees a shape at its first assertion: no other operator may take it.
    fresh = [s for s in builder.shapes if s[0] not in builder.used and 1 <= len(s[1]) <= _LONGEST]
    one = (
        builder.random.choice(fresh)[0]
        if fresh
        else builder.shape((builder.random.randint(1, 12),), new=True)
    )
    sizes = dict(builder.shapes)[one]
    broadcast = builder.random.random() < 0.5
    ones = tuple(1 if broadcast and builder.random.random() < 0.3 else size for size in sizes)
    other = builder.shape(ones, new=True)
    builder.append(name, [one, other], (), {"allow_broadcast": broadcast})
    builder.shapes = [s for s in builder.shapes if s[0] not in (one, other)]
    return True
