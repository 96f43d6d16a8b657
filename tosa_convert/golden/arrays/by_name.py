"""Arrays by name, in memory or in files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

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
