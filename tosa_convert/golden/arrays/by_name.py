"""Arrays by name, in memory or in files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class LazyArrays(Mapping[str, Array]):
    """Arrays by name that are read on every access and not stored.

    read: returns the array of one of the names, from a file for example.
    """

    def __init__(self, names: Iterable[str], read: Callable[[str], Array]) -> None:
        self._names = dict.fromkeys(names)
        self._read = read

    def __getitem__(self, name: str) -> Array:
        if name not in self._names:
            raise KeyError(name)
        return self._read(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def differing_elements(one: Array, other: Array) -> int:
    """Count the elements that differ, bit for bit, of arrays of one type and shape.

    Example:
        >>> differing_elements(np.array([0.0, 1.0]), np.array([-0.0, 1.0]))
        1
    """
    if not one.size or not (any(one.strides) or any(other.strides)):
        # Arrays that were not read for their shape are one zero; written out they may not fit.
        return int(one.size and one.flat[0].tobytes() != other.flat[0].tobytes()) * one.size
    bits = [
        np.ascontiguousarray(a).reshape(-1).view(np.uint8).reshape(a.size, -1) for a in (one, other)
    ]
    return int(np.count_nonzero((bits[0] != bits[1]).any(axis=1)))
