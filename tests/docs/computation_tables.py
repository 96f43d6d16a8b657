"""The table of docs/computation.md: what each operator computes, from the docstrings."""

from __future__ import annotations

import inspect

from tosa_convert.graph.opset import OPERATORS
from tosa_convert.reference.evaluate import OPERATIONS


def definitions() -> str:
    """Return a section for each family of operators, with a row for each operator."""
    sections: dict[str, list[str]] = {}
    for spec in sorted(OPERATORS, key=lambda row: row.name):
        if spec.name not in OPERATIONS:
            continue
        operation = OPERATIONS[spec.name]
        text = " ".join(inspect.cleandoc(operation.__doc__ or "").split())
        operands = ", ".join(f"`{row.name}`" for row in spec.operands)
        sections.setdefault(spec.family, []).append(f"| `{spec.name}` | {operands} | {text} |")
    parts = []
    for family, rows in sorted(sections.items()):
        title = family.replace("_", " ").capitalize()
        head = f"### {title}\n\n| operator | operands | result |\n|---|---|---|\n"
        parts.append(head + "\n".join(rows) + "\n")
    return "\n".join(parts)


TABLES = {"definitions": definitions}
