"""The lines of a box, and its size: what an operator is, without looking it up."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from tosa_convert.graph.model import DYNAMIC, MAX_RANK, element_value

if TYPE_CHECKING:
    from tosa_convert.views.pictures.diagram import Diagram, Group, Node, Value

#: Most lines below the title, and most characters of a line.
_LINES, CHARACTERS = 4, 30
#: Pixels: a character of the monospaced font, a line, and the space around the text.
CHARACTER: Final = 7
LINE: Final = 15
_SIDE, _TOP = 12, 7
_NARROWEST: Final = 84
#: Attributes with these values are what one expects, and are only in the panel.
_EXPECTED: Final = {"False", "True", "0"}
#: Operands that are small numbers in nearly every network.
_PARAMETERS: Final = ("_zp", "shift", "multiplier")


def box_lines(node: Node, diagram: Diagram) -> list[str]:
    """Return the lines below the title."""
    if node.operator is None:
        (slot,) = node.inputs or node.outputs
        return [diagram.values[slot[1]].label]
    lines = [*_constants(node, diagram), *_attributes(node)]
    return [clipped(line) for line in lines[:_LINES]]


def _constants(node: Node, diagram: Diagram) -> Iterator[str]:
    """Iterate over constant operands: weights by their sizes, single elements by their values."""
    for slot, number in node.inputs:
        value = diagram.values[number]
        if value.producer is not None or value.data is None:
            continue
        number_text = single_number(value)
        if slot.endswith(_PARAMETERS) and number_text in ("0", "0.0", None):
            continue
        text = value.label.removeprefix("shape ") if number_text is None else number_text
        yield f"{slot} {text}"


def _attributes(node: Node) -> Iterator[str]:
    assert node.operator is not None
    plain = {
        row.name
        for row in node.operator.spec.attributes
        if row.kind not in ("dtype", "enum", "region")
    }
    for name, text in node.attributes:
        numbers = set(text.strip("[]").split(", "))
        if name in plain and text not in _EXPECTED and not numbers <= {"0"}:
            if not (name in ("stride", "dilation") and numbers == {"1"}):
                yield f"{name} {text}"


def single_number(value: Value) -> str | None:
    """Return the value of a constant of one element, or None if it has several."""
    if value.data is None or value.data.count != 1 or value.scales is not None:
        return None
    raw = bytes(value.data.elements()[0].tobytes())
    number = element_value(raw, value.data.dtype)
    return f"{number:.6g}" if isinstance(number, float) else str(number)


def short_sizes(sizes: Sequence[int] | None) -> str:
    """Return sizes as in "1×28×28", "scalar" for rank 0.

    Example:
        >>> short_sizes((1, -1)), short_sizes(()), short_sizes(None)
        ('1×?', 'scalar', 'unranked')
    """
    if sizes is None:
        return "unranked"
    if not sizes:
        return "scalar"
    shown = ["?" if size == DYNAMIC else str(size) for size in sizes[:MAX_RANK]]
    return "×".join(shown) + ("×..." if len(sizes) > MAX_RANK else "")


def clipped(text: str) -> str:
    """Return a text for a line of a box: without its middle if it is long, and printable."""
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:1000])
    if len(plain) <= CHARACTERS and len(text) <= 1000:
        return plain
    half = CHARACTERS // 2
    return f"{plain[: half - 1]}\N{HORIZONTAL ELLIPSIS}{plain[-half:]}"


def group_lines(group: Group) -> list[str]:
    """Return the title of a group, and what is inside."""
    noun = "operator" if group.operators == 1 else "operators"
    return [clipped(group.label), f"{group.operators:,} {noun}"]


def box_size(lines: Sequence[str]) -> tuple[int, int]:
    """Return the width and height of a box with these lines, in pixels."""
    longest = max(sum(map(_columns, line)) for line in lines)
    return max(_NARROWEST, longest * CHARACTER + 2 * _SIDE), len(lines) * LINE + 2 * _TOP


def group_size(group: Group) -> tuple[int, int]:
    """Return the width and height of a closed group, with room for the sign that opens it."""
    width, height = box_size(group_lines(group))
    return width + 2 * CHARACTER, height


def _columns(character: str) -> int:
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
