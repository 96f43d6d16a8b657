"""Tables of times, made from benchmarks/measured.json, and how old that is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

MEASURED = Path(__file__).resolve().parents[2] / "benchmarks" / "measured.json"
_OURS = tuple(f"ours ({how})" for how in ("Python", "ir.Module", "command"))
#: Beginnings of rows whose verb converts nothing.
_LOOKS = ("show/", "doctor/", "diff/", "report/")
#: The least size of a row that is shown, by its unit.
_LEAST = {"operators": 100_000, "bytes": 512 << 20}
#: Subjects of models, and how the table calls them.
_MODEL = {
    _OURS[2]: "converted",
    "with --check": "with `--check`",
    "the framework's import": "import of the framework alone",
    "torch-mlir": "torch-mlir",
}
#: Of README.md: the row, the subject, and what is shown of both sides.
_README = (
    ("export/chain/100000", "export 100,000 operators, a chain", _OURS[0], ("wall",)),
    ("import/chain/100000", "import 100,000 operators, a chain", _OURS[0], ("wall",)),
    (
        "export/weights/512/f32/resource",
        "export 512 MiB of `dense_resource` weights",
        _OURS[0],
        ("wall",),
    ),
    (
        "import/weights/512/f32",
        "import 512 MiB of f32 weights",
        _OURS[0],
        ("wall", "peak_bytes"),
    ),
    ("one/export", "one small file, processor time", _OURS[2], ("cpu",)),
)


def measured() -> dict[str, Any]:
    """Return what was measured and published."""
    found: dict[str, Any] = json.loads(MEASURED.read_text(encoding="utf-8"))
    return found


def _seconds(value: float) -> str:
    """Return three digits in the unit that suits.

    Example:
        >>> _seconds(0.2741), _seconds(92.2)
        ('274 ms', '92.2 s')
    """
    return f"{value:.3g} s" if value >= 1 else f"{value * 1e3:.3g} ms"


def _shown(subject: Mapping[str, Any] | None, name: str) -> str:
    value = None if subject is None else subject.get(name)
    if value is None:
        return ""
    return f"{value / (1 << 20):,.0f} MiB" if name == "peak_bytes" else _seconds(value)


def _lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def machine() -> str:
    """Return where and when it was measured: of several sittings, the first."""
    found = measured()
    versions = ", ".join(f"{name} {text}" for name, text in found["versions"].items() if text)
    first = min(row["measured"]["date"] for row in found["rows"])[:10]
    place = found["machine"]
    text = f"{place['cores']} cores of {place['processor']}, {versions}; {first}.\n"
    for row in found["rows"]:
        if other := row["measured"].get("processor"):
            text += f"On {other}, {row['measured']['date'][:10]}: {row['title']}.\n"
    return text


def conversions() -> str:
    """Return a row for each piece of work that converts."""
    rows = []
    for row in measured()["rows"]:
        own = [row["subjects"].get(name) for name in _OURS]
        is_small = row["size"] < _LEAST.get(row["unit"], 2)
        is_elsewhere = row["id"].startswith((*_LOOKS, "model/")) or "/bf16" in row["id"]
        if is_small or is_elsewhere or not any(own):
            continue
        peer = row["subjects"].get(row["peer"])
        ratio = (own[0] or {}).get("ratio")
        rows.append(
            [
                row["title"],
                *(_shown(one, "wall") for one in (*own, peer)),
                "" if ratio is None else f"{ratio:.3g}x",
                _shown(next(filter(None, own)), "peak_bytes"),
                _shown(peer, "peak_bytes"),
            ]
        )
    head = ["work", *_OURS, "peer", "ratio", "memory: ours", "peer"]
    return _lines(head, rows)


def looks() -> str:
    """Return a row for each verb that converts nothing."""
    rows = [row for row in measured()["rows"] if row["id"].startswith(_LOOKS)]
    cells = [
        [row["title"], *(_shown(row["subjects"][_OURS[2]], name) for name in ("cpu", "peak_bytes"))]
        for row in rows
    ]
    return _lines(["command", "processor time", "peak memory"], cells)


def models() -> str:
    """Return a row for each model of a framework, and what most of its time is spent on."""
    rows = [row for row in measured()["rows"] if row["unit"] == "models" and row["subjects"]]
    cells = []
    for row in rows:
        spent = sorted(row["spent"].items(), key=lambda step: -step[1])
        cells.append(
            [
                row["title"],
                *(_shown(row["subjects"].get(name), "wall") for name in _MODEL),
                _shown(row["subjects"][_OURS[2]], "peak_bytes"),
                ", ".join(f"{what} {taken:.3g} s" for what, taken in spent[1:4]),
            ]
        )
    return _lines(["model", *_MODEL.values(), "memory", "with `--check`, most of it"], cells)


def unmet() -> str:
    """Return the budgets that are not met."""
    rows = [row for row in measured()["budgets"] if not row["met"]]
    return _lines(
        ["budget", "limit", "measured"], [[r["work"], r["limit"], r["measured"]] for r in rows]
    )


def readme() -> str:
    """Return the rows of README.md, with the peer first."""
    rows = {row["id"]: row for row in measured()["rows"]}
    cells = []
    for name, title, own, shown in _README:
        peer = "tosa-opt (pip command)" if name == "one/export" else rows[name]["peer"]
        sides = [rows[name]["subjects"][side] for side in (peer, own)]
        cells.append([title, *(", ".join(_shown(s, one) for one in shown) for s in sides)])
    return _lines(["whole processes, two cores", "tosa-opt", "tosa-convert"], cells)


TABLES: dict[str, Callable[[], str]] = {
    "machine": machine,
    "conversions": conversions,
    "models": models,
    "unmet": unmet,
    "looks": looks,
}
README_TABLES: dict[str, Callable[[], str]] = {"times": readme}


# -- the age of the figures ------------------------------------------------------------------------


def releases(changelog: str) -> list[str]:
    """Return the versions of a changelog, the newest first.

    Example:
        >>> releases("# Changelog\\n\\n## 0.2.0, not released yet\\n\\n## 0.1.0, 2026-12-31\\n")
        ['0.2.0', '0.1.0']
    """
    return re.findall(r"^## (\S+),", changelog, re.MULTILINE)


def outdated(found: Mapping[str, Any], sources: str, versions: Sequence[str]) -> list[str]:
    """Return the rows that are older than the sources of formats by more than a release.

    sources: the fingerprint of formats and graph, as benchmarks/places.py makes it.
    """
    rows = {row["id"]: row["measured"] for row in found["rows"]}
    return [
        name
        for name, row in rows.items()
        if row["sources"] != sources and row["version"] not in versions[:2]
    ]
