"""Tables about what MLIR and we refuse, made from tests/oracle/refusals.json."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from oracle.compare_refusals import RESULTS
from oracle.refusal_kinds import EXPLAINED, VERDICTS


def measured() -> dict[str, Any]:
    """Return what the last run found that was published."""
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def verdict_table() -> str:
    """Return how the judges agree about the mutants of each form."""
    mutants = measured()["mutants"]
    lines = ["| outcome | " + " | ".join(mutants) + " |", "|---|" + "---|" * len(mutants)]
    rows = {name: [counts.get(name, 0) for counts in mutants.values()] for name in VERDICTS}
    rows["together"] = [sum(counts.values()) for counts in mutants.values()]
    lines += [
        f"| {name} | " + " | ".join(f"{n:,}" for n in row) + " |" for name, row in rows.items()
    ]
    return "\n".join(lines) + "\n"


def disagreement_table() -> str:
    """Return each disagreement: how many mutants have it, who is right, and why."""
    found = measured()
    forms = list(found["mutants"])
    lines = [
        "| disagreement | " + " | ".join(forms) + " | who is right | why |",
        "|---|" + "---|" * (len(forms) + 2),
    ]
    rows = {row.what: row for row in EXPLAINED}
    counts = found["disagreements"]
    for what in sorted(counts, key=lambda what: (-sum(counts[what].values()), what)):
        cells = [*(f"{counts[what].get(form, 0):,}" for form in forms), rows[what].who]
        lines.append(f"| {what} | {' | '.join(cells)} | {rows[what].why} |")
    return "\n".join(lines) + "\n"


TABLES: dict[str, Callable[[], str]] = {
    "refusal-outcomes": verdict_table,
    "refusal-disagreements": disagreement_table,
}
