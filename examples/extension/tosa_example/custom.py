"""CUSTOM operators: `--custom extension:example`."""

from __future__ import annotations

from typing import Any

from tosa_convert import Custom

TOSA_PROTOCOL = 1


def square(attributes: bytes, x: Any) -> Any:
    """Compute the square of each element."""
    return x * x


CUSTOM = [Custom("example", "SQUARE", value=square, shape=lambda attributes, x: [x])]
