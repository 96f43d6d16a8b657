"""What results of public functions have in common: texts for people, JSON and notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, cast


class Shown:
    """A result of a public function: `str` for people, `to_dict` for JSON, and HTML for notebooks."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values; of arrays their types and shapes."""
        return {row.name: json_value(getattr(self, row.name)) for row in fields(cast("Any", self))}

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"


def json_value(value: Any) -> Any:
    """Return a value as JSON has it: infinities and NaN as texts, arrays as their types and shapes.

    Example:
        >>> json_value({"a": (1, float("inf"))})
        {'a': [1, 'inf']}
    """
    if isinstance(value, Shown):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(name): json_value(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return [json_value(item) for item in value]
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return {"dtype": str(value.dtype), "shape": list(value.shape)}
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def arrays_text(arrays: Mapping[str, Any]) -> str:
    """Return a line for each array: its name, type and shape."""
    return "\n".join(f"{name} {array.dtype}{list(array.shape)}" for name, array in arrays.items())


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Return the lines of a table in Markdown, with aligned columns."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [head, ["-" * width for width in widths], *rows]
    return [
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) + " |"
        for line in lines
    ]
