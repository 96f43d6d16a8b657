"""What `power` returns: the smallest changes that are reported, and the table of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, Literal

from tosa_convert.errors import printable
from tosa_convert.graph.shown import Shown
from tosa_convert.qualify.detection.changes import KINDS, Kind
from tosa_convert.records import dataclass, field

Verb = Literal["check", "bisect"]
VERBS: Final[tuple[Verb, ...]] = ("check", "bisect")


#: What the table's cells mean.
_LEGEND: Final = (
    "Sizes are units in the last place, or steps of integers: the median of what is reported (and of "
    "the noise).\nThe last columns have the largest ratio of the two; no effect: no output changes."
)


@dataclass(frozen=True, slots=True)
class Threshold:
    """The smallest size of a change that a verb reports, and the least that any could.

    reported: None if it reports no size. noise: the smallest size whose effect is larger than the errors
        of every independent run of a correct implementation; None if no size has an effect.
    """

    reported: float | None
    noise: float | None

    @property
    def ratio(self) -> float | None:
        """Return how many times the noise a change has to be; None if it has no effect."""
        if self.noise is None:
            return None
        return math.inf if self.reported is None else self.reported / self.noise


@dataclass(frozen=True, slots=True)
class ChangePower:
    """A change of a tensor, and how large it is when it is reported.

    Sizes are multiples of `unit`: units in the last place of what is changed, or integer steps.

    run: the inputs, such as "seed-0". kind: "element", "channel" or "all". index: of the element or
        channel, none of all. sign: whether it is added or subtracted. unit: in the tensor's numbers.
    check: at the outputs of the program. bisect: at the tensor itself.
    """

    run: str
    kind: Kind
    index: tuple[int, ...]
    sign: int
    unit: float
    check: Threshold
    bisect: Threshold


@dataclass(frozen=True, slots=True)
class TensorPower(Shown):
    """What the checks see of one tensor.

    noise: the largest error of a correct implementation in the network, in `unit`.
    unit: a unit in the last place of the root of the mean square of the tensor; 1 for integers.
    largest: the largest number of the tensor.
    """

    name: str
    operator: str
    location: str
    dtype: str
    shape: tuple[int, ...]
    noise: float
    unit: float
    largest: float
    changes: tuple[ChangePower, ...]

    def of(self, kind: Kind, verb: Verb) -> list[Threshold]:
        """Return the thresholds of all changes of a kind."""
        return [getattr(row, verb) for row in self.changes if row.kind == kind]

    def worst_ratio(self, verb: Verb) -> float | None:
        """Return the largest ratio of what a verb reports to the noise; None without any effect."""
        found = [getattr(row, verb).ratio for row in self.changes]
        return max((ratio for ratio in found if ratio is not None), default=None)

    @property
    def seen_at(self) -> float | None:
        """Return the median change of one element that `check` reports, by the largest number."""
        sizes = [
            math.inf if row.check.reported is None else row.check.reported * row.unit
            for row in self.changes
            if row.kind == "element"
        ]
        size = _median(sizes)
        if not math.isfinite(size):
            return None
        return size / self.largest if self.largest else size

    def __str__(self) -> str:
        return "  ".join(filter(None, _cells(self)))

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON values; a size that is never reported is null."""
        rows = []
        for change in self.changes:
            row = {name: getattr(change, name) for name in ("run", "kind", "sign", "unit")}
            row["index"] = list(change.index)
            for verb in VERBS:
                found: Threshold = getattr(change, verb)
                row[verb] = {
                    "reported": found.reported,
                    "noise": found.noise,
                    "ratio": _finite(found.ratio),
                }
            rows.append(row)
        names = ("name", "operator", "location", "dtype", "noise", "unit", "largest", "seen_at")
        return {
            **{name: getattr(self, name) for name in names},
            "shape": list(self.shape),
            "worst_ratio": {verb: _finite(self.worst_ratio(verb)) for verb in VERBS},
            "changes": rows,
        }


@dataclass(frozen=True, slots=True)
class Power(Shown):
    """The smallest changes that `check` and `bisect` report, tensor by tensor.

    notes: what was left out, and why.
    """

    tensors: tuple[TensorPower, ...]
    notes: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        return {"power": [row.to_dict() for row in self.tensors], "notes": list(self.notes)}

    def __str__(self) -> str:
        head = ["tensor", "operator", "type", "noise"]
        head += [f"{verb}: {kind}" for verb in VERBS for kind in KINDS]
        head += [f"{verb} / noise" for verb in VERBS]
        rows = [_cells(row) for row in self.tensors]
        return "\n".join([*_table(head, rows), "", _LEGEND, *(f"note: {n}" for n in self.notes)])


def _cells(row: TensorPower) -> list[str]:
    cells = [printable(row.name), row.operator.removeprefix("operator "), row.dtype]
    cells.append(number_text(row.noise))
    cells += [_cell(row.of(kind, verb)) for verb in VERBS for kind in KINDS]
    return cells + [_ratio_text(row.worst_ratio(verb)) for verb in VERBS]


def _cell(found: Sequence[Threshold]) -> str:
    """Return the median of what is reported, that of the noise, and how many are never reported."""
    if not found:
        return ""
    reported, noise = (
        _median([math.inf if size is None else size for size in column])
        for column in ([t.reported for t in found], [t.noise for t in found])
    )
    never = sum(threshold.reported is None for threshold in found)
    text = number_text(reported)
    if math.isfinite(reported):
        text += f" ({number_text(noise)})"
    return text + (f", {never} of {len(found)} never" if 0 < never < len(found) else "")


def _median(sizes: Sequence[float]) -> float:
    """Return the middle size, the larger one of two."""
    return sorted(sizes)[len(sizes) // 2] if sizes else math.inf


def _finite(number: float | None) -> float | str | None:
    return str(number) if number is not None and not math.isfinite(number) else number


def number_text(size: float) -> str:
    """Return a size in few characters.

    Example:
        >>> [number_text(size) for size in (0.25, 3.0, 1448.15, 2.0**25, float("inf"))]
        ['0.25', '3', '1448', '2^25', 'never']
    """
    if not math.isfinite(size):
        return "never"
    if size >= 2**16:
        return f"2^{round(math.log2(size))}"
    return f"{size:.0f}" if size >= 10 else f"{size:.2g}"


def _ratio_text(ratio: float | None) -> str:
    if ratio is None:
        return "no effect"
    return f"{ratio:.1f}" if math.isfinite(ratio) else "never"


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Return the lines of a table in Markdown, with aligned columns."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [head, ["-" * width for width in widths], *rows]
    return [
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) + " |"
        for line in lines
    ]
