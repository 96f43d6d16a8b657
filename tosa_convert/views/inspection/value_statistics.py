"""The values of a constant or an array: range, mean, zeros, histogram, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.lazy_numpy import np

if TYPE_CHECKING:
    import numpy.typing as npt


#: Bins of a histogram.
BINS: Final = 32
#: Most distinct values that are listed.
FEW: Final = 8
#: Types of at most this many bits have so few values that each is counted.
_TABLE_BITS: Final = 16

Blocks: TypeAlias = "Callable[[], Iterator[npt.NDArray[Any]]]"


@dataclass(frozen=True, slots=True)
class Statistics:
    """The values of a constant.

    count: the number of elements.
    least, greatest, mean: of the finite elements; None if there are none.
    zeros, nans, infinities: how many elements are 0 (or -0), NaN and infinite.
    values: if there are few different finite values, each with how often it occurs, from the least to
        the greatest; else ().
    histogram: how many finite elements are in each of BINS equal parts of the range from `least` to
        `greatest`; () if that is a single value or there is none.
    """

    count: int
    least: float | int | None = None
    greatest: float | int | None = None
    mean: float | None = None
    zeros: int = 0
    nans: int = 0
    infinities: int = 0
    values: tuple[tuple[float | int, int], ...] = ()
    histogram: tuple[int, ...] = ()


def statistics(constant: Constant) -> Statistics:
    """Return the statistics of a constant, read in blocks: memory does not depend on its size."""
    if constant.splat and constant.count:
        one = Constant(constant.dtype, 1, constant.buffer, splat=True)
        number = _as_numbers(one.numpy())
        return _of_counts(number, np.array([constant.count]))
    if constant.dtype.bits <= _TABLE_BITS:
        return _of_counts(*_counted_codes(constant))
    return statistics_of(constant.blocks)


def statistics_of(blocks: Blocks) -> Statistics:
    """Return the statistics of values. blocks: yields them in arrays, each time it is called.

    Example:
        >>> found = statistics_of(lambda: iter([np.array([1.0, np.nan]), np.array([4.0])]))
        >>> found.count, found.least, found.greatest, found.mean, found.nans
        (3, 1.0, 4.0, 2.5, 1)
    """
    count = zeros = nans = infinities = 0
    total = 0.0
    ranges: list[Any] = []
    values: dict[Any, int] | None = {}
    for given in blocks():
        block = _as_numbers(given)
        count += len(block)
        zeros += len(block) - int(np.count_nonzero(block))
        if block.dtype.kind == "f":
            nans += int(np.count_nonzero(np.isnan(block)))
            infinities += int(np.count_nonzero(np.isinf(block)))
            block = block[np.isfinite(block)]
        if len(block):
            ranges += [block.min(), block.max()]
            with np.errstate(over="ignore"):
                total += float(block.sum(dtype=np.float64))
        values = _with_values(values, block)
    if not ranges:
        return Statistics(count, nans=nans, infinities=infinities)
    least, greatest = min(ranges).item(), max(ranges).item()
    return Statistics(
        count,
        least,
        greatest,
        total / (count - nans - infinities),
        zeros,
        nans,
        infinities,
        tuple((value.item(), times) for value, times in sorted((values or {}).items())),
        _histogram(blocks, least, greatest),
    )


def _with_values(values: dict[Any, int] | None, block: npt.NDArray[Any]) -> dict[Any, int] | None:
    """Count how often each value occurs, or return None if there are more than FEW."""
    if values is None or not len(block):
        return values
    # Most constants have many values: a few elements tell, and sorting all of them takes long.
    if len(np.unique(block[: 4 * FEW])) > FEW:
        return None
    found, times = np.unique(block, return_counts=True)
    for value, often in zip(found, times.tolist(), strict=True):
        values[value] = values.get(value, 0) + often
    return values if len(values) <= FEW else None


def _histogram(blocks: Blocks, least: float, greatest: float) -> tuple[int, ...]:
    if least == greatest:
        return ()
    bins = np.zeros(BINS, np.int64)
    for given in blocks():
        bins += _bins(_as_numbers(given), None, least, greatest)
    return tuple(bins.tolist())


def _bins(
    numbers: npt.NDArray[Any], times: npt.NDArray[Any] | None, least: float, greatest: float
) -> npt.NDArray[np.int64]:
    """Count the finite values in each part of the range; times: how often each value occurs."""
    wide = _widened(numbers)
    finite = np.isfinite(wide)
    # Halves, because the distance of the greatest and the least float64 is not a float64.
    part = (wide[finite] / 2 - least / 2) / (greatest / 2 - least / 2)
    which = np.minimum((part * BINS).astype(np.int64), BINS - 1)
    weights = None if times is None else times[finite]
    return np.bincount(which, weights, BINS).astype(np.int64)


def _counted_codes(constant: Constant) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Return all values that an element can have, and how often each occurs."""
    dtype = constant.dtype
    width = dtype.element_bytes
    times = np.zeros(1 << (8 * width), np.int64)
    for block in constant.raw_blocks():
        codes = block if width == 1 else block.view("<u2")
        times += np.bincount(codes, minlength=len(times))
    every = np.arange(len(times), dtype=f"<u{width}").view(np.uint8)
    return _as_numbers(Constant(dtype, len(times), every, unpacked=True).numpy()), times


def _of_counts(numbers: npt.NDArray[Any], times: npt.NDArray[np.int64]) -> Statistics:
    """Return the statistics of values that each occur so many times."""
    numbers, times = numbers[times > 0], times[times > 0]
    wide = _widened(numbers)
    finite = np.isfinite(wide)
    count, nans = int(times.sum()), int(times[np.isnan(wide)].sum())
    infinities = count - nans - int(times[finite].sum())
    values, inverse = np.unique(numbers[finite], return_inverse=True)
    if not len(values):
        return Statistics(count, nans=nans, infinities=infinities)
    often = np.bincount(inverse.reshape(-1), times[finite]).astype(np.int64)
    least, greatest = values[0].item(), values[-1].item()
    exact = math.fsum((values.astype(np.float64) * often).tolist())
    return Statistics(
        count,
        least,
        greatest,
        exact / (count - nans - infinities),
        int(often[values == 0].sum()),
        nans,
        infinities,
        tuple(zip(values.tolist(), often.tolist(), strict=True)) if len(values) <= FEW else (),
        () if least == greatest else tuple(_bins(values, often, least, greatest).tolist()),
    )


def _as_numbers(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return numbers that numpy computes with: BOOL is 0 and 1, types of ml_dtypes are widened."""
    if array.dtype.kind == "b":
        return array.view(np.uint8)
    if array.dtype.type.__module__ == "numpy":
        return array
    # A type of ml_dtypes: INT4, or a floating-point type that float32 includes.
    with np.errstate(invalid="ignore"):
        return array.astype(np.int8 if "int" in array.dtype.name else np.float32)


def _widened(numbers: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    with np.errstate(invalid="ignore"):  # some NaNs give a warning
        return numbers.astype(np.float64)
