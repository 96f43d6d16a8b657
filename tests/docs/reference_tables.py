"""Tables about how numpy differs from the reference model, made from tests/oracle/reference.json."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from oracle.compare_reference import PARTS, RESULTS
from oracle.reference_differences import EXPLAINED

#: What is counted, as the table says it.
_COUNTS = {
    "cases": "programs with their inputs",
    "both refuse": "refused by both",
    "one refuses": "refused by one alone",
    "results": "results of operators",
    "elements": "their elements",
    "equal": "results equal bit for bit",
    "within the rule": "floating-point results within TOSA's rule",
    "equal in FP64": "results and bounds of floating point equal in FP64",
    "near, no rule": "results of loops, which have no rule, equal to 1e-4 or better",
}


def measured() -> dict[str, Any]:
    """Return what the last run found that was published."""
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def outcome_table() -> str:
    """Return what was compared, in random programs and with edge values."""
    counts = measured()["counts"]
    lines = ["| | " + " | ".join(PARTS) + " |", "|---|" + "---|" * len(PARTS)]
    for name, text in _COUNTS.items():
        cells = " | ".join(f"{counts[part].get(name, 0):,}" for part in PARTS)
        lines.append(f"| {text} | {cells} |")
    return "\n".join(lines) + "\n"


def difference_table() -> str:
    """Return each difference: how many results have it, who is right, why, and what decides."""
    counts = measured()["differences"]
    lines = [
        f"| difference | {' | '.join(PARTS)} | who is right | why | what decides |",
        "|---|" + "---|" * (len(PARTS) + 3),
    ]
    rows = {row.what: row for row in EXPLAINED}
    for what in sorted(counts, key=lambda what: (-sum(counts[what].values()), what)):
        row = rows[what]
        cells = " | ".join(f"{counts[what].get(part, 0):,}" for part in PARTS)
        lines.append(f"| {what} | {cells} | {row.who} | {row.why} | {row.decides} |")
    return "\n".join(lines) + "\n"


TABLES: dict[str, Callable[[], str]] = {
    "reference-outcomes": outcome_table,
    "reference-differences": difference_table,
}
