"""Faults of kernels that only some values show: limits, ties, NaN, infinities, zeros of both signs.

Such faults are common in real backends: a lane instruction for a maximum drops NaN, a doubling high
product saturates at one pair of operands, a narrowing store wraps, a conversion gives the least integer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from golden.fault_bench import third_party_float_programs as floats
from golden.fault_bench import third_party_integer_programs as integers
from golden.fault_bench.fault import At, Fault, Value
from golden.fault_bench.third_party_rescale import Requantised
from golden.fault_bench.third_party_support import (
    FLOATS,
    QUANTISED,
    Program,
    again,
    array,
    axis_of,
    like,
    limits,
    of,
    rows,
    wide,
)

from tosa_convert.reference.call import is_float


def ties_to_even(at: At, results: list[Value]) -> Sequence[Value]:
    """Round ties of a requantisation to even, since the vector unit converts through floating point."""
    q = Requantised(at)
    return q.result(np.rint(q.exact))


def ties_down(at: At, results: list[Value]) -> Sequence[Value]:
    """Round ties down: the rounding constant is one short, as in (1 << (shift - 1)) - 1."""
    q = Requantised(at)
    return q.result(np.ceil(q.exact - 0.5))


def narrowing_wraps(at: At, results: list[Value]) -> Sequence[Value]:
    """Keep the low bits where the result saturates: the narrowing store is not the saturating one."""
    q = Requantised(at)
    found = np.floor(q.exact + 0.5).astype(np.int64) + q.output_point
    return like(results[0], found)


def saturates_before_zero_point(at: At, results: list[Value]) -> Sequence[Value]:
    """Saturate before the output zero point is added, and again after."""
    q = Requantised(at)
    found = np.clip(np.floor(q.exact + 0.5), q.low, q.high) + q.output_point
    return like(results[0], np.clip(found, q.low, q.high))


def unsigned_read_as_signed(at: At, results: list[Value]) -> Sequence[Value]:
    """Extend the sign of an unsigned input, while its zero point is taken as unsigned."""
    if not at.op.attributes["input_unsigned"]:
        return results
    value = wide(at.operands[0]) - 128
    return like(results[0], np.clip(value, -128, 127))


def maximum_drops_nan(at: At, results: list[Value]) -> Sequence[Value]:
    """Return the number where one operand is NaN, as the maximum instructions of many GPUs do."""
    name = at.op.spec.name
    if name == "REDUCE_MAX":
        axis = axis_of(at)
        return like(results[0], np.fmax.reduce(wide(at.operands[0]), axis=axis, keepdims=True))
    if name in ("MAXIMUM", "MINIMUM"):
        function = np.fmax if name == "MAXIMUM" else np.fmin
        return like(results[0], function(wide(at.operands[0]), wide(at.operands[1])))
    value = wide(at.operands[0])
    return again(at, 0, np.where(np.isnan(value), -3e38 if name == "MAX_POOL2D" else 0.0, value))


def clamp_turns_nan_into_limit(at: At, results: list[Value]) -> Sequence[Value]:
    """Return the lower limit for NaN: min(max(x, low), high) with instructions that prefer numbers."""
    value = wide(at.operands[0])
    low = again(at, 0, np.full(value.shape, -1e4))[0]
    return like(results[0], np.where(np.isnan(value), low.astype(float), wide(results[0])))


def comparison_true_for_nan(at: At, results: list[Value]) -> Sequence[Value]:
    """Compare unordered: not (a < b) stands for a >= b, which is true for NaN."""
    left, right = wide(at.operands[0]), wide(at.operands[1])
    is_nan = np.isnan(left) | np.isnan(right)
    return [np.asarray(array(results[0]) | is_nan)]


def pairs_saturate(at: At, results: list[Value]) -> Sequence[Value]:
    """Saturate the sum of two neighbouring INT8 products to INT16, as multiply-and-add of bytes does."""
    total = np.zeros(array(results[0]).shape, np.int64)
    a = wide(at.operands[0]) - int(array(at.operands[2]).flat[0])
    b = wide(at.operands[1]) - int(array(at.operands[3]).flat[0])
    for k in range(0, a.shape[2], 2):
        total += np.clip(a[:, :, k : k + 2] @ b[:, k : k + 2], -(1 << 15), (1 << 15) - 1)
    return like(results[0], total)


def least_times_least_saturates(at: At, results: list[Value]) -> Sequence[Value]:
    """Lose one unit of the product of the least integers, which a doubling product saturates."""
    a, b = array(at.operands[0]), array(at.operands[1])
    least = np.iinfo(b.dtype).min
    point = int(array(at.operands[2]).flat[0])
    both = (a.astype(np.int64) - point <= least).astype(np.int64) @ (b == least).astype(np.int64)
    return like(results[0], wide(results[0]) - both)


def negative_of_least_wraps(at: At, results: list[Value]) -> Sequence[Value]:
    """Wrap around where the negative does not fit, since it is computed as ~x + 1 in the narrow type."""
    value = wide(at.operands[0])
    points = [int(array(operand).flat[0]) for operand in at.operands[1:3]]
    return like(results[0], points[1] - (value - points[0]))


def division_rounds_down(at: At, results: list[Value]) -> Sequence[Value]:
    """Round a negative quotient down: the compiler takes the division of its index arithmetic."""
    return like(results[0], wide(at.operands[0]) // wide(at.operands[1]))


def division_by_multiplication(at: At, results: list[Value]) -> Sequence[Value]:
    """Multiply by the reciprocal in FP32, which is a unit off for large quotients."""
    left, right = array(at.operands[0]), array(at.operands[1])
    inverse = np.float32(1) / right.astype(np.float32)
    return like(results[0], np.trunc(left.astype(np.float32) * inverse))


def shift_amount_masked(at: At, results: list[Value]) -> Sequence[Value]:
    """Use the low bits of a shift by more than half of the bits, as for lanes of half of the width."""
    amount = array(at.operands[1])
    half = amount.dtype.itemsize * 4
    return again(at, 1, amount % half if amount.dtype.itemsize > 1 else amount & 3)


def rounding_shift_of_zero(at: At, results: list[Value]) -> Sequence[Value]:
    """Add a rounding bit for a shift by 0: 1 << (shift - 1) is taken modulo the width."""
    if at.op.attributes["round"]:
        return like(results[0], wide(results[0]) + (array(at.operands[1]) == 0))
    return results


def logical_shift_keeps_sign(at: At, results: list[Value]) -> Sequence[Value]:
    """Shift in the sign bit: the language's shift of signed integers stands for the logical one."""
    value, amount = array(at.operands[0]), array(at.operands[1])
    return like(results[0], value.astype(np.int64) >> amount.astype(np.int64))


