"""What `chain` finds: a row for each tensor, a column for each source, and a verdict on each link."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tosa_convert.errors import printable
from tosa_convert.graph.model import UNLOCATED, counted
from tosa_convert.graph.shown import Shown, json_value, table
from tosa_convert.qualify.bisection.result import Bisection

#: The shares of the samples of a data set whose errors are stated.
QUANTILES: Final = (0.5, 0.9, 1.0)
#: The numbers of a cell, and the heads of their columns.
_NUMBERS: Final = {"first": "from first", "before": "from before", "share": "of bound", "snr": "dB"}


@dataclass(frozen=True, slots=True)
class Cell:
    """What a source has for a tensor.

    first, before: the largest difference from the first source that has the tensor, and from the last
        one before; of samples, that of the worst. snr: signal to noise against the first, in dB.
    share: the error as a share of what the link allows; None where nothing says that.
    quantiles: of `before`, over the samples of a data set.
    """

    first: float
    before: float
    snr: float
    share: float | None = None
    quantiles: tuple[float, ...] = ()

    def text(self, name: str) -> str:
        """Return a number as the table shows it."""
        value = getattr(self, name)
        if value is None:
            return ""
        return f"{value:.1f}" if name == "snr" and math.isfinite(value) else f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class Row:
    """A tensor. cells: by source; that of the first source that has it is None."""

    name: str
    operator: str
    location: str
    shape: tuple[int, ...]
    cells: Mapping[str, Cell | None]


@dataclass(frozen=True, slots=True)
class Link:
    """The step from one source to the next, and whether its error is one that the step explains.

    tensor: the first one whose error is larger; "" if none is. operators: what may be at fault, as
        `bisect` names it. reason: why. run: the sample or the call.
    """

    before: str
    after: str
    ok: bool
    tensor: str = ""
    operators: tuple[str, ...] = ()
    reason: str = ""
    run: str = ""
    detail: Bisection | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        head = f"{printable(self.before)} -> {printable(self.after)}: "
        if self.ok:
            return f"ok   {head}{self.reason}"
        where = f"{self.run}: " if self.run else ""
        text = f"FAIL {head}{where}{printable(self.tensor)}: {self.reason}"
        return text + "".join(f"\n       {printable(row)}" for row in self.operators)


@dataclass(frozen=True, slots=True)
class Chain(Shown):
    """The sources of a chain, compared tensor by tensor, in the order of operators."""

    sources: tuple[str, ...]
    rows: tuple[Row, ...]
    links: tuple[Link, ...]
    notes: tuple[str, ...] = ()
    perplexity: Mapping[str, float] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Return whether something was compared, and each link explains its error."""
        return bool(self.rows) and all(link.ok for link in self.links)

    @property
    def first(self) -> Link | None:
        """Return the first link whose error is larger than its step explains."""
        return next((link for link in self.links if not link.ok), None)

    def __str__(self) -> str:
        later = self.sources[1:]
        head = ["tensor", "operator", *(f"{s}: {t}" for s in later for t in _NUMBERS.values())]
        rows = []
        for row in self.rows:
            cells = [row.cells.get(source) for source in later]
            texts = [cell.text(n) if cell else "" for cell in cells for n in _NUMBERS]
            rows.append([printable(row.name), row.operator.removeprefix("operator "), *texts])
        lines = table(head, rows) if rows else ["FAIL nothing was compared"]
        lines += ["", *map(str, self.links), *(f"note: {n}" for n in self.notes)]
        if self.perplexity:
            values = (f"{printable(name)} {value:.5g}" for name, value in self.perplexity.items())
            lines.append(f"perplexity: {', '.join(values)}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the arrays, as JSON values."""
        names = ("before", "after", "ok", "tensor", "operators", "reason", "run")
        rows = [
            {
                "name": row.name,
                "operator": row.operator,
                "location": row.location,
                "shape": list(row.shape),
                "cells": {
                    source: cell
                    and {n: json_value(getattr(cell, n)) for n in (*_NUMBERS, "quantiles")}
                    for source, cell in row.cells.items()
                },
            }
            for row in self.rows
        ]
        links = [{name: json_value(getattr(link, name)) for name in names} for link in self.links]
        return {
            "ok": self.ok,
            "sources": list(self.sources),
            "chain": rows,
            "links": links,
            "notes": list(self.notes),
            "perplexity": json_value(dict(self.perplexity)),
        }


def link_of_bisection(
    before: str, after: str, found: Bisection, run: str, *, may_add_up: bool
) -> Link:
    """Return the verdict that `bisect` has on a link.

    may_add_up: the errors of operators that are right may make the outputs differ by any amount.
    """
    outputs = found.outputs
    adds_up = found.first is not None and found.first.kind == "within-rules"
    if found.ok or (may_add_up and adds_up):
        text = f"{counted(found.compared, 'tensor')} judged, each by itself"
        return Link(before, after, True, reason=text, run=run, detail=found)
    if found.first is None:
        failures = [] if outputs is None else [row.name for row in outputs.failures]
        missing = () if outputs is None else outputs.missing
        name = next(iter((*failures, *missing)), "")
        reason = "more than honest implementations differ" if name else "nothing was compared"
        return Link(before, after, not name, name, (), reason, run, detail=found)
    wrong = [row.name for row in found.first.case.comparison.failures]
    operators = [
        f"{path} {place if place not in UNLOCATED else ''}".rstrip()
        for _, path, place, _ in found.first.operators
    ]
    reason = {"within-rules": "the errors of these operators add up"}.get(
        found.first.kind, "it does not follow from what is before it"
    )
    return Link(
        before, after, False, (wrong or [""])[0], tuple(operators), reason, run, detail=found
    )


def of_samples(chains: Sequence[Chain]) -> Chain:
    """Join the chains of several samples: of each tensor the worst, and quantiles."""
    first = chains[0]
    if len(chains) == 1:
        return first
    rows = []
    for row in first.rows:
        others = [one for c in chains for one in c.rows if one.name == row.name]
        cells = {
            source: cell
            and _worst([own for one in others if (own := one.cells.get(source)) is not None])
            for source, cell in row.cells.items()
        }
        rows.append(Row(row.name, row.operator, row.location, row.shape, cells))
    note = f"the numbers are those of the worst of {len(chains)} samples"
    return Chain(first.sources, tuple(rows), _first_failures(chains), (note,))


def _first_failures(chains: Sequence[Chain]) -> tuple[Link, ...]:
    """Return of each link the first failure, or else the first verdict."""
    rows = zip(*(one.links for one in chains), strict=True)
    return tuple(next((link for link in row if not link.ok), row[0]) for row in rows)


def _worst(cells: Sequence[Cell]) -> Cell:
    sizes = sorted(cell.before for cell in cells)
    places = [min(len(sizes) - 1, math.ceil(q * len(sizes)) - 1) for q in QUANTILES]
    shares = [cell.share for cell in cells if cell.share is not None]
    return Cell(
        max(cell.first for cell in cells),
        sizes[-1],
        min(cell.snr for cell in cells),
        max(shares, default=None),
        tuple(sizes[place] for place in places),
    )


def in_a_row(chains: Sequence[Chain]) -> Chain:
    """Join the chains of calls in a row: the tensors of one after those of another."""
    first = chains[0]
    rows = (
        replace(row, name=f"{row.name} (call {k})")
        for k, one in enumerate(chains)
        for row in one.rows
    )
    return Chain(first.sources, tuple(rows), _first_failures(chains))
