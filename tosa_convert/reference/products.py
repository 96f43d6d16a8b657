"""Products of matrices through BLAS; those of integers are exact."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tosa_convert.reference.call import Array

#: Bits of a sum that FP32 and FP64 hold exactly.
_EXACT: Final = ((np.float32, 1 << 24), (np.float64, 1 << 53))
#: Fewer terms than this are not worth a product of their own.
_LEAST_TERMS: Final = 64


class Products:
    """Multiplies matrices of two tensors, in the fastest type that gives exact sums of integers.

    kind: the type that operands are converted to.
    terms: how many products of elements are added exactly in this type.
    """

    def __init__(self, left: Array, right: Array, terms: int) -> None:
        self.kind: np.dtype[Any] = np.result_type(left, right)
        self.terms = self._count = terms
        self._is_integer = self.kind.kind != "f"
        if not self._is_integer:
            return
        largest = max(1, largest_of(left)) * max(1, largest_of(right))
        for kind, exact in _EXACT:
            self.kind, self.terms = np.dtype(kind), exact // largest
            if self.terms >= min(terms, _LEAST_TERMS):
                return
        self.kind, self.terms = np.dtype(np.int64), terms

    @property
    def sum_kind(self) -> np.dtype[Any]:
        """Return the type that holds the sum of all terms exactly."""
        return self.kind if self.terms >= self._count else np.dtype(np.int64)

    def convert(self, array: Array) -> Array:
        """Return a tensor in the type of the products."""
        return array.astype(self.kind, copy=False)

    def multiply(self, left: Array, right: Array) -> Array:
        """Return left @ right, in INT64 if the operands are integers."""
        count = left.shape[-1]
        if self.terms >= count:
            return self._finish(left @ right)
        total: Array | None = None
        for start in range(0, count, self.terms):
            end = min(start + self.terms, count)
            part = self._finish(left[..., start:end] @ right[..., start:end, :])
            total = part if total is None else total + part
        assert total is not None
        return total

    def _finish(self, product: Array) -> Array:
        return product.astype(np.int64, copy=False) if self._is_integer else product


def largest_of(array: Array) -> int:
    """Return the largest absolute value."""
    return max(abs(int(array.min())), abs(int(array.max()))) if array.size else 0
