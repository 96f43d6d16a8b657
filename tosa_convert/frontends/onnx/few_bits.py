"""Holds the 2-bit and 4-bit integers of an ONNX model in 8 bits: TOSA's CAST has no INT4."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from tosa_convert.frontends.onnx.shapes import infer

#: Type of 2 or 4 bits -> the one that holds its values, and the least and the greatest of these.
_HELD: Final = {
    getattr(TensorProto, name): row
    for name, row in {
        "INT4": (TensorProto.INT8, -8, 7),
        "UINT4": (TensorProto.UINT8, 0, 15),
        "INT2": (TensorProto.INT8, -2, 1),
        "UINT2": (TensorProto.UINT8, 0, 3),
    }.items()
    if hasattr(TensorProto, name)  # The last two are of onnx 1.20.
}

_FLOAT, _INT32 = TensorProto.FLOAT, TensorProto.INT32
_REAL: Final = frozenset(
    (
        *(_FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE),
        *(TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2),
    )
)


def hold_in_bytes(model: Any) -> None:
    """Give inputs, outputs and casts of such integers 8 bits, in place.

    Weights stay as they are: what uses them folds them or turns them into real numbers.
    """
    constants = {tensor.name for tensor in model.graph.initializer}
    infos = [info for info in model.graph.input if info.name not in constants]
    infos += model.graph.output
    held = any(info.type.tensor_type.elem_type in _HELD for info in infos)
    casts = {"Cast", "CastLike", "QuantizeLinear"} & {node.op_type for node in model.graph.node}
    if not held and not casts:
        return
    kinds = _kinds(model)
    if not set(kinds.values()) & set(_HELD):
        return
    nodes: list[Any] = []
    for node in model.graph.node:
        kind = kinds.get(node.output[0], 0) if node.output else 0
        source = kinds.get(node.input[0], 0) if node.input else 0
        nodes += _held(node, kind, source) if kind in _HELD else [node]
    del model.graph.node[:], model.graph.value_info[:]
    model.graph.node.extend(nodes)
    for info in infos:
        kind = info.type.tensor_type.elem_type
        info.type.tensor_type.elem_type = _HELD.get(kind, (kind,))[0]


def _kinds(model: Any) -> dict[str, int]:
    """Return the element types of the values of a model, as far as they are known."""
    inferred = infer(model).graph
    infos = (*inferred.input, *inferred.value_info, *inferred.output)
    tensors = {tensor.name: tensor.data_type for tensor in inferred.initializer}
    return {info.name: info.type.tensor_type.elem_type for info in infos} | tensors


def _held(node: Any, kind: int, source: int) -> list[Any]:
    """Return the nodes with which a result has 8 bits, within the range of its own.

    source: the type of what is cast: onnxruntime rounds real numbers, halves away from zero.
    """
    wide, least, greatest = _HELD[kind]
    name = node.output[0]

    def constant(value: float, what: str, dtype: Any) -> Any:
        array = numpy_helper.from_array(np.array(value, dtype), f"{name}/{what}")
        return helper.make_node("Constant", [], [f"{name}/{what}"], value=array)

    def step(operator: str, operands: list[str], what: str, **attributes: Any) -> Any:
        made = f"{name}/{what}" if what else name
        label = node.name or node.op_type
        return helper.make_node(
            operator, [f"{name}/{one}" for one in operands], [made], label, **attributes
        )

    if node.op_type in ("Cast", "CastLike"):
        label = node.name
        whole = helper.make_node("Cast", node.input[:1], [f"{name}/whole"], label, to=_INT32)
        nodes = [constant(greatest - least + 1, "size", np.int32), whole]
        if source in _REAL:
            whole.input[0] = f"{name}/rounded"
            nodes[1:1] = [
                constant(0.5, "half", np.float32),
                helper.make_node("Cast", node.input[:1], [f"{name}/real"], label, to=_FLOAT),
                *(step("Sign", ["real"], "sign"), step("Mul", ["sign", "half"], "away")),
                step("Add", ["real", "away"], "rounded"),
            ]
        nodes.append(step("Mod", ["whole", "size"], "wrapped"))
        if least:
            nodes += [
                constant(greatest, "greatest", np.int32),
                step("Sub", ["wrapped", "size"], "negative"),
                step("Greater", ["wrapped", "greatest"], "above"),
                step("Where", ["above", "negative", "wrapped"], "kept"),
            ]
        return [*nodes, step("Cast", ["kept" if least else "wrapped"], "", to=wide)]
    if node.op_type != "QuantizeLinear":
        return [node]
    dtype = helper.tensor_dtype_to_np_dtype(wide)
    node.output[0] = f"{name}/all"
    for attribute in node.attribute:
        if attribute.name == "output_dtype":
            attribute.i = wide
    before = []
    if len(node.input) > 2 and node.input[2]:
        before = [helper.make_node("Cast", node.input[2:3], [f"{name}/zero"], node.name, to=wide)]
        node.input[2] = f"{name}/zero"
    bounds = constant(least, "least", dtype), constant(greatest, "greatest", dtype)
    return [*before, node, *bounds, step("Clip", ["all", "least", "greatest"], "")]
