"""Casts to integers of 2 and 4 bits, which 8 bits hold: TOSA's CAST takes none of fewer."""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np
from onnx import TensorProto

from tosa_convert.frontends.lowering.conversion import converted
from tosa_convert.frontends.lowering.quantization import limits
from tosa_convert.frontends.lowering.scope import (
    FLOAT32,
    INT32,
    Array,
    Scope,
    constant,
    is_float,
    whole_data,
)

_INT8: Final = np.dtype(np.int8)
#: ONNX's numbers of these types; those of 2 bits are of onnx 1.20.
_NUMBERS: Final = {
    getattr(TensorProto, name)
    for name in ("INT2", "INT4", "UINT2", "UINT4")
    if hasattr(TensorProto, name)
}
_TYPES: Final = {np.dtype(getattr(ml_dtypes, name)) for name in ("int2", "int4", "uint2", "uint4")}


def held_in_bytes(model: Any) -> list[str]:
    """Return remarks on the inputs and outputs of such integers."""
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [info for info in model.graph.input if info.name not in constants]
    return [
        f"{info.name} has 8 bits, since TOSA's CAST takes no integers of fewer"
        for info in (*inputs, *model.graph.output)
        if info.type.tensor_type.elem_type in _NUMBERS
    ]


def is_few_bits(dtype: Any) -> bool:
    """Return whether a type has 2 or 4 bits."""
    return np.dtype(dtype) in _TYPES


def cast(s: Scope, a: Array, dtype: Any) -> Array:
    """Convert from or to a type of few bits.

    onnxruntime rounds real numbers, halves away from zero, and keeps the lowest bits of integers.
    """
    target = np.dtype(dtype)
    if is_few_bits(a.dtype):
        if a.data is not None:
            wide = constant(whole_data(a).astype(np.int8))
        else:
            wide = Array(_INT8, a.shape, None, a.value)
        return cast(s, wide, target) if is_few_bits(target) else converted(s, wide, target)
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
    return Array(target, a.shape, None, s.value(s.cast(wrapped, _INT8)))
