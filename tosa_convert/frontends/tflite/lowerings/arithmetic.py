"""The arithmetic of TFLite's kernels: how they round, and multiply integers by quotients."""

from __future__ import annotations

import math
import struct
from typing import Final

#: TOSA's limit of RESCALE.
_LARGEST_SHIFT: Final = 62
#: Type -> its lowest and its highest element.
RANGES: Final = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767)}
#: Unsigned type -> how much smaller its elements are inside of the program, where they are signed.
OFFSETS: Final = {"uint8": 128, "uint16": 32768}
#: Codes of activations -> the lowest and the highest number; None where there is none.
ACTIVATIONS: Final[dict[int, tuple[float | None, float | None]]] = {
    0: (None, None),
    1: (0.0, None),
    2: (-1.0, 1.0),
    3: (0.0, 6.0),
}


def rounded(number: float) -> int:
    """Round to the nearest integer; of halves to the one that is further from zero."""
    return int(math.copysign(math.floor(abs(number) + 0.5), number))


def single(number: float) -> float:
    """Round to the nearest number of FP32, with which TFLite computes."""
    return float(struct.unpack("<f", struct.pack("<f", number))[0])


def fixed_point(scale: float) -> tuple[int, int]:
    """Return the multiplier of 31 bits and the exponent of a scale: multiplier * 2 ** (exponent - 31).

    Example:
        >>> fixed_point(0.75), fixed_point(1.0)
        ((1610612736, 0), (1073741824, 1))
    """
    fraction, exponent = math.frexp(scale)
    multiplier = rounded(fraction * 2**31)
    return (multiplier // 2, exponent + 1) if multiplier == 2**31 else (multiplier, exponent)


def multiplier_and_shift(scale: float, result: float) -> tuple[int, int] | None:
    """Return RESCALE's multiplier and shift from one scale to another; None if TOSA has none."""
    if not scale or not result:
        return None
    multiplier, exponent = fixed_point(scale / result)
    shift = 31 - exponent
    return (multiplier, shift) if 2 <= shift <= _LARGEST_SHIFT else None


def narrow_multiplier_and_shift(scale: float, result: float) -> tuple[int, int] | None:
    """Return multiplier and shift for sums of 64 bits, which TFLite multiplies by 15 bits; or None."""
    wide = multiplier_and_shift(scale, result)
    if wide is None or wide[1] < 16 + 2:
        return None
    multiplier, shift = wide
    narrow = (multiplier + (1 << 15)) >> 16 if multiplier < 0x7FFF0000 else 0x7FFF
    return narrow, shift - 16


def scaled_down(value: int, scale: float) -> int:
    """Multiply an integer by a number below 1, rounding to 31 bits and then to an integer."""
    multiplier, exponent = fixed_point(scale)
    product = abs(value) * multiplier
    # Of a half that is negative, the upper part of the product is the number closer to zero.
    once = (product + (1 << 30) - (value < 0)) >> 31
    size = (once + (1 << -exponent >> 1)) >> -exponent
    return -size if value < 0 else size
