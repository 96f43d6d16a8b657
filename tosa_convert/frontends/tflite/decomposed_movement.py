"""Decompositions of operators that move elements, repeat them, or choose among them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from tosa_convert.builder import Builder
from tosa_convert.builder.values import Value
from tosa_convert.frontends.tflite.decomposition import (
    Decompose,
    Given,
    around,
    broadcast,
    ranked,
    sizes_of,
)


def _strided_slice(b: Builder, given: Given) -> list[Value]:
    """Axis by axis; backwards, the axis is reversed first."""
    x = given.operands[0]
    for axis, (start, count, step) in enumerate(given.facts["axes"]):
        x = _taken(b, x, axis, start, count, step)
    return [b.reshape(x, given.shape)]


def _taken(b: Builder, x: Value, axis: int, start: int, count: int, step: int) -> Value:
    """`count` elements along an axis."""
    size = sizes_of(x)[axis]
    if step < 0:
        x, start, step = b.reverse(x, axis=axis), size - 1 - start, -step
    if count == 1:
        step = 1
    reach = (count - 1) * step + 1
    x = _part(b, x, axis, start, reach)
    if step == 1:
        return x
    before, _, after = around(x, axis)
    shape = sizes_of(x)
    flat = b.pad(b.reshape(x, (before, reach, after)), [0, 0, 0, step - 1, 0, 0])
    groups = b.reshape(flat, (before, count, step, after))
    first = b.slice(groups, (0, 0, 0, 0), (before, count, 1, after))
    return b.reshape(first, (*shape[:axis], count, *shape[axis + 1 :]))


def _part(b: Builder, x: Value, axis: int, start: int, size: int) -> Value:
    shape = list(sizes_of(x))
    begin = [start if at == axis else 0 for at in range(len(shape))]
    shape[axis] = size
    return x if tuple(shape) == sizes_of(x) else b.slice(x, begin, shape)


def _copy(b: Builder, given: Given) -> list[Value]:
    return [b.identity(given.operands[0])]


def _unpack(b: Builder, given: Given) -> list[Value]:
    x, axis = given.operands[0], given.facts["axis"]
    return [b.reshape(_part(b, x, axis, at, 1), given.shape) for at in range(sizes_of(x)[axis])]


def _select(b: Builder, given: Given) -> list[Value]:
    """Select by a condition for each row."""
    condition, *values = given.operands
    rows = b.reshape(condition, (*sizes_of(condition), *(1,) * (len(given.shape) - 1)))
    return [b.select(rows, *values)]


def _fill(b: Builder, given: Given) -> list[Value]:
    value = given.operands[1]
    return [broadcast(b, b.reshape(value, (1,) * len(given.shape)), given.shape)]


def _one_hot(b: Builder, given: Given) -> list[Value]:
    indices, _, on, off = given.operands
    axis, rank = given.facts["axis"], len(given.shape)
    shape = sizes_of(indices)
    each = b.reshape(indices, (*shape[:axis], 1, *shape[axis:]))
    positions = np.arange(given.shape[axis], dtype=np.int32)
    along = positions.reshape([-1 if at == axis else 1 for at in range(rank)])
    return [b.select(b.equal(each, b.const(along)), *(ranked(b, one, rank) for one in (on, off)))]


def _diagonal(b: Builder, given: Given) -> list[Value]:
    """Make a matrix with a diagonal; the other elements are those of the matrix, or 0."""
    *matrices, diagonal = given.operands
    shape = sizes_of(diagonal)
    size = shape[-1]
    is_diagonal = np.eye(size, dtype=bool).reshape((1,) * (len(shape) - 1) + (size, size))
    others = matrices[0] if matrices else b.const(np.zeros((1,) * len(given.shape)), diagonal.dtype)
    rows = b.reshape(diagonal, (*shape, 1))
    found = b.select(b.const(is_diagonal), rows, others)
    return [found]


def _reverse_sequence(b: Builder, given: Given) -> list[Value]:
    """Positions in the operand: n - 1 - p for a position p of the first n elements, p for the others."""
    x, lengths = given.operands
    axes = given.facts["axes"]
    order = [*axes, *(axis for axis in range(len(given.shape)) if axis not in axes)]
    moved = b.transpose(x, perms=order)
    rows, size, *rest = sizes_of(moved)
    flat = b.reshape(moved, (rows, size, math.prod(rest)))
    places = b.const(np.arange(size, dtype=np.int32).reshape(1, size))
    count = b.reshape(lengths, (rows, 1))
    backwards = b.sub(b.sub(count, b.const(np.ones((1, 1), np.int32))), places)
    indices = b.select(b.greater(count, places), backwards, places)
    found = b.reshape(b.gather(flat, indices), sizes_of(moved))
    return [b.transpose(found, perms=np.argsort(order).tolist())]


def _dynamic_update_slice(b: Builder, given: Given) -> list[Value]:
    """SCATTER to places that begin where the operand says, within the tensor."""
    x, update, start = given.operands
    shape, part = sizes_of(x), sizes_of(update)
    steps = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    most = np.array([size - own for size, own in zip(shape, part, strict=True)], np.int32)
    begin = b.minimum(b.maximum(start, 0), b.const(most))
    first = b.reduce_sum(b.mul(begin, b.const(np.array(steps, np.int32))), axis=0)
    grid = np.indices(part).reshape(len(part), -1)
    offsets = (np.array(steps)[:, None] * grid).sum(0).astype(np.int32)
    places = b.add(b.reshape(first, (1, 1)), b.const(offsets[None]))
    return [b.reshape(_scattered(b, x, places, update), shape)]


def _scattered(b: Builder, x: Value, places: Value, update: Value) -> Value:
    """Replace the elements of a tensor at some places by others; return it as a column."""
    column = (1, math.prod(sizes_of(x)), 1)
    return b.scatter(
        b.reshape(x, column), places, b.reshape(update, (1, math.prod(sizes_of(update)), 1))
    )


def _sparse_to_dense(b: Builder, given: Given) -> list[Value]:
    _, _, values, default = given.operands
    places = np.array(given.facts["places"], np.int32)[None]
    whole = broadcast(b, b.reshape(default, (1,) * len(given.shape)), given.shape)
    update = broadcast(b, b.reshape(values, sizes_of(values) or (1,)), places.shape[1:])
    return [b.reshape(_scattered(b, whole, b.const(places), update), given.shape)]


def _embedding_lookup(b: Builder, given: Given) -> list[Value]:
    rows, table = given.operands
    count, *rest = sizes_of(table)
    flat = b.reshape(table, (1, count, math.prod(rest)))
    found = b.gather(flat, b.reshape(rows, (1, math.prod(sizes_of(rows)))))
    return [b.reshape(found, given.shape)]


KINDS: Final[Mapping[str, Decompose]] = {
    "STRIDED_SLICE": _strided_slice,
    "SLICE": _copy,
    "PAD": _copy,
    "UNPACK": _unpack,
    "SELECT": _select,
    "FILL": _fill,
    "ONE_HOT": _one_hot,
    "MATRIX_DIAG": _diagonal,
    "MATRIX_SET_DIAG": _diagonal,
    "REVERSE_SEQUENCE": _reverse_sequence,
    "DYNAMIC_UPDATE_SLICE": _dynamic_update_slice,
    "SPARSE_TO_DENSE": _sparse_to_dense,
    "EMBEDDING_LOOKUP": _embedding_lookup,
}
