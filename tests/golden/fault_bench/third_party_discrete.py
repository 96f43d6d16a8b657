"""Faults of decisions: ties of ARGMAX, thresholds, conversions, tables, rounding to steps.

Kernels reduce in trees that prefer the later of two equals, compare differences, use the rounding of the
language instead of that of the operator, and treat the ends of tables apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from golden.fault_bench import third_party_float_programs as floats
from golden.fault_bench import third_party_integer_programs as integers
from golden.fault_bench.fault import At, Fault, Value
from golden.fault_bench.third_party_support import (
    FLOATS,
    QUANTISED,
    Program,
    again,
    array,
    axis_of,
    like,
    of,
    rows,
    shortened,
    wide,
    window_sums,
)

from tosa_convert.graph.dtypes import ResizeMode
from tosa_convert.reference.call import is_float


def last_of_equals(at: At, results: list[Value]) -> Sequence[Value]:
    """Return the last of equal elements: the comparison of the reduction is >=."""
    value, axis = wide(at.operands[0]), axis_of(at)
    count = value.shape[axis]
    return like(results[0], count - 1 - np.argmax(np.flip(value, axis), axis=axis))


def equals_within_lanes(at: At, results: list[Value]) -> Sequence[Value]:
    """Prefer the first lane among equals, not the least index: lanes are reduced last."""
    value, axis = np.moveaxis(wide(at.operands[0]), axis_of(at), -1), 4
    index = np.arange(value.shape[-1])
    order = (index % axis) * value.shape[-1] + index // axis
    is_largest = value == value.max(axis=-1, keepdims=True)
    return like(results[0], np.argmin(np.where(is_largest, order, order.max() + 1), axis=-1))


def largest_of_short(at: At, results: list[Value]) -> Sequence[Value]:
    """Compare numbers that were shortened to 5 bits of the fraction, so that near ones are equal."""
    return again(at, 0, shortened(array(at.operands[0]), 5))


def index_packed_with_value(at: At, results: list[Value]) -> Sequence[Value]:
    """Put the index into the low bits of the value, for one reduction of both: values lose bits."""
    value, axis = wide(at.operands[0]), axis_of(at)
    return like(results[0], np.argmax(value // 16, axis=axis))


def strict_comparison(at: At, results: list[Value]) -> Sequence[Value]:
    """Compare with > instead of >=, which the threshold of a detector meets exactly."""
    return [np.asarray(wide(at.operands[0]) > wide(at.operands[1]))]


def loose_comparison(at: At, results: list[Value]) -> Sequence[Value]:
    """Compare with >= instead of >."""
    return [np.asarray(wide(at.operands[0]) >= wide(at.operands[1]))]


def equal_within_tolerance(at: At, results: list[Value]) -> Sequence[Value]:
    """Take numbers for equal whose difference is small."""
    return [np.asarray(np.abs(wide(at.operands[0]) - wide(at.operands[1])) < 0.6)]


def comparison_by_difference(at: At, results: list[Value]) -> Sequence[Value]:
    """Compare by the sign of the difference, which wraps around for large operands."""
    difference = wide(at.operands[0]) - wide(at.operands[1])
    wrapped = difference.astype(np.int32)
    return [np.asarray(wrapped > 0 if at.op.spec.name == "GREATER" else wrapped >= 0)]


def comparison_of_fp32(at: At, results: list[Value]) -> Sequence[Value]:
    """Compare INT32 as FP32, which has no more than 24 bits."""
    left, right = (array(value).astype(np.float32) for value in at.operands[:2])
    names = {"EQUAL": np.equal, "GREATER": np.greater, "GREATER_EQUAL": np.greater_equal}
    return [np.asarray(names[at.op.spec.name](left, right))]


def comparison_of_short(at: At, results: list[Value]) -> Sequence[Value]:
    """Compare after a conversion to 5 bits of the fraction."""
    left, right = (shortened(array(value), 5) for value in at.operands[:2])
    return [np.asarray(left > right if at.op.spec.name == "GREATER" else left >= right)]


def conversion_truncates(at: At, results: list[Value]) -> Sequence[Value]:
    """Cut off the fraction in a conversion to integers, as the language does."""
    if is_float(array(results[0]).dtype):
        return results
    return again(at, 0, np.trunc(wide(at.operands[0])))


def conversion_half_away(at: At, results: list[Value]) -> Sequence[Value]:
    """Round halves away from zero in a conversion to integers."""
    if is_float(array(results[0]).dtype) or not is_float(array(at.operands[0]).dtype):
        return results
    value = wide(at.operands[0])
    return again(at, 0, np.copysign(np.floor(np.abs(value) + 0.5), value))


def conversion_adds_half(at: At, results: list[Value]) -> Sequence[Value]:
    """Add 0.5 and cut off the fraction, also of negative numbers: those are a step off everywhere."""
    if is_float(array(results[0]).dtype) or not is_float(array(at.operands[0]).dtype):
        return results
    return again(at, 0, np.trunc(wide(at.operands[0]) + 0.5))


def narrowing_saturates(at: At, results: list[Value]) -> Sequence[Value]:
    """Saturate integers in a conversion that keeps their low bits."""
    result = array(results[0])
    if is_float(result.dtype):
        return results
    row = np.iinfo(result.dtype)
    return like(result, np.clip(wide(at.operands[0]), row.min, row.max))


def conversion_through_fp16(at: At, results: list[Value]) -> Sequence[Value]:
    """Convert integers to floating point by way of a type with 11 bits."""
    if not is_float(array(results[0]).dtype):
        return results
    return like(results[0], shortened(array(at.operands[0]), 10))


def table_ends(at: At, results: list[Value]) -> Sequence[Value]:
    """Leave the last interval of a table without interpolation, since its upper end is beyond it."""
    value, result = wide(at.operands[0]), array(results[0])
    if array(at.operands[1]).size == 256:
        return like(
            result, np.where(value == 127, again(at, 0, np.full(value.shape, 126))[0], result)
        )
    floor = again(at, 0, value // 128 * 128)[0]
    return like(result, np.where((value >> 7) == 255, floor, result))


def fraction_of_six_bits(at: At, results: list[Value]) -> Sequence[Value]:
    """Take the fraction from 6 bits instead of 7."""
    value = wide(at.operands[0])
    return again(at, 0, value & ~1)


def table_index_unsigned(at: At, results: list[Value]) -> Sequence[Value]:
    """Use the code of the input as an index without the offset of half of the table."""
    value, result = array(at.operands[0]), array(results[0])
    if array(at.operands[1]).size == 256:
        return [array(at.operands[1])[value.view(np.uint8)]]
    return like(result, wide(again(at, 0, np.maximum(wide(value), 0))[0]))


def floor_by_truncation(at: At, results: list[Value]) -> Sequence[Value]:
    """Truncate negative numbers too, by a conversion to integers and back."""
    return like(results[0], np.trunc(wide(at.operands[0])))


def next_integer_of_integers(at: At, results: list[Value]) -> Sequence[Value]:
    """Go to the neighbouring integer also from an integer: CEIL is FLOOR plus 1, and the reverse."""
    value = wide(at.operands[0])
    is_ceil = at.op.spec.name == "CEIL"
    return like(results[0], np.floor(value) + 1 if is_ceil else np.ceil(value) - 1)


def limits_truncated(at: At, results: list[Value]) -> Sequence[Value]:
    """Keep the limits of a clamp as integers."""
    low, high = (_limit(at, value) for value in (-1e30, 1e30))
    found = np.clip(wide(at.operands[0]), np.trunc(low), np.trunc(high))
    return like(results[0], found)


def limit_is_exclusive(at: At, results: list[Value]) -> Sequence[Value]:
    """Take the upper limit of a quantised clamp for exclusive."""
    high = _limit(at, np.iinfo(array(at.operands[0]).dtype).max)
    return like(results[0], np.minimum(wide(results[0]), high - 1))


def lower_limit_is_zero(at: At, results: list[Value]) -> Sequence[Value]:
    """Clamp below at 0 instead of at the zero point: a fused rectifier forgets it."""
    return like(results[0], np.maximum(wide(results[0]), 0))


def _limit(at: At, extreme: float) -> float:
    """Return the limit of a clamp on a side."""
    value = array(at.operands[0])
    with np.errstate(all="ignore"):
        return float(
            wide(again(at, 0, np.full(value.shape, extreme).astype(value.dtype))[0]).flat[0]
        )


def shift_not_rounded(at: At, results: list[Value]) -> Sequence[Value]:
    """Shift without rounding although the program asks for it."""
    return at.again(round=False)


def shift_always_rounded(at: At, results: list[Value]) -> Sequence[Value]:
    """Round although the program does not ask for it: the one instruction that there is rounds."""
    return at.again(round=True)


def shift_rounds_to_zero(at: At, results: list[Value]) -> Sequence[Value]:
    """Divide by a power of two, toward zero, instead of shifting."""
    if at.op.attributes["round"]:
        return results
    value, amount = wide(at.operands[0]), wide(at.operands[1])
    return like(results[0], np.trunc(value / np.exp2(amount)))


def nearest_rounds_down(at: At, results: list[Value]) -> Sequence[Value]:
    """Take the earlier one of two equally near elements, since the position is truncated."""
    if at.op.attributes["mode"] != ResizeMode.NEAREST:
        return results
    offset = array(at.operands[2]) - array(at.operands[1])[::2] // 2
    return again(at, 2, offset)


def mean_truncated(at: At, results: list[Value]) -> Sequence[Value]:
    """Truncate the mean of integers."""
    points = [int(array(value).flat[0]) for value in at.operands[1:3]]
    value = wide(at.operands[0]) - points[0]
    mean = window_sums(at, value) // window_sums(at, np.ones_like(value))
    row = np.iinfo(array(results[0]).dtype)
    return like(results[0], np.clip(mean + points[1], row.min, row.max))


# Long because it is a list: which kernels and programs have each fault.
def faults() -> Iterator[Fault]:
    """Return the faults."""
    family = "discrete"
    heads = [
        *of(floats.detector, *FLOATS),
        *of(integers.eights, "FP8E4M3", "FP8E5M2"),
        *of(integers.quantised_conv, *QUANTISED),
    ]
    programs: list[Program]
    for title, change in (
        ("last of equals", last_of_equals),
        ("equals ordered by lanes", equals_within_lanes),
    ):
        yield from rows(title, family, change, "ARGMAX", heads, "halves", "plain", "small")
    title = "largest of shortened numbers"
    programs = of(floats.detector, "FP32", "FP16")
    yield from rows(title, family, largest_of_short, "ARGMAX", programs, "plain", "offset")
    title = "index packed with the value"
    programs = of(integers.quantised_conv, "INT8")
    yield from rows(title, family, index_packed_with_value, "ARGMAX", programs)
    title = "threshold > instead of >="
    programs = [*of(floats.detector, *FLOATS), (integers.masks, ())]
    yield from rows(title, family, strict_comparison, "GREATER_EQUAL", programs, "halves")
    title = "threshold >= instead of >"
    programs = [*of(floats.clipping, *FLOATS), (integers.counter, ())]
    yield from rows(title, family, loose_comparison, "GREATER", programs, "halves", "plain")
    title = "equal within a tolerance"
    programs = of(floats.detector, *FLOATS)
    yield from rows(title, family, equal_within_tolerance, "EQUAL", programs, "halves")
    whole: list[Program] = [(integers.integers, ())]
    title, name = "comparison by the difference", "GREATER_EQUAL"
    yield from rows(title, family, comparison_by_difference, name, whole, "limits", "wide")
    title = "integers compared as FP32"
    yield from rows(title, family, comparison_of_fp32, "EQUAL", whole, "wide", "limits")
    title = "comparison of shortened numbers"
    for name, build in (("GREATER", floats.clipping), ("GREATER_EQUAL", floats.detector)):
        yield from rows(title, family, comparison_of_short, name, of(build, "FP32", "FP16"), "near")
    quantisers = [*of(floats.quantiser, *FLOATS), *of(floats.counted, *FLOATS)]
    for title, change in (
        ("conversion truncates", conversion_truncates),
        ("conversion rounds halves away", conversion_half_away),
        ("conversion adds a half", conversion_adds_half),
    ):
        yield from rows(title, family, change, "CAST", quantisers, "plain", "steps")
    yield from rows("narrowing saturates", family, narrowing_saturates, "CAST", whole)
    yield from rows(
        "integers converted through FP16", family, conversion_through_fp16, "CAST", whole
    )
    tables = of(integers.tables, *QUANTISED)
    yield from rows("end of a table", family, table_ends, "TABLE", tables, "plain", "limits")
    title = "fraction of a table short"
    yield from rows(title, family, fraction_of_six_bits, "TABLE", tables)
    programs = [*tables, *of(floats.quantiser, "FP32")]
    yield from rows("index of a table unsigned", family, table_index_unsigned, "TABLE", programs)
    for name in ("FLOOR", "CEIL"):
        title = "floor by truncation"
        yield from rows(title, family, floor_by_truncation, name, of(floats.quantiser, *FLOATS))
        title = "neighbour of an integer"
        programs = of(floats.quantiser, *FLOATS)
        yield from rows(title, family, next_integer_of_integers, name, programs, "halves")
    programs = [*of(floats.merges, *FLOATS), *of(floats.clipping, *FLOATS)]
    yield from rows("limits of a clamp truncated", family, limits_truncated, "CLAMP", programs)
    clamped = [
        *of(integers.quantised_conv, *QUANTISED),
        *of(integers.quantised_residual, *QUANTISED),
    ]
    title = "limit of a clamp exclusive"
    yield from rows(title, family, limit_is_exclusive, "CLAMP", clamped, "plain", "limits")
    programs = [p for p in clamped if p[1][0] == "INT8"]
    title = "rectifier without zero point"
    yield from rows(title, family, lower_limit_is_zero, "CLAMP", programs, "plain")
    name = "ARITHMETIC_RIGHT_SHIFT"
    shifted = [*of(integers.shifts, "INT8", "INT16", "INT32"), (integers.integer_softmax, ())]
    yield from rows("shift not rounded", family, shift_not_rounded, name, shifted)
    yield from rows("shift always rounded", family, shift_always_rounded, name, shifted)
    yield from rows("shift rounds to zero", family, shift_rounds_to_zero, name, shifted)
    title = "nearest element rounds down"
    yield from rows(title, family, nearest_rounds_down, "RESIZE", of(floats.decoder, *FLOATS))
    programs = of(integers.quantised_conv, *QUANTISED)
    yield from rows("mean of integers truncated", family, mean_truncated, "AVG_POOL2D", programs)
