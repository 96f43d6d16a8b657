"""Recognise the results that a backend recorded without names among the tensors of a model."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.graph.derived import computed_tensors
from tosa_convert.graph.model import Graph

#: Elements of an array that its fingerprint holds.
SAMPLE: Final = 2048


def align(
    graph: Graph,
    golden: Iterable[tuple[str, Array]],
    steps: Sequence[Callable[[], Array]],
) -> dict[str, int]:
    """Match unnamed steps with tensors of the graph: same type and shape, in order, nearest in value.

    golden: the tensors with their arrays, one at a time; no array is stored.
    Returns tensor -> index of the step. Steps without a matching tensor are left out.
    """
    order = {name: index for index, (_, name) in enumerate(computed_tensors(graph))}
    fingerprints = [_Fingerprint(read()) for read in steps]
    by_type: dict[Any, list[int]] = {}
    for number, fingerprint in enumerate(fingerprints):
        by_type.setdefault(fingerprint.type, []).append(number)
    distances: list[list[tuple[int, float]]] = [[] for _ in steps]
    names: dict[int, str] = {}
    for name, array in golden:
        if name in order:
            names[order[name]] = name
            fingerprint = _Fingerprint(array)
            for number in by_type.get(fingerprint.type, ()):
                distance = fingerprint.distance(fingerprints[number])
                distances[number].append((order[name], distance))
    matches: dict[str, int] = {}
    position = 0
    for number, row in enumerate(distances):
        best: tuple[float, int] | None = None
        for index, distance in sorted(row):
            # Of equally near tensors the last: what a converter appends to an operator belongs to it.
            if index >= position and (best is None or distance <= best[0]):
                best = (distance, index)
        if best is not None and best[0] <= fingerprints[number].limit:
            matches[names[best[1]]] = number
            position = best[1] + 1
    return matches


class _Fingerprint:
    """The fingerprint of an array, to recognise its tensor: type and shape, a hash, and a sample.

    limit: the largest distance between two arrays of one tensor: a tenth of the array's spread.
    """

    def __init__(self, array: Array) -> None:
        self.type = (str(array.dtype), array.shape)
        flat = np.ascontiguousarray(array).reshape(-1)
        self.hash = hashlib.sha256(flat.view(np.uint8).data).digest()
        if flat.size > SAMPLE:
            # At random: evenly spaced elements might all be of one channel.
            flat = flat[np.random.default_rng(0).integers(0, flat.size, SAMPLE)]
        self.sample = flat.astype(np.float64)
        with np.errstate(all="ignore"):
            self.limit = 0.1 * float(np.std(self.sample)) + 1.0 if flat.size else 1.0

    def distance(self, other: _Fingerprint) -> float:
        """0 for equal arrays only, else about the mean of the absolute differences."""
        if self.hash == other.hash:
            return 0.0
        with np.errstate(all="ignore"):
            mean = float(np.mean(np.abs(self.sample - other.sample)))
        return max(mean, sys.float_info.min)
