"""A frontend: `--via extension:example`. A model is a text with an operator in each line."""

from __future__ import annotations

from pathlib import Path

import tosa_convert as tc
from tosa_convert.builder import Builder

TOSA_PROTOCOL = 1

_LAYERS = {"abs": Builder.abs, "exp": Builder.exp}


def convert(path: str) -> tc.Graph:
    """Convert a model; any exception is reported with this extension's name."""
    b = Builder("main")
    x = b.input("x", "fp32", (4,))
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        if line not in _LAYERS:
            raise ValueError(f"no layer {line!r}, expected one of {', '.join(_LAYERS)}")
        x = _LAYERS[line](b, x)
    b.output(x, name="y")
    return b.graph()
