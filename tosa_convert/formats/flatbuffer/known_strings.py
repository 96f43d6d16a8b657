"""The strings of a file that were read, by position."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Positions = npt.NDArray[np.int64]
    Texts = npt.NDArray[np.object_]


class KnownStrings:
    """Finds strings by their positions. A string that is found twice is one object.

    Strings are read many at a time, so they are kept in few arrays. A dict with an entry for each would
    take twice the time.
    """

    def __init__(self) -> None:
        #: Positions in ascending order, and the strings there. No position is in two of these.
        self._runs: list[tuple[Positions, Texts]] = []

    def add(self, places: Positions, texts: list[str]) -> None:
        """Note strings at positions that are in ascending order and not yet known."""
        if texts:
            self._runs.append((places, np.array(texts, object)))

    def find(self, places: Positions) -> list[str] | None:
        """Return the strings at these positions; None if one of them is not known."""
        found: Texts = np.empty(len(places), object)
        count = 0
        for index, texts, is_there in self._matches(places):
            if is_there.all():
                strings: list[str] = texts[index].tolist()
                return strings
            found[is_there] = texts[index[is_there]]
            count += int(np.count_nonzero(is_there))
        return found.tolist() if count == len(places) else None

    def unknown(self, places: Positions) -> Positions:
        """Return those of the positions that are not known."""
        is_unknown = np.ones(len(places), bool)
        for _, _, is_there in self._matches(places):
            is_unknown &= ~is_there
        return places if is_unknown.all() else places[is_unknown]

    def _matches(
        self, places: Positions
    ) -> Iterator[tuple[Positions, Texts, npt.NDArray[np.bool_]]]:
        """Find the runs that have some of the positions.

        Yields for each: the positions' indices in the run, its strings, and which positions it has.
        """
        for known, texts in self._runs:
            index = np.searchsorted(known, places)
            index[index == len(known)] = 0
            is_there = known[index] == places
            if is_there.any():
                yield index, texts, is_there
