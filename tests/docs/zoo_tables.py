"""The tables of docs/zoo.md, made from what zoo/measure_zoo.py wrote."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ZOO = ROOT / "zoo"
RESULTS = ZOO / "results.json"
PREFIX = "make_"
#: The beginning of the files with Keras networks.
KERAS = "keras_"
#: Frontend -> how the tables call it.
FRONTENDS = {"torch": "torch", "onnx": "ONNX"}


def networks() -> Iterator[tuple[str, str, str]]:
    """Family, name and title of each network, in the order of the files; torch is not needed."""
    for path in sorted(ZOO.glob("*.py")):
        if path.name.startswith(KERAS):
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith(PREFIX):
                title = (ast.get_docstring(node) or "").partition(": ")[0].rstrip(".")
                yield path.stem, node.name.removeprefix(PREFIX), title


def results() -> dict[str, Any]:
    """What was measured last."""
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def verdict(row: dict[str, Any]) -> str:
    """How far a network came."""
    if row["equal"]:
        return "equal"
    if row["lowered"]:
        return "**differs**" if "largest_error" in row else "**not run**"
    return "**not lowered**" if row["exported"] else "**not exported**"


def network_table() -> str:
    """A row for each network."""
    heads = [f"{name} | operators | error | s" for name in FRONTENDS.values()]
    lines = [f"| network | {' | '.join(heads)} |", f"|---{'|---|---|---|---' * len(heads)}|"]
    found = results()["networks"]
    for _, name, title in networks():
        cells = []
        for frontend in FRONTENDS:
            row = found[name][frontend]
            numbers = [row.get(key, "") for key in ("operators", "largest_error", "seconds")]
            cells.append(" | ".join(map(str, (verdict(row), *numbers))))
        lines.append(f"| `{name}`: {title} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def count_table() -> str:
    """How many networks came how far."""
    found = results()["networks"].values()
    lines = ["| frontend | networks | exported | lowered | equal |", "|---|---|---|---|---|"]
    for frontend, shown in FRONTENDS.items():
        rows = [row[frontend] for row in found]
        counts = [sum(row[step] for row in rows) for step in ("exported", "lowered", "equal")]
        lines.append(f"| {shown} | {len(rows)} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines) + "\n"


def release_table() -> str:
    """The packages that the networks were measured with."""
    releases = results()["releases"]
    lines = ["| package | release |", "|---|---|"]
    lines += [f"| {package} | {release} |" for package, release in releases.items()]
    return "\n".join(lines) + "\n"


TABLES: dict[str, Callable[[], str]] = {
    "counts": count_table,
    "networks": network_table,
    "releases": release_table,
}
