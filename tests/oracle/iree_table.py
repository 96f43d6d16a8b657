"""Tables of docs/backends.md from what `suite --against iree --json-report RESULT` wrote.

    python tests/oracle/iree_table.py RESULT

Prints the cases by element type, by operator and by cause. A case that did not pass and has none of the
known causes is counted as "other".
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

Row = dict[str, Any]
#: Status -> heading.
STATUSES: Final = {
    "pass": "passed",
    "wrong": "wrong",
    "refused": "does not compile",
    "crashed": "crashes",
}
#: A type in a report -> its row, if that is another one.
_TYPES: Final = {
    r"MX .*": "block-scaled",
    r"FP[46].*|MXINT8": "FP4, FP6, MXINT8",
    r"shape|none": "shapes",
}
_ORDER: Final = (
    *("BOOL", "INT4", "INT8", "INT16", "INT32", "INT48", "INT64", "FP16", "BF16", "FP32"),
    *("FP8E4M3", "FP8E5M2", "FP4, FP6, MXINT8", "block-scaled", "shapes"),
)


def _says(pattern: str) -> Callable[[Row], bool]:
    return lambda row: bool(re.search(pattern, str(row["message"])))


def _is_block_scaled(row: Row) -> bool:
    text = f"{row['message']} {row['operator']} {row['type']} {row['case']}".lower()
    return "block_scaled" in text or row["type"].startswith("MX") or "f8ue8m0" in text


#: Cause -> whether a case that did not pass has it; the first that has it counts.
CAUSES: Final[dict[str, Callable[[Row], bool]]] = {
    "wrong": lambda row: row["status"] == "wrong",
    "block-scaled": _is_block_scaled,
    "condition of rank 1 or more": _says("incorrect number of indices"),
    "zero point that is an input": lambda row: (
        "_dyn" in row["case"] and _says("failed to legalize operation 'tosa")(row)
    ),
    "FP8 from and to FP16": _says(r"'arith\.(extf|truncf)' that was explicitly"),
    "MATMUL_T": _says(r"legalize operation 'tosa\.matmul_t'"),
    "ASSERT_EQUAL_SHAPE": _says(r"'tosa\.assert_equal_shape'"),
    "INEXACT_ROUND": _says("inexactround"),
    "INT4": lambda row: bool(re.search(r"i4(_|x|-|$)", row["case"])),
    "FP8 in MAX_POOL2D": _says(r"'tosa\.max_pool2d'"),
    "sums of INT48": _says(r"'arith\.muli' op requires the same type"),
    "shape as a result": lambda row: row["type"] in ("shape", "none"),
    "other": lambda row: True,
}


def kind(row: Row) -> str:
    """Return the row of an element type."""
    for pattern, name in _TYPES.items():
        if re.fullmatch(pattern, row["type"]):
            return name
    return str(row["type"])


def cause(row: Row) -> str:
    """Return the cause of a case that did not pass."""
    return next(name for name, has in CAUSES.items() if has(row))


def table(head: str, rows: Iterable[tuple[str, Counter[str]]]) -> list[str]:
    """Return a table of counts by status."""
    lines = ["| " + " | ".join([head, *STATUSES.values()]) + " |", "|---" * 5 + "|"]
    for name, counts in rows:
        lines.append("| " + " | ".join([name, *(f"{counts[s]:,}" for s in STATUSES)]) + " |")
    return lines


def tables(rows: list[Row]) -> list[str]:
    """Return all lines."""
    by_type: dict[str, Counter[str]] = defaultdict(Counter)
    by_operator: dict[str, Counter[str]] = defaultdict(Counter)
    by_cause: Counter[str] = Counter()
    examples: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        by_type[kind(row)][row["status"]] += 1
        by_operator[row["operator"]][row["status"]] += 1
        if row["status"] != "pass":
            by_cause[cause(row)] += 1
            examples[cause(row)].append(row["case"])
    total = Counter(row["status"] for row in rows)
    lines = [", ".join(f"{count:,} {STATUSES[s]}" for s, count in total.items())]
    names = sorted(by_type, key=lambda name: _ORDER.index(name))
    lines += ["", *table("element type of the first operand", ((n, by_type[n]) for n in names))]
    failing = sorted(name for name, counts in by_operator.items() if set(counts) - {"pass"})
    passing = sorted(set(by_operator) - set(failing))
    others = sum((by_operator[name] for name in passing), Counter[str]())
    rest = (f"{len(passing)} other operators", others)
    lines += ["", *table("operator", (*((n, by_operator[n]) for n in failing), rest)), ""]
    for name, count in by_cause.most_common():
        operators = Counter(path.partition("/")[0] for path in examples[name])
        most = ", ".join(f"{op} {n}" for op, n in operators.most_common(6))
        lines.append(f"| {count:,} | {name} | {most}; {examples[name][0]} |")
    return lines


if __name__ == "__main__":
    print("\n".join(tables(json.loads(Path(sys.argv[1]).read_text())["answers"])))
