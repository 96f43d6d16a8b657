"""Functions as TFLite's kernels compute them in integers, with gemmlowp's fixed point.

A number with so many integer bits is an int16 of `15 - bits` fraction bits, or an int32 of `31 - bits`.
The functions of gates are tables of all 65,536 inputs, from the lowest: TOSA's TABLE of int16 has 513
elements and interpolates, which gives other numbers.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tosa_convert.builder.rescale import fixed_point
from tosa_convert.frontends.tflite.scales import rounded

_Int = npt.NDArray[np.int64]

_BITS: Final = 15
_LARGEST: Final = (1 << _BITS) - 1
_FINE: Final = 1 << 31
#: exp(-2 ** n) with 31 fraction bits, from n = -2 on.
_POWERS: Final = tuple(round(math.exp(-(2.0**power)) * _FINE) for power in range(-2, 7))
#: exp(-1/8) and 1/3 with 31 fraction bits; 48/17 and -32/17 with 29.
_EXP_EIGHTH: Final = round(math.exp(-1 / 8) * _FINE)
_THIRD: Final = round(_FINE / 3)
START: Final = round(48 / 17 * (1 << 29))
SLOPE: Final = round(-32 / 17 * (1 << 29))
#: Integer bits of the input of LOGISTIC, and of TANH as a gate's activation.
GATE_BITS: Final = 3


@cache
def logistic_table() -> npt.NDArray[np.int16]:
    """Return 1 / (1 + exp(-x)) of all x with 3 integer bits, with none."""
    x = _inputs()
    above = _inverse(_exponential(-np.abs(x), GATE_BITS), 1, 0)
    below = np.where(x < 0, _LARGEST - above, 1 << (_BITS - 1))
    return np.where(x > 0, above, below).astype(np.int16)


@cache
def tanh_table(bits: int) -> npt.NDArray[np.int16]:
    """Return tanh(x) of all x with so many integer bits, with none."""
    x = _inputs()
    below = _inverse(_exponential(-np.abs(x), bits + 1), 2, 1 << 13)
    return (np.sign(x) * below).astype(np.int16)


def _inputs() -> _Int:
    return np.arange(-_LARGEST - 1, _LARGEST + 1, dtype=np.int64)


def _narrow(constant: int, width: int = _BITS) -> int:
    """Round a constant of 32 bits to 16, halves away from zero."""
    return constant if width > _BITS else rounded(constant / (1 << 16))


def _product(x: _Int, y: _Int | int, width: int = _BITS) -> _Int:
    """Return the upper half of twice the product, rounded."""
    found: _Int = x * y + (1 << (width - 1)) >> width
    return found


def _shifted_left(x: _Int, bits: int, width: int = _BITS) -> _Int:
    """Multiply by a power of 2, up to the largest number of 16 bits or 32; none is too small."""
    return np.minimum(x << bits, (1 << width) - 1)


def shifted_right(x: _Int, bits: Any) -> _Int:
    """Divide by a power of 2, rounding halves away from zero."""
    found: _Int = np.sign(x) * (np.abs(x) + (np.int64(1) << bits >> 1) >> bits)
    return found


def _exponential(x: _Int, bits: int, width: int = _BITS) -> _Int:
    """Return exp(x) of x <= 0 with so many integer bits, with none."""
    fraction, most = width - bits, (1 << width) - 1
    quarter = 1 << (fraction - 2)
    rest = (x & (quarter - 1)) - quarter
    # A Taylor series around -1/8, of a number from -1/4 to 0.
    near = (rest << bits) + (1 << (width - 3))
    square = _product(near, near, width)
    cube, fourth = _product(square, near, width), _product(square, square, width)
    third = _product(shifted_right(fourth, 2) + cube, _narrow(_THIRD, width), width)
    terms = near + shifted_right(third + square, 1)
    first = _narrow(_EXP_EIGHTH, width)
    result = first + _product(terms, first, width)
    # Times the powers of e that the bits of what is left say.
    left = rest - x
    for exponent, power in enumerate(_POWERS, -2):
        is_set = (left >> (fraction + exponent)) & 1 != 0
        result = np.where(is_set, _product(result, _narrow(power, width), width), result)
    return np.where(x == 0, most, result)


#: Integer bits of the distances of SOFTMAX, and those of the sums of its exponentials.
_DISTANCE_BITS: Final = 5
SUM_BITS: Final = 12


@cache
def exponentials(scale: float) -> npt.NDArray[np.int32]:
    """Return exp(scale * d) of 31 bits, for d from -255 to 0; 0 where it is too small."""
    real = scale * (1 << (31 - _DISTANCE_BITS))
    if real <= 1:
        raise ValueError("a scale that is too small")
    multiplier, left = fixed_point(real)
    least = -math.floor(((1 << _DISTANCE_BITS) - 1) * (1 << (31 - _DISTANCE_BITS)) / (1 << left))
    distance = np.arange(-255, 1, dtype=np.int64)
    inside = np.maximum(distance, least)
    scaled = ((inside << left) * multiplier + (1 << 30)) >> 31
    found = np.where(distance < least, 0, _exponential(scaled, _DISTANCE_BITS, 31))
    return found.astype(np.int32)


def _inverse(x: _Int, bits: int, less: int) -> _Int:
    """Return 2 ** bits / (1 + x) - less of x from 0 to 1, by three of Newton's steps.

    TANH is 2 / (1 + x) - 1, LOGISTIC 1 / (1 + x); `less` has 13 fraction bits.
    """
    half = x + _LARGEST + 1 >> 1
    one = 1 << 13
    found = _narrow(START) + _product(half, _narrow(SLOPE))
    for _ in range(3):
        found = found + (_product(found, one - _product(half, found)) << 2)
    return _shifted_left(found - less, bits)


def quotients(x: _Int, by: int, scale: tuple[int, int]) -> _Int:
    """Return x / by times a scale, the reciprocal by three of Newton's steps; x / 0 is undefined."""
    if by == 0:
        return np.zeros_like(x)
    x, by = (-x, -by) if by < 0 else (x, by)
    zeros = 32 - by.bit_length()
    half = np.array((by << zeros) >> 1, np.int64)
    inverse = START + _product(half, SLOPE, 31)
    for _ in range(3):
        rest = (1 << 29) - _product(half, inverse, 31)
        inverse = inverse + (_product(inverse, rest, 31) << 2)
    inverse = _shifted_left(inverse, 1, 31)
    bits = np.frexp(np.where(x < 0, -x - 1, x).astype(np.float64))[1]
    headroom = 31 - bits
    once = _product(_product(x << headroom, inverse, 31), scale[0], 31)
    return shifted_right(once, (31 - zeros) + headroom - scale[1])
