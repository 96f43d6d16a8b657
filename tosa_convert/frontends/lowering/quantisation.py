"""Quantised tensors, scale * (integer - zero point), where scales and zero points broadcast."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import ml_dtypes
import numpy as np

from tosa_convert.frontends.lowering import movement
from tosa_convert.frontends.lowering.arithmetic import clip, divided
from tosa_convert.frontends.lowering.conversion import converted
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant, whole_data
from tosa_convert.frontends.lowering.types import (
    FLOAT32,
    INT32,
    carrier,
    is_float,
    is_small,
    is_unsigned,
)

_INT8: Final = np.dtype(np.int8)
_INT16: Final = np.dtype(np.int16)
_BYTES: Final = (_INT8, np.dtype(np.uint8))
#: Numbers beyond this are outside of all types that are quantised to, with any zero point.
_FAR: Final = float(1 << 18)


def limits(dtype: Any) -> tuple[int, int]:
    """Return the least and the greatest of integers of 2 bits and more.

    Example:
        >>> limits("uint8"), limits(ml_dtypes.int4)
        ((0, 255), (-8, 7))
    """
    found: Any = ml_dtypes.iinfo(np.dtype(dtype))  # type: ignore[no-untyped-call]
    return int(found.min), int(found.max)


def rescaled(s: Scope, a: Array, dtype: Any, given: int = 0, zero: int = 0) -> Array:
    """Return integers less their zero point `given`, plus the zero point `zero`, saturated: RESCALE."""
    source, target = carrier(a.dtype), carrier(dtype)
    made = s.builder.rescale(
        s.value(a),
        np.array([1 << 30], np.int32),
        np.array([30], np.int8),
        np.array([given], np.int64).astype(source),
        np.array([zero], np.int64).astype(target),
        scale32=True,
        rounding_mode="SINGLE_ROUND",
        per_channel=False,
        input_unsigned=is_unsigned(a.dtype),
        output_unsigned=is_unsigned(dtype),
        dtype=target,
    )
    return Array(np.dtype(dtype), a.shape, None, made)


def dequantized(s: Scope, x: Array, scale: Array, zero: Array | None) -> Array:
    """Return scale * (x - zero) in FP32."""
    factor = converted(s, scale, FLOAT32)
    return s.mul(centred(s, x, zero), _ranked(factor, x))


def centred(s: Scope, x: Array, zero: Array | None) -> Array:
    """Return x - zero in FP32; the difference is exact for integers of up to 16 bits."""
    number = 0 if zero is None or is_float(x.dtype) else _common(zero)
    if x.data is not None and (zero is None or zero.data is not None):
        # FP32 holds all of 16 bits, and is smaller than INT64.
        kind = FLOAT32 if is_float(x.dtype) or x.dtype.itemsize < 4 else np.dtype(np.int64)
        wide = x.data.astype(kind)
        if zero is not None and number != 0:
            other = _ranked(zero, x).data
            assert other is not None
            wide = wide - other.astype(kind)
        return Array(FLOAT32, x.shape, wide.astype(np.float32, copy=False))
    if x.dtype == np.uint8:
        # RESCALE takes the zero point, and a tensor without one as well.
        real = s.cast(rescaled(s, x, _INT16, given=number or 0), FLOAT32)
        if number is not None:
            return real
    elif x.dtype == INT32 and number:
        return s.cast(s.sub(x, number), FLOAT32)
    else:
        real = s.cast(s.widened(x) if is_unsigned(x.dtype) else x, FLOAT32)
    if number == 0 or zero is None:
        return real
    return s.sub(real, converted(s, _ranked(zero, x), FLOAT32))


def quantized(s: Scope, x: Array, scale: Array, zero: Array | None, dtype: Any) -> Array:
    """Return the nearest integers to x / scale, halves to even, plus zero, saturated."""
    if np.dtype(dtype).kind not in "iu" and carrier(dtype) != _INT8:
        raise NotLowered(f"TOSA does not quantise to {np.dtype(dtype)}")
    wide, factor = unmoved(converted(s, x, FLOAT32)), converted(s, scale, FLOAT32)
    if factor.data is not None:
        by = _ranked(factor, x)
        if wide.data is None:
            return rounded(s, divided(s, wide, by), zero, dtype)
        with np.errstate(all="ignore"):
            return rounded(s, constant(np.asarray(wide.data / by.data)), zero, dtype)
    if factor.rank < x.rank:
        factor = movement.reshape(s, factor, (1,) * (x.rank - factor.rank) + factor.shape)
    return rounded(s, divided_once(s, wide, factor), zero, dtype)


def unmoved(x: Array) -> Array:
    """Return an array whose RESHAPE stays in its place: operators that quantise stay together.

    The rewrite `integers` recognises them so, and makes the RESHAPE one of integers.
    """
    return replace(x, origin=None) if x.origin and x.origin[0] == "reshaped" else x


def rounded(s: Scope, real: Array, zero: Array | None, dtype: Any) -> Array:
    """Return the nearest integers to numbers of FP32, halves to even, plus zero, saturated."""
    kind = np.dtype(dtype)
    low, high = limits(kind)
    number = 0 if zero is None else _common(zero)
    if number is None:
        assert zero is not None
        whole = s.cast(clip(s, real, -_FAR, _FAR), INT32)
        moved = s.add(whole, converted(s, _ranked(zero, real), INT32))
        return _as(s, s.minimum(s.maximum(moved, low), high), kind)
    if real.data is not None:
        whole_numbers = np.clip(np.rint(real.data.astype(np.float64)) + number, low, high)
        return Array(kind, real.shape, whole_numbers.astype(kind))
    if kind in (_INT8, _INT16) and number == 0:
        return s.cast(real, kind)  # CAST rounds and saturates so.
    if kind in _BYTES:
        return rescaled(s, s.cast(real, _INT16), kind, zero=number)
    within = clip(s, real, float(low - number), float(high - number))
    if number == 0 and kind.itemsize == 1:
        return _as(s, s.cast(within, _INT8), kind)
    whole = s.cast(within, INT32)
    return _as(s, s.add(whole, number) if number else whole, kind)


def quantized_fp8(s: Scope, real: Array, dtype: Any, saturates: bool = True) -> Array:
    """Return numbers in an FP8 type; those beyond its greatest become that, or what CAST makes."""
    if saturates:
        most = float(ml_dtypes.finfo(np.dtype(dtype)).max)  # type: ignore[no-untyped-call]
        real = clip(s, real, -most, most)
    elif np.dtype(dtype) == ml_dtypes.float8_e5m2:
        raise NotLowered("beyond its range FP8 becomes NaN, and infinity in TOSA", "saturate")
    return s.cast(real, dtype)


def divided_once(s: Scope, x: Array, y: Array) -> Array:
    """Divide with IEEE 754 rounding; TOSA divides by a reciprocal, which rounds twice.

    The remainder of the first quotient is computed without an error, from the halves of both factors.
    """
    if y.data is None:
        inverse = s.elementwise("reciprocal", y)
    else:
        inverse = constant(np.asarray(1 / y.data, y.dtype))
    q = s.mul(x, inverse)
    made = s.mul(q, y)
    (q_high, q_low), (y_high, y_low) = _halves(s, q), _halves(s, y)
    error = s.sub(s.mul(q_high, y_high), made)
    for left, right in ((q_high, y_low), (q_low, y_high), (q_low, y_low)):
        error = s.add(error, s.mul(left, right))
    remainder = s.sub(s.sub(x, made), error)
    return s.add(q, s.mul(remainder, inverse))


def _halves(s: Scope, x: Array) -> tuple[Array, Array]:
    """Split x into two values of 12 bits whose sum is x (Veltkamp's splitting)."""
    scaled = s.mul(x, 4097)
    high = s.sub(scaled, s.sub(scaled, x))
    return high, s.sub(x, high)


def _common(zero: Array) -> int | None:
    """Return the zero point if it is known and everywhere the same."""
    if zero.data is None:
        return None
    numbers = np.unique(whole_data(zero).astype(np.int64))
    return int(numbers[0]) if len(numbers) == 1 else None


def _ranked(a: Array, like: Array) -> Array:
    """Give a number of one element the rank of a tensor."""
    if a.size == 1 and a.data is not None:
        return Array(a.dtype, (1,) * like.rank, a.data.reshape((1,) * like.rank))
    return a


def _as(s: Scope, a: Array, dtype: np.dtype[Any]) -> Array:
    """Return integers that fit a type in it."""
    if a.data is not None or is_small(dtype):
        return s.narrowed(a, dtype)
    held = carrier(dtype)
    return Array(dtype, a.shape, None, s.value(s.cast(a, held)))
