"""A diagram as a graph of Graphviz."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tosa_convert.views.pictures.box_text import clipped
from tosa_convert.views.pictures.colors import error_color

if TYPE_CHECKING:
    from tosa_convert.views.pictures.diagram import Diagram, Item
    from tosa_convert.views.pictures.errors_overlay import Overlay


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
