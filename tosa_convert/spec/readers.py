"""What a program that reads files does not read; `file_consumers` has the facts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tosa_convert.errors import Finding
from tosa_convert.graph.model import operator_path, quoted
from tosa_convert.spec.values import CONSTANT_POSITIONS

if TYPE_CHECKING:
    from tosa_convert.file_consumers import Consumer
    from tosa_convert.graph.model import Block, Graph, Operator

_CODE = "unsupported-by-reader"


def reader_findings(graph: Graph, reader: Consumer) -> Iterator[Finding]:
    """The operators, element types and operands of a sound graph that a program does not read."""
    for where, block in graph.blocks():
        for name, tensor in block.tensors.items():
            for dtype in (tensor.dtype, *(() if tensor.scale is None else (tensor.scale.dtype,))):
                if dtype.name in reader.types:
                    place = f"{where} tensor {quoted(name)}"
                    yield Finding(_CODE, place, f"{reader.name} does not read {dtype} tensors")
        for index, operator in enumerate(block.operators):
            for message in _problems(block, operator, reader):
                yield Finding(_CODE, operator_path(where, index, operator), message)


def _problems(block: Block, operator: Operator, reader: Consumer) -> Iterator[str]:
    spec = operator.spec
    if spec.name in reader.operators or spec.since > reader.newest:
        yield f"{reader.name} does not read {spec.name}"
    elif reader.constants:
        for position in CONSTANT_POSITIONS.get(spec, ()):
            name = operator.inputs[position]
            tensor = block.tensors.get(name)
            if tensor is not None and (tensor.data is None or tensor.variable):
                row = spec.operand(len(operator.inputs) + position, len(operator.inputs))
                yield (
                    f"{reader.name} reads {spec.name} only with a constant {row.name}, "
                    f"found the tensor {quoted(name)}"
                )
