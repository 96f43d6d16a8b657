"""Measure how far apart correct implementations are: what no check may report.

Runs with errors that implementations have are drawn independently of those from which the verdict's
spread is measured. A change whose effect is no larger than that of one of them, in each element, row,
channel and in the whole, may be the work of a correct implementation.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Final

import numpy as np

from tosa_convert.golden.accuracy.criteria import NetworkCheck, NetworkTotals, Spread
from tosa_convert.golden.accuracy.error_bounds import FLOATS, numbers, same_values
from tosa_convert.golden.accuracy.verdict import independent_runs
from tosa_convert.golden.arrays.by_name import Array, Arrays
from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.model import Graph
from tosa_convert.reference.call import is_float

#: Measurements of six independent runs each. Fewer give one of many elements by chance hardly any error.
_BATCHES: Final = 10


@dataclass(frozen=True, slots=True)
class Noise:
    """Hold the largest errors of independent runs of a tensor, as multiples of the spread's sigma."""

    dtype: DType
    spread: Spread
    element: float = 0.0
    group: float = 0.0
    whole: float = 0.0

    def is_exceeded(self, before: Array, after: Array) -> bool:
        if self.spread.sigma is None:
            low, high = self.spread.low, self.spread.high
            assert low is not None
            assert high is not None
            wide = after.astype(low.dtype)
            return bool(np.any((after != before) & ((wide < low) | (wide > high))))
        one, other = numbers(before, self.dtype), numbers(after, self.dtype)
        with np.errstate(all="ignore"):
            effect = np.where(same_values(one, other), 0.0, np.abs(other - one))
        if not np.isfinite(effect).all():
            return True
        found = _deviations(self.dtype, self.spread, effect)
        limits = self.element, self.group, self.whole
        return any(own > limit for own, limit in zip(found, limits, strict=True))


@dataclass(slots=True)
class HonestRuns:
    """Hold the noise of some tensors, and the largest error in each of the others, in its numbers."""

    noises: dict[str, Noise] = field(default_factory=dict)
    largest: dict[str, float] = field(default_factory=dict)


def measure_noise(
    graph: Graph, inputs: Arrays, wanted: Collection[str], timeout: float
) -> HonestRuns:
    """Measure how far independent runs are from the exact one."""
    found = HonestRuns()
    kept: dict[str, list[Array]] = {}
    for batch in range(_BATCHES):
        differs = False
        for name, values in independent_runs(graph, inputs, batch, timeout):
            tensor = graph.main.tensors.get(name)
            if tensor is None or not values[0].size:
                continue
            differs |= any(value is not values[0] for value in values)
            errors = _errors(tensor.dtype, values)
            largest = max((float(e.max()) for e in errors), default=0.0)
            found.largest[name] = max(largest, found.largest.get(name, 0.0))
            if name in wanted:
                kept.setdefault(name, values[:1]).extend(
                    value for value in values[1:] if value is not values[0]
                )
        if not differs:
            break
    for name, values in kept.items():
        row = graph.main.tensors[name].dtype
        found.noises[name] = _noise(row, values, _errors(row, values))
    return found


def _errors(row: DType, values: Sequence[Array]) -> list[Array]:
    """Return the distances of each run that differs from the exact one, where they are finite."""
    wide = [numbers(v, row) if row.name in FLOATS else v.astype(np.float64) for v in values]
    errors = []
    for value, other in zip(values[1:], wide[1:], strict=True):
        if value is values[0]:
            continue
        with np.errstate(all="ignore"):
            error = np.abs(other - wide[0])
        errors.append(np.where(np.isfinite(error), error, 0.0))
    return errors


def _noise(row: DType, values: Sequence[Array], errors: Sequence[Array]) -> Noise:
    if row.name not in FLOATS:
        wide = [array.astype(np.float64) if is_float(array.dtype) else array for array in values]
        low, high = reduce(np.minimum, wide), reduce(np.maximum, wide)
        return Noise(row, Spread(wide[0], low=low, high=high))
    exact = numbers(values[0], row)
    squares = sum((np.square(error) for error in errors), np.zeros(exact.shape))
    spread = Spread(exact, sigma=np.sqrt(squares / max(len(errors), 1)))
    found = [_deviations(row, spread, error) for error in errors]
    none = 0.0, 0.0, 0.0
    return Noise(row, spread, *(max(column) for column in zip(none, *found, strict=True)))


def _deviations(row: DType, spread: Spread, errors: Array) -> tuple[float, float, float]:
    """Return errors as multiples of a spread: of an element, a row or channel, and the whole."""
    assert spread.sigma is not None
    totals = NetworkTotals(NetworkCheck(row, spread))
    flat = errors.reshape(-1)
    totals.add_errors(slice(0, flat.size), flat)
    with np.errstate(all="ignore"):
        ratios = np.where(flat == 0, 0.0, flat / spread.sigma.reshape(-1))
    return float(ratios.max(initial=0.0)), *totals.deviations()
