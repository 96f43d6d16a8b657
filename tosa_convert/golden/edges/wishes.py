"""Operands that bring an operator to one of its edges, found by trying values at the operator alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final

import numpy as np

from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.edges.codes import INFINITE, NAN, codes_of, elements_of, limits_of
from tosa_convert.golden.edges.elements import Elements
from tosa_convert.golden.edges.operator_edges import edges_of, rescale_terms
from tosa_convert.golden.edges.values import ALL, edge_codes
from tosa_convert.graph.dtypes import DType
from tosa_convert.records import NamedTuple
from tosa_convert.reference.call import Call

#: Elements of a result at which values are tried.
_PLACES: Final = 4
#: Random values that are tried, besides those at the edges of the type.
_RANDOM: Final = 64


class Demand(NamedTuple):
    """Elements of a tensor, and the codes that they are to have: from `low` to `high`, each for one."""

    ids: Array
    low: Array
    high: Array

    @classmethod
    def of(cls, ids: Array, codes: Array) -> Demand:
        """Return a demand for exactly these codes."""
        return cls(np.asarray(ids, np.int64), np.asarray(codes), np.asarray(codes))

    def at(self, chosen: Array) -> Demand:
        """Return some of the elements."""
        return Demand(self.ids[chosen], self.low[chosen], self.high[chosen])

    def joined(self, other: Demand) -> Demand:
        """Return both; of an element in both, what this one says."""
        new = ~np.isin(other.ids, self.ids)
        pairs = zip(self, other.at(new), strict=True)
        return Demand(*(np.concatenate(pair) for pair in pairs))


class Wish(NamedTuple):
    """An edge that an operator has, and operand `position` as it would be there.

    label: of the edge, as `edges_of` names it.
    is_whole: whether all elements are needed; else each one is enough.
    """

    label: str
    position: int
    demand: Demand
    is_whole: bool = False


def element_wishes(
    elements: Elements, position: int, generator: np.random.Generator
) -> Iterator[Wish]:
    """Iterate over the edges that an operator on elements has, by values of one operand.

    Each wish has one element for each place that was tried and at which a value meets the edge.
    """
    call, size = elements.call, elements.size
    row = call.types[position].dtype
    if row is None or not size or row.name == "FP8UE8M0":
        return
    places = generator.choice(size, min(_PLACES, size), replace=False)
    table = _tried(elements, position, places, generator)
    ids = np.repeat(places, table.shape[1])
    codes = table.reshape(-1)
    values = elements_of(codes, row)
    kept, result = elements.compute_defined(ids, {position: values})
    if not len(kept):
        return
    part = elements.part(ids[kept], {position: values[kept]})
    own = elements.operand_ids(position, ids[kept])
    current = codes_of(elements.values(position, ids[kept]), row).astype(np.float64)
    distance = np.abs(codes[kept] - current)
    for label, mask in edges_of(part, result, range(elements.count)):
        found = np.flatnonzero(np.broadcast_to(mask, kept.shape))
        if len(found):
            found = generator.permutation(found)
            if generator.integers(2):
                # What is near is more likely to be in reach of the operators before.
                found = found[np.argsort(distance[found], kind="stable")]
            _, first = np.unique(own[found], return_index=True)
            chosen = found[first]
            yield Wish(label, position, Demand.of(own[chosen], codes[kept[chosen]]))


def _tried(
    elements: Elements, position: int, places: Array, generator: np.random.Generator
) -> Array:
    """Return the codes to try at each place: [places, codes]."""
    call = elements.call
    row = call.types[position].dtype
    assert row is not None
    low, high = limits_of(row)
    every = range(low, high + 1) if row.bits <= 8 else edge_codes(row, ALL)
    codes = np.concatenate(
        [np.array(every, np.int64), generator.integers(low, high, _RANDOM, endpoint=True)]
    )
    own = [np.broadcast_to(codes, (len(places), len(codes)))]
    for other in range(elements.count):
        if other != position and call.types[other].dtype is row:
            near = codes_of(elements.values(other, places), row)[:, None]
            own.append(np.clip(near, low, high - 1) + np.array([-1, 0, 1])[None, :])
            flipped = -near - 1 if row.is_float else np.clip(-near, low, high)
            own.append(np.clip(flipped, low, high))
            if row.bits > 32 and not row.is_float:
                step = np.int64(1) << 32
                own.append(np.where(near > 0, near - step, near + step))
    if call.spec.name in _TRIED:
        more = _TRIED[call.spec.name](elements, places, row, generator)
        own.append(np.clip(more, low, high))
    return np.concatenate(own, axis=1)


# -- values of single operators ----------------------------------------------------------------------


def _of_rescale(
    elements: Elements, places: Array, row: DType, generator: np.random.Generator
) -> Array:
    """Return values whose scaled ones are beside a tie, and at the limits of the result."""
    call = elements.call
    _, multiplier, shift = rescale_terms(call)
    if call.attributes["per_channel"]:
        channel = places % call.result.shape[-1]
        multiplier, shift = multiplier[channel], shift[channel]
    zero = int(call.raw("input_zp").astype(np.int64).flat[0])
    assert call.result.dtype is not None
    low, high = limits_of(call.result.dtype)
    targets = np.array([low, low + 1, -2, -1, 0, 1, 2, high - 1, high], np.float64)
    targets = np.concatenate([targets, generator.integers(low, high, 40).astype(np.float64)]) + 0.5
    scale = multiplier.astype(np.float64) / np.exp2(shift.astype(np.float64))
    with np.errstate(all="ignore"):
        near = np.nan_to_num(targets[None, :] / np.maximum(scale, 1e-30).reshape(-1, 1))
    near = np.broadcast_to(near, (len(places), near.shape[1]))
    bounds = limits_of(row)
    whole = np.floor(np.clip(near, *bounds)).astype(np.int64)
    # Exact ties: odd multiples of what a multiplier without its factors of two leaves.
    step = 1 << max(int(shift.min()) - 1 - _factors_of_two(int(multiplier[0])), 0)
    odd = (2 * generator.integers(-8, 8, 16) + 1) * min(step, bounds[1])
    ties = np.broadcast_to(odd, (len(places), len(odd)))
    return np.concatenate([whole + zero, whole + 1 + zero, ties + zero], axis=1)


def _factors_of_two(number: int) -> int:
    return (number & -number).bit_length() - 1 if number else 0


def _of_clamp(
    elements: Elements, places: Array, row: DType, generator: np.random.Generator
) -> Array:
    bounds = [elements.call.attributes[name] for name in ("min_val", "max_val")]
    codes = codes_of(np.array(bounds).astype(row.numpy), row)
    near = (codes[:, None] + np.array([-2, -1, 0, 1, 2])[None, :]).reshape(-1)
    return np.broadcast_to(near, (len(places), len(near)))


def _of_cast(
    elements: Elements, places: Array, row: DType, generator: np.random.Generator
) -> Array:
    """Return values in the middle between two of the result's type, and beyond its limits."""
    target = elements.call.result.dtype
    assert target is not None
    low, high = limits_of(target)
    with np.errstate(all="ignore"):
        if target.is_float:
            some = generator.integers(low, high, 40)
            pair = [elements_of(some + n, target).astype(np.float64) for n in (0, 1)]
            middles = (pair[0] + pair[1]) / 2
            most = elements_of(np.array([low, high]), target).astype(np.float64)
            middles = np.concatenate([middles, most * 1.01, most * 0.999, most * 4])
        else:
            middles = generator.integers(max(low, -(1 << 20)), min(high, 1 << 20), 40) + 0.5
            middles = np.concatenate([middles, np.array([low - 1.0, high + 1.0, low, high])])
        if row.is_float:
            given = middles.astype(row.numpy)
        else:
            bounds = limits_of(row)
            given = np.clip(np.nan_to_num(middles), *bounds).astype(np.int64)
    codes = codes_of(given, row)
    codes = codes[codes != NAN.get(row.name, 1 << 62)]
    return np.broadcast_to(codes, (len(places), len(codes)))


