"""Decompositions of operators that reduce an axis, or order its elements."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from tosa_convert.builder import Builder
from tosa_convert.builder.values import Value
from tosa_convert.frontends.tflite.decomposition import Decompose, Given, sizes_of


def _cumulative_sum(b: Builder, given: Given) -> list[Value]:
    """Sum over twice as many elements in each of log2(n) steps: infinities stay where they are."""
    x, axis = given.operands[0], int(given.facts["axis"])
    shape = tuple(x.shape or ())

    def moved(value: Value, by: int) -> Value:
        pads = np.zeros((len(shape), 2), np.int64)
        pads[axis, int(given.facts["reverse"])] = by
        start = [by if k == axis and given.facts["reverse"] else 0 for k in range(len(shape))]
        return b.slice(b.pad(value, pads.reshape(-1).tolist()), start, shape)

    if given.facts["exclusive"]:
        x = moved(x, 1)
    step = 1
    while step < shape[axis]:
        x = b.add(x, moved(x, step))
        step *= 2
    # The result is a value of its own, also if there is nothing to add.
    return [b.identity(x) if shape[axis] == 1 and not given.facts["exclusive"] else x]


def _largest(b: Builder, given: Given) -> list[Value]:
    """Find the largest elements: the place of each is the count of larger, or equal earlier ones."""
    x, count = given.operands[0], int(given.facts["count"])
    *outer, size = x.shape or ()
    rows = math.prod(outer)
    number = x if str(x.dtype) in ("FP32", "INT32") else b.cast(x, dtype="int32")
    others, each = b.reshape(number, (rows, 1, size)), b.reshape(number, (rows, size, 1))
    earlier = b.const(np.tri(size, size, -1, dtype=bool).reshape(1, size, size))
    is_first = b.logical_and(b.equal(others, each), earlier)
    before = b.cast(b.logical_or(b.greater(others, each), is_first), dtype="int32")
    places = b.reshape(b.reduce_sum(before, axis=2), (rows, size))
    positions = np.broadcast_to(np.arange(size, dtype=np.int32), (rows, size))
    found = []
    for part in (b.reshape(x, (rows, size, 1)), b.const(positions.reshape(rows, size, 1))):
        empty = b.const(np.zeros((rows, size, 1)), dtype=part.dtype)
        ordered = b.scatter(empty, places, part)
        found.append(b.reshape(b.slice(ordered, (0, 0, 0), (rows, count, 1)), (*outer, count)))
    return found


def _place(b: Builder, given: Given) -> list[Value]:
    """Find the first place of the largest, or the smallest, integer."""
    x, axis = given.operands[0], given.facts["axis"]
    most = b.reduce_min(x, axis=axis) if given.facts["is_least"] else b.reduce_max(x, axis=axis)
    shape = sizes_of(x)
    size = shape[axis]
    places = np.arange(size, dtype=np.int32)
    along = b.const(places.reshape([-1 if at == axis else 1 for at in range(len(shape))]))
    found = b.select(b.equal(x, most), along, size)
    return [b.reshape(b.reduce_min(found, axis=axis), given.shape)]


def _largest_place(b: Builder, given: Given) -> list[Value]:
    return _place(b, given._replace(facts={**given.facts, "is_least": False}))


def _smallest_place(b: Builder, given: Given) -> list[Value]:
    return _place(b, given._replace(facts={**given.facts, "is_least": True}))


def _product(b: Builder, given: Given) -> list[Value]:
    """Multiply one half of an axis by the other, until there is one element."""
    x = given.operands[0]
    for axis in given.facts["axes"]:
        while (size := sizes_of(x)[axis]) > 1:
            half = size // 2
            shape = [half if at == axis else one for at, one in enumerate(sizes_of(x))]
            starts = [[at * half if i == axis else 0 for i in range(len(shape))] for at in (0, 1)]
            found = b.mul(*(b.slice(x, start, shape) for start in starts))
            if size % 2:
                shape[axis], starts[1][axis] = 1, size - 1
                found = b.concat([found, b.slice(x, starts[1], shape)], axis=axis)
            x = found
    return [b.reshape(x, given.shape)]


def _softmax(b: Builder, given: Given) -> list[Value]:
    """Compute the softmax of a multiple of the elements."""
    x = given.operands[0]
    axis = len(given.shape) - 1
    distance = b.sub(x, b.reduce_max(x, axis=axis))
    powers = b.exp(b.mul(distance, given.facts["beta"]))
    return [b.mul(powers, b.reciprocal(b.reduce_sum(powers, axis=axis)))]


KINDS: Final[Mapping[str, Decompose]] = {
    "CUMSUM": _cumulative_sum,
    "TOPK_V2": _largest,
    "ARG_MAX": _largest_place,
    "ARG_MIN": _smallest_place,
    "REDUCE_PROD": _product,
    "SOFTMAX": _softmax,
}
