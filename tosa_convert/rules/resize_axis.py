"""Positions of RESIZE along an axis: element i is at (i * denominator + offset) / numerator.

Source: RESIZE in the TOSA specification, with the scale numerator / denominator.
"""

from __future__ import annotations

from typing import Final

from tosa_convert.records import NamedTuple

LARGEST_NUMERATOR: Final = 1 << 11
#: A denominator, an offset and a border are below so many numerators, or above so many negative ones.
RATIO: Final = 16


def distance(size: int, numerator: int, offset: int, border: int) -> int:
    """Return the distance from the first to the last position, in elements times the numerator.

    Example:
        >>> distance(4, 2, 0, 1)
        7
    """
    return (size - 1) * numerator - offset + border


class ResizeAxis(NamedTuple):
    """What RESIZE has for an axis: the scale as a fraction, offset and border."""

    numerator: int
    denominator: int
    offset: int
    border: int

    @classmethod
    def between(
        cls, size: int, result: int, numerator: int, denominator: int, offset: int
    ) -> ResizeAxis:
        """Return the numbers with the border that gives a result of a size.

        Example:
            >>> ResizeAxis.between(4, 8, 2, 1, 0)
            ResizeAxis(numerator=2, denominator=1, offset=0, border=1)
        """
        border = (result - 1) * denominator - distance(size, numerator, offset, 0)
        return cls(numerator, denominator, offset, border)

    def is_allowed(self) -> bool:
        """Return whether TOSA allows the numbers."""
        most = RATIO * self.numerator
        return (
            self.numerator <= LARGEST_NUMERATOR
            and 0 < self.denominator < most
            and -self.numerator <= self.offset < most
            and -most <= self.border < self.numerator
        )
