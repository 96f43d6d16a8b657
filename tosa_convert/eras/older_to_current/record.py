"""What an upgrade changed: counted, and grouped by operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tosa_convert.records import NamedTuple


class Change(NamedTuple):
    """A kind of change. operation: such as "conv2d". what: in words. number: of operations."""

    operation: str
    what: str
    number: int


class Upgrade:
    """Whether a program is taken for an old one, and what was changed in it.

    is_old: the program is known to be older than TOSA 1.0, by request or by one of its operations.
        What programs of today must not do is then allowed to mean what it meant: operands of different
        ranks, strides that do not divide.
    state: that of the program's dialect, if it is known; see `dialect_states`.
    """

    __slots__ = ("_counts", "is_old", "state")

    def __init__(self, is_old: bool = False, state: str = "") -> None:
        self.is_old = is_old
        self.state = state
        self._counts: Counter[tuple[str, str]] = Counter()

    def __bool__(self) -> bool:
        return bool(self._counts)

    def add(self, operation: str, what: str) -> None:
        """Count a change of an operation."""
        self._counts[operation, what] += 1

    def changes(self) -> list[Change]:
        """Return the changes, sorted by operation."""
        return [Change(*key, count) for key, count in sorted(self._counts.items())]

    def lines(self) -> Iterator[str]:
        """Iterate over the changes as text, one line for each kind."""
        for operation, what, number in self.changes():
            yield f"{operation}: {what} ({number})"

    def summary(self) -> str:
        """Return the number of changed operations in one line."""
        counts: Counter[str] = Counter()
        for (operation, _), count in self._counts.items():
            # An operation that changed in several ways counts once.
            counts[operation] = max(counts[operation], count)
        listing = ", ".join(f"{operation} {count}" for operation, count in sorted(counts.items()))
        return f"upgraded from an older TOSA: {listing}"