def _of_product(
    elements: Elements, places: Array, row: DType, generator: np.random.Generator
) -> Array:
    """Return random integers, whose products with a shift may be ties."""
    low, high = (-4096, 4096) if not row.is_float else limits_of(row)
    return generator.integers(low, high, (len(places), 256))


_TRIED: Final[dict[str, Callable[[Elements, Array, DType, np.random.Generator], Array]]] = {
    "CAST": _of_cast,
    "CLAMP": _of_clamp,
    "MUL": _of_product,
    "RESCALE": _of_rescale,
}

# -- rows of which the greatest or least element is searched -----------------------------------------


def row_wishes(call: Call, generator: np.random.Generator) -> Iterator[Wish]:
    """Iterate over the edges of an operator that combines elements; each has elements of one row."""
    row = call.types[0].dtype
    array = call.operands[0]
    if row is None or not array.size or row.name == "FP8UE8M0":
        return
    for label, code in _value_edges(row):
        # Several elements, since some are out of reach.
        ids = generator.choice(array.size, min(_PLACES, array.size), replace=False)
        yield Wish(label, 0, Demand.of(ids, np.full(len(ids), code)))
    if "axis" not in call.attributes:
        return
    axis = call.attributes["axis"]
    lines = np.moveaxis(np.arange(array.size).reshape(array.shape), axis, -1)
    lines = lines.reshape(-1, array.shape[axis])
    codes = codes_of(array, row).reshape(-1)
    if row.name == "BOOL":
        for label, first, others in (
            ("all", 1, 1),
            ("none", 0, 0),
            ("all but one", 0, 1),
            ("only one", 1, 0),
        ):
            line = generator.permutation(lines[generator.integers(len(lines))])
            wanted = np.full(len(line), others)
            wanted[0] = first
            yield Wish(label, 0, Demand.of(line, wanted), is_whole=True)
        return
    if lines.shape[1] < 2 or call.spec.name in ("REDUCE_SUM", "REDUCE_PRODUCT"):
        return
    low, high = limits_of(row)
    is_least = call.spec.name == "REDUCE_MIN"
    for _ in range(_PLACES):
        line = lines[generator.integers(len(lines))]
        extreme = codes[line].min() if is_least else codes[line].max()
        first, second = np.sort(generator.choice(len(line), 2, replace=False))
        if extreme not in (NAN.get(row.name), None):
            others = line[codes[line] != extreme]
            if len(others):
                one = generator.choice(others)
                yield Wish("equal extremes", 0, Demand.of(np.array([one]), np.array([extreme])))
        small = generator.choice([c for c in edge_codes(row, 1) if low < c < high - 1])
        wanted = np.full(len(line), small + (1 if is_least else -1))
        wanted[[first, second]] = small
        yield Wish("equal extremes", 0, Demand.of(line, wanted), is_whole=True)
        end = np.array([line[-1]])
        wide = (low, int(extreme) - 1) if is_least else (int(extreme) + 1, high)
        if wide[0] <= wide[1]:
            yield Wish("extreme at the end", 0, Demand(end, *(np.array([n]) for n in wide)))
        side = np.where(is_least, 1, -2) * np.ones(len(line), np.int64)
        ends = (side, np.full(len(line), high)) if is_least else (np.full(len(line), low), side)
        yield Wish("all on one side", 0, Demand(line, *ends), is_whole=True)
        if row.name in INFINITE:
            infinite = INFINITE[row.name] if is_least else -INFINITE[row.name] - 1
            yield Wish(
                "infinite alone", 0, Demand.of(line, np.full(len(line), infinite)), is_whole=True
            )
            zeros = np.full(len(line), 1 if is_least else -2)
            zeros[[first, second]] = (0, -1) if generator.integers(2) else (-1, 0)
            yield Wish("extremes 0 and -0", 0, Demand.of(line, zeros), is_whole=True)


def _value_edges(row: DType) -> Iterator[tuple[str, int]]:
    """Iterate over the edges of any operand, each with a code."""
    if row.name == "BOOL":
        return
    low, high = limits_of(row)
    yield "0", 0
    if not row.is_float:
        yield from (("least", low), ("greatest", high), ("negative", -1))
        return
    yield from (("-0", -1), ("negative", -2), ("subnormal", 1), ("largest", high))
    if row.name in INFINITE:
        yield "infinite", INFINITE[row.name]
        yield "infinite", -INFINITE[row.name] - 1
    if row.name in NAN:
        yield "NaN", NAN[row.name]


def labels(wishes: Iterator[Wish]) -> Collection[str]:
    """Return the edges that wishes are for."""
    return dict.fromkeys(wish.label for wish in wishes)