def leading_zeros_of_zero(at: At, results: list[Value]) -> Sequence[Value]:
    """Count one too few: 31 - floor(log2(x)) in FP32 is rounded up just below powers of two."""
    value = wide(at.operands[0])
    with np.errstate(all="ignore"):
        power = np.floor(np.log2(value.astype(np.float32) * np.float32(1.0001)))
    return like(results[0], np.where(value > 0, 31 - power, 31))


def subnormals_read_as_normal(at: At, results: list[Value]) -> Sequence[Value]:
    """Decode a subnormal operand with the implicit leading one of normal numbers."""
    value = array(at.operands[0])
    row = limits(value.dtype)
    least = float(row.smallest_normal)
    numbers = wide(value)
    wrong = (np.abs(numbers) < least) & (numbers != 0)
    decoded = np.copysign((np.abs(numbers) / least + 1) * least, numbers)
    return again(at, 0, np.where(wrong, decoded, numbers))


def sign_of_zero_lost(at: At, results: list[Value]) -> Sequence[Value]:
    """Give +infinity for -0: the operand is multiplied by a comparison mask that has no sign."""
    value = wide(at.operands[0])
    return like(results[0], np.where(value == 0, np.inf, wide(results[0])))


def activation_overflows(at: At, results: list[Value]) -> Sequence[Value]:
    """Give NaN for large operands: tanh is (e^2x - 1) / (e^2x + 1) in the element type."""
    value = array(at.operands[0])
    row = limits(value.dtype)
    limit = np.log(float(row.max)) / (2 if at.op.spec.name == "TANH" else 1)
    numbers = wide(value)
    return like(results[0], np.where(np.abs(numbers) > limit, np.nan, wide(results[0])))


