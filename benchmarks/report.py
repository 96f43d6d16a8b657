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


def markdown(rows: dict[str, Row], verdicts: list[Verdict], about: dict[str, Any]) -> str:
    """Return the budgets and one line a row, for the README and docs/performance.md."""
    machine, versions = about["machine"], about["versions"]
    out = [
        f"{machine['cores']} cores of {machine['processor']}, {about['scratch']}; "
        + ", ".join(f"{name} {version}" for name, version in versions.items() if version),
        "",
        "| budget | limit | measured | |",
        "|---|---|---|---|",
        *(
            f"| {v.work} | {v.limit} | {v.measured} | {'met' if v.met else '**not met**'} |"
            for v in verdicts
        ),
        "",
        "| work | ours (Python) | ours (ir.Module) | ours (command) | peer | ratio | "
        "memory, MiB: ours | peer |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows.values():
        peer = row.results.get(row.peer)
        own = [row.results.get(f"ours ({how})") for how in ("Python", "ir.Module", "command")]
        ran = [result for result in own if result is not None and result.runs]
        if not ran:
            continue
        ratio = row.ratio("ours (Python)")
        times = [seconds(r.wall) if r is not None and r.runs else "" for r in (*own, peer)]
        peaks = [mebibytes(ran[0].peak), mebibytes(peer.peak) if peer and peer.runs else ""]
        shown = f"{ratio:.3g}x" if ratio is not None else ""
        out.append(f"| {row.title} | {' | '.join(times)} | {shown} | {' | '.join(peaks)} |")
    return "\n".join(out) + "\n"


def as_json(
    rows: dict[str, Row],
    verdicts: list[Verdict],
    start: list[tuple[str, float]],
    about: dict[str, Any],
) -> dict[str, Any]:
    """Return all measurements, in seconds and bytes."""
    return {
        **about,
        "rows": [
            {
                "id": row.id,
                "title": row.title,
                "unit": row.unit,
                "size": row.size,
                "peer": row.peer,
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


def write_json(path: Path, found: dict[str, Any]) -> None:
    """Write it as indented JSON."""
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
