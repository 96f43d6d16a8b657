"""The families of operators that pictures tell apart by colour."""

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
