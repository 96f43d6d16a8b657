"""The table of a run, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from budgets import Verdict
from measure import Result
from rows import Row


def seconds(value: float) -> str:
    """Three digits, in the unit that suits."""
    return f"{value:.3g} s" if value >= 1 else f"{value * 1e3:.3g} ms"


def mebibytes(value: float | None) -> str:
    """Return whole mebibytes."""
    return "" if value is None else f"{value / (1 << 20):.0f}"


HEADER = ("work", "by", "median", "spread", "n", "CPU", "peak", "anon.", "against peer")


def lines(row: Row) -> list[tuple[str, ...]]:
    """Return a row of the table for each subject; times first, then MiB, then the ratio."""
    found: list[tuple[str, ...]] = []
    for name, result in row.results.items():
        title = row.title if not found else ""
        if not result.runs:
            found.append((title, name, result.note, "", "", "", "", "", ""))
            continue
        low, high = result.spread
        ratio = row.ratio(name)
        shown = "" if ratio is None or name == row.peer else f"{ratio:.3g}x faster"
        if ratio is not None and ratio < 1 and name != row.peer:
            shown = f"{1 / ratio:.3g}x slower"
        found.append(
            (
                title,
                name,
                seconds(result.wall),
                f"{seconds(low)} - {seconds(high)}",
                str(len(result.runs)),
                seconds(result.cpu),
                mebibytes(result.peak),
                mebibytes(result.anonymous),
                shown,
            )
        )
    found += [("", f"({reason})", *[""] * 7) for reason in row.skipped]
    return found


def table(header: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """Plain text: columns as wide as they need."""
    rows = [tuple(header), *map(tuple, body)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    right = {"median", "spread", "n", "CPU", "peak", "anon.", "measured", "ms"}

    def line(row: Sequence[str]) -> str:
        cells = []
        for name, cell, width in zip(header, row, widths, strict=True):
            cells.append(cell.rjust(width) if name in right else cell.ljust(width))
        return "  ".join(cells).rstrip()

    return "\n".join([line(rows[0]), line(["-" * width for width in widths]), *map(line, rows[1:])])


def show(title: str, header: Sequence[str], body: Sequence[Sequence[str]]) -> None:
    """Print a table."""
    print(f"\n{title}\n")
    print(table(header, body), flush=True)


def as_json(
    rows: dict[str, Row],
    verdicts: list[Verdict],
    start: list[tuple[str, float]],
    about: dict[str, Any],
) -> dict[str, Any]:
    """Return all measurements, in seconds and bytes.

    about: of it each row has what says how old it is, since a file may get rows of several runs.
    """
    measured = {"date": about["date"], "version": about["versions"]["tosa-convert"]}
    measured["sources"] = about["sources"]
    return {
        **about,
        "rows": [
            {
                "id": row.id,
                "title": row.title,
                "unit": row.unit,
                "size": row.size,
                "peer": row.peer,
                "measured": measured,
                "skipped": row.skipped,
                "subjects": {
                    name: {**result.as_json(), "ratio": row.ratio(name)}
                    for name, result in row.results.items()
                    if result.runs
                },
                "failed": {n: r.note for n, r in row.results.items() if _failed(r)},
                **row.found,
            }
            for row in rows.values()
        ],
        "start_up_ms": dict(start),
        "budgets": [verdict.as_json() for verdict in verdicts],
    }


def _failed(result: Result) -> bool:
    return not result.runs


def merged(path: Path, found: dict[str, Any]) -> dict[str, Any]:
    """Return what a run has found, and what an earlier file has of rows and budgets besides."""
    if not path.exists():
        return found
    before = json.loads(path.read_text(encoding="utf-8"))
    here = found["machine"]["processor"]
    if here != before["machine"]["processor"]:
        for row in found["rows"]:
            row["measured"] = {**row["measured"], "processor": here}
        found = {**found, "machine": before["machine"]}
    for name, key in (("rows", "id"), ("budgets", "work")):
        own = {row[key]: row for row in found[name]}
        kept = [own.pop(row[key], row) for row in before[name]]
        found = {**found, name: [*kept, *own.values()]}
    return {**found, "start_up_ms": {**before["start_up_ms"], **found["start_up_ms"]}}


def write_json(path: Path, found: dict[str, Any]) -> None:
    """Write it as indented JSON."""
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
