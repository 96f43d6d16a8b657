"""Decompositions of L2_NORMALIZATION and LOG_SOFTMAX of 8 bits.

L2_NORMALIZATION has the integers of TFLite's kernel, which multiplies by the inverse root of a sum of
squares, and finds it by five of Newton's steps in fixed point. LOG_SOFTMAX has FP32: by experiment,
TFLite's kernel rounds the exact function. A result in the middle of two steps can be the other one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from tosa_convert.builder import Builder
from tosa_convert.builder.values import Value
from tosa_convert.frontends.tflite.decomposition import Decompose, Given

#: Numbers of 3 bits before the point.
_ONE: Final = 1 << 28
_THREE_HALVES: Final = 3 << 27
#: Numbers of no bits before the point: the root of 1/2, and the largest one.
_HALF_ROOT: Final = 1518500250
_LARGEST: Final = (1 << 31) - 1
_STEPS: Final = 5
#: By how many bits a number of 9 bits before the point is shifted to have 3.
_CUBE_SHIFT: Final = 6
_PRODUCT_SHIFT: Final = 3
#: Steps of LOG_SOFTMAX's result to 1.
_LOG_STEPS: Final = 16.0


def _product(b: Builder, x: Value, y: Value | int) -> Value:
    """Return the upper half of a product, rounded."""
    return b.mul(x, y, 31)


def _inverse_root(b: Builder, total: Value) -> tuple[Value, Value]:
    """1 / sqrt(total) as a multiplier, and how far its product is to be shifted to the right."""
    # The sum is shifted by pairs of bits until it has 28 or 29 bits.
    zeros = b.clz(total)
    pairs = b.sub(b.arithmetic_right_shift(b.sub(zeros, 1), 1, round=False), 1)
    shift = b.sub(11, pairs)
    scaled = b.logical_left_shift(total, b.add(pairs, pairs))
    number = b.arithmetic_right_shift(scaled, 1, round=False)
    half = b.arithmetic_right_shift(number, 1, round=True)
    x = b.const(np.full((1,) * len(total.shape or ()), _ONE, np.int32))
    for _ in range(_STEPS):
        cube = _product(b, _product(b, x, x), x)
        is_large = b.greater(cube, _LARGEST >> _CUBE_SHIFT)
        cube = b.select(is_large, _LARGEST, b.logical_left_shift(cube, _CUBE_SHIFT))
        rest = b.sub(_product(b, x, _THREE_HALVES), _product(b, half, cube))
        x = b.logical_left_shift(rest, _PRODUCT_SHIFT)
    root = _product(b, x, _HALF_ROOT)
    none = b.maximum(b.sub(0, shift), 0)
    root, shift = b.logical_left_shift(root, none), b.maximum(shift, 0)
    is_tiny = b.greater(2, total)
    return b.select(is_tiny, _LARGEST, root), b.select(is_tiny, 0, shift)


def _normalized(b: Builder, given: Given) -> list[Value]:
    axis = len(given.shape) - 1
    is_unsigned = given.facts["dtype"] == "uint8"
    x = given.operands[0]
    if is_unsigned:
        x = b.bitwise_xor(x, -128)
    numbers = b.sub(b.cast(x, dtype="int32"), given.facts["zero_point"])
    root, shift = _inverse_root(b, b.reduce_sum(b.mul(numbers, numbers), axis=axis))
    # The result has 7 bits after the point. The kernels shift by them before, or together with the root.
    if is_unsigned:
        left, right = b.const(np.full((1,) * len(given.shape), 7, np.int32)), shift
    else:
        left, right = b.maximum(b.sub(7, shift), 0), b.maximum(b.sub(shift, 7), 0)
    found = _product(b, b.logical_left_shift(numbers, left), root)
    # Halves are rounded away from zero.
    size = b.abs(found)
    lower = b.arithmetic_right_shift(size, b.maximum(b.sub(right, 1), 0), round=False)
    rounded = b.arithmetic_right_shift(lower, b.minimum(right, 1), round=True)
    signed = b.select(b.greater(0, found), b.sub(0, rounded), rounded)
    result = b.cast(b.minimum(b.maximum(signed, -128), 127), dtype="int8")
    return [b.bitwise_xor(result, -128) if is_unsigned else result]


def _log_softmax(b: Builder, given: Given) -> list[Value]:
    axis = len(given.shape) - 1
    is_unsigned = given.facts["dtype"] == "uint8"
    x = b.bitwise_xor(given.operands[0], -128) if is_unsigned else given.operands[0]
    wide = b.cast(x, dtype="int32")
    steps = b.cast(b.sub(wide, b.reduce_max(wide, axis=axis)), dtype="fp32")
    distance = b.mul(steps, given.facts["scale"])
    total = b.log(b.reduce_sum(b.exp(distance), axis=axis))
    # CAST rounds to the nearest, of halves to the even one, as the kernel does.
    rounded = b.cast(b.mul(b.sub(distance, total), _LOG_STEPS), dtype="int32")
    result = b.cast(b.maximum(b.add(rounded, 127), -128), dtype="int8")
    return [b.bitwise_xor(result, -128) if is_unsigned else result]


KINDS: Final[Mapping[str, Decompose]] = {
    "L2_NORMALIZATION": _normalized,
    "LOG_SOFTMAX": _log_softmax,
}
