"""The indices that GATHER, SCATTER and the like take, and the inputs that they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tosa_convert.graph.model import Block, Operator
from tosa_convert.graph.opset import OperatorSpec


@dataclass(frozen=True, slots=True)
class Indexed:
    """What an operator indexes.

    position: the operand that has the indices. tensor: the one that is indexed.
    rows: its size in dimension 1: an index is at least 0 and less than this.
    """

    position: int
    tensor: str
    rows: int


def indexed(block: Block, spec: OperatorSpec, operands: Sequence[str]) -> Indexed | None:
    """Return what an operator indexes, or None if it indexes nothing or a tensor of unknown size."""
    rows = [spec.operand(i, len(operands)).domain for i in range(len(operands))]
    if "index" not in rows:
        return None
    tensor = block.tensors.get(operands[0])
    if tensor is None or tensor.shape is None or len(tensor.shape) < 2 or tensor.shape[1] < 1:
        return None
    return Indexed(rows.index("index"), tensor.name, tensor.shape[1])


def integer_inputs(block: Block, name: str) -> list[str]:
    """Return the integer inputs of a block that a tensor is computed from, in the block's order."""
    producers = {output: op for op in block.operators for output in op.outputs}
    found: set[str] = set()
    waiting = [name]
    while waiting:
        tensor = waiting.pop()
        if tensor in found:
            continue
        found.add(tensor)
        producer: Operator | None = producers.get(tensor)
        waiting += producer.inputs if producer is not None else ()
    return [
        name
        for name in dict.fromkeys(block.inputs)
        if name in found
        and name in block.tensors
        and block.tensors[name].dtype.name.startswith("INT")
    ]
