"""Results of operators that read subnormal numbers as zeros, which TOSA lets implementations do."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

import numpy as np

from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.accuracy.error_bounds import is_subnormal, may_flush
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.model import Block, Graph, Operator
from tosa_convert.records import dataclass
from tosa_convert.reference.block_scaled import Scaled, Value
from tosa_convert.reference.evaluate import Machine


@dataclass(slots=True)
class _Flushing(Machine):
    """A run in FP64 whose operators read subnormal numbers of their element types as zeros."""

    def compute(
        self, block: Block, operator: Operator, operands: Sequence[Value], where: str
    ) -> dict[str, Value]:
        read = [
            _flushed(value, block.tensors[name].dtype) if name in block.tensors else value
            for name, value in zip(operator.inputs, operands, strict=True)
        ]
        return Machine.compute(self, block, operator, read, where)


def flushed_results(
    graph: Graph, inputs: Mapping[str, Array], wanted: Container[str]
) -> dict[str, Array]:
    """Return tensors of the main block in FP64 that read subnormal numbers as zeros."""
    block = graph.main
    given = [(name, inputs[name]) for name in block.inputs if name in inputs]
    constants = (
        (tensor.name, tensor.data.numpy())
        for tensor in block.tensors.values()
        if tensor.data is not None and may_flush(tensor.dtype)
    )
    if not any(
        is_subnormal(array, block.tensors[name].dtype).any() for name, array in (*given, *constants)
    ):
        return {}
    found: dict[str, Array] = {}
    try:
        for step in _Flushing(graph, "wide").steps(inputs, {}):
            if step.block is block:
                found |= {name: array for name, array in step.results.items() if name in wanted}
    except TosaConvertError:
        return {}
    return found


def _flushed(value: Value, row: DType) -> Value:
    if isinstance(value, Scaled):
        return value
    is_small = is_subnormal(value, row)
    return np.where(is_small, np.copysign(0.0, value), value) if is_small.any() else value
