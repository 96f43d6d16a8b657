"""How the elements of two constants differ, block by block, so that memory does not grow with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.lazy_numpy import np
from tosa_convert.records import dataclass

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class ElementDifference:
    """How many elements of two constants of one type differ, and how far.

    elements: how many the constants have.
    different: how many differ in a bit. So -0.0 differs from 0.0, and two NaNs can differ.
    first: the index of the first that differs, in row-major order.
    nans: how many of those that differ are NaN in one constant or in both.
    max_absolute: the largest absolute difference of two numbers; None if there are only NaNs.
    max_relative: the largest absolute difference divided by the larger magnitude of the two numbers,
        from 0 to 2; None unless two finite numbers differ.
    """

    elements: int
    different: int
    first: int
    nans: int
    max_absolute: float | int | None
    max_relative: float | None


def element_difference(left: Constant, right: Constant) -> ElementDifference | None:
    """Return how the elements of two constants differ, or None if all are equal bit for bit.

    Example:
        >>> from tosa_convert.graph import dtype
        >>> left = Constant(dtype("INT8"), 4, bytes([1, 2, 3, 4]))
        >>> right = Constant(dtype("INT8"), 4, bytes([1, 2, 0, 4]))
        >>> element_difference(left, right)
        ElementDifference(elements=4, different=1, first=2, nans=0, max_absolute=3, max_relative=1.0)
    """
    if left.same_bits(right):
        return None
    total = _Total()
    start, width = 0, left.dtype.element_bytes
    pieces = zip(left.raw_blocks(), right.raw_blocks(), left.blocks(), right.blocks(), strict=True)
    for raw, other_raw, numbers, other_numbers in pieces:
        if not np.array_equal(raw, other_raw):
            different = (raw != other_raw).reshape(-1, width).any(axis=1)
            total.add(start, different, numbers[different], other_numbers[different])
        start += len(numbers)
    return ElementDifference(
        left.count, total.different, total.first, total.nans, total.absolute, total.relative
    )


class _Total:
    """What was found so far."""

    def __init__(self) -> None:
        self.different = self.nans = 0
        self.first = -1
        self.absolute: float | int | None = None
        self.relative: float | None = None

    def add(
        self,
        start: int,
        different: npt.NDArray[np.bool_],
        left: npt.NDArray[np.generic],
        right: npt.NDArray[np.generic],
    ) -> None:
        """Add the elements of a block that differ; start: the index of its first element."""
        if self.first < 0:
            self.first = start + int(different.argmax())
        self.different += len(left)
        if left.dtype.kind in "iub" or left.dtype.name == "int4":
            self._integers(left.astype(np.int64), right.astype(np.int64))
        else:
            self._floats(left.astype(np.float64), right.astype(np.float64))

    def _integers(self, left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]) -> None:
        # Exact in 64 bits without a sign, where a difference in int64 could overflow.
        high, low = np.maximum(left, right), np.minimum(left, right)
        distance = high.view(np.uint64) - low.view(np.uint64)
        self._keep(int(distance.max()))
        magnitude = np.maximum(np.abs(left.astype(np.float64)), np.abs(right.astype(np.float64)))
        self._keep_relative(float((distance.astype(np.float64) / magnitude).max()))

    def _floats(self, left: npt.NDArray[np.float64], right: npt.NDArray[np.float64]) -> None:
        numbers = ~(np.isnan(left) | np.isnan(right))
        self.nans += len(left) - int(numbers.sum())
        left, right = left[numbers], right[numbers]
        if not len(left):
            return
        with np.errstate(all="ignore"):
            distance = np.abs(left - right)
            self._keep(float(distance.max()))
            magnitude = np.maximum(np.abs(left), np.abs(right))
            ratio = np.where(magnitude == 0, 0.0, distance / magnitude)
        finite = ratio[~np.isnan(ratio)]
        if len(finite):
            self._keep_relative(float(finite.max()))

    def _keep(self, absolute: float | int) -> None:
        self.absolute = absolute if self.absolute is None else max(self.absolute, absolute)

    def _keep_relative(self, relative: float) -> None:
        self.relative = relative if self.relative is None else max(self.relative, relative)
