"""What fields of a flatbuffer refer to, numbered before it is known where it lies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int64]


class Space:
    """Things of one kind that fields refer to, numbered as they turn up and placed later."""

    def __init__(self) -> None:
        # A key that is looked up for the first time gets the next number.
        self.ids: dict[Any, int] = defaultdict(count().__next__)
        #: Those that were numbered last.
        self.more: Iterable[Any] = ()
        self.at: list[int] | Positions = []

    def __call__(self, key: Hashable) -> int:
        """The number of the thing called `key`."""
        return self.ids[key]

    def first(self, keys: Sequence[Hashable]) -> Sequence[int]:
        """The numbers of many things, likely the first and most of them new.

        Where they differ from one another, that is a fraction of the time.
        """
        if not self.ids:
            numbers = range(len(keys))
            found = dict(zip(keys, numbers, strict=True))
            if len(found) == len(keys):
                self.ids = defaultdict(count(len(keys)).__next__, found)
                return numbers
        return self.all(keys)

    def all(self, keys: Iterable[Hashable]) -> list[int]:
        """The numbers of many things."""
        return list(map(self.ids.__getitem__, keys))

    def last(self, keys: dict[Any, int]) -> Sequence[int]:
        """The numbers of things that differ from one another, and after which no others come.

        Where all are new, which they mostly are, that is a fraction of the time.
        """
        if not self.ids.keys().isdisjoint(keys):
            return self.all(keys)
        self.more = keys
        return range(len(self.ids), len(self.ids) + len(keys))
