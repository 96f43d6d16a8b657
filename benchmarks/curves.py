"""The growth curves as one self-contained SVG, for light and for dark pages.

    python benchmarks/curves.py RESULTS.json OUT.svg

Four log-log panels: time and peak memory, against operators and against bytes of weights.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

WIDTH, HEIGHT = 920, 740
#: The size of a panel, and the position of the plot in it.
PANEL_W, PANEL_H, LEFT, TOP, RIGHT, BOTTOM = 450, 310, 66, 34, 20, 44
HEAD, LEGEND = 62, 46

#: Colours of a light and of a dark page: background, text, quiet text, grid; then the lines: "o" is
#: ours, "t" is tosa-opt, "s" is the builder. Plain rules, since not every viewer knows variables.
LIGHT = ("#ffffff", "#1f2328", "#59636e", "#d9dee3", "#0969da", "#c2410c", "#6f42c1")
DARK = ("#0d1117", "#e6edf3", "#9198a1", "#2b323b", "#58a6ff", "#ff9a5c", "#c297ff")
SHARED = """
text { font: 12px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }
text.title { font-size: 16px; font-weight: 600; } text.panel { font-weight: 600; }
.line { fill: none; stroke-width: 2.2; stroke-linejoin: round; } .dash { stroke-dasharray: 6 4; }
.grid { stroke-width: 1; } .axis { stroke-width: 1; fill: none; } .dot { stroke-width: 1.8; }
"""


def _colours(background: str, ink: str, dim: str, grid: str, *lines: str) -> str:
    rules = [
        f".bg {{ fill: {background}; }} text {{ fill: {ink}; }} text.dim {{ fill: {dim}; }}",
        f".grid {{ stroke: {grid}; }} .axis {{ stroke: {dim}; }}",
    ]
    for name, colour in zip("ots", lines, strict=True):
        rules.append(f".{name} {{ stroke: {colour}; }} .dot.{name} {{ fill: {colour}; }}")
    rules.append(f".dot.open {{ fill: {background}; }}")
    return "\n".join(rules)


STYLE = (
    f"{SHARED}{_colours(*LIGHT)}\n@media (prefers-color-scheme: dark) {{\n{_colours(*DARK)}\n}}\n"
)


@dataclass(frozen=True)
class Line:
    """Points of one subject, sorted by x; `low` and `high` are the spread of y."""

    label: str
    style: str
    dashed: bool
    points: tuple[tuple[float, float, float, float], ...]


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    x: str
    y: str
    lines: tuple[Line, ...]


#: A line: its label, the ids of its rows, the subject, the style, and whether it is dashed.
Kind = tuple[str, str, str, str, bool]


def _lines(
    rows: list[dict[str, Any]], kinds: list[Kind], key: str, scale: float
) -> tuple[Line, ...]:
    """Return the lines of a panel: `key` of each row's subject, times `scale`."""
    drawn = []
    for label, prefix, name, style, dashed in kinds:
        points = {}
        for row in rows:
            subject = row["subjects"].get(name)
            if subject and _belongs(row["id"], prefix, style, dashed):
                value = subject[key]
                low, high = value, value
                if key == "wall":
                    low, high = subject["wall_min"], subject["wall_max"]
                size = row["size"] / (1 << 20) if row["unit"] == "bytes" else row["size"]
                points[size] = (value * scale, low * scale, high * scale)
        if points:
            drawn.append(Line(label, style, dashed, tuple((x, *points[x]) for x in sorted(points))))
    return tuple(drawn)


def _belongs(row: str, prefix: str, style: str, dashed: bool) -> bool:
    """Return whether a line shows a row, by its id.

    Of weights, lines show f32, for exports the dense form.
    """
    if "/weights/" not in prefix:
        return row.startswith(prefix)
    tail = row.rsplit("/", 1)[-1] if dashed else "/".join(row.split("/")[-2:])
    fits = row.startswith(prefix) and tail == ("f32" if dashed else "f32/dense")
    return fits or (row.startswith("import/sparse") and dashed and style == "o")


def panels(found: dict[str, Any]) -> list[Panel]:
    """Return the four panels that a run's JSON has data for."""
    rows = found["rows"]
    lines = partial(_lines, rows)
    subjects = (("ours", "ours (Python)", "o"), ("tosa-opt", "tosa-opt", "t"))
    operators = [
        (f"{verb}, {who}", f"{verb}/chain/", name, style, verb == "import")
        for who, name, style in subjects
        for verb in ("export", "import")
    ]
    operators += [("build, tosa_serializer", "build/", "tosa_serializer", "s", False)]
    weights = [
        (f"{verb}, {who}", f"{verb}/weights/", name, style, verb == "import")
        for who, name, style in subjects
        for verb in ("export", "import")
    ]

    mib = 1 / (1 << 20)
    return [
        Panel("Time against operators", "operators", "seconds", lines(operators, "wall", 1)),
        Panel("Time against weights", "MiB of weights", "seconds", lines(weights, "wall", 1)),
        Panel(
            "Peak memory against operators", "operators", "MiB", lines(operators, "peak_bytes", mib)
        ),
        Panel(
            "Peak memory against weights",
            "MiB of weights",
            "MiB",
            lines(weights, "peak_bytes", mib),
        ),
    ]


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low = math.floor(math.log10(min(values)) + 1e-9)
    high = math.ceil(math.log10(max(values)) - 1e-9)
    return low, max(high, low + 1)


