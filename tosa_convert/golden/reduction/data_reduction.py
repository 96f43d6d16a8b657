"""Reduces the inputs of a failing case: as many elements as possible become zero while it fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.arrays.slots import SCALE_SUFFIX

#: Runs that a reduction may take.
RUNS: Final = 60


def reduce_data(
    inputs: Mapping[str, Array],
    is_failing: Callable[[dict[str, Array]], bool],
    runs: int = RUNS,
) -> dict[str, Array]:
    """Set elements of the inputs to zero as long as the case still fails.

    Halves of these elements are tried first, then smaller parts, until no single element can be zero
    or the runs are used up. Scales of block-scaled inputs stay as they are.

    Args:
        inputs: the arrays by key, on which the case fails.
        is_failing: runs the case on other arrays.
        runs: how often it may be called.

    Example:
        >>> given = {"x": np.arange(1, 65)}
        >>> found = reduce_data(given, lambda arrays: arrays["x"][37] != 0)
        >>> int(np.count_nonzero(found["x"])), int(found["x"][37])
        (1, 38)
    """
    places = [
        (key, index)
        for key, array in inputs.items()
        if not key.endswith(SCALE_SUFFIX)
        for index in np.flatnonzero(array.reshape(-1) != np.zeros((), array.dtype))
    ]
    parts = 2
    while runs > 0 and places:
        size = -(-len(places) // parts)
        for start in range(0, len(places), size):
            if runs == 0:
                break
            fewer = places[:start] + places[start + size :]
            runs -= 1
            if is_failing(_only(inputs, fewer)):
                places, parts = fewer, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(parts * 2, len(places))
    return _only(inputs, places)


def _only(inputs: Mapping[str, Array], places: list[tuple[str, int]]) -> dict[str, Array]:
    """Return the arrays with zeros everywhere but in these places; scales as they are."""
    result = {}
    for key, array in inputs.items():
        if key.endswith(SCALE_SUFFIX):
            result[key] = array
            continue
        flat = np.zeros(array.size, array.dtype)
        indices = [index for name, index in places if name == key]
        flat[indices] = array.reshape(-1)[indices]
        result[key] = flat.reshape(array.shape)
    return result


def nonzero_elements(inputs: Mapping[str, Array]) -> tuple[int, int]:
    """Count the elements of the arrays that are not zero, and all elements; without scales."""
    arrays = [array for key, array in inputs.items() if not key.endswith(SCALE_SUFFIX)]
    count = sum(int(np.count_nonzero(a != np.zeros((), a.dtype))) for a in arrays)
    return count, sum(array.size for array in arrays)
