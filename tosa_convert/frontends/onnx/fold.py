"""Computes what is constant in an ONNX graph: onnxruntime first, then node by node with onnx itself."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any, Final

import numpy as np
from onnx import helper, numpy_helper

from tosa_convert.frontends.onnx.decompositions.node import Values, values_of
from tosa_convert.frontends.onnx.weights import Weights, large_tensors, load_made

#: Bytes of a result up to which it is computed here.
_BYTES: Final = 1 << 26
#: Bytes of weights from which what onnxruntime changes may be too much for one protocol buffer.
_MUCH: Final = 1 << 28
#: onnxruntime's file of weights, then.
_DATA_FILE: Final = "folded.data"
#: Operators that multiply by weights.
_PRODUCTS: Final = ("Conv", "Gemm", "MatMul")
#: The opset from which QuantizeLinear takes other real numbers than FP32.
_QUANTISED_OF_REALS: Final = 19
#: Marks what dequantises weights and is not folded.
_KEPT: Final = "quantised weights"
#: Operators whose result is another one in every run, or that run others.
_NOT_FOLDED: Final = frozenset(
    (
        *("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli"),
        *("Multinomial", "Dropout", "If", "Loop", "Scan", "SequenceMap"),
    )
)


def fold_with_onnxruntime(model: Any, folder: Path, weights: Weights) -> Any | None:
    """Optimise a model by onnxruntime's basic passes, or return None if onnxruntime refuses it.

    They compute constants and shapes, inline functions, and fold BatchNormalization into convolutions.
    Tensors that they do not change stay in the files where they are.
    """
    path = folder / "folded.onnx"
    if _optimised(model, path, weights.folder):
        folded = load_made(path, weights)
    elif sum(weights.bytes_of(one).nbytes for one in large_tensors(model)) < _MUCH:
        return None
    elif _optimised(model, path, weights.folder, data_file=_DATA_FILE):
        # What it changed was too much for one file.
        folded = load_made(path, weights)
        for tensor in large_tensors(folded):
            for entry in tensor.external_data:
                if entry.key == "location" and entry.value == _DATA_FILE:
                    entry.value = weights.own(folder / _DATA_FILE)
    else:
        return None
    domains = {node.domain for node in folded.graph.node}
    known = {node.domain for node in model.graph.node} | {"", "ai.onnx"}
    return folded if domains <= known else None


def _optimised(model: Any, path: Path, weights: Path, *, data_file: str = "") -> bool:
    """Have onnxruntime write the model; return whether it did.

    In a fork: its threads would not survive a later one.
    """
    if not hasattr(os, "fork"):
        return _optimise(model, path, weights, data_file)
    child = os.fork()
    if not child:
        code = 1
        try:
            code = 0 if _optimise(model, path, weights, data_file) else 1
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def _optimise(model: Any, path: Path, weights: Path, data_file: str) -> bool:
    """Have onnxruntime write the optimised model."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.optimized_model_filepath = str(path)
    entries = {
        "session.model_external_initializers_file_folder_path": str(weights),
        # The copies of weights with which it would run the model.
        "session.disable_prepacking": "1",
    }
    if data_file:
        entries["session.optimized_model_external_initializers_file_name"] = data_file
        entries["session.optimized_model_external_initializers_min_size_in_bytes"] = "1024"
    for name, value in entries.items():
        options.add_session_config_entry(name, value)
    try:
        onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception:  # onnxruntime raises what it likes for operators that it does not run.
        return False
    return True


