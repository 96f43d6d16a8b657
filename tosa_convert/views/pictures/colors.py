"""The colours of pictures: of operators by their family, and of errors by their size."""

from __future__ import annotations

import math
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
#: The colours of errors, and of what a result does not mention; those of the viewer, too.
_RIGHT, _WITHIN, _WRONG, _WORST, _INHERITS = "#8ccf9a", "#f5d76e", "#f0956f", "#d92d20", "#cdbdf0"
NO_DATA: Final = "#f4f5f7"


def error_color(ok: bool, size: float, inherits: bool = False) -> str:
    """Return the colour of an error: right, within what is allowed, wrong, or because of another."""
    if inherits:
        return _INHERITS
    if ok:
        return _mixed(_RIGHT, _WITHIN, min(1.0, size))
    return _mixed(_WRONG, _WORST, min(1.0, math.log10(max(size, 1.0)) / 3))


def _mixed(one: str, other: str, share: float) -> str:
    pairs = ((int(one[i : i + 2], 16), int(other[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(a + share * (b - a)):02x}" for a, b in pairs)
