"""The edges of each operator: for which operands, and at which results, implementations err.

Each function yields a label and a mask of the elements that are at that edge.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

import numpy as np

from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.edges.codes import (
    INFINITE,
    NAN,
    NEGATIVE_ZERO,
    SMALLEST_NORMAL,
    codes_of,
    elements_of,
    limits_of,
)
from tosa_convert.graph.dtypes import DType
from tosa_convert.reference.call import Call

Masks = Iterator[tuple[str, Array]]
#: Yields the edges of an operator besides those of any operand and result.
OwnEdges = Callable[[Call, Array], Masks]

#: FP32 holds every integer of so many bits.
_EXACT_BITS: Final = 24


def edges_of(call: Call, result: Array, positions: Collection[int]) -> Masks:
    """Iterate over the edges of an operator: a label, and a mask of elements that are there."""
    if call.spec.accuracy == "operand":
        yield from _INDICES(call)
        return
    count = len(call.operands)
    for position, array in enumerate(call.operands):
        row, kind = call.spec.operand(position, count), call.types[position].dtype
        if position not in positions or row.is_shape or row.is_constant or kind is None:
            continue
        name = "" if call.spec.elementwise < 2 else f"{row.name} "
        for label, mask in _of_operand(array, kind):
            yield name + label, mask
        if row.domain == "index":
            yield from _INDICES(call)
    if call.result.dtype is not None:
        yield from _of_result(call, result, call.result.dtype)
    if call.spec.name in OWN:
        yield from OWN[call.spec.name](call, result)


def _of_operand(array: Array, row: DType) -> Masks:
    if row.name in ("BOOL", "FP8UE8M0"):
        return
    codes = codes_of(array, row)
    low, high = limits_of(row)
    yield "0", codes == 0
    if not row.is_float:
        yield "least", codes == low
        yield "greatest", codes == high
        yield "negative", codes < 0
        if row.bits > 32:
            yield "more than 32 bits", (codes < -(1 << 31)) | (codes >= 1 << 31)
        return
    yield "-0", codes == NEGATIVE_ZERO
    size = np.where(codes < 0, -codes - 1, codes)
    yield "negative", (codes < NEGATIVE_ZERO)
    if row.name in SMALLEST_NORMAL:
        yield "subnormal", (size > 0) & (size < SMALLEST_NORMAL[row.name])
    yield "largest", size == high
    if row.name in INFINITE:
        yield "infinite", size == INFINITE[row.name]
    if row.name in NAN:
        yield "NaN", codes == NAN[row.name]


def _of_result(call: Call, result: Array, row: DType) -> Masks:
    low, high = limits_of(row)
    if not row.is_float:
        if call.spec.name in _SATURATING:
            codes = codes_of(result, row)
            if call.attributes.get("output_unsigned"):
                codes &= (1 << row.bits) - 1
                low, high = 0, (1 << row.bits) - 1
            yield "saturates below", codes == low
            yield "saturates above", codes == high
        if call.spec.multiply_accumulates:
            wide = np.abs(result.astype(np.int64))
            yield "sum of more than 24 bits", wide >= 1 << _EXACT_BITS
        return
    codes = codes_of(result, row)
    size = np.where(codes < 0, -codes - 1, codes)
    if row.name in SMALLEST_NORMAL:
        yield "result subnormal", (size > 0) & (size < SMALLEST_NORMAL[row.name])
    shapes = {array.shape for array in call.operands}
    if row.name in INFINITE and shapes == {result.shape}:
        finite = np.ones(result.shape, np.bool_)
        for array in call.operands:
            finite &= _finite(array)
        yield "overflows", (size == INFINITE[row.name]) & finite
        yield "result NaN of numbers", (codes == NAN[row.name]) & finite
    elif row.name in INFINITE:
        yield "result infinite", size == INFINITE[row.name]


def _finite(array: Array) -> Array:
    if array.dtype.kind in "biu":
        return np.ones(array.shape, np.bool_)
    plain: Array = array if array.dtype.kind == "f" else array.astype(np.float32)
    return np.asarray(np.isfinite(plain))


#: Operators whose integer results stop at the limits of their type.
_SATURATING: Final = frozenset(("CAST", "RESCALE", "NEGATE", "AVG_POOL2D", "AVG_POOL2D_ADAPTIVE"))

# -- operators -------------------------------------------------------------------------------------


def _numbers(array: Array) -> Array:
    """Return floating point in FP64, and integers in INT64."""
    return array.astype(np.int64 if array.dtype.kind in "biu" else np.float64)


def _codes(call: Call, position: int) -> Array:
    row = call.types[position].dtype
    assert row is not None
    return codes_of(call.operands[position], row)


def _indices(call: Call) -> Masks:
    for position, array in enumerate(call.operands):
        if call.spec.operand(position, len(call.operands)).domain == "index":
            rows = call.operands[0].shape[1]
            yield "first index", array == 0
            yield "last index", array == rows - 1


_INDICES: Final = _indices


def _comparison(call: Call, result: Array) -> Masks:
    left, right = _codes(call, 0), _codes(call, 1)
    row = call.types[0].dtype
    assert row is not None
    yield "equal", left == right
    yield "one step apart", np.abs(left - right) == 1
    if row.is_float:
        zeros = (left == 0) & (right == NEGATIVE_ZERO) | (right == 0) & (left == NEGATIVE_ZERO)
        yield "0 and -0", zeros
    elif row.bits > 32:
        yield "differ above 32 bits alone", (left != right) & ((left ^ right) % (1 << 32) == 0)


def _sum(call: Call, result: Array) -> Masks:
    found = _numbers(result)
    if call.is_integer:
        yield "result of 32 bits", (found >= 1 << 30) | (found < -(1 << 30))
        if result.dtype.itemsize == 8:
            yield "result of more than 32 bits", (found >= 1 << 31) | (found < -(1 << 31))
    else:
        left, right = _numbers(call.operands[0]), _numbers(call.operands[1])
        yield "cancels", (found == 0) & (left != 0) & np.isfinite(left) & np.isfinite(right)


def _product(call: Call, result: Array) -> Masks:
    if not call.is_integer:
        return
    left, right = _numbers(call.operands[0]), _numbers(call.operands[1])
    product = left * right
    shift = call.number("shift")
    wide = (product >= 1 << 31) | (product < -(1 << 31))
    if call.operands[0].dtype.itemsize >= 4:
        yield "product of more than 32 bits", wide
    if shift:
        tie = product & ((1 << shift) - 1) == 1 << (shift - 1)
        yield "tie", tie & (product > 0)
        yield "negative tie", tie & (product < 0)


def _quotient(call: Call, result: Array) -> Masks:
    left, right = _numbers(call.operands[0]), _numbers(call.operands[1])
    found = _numbers(result)
    yield "negative divisor", right < 0
    yield "negative with a remainder", (found * right != left) & ((left < 0) != (right < 0))
    yield "both negative with a remainder", (found * right != left) & (left < 0) & (right < 0)
    yield "quotient 0", (found == 0) & (left != 0)


def _clamp(call: Call, result: Array) -> Masks:
    codes = _codes(call, 0)
    row = call.types[0].dtype
    assert row is not None
    for name, label in (("min_val", "minimum"), ("max_val", "maximum")):
        bound = codes_of(np.array([call.attributes[name]]).astype(row.numpy), row)[0]
        yield f"at the {label}", codes == bound
        yield f"one step from the {label}", np.abs(codes - bound) == 1
        yield f"beyond the {label}", codes < bound if label == "minimum" else codes > bound


def _shift(call: Call, result: Array) -> Masks:
    value, amount = _numbers(call.operands[0]), _numbers(call.operands[1])
    most = 8 * call.operands[0].dtype.itemsize - 1
    yield "shift 0", amount == 0
    yield "greatest shift", amount == most
    yield "negative, shifted", (value < 0) & (amount > 0)
    if call.spec.name != "LOGICAL_LEFT_SHIFT":
        lost = (amount > 0) & (value >> np.maximum(amount - 1, 0) & 1 == 1)
        yield "rounded bit", lost & (value > 0)
        yield "rounded bit of a negative", lost & (value < 0)


def _step(call: Call, result: Array) -> Masks:
    value = _numbers(call.operands[0])
    whole = value == np.floor(value)
    yield "whole", whole & np.isfinite(value) & (value != 0)
    yield "negative fraction", ~whole & (value < -1)
    yield "between -1 and 0", ~whole & (value > -1) & (value < 0)
    yield "between 0 and 1", ~whole & (value > 0) & (value < 1)


def _cast(call: Call, result: Array) -> Masks:
    value, found = _numbers(call.operands[0]), _numbers(result)
    source, target = call.types[0].dtype, call.result.dtype
    assert source is not None
    assert target is not None
    if target.name == "BOOL" or source.name == "BOOL":
        return
    if not source.is_float and not target.is_float:
        yield "loses bits", value != found
        return
    if source.is_float and not target.is_float:
        fraction = value - np.floor(value)
        low, high = limits_of(target)
        inside = (value > low) & (value < high)
        yield "tie to even below", (fraction == 0.5) & (np.floor(value) % 2 == 0) & inside
        yield "tie to even above", (fraction == 0.5) & (np.floor(value) % 2 == 1) & inside
        yield "negative fraction", (fraction != 0) & (value < 0) & inside
        yield "beyond the least", value < low
        yield "beyond the greatest", value > high
        yield "a little beyond the least", (value <= low - 1) & (value > 3 * low)
        yield "a little beyond the greatest", (value >= high + 1) & (value < 3 * high)
        return
    if not source.is_float and source.bits <= 8:
        return
    finite = np.isfinite(found) & np.isfinite(value)
    yield "rounded", finite & (found != value)
    codes = codes_of(result, target)
    # A tie is as far from the neighbour on the other side.
    side = np.where(found < value, 1, -1)
    other = _numbers(elements_of(codes + side, target))
    yield "tie", finite & (found != value) & (other - value == value - found)


def rescale_terms(call: Call) -> tuple[Array, Array, Array]:
    """Return the value without zero point, the multiplier and the shift of each element of RESCALE."""
    value = _unsigned(call.operands[0], call.attributes["input_unsigned"])
    value = value - int(_unsigned(call.raw("input_zp"), call.attributes["input_unsigned"]).flat[0])
    multiplier = call.raw("multiplier").astype(np.int64).reshape(-1)
    shift = call.raw("shift").astype(np.int64).reshape(-1)
    if not call.attributes["per_channel"]:
        multiplier, shift = multiplier[:1], shift[:1]
    return value, multiplier, shift


def _unsigned(array: Array, is_unsigned: Any) -> Array:
    if is_unsigned:
        array = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
    return array.astype(np.int64)


def _rescale(call: Call, result: Array) -> Masks:
    value, multiplier, shift = rescale_terms(call)
    product = value * multiplier
    half = np.int64(1) << (shift - 1)
    rest = product & (2 * half - 1)
    yield "tie", (rest == half) & (value > 0)
    yield "negative tie", (rest == half) & (value < 0)
    yield "rounded up", (rest > half) & (value > 0)
    yield "negative fraction", (rest != 0) & (value < 0)
    if call.attributes["scale32"] and (shift > 31).any():
        more = np.where(shift > 31, np.int64(1) << 30, 0)
        once = (product + half) >> shift
        twice = (product + half + np.where(value < 0, -more, more)) >> shift
        yield "rounded twice", (once != twice) & (value > 0)
        yield "negative, rounded twice", (once != twice) & (value < 0)


def _table(call: Call, result: Array) -> Masks:
    value = _numbers(call.operands[0])
    low, high = (-128, 127) if call.operands[0].dtype.itemsize == 1 else (-(1 << 15), (1 << 15) - 1)
    yield "first entry", value == low
    yield "last entry", value == high
    if call.operands[0].dtype.itemsize == 2:
        yield "interpolated", value & 0x7F != 0
        yield "interpolated below 0", (value & 0x7F != 0) & (value < 0)
        yield "before the last entry", value >> 7 == 255


def _saturated(call: Call, result: Array) -> Masks:
    value, found = _numbers(call.operands[0]), _numbers(result)
    least = 0.0 if call.spec.name == "SIGMOID" else -1.0
    yield "saturates above", (found == 1) & np.isfinite(value)
    yield "saturates below", (found == least) & np.isfinite(value)
    row = call.types[0].dtype
    assert row is not None
    # From here on an exponential in the formula of the function overflows.
    most = np.log(_numbers(elements_of(np.array([limits_of(row)[1]]), row))[0])
    most = most / 2 if call.spec.name == "TANH" else most
    yield "far above", (value > most) & np.isfinite(value)
    yield "far below", (value < -most) & np.isfinite(value)


def _one(call: Call, result: Array) -> Masks:
    value = _numbers(call.operands[0])
    yield "1", value == 1
    yield "near 1", (np.abs(value - 1) < 0.01) & (value != 1)


def _turns(call: Call, result: Array) -> Masks:
    value = np.abs(_numbers(call.operands[0]))
    yield "beyond a turn", (value > 7) & (value < 100)
    yield "beyond 100", (value > 100) & np.isfinite(value)


def _power(call: Call, result: Array) -> Masks:
    base, exponent = (_numbers(array) for array in call.operands[:2])
    yield "base 1", base == 1
    yield "exponent 0", exponent == 0
    yield "negative exponent", exponent < 0
    yield "exponent with a fraction", exponent != np.floor(exponent)


def _choice(call: Call, result: Array) -> Masks:
    yield "true", call.operands[0] & np.ones(result.shape, np.bool_)
    yield "false", ~call.operands[0] & np.ones(result.shape, np.bool_)


def _truths(call: Call, result: Array) -> Masks:
    left, right = call.operands[:2]
    yield "both", left & right
    yield "the first alone", left & ~right
    yield "the second alone", right & ~left
    yield "none", ~left & ~right


def _extremes(call: Call, result: Array) -> Masks:
    """Iterate over rows along an axis, of which the greatest or least element is searched."""
    row = call.types[0].dtype
    assert row is not None
    codes, axis = _codes(call, 0), call.attributes["axis"]
    if codes.shape[axis] < 2:
        return
    if call.spec.name == "REDUCE_MIN":
        codes = -codes - 1 if row.is_float else -codes
    most = codes.max(axis=axis, keepdims=True)
    yield "equal extremes", (codes == most).sum(axis=axis) > 1
    if row.is_float:
        both = (codes == 0).any(axis=axis) & (codes == NEGATIVE_ZERO).any(axis=axis)
        yield "extremes 0 and -0", both & (np.squeeze(most, axis) <= 0)
        yield "infinite alone", (codes <= -INFINITE.get(row.name, 1 << 40) - 1).all(axis=axis)
    yield "all on one side", np.squeeze(most, axis) < NEGATIVE_ZERO
    others = np.take(codes, range(codes.shape[axis] - 1), axis).max(axis=axis)
    yield "extreme at the end", np.take(codes, -1, axis) > others


def _all(call: Call, result: Array) -> Masks:
    count = call.operands[0].sum(axis=call.attributes["axis"])
    size = call.operands[0].shape[call.attributes["axis"]]
    yield "all", count == size
    yield "none", count == 0
    yield "all but one", (count == size - 1) & (size > 1)
    yield "only one", (count == 1) & (size > 1)


OWN: Final[dict[str, OwnEdges]] = {
    "ADD": _sum,
    "ARGMAX": _extremes,
    "ARITHMETIC_RIGHT_SHIFT": _shift,
    "CAST": _cast,
    "CEIL": _step,
    "CLAMP": _clamp,
    "COS": _turns,
    "EQUAL": _comparison,
    "ERF": _saturated,
    "FLOOR": _step,
    "GREATER": _comparison,
    "GREATER_EQUAL": _comparison,
    "INTDIV": _quotient,
    "LOG": _one,
    "LOGICAL_AND": _truths,
    "LOGICAL_LEFT_SHIFT": _shift,
    "LOGICAL_OR": _truths,
    "LOGICAL_RIGHT_SHIFT": _shift,
    "LOGICAL_XOR": _truths,
    "MAXIMUM": _comparison,
    "MINIMUM": _comparison,
    "MUL": _product,
    "POW": _power,
    "REDUCE_ALL": _all,
    "REDUCE_ANY": _all,
    "REDUCE_MAX": _extremes,
    "REDUCE_MIN": _extremes,
    "RESCALE": _rescale,
    "SELECT": _choice,
    "SIGMOID": _saturated,
    "SIN": _turns,
    "SUB": _sum,
    "TABLE": _table,
    "TANH": _saturated,
}
