"""Bounds of GATHER: StableHLO keeps positions within the operand, TFLite leaves those outside open."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
from litert_converter.mlir import ir

_GATHER: Final = "stablehlo.gather"
#: In the text of the dimensions of a gather.
_AXES: Final = re.compile(r"start_index_map = \[([\d, ]*)\]")
_VECTOR: Final = re.compile(r"index_vector_dim = (\d+)")


def bound_gathers(module: Any) -> None:
    """Clamp the positions of each gather of a module of StableHLO, which litert-converter would not."""
    found: list[Any] = []

    def visit(operation: Any) -> Any:
        if operation.name == _GATHER:
            found.append(operation.operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for operation in found:
        _bound(operation)


def _bound(gather: Any) -> None:
    operand, positions = gather.operands
    kind = ir.RankedTensorType(positions.type)
    sign, _, bits = str(kind.element_type).rpartition("i")
    element = np.dtype(f"{sign}int{bits}")
    highest = _highest(gather, ir.RankedTensorType(operand.type).shape, kind.shape)
    with ir.InsertionPoint(gather), gather.location:
        low, high = (
            ir.Operation.create(
                "stablehlo.constant",
                results=[kind],
                attributes={"value": ir.DenseElementsAttr.get(array.astype(element), type=kind)},
            ).result
            for array in (np.zeros(kind.shape), highest)
        )
        bounded = ir.Operation.create(
            "stablehlo.clamp", results=[kind], operands=[low, positions, high]
        )
    gather.operands[1] = bounded.result


def _highest(gather: Any, sizes: list[int], shape: list[int]) -> Any:
    """Return the greatest position of each slice that is within the operand."""
    dimensions = str(gather.attributes["dimension_numbers"])
    axes_found, vector_found = _AXES.search(dimensions), _VECTOR.search(dimensions)
    axes = [int(word) for word in axes_found[1].split(",")] if axes_found else []
    # The text leaves a number out that is 0.
    vector = int(vector_found[1]) if vector_found else 0
    slices = list(gather.attributes["slice_sizes"])
    limits = [sizes[axis] - slices[axis] for axis in axes]
    if vector == len(shape):
        return np.full(shape, limits[0])
    along = [-1 if axis == vector else 1 for axis in range(len(shape))]
    return np.ascontiguousarray(np.broadcast_to(np.reshape(limits, along), shape))
