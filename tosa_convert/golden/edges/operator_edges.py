"""Find the edges of each operator: for which operands, and at which results, implementations err."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from tosa_convert.golden.arrays import Array
from tosa_convert.golden.edges.values import (
    ALL,
    INFINITE,
    NAN,
    NEGATIVE_ZERO,
    SMALLEST_NORMAL,
    Elements,
    codes_of,
    edge_codes,
    elements_of,
    limits_of,
    type_of,
)
from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.opset import table_of
from tosa_convert.reference.call import Call

Masks = Iterator[tuple[str, Array]]
#: Yields the edges of an operator besides those of any operand and result.
OwnEdges = Callable[[Call, Array], Masks]

#: FP32 holds every integer of so many bits.
_EXACT_BITS: Final = 24


def edges_of(
    call: Call,
    result: Array,
    positions: Collection[int],
    look: Callable[[int, Array], Array] = lambda _, array: array,
) -> Masks:
    """Iterate over the edges of an operator: a label, and a mask of elements that are there.

    look: returns the elements of an operand, or -1 for the result, that are looked at alone.
    """
    if call.spec.accuracy == "operand":
        yield from _indices(call)
        return
    count = len(call.operands)
    for position, array in enumerate(call.operands):
        row, kind = call.spec.operand(position, count), call.types[position].dtype
        if position not in positions or row.is_shape or row.is_constant or kind is None:
            continue
        name = "" if call.spec.elementwise < 2 else f"{row.name} "
        for label, mask in _of_operand(look(position, array), kind):
            yield name + label, mask
        if row.domain == "index":
            yield from _indices(call)
    if call.result.dtype is not None:
        yield from _of_result(call, look(-1, result), call.result.dtype)
    if call.spec.name in _OWN:
        yield from _OWN[call.spec.name](call, result)


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
        if call.spec.traits.overflow == "saturates":
            codes = codes_of(result, row)
            if call.attributes.get("output_unsigned"):
                codes &= (1 << row.bits) - 1
                low, high = 0, (1 << row.bits) - 1
            yield "saturates below", codes == low
            yield "saturates above", codes == high
        if call.spec.multiply_accumulates:
            yield "sum of more than 24 bits", np.abs(result.astype(np.int64)) >= 1 << _EXACT_BITS
        return
    codes = codes_of(result, row)
    size = np.where(codes < 0, -codes - 1, codes)
    if row.name in SMALLEST_NORMAL:
        yield "result subnormal", (size > 0) & (size < SMALLEST_NORMAL[row.name])
    if row.name in INFINITE and {array.shape for array in call.operands} == {result.shape}:
        plain = (a if a.dtype.kind in "biuf" else a.astype(np.float32) for a in call.operands)
        finite = np.logical_and.reduce([np.isfinite(array) for array in plain])
        yield "overflows", (size == INFINITE[row.name]) & finite
        yield "result NaN of numbers", (codes == NAN[row.name]) & finite
    elif row.name in INFINITE:
        yield "result infinite", size == INFINITE[row.name]


# -- operators -------------------------------------------------------------------------------------


def _numbers(array: Array) -> Array:
    """Return floating point in FP64, and integers in INT64."""
    return array.astype(np.int64 if array.dtype.kind in "biu" else np.float64)


def _codes(call: Call, position: int) -> Array:
    return codes_of(call.operands[position], type_of(call, position))


def _indices(call: Call) -> Masks:
    for position, array in enumerate(call.operands):
        if call.spec.operand(position, len(call.operands)).domain == "index":
            rows = call.operands[0].shape[1]
            yield "first index", array == 0
            yield "last index", array == rows - 1


def _comparison(call: Call, result: Array) -> Masks:
    left, right, row = _codes(call, 0), _codes(call, 1), type_of(call)
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
    codes, row = _codes(call, 0), type_of(call)
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
    source, target = type_of(call), call.result.dtype
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
    yield "saturates above", (found == 1) & np.isfinite(value)
    yield "saturates below", (found == call.spec.range[0]) & np.isfinite(value)
    row = type_of(call)
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
    row, codes, axis = type_of(call), _codes(call, 0), call.attributes["axis"]
    if codes.shape[axis] < 2:
        return
    if call.spec.traits.extreme == "least":
        codes = -codes - 1 if row.is_float else -codes
    most = codes.max(axis=axis, keepdims=True)
    yield "equal extremes", (codes == most).sum(axis=axis) > 1
    yield "extremes one step apart", (codes == most - 1).any(axis=axis)
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


_OWN: Final[dict[str, OwnEdges]] = table_of(
    "edges",
    {
        "cast": _cast,
        "choice": _choice,
        "clamp": _clamp,
        "comparison": _comparison,
        "count": _all,
        "extremes": _extremes,
        "near_one": _one,
        "power": _power,
        "product": _product,
        "quotient": _quotient,
        "rescale": _rescale,
        "saturation": _saturated,
        "shift": _shift,
        "step": _step,
        "sum": _sum,
        "table": _table,
        "truths": _truths,
        "turns": _turns,
    },
)

# -- operands that bring an operator to an edge, found by trying values at the operator alone ------

#: Elements of a result at which values are tried.
_PLACES: Final = 4
#: Random values that are tried, besides those at the edges of the type.
_RANDOM: Final = 64


class Demand(NamedTuple):
    """Hold elements of a tensor, and the codes from `low` to `high` that each is to have."""

    ids: Array
    low: Array
    high: Array

    @classmethod
    def of(cls, ids: Array, codes: Array) -> Demand:
        """Return a demand for exactly these codes."""
        return cls(np.asarray(ids, np.int64), np.asarray(codes), np.asarray(codes))

    def at(self, chosen: Array) -> Demand:
        return Demand(self.ids[chosen], self.low[chosen], self.high[chosen])

    def joined(self, other: Demand) -> Demand:
        """Return both; of an element in both, what this one says."""
        pairs = zip(self, other.at(~np.isin(other.ids, self.ids)), strict=True)
        return Demand(*(np.concatenate(pair) for pair in pairs))


class EdgeTarget(NamedTuple):
    """Hold an edge that an operator has, and operand `position` as it would be there.

    label: of the edge, as `edges_of` names it. is_whole: whether all elements are needed; else each one
        is enough.
    """

    label: str
    position: int
    demand: Demand
    is_whole: bool = False


def element_targets(
    elements: Elements, position: int, generator: np.random.Generator, met: Collection[str] = ()
) -> Iterator[EdgeTarget]:
    """Iterate over the edges that an operator on elements has, by values of one operand.

    Each target has one element for each place that was tried and at which a value meets the edge. met:
    edges that are left out.
    """
    call, size = elements.call, elements.size
    row = call.types[position].dtype
    if row is None or not size or row.name == "FP8UE8M0":
        return
    places = generator.choice(size, min(_PLACES, size), replace=False)
    table = _tried(elements, position, places, generator)
    ids = np.repeat(places, table.shape[1])
    codes = table.reshape(-1)
    values = elements_of(codes, row)
    kept, result = elements.compute_defined(ids, {position: values})
    if not len(kept):
        return
    part = elements.part(ids[kept], {position: values[kept]})
    own = elements.operand_ids(position, ids[kept])
    current = codes_of(elements.values(position, ids[kept]), row).astype(np.float64)
    distance = np.abs(codes[kept] - current)
    for label, mask in edges_of(part, result, range(elements.count)):
        if label in met:
            continue
        found = np.flatnonzero(np.broadcast_to(mask, kept.shape))
        if len(found):
            found = generator.permutation(found)
            if generator.integers(2):
                # What is near is more likely to be in reach of the operators before.
                found = found[np.argsort(distance[found], kind="stable")]
            _, first = np.unique(own[found], return_index=True)
            chosen = found[first]
            yield EdgeTarget(label, position, Demand.of(own[chosen], codes[kept[chosen]]))


def _tried(
    elements: Elements, position: int, places: Array, generator: np.random.Generator
) -> Array:
    """Return the codes to try at each place: [places, codes]."""
    call = elements.call
    row = type_of(call, position)
    low, high = limits_of(row)
    every = range(low, high + 1) if row.bits <= 8 else edge_codes(row, ALL)
    codes = np.concatenate(
        [np.array(every, np.int64), generator.integers(low, high, _RANDOM, endpoint=True)]
    )
    own = [np.broadcast_to(codes, (len(places), len(codes)))]
    for other in range(elements.count):
        if other != position and call.types[other].dtype is row:
            near = codes_of(elements.values(other, places), row)[:, None]
            own.append(np.clip(near, low, high - 1) + np.array([-1, 0, 1])[None, :])
            flipped = -near - 1 if row.is_float else np.clip(-near, low, high)
            own.append(np.clip(flipped, low, high))
            if row.bits > 32 and not row.is_float:
                step = np.int64(1) << 32
                own.append(np.where(near > 0, near - step, near + step))
    if call.spec.traits.edges in _TRIED:
        more = _TRIED[call.spec.traits.edges](elements, places, row, generator)
        own.append(np.clip(more, low, high))
    return np.concatenate(own, axis=1)


# -- values of single operators ----------------------------------------------------------------------


def _of_rescale(
    elements: Elements, places: Array, row: DType, generator: np.random.Generator
) -> Array:
    """Return values whose scaled ones are beside a tie, and at the limits of the result."""
    call = elements.call
    _, multiplier, shift = rescale_terms(call)
    if call.attributes["per_channel"]:
        channel = places % call.result.shape[-1]
        multiplier, shift = multiplier[channel], shift[channel]
    zero = int(call.raw("input_zp").astype(np.int64).flat[0])
    assert call.result.dtype is not None
    low, high = limits_of(call.result.dtype)
    targets = np.array([low, low + 1, -2, -1, 0, 1, 2, high - 1, high], np.float64)
    targets = np.concatenate([targets, generator.integers(low, high, 40).astype(np.float64)]) + 0.5
    scale = multiplier.astype(np.float64) / np.exp2(shift.astype(np.float64))
    with np.errstate(all="ignore"):
        near = np.nan_to_num(targets[None, :] / np.maximum(scale, 1e-30).reshape(-1, 1))
    near = np.broadcast_to(near, (len(places), near.shape[1]))
    bounds = limits_of(row)
    whole = np.floor(np.clip(near, *bounds)).astype(np.int64)
    # Exact ties: odd multiples of what a multiplier without its factors of two leaves.
    number = int(multiplier[0])
    twos = (number & -number).bit_length() - 1 if number else 0
    step = 1 << max(int(shift.min()) - 1 - twos, 0)
    odd = (2 * generator.integers(-8, 8, 16) + 1) * min(step, bounds[1])
    ties = np.broadcast_to(odd, (len(places), len(odd)))
    return np.concatenate([whole + zero, whole + 1 + zero, ties + zero], axis=1)


def _of_clamp(
    elements: Elements, places: Array, row: DType, generator: np.random.Generator
) -> Array:
    bounds = [elements.call.attributes[name] for name in ("min_val", "max_val")]
    codes = codes_of(np.array(bounds).astype(row.numpy), row)
    near = (codes[:, None] + np.array([-2, -1, 0, 1, 2])[None, :]).reshape(-1)
    return np.broadcast_to(near, (len(places), len(near)))


def _of_cast(
    elements: Elements, places: Array, row: DType, generator: np.random.Generator
) -> Array:
    """Return values in the middle between two of the result's type, and beyond its limits."""
    target = elements.call.result.dtype
    assert target is not None
    low, high = limits_of(target)
    with np.errstate(all="ignore"):
        if target.is_float:
            some = generator.integers(low, high, 40)
            pair = [elements_of(some + n, target).astype(np.float64) for n in (0, 1)]
            middles = (pair[0] + pair[1]) / 2
            most = elements_of(np.array([low, high]), target).astype(np.float64)
            middles = np.concatenate([middles, most * 1.01, most * 0.999, most * 4])
        else:
            middles = generator.integers(max(low, -(1 << 20)), min(high, 1 << 20), 40) + 0.5
            middles = np.concatenate([middles, np.array([low - 1.0, high + 1.0, low, high])])
        if row.is_float:
            given = middles.astype(row.numpy)
        else:
            given = np.clip(np.nan_to_num(middles), *limits_of(row)).astype(np.int64)
    codes = codes_of(given, row)
    codes = codes[codes != NAN.get(row.name, 1 << 62)]
    return np.broadcast_to(codes, (len(places), len(codes)))


