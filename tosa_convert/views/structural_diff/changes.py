"""What `diff` returns: the differences of two programs as immutable values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.lazy_numpy import np
from tosa_convert.graph.model import counted
from tosa_convert.graph.shown import Shown
from tosa_convert.version import STAMP

if TYPE_CHECKING:
    import numpy.typing as npt


# -- how the elements of two constants differ, in bounded memory -----------------------------------


@dataclass(frozen=True, slots=True)
class ElementDifference:
    """How many elements of two constants of one type differ, and how far.

    elements: how many the constants have.
    different: how many differ in a bit. So -0.0 differs from 0.0, and two NaNs can differ.
    first: the index of the first that differs, in row-major order.
    nans: how many of those that differ are NaN in one constant or in both.
    max_absolute: the largest absolute difference of two numbers; None if there are only NaNs.
    max_relative: the largest absolute difference divided by the larger magnitude of the two numbers,
        from 0 to 2; None unless two finite numbers differ.
    """

    elements: int
    different: int
    first: int
    nans: int
    max_absolute: float | int | None
    max_relative: float | None


def element_difference(left: Constant, right: Constant) -> ElementDifference | None:
    """Return how the elements of two constants differ, or None if all are equal bit for bit."""
    if left.same_bits(right):
        return None
    total = _Total()
    start, width = 0, left.dtype.element_bytes
    pieces = zip(left.raw_blocks(), right.raw_blocks(), left.blocks(), right.blocks(), strict=True)
    for raw, other_raw, numbers, other_numbers in pieces:
        if not np.array_equal(raw, other_raw):
            different = (raw != other_raw).reshape(-1, width).any(axis=1)
            total.add(start, different, numbers[different], other_numbers[different])
        start += len(numbers)
    return ElementDifference(
        left.count, total.different, total.first, total.nans, total.absolute, total.relative
    )


class _Total:
    """What was found so far."""

    def __init__(self) -> None:
        self.different = self.nans = 0
        self.first = -1
        self.absolute: float | int | None = None
        self.relative: float | None = None

    def add(
        self,
        start: int,
        different: npt.NDArray[np.bool_],
        left: npt.NDArray[np.generic],
        right: npt.NDArray[np.generic],
    ) -> None:
        """Add the elements of a block that differ; start: the index of its first element."""
        if self.first < 0:
            self.first = start + int(different.argmax())
        self.different += len(left)
        if left.dtype.kind in "iub" or left.dtype.name == "int4":
            self._integers(left.astype(np.int64), right.astype(np.int64))
        else:
            self._floats(left.astype(np.float64), right.astype(np.float64))

    def _integers(self, left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]) -> None:
        # Exact in 64 bits without a sign, where a difference in int64 could overflow.
        high, low = np.maximum(left, right), np.minimum(left, right)
        distance = high.view(np.uint64) - low.view(np.uint64)
        self._keep(int(distance.max()))
        magnitude = np.maximum(np.abs(left.astype(np.float64)), np.abs(right.astype(np.float64)))
        self._keep_relative(float((distance.astype(np.float64) / magnitude).max()))

    def _floats(self, left: npt.NDArray[np.float64], right: npt.NDArray[np.float64]) -> None:
        numbers = ~(np.isnan(left) | np.isnan(right))
        self.nans += len(left) - int(numbers.sum())
        left, right = left[numbers], right[numbers]
        if not len(left):
            return
        with np.errstate(all="ignore"):
            distance = np.abs(left - right)
            self._keep(float(distance.max()))
            magnitude = np.maximum(np.abs(left), np.abs(right))
            ratio = np.where(magnitude == 0, 0.0, distance / magnitude)
        finite = ratio[~np.isnan(ratio)]
        if len(finite):
            self._keep_relative(float(finite.max()))

    def _keep(self, absolute: float | int) -> None:
        self.absolute = absolute if self.absolute is None else max(self.absolute, absolute)

    def _keep_relative(self, relative: float) -> None:
        self.relative = relative if self.relative is None else max(self.relative, relative)


ChangeKind = Literal["added", "removed", "changed", "retyped", "moved"]
Subject = Literal[
    "program", "region", "block", "input", "output", "variable", "constant", "operator"
]

_KINDS: tuple[ChangeKind, ...] = get_args(ChangeKind)
_SUBJECTS: tuple[Subject, ...] = get_args(Subject)


@dataclass(frozen=True, slots=True)
class Item:
    """What a change is about, in one of the programs.

    region, block: the names of the region and block that it is in, or "".
    index: the number of the operator, input or output in its block; -1 for anything else.
    name: of an operator or constant such as "CONV2D", otherwise of the value, variable, region or block.
    results: the names of the values that it makes.
    text: what it is, in a line.
    location: the MLIR location of an operator, or "".
    """

    region: str
    block: str
    index: int
    name: str
    results: tuple[str, ...]
    text: str
    location: str = ""


@dataclass(frozen=True, slots=True)
class Detail:
    """One thing that differs between the two sides of a change.

    what: such as "attribute stride", "operand weight", "type of output" or "data".
    left, right: what each program has.
    elements: how the elements of constants differ; None for anything else, and for constants of
        different types.
    """

    what: str
    left: str
    right: str
    elements: ElementDifference | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """One difference of two programs.

    kind: "added" (only the right program has it), "removed" (only the left one), "changed", "moved" (it
        is the same at another place), or "retyped": only the element types or shapes of its results
        differ, because those of what it takes do.
    subject: what has changed.
    left, right: what it is in each program; None where it does not exist.
    details: what differs, for "changed" and "retyped".
    users: the operators that take a constant, such as "weight of #13 CONV2D".
    with_constants: how many constants were added or removed together with an operator, or moved.
    place: the number of the operator or constant in its block of the left program; for one that was
        added the number of the operator that it follows. -1 at the start, and for anything else.
    within: the names of the region and block of the left program in which, or in whose partner, it is;
        of what is a region or block itself, or in none, those of its item.
    """

    kind: ChangeKind
    subject: Subject
    left: Item | None
    right: Item | None
    details: tuple[Detail, ...] = ()
    users: tuple[str, ...] = ()
    with_constants: int = 0
    place: int = -1
    within: tuple[str, str] = ("", "")

    @property
    def item(self) -> Item:
        """Return what it is in the left program, or in the right one if it was added."""
        item = self.left or self.right
        assert item is not None
        return item

    def __str__(self) -> str:
        item = self.item
        number = f"#{item.index} " if item.index >= 0 else ""
        details = "; ".join(f"{row.what}: {row.left} -> {row.right}" for row in self.details)
        name = f" {number}{item.name}".rstrip()
        return f"{self.kind} {self.subject}{name}" + (f": {details}" if details else "")


def alone(
    side: int, subject: Subject, item: Item, users: tuple[str, ...] = (), with_constants: int = 0
) -> Change:
    """Return the change for what only one program has, the left one (0) or the right one (1)."""
    if side:
        return Change("added", subject, None, item, (), users, with_constants)
    return Change("removed", subject, item, None, (), users, with_constants)


@dataclass(frozen=True, slots=True)
class Diff(Shown):
    """The differences of two programs. It is false if there are none.

    changes: in the order of the left program, block by block; what was added follows what precedes it.
    notes: what differs besides the program itself: its producer, and the target that a module names.
    left, right: a line on each program.
    operators: how many operators each program has, constants included.
    """

    changes: tuple[Change, ...]
    notes: tuple[Detail, ...]
    left: str
    right: str
    operators: tuple[int, int]

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def __len__(self) -> int:
        return len(self.changes)

    def counts(self) -> dict[tuple[Subject, ChangeKind], int]:
        """Return how many changes there are of each subject and kind, without zeros."""
        found = Counter((change.subject, change.kind) for change in self.changes)
        return {
            (subject, kind): found[subject, kind]
            for subject in reversed(_SUBJECTS)
            for kind in _KINDS
            if found[subject, kind]
        }

    def summary(self) -> str:
        """Return the counts in one line.

        Example:
            >>> Diff((), (), "", "", (0, 0)).summary()
            'no differences'
        """
        parts = [
            f"{counted(number, subject)} {kind}"
            for (subject, kind), number in self.counts().items()
        ]
        return ", ".join(parts) or "no differences"

    def __str__(self) -> str:
        return "\n".join([*map(str, self.changes), self.summary()])

    def as_dict(self) -> dict[str, Any]:
        """Return what `to_dict` does, by its earlier name."""
        return self.to_dict()

    def to_dict(self) -> dict[str, Any]:
        """Return the differences as JSON has them; docs/diff.md describes the fields."""
        return {
            **STAMP,
            "equal": not self,
            "left": {"program": self.left, "operators": self.operators[0]},
            "right": {"program": self.right, "operators": self.operators[1]},
            "notes": [_detail(note) for note in self.notes],
            "changes": [_change(change) for change in self.changes],
            "summary": [
                {"subject": subject, "kind": kind, "count": count}
                for (subject, kind), count in self.counts().items()
            ],
        }


# -- JSON ------------------------------------------------------------------------------------------


def _change(change: Change) -> dict[str, Any]:
    return {
        "kind": change.kind,
        "subject": change.subject,
        "left": _item(change.left),
        "right": _item(change.right),
        "details": [_detail(detail) for detail in change.details],
        "users": list(change.users),
        "with_constants": change.with_constants,
        "place": None if change.place < 0 else change.place,
    }


def _item(item: Item | None) -> dict[str, Any] | None:
    if item is None:
        return None
    index = None if item.index < 0 else item.index
    return asdict(item) | {"index": index, "results": list(item.results)}


def _detail(detail: Detail) -> dict[str, Any]:
    row: dict[str, Any] = {"what": detail.what, "left": detail.left, "right": detail.right}
    found = detail.elements
    row["elements"] = found and {name: _number(value) for name, value in asdict(found).items()}
    return row


def _number(value: float | int | None) -> float | int | str | None:
    """Return a value as JSON has it: JSON has no infinity."""
    return "inf" if isinstance(value, float) and math.isinf(value) else value
