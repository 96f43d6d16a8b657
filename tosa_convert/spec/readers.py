"""What a program that reads files does not read; `file_consumers` has the facts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tosa_convert.errors import Finding
from tosa_convert.graph.model import DYNAMIC, located, operator_path, quoted
from tosa_convert.upgrade.dialect_states import state_of
from tosa_convert.upgrade.form_080 import form_080
from tosa_convert.upgrade.older_form import dialect_form, missing, older_findings

if TYPE_CHECKING:
    from tosa_convert.file_consumers import Consumer
    from tosa_convert.graph.model import Block, Graph, Operator, Tensor

_CODE = "unsupported-by-reader"


def reader_findings(graph: Graph, reader: Consumer) -> Iterator[Finding]:
    """The operators, types, shapes and operands of a sound graph that a program does not read."""
    if reader.tosa:
        yield from older_findings(graph, form_080(reader.release))
    elif (graph.version.major, graph.version.minor) > reader.stamped:
        message = f"{reader.release} does not read files of TOSA {graph.version}"
        yield Finding(_CODE, "", message, "write it with --tosa-version 1.0, if that has it all")
    if reader.dialect:
        yield from missing(graph, dialect_form(state_of(reader.dialect), reader.release))
    for where, block in graph.blocks():
        for name, tensor in block.tensors.items():
            for message in _tensor_problems(tensor, reader):
                yield Finding(_CODE, f"{where} tensor {quoted(name)}", message)
        for index, operator in enumerate(block.operators):
            for message in _problems(block, operator, reader):
                place = located(operator_path(where, index, operator), operator)
                yield Finding(_CODE, place, message)
        if reader.computed:
            for name in dict.fromkeys(block.outputs):
                if name in block.inputs:
                    message = f"{reader.name} does not read an output that is an input"
                    yield Finding(_CODE, f"{where} output {quoted(name)}", message)


def _tensor_problems(tensor: Tensor, reader: Consumer) -> Iterator[str]:
    for dtype in (tensor.dtype, *(() if tensor.scale is None else (tensor.scale.dtype,))):
        if dtype.name in reader.types:
            yield f"{reader.name} does not read {dtype} tensors"
    if tensor.shape is None:
        if reader.ranked or reader.static:
            yield f"{reader.name} does not read tensors of unknown rank"
    elif len(tensor.shape) > reader.max_rank:
        yield f"{reader.name} does not read tensors of more than {reader.max_rank} dimensions"
    elif reader.static and DYNAMIC in tensor.shape:
        yield f"{reader.name} does not read tensors of unknown sizes"


def _problems(block: Block, operator: Operator, reader: Consumer) -> Iterator[str]:
    spec = operator.spec
    if spec.name in reader.operators or spec.since > reader.newest:
        yield f"{reader.name} does not read {spec.name}"
        return
    if not spec.takes(len(operator.inputs), len(operator.outputs)):
        return  # The rules of TOSA report it.
    if spec.name in reader.static_operators and not _changes_nothing(block, operator):
        names = (operator.inputs[0], operator.outputs[0])
        if any(DYNAMIC in (_shape(block, name) or ()) for name in names):
            yield f"{reader.name} does not read {spec.name} of unknown sizes"
    if not reader.constants:
        return
    for position, name in enumerate(operator.inputs):
        row = spec.operand(position, len(operator.inputs))
        wanted = row.is_constant and (reader.constants == "all" or row.name.endswith("_zp"))
        tensor = block.tensors.get(name)
        if tensor is None or (tensor.data is not None and not tensor.variable):
            continue
        named = f"{spec.name} {row.name}"
        if wanted or {named, f"{named} {tensor.dtype}"} & reader.further_constants:
            yield (
                f"{reader.name} reads {spec.name} only with a constant {row.name}, "
                f"found the tensor {quoted(name)}"
            )


def _changes_nothing(block: Block, operator: Operator) -> bool:
    """Whether MLIR removes a RESHAPE or TRANSPOSE: the shape stays, and at most one size is unknown."""
    perms = operator.attributes.get("perms")
    if isinstance(perms, tuple):
        return perms == tuple(range(len(perms)))
    before, after = (_shape(block, name) for name in (operator.inputs[0], operator.outputs[0]))
    return before is not None and before == after and before.count(DYNAMIC) <= 1


def _shape(block: Block, name: str) -> tuple[int, ...] | None:
    tensor = block.tensors.get(name)
    return None if tensor is None else tensor.shape
