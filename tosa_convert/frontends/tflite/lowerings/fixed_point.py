"""Functions of 16 bits as TFLite's recurrent kernels compute them, with gemmlowp's fixed point.

A number with so many integer bits is an int16 of `15 - bits` fraction bits. The functions here are
tables of all 65,536 inputs, from the lowest: TOSA's TABLE of int16 has 513 elements and interpolates,
which gives other numbers.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

_Int = npt.NDArray[np.int64]

_BITS: Final = 15
_LARGEST: Final = (1 << _BITS) - 1
#: exp(-2 ** n) with 31 fraction bits, from n = -2 on.
_POWERS: Final = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
#: exp(-1/8) and 1/3 with 31 fraction bits; 48/17 and -32/17 with 29.
_EXP_EIGHTH: Final = 1895147668
_THIRD: Final = 715827883
_START, _SLOPE = 1515870810, -1010580540
#: Integer bits of the input of LOGISTIC, and of TANH as a gate's activation.
GATE_BITS: Final = 3
#: Most integer bits of a TANH; with more, TFLite's kernel does nothing.
MOST_BITS: Final = 6


@cache
def logistic_table() -> npt.NDArray[np.int16]:
    """Return 1 / (1 + exp(-x)) of all x with 3 integer bits, with none."""
    x = _inputs()
    above = _inverse(_exponential(-np.abs(x), GATE_BITS), 1, 0)
    result = np.where(x > 0, above, _LARGEST - above)
    return np.where(x == 0, 1 << (_BITS - 1), result).astype(np.int16)


@cache
def tanh_table(bits: int) -> npt.NDArray[np.int16]:
    """Return tanh(x) of all x with so many integer bits, with none."""
    x = _inputs()
    below = _inverse(_exponential(-np.abs(x), bits + 1), 2, 1 << 13)
    return np.where(x == 0, 0, np.where(x < 0, -below, below)).astype(np.int16)


def _inputs() -> _Int:
    return np.arange(-_LARGEST - 1, _LARGEST + 1, dtype=np.int64)


def _narrow(constant: int) -> int:
    """Round a constant of 32 bits to 16, halves away from zero."""
    size = abs(constant) + (1 << 15) >> 16
    return size if constant > 0 else -size


def _product(x: _Int, y: _Int | int) -> _Int:
    """Return the upper half of twice the product, rounded."""
    found: _Int = np.minimum(x * y + (1 << (_BITS - 1)) >> _BITS, _LARGEST)
    return found


def _shifted_left(x: _Int, bits: int) -> _Int:
    """Multiply by a power of 2, within 16 bits."""
    limit = (1 << (_BITS - bits)) - 1
    return np.where(x > limit, _LARGEST, np.where(x < -limit, -_LARGEST - 1, x << bits))


def _shifted_right(x: _Int, bits: int) -> _Int:
    """Divide by a power of 2, rounding halves away from zero."""
    found: _Int = np.sign(x) * (np.abs(x) + (1 << bits >> 1) >> bits)
    return found


def _exponential(x: _Int, bits: int) -> _Int:
    """Return exp(x) of x <= 0 with so many integer bits, with none."""
    fraction = _BITS - bits
    quarter = 1 << (fraction - 2)
    rest = (x & (quarter - 1)) - quarter
    # A Taylor series around -1/8, of a number from -1/4 to 0.
    near = _shifted_left(rest, bits) + (1 << (_BITS - 3))
    square = _product(near, near)
    cube, fourth = _product(square, near), _product(square, square)
    third = _product(_shifted_right(fourth, 2) + cube, _narrow(_THIRD))
    terms = near + _shifted_right(third + square, 1)
    first = _narrow(_EXP_EIGHTH)
    result = np.minimum(first + _product(terms, first), _LARGEST)
    # Times the powers of e that the bits of what is left say.
    left = rest - x
    for exponent, power in enumerate(_POWERS, -2):
        if bits > exponent:
            is_set = (left >> (fraction + exponent)) & 1 != 0
            result = np.where(is_set, _product(result, _narrow(power)), result)
    if bits > 5:
        result = np.where(x < -(32 << fraction), 0, result)
    return np.where(x == 0, _LARGEST, result)


def _inverse(x: _Int, bits: int, less: int) -> _Int:
    """Return 2 ** bits / (1 + x) - less of x from 0 to 1, by three of Newton's steps.

    TANH is 2 / (1 + x) - 1, LOGISTIC 1 / (1 + x); `less` has 13 fraction bits.
    """
    half = x + _LARGEST + 1 >> 1
    one = 1 << 13
    found = _narrow(_START) + _product(half, _narrow(_SLOPE))
    for _ in range(3):
        found = found + _shifted_left(_product(found, one - _product(half, found)), 2)
    return _shifted_left(found - less, bits)