def conversion_gives_least_integer(at: At, results: list[Value]) -> Sequence[Value]:
    """Give the least integer for numbers that are too large, and the low byte of it afterwards."""
    if not is_float(array(at.operands[0]).dtype) or is_float(array(results[0]).dtype):
        return results
    value, result = wide(at.operands[0]), array(results[0])
    low, high = np.iinfo(result.dtype).min, np.iinfo(result.dtype).max
    return like(result, np.where((value < high + 0.5) & (value > low - 1), result, low))


def last_row_unreachable(at: At, results: list[Value]) -> Sequence[Value]:
    """Clamp indices to one row too few: the bound is taken as exclusive twice."""
    indices = array(at.operands[1])
    return again(at, 1, np.minimum(indices, array(at.operands[0]).shape[1] - 2))


def row_zero_is_padding(at: At, results: list[Value]) -> Sequence[Value]:
    """Give zeros for the index 0, which an embedding kernel takes for padding."""
    found = array(results[0]).copy()
    found[array(at.operands[1]) == 0] = 0
    return [found]


def maximum_starts_at_zero(at: At, results: list[Value]) -> Sequence[Value]:
    """Start a maximum at 0, or at the least positive number: all-negative data give 0, or index 0."""
    result, value = array(results[0]), wide(at.operands[0])
    if at.op.spec.name == "ARGMAX":
        axis = axis_of(at)
        return like(result, np.where(value.max(axis=axis) <= 0, 0, result))
    return like(result, np.maximum(wide(result), 0))


def eight_bits_saturate_early(at: At, results: list[Value]) -> Sequence[Value]:
    """Saturate at the start of the last exponent instead of at its end, in a conversion to FP8."""
    result = array(results[0])
    if result.dtype.itemsize != 1 or not is_float(result.dtype):
        return results
    row = limits(result.dtype)
    value, limit = wide(result), float(row.max)
    start = 2.0 ** np.floor(np.log2(limit))
    return like(result, np.where(np.abs(value) >= start, np.copysign(limit, value), value))


def wide_sum_wraps(at: At, results: list[Value]) -> Sequence[Value]:
    """Keep 32 bits of the accumulators that have 48."""
    value = wide(results[0])
    return like(results[0], value.astype(np.int32).astype(np.int64))


def nibbles_swapped(at: At, results: list[Value]) -> Sequence[Value]:
    """Take the upper half of a byte for the first of two INT4 weights."""
    weight = array(at.operands[1])
    pairs = weight.reshape(-1, 2)[:, ::-1]
    return again(at, 1, np.ascontiguousarray(pairs).reshape(weight.shape))


def nibble_read_as_unsigned(at: At, results: list[Value]) -> Sequence[Value]:
    """Extract INT4 weights with a mask and without the sign."""
    operands = list(at.operands)
    weight, bias = array(at.operands[1]), array(at.operands[2])
    operands[1] = (wide(weight) < 0).astype(weight.dtype)
    operands[2] = np.zeros_like(bias)
    return like(results[0], wide(results[0]) + 16 * wide(at.again(operands)[0]))


