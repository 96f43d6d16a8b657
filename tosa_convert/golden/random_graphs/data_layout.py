"""Operators that move elements."""

from __future__ import annotations

import math

from tosa_convert.golden.random_graphs.builder import (
    ELEMENT_TYPES,
    FLOATS,
    INTEGERS,
    MOST_ELEMENTS,
    GraphBuilder,
    rule,
)
from tosa_convert.graph.opset import AttributeValue


@rule("CONCAT", "REVERSE", "TRANSPOSE", "RESHAPE", "TILE", "PAD", "SLICE")
def _layout(builder: GraphBuilder, name: str) -> bool:
    v = builder.pick(ELEMENT_TYPES)
    if v is None:
        return False
    rank = len(v.shape)
    axis = builder.random.randrange(rank)
    shape = list(v.shape)
    operands = [v.name]
    attributes: dict[str, AttributeValue] = {}
    bound = v.bound
    if name == "CONCAT":
        others = [
            o
            for o in builder.values
            if o.dtype == v.dtype
            and len(o.shape) == rank
            and all(
                i == axis or a == b for i, (a, b) in enumerate(zip(o.shape, shape, strict=True))
            )
        ]
        other = builder.random.choice(others)
        operands, bound, attributes = [v.name, other.name], max(bound, other.bound), {"axis": axis}
        shape[axis] += other.shape[axis]
    elif name == "REVERSE":
        attributes = {"axis": axis}
    elif name == "TRANSPOSE":
        perms = list(range(rank))
        builder.random.shuffle(perms)
        attributes, shape = {"perms": tuple(perms)}, [shape[p] for p in perms]
    elif name == "RESHAPE":
        shape = other_shape(builder, v.count)
        operands.append(builder.shape(shape))
    elif name == "TILE":
        multiples = [builder.random.choice((1, 1, 2)) for _ in shape]
        shape = [a * b for a, b in zip(shape, multiples, strict=True)]
        operands.append(builder.shape(multiples))
    elif name == "PAD":
        pads = [builder.random.randint(0, 2) for _ in range(2 * rank)]
        shape = [size + pads[2 * i] + pads[2 * i + 1] for i, size in enumerate(shape)]
        operands += [builder.shape(pads), builder.const(v.dtype, [0], (1,))]
    else:
        start = [builder.random.randrange(size) for size in shape]
        shape = [builder.random.randint(1, s - a) for s, a in zip(shape, start, strict=True)]
        operands += [builder.shape(start), builder.shape(shape)]
    if math.prod(shape) > MOST_ELEMENTS:
        return False
    return builder.emit(name, operands, [(v.dtype, tuple(shape))], bound, **attributes)


def other_shape(builder: GraphBuilder, count: int) -> list[int]:
    """Sizes with this product."""
    shape = [count]
    for _ in range(builder.random.randint(0, 3)):
        last = shape.pop()
        divisors = [d for d in range(1, last + 1) if last % d == 0]
        first = builder.random.choice(divisors)
        shape += [first, last // first]
    return shape


@rule("GATHER", "SCATTER")
def _gather(builder: GraphBuilder, name: str) -> bool:
    v = builder.pick((*FLOATS, *INTEGERS), (3,))
    if v is None:
        return False
    n, k, c = v.shape
    w = builder.random.randint(1, k)
    rows = [builder.random.sample(range(k), w) for _ in range(n)]
    indices = builder.const("INT32", [i for row in rows for i in row], (n, w))
    if name == "GATHER":
        return builder.emit(name, [v.name, indices], [(v.dtype, (n, w, c))], v.bound)
    source = builder.random_const(v.dtype, (n, w, c), 100)
    return builder.emit(name, [v.name, indices, source], [(v.dtype, v.shape)], max(v.bound, 100))
