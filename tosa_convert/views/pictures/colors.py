"""The colours of pictures that do not change."""

from __future__ import annotations

from typing import Final

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
_RIGHT, _WITHIN, _WRONG = "#8ccf9a", "#f5d76e", "#f0956f"
NO_DATA: Final = "#f4f5f7"


def error_color(ok: bool, size: float) -> str:
    """Return the colour of an error: right, within what is allowed, or wrong."""
    return _WRONG if not ok else _RIGHT if size == 0 else _WITHIN
