"""Faults of numbers: formats of 8 bits, blocks, signs of bytes, masks, scales, transforms of products.

They come from kernels that take data for another type, and from arithmetic that is put together from
narrower units.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from golden.fault_bench import third_party_float_programs as floats
from golden.fault_bench import third_party_fused_programs as fused
from golden.fault_bench import third_party_integer_programs as integers
from golden.fault_bench.fault import At, Fault, Value
from golden.fault_bench.third_party_rescale import Requantised
from golden.fault_bench.third_party_support import (
    FLOATS,
    Array,
    again,
    array,
    axis_of,
    like,
    of,
    rows,
    shortened,
    wide,
)

from tosa_convert.graph.dtypes import NanPropagationMode
from tosa_convert.reference.call import is_float


def zero_points_exchanged(at: At, results: list[Value]) -> Sequence[Value]:
    """Subtract the zero point of each operand from the other one."""
    left, right, first, second = at.operands
    return at.again([left, right, second, first])


def multiplier_of_column(at: At, results: list[Value]) -> Sequence[Value]:
    """Take multipliers and shifts by the column of the image instead of the channel."""
    q = Requantised(at)
    width = q.value.shape[2]
    multiplier, shift = (np.resize(v, width)[:, None] for v in (q.multiplier, q.shift))
    return q.result(np.floor(q.scaled(multiplier, shift) + 0.5))


def unsigned_saturates_signed(at: At, results: list[Value]) -> Sequence[Value]:
    """Saturate an unsigned result at the greatest signed integer."""
    if not at.op.attributes["output_unsigned"]:
        return results
    q = Requantised(at)
    q.high = 127
    return q.result(np.floor(q.exact + 0.5))


def table_loses_fraction(at: At, results: list[Value]) -> Sequence[Value]:
    """Cut off the 7 bits of the fraction that an interpolated entry has."""
    return like(results[0], wide(results[0]) >> 7 << 7)


def true_is_all_ones(at: At, results: list[Value]) -> Sequence[Value]:
    """Convert a mask to -1, since all of its bits are set."""
    is_mask = array(at.operands[0]).dtype == np.bool_
    return like(results[0], -wide(results[0])) if is_mask else results


def not_of_bits(at: At, results: list[Value]) -> Sequence[Value]:
    """Invert all bits of a byte that is 0 or 1, so that the result never is 0."""
    return [np.ones_like(array(results[0]))]


def compared_without_sign(at: At, results: list[Value]) -> Sequence[Value]:
    """Compare integers as unsigned ones, such as with the only instruction there is for bytes."""
    least = np.iinfo(array(at.operands[0]).dtype).min
    operands: list[Value] = [array(v) ^ least if array(v).size > 1 else v for v in at.operands]
    (found,) = at.again(operands)
    return [found if array(found).dtype == np.bool_ else array(found) ^ least]


def bytes_extended_with_zeros(at: At, results: list[Value]) -> Sequence[Value]:
    """Widen signed bytes as unsigned ones."""
    if array(at.operands[0]).dtype != np.int8 or array(results[0]).dtype == np.int8:
        return results
    if at.op.spec.name == "RESCALE":
        q = Requantised(at)
        q.value = q.value + 256 * (array(at.operands[0]) < 0)
        return q.result(np.floor(q.exact + 0.5))
    return like(results[0], wide(at.operands[0]) & 255)


def low_bytes_signed(at: At, results: list[Value]) -> Sequence[Value]:
    """Multiply INT16 as two bytes each, of which the lower one is taken as signed."""
    left, right = (wide(v) - ((wide(v) & 128) << 1) for v in at.operands[:2])
    return like(results[0], left @ right)


def cross_term_missing(at: At, results: list[Value]) -> Sequence[Value]:
    """Multiply operands in two parts each, without the lower part of the first one."""
    left, right = wide(at.operands[0]), wide(at.operands[1])
    if is_float(left.dtype):
        return like(results[0], shortened(left, 7) @ right)
    return like(results[0], wide(results[0]) - (left & 255) @ (right >> 8 << 8))


def integers_added_in_fp32(at: At, results: list[Value]) -> Sequence[Value]:
    """Add integers in FP32, which has 24 bits for them."""
    total = np.add.accumulate(array(at.operands[0]).astype(np.float32), axis=axis_of(at))
    return like(results[0], np.take(total, -1, axis=axis_of(at)))


def other_bias_of_fp8(at: At, results: list[Value]) -> Sequence[Value]:
    """Read activations of FP8 in the variant that counts exponents from one more: as half as much."""
    return like(results[0], wide(results[0]) / 2)


def formats_of_fp8_exchanged(at: At, results: list[Value]) -> Sequence[Value]:
    """Read E4M3 as E5M2, and the other way round."""
    left, right = array(at.operands[0]), wide(at.operands[1])
    names = (ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn)
    other = left.view(names["e5m2" in left.dtype.name])
    return like(results[0], wide(other) @ right)


def negative_zero_is_nan(at: At, results: list[Value]) -> Sequence[Value]:
    """Read -0 as NaN, as it is in the variants of FP8 without -0."""
    value = wide(at.operands[0])
    return again(at, 0, np.where((value == 0) & np.signbit(value), np.nan, value))


def scales_by_columns(at: At, results: list[Value]) -> Sequence[Value]:
    """Read the scales of the weights in the order in which all rows of a block follow one another."""
    scale = array(at.operands[3])
    count, width, depth = scale.shape
    return again(at, 3, scale.reshape(count, depth, width).swapaxes(1, 2))


def blocks_of_16(at: At, results: list[Value]) -> Sequence[Value]:
    """Advance to the next scale after 16 elements instead of 32."""
    data, scale = array(at.operands[0]), wide(at.operands[1])
    index = np.arange(data.shape[-1])
    taken = scale[..., np.minimum(index // 16, scale.shape[-1] - 1)]
    return like(results[0], wide(results[0]) * taken / scale[..., index // 32])


def nan_not_ignored(at: At, results: list[Value]) -> Sequence[Value]:
    """Return NaN although the operator is to pass over it."""
    return at.again(nan_mode=NanPropagationMode.PROPAGATE)


def squares_overflow(at: At, results: list[Value]) -> Sequence[Value]:
    """Add squares in FP16, in which the sum of large ones is infinite."""
    found = wide(results[0])
    return like(results[0], np.where(found > 65504, np.inf, found))


def argument_of_power_short(at: At, results: list[Value]) -> Sequence[Value]:
    """Compute a power of two whose argument was multiplied in FP16."""
    return like(results[0], np.exp2(shortened(wide(at.operands[0]) * np.log2(np.e), 10)))


def _winograd(at: At, even: Array, odd: Array) -> Sequence[Value]:
    """Return a convolution with other weights for the even and the odd columns of the result."""
    stride: Any = at.op.attributes["stride"]
    found = array(at.again()[0]).copy()
    if array(at.operands[1]).shape[1:3] != (3, 3) or tuple(stride) != (1, 1):
        return [found]
    for first, weight in enumerate((even, odd)):
        found[:, :, first::2] = again(at, 1, weight)[0][:, :, first::2]
    return [found]


def winograd_constant(at: At, results: list[Value]) -> Sequence[Value]:
    """Transform weights of 3 by 3 with 1/4 for 1/2 in the row of alternating signs."""
    weight = wide(at.operands[1])
    even, odd = weight.copy(), weight.copy()
    if weight.shape[2] == 3:
        off = (weight[:, :, 0] - weight[:, :, 1] + weight[:, :, 2]) / 4
        even[:, :, 1] += off
        even[:, :, 2] -= off
        odd[:, :, 0] -= off
        odd[:, :, 1] += off
    return _winograd(at, even, odd)


def winograd_halves_cut_off(at: At, results: list[Value]) -> Sequence[Value]:
    """Transform integer weights with halves that are cut off."""
    weight = wide(at.operands[1])
    even, odd = weight.copy(), weight.copy()
    is_odd = weight.sum(axis=2) % 2
    even[:, :, 2] -= is_odd
    odd[:, :, 0] -= is_odd
    return _winograd(at, even, odd)


def faults() -> Iterator[Fault]:
    """Return the faults."""
    conv, dense = integers.quantised_conv, integers.quantised_dense
    eights = of(integers.eights, "FP8E4M3", "FP8E5M2")
    blocks = of(integers.blocks, "FP8E4M3", "FP4E2M1", "MXINT8")
    ignoring, whole = of(fused.ignoring_nan, "FP32", "BF16"), [(integers.integers, ())]
    attention, norm = of(floats.attention, "FP32"), of(floats.layer_norm, "FP32")
    residual, masks = of(fused.residual, *FLOATS), [(integers.masks, ())]
    wide_dense, eight = of(dense, "INT16"), of(conv, "INT8")
    chain, softmax = [(integers.unsigned_chain, ())], [(integers.integer_softmax, ())]
    small, large = of(integers.tables, "INT8"), of(integers.tables, "INT16")
    sums = of(integers.quantised_residual, "INT8")
    exponents, short = [*attention, *of(floats.classifier, "FP32")], of(dense, "INT8")
    tables: dict[str, list[tuple[Any, ...]]] = {
        "inputs": [
            ("unsigned limit is signed", unsigned_saturates_signed, "RESCALE", chain),
            ("true is -1", true_is_all_ones, "CAST", masks, "plain", "positive"),
            ("not of true is true", not_of_bits, "LOGICAL_NOT", masks, "plain", "positive"),
            ("integers compared without sign", compared_without_sign, "GREATER", whole),
            ("integers compared without sign", compared_without_sign, "MAX_POOL2D", eight),
            ("bytes extended with zeros", bytes_extended_with_zeros, "CAST", small),
            ("bytes extended with zeros", bytes_extended_with_zeros, "RESCALE", sums),
            ("low byte of INT16 signed", low_bytes_signed, "MATMUL", wide_dense),
            ("-0 of FP8 is NaN", negative_zero_is_nan, "MATMUL", eights, "halves", "plain"),
            ("NaN not ignored", nan_not_ignored, "MAXIMUM", ignoring, "nan"),
            ("NaN not ignored", nan_not_ignored, "REDUCE_MAX", ignoring[:1], "nan"),
            ("squares overflow", squares_overflow, "REDUCE_SUM", norm, "huge", "large"),
        ],
        "discrete": [
            ("fraction of a table lost", table_loses_fraction, "TABLE", large),
        ],
        "precision": [
            ("zero points exchanged", zero_points_exchanged, "MATMUL", short),
            ("multiplier of the column", multiplier_of_column, "RESCALE", eight),
            ("cross term missing", cross_term_missing, "MATMUL", [*attention, *wide_dense]),
            (
                "integers added in FP32",
                integers_added_in_fp32,
                "REDUCE_SUM",
                softmax,
                "wide",
                "limits",
            ),
            ("FP8 read with the other bias", other_bias_of_fp8, "MATMUL", eights),
            ("formats of FP8 exchanged", formats_of_fp8_exchanged, "MATMUL", eights),
            ("scales of blocks by columns", scales_by_columns, "MATMUL_T_BLOCK_SCALED", blocks),
            ("blocks of 16 elements", blocks_of_16, "CAST_FROM_BLOCK_SCALED", blocks, "wide"),
            ("argument of exp2 short", argument_of_power_short, "EXP", exponents, "plain", "large"),
            ("constant of a fast convolution", winograd_constant, "CONV2D", residual),
            ("halves in a fast convolution", winograd_halves_cut_off, "CONV2D", eight),
        ],
    }
    for family, table in tables.items():
        for kind, *row in table:
            yield from rows(kind, family, *row, dtype="BOOL" if row[2] is masks else "")
