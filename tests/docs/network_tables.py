"""The tables of docs/networks.md, made from what `zoo/published.py` found."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

RESULTS = Path(__file__).resolve().parents[2] / "zoo" / "published.json"
#: Steps on the way to a program that agrees, and their columns.
STEPS: Final = ("exported", "lowered", "valid", "agrees")
_LIBRARIES: Final = {
    "timm": "timm",
    "torchvision": "torchvision",
    "hf": "transformers",
    "keras": "keras.applications",
    "pt2e": "int8 by pt2e, ExecuTorch's Arm backend",
    "qdq": "int8 by onnxruntime, QDQ",
    "int8": "int8 by TFLite",
}
#: How the names of quantised networks begin.
QUANTISED: Final = ("pt2e:", "qdq:", "int8:")
#: Characters of a reason that a table has.
_WIDTH: Final = 160


def rows() -> list[dict[str, Any]]:
    """Return what was found of each network."""
    found: list[dict[str, Any]] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def counts() -> str:
    """Return how many networks of each library came how far."""
    lines = [f"| library | networks | {' | '.join(STEPS)} |", f"|---|---{'|---' * len(STEPS)}|"]
    for library, title in {**_LIBRARIES, "": "all"}.items():
        own = [row for row in rows() if row["name"].startswith(library and f"{library}:")]
        cells = [str(sum(bool(row.get(step)) for row in own)) for step in STEPS]
        lines.append(f"| {title} | {len(own)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def networks() -> str:
    """Return each network that agrees, with its operators and the largest error.

    `commit` is that of the code, where it is known.
    """
    lines = [
        "| network | operators | largest error | commit | s |",
        "|---|---|---|---|---|",
    ]
    for row in rows():
        if row.get("agrees"):
            commit, products = row.get("commit", ""), row.get("products")
            operators = str(row["operators"])
            if row["name"].startswith(QUANTISED) and products:
                operators += f", {row['integers']} of {products} products of integers"
            cells = f"{operators} | {row['error']:.2g} | {commit} | {row['seconds']:.0f}"
            lines.append(f"| `{row['name']}` | {cells} |")
    return "\n".join(lines)


def others() -> str:
    """Return each network that does not agree, how far it came, and why not further."""
    lines = ["| network | came to | reason |", "|---|---|---|"]
    for row in rows():
        if not row.get("agrees"):
            came = next((step for step in reversed(STEPS) if row.get(step)), "nothing")
            lines.append(f"| `{row['name']}` | {came} | {_reason(row['reason'])} |")
    return "\n".join(lines)


def _reason(text: str) -> str:
    """Return the first line of a reason without the name of the model, as a cell of a table."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if "the end of its stderr" in lines[0]:
        lines = [line for line in lines[1:] if re.match(r"\w*Error\b", line)] or lines
    short = lines[0].partition(": error: ")[2] or lines[0]
    short = short if len(short) <= _WIDTH else f"{short[:_WIDTH]}..."
    return "`" + short.replace("`", "'").replace("|", "\\|") + "`"


TABLES: Final[dict[str, Callable[[], str]]] = {
    "counts": counts,
    "agreeing": networks,
    "others": others,
}
