"""What rewrites changed: counted, and grouped by rewrite and kind of change."""

from __future__ import annotations

from typing import Final

from tosa_convert.graph.model import Operator, operator_path
from tosa_convert.graph.shown import Shown
from tosa_convert.records import dataclass, field

#: How many operators a change lists.
_SHOWN_PLACES: Final = 4


@dataclass(frozen=True, slots=True)
class Change(Shown):
    """Equal changes of one rewrite.

    rewrite: the name of the rewrite.
    what: what it did, such as "POW by 2 became x * x".
    count: how often.
    places: the paths of the first operators that it changed, with their locations, in the graph as the
        rewrite found it.

    Example:
        >>> print(Change("pow-by-constant", "POW by 2 became x * x", 3, ("a", "b", "c")))
        pow-by-constant: POW by 2 became x * x, 3 times: a, b, c
    """

    rewrite: str
    what: str
    count: int
    places: tuple[str, ...] = ()

    def __str__(self) -> str:
        times = f", {self.count} times" if self.count > 1 else ""
        more = self.count - len(self.places)
        places = ", ".join(self.places) + (f", ... {more} more" if more > 0 else "")
        return f"{self.rewrite}: {self.what}{times}: {places}"


@dataclass(frozen=True, slots=True)
class Report(Shown):
    """The changes of one call of `apply`, in the order in which rewrites run.

    False if nothing was changed. `str` gives one line for each change.
    """

    changes: tuple[Change, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __str__(self) -> str:
        return "\n".join(map(str, self.changes))

    def count(self, rewrite: str) -> int:
        """Return how many changes a rewrite made.

        Example:
            >>> Report((Change("fold-constants", "ADD", 2),)).count("fold-constants")
            2
        """
        return sum(change.count for change in self.changes if change.rewrite == rewrite)


@dataclass(slots=True)
class _Group:
    """The number of equal changes, and the places of the first ones."""

    count: int = 0
    places: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Recorder:
    """Collects changes. order: the names of all rewrites, in the order of the report."""

    order: tuple[str, ...]
    groups: dict[tuple[str, str], _Group] = field(default_factory=dict)

    def add(self, rewrite: str, what: str, where: str, index: int, operator: Operator) -> None:
        """Note one change. where, index: the block of the original operator, and its position."""
        group = self.groups.get((rewrite, what))
        if group is None:
            group = self.groups[rewrite, what] = _Group()
        group.count += 1
        if len(group.places) < _SHOWN_PLACES:
            path = operator_path(where, index, operator)
            group.places.append(f"{path} {operator.location}" if operator.location else path)

    def report(self) -> Report:
        """Return everything that was noted, in the order of the table and then by kind of change."""
        keys = sorted(self.groups, key=lambda key: self.order.index(key[0]))
        return Report(
            tuple(
                Change(*key, self.groups[key].count, tuple(self.groups[key].places)) for key in keys
            )
        )
