"""Casts between element types, as onnxruntime makes them."""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np
from onnx import TensorProto

from tosa_convert.frontends.lowering.arithmetic import float_to_uint32, truncated
from tosa_convert.frontends.lowering.conversion import bitcast, converted
from tosa_convert.frontends.lowering.quantization import limits, quantized_fp8
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant, whole_data
from tosa_convert.frontends.lowering.types import BOOL, FLOAT32, INT32, is_float, is_small
from tosa_convert.frontends.onnx.node import Node, Rule

FP8: Final = (np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2))
#: Types of 2 and 4 bits, and ONNX's numbers of them; those of 2 bits are of onnx 1.20.
_FEW: Final = {np.dtype(getattr(ml_dtypes, name)) for name in ("int2", "int4", "uint2", "uint4")}
_FEW_NUMBERS: Final = {
    getattr(TensorProto, name)
    for name in ("INT2", "INT4", "UINT2", "UINT4")
    if hasattr(TensorProto, name)
}


def held_in_bytes(model: Any) -> list[str]:
    """Return remarks on the inputs and outputs of such integers."""
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [info for info in model.graph.input if info.name not in constants]
    return [
        f"{info.name} has 8 bits, since TOSA's CAST takes no integers of fewer"
        for info in (*inputs, *model.graph.output)
        if info.type.tensor_type.elem_type in _FEW_NUMBERS
    ]


def cast(s: Scope, a: Array, dtype: Any, *, saturates: bool = True) -> Array:
    """Convert an array; real numbers lose their fractions, and integers their high bits."""
    target = np.dtype(dtype)
    if a.dtype == target:
        return a
    if target.kind in "OSU" or np.dtype(a.dtype).kind in "OSU":
        raise NotLowered("TOSA has tensors of numbers only, not text")
    if target in _FEW or a.dtype in _FEW:
        return _few_bits(s, a, target)
    if target in FP8:
        real = a if is_float(a.dtype) and a.dtype not in FP8 else converted(s, a, FLOAT32)
        return quantized_fp8(s, real, target, saturates)
    if a.dtype in FP8 and not is_float(target):
        return cast(s, converted(s, a, FLOAT32), target)
    if is_float(a.dtype) and is_small(target) and target != BOOL:
        # By INT32: its low bits are what onnxruntime keeps.
        return s.narrowed(s.cast(truncated(s, a), INT32), target)
    if is_float(a.dtype) and target == np.uint32:
        wide = s.maximum(converted(s, a, FLOAT32), 0.0)
        return float_to_uint32(s, s.elementwise("floor", wide))
    return converted(s, a, target)


def _few_bits(s: Scope, a: Array, dtype: Any) -> Array:
    """Convert from or to a type of few bits, which 8 bits hold: TOSA's CAST takes none of fewer.

    onnxruntime rounds real numbers, halves away from zero, and keeps the lowest bits of integers.
    """
    target = np.dtype(dtype)
    if a.dtype in _FEW:
        if a.data is not None:
            wide = constant(whole_data(a).astype(np.int8))
        else:
            wide = Array(np.dtype(np.int8), a.shape, None, a.value)
        return _few_bits(s, wide, target) if target in _FEW else converted(s, wide, target)
    if is_float(a.dtype):
        real = converted(s, a, FLOAT32)
        away = s.select(s.greater(0, real), -0.5, 0.5, FLOAT32)
        whole = converted(s, s.add(real, away), INT32)
    else:
        whole = converted(s, a, INT32)
    least, greatest = limits(target)
    size = greatest - least + 1
    wrapped = s.elementwise("bitwise_and", whole, size - 1)
    if least:
        wrapped = s.sub(s.elementwise("bitwise_xor", wrapped, size // 2), size // 2)
    if wrapped.data is not None:
        return Array(target, a.shape, wrapped.data.astype(target))
    return Array(target, a.shape, None, s.value(s.cast(wrapped, np.int8)))


def _cast(n: Node) -> Array:
    target = n.array(1).dtype if n.kind == "CastLike" else n.walk.dtype(int(n.get("to")))
    return cast(n.scope, n.array(0), target, saturates=bool(n.get("saturate", 1)))


def _bit_cast(n: Node) -> Array:
    target = n.walk.dtype(int(n.get("to")))
    a = n.array(0)
    if np.dtype(a.dtype).itemsize != target.itemsize:
        raise NotLowered(f"{a.dtype} and {target} do not have the same number of bits")
    if a.data is not None:
        return Array(target, a.shape, a.data.view(target))
    if a.dtype == BOOL:
        return converted(n.scope, a, target)
    if target == BOOL:
        raise NotLowered("TOSA does not reinterpret the bits of numbers as truth values")
    return bitcast(n.scope, a, target)


RULES: Final[dict[str, Rule]] = {"BitCast": _bit_cast, "Cast": _cast, "CastLike": _cast}
