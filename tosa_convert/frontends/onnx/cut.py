"""Leaves nodes that do not lower to the caller, where the types of what they give are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import onnx
from onnx import helper

from tosa_convert.frontends.lowering.cut import Cutter
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope
from tosa_convert.frontends.onnx.node import Item
from tosa_convert.frontends.process.request import CutOperator

_NO_TENSOR: Final = "it takes something else than tensors"
_NO_SIZES: Final = "the sizes of what it gives are not known"


def cutter_of(model: Any) -> NodeCutter:
    """Return what cuts nodes out of a model whose types onnx inferred."""
    types = {}
    for info in (*model.graph.value_info, *model.graph.output):
        tensor = info.type.tensor_type
        sizes = tuple(dim.dim_value for dim in tensor.shape.dim)
        is_known = tensor.HasField("shape") and all(sizes)
        if is_known and tensor.elem_type != onnx.TensorProto.STRING:
            types[info.name] = helper.tensor_dtype_to_np_dtype(tensor.elem_type), sizes
    return NodeCutter(types)


class NodeCutter(Cutter):
    """Cuts nodes out of the main graph of a model.

    types: value of the model -> its element type and its sizes, where these are known.
    """

    def __init__(self, types: Mapping[str, tuple[Any, tuple[int, ...]]]) -> None:
        super().__init__()
        self.types = types

    def cut_node(
        self, scope: Scope, node: Any, given: Sequence[Item | None], row: CutOperator
    ) -> list[Array]:
        """Return stand-ins for the results of a node. row: what is known of it.

        Raises NotLowered if that is not possible.
        """
        arrays = [item for item in given if item is None or isinstance(item, Array)]
        if len(arrays) < len(given):
            raise NotLowered(_NO_TENSOR)
        names = [name for name in node.output if name]
        if any(name not in self.types for name in names):
            raise NotLowered(_NO_SIZES)
        return self.cut(scope, arrays, row, [self.types[name] for name in names])
