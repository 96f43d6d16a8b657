"""Amounts of memory and work, exact or lower bounds. Kernels are multiplied at padding, too."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from tosa_convert.graph.model import DYNAMIC
from tosa_convert.rules.families.checks import known, merged
from tosa_convert.rules.operator_view import Size

if TYPE_CHECKING:
    from tosa_convert.graph.model import Block, Operator


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


def multiply_accumulates(operator: Operator, block: Block) -> Amount | None:
    """Return the multiply-accumulates of an operator, or None if its row does not count them."""
    spec = operator.spec
    if not spec.multiply_accumulates:
        return None
    names = {
        row.name: name
        for rows, values in ((spec.operands, operator.inputs), (spec.results, operator.outputs))
        for row, name in zip(rows, values, strict=False)
    }
    sizes: dict[str, int] = {}
    rank = -1
    for operand, letters in spec.multiply_accumulates.items():
        tensor = block.tensors.get(names.get(operand, ""))
        shape = None if tensor is None else tensor.shape
        if letters[0] == "*" and shape is not None and len(shape) >= len(letters) - 1:
            batches = shape[: len(shape) - len(letters) + 1]
            is_result = operand == spec.results[0].name
            rank = len(shape) if is_result else rank
            # Those of an operand are broadcast, unless they are those of the result.
            is_known = is_result or (len(shape) == rank and 1 not in batches)
            count = prod(batches) if is_known and DYNAMIC not in batches else DYNAMIC
            shape = (count, *shape[len(batches) :])
        if shape is None or len(shape) != len(letters):
            shape = (DYNAMIC,) * len(letters)
        for letter, size in zip(letters, shape, strict=True):
            sizes[letter] = merged(sizes.get(letter, DYNAMIC), size)
    sizes.pop(".", None)
    for group in [letters for letters in sizes if len(letters) > 1]:
        # Of a product, either the number is known or its factors are.
        for unused in (group,) if sizes[group] == DYNAMIC else group:
            del sizes[unused]
    return product(sizes.values())
