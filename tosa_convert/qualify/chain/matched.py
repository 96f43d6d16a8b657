"""Match the tensors of the sources of a chain, and say what its table has of each."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from tosa_convert.golden.arrays import Array, LazyArrays
from tosa_convert.golden.backends.recorded_tensors import (
    Recorded,
    Source,
    errors,
    in_layout,
    relative_error,
    same_tensors,
)
from tosa_convert.graph.model import Graph
from tosa_convert.graph.shown import Shown


@dataclass(frozen=True, slots=True)
class Cell(Shown):
    """Hold what a source has for a tensor; of samples, the worst.

    first, before: the largest difference from the first source that has the tensor, and from the last
        one before. snr: against the first, in dB. share: the error as a share of what the link allows.
        quantiles: of `before`, over the samples.
    """

    first: float
    before: float
    snr: float
    share: float | None = None
    quantiles: tuple[float, ...] = ()

    def text(self, name: str) -> str:
        """Return a number as the table shows it."""
        value = getattr(self, name)
        if value is None:
            return ""
        return f"{value:.1f}" if name == "snr" and math.isfinite(value) else f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class Row(Shown):
    """Hold a tensor. cells: by source; that of the first source that has it is None."""

    name: str
    operator: str
    location: str
    shape: tuple[int, ...]
    cells: Mapping[str, Cell | None]


#: How many times nearer another tensor is than the one of the same name or place.
_NEARER: Final = 2.0


class Table:
    """Match the tensors of the sources: a row has the tensor of each source that has it."""

    def __init__(self) -> None:
        self._rows: list[dict[str, Recorded]] = []
        self.sources: list[Source] = []

    @property
    def program(self) -> Graph | None:
        graphs = (one.graph for one in reversed(self.sources))
        return next((graph for graph in graphs if graph is not None), None)

    def add(self, source: Source) -> None:
        """Add a source; its integers get the scales of the same integers before it."""
        rows, place = self._rows, 0
        latest = [next(reversed(row.values())) for row in rows]
        same = {there: here for here, there in same_tensors(latest, source.tensors).items()}
        self._rows = []
        for k, tensor in enumerate(source.tensors):
            here = same.get(k)
            if here is None:
                self._rows.append({source.name: tensor})
                continue
            other = latest[here]
            if tensor.scale is None and tensor.dtype == other.dtype:
                tensor = tensor._replace(scale=other.scale)
            rows[here][source.name] = tensor
            if here >= place:
                self._rows += rows[place : here + 1]
                place = here + 1
        self._rows += rows[place:]
        self.sources.append(source)

    def pairs(self, before: Source, after: Source) -> Iterator[tuple[Recorded | None, Recorded]]:
        """Iterate over the tensors of a source, with those of another one."""
        for row in self._rows:
            if after.name in row:
                yield row.get(before.name), row[after.name]

    def errors_of(
        self, before: Source, after: Source, names: Collection[str] | None = None
    ) -> dict[str, float]:
        """Return the error of each tensor of two sources, or of these, as a share of its values."""
        return {
            other.name: _error(one, other)
            for one, other in self.pairs(before, after)
            if one is not None
            and one.has_numbers == other.has_numbers
            and (names is None or other.name in names)
        }

    def rematch(self, before: Source, after: Source, name: str) -> set[str]:
        """Match a tensor with another one that is much nearer; return those whose matches changed.

        Quantisation joins operators, so that the result of a convolution may be that of its
        normalisation, and operators that it adds move the numbers of names.
        """
        row = next(row for row in self._rows if after.name in row and row[after.name].name == name)
        one, own = row[before.name], row[after.name]
        size, k = self.nearest(before, own)
        if size * _NEARER >= _error(one, own):
            return set()
        new, names = self._rows[k], [tensor.name for tensor in after.tensors]
        moved = new.get(after.name)
        if moved is None:
            new[after.name] = row.pop(after.name)
        elif _error(new[before.name], moved) > _NEARER * size:
            new[after.name], row[after.name] = own, moved
        elif names.index(moved.name) < names.index(name):  # One is a copy of the other.
            self.part(after, {name})
        else:
            new[after.name], row[after.name] = own, moved
            self.part(after, {moved.name})
        return {name} if moved is None else {name, moved.name}

    def nearest(self, source: Source, tensor: Recorded) -> tuple[float, int]:
        """Return the error of a tensor beside the nearest one of a source, and the row of that."""
        rows = (
            (_error(one, tensor), k)
            for k, row in enumerate(self._rows)
            if (one := row.get(source.name)) is not None
            and one.shape == tensor.shape
            and one.has_numbers == tensor.has_numbers
        )
        return min(rows, default=(math.inf, -1))

    def part(self, source: Source, names: set[str]) -> None:
        """Give tensors of a source that match no other tensor rows of their own."""
        for k, row in reversed(list(enumerate(self._rows))):
            if source.name in row and row[source.name].name in names:
                self._rows.insert(k + 1, {source.name: row.pop(source.name)})

    def arrays_of(self, other: Source, own: Source) -> LazyArrays:
        """Return the tensors of a source as a program has them: under its names, in its layouts."""
        found = {
            ours.name: (ours, theirs)
            for ours, theirs in self.pairs(own, other)
            if ours is not None and _are_alike(ours, theirs)
        }

        def read(key: str) -> Array:
            own = found[key][0].read()
            array = in_layout(found[key][1].read(), own)
            if found[key][0].is_float or own.itemsize != array.itemsize:
                return array.astype(own.dtype)
            return np.ascontiguousarray(array).view(own.dtype).reshape(own.shape)

        return LazyArrays(found, read)

    def name_of(self, source: str, name: str) -> str:
        rows = (row for row in self._rows if source in row and row[source].name == name)
        return next((_named(row).name for row in rows), name)

    def rows(self, shares: Mapping[str, Mapping[str, float | None]]) -> Iterator[Row]:
        """Iterate over the tensors that several sources have."""
        for row in self._rows:
            if len(row) < 2:
                continue
            first, *others = row.items()
            named = _named(row)
            cells: dict[str, Cell | None] = dict.fromkeys(row)
            expected = before = first[1].numbers()
            for source, tensor in others:
                if first[1].has_numbers == tensor.has_numbers:
                    numbers = in_layout(tensor.numbers(), expected)
                    total, last = errors(expected, numbers), errors(before, numbers)
                    share = shares[source].get(tensor.name)
                    cells[source] = Cell(total.largest, last.largest, total.snr, share)
                    before = numbers
            yield Row(named.name, named.operator, named.location, tensor.shape, cells)


def _named(row: Mapping[str, Recorded]) -> Recorded:
    """Return the tensor of a row that names it: that of the first program."""
    return next((one for one in row.values() if one.operator), next(iter(row.values())))


def _are_alike(one: Recorded, other: Recorded) -> bool:
    """Return whether elements can be compared: quantised integers are others in another width."""
    widths = [np.dtype(row.dtype).itemsize for row in (one, other)]
    is_quantised = one.scale is not None or other.scale is not None
    return one.is_float == other.is_float and (widths[0] == widths[1] or not is_quantised)


def _error(expected: Recorded, found: Recorded) -> float:
    numbers = expected.numbers()
    return relative_error(in_layout(found.numbers(), numbers), numbers)
