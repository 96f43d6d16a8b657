"""Operators that divide by a norm or a sum of the elements.

SOFTMAX and L2_NORMALIZATION have the integers of TFLite's kernels, which find quotients by Newton's
steps in fixed point. LOG_SOFTMAX has FP32: by experiment, TFLite's kernel rounds the exact function. A
result in the middle of two steps can be the other one.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import movement
from tosa_convert.frontends.lowering.functions import power
from tosa_convert.frontends.lowering.normalization import log_softmax
from tosa_convert.frontends.lowering.reductions import by_operator
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant
from tosa_convert.frontends.lowering.types import FLOAT32, INT32, is_float
from tosa_convert.frontends.tflite import integer_functions
from tosa_convert.frontends.tflite.node import Node, Rule
from tosa_convert.frontends.tflite.rescale import ONE, rescaled
from tosa_convert.frontends.tflite.rules.quantised import either
from tosa_convert.frontends.tflite.rules.tables import (
    FRACTION,
    HALF_ROOT,
    INTERVALS,
    interpolated,
    interpolation_table,
)
from tosa_convert.frontends.tflite.scales import RANGES, rescale_of, single

#: Squares of numbers of 9 bits whose sum has 29 bits.
_MOST_SQUARES: Final = 8192
#: Numbers of 3 bits before the point.
_ONE: Final = 1 << 28
_THREE_HALVES: Final = 3 << 27
#: The largest number of no bits before the point.
_LARGEST: Final = (1 << 31) - 1
_STEPS: Final = 5
#: By how many bits a number of 9 bits before the point is shifted to have 3.
_CUBE_SHIFT: Final = 6
_PRODUCT_SHIFT: Final = 3
#: What TFLite adds to a sum of squares.
_LEAST: Final = 1e-6
#: The scale that the kernels of LOG_SOFTMAX want, and its steps to 1.
_LOG_SCALE: Final = 16 / 256
_LOG_STEPS: Final = 16.0
#: The largest matrix of channels by channels that sums near ones.
_MOST_CHANNELS: Final = 2048
#: 1 with 29 bits after the point.
_UNIT: Final = 1 << 29
#: As many exponentials of 0 have a sum by which SOFTMAX of 8 bits divides with a shift of 32 bits.
_MOST_EXPONENTIALS: Final = 512
_MOST_SHIFT: Final = 31
#: The distance at which SOFTMAX of 16 bits takes an exponential for 0.
_FAR: Final = 10.0
_STEPS_OF_16: Final = 65535


# -- SOFTMAX ---------------------------------------------------------------------------------------


def _last(s: Scope, a: Array, name: str) -> Array:
    return by_operator(s, a, (a.rank - 1,), name, keep=True)


def _softmax(n: Node) -> Array:
    s, x, beta = n.scope, n.array(0), n.real(0)
    distance = s.sub(x, _last(s, x, "reduce_max"))
    powers = s.elementwise("exp", s.mul(distance, beta) if beta != 1 else distance)
    return s.mul(powers, s.elementwise("reciprocal", _last(s, powers, "reduce_sum")))


def _quantised_softmax(n: Node) -> Array:
    x, dtype = n.array(0), n.tensor(0).dtype
    if dtype != n.result.dtype or dtype not in RANGES:
        raise NotLowered(f"its types, {dtype} and {n.result.dtype}, differ")
    if x.dtype == np.int16:
        return _of_16_bits(n, x)
    return _of_8_bits(n, x)


def _of_8_bits(n: Node, x: Array) -> Array:
    """Look up exponentials, and multiply by the reciprocal of their sum."""
    s = n.scope
    most = rescaled(s, _last(s, x, "reduce_max"), ONE, INT32)
    distance = s.sub(rescaled(s, x, ONE, INT32), most)
    powers = _exponentials(s, distance, integer_functions.exponentials(n.real(0) * n.scale(0)))
    shares = s.elementwise("arithmetic_right_shift", powers, integer_functions.SUM_BITS, round=True)
    total = _last(s, shares, "reduce_sum")
    zeros = s.elementwise("clz", total)
    half = s.elementwise("logical_left_shift", total, s.sub(zeros, 1))
    inverse = s.add(high_product(s, half, integer_functions.SLOPE), integer_functions.START)
    for _ in range(3):
        rest = s.sub(_UNIT, high_product(s, half, inverse))
        step = s.elementwise("logical_left_shift", high_product(s, inverse, rest), 2)
        inverse = s.add(inverse, step)
    places = s.sub(35, zeros)
    if x.shape[-1] >= _MOST_EXPONENTIALS:
        # From 32 places on, which TOSA does not shift by, every element is 0.
        is_large = s.greater(places, _MOST_SHIFT)
        inverse = s.select(is_large, 0, inverse)
        places = s.minimum(places, _MOST_SHIFT)
    product = s.elementwise("mul", powers, inverse, shift=30)
    made = s.elementwise("arithmetic_right_shift", product, places, round=True)
    return rescaled(s, made, ONE, x.dtype, zero=n.result_zero)


def _exponentials(s: Scope, distance: Array, table: Any) -> Array:
    """Look up 31 bits for each number from -255 to 0, in tables of int16 that have 15 of them."""
    index = rescaled(s, distance, (1 << 30, 30 - FRACTION), np.int16)
    total: Array | None = None
    for place in (30, 15, 0):
        part, table = np.divmod(table, 1 << place)
        entries = np.pad(part, (1, INTERVALS // 2), "edge").astype(np.int16)
        found = Array(INT32, distance.shape, None, s.builder.table(s.value(index), entries))
        if place:
            found = s.elementwise("logical_left_shift", found, place - FRACTION)
        else:
            found = s.elementwise("arithmetic_right_shift", found, FRACTION, round=False)
        total = found if total is None else s.add(total, found)
    assert total is not None
    return total


def high_product(s: Scope, x: Array, y: Array | int) -> Array:
    """Return the upper half of twice a product, rounded."""
    return s.elementwise("mul", x, y, shift=31)


def _inverse_of_sum(x: Any) -> Any:
    return 1 / (1 + x)


def _of_16_bits(n: Node, x: Array) -> Array:
    """Interpolate exponentials, and the reciprocal of their sum."""
    s = n.scope
    wide = rescaled(s, x, ONE, INT32)
    distance = s.sub(wide, _last(s, wide, "reduce_max"))
    scale = rescale_of(single(n.scale(0) * n.real(0)) / (_FAR / _STEPS_OF_16))
    moved = s.add(rescaled(s, distance, scale, INT32), 32767)
    bounded = rescaled(s, moved, ONE, np.int16)
    unit = -1.0, 1.0
    exponentials = interpolation_table(np.exp, -_FAR, 0.0, unit, np.float64)
    reciprocals = interpolation_table(_inverse_of_sum, 0.0, 1.0, unit, np.float64)
    powers = interpolated(s, bounded, exponentials)
    total = _last(s, powers, "reduce_sum")
    zeros = s.elementwise("clz", total)
    shifted = s.elementwise("logical_left_shift", total, s.sub(zeros, 1))
    shifted = s.elementwise("arithmetic_right_shift", shifted, 14, round=True)
    place = rescaled(s, s.sub(shifted, (1 << 15) + (1 << 16)), ONE, np.int16)
    product = s.mul(powers, interpolated(s, place, reciprocals))
    made = s.elementwise("arithmetic_right_shift", product, s.sub(31, zeros), round=True)
    return rescaled(s, made, ONE, np.int16)


# -- LOG_SOFTMAX -----------------------------------------------------------------------------------


def _quantised_log_softmax(n: Node) -> Array:
    s, x = n.scope, n.array(0)
    if n.result.dtype not in ("int8", "uint8") or (n.result_zero, n.result_scale) != (
        127,
        _LOG_SCALE,
    ):
        raise NotLowered("TFLite wants a result of 8 bits with the scale 1/16")
    wide = s.cast(x, INT32)
    steps = s.cast(s.sub(wide, _last(s, wide, "reduce_max")), FLOAT32)
    distance = s.mul(steps, n.scale(0))
    total = s.elementwise("log", _last(s, s.elementwise("exp", distance), "reduce_sum"))
    # CAST rounds to the nearest, of halves to the even one, as the kernel does.
    rounded = s.cast(s.mul(s.sub(distance, total), _LOG_STEPS), INT32)
    return rescaled(s, rounded, ONE, x.dtype, zero=127)


# -- L2_NORMALIZATION ------------------------------------------------------------------------------


def _normalized(n: Node) -> Array:
    s, x = n.scope, n.array(0)
    squares = _last(s, s.mul(x, x), "reduce_sum")
    root = s.elementwise("rsqrt", s.maximum(squares, _LEAST * _LEAST))
    return n.activated(s.mul(x, root), 0)


def _quantised_normalized(n: Node) -> Array:
    s, x = n.scope, n.array(0)
    if x.dtype != np.int8 or n.option(0, "b") or n.result_zero or x.shape[-1] > _MOST_SQUARES:
        raise NotLowered("TFLite wants 8 bits, a result around 0, and few elements")
    numbers = rescaled(s, x, ONE, INT32, given=n.zero(0))
    total = _last(s, s.mul(numbers, numbers), "reduce_sum")
    root, shift = inverse_root(s, total)
    # The result has 7 bits after the point. The kernels shift by them before, or together with the root.
    if n.result.dtype == "uint8":
        left, right = constant(np.full((1,) * x.rank, 7, np.int32)), shift
    else:
        left, right = s.maximum(s.sub(7, shift), 0), s.maximum(s.sub(shift, 7), 0)
    found = high_product(s, s.elementwise("logical_left_shift", numbers, left), root)
    # Halves are rounded away from zero.
    size = s.elementwise("abs", found)
    rounded = s.elementwise("arithmetic_right_shift", size, right, round=True)
    signed = s.select(s.greater(found, 0), rounded, s.sub(0, rounded))
    return rescaled(s, signed, ONE, x.dtype)


def inverse_root(s: Scope, total: Array) -> tuple[Array, Array]:
    """Return 1 / sqrt(total) as a multiplier and a shift to the right; total has at most 29 bits."""

    def halved(a: Array, is_rounded: bool = False) -> Array:
        return s.elementwise("arithmetic_right_shift", a, 1, round=is_rounded)

    # It is shifted by pairs of bits until it has 28 or 29 bits.
    pairs = s.sub(halved(s.sub(s.elementwise("clz", total), 1)), 1)
    shift = s.sub(11, pairs)
    number = halved(s.elementwise("logical_left_shift", total, s.add(pairs, pairs)))
    half = halved(number, is_rounded=True)
    x = constant(np.full((1,) * total.rank, _ONE, np.int32))
    for _ in range(_STEPS):
        # The kernel would bound it to 31 bits; no number is that large.
        cube = high_product(s, high_product(s, x, x), x)
        cube = s.elementwise("logical_left_shift", cube, _CUBE_SHIFT)
        rest = s.sub(high_product(s, x, _THREE_HALVES), high_product(s, half, cube))
        x = s.elementwise("logical_left_shift", rest, _PRODUCT_SHIFT)
    root = high_product(s, x, HALF_ROOT)
    root = s.elementwise("logical_left_shift", root, s.maximum(s.sub(0, shift), 0))
    shift = s.maximum(shift, 0)
    is_tiny = s.greater(2, total)
    return s.select(is_tiny, _LARGEST, root), s.select(is_tiny, 0, shift)


# -- LOCAL_RESPONSE_NORMALIZATION ------------------------------------------------------------------


def _local_response(n: Node) -> Array:
    """Compute x / (bias + alpha * sum of squares) ** beta; the sum is a product with a band matrix."""
    s, x = n.scope, n.array(0)
    radius, (bias, alpha, beta) = n.option(0), (n.real(at) for at in (1, 2, 3))
    size = x.shape[-1]
    if not is_float(x.dtype) or size > _MOST_CHANNELS:
        raise NotLowered(f"TOSA sums the squares of up to {_MOST_CHANNELS} channels of FP32")
    places = np.arange(size)
    band: Any = np.abs(places[:, None] - places[None]) <= radius
    flat = movement.reshape(s, x, (1, x.size // size, size))
    squares = s.apply(
        "matmul", [s.mul(flat, flat), constant(band[None].astype(np.float32))], FLOAT32
    )
    base = s.add(s.mul(squares, alpha), bias)
    factor = power(s, base, constant(np.float32(-beta)))
    return movement.reshape(s, s.mul(flat, factor), x.shape)


RULES: Final[dict[str, Rule]] = {
    "SOFTMAX": either(_quantised_softmax, _softmax),
    "LOG_SOFTMAX": either(_quantised_log_softmax, lambda n: log_softmax(n.scope, n.array(0))),
    "L2_NORMALIZATION": either(_quantised_normalized, _normalized),
    "LOCAL_RESPONSE_NORMALIZATION": _local_response,
}
