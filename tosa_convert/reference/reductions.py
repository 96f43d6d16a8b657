"""Operators that combine the elements along an axis."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tosa_convert.reference.call import (
    Array,
    Call,
    Operation,
    describe,
    integer_limits,
    refuse_undefined,
)
from tosa_convert.reference.elementwise import ignores_nan
from tosa_convert.reference.parts import PART, reduce_in_parts, steps
from tosa_convert.reference.products import largest_of

#: Elements that are multiplied at a time.
_MULTIPLIED: Final = 1 << 17
#: Columns of which each is copied for `argmax`.
_FEW_COLUMNS: Final = 16


def _position(find: Any, reduce: Any, text: str) -> Operation:
    """Find the first extreme element; find, reduce: numpy's functions of index and value."""

    def compute(call: Call) -> Array:
        ignores = ignores_nan(call) and not call.is_integer
        beyond = np.inf if call.spec.traits.extreme == "least" else -np.inf

        def position(part: Array, axis: int) -> Array:
            value = part if part.dtype.kind == "i" else call.widened(part)
            if ignores:
                value = np.where(np.isnan(value), beyond, value)
            if axis == value.ndim - 1:
                return np.asarray(find(value, axis=axis))
            extreme = reduce(value, axis=axis, keepdims=True)
            if extreme.dtype.kind == "f" and np.isnan(extreme).any():
                return np.asarray(find(value, axis=axis))
            return _first_place(value == extreme, axis)

        value, axis = call.raw("input"), call.attributes["axis"]
        found = reduce_in_parts(value, axis, position, np.dtype(np.intp), is_turned=False)
        return found.squeeze(axis)

    return describe(compute, text)


def _first_place(is_there: Array, axis: int) -> Array:
    """Return the first index along an axis at which an element is true."""
    count = is_there.shape[axis]
    # numpy copies for `argmax` across an axis, but for a few long columns.
    if is_there.size < _FEW_COLUMNS * count:
        return np.asarray(np.argmax(is_there, axis=axis))
    # The first one has the most elements from it on.
    left = np.arange(count, 0, -1, dtype=np.int32).reshape(-1, *[1] * (is_there.ndim - 1 - axis))
    found: Array = count - np.max(is_there * left, axis=axis)
    return found


def _reduce(function: Any, text: str, *, selects: bool = False) -> Operation:
    """Return an operation that keeps the axis, of one element; selects: integers stay."""

    def compute(call: Call) -> Array:
        value = call.raw("input")
        is_native = selects and value.dtype.kind == "i"
        computed = (value if is_native else call.widened(value[:0])).dtype

        def reduce(part: Array, axis: int) -> Array:
            if part.dtype != computed:
                part = call.widened(part).astype(computed, copy=False)
            result: Array = function.reduce(part, axis=axis)
            return result

        return reduce_in_parts(value, call.attributes["axis"], reduce, computed)

    return describe(compute, text)


def _reduce_comparing(propagating: Any, ignoring: Any, text: str) -> Operation:
    reductions = {
        ignores: _reduce(function, text, selects=True)
        for ignores, function in ((False, propagating), (True, ignoring))
    }
    return describe(lambda call: reductions[ignores_nan(call)](call), text)


def add(call: Call) -> Array:
    """Return the sum of the elements along the axis; floating point in numpy's order, in FP32.

    Integers are added in their order, and all sums on the way have to fit.
    """
    value, axis = call.raw("input"), call.attributes["axis"]
    if call.is_integer:
        low, high = integer_limits(call.result.dtype)
        if value.shape[axis] * largest_of(value) > high:

            def check(part: Array, along: int) -> Array:
                sums, rounded = np.zeros(1, np.int64), np.zeros(1, np.float64)
                part = np.moveaxis(part, along, 0)
                for some in steps(len(part), max(1, PART // max(1, part[:1].size))):
                    sums = np.cumsum(part[some], axis=0, dtype=np.int64) + sums[-1]
                    # Sums of INT64 that wrapped around differ by 2^64 from those in FP64.
                    rounded = np.cumsum(part[some], axis=0, dtype=np.float64) + rounded[-1]
                    wrong = (sums < low) | (sums > high) | (np.abs(rounded - sums) > 2.0**62)
                    refuse_undefined(call, wrong, f"it does not fit {call.result.dtype}")
                return np.asarray(sums[-1])

            reduce_in_parts(value, axis, check, np.dtype(np.int64), is_turned=False)
    return np.asarray(_ADD(call))


_ADD: Final = _reduce(np.add, "")


def multiply(call: Call) -> Array:
    """Return the product of the elements along the axis, computed in FP64 and rounded once."""

    def reduce(part: Array, axis: int) -> Array:
        wide = call.widened(part).astype(np.float64, copy=False)
        is_last = axis == wide.ndim - 1
        return _product_of_pairs(wide) if is_last else np.asarray(np.prod(wide, axis=axis))

    value, axis = call.raw("input"), call.attributes["axis"]
    kind = np.dtype(np.float64)
    return reduce_in_parts(value, axis, reduce, kind, is_turned=False, size=_MULTIPLIED)


def _product_of_pairs(table: Array) -> Array:
    """Return the product of each row, of pairs of pairs: numpy multiplies many at once."""
    rows, count = table.shape
    while count > 1:
        if count % 2:
            pairs = table[:, :-1:2] * table[:, 1::2]
            pairs[:, 0] *= table[:, -1]
        else:
            flat = table.reshape(-1)
            pairs = flat[::2] * flat[1::2]
        count //= 2
        table = pairs.reshape(rows, count)
    return table[:, 0]


OPERATIONS: Final[dict[str, Operation]] = {
    "ARGMAX": _position(
        np.argmax,
        np.max,
        "Return the index of the greatest element, the first of several. NaN is greater than every "
        "number; if nan_mode is IGNORE it is passed over, and the index is 0 where there is nothing "
        "else.",
    ),
    "ARGMIN": _position(
        np.argmin,
        np.min,
        "Return the index of the least element, the first of several. NaN is less than every number; "
        "if nan_mode is IGNORE it is passed over, and the index is 0 where there is nothing else.",
    ),
    "REDUCE_ALL": _reduce(np.logical_and, "Return whether all elements along the axis are true."),
    "REDUCE_ANY": _reduce(np.logical_or, "Return whether any element along the axis is true."),
    "REDUCE_MAX": _reduce_comparing(
        np.maximum,
        np.fmax,
        "Return the greatest element along the axis; NaN if one is NaN, unless nan_mode is IGNORE.",
    ),
    "REDUCE_MIN": _reduce_comparing(
        np.minimum,
        np.fmin,
        "Return the least element along the axis; NaN if one is NaN, unless nan_mode is IGNORE.",
    ),
    "REDUCE_PRODUCT": multiply,
    "REDUCE_SUM": add,
}