def nan_code_is_number(at: At, results: list[Value]) -> Sequence[Value]:
    """Decode the code of NaN as the next number above the greatest: the decoder has no special cases."""
    left, right = (
        np.where(
            np.isnan(wide(v)), 480.0 if "e4m3" in array(v).dtype.name else 1.75 * 2.0**16, wide(v)
        )
        for v in at.operands[:2]
    )
    return like(results[0], left @ right)


def infinity_minus_infinity(at: At, results: list[Value]) -> Sequence[Value]:
    """Flush infinities to the greatest number on the way in, as a unit without infinities does."""
    value = wide(at.operands[0])
    row = limits(array(at.operands[0]).dtype)
    limit = float(row.max)
    return again(at, 0, np.clip(value, -limit, limit))


# Long because it is a list: which kernels and programs have each fault.
def faults() -> Iterator[Fault]:
    """Return the faults."""
    family = "inputs"
    programs: list[Program]
    quantised: list[Program] = [
        *of(integers.quantised_conv, *QUANTISED),
        (integers.quantised_conv, ("INT8", "INT4")),
        *of(integers.quantised_residual, *QUANTISED),
        *of(integers.quantised_dense, *QUANTISED),
    ]
    for title, change in (
        ("requantisation rounds ties to even", ties_to_even),
        ("requantisation rounds ties down", ties_down),
    ):
        yield from rows(title, family, change, "RESCALE", quantised[:-1], "plain", "small")
    title = "requantisation wraps around"
    yield from rows(title, family, narrowing_wraps, "RESCALE", quantised, "plain", "limits")
    yield from rows(
        "saturation before the zero point",
        family,
        saturates_before_zero_point,
        "RESCALE",
        [p for p in quantised if p[1][0] == "INT8"],
        "plain",
        "limits",
    )
    unsigned: list[Program] = [(integers.unsigned_chain, ())]
    yield from rows(
        "unsigned data read as signed",
        family,
        unsigned_read_as_signed,
        "RESCALE",
        unsigned,
        dtype="INT8",
    )
    for name, build in (
        ("REDUCE_MAX", floats.detector),
        ("MAXIMUM", floats.clipping),
        ("MAX_POOL2D", floats.conv_block),
        ("MINIMUM", floats.clipping),
    ):
        title = "maximum drops NaN"
        yield from rows(title, family, maximum_drops_nan, name, of(build, *FLOATS), "nan")
    for build in (floats.conv_block, floats.clipping):
        title = "clamp turns NaN into a limit"
        yield from rows(
            title, family, clamp_turns_nan_into_limit, "CLAMP", of(build, *FLOATS), "nan"
        )
    for name, build in (("GREATER", floats.clipping), ("GREATER_EQUAL", floats.detector)):
        title = "comparison with NaN is true"
        yield from rows(title, family, comparison_true_for_nan, name, of(build, *FLOATS), "nan")
    title = "pairs of products saturate"
    programs = [(integers.quantised_dense, ("INT8",))]
    yield from rows(title, family, pairs_saturate, "MATMUL", programs, "plain", "limits")
    title = "product of the least integers saturates"
    programs = of(integers.quantised_dense, "INT16")
    yield from rows(
        title, family, least_times_least_saturates, "MATMUL", programs, "limits", "plain"
    )
    title = "negative of the least integer wraps"
    programs = [(integers.quantised_dense, ("INT8",))]
    yield from rows(title, family, negative_of_least_wraps, "NEGATE", programs, "plain", "limits")
    whole: list[Program] = [(integers.integers, ()), (integers.integer_softmax, ())]
    yield from rows("division rounds down", family, division_rounds_down, "INTDIV", whole, "plain")
    yield from rows(
        "division by a reciprocal",
        family,
        division_by_multiplication,
        "INTDIV",
        whole[:1],
        "plain",
        "wide",
    )
    shifted = of(integers.shifts, "INT8", "INT16", "INT32")
    for name in ("ARITHMETIC_RIGHT_SHIFT", "LOGICAL_RIGHT_SHIFT", "LOGICAL_LEFT_SHIFT"):
        yield from rows(
            "shift amount masked", family, shift_amount_masked, name, shifted, "plain", "wide"
        )
    name = "ARITHMETIC_RIGHT_SHIFT"
    yield from rows(
        "rounding shift by zero", family, rounding_shift_of_zero, name, shifted, "plain"
    )
    name = "LOGICAL_RIGHT_SHIFT"
    title = "logical shift keeps the sign"
    yield from rows(title, family, logical_shift_keeps_sign, name, shifted, "plain", "limits")
    programs = [(integers.normalised, ())]
    title = "leading zeros by a logarithm"
    yield from rows(title, family, leading_zeros_of_zero, "CLZ", programs, "small", "limits")
    title = "subnormal numbers read as normal ones"
    programs = of(floats.parts, "FP16", "BF16")
    yield from rows(title, family, subnormals_read_as_normal, "MUL", programs, "tiny")
    title = "reciprocal loses the sign of zero"
    yield from rows(
        title, family, sign_of_zero_lost, "RECIPROCAL", of(floats.signed_zeros, *FLOATS), "halves"
    )
    for name, build in (("TANH", floats.activations), ("SIGMOID", floats.lstm)):
        title = "activation overflows on the way"
        yield from rows(title, family, activation_overflows, name, of(build, *FLOATS), "large")
    programs = of(floats.quantiser, *FLOATS)
    title = "conversion too large gives the least integer"
    yield from rows(title, family, conversion_gives_least_integer, "CAST", programs, "large")
    title = "last row unreachable"
    programs = [*of(floats.layout, "FP32", "INT8", "BF16"), *of(integers.eights, "FP8E4M3")]
    yield from rows(title, family, last_row_unreachable, "GATHER", programs, "plain")
    programs = [
        *of(floats.layout, "FP16", "INT16"),
        *of(floats.classifier, "FP32"),
        *of(floats.detector, "BF16"),
    ]
    yield from rows(
        "row 0 taken for padding", family, row_zero_is_padding, "GATHER", programs, "plain"
    )
    title = "maximum starts at zero"
    for name, build in (("ARGMAX", floats.detector), ("MAX_POOL2D", floats.conv_block)):
        yield from rows(
            title, family, maximum_starts_at_zero, name, of(build, *FLOATS), "negative", "plain"
        )
    programs = [(integers.integer_softmax, ()), *of(floats.clipping, "FP16")]
    yield from rows(title, family, maximum_starts_at_zero, "REDUCE_MAX", programs, "negative")
    title = "FP8 saturates one exponent early"
    programs = of(integers.eights, "FP8E4M3", "FP8E5M2")
    yield from rows(title, family, eight_bits_saturate_early, "CAST", programs, "large", "huge")
    title = "48-bit accumulator kept in 32 bits"
    programs = [(integers.quantised_dense, ("INT16",))]
    yield from rows(title, family, wide_sum_wraps, "MATMUL", programs, "plain", "limits")
    short: list[Program] = [(integers.quantised_conv, ("INT8", "INT4"))]
    for name in ("CONV2D", "DEPTHWISE_CONV2D"):
        yield from rows("nibbles swapped", family, nibbles_swapped, name, short)
        yield from rows("nibble read as unsigned", family, nibble_read_as_unsigned, name, short)
    programs = of(integers.eights, "FP8E4M3", "FP8E5M2")
    yield from rows(
        "code of NaN read as a number", family, nan_code_is_number, "MATMUL", programs, "nan"
    )
    title = "infinities become the greatest number"
    for name, build in (("MUL", floats.parts), ("ADD", floats.merges)):
        yield from rows(
            title, family, infinity_minus_infinity, name, of(build, "FP32", "FP16"), "infinite"
        )
