"""A diagram in formats that need no viewer of ours: SVG, DOT, node data for Model Explorer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.rules.costs import multiply_accumulates
from tosa_convert.views.pictures.colors import COLORS, NO_DATA, error_color, family_of
from tosa_convert.views.pictures.diagram import CHARACTER, LINE, clipped, group_lines
from tosa_convert.views.pictures.placement import Box, place

if TYPE_CHECKING:
    from tosa_convert.graph.model import Graph
    from tosa_convert.views.pictures.diagram import Diagram, Item
    from tosa_convert.views.pictures.errors_overlay import Overlay
    from tosa_convert.views.pictures.placement import Rows

#: The look of what is not a title.
_QUIET: Final = ' fill="#3c4654"'
_FONT: Final = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"


def svg(
    title: str, diagram: Diagram, rows: Sequence[Rows], overlay: Overlay | None
) -> Iterator[str]:
    """Iterate over the pieces of the picture: what the report shows when it opens."""
    placed = place(diagram, rows)
    whole = placed.boxes[~0]
    width, height = whole.width + 20, whole.height + 20
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-10 -10 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" font-family="{_FONT}" font-size="11.6">\n'
        f"<title>{escaped(title)}</title>\n"
        f'<rect x="-10" y="-10" width="{width:g}" height="{height:g}" fill="#ffffff"/>\n'
    )
    errors = {} if overlay is None else {row.node: row for row in overlay.rows}
    frames = {item for item in placed.boxes if item < 0}
    for item in sorted(frames, reverse=True):
        yield _frame(diagram, ~item, placed.boxes[item])
    for group, route, points in placed.lines:
        if not rows[group].routes[route].is_cut:
            yield f'<path d="{_path(points)}" fill="none" stroke="#8b95a5" stroke-width="1.2"/>\n'
    for item, box in placed.boxes.items():
        if item >= 0:
            row = errors.get(item)
            color = COLORS[_family(diagram, item)]
            if overlay is not None:
                color = NO_DATA if row is None else error_color(row.ok, row.size, row.inherits)
            yield _box(diagram, item, box, color, has_error=item in errors)
    yield "</svg>\n"


def escaped(text: str) -> str:
    """Return a text in XML, without markup and without characters that XML does not have."""
    plain = "".join(c if c.isprintable() or c == " " else "\N{REPLACEMENT CHARACTER}" for c in text)
    return escape(plain)


def _family(diagram: Diagram, item: Item) -> str:
    node = diagram.nodes[item]
    return node.kind if node.operator is None else family_of(node.title)


def _frame(diagram: Diagram, number: int, box: Box) -> str:
    group = diagram.groups[number]
    fill = "#ffffff" if group.is_open else "#e6ebf2"
    return (
        f'<g><title>{escaped(group.label)}</title><rect x="{box.x:g}" y="{box.y:g}" '
        f'width="{box.width:g}" height="{box.height:g}" rx="8" fill="{fill}" stroke="#a8b3c2"/>'
        f"{_texts(group_lines(group), box)}</g>\n"
    )


def _box(diagram: Diagram, item: Item, box: Box, color: str, *, has_error: bool) -> str:
    node = diagram.nodes[item]
    radius = 4 if node.kind == "operator" else 14
    names = ", ".join(diagram.values[value].name for _, value in node.outputs)
    return (
        f'<g id="n{item}"><title>{escaped(f"{node.title} {names}".strip())}</title>'
        f'<rect x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}" '
        f'rx="{radius}" fill="{color}" stroke="#6b7686"/>'
        f"{_texts([clipped(node.title), *node.lines], box, '' if has_error else _QUIET)}</g>\n"
    )


def _texts(lines: Sequence[str], box: Box, quiet: str = _QUIET) -> str:
    """Return texts in a box. quiet: the look of all but the first; on a strong colour there is none."""
    parts = []
    for number, line in enumerate(lines):
        weight = ' font-weight="600"' if not number else quiet
        x, y = box.x + 12, box.y + 18 + number * LINE
        length = f' textLength="{len(line) * CHARACTER}"' if line.isascii() and line else ""
        parts.append(f'<text x="{x:g}" y="{y:g}"{weight}{length}>{escaped(line)}</text>')
    return "".join(parts)


def _path(points: Sequence[tuple[float, float]]) -> str:
    """Return a line that is vertical at each point, and straight where it can be."""
    x, y = points[0]
    parts = [f"M{x:g} {y:g}"]
    for next_x, next_y in points[1:]:
        if abs(next_x - x) < 0.5:
            parts.append(f"V{next_y:g}")
        else:
            middle = (y + next_y) / 2
            parts.append(f"C{x:g} {middle:g} {next_x:g} {middle:g} {next_x:g} {next_y:g}")
        x, y = next_x, next_y
    return "".join(parts)


# -- A diagram as a graph of Graphviz --------------------------------------------------------------


def dot(title: str, diagram: Diagram, overlay: Overlay | None) -> Iterator[str]:
    """Iterate over the lines of the text. Groups are clusters."""
    colors = (
        {}
        if overlay is None
        else {r.node: error_color(r.ok, r.size, r.inherits) for r in overlay.rows}
    )
    yield f"digraph {_quoted(title)} {{\n"
    yield '  node [shape=box, style=rounded, fontname="monospace", fontsize=10];\n'
    yield '  edge [fontname="monospace", fontsize=9];\n'
    #: Items still to write, and texts that end what was begun; the last comes first.
    waiting: list[tuple[Item | str, int]] = [
        (item, 1) for item in reversed(diagram.groups[0].items)
    ]
    while waiting:
        item, depth = waiting.pop()
        indent = "  " * depth
        if isinstance(item, str):
            yield f"{indent}{item}\n"
        elif item >= 0:
            yield f"{indent}{_node(diagram, item, colors)}\n"
        else:
            group = diagram.groups[~item]
            yield f"{indent}subgraph cluster_{~item} {{\n"
            yield f"{indent}  label={_quoted(clipped(group.label))};\n"
            if group.node is not None:
                yield f"{indent}  {_node(diagram, group.node, colors)}\n"
            waiting.append(("}", depth))
            waiting += [(inner, depth + 1) for inner in reversed(group.items)]
    for value in diagram.values:
        if value.producer is not None:
            for user in value.users:
                label = _quoted(clipped(value.label))
                yield f"  n{value.producer} -> n{user} [label={label}];\n"
    yield "}\n"


def _node(diagram: Diagram, number: int, colors: Mapping[int, str]) -> str:
    node = diagram.nodes[number]
    lines = [clipped(node.title), *node.lines]
    text = "\\n".join(_escaped(line) for line in lines)
    look = "" if node.kind == "operator" else ", shape=ellipse"
    if number in colors:
        look += f', style="rounded,filled", fillcolor="{colors[number]}"'
    return f'n{number} [label="{text}", id="n{number}"{look}];'


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    """Escape a text for a quoted string of DOT, where a backslash begins an escape."""
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return plain.replace("\\", "\\\\").replace('"', '\\"')


# -- node data for Model Explorer, laid over its own picture of the program ------------------------
# The format is that of `node_data_builder.py` of ai-edge-model-explorer, for the graph on screen.

_GREEN, _YELLOW, _RED = "#c8e6c9", "#fff59d", "#ef9a9a"
#: Up to this share of what is allowed the colour is the first one, and so on.
_THRESHOLDS: Final = ((0.1, _GREEN), (1.0, _YELLOW), (1e9, _RED))


def error_node_data(diagram: Diagram, overlay: Overlay) -> dict[str, Any]:
    """Return the errors of an overlay: shares of what is allowed, by the names of tensors."""
    results: dict[str, Any] = {}
    for row in overlay.rows:
        for _, value in diagram.nodes[row.node].outputs:
            results[diagram.values[value].name] = {"value": row.size}
    rows = [{"value": value, "bgColor": color} for value, color in _THRESHOLDS]
    name = "power" if overlay.source == "power" else f"error ({overlay.source})"
    return {"name": name, "results": results, "thresholds": rows}


def work_node_data(graph: Graph) -> dict[str, Any]:
    """Return the multiply-accumulates of each operator that has any, by the names of its results."""
    results: dict[str, Any] = {}
    for _, block in graph.blocks():
        for operator in block.operators:
            work = multiply_accumulates(operator, block)
            if work is not None:
                for name in operator.outputs:
                    results[name] = {"value": work.value}
    gradient = [{"stop": 0, "bgColor": _GREEN}, {"stop": 1, "bgColor": _RED}]
    return {"name": "multiply-accumulates", "results": results, "gradient": gradient}
