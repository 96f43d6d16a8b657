"""Casts between element types, as onnxruntime makes them."""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np

from tosa_convert.frontends.lowering.arithmetic import float_to_uint32, truncated
from tosa_convert.frontends.lowering.conversion import bitcast, converted
from tosa_convert.frontends.lowering.scope import (
    BOOL,
    FLOAT32,
    INT32,
    Array,
    NotLowered,
    Scope,
    is_float,
    is_small,
)
from tosa_convert.frontends.onnx.node import Node, Rule
from tosa_convert.frontends.onnx.rules import few_bits

#: Types of 8 bits -> their greatest number.
FP8: Final = {
    np.dtype(ml_dtypes.float8_e4m3fn): 448.0,
    np.dtype(ml_dtypes.float8_e5m2): 57344.0,
}
_TEXT: Final = np.dtype(object)


def cast(s: Scope, a: Array, dtype: Any, *, saturates: bool = True) -> Array:
    """Convert an array; real numbers lose their fractions, and integers their high bits."""
    target = np.dtype(dtype)
    if a.dtype == target:
        return a
    if target.kind in "OSU" or np.dtype(a.dtype).kind in "OSU":
        raise NotLowered("TOSA has tensors of numbers only, not text")
    if few_bits.is_few_bits(target) or few_bits.is_few_bits(a.dtype):
        return few_bits.cast(s, a, target)
    if target in FP8:
        return _to_fp8(s, a, target, saturates)
    if a.dtype in FP8 and not is_float(target):
        return cast(s, converted(s, a, FLOAT32), target)
    if is_float(a.dtype) and is_small(target) and target != BOOL:
        # By INT32: its low bits are what onnxruntime keeps.
        return s.narrowed(s.cast(truncated(s, a), INT32), target)
    if is_float(a.dtype) and target == np.uint32:
        wide = s.maximum(converted(s, a, FLOAT32), 0.0)
        return float_to_uint32(s, s.elementwise("floor", wide))
    return converted(s, a, target)


def _to_fp8(s: Scope, a: Array, target: Any, saturates: bool) -> Array:
    """Numbers beyond the greatest become that; else NaN, for which TOSA has infinity in E5M2."""
    if not is_float(a.dtype):
        a = converted(s, a, FLOAT32)
    if a.dtype in FP8:
        a = converted(s, a, FLOAT32)
    if saturates:
        a = s.minimum(s.maximum(a, -FP8[target]), FP8[target])
    elif target == np.dtype(ml_dtypes.float8_e5m2):
        raise NotLowered("onnxruntime rounds to NaN beyond its range, and TOSA to infinity")
    return converted(s, a, target)


def _cast(n: Node) -> Array:
    target = n.walk.dtype(int(n.get("to")))
    return cast(n.scope, n.array(0), target, saturates=bool(n.get("saturate", 1)))


def _cast_like(n: Node) -> Array:
    saturates = bool(n.get("saturate", 1))
    return cast(n.scope, n.array(0), n.array(1).dtype, saturates=saturates)


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


RULES: Final[dict[str, Rule]] = {"BitCast": _bit_cast, "Cast": _cast, "CastLike": _cast_like}
