"""The tables of docs/zoo.md, made from what `suite` said of the networks."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).resolve().parents[2]
ZOO = ROOT / "zoo"
RESULTS = ZOO / "results.json"
PREFIX = "make_"
#: Framework -> how the tables call a way of its networks to TOSA -> the beginning of the cases' names.
WAYS: Final = {
    "torch": {"torch": "torch/", "ONNX": "onnx/onnx/"},
    "keras": {
        "TFLite, float": "tflite/float/",
        "TFLite, int8": "tflite/int8/",
        "TFLite, int16": "tflite/int16/",
    },
    "jax": {"JAX": "jax/"},
}
#: Framework -> the beginning of its files. Those of torch have no such beginning.
_FILES: Final = {"keras": "keras_", "jax": "jax_"}
_VERDICTS: Final = {
    "pass": "equal",
    "wrong": "**differs**",
    "refused": "**not lowered**",
    "crashed": "**not lowered**",
    "error": "**not run**",
}
NOT_EXPORTED: Final = "**not exported**"


def networks(framework: str) -> Iterator[tuple[str, str, str]]:
    """Iterate over family, name and title of each network of a framework, in the order of the files.

    No framework is needed.
    """
    for path in sorted(ZOO.glob("*.py")):
        found = [name for name, start in _FILES.items() if path.name.startswith(start)]
        if found != [framework] and (found or framework in _FILES):
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith(PREFIX):
                title = re.split(r":\s|\n", ast.get_docstring(node) or "")[0].rstrip(".")
                yield path.stem, node.name.removeprefix(PREFIX), title


def results() -> dict[str, Any]:
    """Return what was measured last."""
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def rows_of(beginning: str) -> dict[str, dict[str, Any]]:
    """Return the rows of one way to TOSA by network."""
    rows = results()["answers"]
    return {row["operator"]: row for row in rows if row["case"].startswith(beginning)}


def network_table(framework: str) -> str:
    """Return a row for each network of a framework."""
    ways = WAYS[framework]
    heads = [f"{way} | operators | error | s" for way in ways]
    lines = [f"| network | {' | '.join(heads)} |", f"|---{'|---|---|---|---' * len(heads)}|"]
    found = [rows_of(beginning) for beginning in ways.values()]
    for _, name, title in networks(framework):
        cells = []
        for rows in found:
            row = rows.get(name)
            if row is None:
                cells.append(f"{NOT_EXPORTED} |  |  | ")
                continue
            error = row.get("largest_error", "")
            shown = f"{error:.2g}" if isinstance(error, float) else str(error)
            verdict, count = _VERDICTS[row["status"]], row.get("operators", "")
            cells.append(f"{verdict} | {count} | {shown} | {row['seconds']:.1f}")
        lines.append(f"| `{name}`: {title} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def count_table() -> str:
    """Return how many networks came how far."""
    lines = ["| by way of | networks | exported | lowered | equal |", "|---|---|---|---|---|"]
    for framework, ways in WAYS.items():
        count = len(list(networks(framework)))
        for way, beginning in ways.items():
            rows = rows_of(beginning).values()
            lowered = sum(row["status"] in ("pass", "wrong", "error") for row in rows)
            equal = sum(row["status"] == "pass" for row in rows)
            lines.append(f"| {way} | {count} | {len(rows)} | {lowered} | {equal} |")
    return "\n".join(lines) + "\n"


def release_table() -> str:
    """Return the packages that the networks were measured with."""
    releases = results()["releases"]
    lines = ["| package | release |", "|---|---|"]
    lines += [f"| {package} | {release} |" for package, release in releases.items()]
    return "\n".join(lines) + "\n"


TABLES: dict[str, Callable[[], str]] = {
    "counts": count_table,
    "networks": lambda: network_table("torch"),
    "tflite": lambda: network_table("keras"),
    "jax": lambda: network_table("jax"),
    "releases": release_table,
}
