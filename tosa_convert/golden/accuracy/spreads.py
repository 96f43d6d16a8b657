"""The spread of a tensor: how far its values in several runs are apart."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

import numpy as np

from tosa_convert.golden.accuracy.criteria import Spread
from tosa_convert.golden.accuracy.error_bounds import FLOATS, kinds_of, same_values
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.graph.model import Block
from tosa_convert.reference.call import is_float
from tosa_convert.reference.scaled_tensors import Scaled, Value, plain

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


def spread_of(
    block: Block,
    name: str,
    values: Sequence[Value],
    possible: Array | None = None,
    known: Array | None = None,
) -> Spread:
    """Return the spread of a tensor of its values in all runs, the first of which is exact.

    known: the spread of numbers that are finite in all runs, if it is not left to their chance.
    """
    arrays = [plain(value) for value in values]
    exact = arrays[0]
    kind = block.tensors[name].dtype.name
    if kind not in FLOATS:
        wide = [array.astype(np.float64) if is_float(array.dtype) else array for array in arrays]
        low, high = reduce(np.minimum, wide), reduce(np.maximum, wide)
        return Spread(wide[0], low=low, high=high, possible=possible)
    exact = exact.astype(np.float64, copy=False)
    squares, counts = np.zeros(exact.shape), np.zeros(exact.shape, np.int32)
    kinds: Array | None = None
    for other in arrays[1:]:
        if other is arrays[0]:
            counts += 1
            continue
        with np.errstate(all="ignore"):
            error = other - exact
        is_number = np.isfinite(error)
        if not is_number.all():
            differs = ~is_number & ~same_values(other, exact)
            error = np.where(is_number, error, 0.0)
            kinds = np.zeros(exact.shape, np.uint8) if kinds is None else kinds
            kinds |= np.where(differs, kinds_of(other), np.uint8(0))
        counts += is_number
        with np.errstate(over="ignore"):
            squares += np.square(error)
    most = FLOATS[kind][2]
    squares /= np.maximum(counts, 1)
    # What overflows says nothing about its neighbours.
    fits = np.abs(exact) <= most
    own, squares = squares, np.where(fits, np.minimum(squares, most**2), 0.0)
    unknown = (counts == 0) & np.isfinite(exact) & (len(arrays) > 1)
    with_neighbours = _with_neighbours(squares)
    if _shows_every_error(block, name):
        # Where no run differs there is nothing to differ: all before it is exact.
        with_neighbours[squares == 0] = 0.0
    sigma = np.sqrt(np.where(fits | ~np.isfinite(exact), with_neighbours, own))
    if known is not None:
        sigma = np.where(counts == len(arrays) - 1, known, sigma)
    if unknown.any():
        # No run has a number here: nothing says how far it may be off.
        sigma = np.where(unknown, np.inf, sigma)
    return Spread(exact, sigma=sigma, kinds=kinds)


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
    ordered = np.sort(np.where(table > 0, table, np.inf), axis=axis)
    quarter = np.count_nonzero(table, axis=axis, keepdims=True) // 4
    quartile = np.take_along_axis(ordered, quarter, axis=axis)
    return np.minimum(table.mean(axis=axis, keepdims=True), _OUTLIERS * quartile)