def _number(power: int) -> str:
    if power >= 6:
        return f"{10 ** (power - 6):,}M"
    return f"{10**power:,}" if power >= 0 else f"{10.0**power:.{-power}f}"


def _panel(panel: Panel, left: float, top: float) -> list[str]:
    out = [f'<text class="panel" x="{left + LEFT}" y="{top + 20}">{escape(panel.title)}</text>']
    x0, y0 = left + LEFT, top + TOP
    width, height = PANEL_W - LEFT - RIGHT, PANEL_H - TOP - BOTTOM
    if not panel.lines:
        out.append(
            f'<text class="dim" x="{x0}" y="{y0 + height / 2}">not measured in this run</text>'
        )
        return out
    xs = [point[0] for line in panel.lines for point in line.points]
    ys = [value for line in panel.lines for point in line.points for value in point[1:]]
    (xa, xb), (ya, yb) = _decades(xs), _decades(ys)

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            x0 + (math.log10(x) - xa) / (xb - xa) * width,
            y0 + height - (math.log10(y) - ya) / (yb - ya) * height,
        )

    for power in range(xa, xb + 1):
        x, _ = at(10.0**power, 10.0**ya)
        out.append(f'<line class="grid" x1="{x:.1f}" y1="{y0}" x2="{x:.1f}" y2="{y0 + height}"/>')
        out.append(
            f'<text class="dim" x="{x:.1f}" y="{y0 + height + 17}" text-anchor="middle">'
            f"{_number(power)}</text>"
        )
    for power in range(ya, yb + 1):
        _, y = at(10.0**xa, 10.0**power)
        out.append(f'<line class="grid" x1="{x0}" y1="{y:.1f}" x2="{x0 + width}" y2="{y:.1f}"/>')
        out.append(
            f'<text class="dim" x="{x0 - 7}" y="{y + 4:.1f}" text-anchor="end">{_number(power)}</text>'
        )
    out.append(
        f'<path class="axis" d="M{x0} {y0}V{y0 + height}H{x0 + width}"/>'
        f'<text class="dim" x="{x0 + width / 2}" y="{y0 + height + 35}" text-anchor="middle">'
        f"{escape(panel.x)}</text>"
        f'<text class="dim" transform="translate({left + 14} {y0 + height / 2}) rotate(-90)" '
        f'text-anchor="middle">{escape(panel.y)}</text>'
    )
    for line in panel.lines:
        places = [at(x, y) for x, y, _, _ in line.points]
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        dash = " dash" if line.dashed else ""
        out.append(f'<path class="line {line.style}{dash}" d="{path}"/>')
        for (x, _, low, high), (px, py) in zip(line.points, places, strict=True):
            if high > low:
                (_, top_y), (_, bottom_y) = at(x, high), at(x, low)
                out.append(
                    f'<line class="{line.style}" x1="{px:.1f}" y1="{top_y:.1f}" x2="{px:.1f}" '
                    f'y2="{bottom_y:.1f}"/>'
                )
            hollow = " open" if line.dashed else ""
            out.append(
                f'<circle class="dot {line.style}{hollow}" cx="{px:.1f}" cy="{py:.1f}" r="3.2"/>'
            )
    return out


def svg(found: dict[str, Any]) -> str:
    """Return the drawing of a run's JSON."""
    drawn = panels(found)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img">',
        "<title>Growth of time and memory with operators and weights</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="bg" width="{WIDTH}" height="{HEIGHT}" rx="8"/>',
        '<text class="title" x="24" y="32">Growth: whole processes, measured from outside</text>',
        f'<text class="dim" x="24" y="51">{escape(_caption(found))}</text>',
    ]
    for index, panel in enumerate(drawn):
        left = (index % 2) * (PANEL_W + 6) + 4
        out += _panel(panel, left, HEAD + (index // 2) * PANEL_H)
    labels: dict[str, Line] = {}
    for panel in drawn:
        for line in panel.lines:
            labels.setdefault(line.label, line)
    x, y = 24.0, HEIGHT - LEGEND / 2 + 4
    step = (WIDTH - 48) / max(1, len(labels))
    for label, line in labels.items():
        dash, hollow = (" dash", " open") if line.dashed else ("", "")
        out.append(
            f'<path class="line {line.style}{dash}" d="M{x:.1f} {y - 4:.1f}h32"/>'
            f'<circle class="dot {line.style}{hollow}" cx="{x + 16:.1f}" cy="{y - 4:.1f}" r="3.2"/>'
            f'<text x="{x + 39:.1f}" y="{y:.1f}">{escape(label)}</text>'
        )
        x += step
    out.append("</svg>")
    return "\n".join(out) + "\n"


def _caption(found: dict[str, Any]) -> str:
    machine, versions = found["machine"], found["versions"]
    tools = versions.get("tosa-tools") or "not installed"
    return (
        f"{machine['cores']} cores, {machine['processor']}; Python {versions['python']}; "
        f"tosa-tools {tools}; bars: fastest and slowest run"
    )


if __name__ == "__main__":
    results = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    Path(sys.argv[2]).write_text(svg(results), encoding="utf-8")