def _of_product(
    elements: Elements, places: Array, row: DType, generator: np.random.Generator
) -> Array:
    """Return random integers, whose products with a shift may be ties."""
    low, high = (-4096, 4096) if not row.is_float else limits_of(row)
    return generator.integers(low, high, (len(places), 256))


_TRIED: Final[dict[str, Callable[[Elements, Array, DType, np.random.Generator], Array]]] = {
    "cast": _of_cast,
    "clamp": _of_clamp,
    "product": _of_product,
    "rescale": _of_rescale,
}

# -- rows of which the greatest or least element is searched -----------------------------------------

#: Edge of a reduction of truths -> one element, and the others.
_COUNTS: Final = (("all", 1, 1), ("none", 0, 0), ("all but one", 0, 1), ("only one", 1, 0))


def row_targets(call: Call, generator: np.random.Generator) -> Iterator[EdgeTarget]:
    """Iterate over the edges of an operator that combines elements; each has elements of one row."""
    row = call.types[0].dtype
    array = call.operands[0]
    if row is None or not array.size or row.name == "FP8UE8M0":
        return
    for label, code in _value_edges(row):
        # Several elements, since some are out of reach.
        ids = generator.choice(array.size, min(_PLACES, array.size), replace=False)
        yield EdgeTarget(label, 0, Demand.of(ids, np.full(len(ids), code)))
    if "axis" not in call.attributes:
        return
    axis = call.attributes["axis"]
    lines = np.moveaxis(np.arange(array.size).reshape(array.shape), axis, -1)
    lines = lines.reshape(-1, array.shape[axis])
    codes = codes_of(array, row).reshape(-1)
    if row.name == "BOOL":
        for label, first, others in _COUNTS:
            line = generator.permutation(lines[generator.integers(len(lines))])
            wanted = np.full(len(line), others)
            wanted[0] = first
            yield EdgeTarget(label, 0, Demand.of(line, wanted), is_whole=True)
        return
    if lines.shape[1] < 2 or call.spec.traits.edges != "extremes":
        return
    low, high = limits_of(row)
    is_least = call.spec.traits.extreme == "least"
    for _ in range(_PLACES):
        line = lines[generator.integers(len(lines))]
        extreme = codes[line].min() if is_least else codes[line].max()
        first, second = np.sort(generator.choice(len(line), 2, replace=False))
        if extreme not in (NAN.get(row.name), None):
            others = line[codes[line] != extreme]
            if len(others):
                one = np.array([generator.choice(others)])
                near = extreme + (1 if is_least else -1)
                pairs = ("equal extremes", extreme), ("extremes one step apart", near)
                label, code = pairs[int(generator.integers(2))]
                yield EdgeTarget(label, 0, Demand.of(one, np.array([code])))
        small = generator.choice([c for c in edge_codes(row, 1) if low < c < high - 1])
        wanted = np.full(len(line), small + (1 if is_least else -1))
        wanted[[first, second]] = small
        yield EdgeTarget("equal extremes", 0, Demand.of(line, wanted), is_whole=True)
        end = np.array([line[-1]])
        wide = (low, int(extreme) - 1) if is_least else (int(extreme) + 1, high)
        if wide[0] <= wide[1]:
            yield EdgeTarget("extreme at the end", 0, Demand(end, *(np.array([n]) for n in wide)))
        side = np.where(is_least, 1, -2) * np.ones(len(line), np.int64)
        ends = (side, np.full(len(line), high)) if is_least else (np.full(len(line), low), side)
        yield EdgeTarget("all on one side", 0, Demand(line, *ends), is_whole=True)
        if row.name in INFINITE:
            infinite = INFINITE[row.name] if is_least else -INFINITE[row.name] - 1
            yield EdgeTarget(
                "infinite alone", 0, Demand.of(line, np.full(len(line), infinite)), is_whole=True
            )
            zeros = np.full(len(line), 1 if is_least else -2)
            zeros[[first, second]] = (0, -1) if generator.integers(2) else (-1, 0)
            yield EdgeTarget("extremes 0 and -0", 0, Demand.of(line, zeros), is_whole=True)


def _value_edges(row: DType) -> Iterator[tuple[str, int]]:
    """Iterate over the edges of any operand, each with a code."""
    if row.name == "BOOL":
        return
    low, high = limits_of(row)
    yield "0", 0
    if not row.is_float:
        yield from (("least", low), ("greatest", high), ("negative", -1))
        return
    yield from (("-0", -1), ("negative", -2), ("subnormal", 1), ("largest", high))
    if row.name in INFINITE:
        yield "infinite", INFINITE[row.name]
        yield "infinite", -INFINITE[row.name] - 1
    if row.name in NAN:
        yield "NaN", NAN[row.name]
