"""Integers that NaN was cast to, of which TOSA does not say what they are.

CAST of floating point gives `round_to_nearest_int(value)`, and no integer is the nearest one to NaN.
Processors give 0, the least or the greatest integer, and so do the reference model and numpy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.graph.extract import extract, reachable
from tosa_convert.graph.model import Block, Graph, Operator
from tosa_convert.records import dataclass, field
from tosa_convert.reference.evaluate import Machine
from tosa_convert.reference.scaled_tensors import Value, plain


def undefined_integers(block: Block, operator: Operator, operands: Sequence[Value]) -> Array | None:
    """Return where the result of a CAST is the integer nearest to NaN; None if nowhere."""
    if not _rounds_to_integer(block, operator):
        return None
    found = np.isnan(plain(operands[0]).astype(np.float64))
    return found if found.any() else None


def undefined_tensors(graph: Graph, inputs: Mapping[str, Array]) -> frozenset[str]:
    """Return the tensors of the main block that depend on an integer that NaN was cast to.

    Args:
        graph: the program.
        inputs: an array for each of its inputs.

    Returns:
        Names; none if the program does not run.
    """
    block = graph.main
    casts = [
        name
        for op in block.operators
        if _rounds_to_integer(block, op)
        or any(
            _rounds_to_integer(inner, own)
            for region in reachable(graph, [op])
            for inner in region.blocks
            for own in inner.operators
        )
        for name in op.outputs
    ]
    if not casts:
        return frozenset()
    part = extract(graph, casts)
    machine = _Watching(part, "wide")
    found: set[str] = set()
    try:
        for step in machine.steps(inputs, {}):
            if step.block is part.main:
                found.update(step.operator.outputs if machine.has_seen else ())
                machine.has_seen = False
    except TosaConvertError:
        return frozenset()
    for op in block.operators:
        if not found.isdisjoint(op.inputs):
            found.update(op.outputs)
    return frozenset(found)


@dataclass(slots=True)
class _Watching(Machine):
    """A run that notes whether an operator cast NaN to an integer."""

    has_seen: bool = field(default=False)

    def compute(
        self, block: Block, operator: Operator, operands: Sequence[Value], where: str
    ) -> dict[str, Value]:
        self.has_seen |= undefined_integers(block, operator, operands) is not None
        return Machine.compute(self, block, operator, operands, where)


def _rounds_to_integer(block: Block, operator: Operator) -> bool:
    if operator.spec.name != "CAST":
        return False
    source, result = block.tensors[operator.inputs[0]], block.tensors[operator.outputs[0]]
    # In blocks NaN is in the scale.
    is_integer = not (result.dtype.is_float or result.dtype.name == "BOOL")
    return source.dtype.is_float and is_integer and result.scale is None
