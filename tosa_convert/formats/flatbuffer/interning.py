"""Interned values of a flatbuffer: each gets an id first and a position when it is written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Positions = npt.NDArray[np.int64]


class Interner:
    """Interning table: a value gets an id on first use and a position when it is written."""

    def __init__(self) -> None:
        # A missing key gets the next id, without a Python call for each key.
        self.ids: dict[Any, int] = defaultdict(count().__next__)
        #: Values after those in `ids`, in the order of their ids.
        self.last: Iterable[Any] = ()
        #: The position of each value in the file, by id.
        self.positions: list[int] | Positions = []

    def intern(self, key: Hashable) -> int:
        """Return the id of a value."""
        return self.ids[key]

    def intern_all(self, keys: Iterable[Hashable]) -> list[int]:
        """Return the ids of many values."""
        return list(map(self.ids.__getitem__, keys))

    def intern_array(self, keys: Iterable[Hashable], count: int) -> Positions:
        """Return the ids of `count` values, as an array."""
        return np.fromiter(map(self.ids.__getitem__, keys), np.int64, count)

    def intern_first(self, keys: Sequence[Hashable]) -> Sequence[int]:
        """Return the ids of many values that are probably distinct, if the table is probably empty."""
        # Fast path of intern_all; equal by test test_values_interned_first_get_the_same_ids
        if not self.ids:
            ids = range(len(keys))
            fresh = dict(zip(keys, ids, strict=True))
            if len(fresh) == len(keys):
                self.ids = defaultdict(count(len(keys)).__next__, fresh)
                return ids
        return self.intern_all(keys)

    def intern_last(self, keys: dict[Any, int]) -> Sequence[int]:
        """Return the ids of distinct values that are probably new.

        No others may be interned after them.
        """
        # Fast path of intern_all; equal by test test_values_interned_last_get_the_same_ids
        if not self.ids.keys().isdisjoint(keys):
            return self.intern_all(keys)
        self.last = keys
        return range(len(self.ids), len(self.ids) + len(keys))
