"""Results that TOSA leaves open: integers that NaN was cast to, and the larger one of 0 and -0.

CAST of floating point gives `round_to_nearest_int(value)`, and no integer is the nearest one to NaN.
Processors give 0, the least or the greatest integer, and so do the reference model and numpy. 0 and -0
are equal for TOSA, so that MAXIMUM may return either; RECIPROCAL makes infinities of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.graph.derived import extract, reachable
from tosa_convert.graph.model import Block, Graph, Operator, element_value
from tosa_convert.records import dataclass, field
from tosa_convert.reference.block_scaled import Value, plain
from tosa_convert.reference.evaluate import Machine

#: Operators that return one of several numbers -> how many operands have these.
_CHOOSING: Final = {
    **dict.fromkeys(("CLAMP", "REDUCE_MAX", "REDUCE_MIN", "MAX_POOL2D", "MAX_POOL2D_ADAPTIVE"), 1),
    **dict.fromkeys(("MAXIMUM", "MINIMUM"), 2),
}
#: Operators whose results show the sign of a zero.
_SHOWS_SIGN: Final = frozenset(("POW", "RECIPROCAL", "RSQRT"))


def undefined_integers(block: Block, operator: Operator, operands: Sequence[Value]) -> Array | None:
    """Return where the result of a CAST is the integer nearest to NaN; None if nowhere."""
    if not _rounds_to_integer(block, operator):
        return None
    found = np.isnan(plain(operands[0]).astype(np.float64))
    return found if found.any() else None


def chooses_zeros(block: Block, operator: Operator, operands: Sequence[Value]) -> bool:
    """Return whether an operator chooses between 0 and -0, which are equal for TOSA."""
    if operator.spec.name not in _CHOOSING or not block.tensors[operator.inputs[0]].dtype.is_float:
        return False
    values = [plain(one) for one in operands[: _CHOOSING[operator.spec.name]]]
    if operator.spec.name == "CLAMP":
        element = block.tensors[operator.inputs[0]].dtype
        for name in ("min_val", "max_val"):
            bound = operator.attributes[name]
            assert isinstance(bound, bytes)
            values.append(np.array([element_value(bound, element)]))
    signs = [np.signbit(value[value == 0]) for value in values]
    return any(one.any() for one in signs) and not all(one.all() for one in signs)


def open_tensors(
    graph: Graph, inputs: Mapping[str, Array], golden: Mapping[str, Array]
) -> frozenset[str]:
    """Return the tensors of the main block that depend on a result which TOSA leaves open."""
    block = graph.main
    kinds = {op.spec.name for _, own in graph.blocks() for op in own.operators}
    has_zeros = not kinds.isdisjoint(_CHOOSING) and not kinds.isdisjoint(_SHOWS_SIGN)
    has_zeros = has_zeros and any(_has_infinity(array) for array in golden.values())

    def may_be_open(own: Block, op: Operator) -> bool:
        return _rounds_to_integer(own, op) or (has_zeros and op.spec.name in _CHOOSING)

    casts = [
        name
        for op in block.operators
        if may_be_open(block, op)
        or any(
            may_be_open(inner, own)
            for region in reachable(graph, [op])
            for inner in region.blocks
            for own in inner.operators
        )
        for name in op.outputs
    ]
    if not casts:
        return frozenset()
    part = extract(graph, casts)
    machine = _Watching(part, "wide", has_zeros=has_zeros)
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
    """Notes whether an operator had an open result. has_zeros: look for the sign of zeros."""

    has_seen: bool = field(default=False)
    has_zeros: bool = False

    def compute(
        self, block: Block, operator: Operator, operands: Sequence[Value], where: str
    ) -> dict[str, Value]:
        self.has_seen |= undefined_integers(block, operator, operands) is not None
        self.has_seen |= self.has_zeros and chooses_zeros(block, operator, operands)
        return Machine.compute(self, block, operator, operands, where)


def _rounds_to_integer(block: Block, operator: Operator) -> bool:
    if operator.spec.name != "CAST":
        return False
    source, result = block.tensors[operator.inputs[0]], block.tensors[operator.outputs[0]]
    # In blocks NaN is in the scale.
    is_integer = not (result.dtype.is_float or result.dtype.name == "BOOL")
    return source.dtype.is_float and is_integer and result.scale is None


def _has_infinity(array: Array) -> bool:
    return array.dtype.kind not in "biuV" and bool(np.isinf(array.astype(np.float64)).any())
