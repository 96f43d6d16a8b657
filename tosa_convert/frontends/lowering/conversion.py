"""Conversions between element types. JAX rounds to 0 where TOSA's CAST rounds to nearest.

TOSA has no CAST between INT64 and floating point: halves of 32 bits are converted, unless INT64 becomes
INT32 afterwards.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import folding
from tosa_convert.frontends.lowering.arithmetic import (
    float_to_uint32,
    float_to_uint64,
    truncated,
    uint32_to_float,
    uint64_to_float,
)
from tosa_convert.frontends.lowering.limits import known_limits
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope
from tosa_convert.frontends.lowering.types import (
    BOOL,
    FLOAT32,
    INT32,
    INT64,
    carrier,
    is_float,
    is_small,
    is_unsigned,
)

#: Types of 64 bits -> those that they become if a program is narrowed.
_HALF: Final = {INT64: INT32, np.dtype(np.uint64): np.dtype(np.uint32)}
#: Pairs of types without a direct CAST.
_HALVES: Final = ("float16", "bfloat16")
#: The greatest number of FP32 below 2^32.
_MOST_UINT32: Final = 4294967040.0


def converted(s: Scope, a: Array, dtype: Any) -> Array:
    """Convert an array to another element type, as JAX does."""
    source, target = a.dtype, np.dtype(dtype)
    if source == target:
        return a
    if source == BOOL:
        return _from_bool(s, a, target)
    if target == BOOL:
        if is_float(source):
            return s.negation(s.equal(a, 0))
        return s.cast(s.viewed(a, carrier(source)), BOOL)
    if is_float(source):
        return _float_to_float(s, a, target) if is_float(target) else _to_integer(s, a, target)
    return _to_float(s, a, target) if is_float(target) else _integer_to_integer(s, a, target)


def _from_bool(s: Scope, a: Array, target: np.dtype[Any]) -> Array:
    if is_float(target):
        numbers = s.aligned([a, Array(target, (), np.ones((), target))])
        zero = Array(target, numbers[1].shape, np.zeros(numbers[1].shape, target))
        return s.select(a, numbers[1], zero)
    kind = carrier(target)
    if kind == INT64:
        return s.viewed(s.cast(s.cast(a, INT32), kind), target)
    return s.viewed(s.cast(a, kind), target)


def _float_to_float(s: Scope, a: Array, target: np.dtype[Any]) -> Array:
    if str(a.dtype) in _HALVES and str(target) in _HALVES:
        return s.cast(s.cast(a, FLOAT32), target)
    return s.cast(a, target)


def _to_integer(s: Scope, a: Array, target: np.dtype[Any]) -> Array:
    """Round towards zero; numbers beyond the range become the nearest one in it."""
    if a.data is not None:
        with np.errstate(all="ignore"):
            data = folding.to_integers(np.trunc(a.data.astype(np.float64)), target)
        return Array(target, a.shape, data)
    whole = truncated(s, a)
    if target.itemsize == 8:
        return _to_64_bits(s, s.cast(whole, FLOAT32), target)
    if not is_unsigned(target):
        return s.cast(whole, target)
    if target.itemsize == 4:
        wide = s.cast(whole, FLOAT32)
        made = float_to_uint32(s, s.minimum(s.maximum(wide, 0.0), _MOST_UINT32))
        highest = Array(target, (), np.array(2**32 - 1, target))
        return s.viewed(
            s.select(
                s.greater(wide, _MOST_UINT32), s.viewed(highest, INT32), s.viewed(made, INT32)
            ),
            target,
        )
    wide = s.cast(whole, FLOAT32)
    within = s.minimum(s.maximum(wide, 0.0), float(np.iinfo(target).max))
    return s.narrowed(s.cast(within, INT32), target)


def _to_64_bits(s: Scope, whole: Array, target: np.dtype[Any]) -> Array:
    """Convert whole numbers in FP32; those beyond the range become the nearest one in it."""
    if s.narrows:
        return s.viewed(s.cast(_to_integer(s, whole, _HALF[target]), INT64), target)
    limits = np.iinfo(target)
    size = whole if is_unsigned(target) else s.elementwise("abs", whole)
    is_above = s.greater_equal(size, float(limits.max))
    inside = s.select(s.either(is_above, s.greater(0, size)), 0, size)
    bits = float_to_uint64(s, inside)
    if is_unsigned(target):
        return s.viewed(s.select(is_above, -1, bits), target)
    bits = s.select(is_above, int(limits.max), bits)
    least = s.select(s.equal(bits, int(limits.max)), int(limits.min), s.sub(0, bits))
    return s.select(s.greater(0, whole), least, bits)


def _from_64_bits(s: Scope, a: Array, target: np.dtype[Any]) -> Array:
    if is_unsigned(a.dtype):
        return uint64_to_float(s, a, target)
    # The least integer has no positive counterpart; the next one is the same in floating point.
    size = s.elementwise("abs", s.maximum(a, int(np.iinfo(a.dtype).min) + 1))
    made = uint64_to_float(s, s.viewed(size, np.uint64), target)
    return s.select(s.greater(0, a), s.elementwise("negate", made), made)


def _to_float(s: Scope, a: Array, target: np.dtype[Any]) -> Array:
    if a.data is not None:
        return Array(target, a.shape, a.data.astype(target))
    if a.dtype.itemsize == 8:
        if s.narrows or _fits_int32(a):
            return _to_float(s, s.viewed(s.cast(s.viewed(a, INT64), INT32), _HALF[a.dtype]), target)
        return _from_64_bits(s, a, target)
    if a.dtype == np.uint32:
        return uint32_to_float(s, a, target)
    if is_unsigned(a.dtype):
        return s.cast(s.widened(a), target)
    return s.cast(a, target)


def _fits_int32(a: Array) -> bool:
    low, high = known_limits(a)
    limits = np.iinfo(np.int32)
    return bool(limits.min <= low and high <= limits.max)


def _integer_to_integer(s: Scope, a: Array, target: np.dtype[Any]) -> Array:
    if a.data is not None:
        return Array(target, a.shape, a.data.astype(target))
    if a.dtype.itemsize == target.itemsize:
        return s.viewed(a, target)
    if a.dtype.itemsize == 8:
        return s.narrowed(s.cast(s.viewed(a, INT64), INT32), target)
    wide = s.widened(a) if is_small(a.dtype) else s.viewed(a, INT32)
    if target.itemsize < 8:
        return s.narrowed(wide, target)
    made = s.cast(wide, INT64)
    if a.dtype == np.uint32 and not s.narrows:
        made = s.elementwise("bitwise_and", made, 0xFFFFFFFF)
    return s.viewed(made, target)


def bitcast(s: Scope, a: Array, dtype: Any) -> Array:
    """Return the same bits as another element type."""
    kind = np.dtype(dtype)
    if is_float(a.dtype) != is_float(kind) or a.dtype.itemsize != kind.itemsize:
        reason = f"TOSA does not reinterpret the bits of {a.dtype} as {kind}"
        raise NotLowered(reason, "compute with one of the two types")
    return s.viewed(a, kind)


def reduce_precision(s: Scope, a: Array, exponent_bits: int, mantissa_bits: int) -> Array:
    """Round to the numbers of a narrower type."""
    formats = {(8, 7): "bfloat16", (5, 10): "float16", (8, 23): "float32"}
    name = formats.get((exponent_bits, mantissa_bits))
    if name is None:
        bits = f"{exponent_bits} bits of exponent and {mantissa_bits} of mantissa"
        raise NotLowered(f"TOSA does not round to {bits}", "round to bfloat16 or float16")
    if name in ("float32", str(a.dtype)):
        return a
    made = converted(s, converted(s, a, carrier(name)), a.dtype)
    if name == "bfloat16":
        return made
    is_subnormal = s.greater(2.0**-14, s.elementwise("abs", made))  # XLA makes them 0.
    return s.select(is_subnormal, s.mul(made, 0), made)
