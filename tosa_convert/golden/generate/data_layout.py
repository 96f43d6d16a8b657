"""Operators that move elements."""

from __future__ import annotations

import math

from tosa_convert.golden.generate.builder import (
    FLOATS,
    INTEGERS,
    KINDS,
    MOST_ELEMENTS,
    Maker,
    rule,
)
from tosa_convert.graph.opset import AttributeValue


@rule("CONCAT", "REVERSE", "TRANSPOSE", "RESHAPE", "TILE", "PAD", "SLICE")
def _layout(m: Maker, name: str) -> bool:
    v = m.pick(KINDS)
    if v is None:
        return False
    rank = len(v.shape)
    axis = m.random.randrange(rank)
    shape = list(v.shape)
    operands = [v.name]
    extra: dict[str, AttributeValue] = {}
    bound = v.bound
    if name == "CONCAT":
        others = [
            o
            for o in m.values
            if o.dtype == v.dtype
            and len(o.shape) == rank
            and all(
                i == axis or a == b for i, (a, b) in enumerate(zip(o.shape, shape, strict=True))
            )
        ]
        other = m.random.choice(others)
        operands, bound, extra = [v.name, other.name], max(bound, other.bound), {"axis": axis}
        shape[axis] += other.shape[axis]
    elif name == "REVERSE":
        extra = {"axis": axis}
    elif name == "TRANSPOSE":
        perms = list(range(rank))
        m.random.shuffle(perms)
        extra, shape = {"perms": tuple(perms)}, [shape[p] for p in perms]
    elif name == "RESHAPE":
        shape = other_shape(m, v.count)
        operands.append(m.shape(shape))
    elif name == "TILE":
        multiples = [m.random.choice((1, 1, 2)) for _ in shape]
        shape = [a * b for a, b in zip(shape, multiples, strict=True)]
        operands.append(m.shape(multiples))
    elif name == "PAD":
        pads = [m.random.randint(0, 2) for _ in range(2 * rank)]
        shape = [size + pads[2 * i] + pads[2 * i + 1] for i, size in enumerate(shape)]
        operands += [m.shape(pads), m.const(v.dtype, [0], (1,))]
    else:
        start = [m.random.randrange(size) for size in shape]
        shape = [m.random.randint(1, s - a) for s, a in zip(shape, start, strict=True)]
        operands += [m.shape(start), m.shape(shape)]
    if math.prod(shape) > MOST_ELEMENTS:
        return False
    return m.emit(name, operands, [(v.dtype, tuple(shape))], bound, **extra)


def other_shape(m: Maker, count: int) -> list[int]:
    """Sizes with this product."""
    shape = [count]
    for _ in range(m.random.randint(0, 3)):
        last = shape.pop()
        divisors = [d for d in range(1, last + 1) if last % d == 0]
        first = m.random.choice(divisors)
        shape += [first, last // first]
    return shape


@rule("GATHER", "SCATTER")
def _gather(m: Maker, name: str) -> bool:
    v = m.pick((*FLOATS, *INTEGERS), (3,))
    if v is None:
        return False
    n, k, c = v.shape
    w = m.random.randint(1, k)
    rows = [m.random.sample(range(k), w) for _ in range(n)]
    indices = m.const("INT32", [i for row in rows for i in row], (n, w))
    if name == "GATHER":
        return m.emit(name, [v.name, indices], [(v.dtype, (n, w, c))], v.bound)
    source = m.random_const(v.dtype, (n, w, c), 100)
    return m.emit(name, [v.name, indices, source], [(v.dtype, v.shape)], max(v.bound, 100))
