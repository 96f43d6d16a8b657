"""Numbers that are known, or of which only a lower bound is known because sizes are dynamic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tosa_convert.rules.families.core import known
from tosa_convert.rules.values import Size


@dataclass(frozen=True, slots=True)
class Amount:
    """A number. If it is not exact, the true number is at least as large.

    Example:
        >>> print(Amount(1200), Amount(1200, exact=False))
        1,200 at least 1,200
        >>> Amount(2) + Amount(3, exact=False)
        Amount(value=5, exact=False)
    """

    value: int
    exact: bool = True

    def __str__(self) -> str:
        return f"{'' if self.exact else 'at least '}{self.value:,}"

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.value + other.value, self.exact and other.exact)


def total(amounts: Iterable[Amount]) -> Amount:
    """Return the sum of amounts.

    Example:
        >>> total([Amount(1), Amount(2)])
        Amount(value=3, exact=True)
    """
    return sum(amounts, Amount(0))


def product(sizes: Iterable[Size]) -> Amount:
    """Return the product of sizes. An unknown size is at least 1, because TOSA has no empty tensors.

    Example:
        >>> product((2, 3)), product((2, None)), product(())
        (Amount(value=6, exact=True), Amount(value=2, exact=False), Amount(value=1, exact=True))
    """
    value, exact = 1, True
    for size in sizes:
        if size is not None and known(size):
            value *= max(0, size)
        else:
            exact = False
    return Amount(value, exact)
