"""Leaves nodes that do not lower to the caller, where the types of what they give are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper, shape_inference

from tosa_convert.frontends.lowering.cut import Cutter
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, whole_data
from tosa_convert.frontends.onnx.node import Item
from tosa_convert.frontends.process.request import CutOperator

_NO_NUMBERS: Final = (onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING)
#: The most elements of a constant that onnx may need to infer a shape.
_MOST_ELEMENTS: Final = 64


class NodeCutter(Cutter):
    """Cuts nodes out of the main graph of a model."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.opsets = model.opset_import
        infos = (*model.graph.value_info, *model.graph.output)
        self.declared = {info.name: info.type for info in infos}

    def cut_node(
        self, scope: Scope, node: Any, given: Sequence[Item | None], row: CutOperator
    ) -> list[Array]:
        """Return stand-ins for a node's results; raise NotLowered if their types are not known."""
        inferred = self._inferred(node, given)
        names = [name for name in node.output if name]
        types = [_known_type(inferred.get(name), self.declared.get(name)) for name in names]
        return self.cut(scope, given, row, types)

    def _inferred(self, node: Any, given: Sequence[Item | None]) -> dict[str, Any]:
        """Return the types of results that onnx infers of the operands."""
        arrays = {
            name: item
            for name, item in zip(node.input, given, strict=True)
            if isinstance(item, Array)
        }
        types = {
            name: helper.make_tensor_type_proto(
                helper.np_dtype_to_tensor_dtype(np.dtype(item.dtype)), item.shape
            )
            for name, item in arrays.items()
        }
        data = {
            name: numpy_helper.from_array(np.ascontiguousarray(whole_data(item)), name)
            for name, item in arrays.items()
            if item.is_constant and item.size <= _MOST_ELEMENTS
        }
        versions = {row.domain: row.version for row in self.opsets}
        try:
            schema = defs.get_schema(node.op_type, versions.get(node.domain, 1), node.domain)
            return dict(
                shape_inference.infer_node_outputs(
                    schema, node, types, data, opset_imports=list(self.opsets)
                )
            )
        except Exception:  # onnx does not know the operator, or refuses its form.
            return {}


def _known_type(*kinds: Any) -> tuple[Any, tuple[int, ...]]:
    """Return the element type and the sizes of the first of several types of ONNX that has all sizes."""
    for tensor in (kind.tensor_type for kind in kinds if kind is not None):
        sizes = tuple(dim.dim_value for dim in tensor.shape.dim)
        if tensor.HasField("shape") and all(sizes) and tensor.elem_type not in _NO_NUMBERS:
            return helper.tensor_dtype_to_np_dtype(tensor.elem_type), sizes
    raise NotLowered("the sizes of what it gives are not known")
