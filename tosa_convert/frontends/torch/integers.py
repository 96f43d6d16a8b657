"""Operators of integers that torch-mlir does not lower, or takes for those of signed numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

_WIDE: Final = torch.int32


def by_signed_numbers(operator: Any, *, keeps_type: bool) -> Callable[..., Any]:
    """Return an operator of uint8 in the wider type, in which unsigned numbers are positive.

    keeps_type: its result has the operands' type.
    """

    def decomposed(x: Any, *others: Any, **keywords: Any) -> Any:
        if x.dtype != torch.uint8:
            return NotImplemented
        wide = [_wide(one) for one in others]
        result = operator(_wide(x), *wide, **keywords)
        return result.to(torch.uint8) if keeps_type else result

    return decomposed


def _wide(value: Any) -> Any:
    is_unsigned = isinstance(value, torch.Tensor) and value.dtype == torch.uint8
    return value.to(_WIDE) if is_unsigned else value


def largest_without_nan(x: Any, y: Any) -> Any:
    """`fmax`: of a number and NaN the number."""
    return _extreme(x, y, torch.maximum)


def smallest_without_nan(x: Any, y: Any) -> Any:
    """`fmin`: of a number and NaN the number."""
    return _extreme(x, y, torch.minimum)


def _extreme(x: Any, y: Any, operator: Any) -> Any:
    x, y = torch.broadcast_tensors(x, y)
    if not x.is_floating_point():
        return operator(x, y)
    return torch.where(x != x, y, torch.where(y != y, x, operator(x, y)))


def shift_left(x: Any, count: Any) -> Any:
    """`<<` by a number, as a product."""
    if not isinstance(count, int) or not 0 <= count < 31 or x.dtype == torch.uint8:
        return NotImplemented
    return x * (1 << count)


def shift_right(x: Any, count: Any) -> Any:
    """`>>` by a number, as a quotient that is rounded down."""
    if not isinstance(count, int) or not 0 <= count < 31 or x.dtype == torch.uint8:
        return NotImplemented
    return torch.div(x, 1 << count, rounding_mode="floor")


def product_of_matrices(x: Any, y: Any) -> Any:
    """Multiply matrices of integers: TOSA multiplies those of 8 and 16 bits only."""
    if x.is_floating_point() or x.dtype in (torch.int8, torch.uint8, torch.bool):
        return NotImplemented
    products = x.unsqueeze(-1) * y.unsqueeze(-3)
    return products.sum(-2, dtype=x.dtype)
