"""Operators that reduce an axis, or order its elements, and are not lowered."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.frontends.recipes import cumulate, reduce_by_halves
from tosa_convert.frontends.tflite.lowerings.arithmetic import (
    OFFSETS,
    RANGES,
    multiplier_and_shift,
    single,
)
from tosa_convert.frontends.tflite.lowerings.lowering import (
    Correction,
    Decomposition,
    Given,
    Group,
    OtherFormError,
    between,
    sizes_of,
)
from tosa_convert.frontends.tflite.read import Operator, TfliteFile, operator_name
from tosa_convert.records import dataclass

if TYPE_CHECKING:
    from tosa_convert.builder import Builder
    from tosa_convert.builder.values import Value
    from tosa_convert.frontends.tflite.lowerings.writer import Writer

#: Most pairs of elements that are compared to find the order of rows; of elements and segments.
_MOST_PAIRS: Final = 1 << 22


@dataclass(frozen=True, slots=True)
class _Sum:
    """axis: counted from the first. exclusive: without the element itself. reverse: from the end."""

    axis: int
    exclusive: bool
    reverse: bool


def _find_cumulative_sum(model: TfliteFile, operator: Operator) -> _Sum | None:
    x, axis = (model.tensors[one] for one in operator.inputs)
    given = axis.integers()
    if x.dtype not in ("float32", "int32") or len(given) != 1 or axis.dtype != "int32":
        return None
    exclusive, reverse = (bool(operator.option(place, "b")) for place in (0, 1))
    return _Sum(given[0] % len(x.shape), exclusive, reverse)


def _lower_cumulative_sum(b: Builder, given: Given, facts: _Sum) -> list[Value]:
    """Sum over twice as many elements in each of log2(n) steps: infinities stay where they are."""
    import numpy as np

    x, axis = given.operands[0], facts.axis
    shape = tuple(x.shape or ())

    def moved(value: Value, by: int) -> Value:
        pads = np.zeros((len(shape), 2), np.int64)
        pads[axis, int(facts.reverse)] = by
        start = [by if k == axis and facts.reverse else 0 for k in range(len(shape))]
        return b.slice(b.pad(value, pads.reshape(-1).tolist()), start, shape)

    if facts.exclusive:
        x = moved(x, 1)
    x = cumulate(x, shape[axis], b.add, moved)
    # The result is a value of its own, also if there is nothing to add.
    return [b.identity(x) if shape[axis] == 1 and not facts.exclusive else x]


def _find_largest(model: TfliteFile, operator: Operator) -> int | None:
    x, count = (model.tensors[one] for one in operator.inputs)
    types = [model.tensors[one].dtype for one in operator.outputs]
    given = count.integers()
    if x.dtype not in ("float32", "int32", "int16", "int8") or types != [x.dtype, "int32"]:
        return None
    if len(given) != 1 or count.dtype != "int32":
        return None
    if math.prod(x.shape) * x.shape[-1] > _MOST_PAIRS:
        return None
    return given[0]


def _lower_largest(b: Builder, given: Given, count: int) -> list[Value]:
    """Find the largest elements: the place of each is the count of larger, or equal earlier ones."""
    import numpy as np

    x = given.operands[0]
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


@dataclass(frozen=True, slots=True)
class _Place:
    """axis: along which the place is. is_least: of the smallest element."""

    axis: int
    is_least: bool


def _find_place(model: TfliteFile, operator: Operator) -> _Place | None:
    """Find the ARG_MAX or ARG_MIN of int32, which ARGMAX does not have."""
    x, axis = model.operands(operator)
    given = axis.integers()
    if x.dtype != "int32" or len(given) != 1 or model.result(operator).dtype != "int32":
        return None
    return _Place(given[0] % len(x.shape), operator_name(operator.code) == "ARG_MIN")


def _lower_place(b: Builder, given: Given, facts: _Place) -> list[Value]:
    """Find the first place of the largest, or the smallest, integer."""
    import numpy as np

    x, axis = given.operands[0], facts.axis
    most = b.reduce_min(x, axis=axis) if facts.is_least else b.reduce_max(x, axis=axis)
    shape = sizes_of(x)
    size = shape[axis]
    places = np.arange(size, dtype=np.int32)
    along = b.const(places.reshape([-1 if at == axis else 1 for at in range(len(shape))]))
    found = b.select(b.equal(x, most), along, size)
    return [b.reshape(b.reduce_min(found, axis=axis), given.shape)]


def _find_product(model: TfliteFile, operator: Operator) -> list[int] | None:
    """Find REDUCE_PROD of int32, which TOSA's REDUCE_PRODUCT does not have."""
    x, axes = model.operands(operator)
    given = axes.integers()
    if x.dtype != "int32" or not given:
        return None
    return sorted({axis % len(x.shape) for axis in given})


def _lower_product(b: Builder, given: Given, axes: list[int]) -> list[Value]:
    """Multiply one half of an axis by the other, until there is one element."""
    x = given.operands[0]
    for axis in axes:
        x = _product(b, x, axis)
    return [b.reshape(x, given.shape)]


def _product(b: Builder, x: Value, axis: int) -> Value:
    def part(value: Value, start: int, stop: int) -> Value:
        begin, shape = [0] * len(value.shape or ()), list(sizes_of(value))
        begin[axis], shape[axis] = start, stop - start
        return b.slice(value, begin, shape)

    def join(parts: Sequence[Value]) -> Value:
        return b.concat(parts, axis=axis)

    return reduce_by_halves(x, sizes_of(x)[axis], b.mul, part, join)


