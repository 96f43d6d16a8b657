"""Variables, which modules declare beside their functions and files list as tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from tosa_convert.bindings.select_function import symbol_name
from tosa_convert.errors import Finding, fail
from tosa_convert.graph.model import DYNAMIC, Tensor
from tosa_convert.graph.opset import VARIABLE
from tosa_convert.mlir.bytecode.decode import (
    Bytecode,
    Dense,
    TensorType,
    TypeReference,
)
from tosa_convert.mlir.narrowing import Narrowing
from tosa_convert.mlir.reading.filling import ConstantReader
from tosa_convert.mlir.reading.locations import LocationReader
from tosa_convert.mlir.reading.types import TypeReader
from tosa_convert.mlir.report import Report


def declare(
    bytecode: Bytecode,
    operation: Any,
    number: int,
    narrowing: Narrowing,
    *,
    pad_resources: bool,
) -> tuple[Tensor | None, list[Finding]]:
    """The tensor of a tosa.variable, the module's variable `number`, or None and why not."""
    root = bytecode.root
    attributes = bytecode.dictionary(root.attributes)
    label = symbol_name(operation)
    report = Report(bytecode.names, LocationReader(bytecode))
    sizes = bytecode.attribute(attributes["var_shape"])
    element = bytecode.attribute(attributes["type"])
    if not isinstance(sizes, Dense) or not isinstance(element, TypeReference):
        where = report.place(root) or f"'{VARIABLE.mlir}'"
        raise fail("malformed-operator", where, f"variable @{label} has no shape or no type")
    rank = sizes.type.shape[0] if isinstance(sizes.type, TensorType) and sizes.type.shape else 0
    found = np.broadcast_to(np.frombuffer(sizes.data, "<i8"), (rank,)).tolist()
    shape = tuple(size if size >= 0 else DYNAMIC for size in found)
    types = TypeReader(bytecode, narrowing)
    kind = types.tensor(TensorType(shape, str(element.type)))
    if kind.problem or kind.dtype is None:
        report.say(root, kind.code, f"variable @{label}: {kind.problem}", kind.hint)
        return None, report.findings
    tensor = Tensor(f"Variable_{number}", kind.dtype, shape, None, None, True, label)
    if kind.narrowed:
        narrowing.touch(kind.narrowed, tensor.name)
    if "initial_value" in attributes:
        constants = ConstantReader(bytecode, types, narrowing, report, pad_resources=pad_resources)
        value = bytecode.attribute(attributes["initial_value"])
        tensor.data = constants.constant(root, "initial_value", value, kind, set)
    return tensor, report.findings
