"""Compute the multiplier and the shift of a RESCALE from a scale that is a real number."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[Any]


def fixed_points(scales: npt.ArrayLike) -> tuple[Numbers, Numbers]:
    """Return multipliers of 31 bits and exponents of scales: multiplier * 2 ** (exponent - 31).

    The shift of RESCALE is 31 - exponent. Halves round away from zero, as in TFLite. Raises
    OverflowError for infinities and NaN.

    Example:
        >>> [numbers.tolist() for numbers in fixed_points([0.75, 1.0])]
        [[1610612736, 1073741824], [0, 1]]
    """
    numbers = np.asarray(scales, np.float64)
    if not np.isfinite(numbers).all():
        raise OverflowError("a scale that is not finite")
    fractions, exponents = np.frexp(numbers)
    sizes = np.floor(np.abs(fractions) * 2.0**31 + 0.5)
    multipliers = np.copysign(sizes, fractions).astype(np.int64)
    above = multipliers == 1 << 31
    return np.where(above, 1 << 30, multipliers), exponents + above


def fixed_point(scale: float) -> tuple[int, int]:
    """Return the multiplier and the exponent of one scale; see `fixed_points`.

    Example:
        >>> fixed_point(0.75), fixed_point(1.0)
        ((1610612736, 0), (1073741824, 1))
    """
    multiplier, exponent = fixed_points(scale)
    return int(multiplier), int(exponent)
