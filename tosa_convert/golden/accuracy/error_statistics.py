"""How large the errors of a tensor are: mean, largest, quantiles, signal-to-noise ratio, cosine.

The errors are added part by part, so memory does not grow with the tensor.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from tosa_convert.golden.accuracy.user_tolerances import is_integer
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.records import dataclass

#: The fractions of the elements for which the largest error is stated.
QUANTILES: Final = (0.5, 0.9, 0.99)
#: Bins of the histogram of errors: the upper 16 bits of a positive float32, 1/128 wide.
_BINS: Final = 1 << 15


@dataclass(frozen=True, slots=True)
class ErrorStatistics:
    """The absolute differences of two arrays where both are finite.

    mean, largest: of the differences. quantiles: a difference that QUANTILES of the elements do not
        exceed, up to a hundredth of it. snr: the signal-to-noise ratio in decibels. cosine: of the
        angle between the two arrays as vectors; None if one of them is zero.
    """

    mean: float
    largest: float
    quantiles: tuple[float, ...]
    snr: float
    cosine: float | None

    def __str__(self) -> str:
        shares = ", ".join(
            f"{share:.0%} up to {value:.3g}"
            for share, value in zip(QUANTILES, self.quantiles, strict=True)
        )
        cosine = "" if self.cosine is None else f", cosine {self.cosine:.9g}"
        return f"error: mean {self.mean:.3g}, {shares}; SNR {self.snr:.1f} dB{cosine}"


class StatisticsBuilder:
    """Adds the parts of two arrays."""

    def __init__(self) -> None:
        self._count, self._sum, self._largest = 0, 0.0, 0.0
        self._noise = self._expected = self._found = self._product = 0.0
        self._histogram = np.zeros(_BINS, np.int64)
        self.lowest, self.highest, self.nans, self.elements = math.inf, -math.inf, 0, 0

    def add(self, expected: Array, found: Array) -> None:
        """Add one part. Both are float64."""
        self.elements += expected.size
        self.nans += int(np.count_nonzero(np.isnan(expected)))
        numbers = expected[~np.isnan(expected)]
        self.lowest = min(self.lowest, float(numbers.min(initial=math.inf)))
        self.highest = max(self.highest, float(numbers.max(initial=-math.inf)))
        finite = np.isfinite(expected) & np.isfinite(found)
        one, other = expected[finite], found[finite]
        error = np.abs(one - other)
        self._count += error.size
        with np.errstate(over="ignore", under="ignore"):
            self._sum += float(error.sum())
            self._noise += float(error @ error)
            self._expected += float(one @ one)
            self._found += float(other @ other)
            self._product += float(one @ other)
            codes = error.astype(np.float32).view(np.uint32) >> 16
        self._largest = max(self._largest, float(error.max(initial=0.0)))
        self._histogram += np.bincount(codes, minlength=_BINS)

    def result(self) -> ErrorStatistics:
        """Return the statistics of all values added."""
        count = max(self._count, 1)
        if self._noise:
            snr = 10 * math.log10(self._expected / self._noise) if self._expected else -math.inf
        else:
            snr = math.inf
        sizes = math.sqrt(self._expected) * math.sqrt(self._found)
        cosine = self._product / sizes if sizes and math.isfinite(sizes) else None
        quantiles = tuple(self._quantile(share) for share in QUANTILES)
        return ErrorStatistics(self._sum / count, self._largest, quantiles, snr, cosine)

    def _quantile(self, share: float) -> float:
        """Return the upper end of the histogram bin that contains this share of the elements."""
        if not self._count:
            return 0.0
        wanted = math.ceil(share * self._count)
        code = int(np.searchsorted(np.cumsum(self._histogram), wanted))
        if code == 0:
            return 0.0
        upper = np.array([(code + 1) << 16], np.uint32).view(np.float32)[0]
        return min(float(upper), self._largest)

    def vacuous(self) -> str:
        """Return why the expected array says little (all NaN, or one value everywhere), or ""."""
        if self.elements and self.nans == self.elements:
            return "every element of the golden answer is NaN"
        if self.elements > 1 and not self.nans and self.lowest == self.highest:
            return f"every element of the golden answer is {self.lowest:g}"
        return ""


def differences(one: Array, other: Array) -> tuple[Array, Array]:
    """Return |difference| and |expected| as float64; infinite where no tolerance would be enough."""
    if one.dtype == np.int64:
        # float64 does not hold every INT64; the difference of the upper halves does not matter here.
        difference = np.abs(one.astype(object) - other.astype(object)).astype(np.float64)
        return difference, np.abs(one.astype(np.float64))
    left, right = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(invalid="ignore"):
        difference = np.abs(left - right)
    return np.where(np.isnan(difference), np.inf, difference), np.abs(left)


def ulp_distance(one: Array, other: Array) -> float:
    """Return the largest distance in representable values; infinite for NaN.

    0 for integers, and for types below 8 bits and scales, whose codes are not in the values' order.
    """
    if is_integer(one.dtype) or one.dtype.name.startswith(("float4_", "float6_", "float8_e8")):
        return 0.0
    if np.isnan(one).any() or np.isnan(other).any():
        return math.inf
    width = one.dtype.itemsize * 8
    wide = np.int64 if width < 64 else object
    bits = [np.ascontiguousarray(a).view(f"i{width // 8}").astype(wide) for a in (one, other)]
    # From sign and magnitude to one number line: negative codes count downwards from zero.
    lowest = -(1 << (width - 1))
    lines = [np.where(b < 0, lowest - b, b) for b in bits]
    return float(np.abs(lines[0] - lines[1]).max())
