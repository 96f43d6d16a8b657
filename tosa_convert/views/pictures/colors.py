"""The colours of pictures that do not change."""

from __future__ import annotations

from typing import Final

from tosa_convert.graph.opset import OPERATORS

#: Family of operators -> the one whose colour it has, if that is another one.
_SHOWN_AS: Final = {
    **dict.fromkeys(("matmul", "fft"), "convolution"),
    "pooling": "reduction",
    "block_conversion": "conversion",
    **dict.fromkeys(("gather", "resize", "block_layout"), "layout"),
}
_BY_NAME: Final = {row.name: _SHOWN_AS.get(row.family, row.family) for row in OPERATORS}

FAMILIES: Final = (*sorted(set(_BY_NAME.values())), "input", "output")


def family_of(name: str) -> str:
    """Return the family of an operator, by its name."""
    return _BY_NAME[name]


#: Family -> the colour of its boxes; those of `viewer/viewer.css` in light mode, which a test compares.
COLORS: Final = {
    "convolution": "#d7e6ff",
    "reduction": "#e4defc",
    "activation": "#fde2e4",
    "conversion": "#fff1cc",
    "layout": "#d9f2e6",
    "control": "#ffe3cf",
    "constant": "#e8eaee",
    "elementwise": "#eef1f5",
    "shape": "#e0f4f7",
    "input": "#cfd8e6",
    "output": "#cfd8e6",
}
#: The colours of errors, and of what a result does not mention.
_RIGHT, _WITHIN, _WRONG, _INHERITS = "#8ccf9a", "#f5d76e", "#f0956f", "#cdbdf0"
NO_DATA: Final = "#f4f5f7"


def error_color(ok: bool, size: float, inherits: bool = False) -> str:
    """Return the colour of an error: right, within what is allowed, wrong, or because of another."""
    if inherits:
        return _INHERITS
    return _WRONG if not ok else _RIGHT if size == 0 else _WITHIN
