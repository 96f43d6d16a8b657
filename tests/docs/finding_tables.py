"""Tables about consumers of TOSA, made from the folders of `findings` and from its scoreboard.json."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from oracle.scoreboard import CONSUMERS, RESULTS

from tosa_convert.golden.backends.runners import ADAPTERS
from tosa_convert.qualify.campaign.run import known_key

FINDINGS: Final = RESULTS.parent
#: Packages of consumers that have no adapter.
_PACKAGES: Final = {"iree": "iree-base-compiler", "reference-model": "tosa-tools"}
#: What a message of a failure says -> the class of the failure; the first that is found.
_CLASSES: Final = (
    ("did not end within", "does not end"),
    ("internal error", "internal error"),
    (r":\d+:\d+: (error: )?'[\w.]+' op ", "makes what its own verifier refuses"),
    ("the TOSA model has", "loses an output"),
    ("what it wrote cannot be read", "writes a file that cannot be read"),
)
_STATUSES: Final = ("pass", "wrong", "refused", "crashed", "not-run", "error")

Row = dict[str, Any]


def folders() -> Iterator[tuple[Path, Row]]:
    """Iterate over the folders of findings, with what their finding.json says."""
    for path in sorted(FINDINGS.glob("*/finding.json")):
        yield path.parent, json.loads(path.read_text(encoding="utf-8"))


def release(row: Row) -> str:
    """Return the release of the consumer that a finding is about."""
    name = row["against"]
    package = ADAPTERS[name].package if name in ADAPTERS else _PACKAGES[name]
    return f"{package} {row['software'][package]}"


def class_of(row: Row) -> str:
    """Return what the consumer does wrong, in a few words."""
    if row["status"] == "wrong":
        return "wrong result"
    said = " ".join(row["said"].split())
    return next((name for text, name in _CLASSES if re.search(text, said)), "crashes")


def defect_table() -> str:
    """Return each defect: its consumer and release, what it does, and the size of its program."""
    lines = [
        "| defect | consumer | release | class | operators | found by |",
        "|---|---|---|---|---|---|",
    ]
    for folder, row in folders():
        link = f"[{row['title']}](../findings/{folder.name}/report.md)"
        by = "hand" if row["made"] == "written by hand" else "`fuzz`"
        cells = (f"`{row['against']}`", release(row), class_of(row), str(row["operators"]), by)
        lines.append(f"| {link} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def measured() -> Row:
    """Return what the last run of the scoreboard found."""
    found: Row = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def consumer_table() -> str:
    """Return how many cases have each status, by consumer."""
    names = ("passed", "wrong", "refused", "crashed", "not run", "not judged")
    lines = [f"| consumer | cases | {' | '.join(names)} |", "|---|" + "---|" * (len(names) + 1)]
    rows = measured()["consumers"]
    for name in CONSUMERS:
        if name in rows:
            total = rows[name]["total"]
            cells = [f"{total.get(status, 0):,}" for status in _STATUSES]
            lines.append(f"| `{name}` | {sum(total.values()):,} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def fault_table() -> str:
    """Return each operator and type with a wrong result or a crash, and a case or a finding of it."""
    lines = [
        "| consumer | operator and type | passed | wrong | refused | crashed | reduced case |",
        "|---|---|---|---|---|---|---|",
    ]
    rows = measured()["consumers"]
    for name in CONSUMERS:
        for cell, counts in rows.get(name, {"cells": {}})["cells"].items():
            numbers = " | ".join(str(counts.get(status, 0)) for status in _STATUSES[:4])
            lines.append(f"| `{name}` | {cell} | {numbers} | {_reduced(name, cell, counts)} |")
    return "\n".join(lines) + "\n"


def _reduced(name: str, cell: str, counts: Row) -> str:
    """Return a link to the finding about an operator and type, or the name of an official case.

    `cells` in a finding.json is a pattern of further operators with their types and cases.
    """
    operator, _, element = cell.partition(" ")
    for folder, row in folders():
        if known_key(row["against"], "") != known_key(name, ""):
            continue
        is_same = re.search(rf"\b{operator} {element}\b", row["cause"])
        cells = row.get("cells")
        if is_same or (cells and re.search(cells, f"{cell} {counts['case']}")):
            return f"[{folder.name}](../findings/{folder.name}/report.md)"
    return f"`{counts['case']}`"


TABLES: dict[str, Callable[[], str]] = {
    "defects": defect_table,
    "scoreboard": consumer_table,
    "scoreboard-faults": fault_table,
}
