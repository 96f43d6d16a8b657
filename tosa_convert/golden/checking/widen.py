"""A program with its arithmetic in FP32, in place of FP16, BF16 and FP8."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from tosa_convert import api
from tosa_convert.errors import Findings, fail
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.backends.other_model import NUMPY, OtherModel
from tosa_convert.golden.backends.runners import Backend, Record
from tosa_convert.graph.constant import constant_of
from tosa_convert.graph.dtypes import FP32, DType
from tosa_convert.graph.model import Block, Graph, Operator, Region, Tensor, operator_path, quoted
from tosa_convert.graph.opset import IDENTITY
from tosa_convert.records import replace

#: The note of a comparison of a widened program.
WIDENED: Final = "widened: both sides computed in FP32 in place of FP16, BF16 and FP8"
#: Element types that become FP32.
_NARROW: Final = frozenset(("FP16", "BF16", "FP8E4M3", "FP8E5M2"))


def widened(graph: Graph) -> Graph:
    """Return a program with tensors, constants and accumulators of FP32 in place of shorter floats.

    Constants are converted exactly. A CAST between types that become one is an IDENTITY.
    """
    findings = Findings()
    is_any = False
    for path, block in graph.blocks():
        for tensor in block.tensors.values():
            is_any |= tensor.dtype.name in _NARROW
            if tensor.scale is not None or _is_of_blocks(tensor.dtype):
                where = f"{path} {quoted(tensor.name)}"
                findings.add("option-conflict", where, "data in blocks with scales stays as it is")
        for index, op in enumerate(block.operators):
            if op.spec.name == "CUSTOM":
                where = operator_path(path, index, op)
                findings.add("option-conflict", where, "its types cannot be changed")
    if not is_any and not findings:
        message = "the program has no tensor of FP16, BF16 or FP8"
        findings.add("option-conflict", "--widen", message, "leave the option out")
    findings.raise_if_any()
    regions = [
        Region(region.name, [_widened_block(block) for block in region.blocks])
        for region in graph.regions
    ]
    # What was valid stays so: a violation here would be a mistake of this module.
    return api.stamp(Graph(graph.version, regions, graph.producer))


def widened_inputs(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the inputs of a program in the types of the widened one. graph: before it was widened."""
    return {
        key: array.astype(np.float32) if _becomes_fp32(graph.main.tensors.get(key)) else array
        for key, array in inputs.items()
    }


def refuse_fixed(backend: Backend) -> None:
    """Refuse a backend that does not run the program that it is given.

    Raises TosaConvertError("option-conflict").
    """
    is_model = isinstance(backend, OtherModel) and backend.text != NUMPY
    if isinstance(backend, Record) or is_model:
        name = backend.text if isinstance(backend, OtherModel) else backend.name
        message = f"{name} has results or a model of its own, whose arithmetic cannot be changed"
        hint = "name a backend that runs the program: a command, a Python file, iree or numpy"
        raise fail("option-conflict", "--widen", message, hint)


def _is_of_blocks(row: DType) -> bool:
    return row.is_float and row.name not in (*_NARROW, "FP32")


def _becomes_fp32(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.dtype.name in _NARROW


def _widened_block(block: Block) -> Block:
    tensors = {name: _widened_tensor(tensor) for name, tensor in block.tensors.items()}
    operators = [_widened_operator(block, op, tensors) for op in block.operators]
    names = list(block.inputs), list(block.outputs)
    return Block(block.name, *names, operators, tensors, dict(block.shapes))


def _widened_tensor(tensor: Tensor) -> Tensor:
    if not _becomes_fp32(tensor):
        return tensor
    data = tensor.data
    if data is not None:
        data = constant_of(data.numpy().astype(np.float32), FP32)
    return replace(tensor, dtype=FP32, data=data)


def _widened_operator(block: Block, op: Operator, tensors: Mapping[str, Tensor]) -> Operator:
    if op.spec.name == "CAST" and tensors[op.inputs[0]].dtype is tensors[op.outputs[0]].dtype:
        return Operator(IDENTITY, op.inputs, op.outputs, {}, op.location)
    attributes: dict[str, Any] = {}
    is_changed = bool(op.inputs) and _becomes_fp32(block.tensors.get(op.inputs[0]))
    for name, value in op.attributes.items():
        number = block.element_of(op, name) if is_changed else None
        if isinstance(value, DType) and value.name in _NARROW:
            attributes[name] = FP32
        elif number is not None and isinstance(value, bytes):
            data = np.array([number], "<f4").tobytes()
            attributes[name] = data + bytes(max(0, len(value) - len(data)))
        else:
            attributes[name] = value
    return Operator(op.spec, op.inputs, op.outputs, attributes, op.location)
