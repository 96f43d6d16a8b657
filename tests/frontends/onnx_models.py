"""ONNX models of a few nodes, written with the package onnx."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def saved(
    path: Path,
    nodes: list[Any],
    inputs: dict[str, tuple[Any, list[int | str]]],
    outputs: list[str],
    weights: dict[str, Any] | None = None,
    functions: list[Any] | None = None,
    opset: int = 21,
    **options: Any,
) -> Path:
    """Write a model; inputs: name -> numpy's type and sizes."""
    import onnx
    from onnx import helper, numpy_helper

    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), sizes)
        for name, (kind, sizes) in inputs.items()
    ]
    tensors = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph(nodes, "graph", given, results, tensors)
    sets = [helper.make_opsetid("", opset)]
    sets += [helper.make_opsetid(function.domain, 1) for function in functions or ()]
    model = helper.make_model(graph, opset_imports=sets, functions=functions)
    model = onnx.shape_inference.infer_shapes(model)
    onnx.save(model, path, **options)
    return path


def node(kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> Any:
    from onnx import helper

    return helper.make_node(kind, inputs, outputs, name=attributes.pop("name", kind), **attributes)
