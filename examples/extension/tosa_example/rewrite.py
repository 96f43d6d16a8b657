"""A rewrite: `--only extension:example`. ABS of ABS is one ABS."""

from __future__ import annotations

from tosa_convert.builder.edit import BlockEditor
from tosa_convert.graph.model import Operator

TOSA_PROTOCOL = 1

OPERATORS = ("ABS",)
REASON = "the absolute value of an absolute value is the same"


def rewrite(op: Operator, edit: BlockEditor) -> str | None:
    """Put others in the place of an operator, and say what was done; None leaves it."""
    maker = edit.producers.get(op.inputs[0])
    if maker is None or maker.spec.name != "ABS":
        return None
    edit.emit("ABS", [maker.inputs[0]], results=op.outputs)
    return "ABS of ABS became one"
