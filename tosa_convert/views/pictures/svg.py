"""A diagram as an SVG picture, for documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Final

from tosa_convert.views.pictures.box_text import CHARACTER, LINE, clipped, group_lines
from tosa_convert.views.pictures.colors import COLORS, NO_DATA, error_color, family_of
from tosa_convert.views.pictures.placement import Box, place

if TYPE_CHECKING:
    from tosa_convert.views.pictures.diagram import Diagram, Item
    from tosa_convert.views.pictures.errors_overlay import Overlay
    from tosa_convert.views.pictures.layers import Rows

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
