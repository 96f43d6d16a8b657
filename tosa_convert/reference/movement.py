"""Operators that move elements without looking at them, and those on shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tosa_convert.errors import fail
from tosa_convert.reference.call import Array, Call, Operation, describe, refuse_undefined


def concatenate(call: Call) -> Array:
    """Return the operands one after another along the axis."""
    return np.concatenate(call.operands, call.attributes["axis"])


def pad(call: Call) -> Array:
    """Return input1 inside a border of pad_const, whose widths are those before and after each axis."""
    value, widths = call.raw("input1"), call.sizes("padding")
    before, after = widths[::2], widths[1::2]
    sizes = [a + n + b for a, n, b in zip(before, value.shape, after, strict=True)]
    result = np.empty(sizes, value.dtype)
    result[...] = call.raw("pad_const").reshape(-1)[0]
    result[tuple(slice(a, a + n) for a, n in zip(before, value.shape, strict=True))] = value
    return result


def reshape(call: Call) -> Array:
    """Return the same elements in row-major order, in the shape of the result."""
    return call.raw("input1").reshape(call.result.shape)


def reverse(call: Call) -> Array:
    """Return the elements in the opposite order along the axis."""
    return np.flip(call.raw("input1"), call.attributes["axis"])


def take_slice(call: Call) -> Array:
    """Return the elements from `start` on, as many as `size` says along each axis."""
    bounds = zip(call.sizes("start"), call.sizes("size"), strict=True)
    whole = call.raw("input1")
    part: Array = whole[tuple(slice(start, start + size) for start, size in bounds)]
    # A small view would keep all of the memory.
    return part.copy() if 2 * part.size <= whole.size else part


def tile(call: Call) -> Array:
    """Return input1 repeated along each axis."""
    return np.tile(call.raw("input1"), call.sizes("multiples"))


def transpose(call: Call) -> Array:
    """Return input1 with its axes in the order of `perms`."""
    return call.raw("input1").transpose(call.attributes["perms"])


def gather(call: Call) -> Array:
    """Return the rows of each batch of `values` that `indices` names, or `row_count` rows from each."""
    if call.has("row_count"):
        return gather_rows(call)
    values, indices = call.raw("values"), call.raw("indices")
    _refuse_outside(call, indices, values.shape[1])
    gathered: Array = values[np.arange(len(values))[:, None], indices]
    return gathered


def scatter(call: Call) -> Array:
    """Return `values_in` with the rows of `input` at the places that `indices` names."""
    result, indices = call.raw("values_in").copy(), call.raw("indices")
    _refuse_outside(call, indices, result.shape[1])
    ordered = np.sort(indices, axis=1)
    refuse_undefined(call, ordered[:, 1:] == ordered[:, :-1], "two rows for one index")
    result[np.arange(len(result))[:, None], indices] = call.raw("input")
    return result


def gather_rows(call: Call) -> Array:
    """Return `row_count` rows of each batch of `values` from each index on."""
    return _rows_of(call, call.raw("values"))


def gather_block_scaled_rows(call: Call) -> tuple[Array, ...]:
    """Return the rows of block-scaled data, and of its scales if it has them."""
    names = [name for name in ("values", "values_scale") if call.has(name)]
    return tuple(_rows_of(call, call.raw(name)) for name in names)


def _rows_of(call: Call, values: Array) -> Array:
    count = call.number("row_count")
    rows = call.raw("indices").astype(np.int64)[..., None] + np.arange(count)
    _refuse_outside(call, rows, values.shape[1])
    gathered: Array = values[np.arange(len(values))[:, None], rows.reshape(len(rows), -1)]
    return gathered


def _refuse_outside(call: Call, indices: Array, count: int) -> None:
    wrong = (indices < 0) | (indices >= count)
    if wrong.any():
        raise fail(
            "input-mismatch",
            call.spec.name,
            f"the index {indices[wrong][0]} is outside of the {count} rows of values",
            f"indices are from 0 to {count - 1}",
        )


def get_size(call: Call) -> Array:
    """Return the size of the axis, as a shape of one size."""
    return np.array([call.raw("input1").shape[call.attributes["axis"]]], np.int64)


def slice_shape(call: Call) -> Array:
    """Return the sizes of the input from `start` on, as many as `size` says."""
    start = call.number("start")
    return call.raw("input")[start : start + call.number("size")]


def require_equal_shapes(call: Call) -> tuple[Array, ...]:
    """Refuse shapes that differ; with allow_broadcast a size of 1 equals every other."""
    left, right = call.raw("input1"), call.raw("input2")
    equal = left == right
    if call.attributes["allow_broadcast"]:
        equal = equal | (left == 1) | (right == 1)
    if not np.all(equal):
        raise fail(
            "input-mismatch",
            call.spec.name,
            f"the shapes {left.tolist()} and {right.tolist()} differ",
            "give inputs for which they are equal",
        )
    return ()


def _on_sizes(function: Callable[..., Any], text: str) -> Operation:
    return describe(lambda call: function(*call.operands), text)


def _quotients(left: Array, right: Array) -> Array:
    """Return the quotients, rounded towards zero."""
    return np.asarray((left - np.fmod(left, right)) // right)


def _floor_log2(sizes: Array) -> Array:
    return np.array([int(size).bit_length() - 1 for size in sizes.tolist()], np.int64)


def _ceil_log2(sizes: Array) -> Array:
    return np.array([max(int(size) - 1, 0).bit_length() for size in sizes.tolist()], np.int64)


OPERATIONS: Final[dict[str, Operation]] = {
    "ADD_SHAPE": _on_sizes(np.add, "Return the sums of the sizes."),
    "ASSERT_EQUAL_SHAPE": require_equal_shapes,
    "CONCAT": concatenate,
    "CONCAT_SHAPE": _on_sizes(
        lambda *shapes: np.concatenate(shapes),
        "Return the sizes of the operands one after another.",
    ),
    "DIM": get_size,
    "DIV_CEIL_SHAPE": _on_sizes(
        lambda left, right: _quotients(left, right) + (np.fmod(left, right) != 0),
        "Return the quotients, rounded up. TOSA defines none of negative sizes.",
    ),
    "DIV_FLOOR_SHAPE": _on_sizes(
        _quotients, "Return the quotients, rounded down. TOSA defines none of negative sizes."
    ),
    "EXP2_SHAPE": _on_sizes(
        lambda sizes: np.int64(1) << sizes, "Return 2 to the power of each size."
    ),
    "GATHER": gather,
    "LOG2_CEIL_SHAPE": _on_sizes(_ceil_log2, "Return the logarithms to the base 2, rounded up."),
    "LOG2_FLOOR_SHAPE": _on_sizes(
        _floor_log2, "Return the logarithms to the base 2, rounded down."
    ),
    "MAX_SHAPE": _on_sizes(np.maximum, "Return the greater sizes."),
    "MIN_SHAPE": _on_sizes(np.minimum, "Return the lesser sizes."),
    "MOD_SHAPE": _on_sizes(np.fmod, "Return the remainders of input1 / input2."),
    "MUL_SHAPE": _on_sizes(np.multiply, "Return the products of the sizes."),
    "PAD": pad,
    "RESHAPE": reshape,
    "REVERSE": reverse,
    "ROW_GATHER": gather_rows,
    "ROW_GATHER_BLOCK_SCALED": gather_block_scaled_rows,
    "SCATTER": scatter,
    "SLICE": take_slice,
    "SLICE_SHAPE": slice_shape,
    "SUB_SHAPE": _on_sizes(np.subtract, "Return the differences input1 - input2."),
    "TILE": tile,
    "TRANSPOSE": transpose,
}
