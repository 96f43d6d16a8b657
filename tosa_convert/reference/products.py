"""Products of matrices through BLAS; those of integers are exact."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tosa_convert.reference.call import Array
from tosa_convert.reference.parts import PART, slices

#: Bits of a sum that FP32 and FP64 hold exactly.
_EXACT: Final = ((np.float32, 1 << 24), (np.float64, 1 << 53))
#: Fewer terms than this are not worth a product of their own.
_LEAST_TERMS: Final = 64


class Products:
    """Multiplies by a matrix, in the fastest type that gives exact sums of integers.

    kind: the type that operands are converted to.
    """

    def __init__(self, largest: int | None, right: Array, point: int = 0) -> None:
        """Choose the type."""
        self._count = terms = right.shape[-2]
        self._is_integer = largest is not None
        self._largest_sum = 0
        self.kind: np.dtype[Any] = right.dtype
        self.terms = terms
        if largest is None:
            return
        largest, most = max(1, largest), max(1, largest_of(right, point))
        sum_of_all = most * terms
        if largest * sum_of_all >= _EXACT[0][1] >= largest * most * _LEAST_TERMS:
            sum_of_all = _largest_sum(right, point)
        for kind, exact in _EXACT:
            self.kind = np.dtype(kind)
            self.terms = terms
            if largest * sum_of_all < exact:
                self._largest_sum = largest * sum_of_all
                return
            self.terms = exact // (largest * most)
            if self.terms >= min(terms, _LEAST_TERMS):
                return
        self.kind, self.terms = np.dtype(np.int64), terms

    @property
    def sum_kind(self) -> np.dtype[Any]:
        """Return the type that holds the sum of all terms exactly."""
        return self.kind if self.terms >= self._count else np.dtype(np.int64)

    def whole_kind(self, bias: Array, result: np.dtype[Any]) -> np.dtype[Any]:
        """Return the type in which a bias is added to the sums of all terms, for a result of a type."""
        if not self._is_integer:
            return self.kind
        if self.sum_kind != np.float32 or result != np.int32:
            return np.dtype(np.int64)
        # Sums that FP32 holds fit INT32, in which the bias may wrap around, as in the result.
        is_exact = self._largest_sum + largest_of(bias) < _EXACT[0][1]
        return self.kind if is_exact else result

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
            total = part if total is None else np.add(total, part, out=total)
        assert total is not None
        return total

    def _finish(self, product: Array) -> Array:
        return product.astype(np.int64, copy=False) if self._is_integer else product


def _largest_sum(matrix: Array, point: int) -> int:
    """Return a bound of the sums of the absolute values of columns without their zero point."""
    sums = np.zeros(matrix.shape[1], np.float64)
    for part in slices(matrix.shape, PART, whole=1):
        values = matrix[part].astype(np.float32)
        values -= point
        sums += np.abs(values, out=values).sum(axis=0)
    # Sums in FP32 are rounded by far less than 1 %.
    return int(float(sums.max(initial=1.0)) * 1.01)


def largest_of(array: Array, point: int = 0) -> int:
    """Return the largest absolute value of an array without its zero point; of INT8 a bound."""
    if not array.size:
        return 0
    if array.dtype == np.int8:
        return 128 + abs(point)
    return max(abs(int(array.min()) - point), abs(int(array.max()) - point))
