"""The arithmetic of TFLite's kernels: how they round, and multiply integers by quotients."""

from __future__ import annotations

import math
import struct
from typing import Final

from tosa_convert.frontends.tflite.file import Operator

#: TOSA's limit of RESCALE.
_LARGEST_SHIFT: Final = 62


def rounded(number: float) -> int:
    """Round to the nearest integer; of halves to the one that is further from zero."""
    return int(math.copysign(math.floor(abs(number) + 0.5), number))


def single(number: float) -> float:
    """Round to the nearest number of FP32, with which TFLite computes."""
    return float(struct.unpack("<f", struct.pack("<f", number))[0])


def multiplier_and_shift(scale: float, result: float) -> list[int]:
    """Multiplier and shift of RESCALE from one scale to another; [] if TOSA does not have them."""
    if not scale or not result:
        return []
    fraction, exponent = math.frexp(scale / result)
    multiplier, shift = round(fraction * 2**31), 31 - exponent
    if multiplier == 2**31:
        multiplier, shift = multiplier // 2, shift - 1
    return [multiplier, shift] if 2 <= shift <= _LARGEST_SHIFT else []


def narrow_multiplier_and_shift(scale: float, result: float) -> list[int]:
    """Return multiplier and shift for sums of 64 bits, which TFLite multiplies by 15 bits; or []."""
    wide = multiplier_and_shift(scale, result)
    if not wide or wide[1] < 16 + 2:
        return []
    multiplier, shift = wide
    narrow = (multiplier + (1 << 15)) >> 16 if multiplier < 0x7FFF0000 else 0x7FFF
    return [narrow, shift - 16]


def scaled_down(value: int, scale: float) -> int:
    """Multiply an integer by a number below 1, rounding to 31 bits and then to an integer."""
    fraction, exponent = math.frexp(scale)
    multiplier, shift = rounded(fraction * 2**31), -exponent
    if multiplier == 2**31:
        multiplier, shift = multiplier // 2, shift - 1
    product = abs(value) * multiplier
    # Of a half that is negative, the upper part of the product is the number closer to zero.
    once = (product + (1 << 30) - (value < 0)) >> 31
    size = (once + (1 << shift >> 1)) >> shift
    return -size if value < 0 else size


def option(operator: Operator, position: int, form: str = "i", default: int = 0) -> int:
    """Return an option of an operator, by its position in the schema."""
    return default if operator.options is None else operator.options.number(position, form, default)
