"""Imports an ONNX model into torch-mlir's dialect without a copy of its large tensors."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import onnx
from onnx import helper, numpy_helper
from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.extras import onnx_importer

from tosa_convert.frontends.onnx.fold import all_nodes
from tosa_convert.frontends.onnx.weights import Weights, is_external, large_tensors
from tosa_convert.frontends.torch.dialect import new_context

_Types = onnx.TensorProto
#: Element types of which torch-mlir's literals may be views of memory.
_LITERALS: Final = frozenset([_Types.FLOAT, _Types.FLOAT16, _Types.BFLOAT16, _Types.DOUBLE])
#: How the text of the type of tensors ends whose casts torch-mlir does not convert -> torch's number.
_CASTS: Final = {",si16>": 1, ",ui16>": 1, ",ui32>": 3, ",f8E5M2>": 23, ",f8E4M3FN>": 24}
#: The alignment of constants that torch-mlir's importer asks for.
_ALIGNMENT: Final = 8


def import_model(model: Any, weights: Weights) -> Any:
    """Import a model as a module with the function `main`; large constants are views of weight files.

    Raises onnx_importer.OnnxImportError for what torch-mlir cannot import.
    """
    model.graph.name = "main"
    _simplify_tensors(model)
    config = onnx_importer.Config()
    config.function_expansion_allowlists_by_domain = None
    info = onnx_importer.ModelInfo(model, config=config)
    module = info.create_module(context=new_context())
    tensors = _Tensors(module.context, weights)
    graph = info.main_graph
    importer = onnx_importer.NodeImporter.define_function(graph, module.operation, tensors)
    for tensor in large_tensors(model):
        if tensor.data_type in _LITERALS:
            importer._nv_map[tensor.name] = _literal(importer._b, tensors, tensor)
            # The importer makes constants of these, of which torch-mlir copies the data.
            del graph.initializer_map[tensor.name]
            kind = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            graph.value_info_map[tensor.name] = kind
    importer.import_all()
    _import_casts(module)
    return module


def _simplify_tensors(model: Any) -> None:
    """Drop tensors that nothing uses, and store short elements as bytes, in place.

    The importer imports all of them, and knows few types with a list of their own.
    """
    used = {name for node in all_nodes(model.graph) for name in node.input}
    used |= {output.name for output in model.graph.output}
    kept = [tensor for tensor in model.graph.initializer if tensor.name in used]
    for tensor in kept:
        if tensor.int32_data and tensor.data_type != _Types.INT32:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)


def _import_casts(module: Any) -> None:
    """Make casts operators of torch whose form of ONNX torch-mlir does not convert."""
    operations = [view.operation for view in module.body.operations[0].regions[0].blocks[0]]
    with module.context:
        for operation in operations:
            if operation.name != "torch.operator" or len(operation.results) != 1:
                continue
            kind = operation.results[0].type
            is_cast = ir.StringAttr(operation.attributes["name"]).value == "onnx.Cast"
            number = next((n for end, n in _CASTS.items() if str(kind).endswith(end)), None)
            if not is_cast or number is None:
                continue
            with ir.InsertionPoint(operation), operation.location:
                dtype = torch_dialect.ConstantIntOp(number).result
                no = torch_dialect.ConstantBoolOp(False).result
                none = torch_dialect.ConstantNoneOp().result
                operands = [operation.operands[0], dtype, no, no, none]
                made = ir.Operation.create("torch.aten.to.dtype", [kind], operands)
            operation.results[0].replace_all_uses_with(made.result)
            operation.erase()


def _literal(block: Any, tensors: _Tensors, tensor: Any) -> Any:
    """Add a constant of torch-mlir's own dialect for a tensor."""
    with ir.InsertionPoint(block), ir.Location.name(tensor.name):
        kind = tensors.tensor_proto_to_type(tensor)
        attributes = {"value": tensors.tensor_proto_to_attr(tensor)}
        return ir.Operation.create(
            "torch.vtensor.literal", results=[kind], attributes=attributes
        ).result


class _Tensors(onnx_importer.ContextCache):  # type: ignore[misc]
    """Makes attributes of tensors."""

    def __init__(self, context: Any, weights: Weights) -> None:
        super().__init__(context)
        self.weights = weights

    def tensor_proto_to_attr(self, tensor: Any) -> Any:
        if not is_external(tensor):
            return super().tensor_proto_to_attr(tensor)
        data = self.weights.bytes_of(tensor)
        size = max(1, data.nbytes // max(1, int(np.prod(tensor.dims, dtype=np.int64))))
        if data.ctypes.data % size:
            data = data.copy()
        return ir.DenseResourceElementsAttr.get_from_buffer(
            data,
            self._sanitize_name(tensor.name),
            self.tensor_proto_to_builtin_type(tensor),
            alignment=min(size, _ALIGNMENT),
        )
