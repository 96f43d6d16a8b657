"""The spread of a tensor: how far its values in several runs are apart."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

import numpy as np

from tosa_convert.golden.accuracy.criteria import Spread
from tosa_convert.golden.accuracy.error_bounds import FLOATS, kinds_of, parts_of, same_values
from tosa_convert.golden.accuracy.reached_elements import Reached
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.graph.model import Block
from tosa_convert.reference.block_scaled import Scaled, Value, plain
from tosa_convert.reference.call import is_float

#: The weight of an element's neighbours in its spread: its own has few runs.
_NEIGHBOURS: Final = 0.25
#: How many times the lower quartile of its neighbours' squares counts.
_OUTLIERS: Final = 16.0
#: Of several measurements, the least share of the largest spread that counts. The spread of six runs is
#: at least sqrt((1 - _NEIGHBOURS) / 6) of their largest error. What a run computes is accepted: it is
#: within six times this share.
_OF_LARGEST: Final = 0.4715
#: Operators whose result differs wherever one of their operands has an error.
_INJECTIVE: Final = frozenset(("ADD", "MUL", "NEGATE", "SUB"))


@np.errstate(all="ignore")
def spread_of(
    block: Block,
    name: str,
    values: Sequence[Value],
    possible: Array | None = None,
    known: Array | None = None,
    reached: Reached = True,
) -> Spread:
    """Return the spread of a tensor of its values in all runs, the first of which is exact.

    known: the spread of numbers that are finite in all runs, if it is not left to their chance.
    reached: which elements errors reach: the others have no part in the spread of their neighbours.
    """
    arrays = [plain(value) for value in values]
    exact = arrays[0]
    kind = block.tensors[name].dtype.name
    if kind not in FLOATS:
        wide = [array.astype(np.float64) if is_float(array.dtype) else array for array in arrays]
        low, high = reduce(np.minimum, wide), reduce(np.maximum, wide)
        return Spread(wide[0], low=low, high=high, possible=possible)
    exact = exact.astype(np.float64, copy=False)
    own, counts, kinds = _squares_of_errors(exact, arrays)
    most = FLOATS[kind][2]
    squares = own
    fits: Array | None = None
    if not np.abs(exact).max(initial=0.0) <= most:
        # What overflows says nothing about its neighbours.
        fits = np.abs(exact) <= most
        squares = np.where(fits, squares, 0.0)
    if not own.max(initial=0.0) <= most**2:
        squares = np.minimum(squares, most**2)
    sigma = _with_neighbours(squares)
    if _shows_every_error(block, name):
        # Where no run differs there is nothing to differ: all before it is exact.
        sigma[squares == 0] = 0.0
    if reached is not True:
        sigma[np.logical_not(reached) & (squares == 0)] = 0.0
    if fits is not None:
        sigma = np.where(fits | ~np.isfinite(exact), sigma, own)
    sigma = np.sqrt(sigma)
    if known is not None:
        sigma = known if counts is None else np.where(counts == len(arrays) - 1, known, sigma)
    if counts is not None:
        # Where no run has a number, nothing says how far it may be off.
        sigma = np.where((counts == 0) & np.isfinite(exact), np.inf, sigma)
    return Spread(exact, sigma=sigma, kinds=kinds)


def _squares_of_errors(
    exact: Array, arrays: Sequence[Array]
) -> tuple[Array, Array | None, Array | None]:
    """Return the mean of the squares of the errors of runs, of each element.

    With it come, if not all errors are finite, how many are, and the kinds of the others.

    arrays: of all runs; the first one is exact, and so are others that are the same array.
    """
    others = [array for array in arrays[1:] if array is not arrays[0]]
    squares = np.zeros(exact.shape)
    counts: Array | None = None
    kinds: Array | None = None
    for where in parts_of(exact.shape):
        center, total = exact[where], squares[where]
        for other in others:
            error = other[where] - center
            error *= error
            total += error
        if np.isfinite(total.max(initial=0.0)):
            total /= max(1, len(arrays) - 1)
            continue
        if counts is None or kinds is None:
            counts = np.full(exact.shape, len(arrays) - 1, np.int32)
            kinds = np.zeros(exact.shape, np.uint8)
        total[...] = 0.0
        for other in others:
            values = other[where]
            error = values - center
            is_number = np.isfinite(error)
            differs = ~is_number & ~same_values(values, center)
            kinds[where] |= np.where(differs, kinds_of(values), np.uint8(0))
            counts[where] -= ~is_number
            total += np.square(np.where(is_number, error, 0.0))
        total /= np.maximum(counts[where], 1)
    return squares, counts, kinds


def _shows_every_error(block: Block, name: str) -> bool:
    """Return whether a result differs wherever an operand does: it does not saturate or choose."""
    return any(name in op.outputs and op.spec.name in _INJECTIVE for op in block.operators)


def spread_of_scales(values: Sequence[Value]) -> Spread:
    """Return the spread of the scales of a tensor that holds them."""
    scales = [value.scale.astype(np.float64) for value in values if isinstance(value, Scaled)]
    return Spread(scales[0], low=reduce(np.fmin, scales), high=reduce(np.fmax, scales))


def merged(spreads: Sequence[Spread]) -> Spread:
    """Return the spread of all runs of several measurements of one tensor."""
    first = spreads[0]

    def all_of(name: str) -> list[Array]:
        return [array for spread in spreads if (array := getattr(spread, name)) is not None]

    if first.sigma is None:
        low, high = reduce(np.fmin, all_of("low")), reduce(np.fmax, all_of("high"))
        possible = reduce(np.logical_or, all_of("possible")) if first.possible is not None else None
        return Spread(first.exact, low=low, high=high, possible=possible)
    sigmas = np.stack(all_of("sigma"))
    is_known = np.isfinite(sigmas)
    squares = np.square(np.where(is_known, sigmas, 0.0)).sum(axis=0)
    counts = is_known.sum(axis=0)
    largest = np.where(is_known, sigmas, 0.0).max(axis=0)
    mean = np.maximum(np.sqrt(squares / np.maximum(counts, 1)), _OF_LARGEST * largest)
    sigma = np.where(counts > 0, mean, np.inf)
    kinds = all_of("kinds")
    return Spread(
        first.exact,
        sigma=sigma,
        kinds=reduce(np.bitwise_or, kinds) if kinds else None,
        alone=_outweighing(np.square(np.where(is_known.any(axis=0), sigma, 0.0))),
    )


def _outweighing(squares: Array) -> Array:
    """Return which elements of a row, of a channel or of all outweigh all smaller ones together."""
    if squares.ndim == 0 or not squares.size:
        return np.ones(squares.shape, np.bool_)
    table = squares.reshape(-1, squares.shape[-1])
    found = np.zeros(table.shape, np.bool_)
    for lines, axis in ((table, 1), (table, 0), (table.reshape(1, -1), 1)):
        order = np.argsort(lines, axis=axis)
        ascending = np.take_along_axis(lines, order, axis=axis)
        smaller = np.cumsum(ascending, axis=axis) - ascending
        outweighs = np.zeros(lines.shape, np.bool_)
        np.put_along_axis(outweighs, order, ascending > smaller, axis=axis)
        found |= outweighs.reshape(table.shape)
    return found.reshape(squares.shape)


def _with_neighbours(squares: Array) -> Array:
    """Return the squares moved towards the mean of the row or of the channel, whichever is less.

    A mean is limited by the lower quartile, so that a few large errors hide no small one.
    """
    if squares.ndim == 0 or not squares.size:
        return squares
    table = squares.reshape(-1, squares.shape[-1])
    near = _near(table, 1)
    if len(table) > 1:
        near = np.minimum(near, _near(table, 0))
    return np.asarray((table + _NEIGHBOURS * (near - table)).reshape(squares.shape))


def _near(table: Array, axis: int) -> Array:
    """Return the mean along an axis, limited by the lower quartile of what is not zero."""
    mean = table.mean(axis=axis, keepdims=True)
    small, zeros = (
        np.count_nonzero(found, axis=axis, keepdims=True)
        for found in (table * _OUTLIERS < mean, table == 0)
    )
    quarter = (table.shape[axis] - zeros) // 4
    # Where the mean is less, the quartile need not be known.
    lines = np.flatnonzero(small - zeros > quarter)
    if lines.size:
        part = np.take(table, lines, axis=1 - axis)
        ordered = np.sort(np.where(part > 0, part, np.inf), axis=axis)
        place = np.take(quarter, lines, axis=1 - axis)
        quartile = np.take_along_axis(ordered, place, axis=axis)
        limited = np.minimum(np.take(mean, lines, axis=1 - axis), _OUTLIERS * quartile)
        np.put_along_axis(mean, lines.reshape(limited.shape), limited, axis=1 - axis)
    return np.asarray(mean)