def _find_segments(model: TfliteFile, operator: Operator) -> str | None:
    """Find what is computed of each segment of rows: "SUM", "PROD", "MAX" or "MIN"."""
    x, places, *_ = model.operands(operator)
    result = model.result(operator)
    if x.dtype not in ("float32", "int32") or places.dtype != "int32" or not places.shape:
        return None
    if math.prod(x.shape) * result.shape[0] > _MOST_PAIRS:
        return None
    return operator_name(operator.code).rpartition("_")[2]


def _lower_segments(b: Builder, given: Given, kind: str) -> list[Value]:
    """Reduce, for each segment, all rows; those of other segments are as nothing."""
    import numpy as np

    x, places = given.operands[:2]
    rows, segments = math.prod(sizes_of(places)), given.shape[0]
    each = b.reshape(x, (rows, 1, math.prod(sizes_of(x)) // rows))
    numbers = b.const(np.arange(segments, dtype=np.int32).reshape(1, segments, 1))
    is_own = b.equal(b.reshape(places, (rows, 1, 1)), numbers)
    is_float = x.dtype.is_float
    limits = np.finfo(np.float32) if is_float else np.iinfo(np.int32)
    none = {"SUM": 0, "PROD": 1, "MAX": limits.min, "MIN": limits.max}[kind]
    chosen = b.select(is_own, each, b.const(np.full((1, 1, 1), none, limits.dtype)))
    if kind == "PROD" and not is_float:
        found = _product(b, chosen, 0)
    else:
        reduce = {
            "SUM": b.reduce_sum,
            "PROD": b.reduce_product,
            "MAX": b.reduce_max,
            "MIN": b.reduce_min,
        }[kind]
        found = reduce(chosen, axis=0)
    return [b.reshape(found, given.shape)]


@dataclass(frozen=True, slots=True)
class _Scaled:
    """zero_points: of operand and result. sizes: multiplier and shift from one scale to the other."""

    zero_points: tuple[int, int]
    sizes: tuple[int, int]


def _find_scaled(model: TfliteFile, operator: Operator) -> _Scaled | None:
    """Find the scales of a SUM or MEAN of integers."""
    x, result = model.tensors[operator.inputs[0]], model.result(operator)
    if x.dtype != result.dtype or x.dtype not in RANGES or not (x.scale and result.scale):
        return None
    sizes = multiplier_and_shift(single(x.scale / result.scale), 1.0)
    return None if sizes is None else _Scaled((x.zero_point, result.zero_point), sizes)


def _find_without_axes(model: TfliteFile, operator: Operator) -> _Scaled | None:
    _, axes = model.operands(operator, 2)
    facts = _find_scaled(model, operator)
    is_same = model.result(operator).scale == model.tensors[operator.inputs[0]].scale
    if not axes.is_empty_constant or facts is None:
        return None
    return None if is_same and len(set(facts.zero_points)) == 1 else facts


def _lower_without_axes(b: Builder, given: Given, facts: _Scaled) -> list[Value]:
    """Convert each element to the scale of the result."""
    (x, *_), is_unsigned = given.operands, given.dtype == "uint8"
    if is_unsigned:
        x = b.bitwise_xor(x, -128)
    less = OFFSETS.get(given.dtype, 0)
    number = b.sub(b.cast(x, dtype="int32"), facts.zero_points[0] - less)
    multiplier, shift = b.const([facts.sizes[0]], "int32"), b.const([facts.sizes[1]], "int8")
    scaled = b.rescale(
        number, multiplier, shift, scale32=True, rounding_mode="DOUBLE_ROUND", dtype="int32"
    )
    moved = b.add(scaled, facts.zero_points[1] - less)
    low, high = (bound - less for bound in RANGES[given.dtype])
    found = b.cast(between(b, moved, (low, high)), dtype=x.dtype)
    return [b.bitwise_xor(found, -128) if is_unsigned else found]


def _lower_sum(group: Group, facts: _Scaled, write: Writer) -> None:
    """Sum integers before they are scaled: scaled ones overflow from 64 elements on."""
    rescales = [one for one in group.operators if one.spec.name == "RESCALE"]
    if len(rescales) != 2 or write.tensors[rescales[0].outputs[0]].dtype.name != "INT32":
        raise OtherFormError
    sizes = dict(zip(map(id, rescales), ((1 << 30, 30), facts.sizes), strict=True))
    for one in group.operators:
        if one.spec.name == "RESCALE":
            multiplier, shift = sizes[id(one)]
            scale = write.values([multiplier], "INT32"), write.values([shift], "INT8")
            inputs = (one.inputs[0], *scale, *one.inputs[3:])
            one = write.rounding(one, "SINGLE_ROUND", inputs)
        write.operators.append(one)


DECOMPOSITIONS: Final[Mapping[str, Decomposition[Any]]] = {
    "CUMSUM": Decomposition(_find_cumulative_sum, _lower_cumulative_sum),
    "TOPK_V2": Decomposition(_find_largest, _lower_largest),
    "ARG_MAX": Decomposition(_find_place, _lower_place),
    "ARG_MIN": Decomposition(_find_place, _lower_place),
    **{
        name: Decomposition(
            _find_without_axes, _lower_without_axes, "the converter does not convert the scales"
        )
        for name in ("SUM", "MEAN")
    },
    "REDUCE_PROD": Decomposition(_find_product, _lower_product),
    **{
        f"UNSORTED_SEGMENT_{kind}": Decomposition(_find_segments, _lower_segments)
        for kind in ("SUM", "PROD", "MAX", "MIN")
    },
}
CORRECTIONS: Final[tuple[Correction[Any], ...]] = (
    Correction("SUM", "the converter scales before it sums", _find_scaled, _lower_sum),
)
