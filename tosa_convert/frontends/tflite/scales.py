"""The arithmetic of TFLite's kernels: how they round, and multiply integers by quotients."""

from __future__ import annotations

import math
import struct
from typing import Final

import numpy as np

from tosa_convert.builder.rescale import fixed_point
from tosa_convert.frontends.lowering.scope import NotLowered

#: RESCALE's multiplier and shift.
Scale = tuple[int, int]
#: Of the scales that RESCALE takes.
_LARGEST_EXPONENT: Final = 29
_USUAL: Final = "quantise with scales of a usual size"
#: Type -> its lowest and its highest element.
RANGES: Final = {
    name: (int(np.iinfo(name).min), int(np.iinfo(name).max)) for name in ("int8", "uint8", "int16")
}
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


def rescale_of(scale: float) -> Scale:
    """Return RESCALE's multiplier and shift of a scale; TFLite multiplies by 0 below 2 ** -31.

    Example:
        >>> rescale_of(0.75), rescale_of(1e-12)
        ((1610612736, 31), (0, 31))
    """
    if not 0 <= scale < math.inf:
        raise NotLowered(f"its scales have the quotient {scale}", _USUAL)
    multiplier, exponent = fixed_point(scale)
    if exponent < -31:
        return 0, 31
    if exponent > _LARGEST_EXPONENT:
        raise NotLowered(f"TOSA's RESCALE does not multiply by {scale:g}", _USUAL)
    return multiplier, 31 - exponent


def narrow_rescale_of(scale: float) -> Scale:
    """Return multiplier and shift for sums of 64 bits, which TFLite multiplies by 15 bits."""
    multiplier, shift = rescale_of(scale)
    if shift - 16 < 31 - _LARGEST_EXPONENT:
        raise NotLowered(f"TOSA's RESCALE does not multiply INT48 by {scale:g}", _USUAL)
    return narrowed(multiplier), shift - 16


def narrowed(multiplier: int) -> int:
    """Round a multiplier of 31 bits to 15."""
    return min((multiplier + (1 << 15)) >> 16, (1 << 15) - 1)
