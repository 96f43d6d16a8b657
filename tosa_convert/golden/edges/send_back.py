"""Values that are wanted of an operator's result, sent back to its operands.

An operator on elements is inverted by bisection, with the other operands as a run had them. One that
moves elements is computed on the numbers of the elements. Of a sum, few terms change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.edges.codes import INFINITE, NAN, codes_of, elements_of, limits_of
from tosa_convert.golden.edges.elements import Elements, has_elements, moved_ids, moves
from tosa_convert.golden.edges.sums import has_terms, terms_demand
from tosa_convert.golden.edges.wishes import Demand
from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.model import Block, Operator
from tosa_convert.reference.call import Call

#: Codes that are tried where bisection finds nothing; those of infinity and NaN are added.
_POINTS: Final = (0, -1, 1)
#: Results are below or above all others where TOSA defines none.
_UNDEFINED: Final = np.int64(1) << 62


def send_back(
    block: Block,
    operator: Operator,
    call: Call,
    result: Array,
    demand: Demand,
    positions: Sequence[int],
    generator: np.random.Generator,
) -> list[tuple[int, Demand]]:
    """Return demands on operands that make elements of the result what is wanted, as far as possible."""
    if not positions or not len(demand.ids):
        return []
    if moves(operator):
        position, local = moved_ids(block, operator, call.operands)
        found = []
        for own in positions:
            chosen = np.flatnonzero(position[demand.ids] == own)
            if len(chosen):
                part = demand.at(chosen)
                found.append((own, _unique(part._replace(ids=local[part.ids]))))
        return found
    if has_elements(operator):
        own = positions[int(generator.integers(len(positions)))]
        return [(own, _through_elements(Elements(call), own, demand, generator))]
    if has_terms(operator):
        return terms_demand(call, result, demand, positions, generator)
    return []


def _unique(demand: Demand) -> Demand:
    _, first = np.unique(demand.ids, return_index=True)
    return demand.at(first)


def _through_elements(
    elements: Elements, position: int, demand: Demand, generator: np.random.Generator
) -> Demand:
    call = elements.call
    row, target = call.types[position].dtype, call.result.dtype
    own = elements.operand_ids(position, demand.ids)
    empty = Demand(own[:0], own[:0], own[:0])
    if row is None or target is None or "FP8UE8M0" in (row.name, target.name):
        return empty
    search = _Search(elements, position, row, target)
    low, high, found = search.every(demand, generator) if row.bits <= 8 else search.bisect(demand)
    missing = np.flatnonzero(~found)
    if len(missing):
        code, is_found = search.points(demand.at(missing))
        low[missing], high[missing], found[missing] = code, code, is_found
    return _unique(Demand(own[found], low[found], high[found]))


class _Search:
    """Searches codes of one operand for which results have wanted codes."""

    def __init__(self, elements: Elements, position: int, row: DType, target: DType) -> None:
        self.elements, self.position, self.row, self.target = elements, position, row, target

    def results(self, ids: Array, codes: Array) -> Array:
        """Return the codes of results; _UNDEFINED where there are none."""
        values = elements_of(codes, self.row)
        kept, result = self.elements.compute_defined(ids, {self.position: values})
        found = np.full(len(ids), _UNDEFINED)
        found[kept] = codes_of(result, self.target)
        return found

    def _fitting(self, demand: Demand, codes: Array) -> tuple[Array, Array]:
        """Try the same codes for each element; return [element, code] whether it fits."""
        table = np.broadcast_to(codes, (len(demand.ids), len(codes)))
        found = self.results(np.repeat(demand.ids, len(codes)), table.reshape(-1))
        found = found.reshape(table.shape)
        return table, (found >= demand.low[:, None]) & (found <= demand.high[:, None])

    def every(self, demand: Demand, generator: np.random.Generator) -> tuple[Array, Array, Array]:
        """Try all codes; return one that fits for each element, twice, and whether there is one."""
        low, high = limits_of(self.row)
        codes = np.arange(low, high + 1)
        special = (INFINITE.get(self.row.name), NAN.get(self.row.name))
        codes = np.concatenate([codes, [code for code in special if code is not None]])
        table, fits = self._fitting(demand, codes.astype(np.int64))
        rank = np.where(fits, generator.random(fits.shape), -1.0)
        best = rank.argmax(axis=1)
        code = table[np.arange(len(best)), best]
        return code, code.copy(), fits.any(axis=1)

    def points(self, demand: Demand) -> tuple[Array, Array]:
        """Try few codes, such as that of NaN; return one for each element, and whether it fits."""
        named = [table.get(self.row.name) for table in (NAN, INFINITE)]
        codes = [code for code in named if code is not None]
        codes += [-code - 1 for code in codes[1:]]
        table, fits = self._fitting(demand, np.array([*codes, *_POINTS], np.int64))
        best = fits.argmax(axis=1)
        return table[np.arange(len(best)), best], fits.any(axis=1)

    def bisect(self, demand: Demand) -> tuple[Array, Array, Array]:
        """Return the first and the last code that fit on one side of 0, and whether there are any.

        The result is monotone on each side of 0, for most operators.
        """
        count = len(demand.ids)
        least, most = limits_of(self.row)
        if self.row.name in INFINITE:
            least, most = least - 1, most + 1
        # From 0 upwards, and from -1 downwards.
        start = np.repeat(np.array([0, -1]), count)
        sign = np.repeat(np.array([1, -1]), count)
        size = np.repeat(np.array([most, -least - 1]), count)
        ids = np.tile(demand.ids, 2)
        low, high = np.tile(demand.low, 2), np.tile(demand.high, 2)

        def at(steps: Array) -> Array:
            return self.results(ids, start + sign * steps)

        first = at(np.zeros_like(size))
        start = np.where(first == _UNDEFINED, start + sign, start)
        size = np.where(first == _UNDEFINED, size - 1, size)
        last = at(size)
        if (last == _UNDEFINED).any():
            beyond = _first_true(lambda steps: at(steps) == _UNDEFINED, size)
            size = np.where(last == _UNDEFINED, np.maximum(beyond - 1, 0), size)
            last = at(size)
        first = at(np.zeros_like(size))
        rises = last >= first

        def reaches(steps: Array) -> Array:
            found = at(steps)
            return np.where(rises, found >= low, found <= high)

        def passes(steps: Array) -> Array:
            found = at(steps)
            return np.where(rises, found > high, found < low)

        begin, end = _first_true(reaches, size), _first_true(passes, size)
        end = np.where(passes(size), end - 1, size)
        found = at(np.minimum(begin, size))
        fits = (found >= low) & (found <= high) & (end >= begin)
        ends = np.stack([start + sign * begin, start + sign * end])
        ends = np.sort(ends, axis=0).reshape(2, 2, count)
        fits = fits.reshape(2, count)
        side = np.where(fits[0] & fits[1], np.arange(count) % 2, fits[1].astype(np.int64))
        places = np.arange(count)
        return ends[0, side, places], ends[1, side, places], fits.any(axis=0)


def _first_true(condition: Callable[[Array], Array], size: Array) -> Array:
    """Return the least number of steps for which a condition holds; `size` if only there or nowhere."""
    low, high = np.zeros_like(size), size.copy()
    for _ in range(int(size.max(initial=1)).bit_length()):
        middle = low + (high - low) // 2
        holds = condition(middle)
        high = np.where(holds, middle, high)
        low = np.where(holds, low, np.minimum(middle + 1, size))
    return high