def keep_quantised_weights(model: Any) -> None:
    """Mark what dequantises the weights of products with tensors that are dequantised, too.

    `fold_constants` leaves them, so that the products can be computed with integers. A Relu before a
    quantisation is left out if that saturates there; or torch-mlir would compute it after that, and then
    not lower it.
    """
    zeros = {tensor.name: tensor for tensor in model.graph.initializer if not tensor.external_data}
    opset = max((row.version for row in model.opset_import if not row.domain), default=1)
    makers = {name: node for node in model.graph.node for name in node.output}
    for node in model.graph.node:
        pair = [makers[name] for name in node.input[:2] if name in makers]
        given = [maker for maker in pair if maker.op_type == "DequantizeLinear"]
        if node.op_type in _PRODUCTS and len(given) == 2:
            for maker in given:
                maker.doc_string = _KEPT
        rest = makers.get(node.input[0]) if node.op_type == "QuantizeLinear" else None
        if rest is None or rest.op_type != "Relu" or len(node.input) < 3:
            continue
        zero = numpy_helper.to_array(zeros[node.input[2]]) if node.input[2] in zeros else None
        if (
            zero is not None
            and zero.dtype.kind in "iu"
            and (zero == np.iinfo(zero.dtype).min).all()
        ):
            node.input[0] = rest.input[0]
        elif opset < _QUANTISED_OF_REALS:
            rest.op_type = "Max"
            rest.input.append(f"{rest.output[0]}/least")
            model.graph.initializer.append(numpy_helper.from_array(np.float32(0), rest.input[1]))
    used = {name for node in all_nodes(model.graph) for name in node.input}
    used |= {output.name for output in model.graph.output}
    for node in [node for node in model.graph.node if node.op_type == "Relu"]:
        if node.output[0] not in used:
            model.graph.node.remove(node)


def fold_constants(model: Any, weights: Weights) -> bool:
    """Compute every node whose inputs are known, in place; returns whether there was one.

    A shape is known if all sizes are, also without the values.
    """
    values = values_of(model, weights)
    kept: list[Any] = []
    changed = False
    used = {name for node in all_nodes(model.graph) for name in node.input}
    used |= {output.name for output in model.graph.output}
    results = {output.name for output in model.graph.output}
    for node in model.graph.node:
        # What a graph returns is made by a node; an identity stays.
        done = node.op_type == "Identity" and not results.isdisjoint(node.output)
        found = None if done else _computed(node, values, model)
        if found is None:
            kept.append(node)
            continue
        changed = True
        for name, array in zip(node.output, found, strict=False):
            if name in results:
                constant = f"{name}/constant"
                kept.append(helper.make_node("Identity", [constant], [name], name=node.name))
                model.graph.initializer.append(numpy_helper.from_array(array, constant))
            elif name and name in used:
                values.constants[name] = array
                model.graph.initializer.append(numpy_helper.from_array(array, name))
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return changed


def all_nodes(graph: Any) -> list[Any]:
    """List the nodes of a graph, and those of the graphs in them."""
    nodes = list(graph.node)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                nodes += all_nodes(attribute.g)
    return nodes


def _computed(node: Any, values: Values, model: Any) -> list[np.ndarray[Any, Any]] | None:
    """Compute the results of a node, or return None if they are not known."""
    if node.op_type in _NOT_FOLDED or node.domain not in ("", "ai.onnx"):
        return None
    if node.op_type == "DequantizeLinear" and node.doc_string == _KEPT:
        return None
    if node.op_type in ("Shape", "Size") and values.shape(node.input[0]) is not None:
        shape = values.shape(node.input[0]) or ()
        if node.op_type == "Size":
            return [np.array(int(np.prod(shape)), np.int64)]
        given = {a.name: a.i for a in node.attribute}
        return [np.array(shape[given.get("start", 0) : given.get("end", len(shape))], np.int64)]
    if not all(name in values.constants for name in node.input if name):
        return None
    outputs = [values.shape(name) for name in node.output if name]
    if any(shape is not None and 8 * np.prod(shape, dtype=float) > _BYTES for shape in outputs):
        return None
    return _evaluate(node, values, model)


def _evaluate(node: Any, values: Values, model: Any) -> list[np.ndarray[Any, Any]] | None:
    from onnx.reference import ReferenceEvaluator

    arrays = {name: values.constants[name] for name in node.input if name}
    graph = helper.make_graph(
        [node],
        "constant",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in arrays.items()
        ],
        [helper.make_empty_tensor_value_info(name) for name in node.output if name],
    )
    alone = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = ReferenceEvaluator(alone).run(None, arrays)
    except Exception:  # What onnx's own Python cannot compute is left to the lowering.
        return None
    if not all(isinstance(array, (np.ndarray, np.generic)) for array in found):
        return None
    results = iter(np.asarray(array) for array in found)
    return [next(results) if name else np.zeros(0) for name in node.output]
