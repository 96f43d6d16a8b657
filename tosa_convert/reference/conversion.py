"""Operators that change the scale or the type of values."""

from __future__ import annotations

import sys
from typing import Any, Final

import numpy as np

from tosa_convert.graph.dtypes import RoundingMode
from tosa_convert.reference.call import (
    Array,
    Call,
    Operation,
    UndefinedResult,
    integer_limits,
    refuse_undefined,
)
from tosa_convert.reference.parts import PART, affordable, slices, steps

#: With DOUBLE_ROUND, shifts of more bits than this round a second time.
_DOUBLE_ROUNDED: Final = 31
#: Shifts that RESCALE has.
_LEAST_SHIFT, _MOST_SHIFT = 2, 62
#: Bits of the lower half of an INT64, and the position of the upper one.
_UPPER_BITS: Final = 32
_UPPER: Final = int(sys.byteorder == "little")
#: Bytes that a value is rescaled in, or less, and with the numbers of its channel.
_VALUE_BYTES, _CHANNEL_BYTES = 28, 72


def cast(call: Call) -> Array:
    """Return the values in another element type.

    Floating point becomes the nearest integer, ties to even, and saturates; NaN becomes 0. Integers
    that do not fit lose their upper bits. Numbers become BOOL by comparison with 0.
    """
    value, target = call.raw("input"), call.result.dtype
    assert target is not None
    if target.name == "BOOL":
        return np.not_equal(value, 0)
    if value.dtype.kind == "b":
        return value.astype(np.int8)
    if call.is_integer:
        # FP64 holds integers of 32 bits, so that they are rounded once.
        return value.astype(np.float64) if target.is_float and value.itemsize > 2 else value
    if target.is_float:
        return call.value("input")
    low, high = integer_limits(target)
    # FP32 holds the limits of 16 bits, and FP64 those of 32.
    kind = np.float32 if target.bits <= 16 and call.precision == "own" else np.float64
    rounded: Any = value.astype(kind)
    np.rint(rounded, out=rounded)
    np.clip(rounded, low, high, out=rounded)
    is_nan = np.isnan(rounded)
    if is_nan.any():
        rounded[is_nan] = 0
    if target.bits <= 32:
        return np.asarray(rounded, np.int32)
    # FP64 cannot hold the greatest INT64.
    result: Array = np.where(rounded >= high, high, 0)
    inside = rounded < high
    result[inside] = rounded[inside].astype(np.int64)
    return result


def rescale(call: Call) -> Array:
    """Return round((input - input_zp) * multiplier / 2^shift) + output_zp, saturated.

    With `per_channel` the last axis has a multiplier and a shift for each element. Rounding is half up;
    with DOUBLE_ROUND, a shift of more than 31 bits first rounds away from zero at bit 30. An
    implementation of INEXACT_ROUND may scale with an error of 2^-22 of the value. Shifts are from 2 to
    62; with `scale32` a value has at most as many bits as the shift, and without, the scaled value has
    32.
    """
    attributes = call.attributes
    array = _with_sign(call.raw("input"), is_unsigned=attributes["input_unsigned"])
    shape = call.raw("input").shape
    array = array if array.ndim else array.reshape(1)
    assert call.result.dtype is not None
    result = np.empty(array.shape, call.result.dtype.numpy)
    has_channels = bool(attributes["per_channel"])
    size = affordable(call, _CHANNEL_BYTES if has_channels else _VALUE_BYTES, PART)
    refused: UndefinedResult | None = None
    wrong: Array | None = None
    # Channels are rescaled in groups if they are very many.
    for channels in steps(array.shape[-1], size if has_channels else array.shape[-1]):
        source, rescaled = array[..., channels], result[..., channels]
        scale = _Scale(call, array.dtype, channels)
        memory = np.empty(min(source.size, size), np.int64)
        scale.repeat(memory.size)
        for part in slices(source.shape, size, whole=int(has_channels)):
            target = rescaled[part]
            value = memory[: target.size]
            np.copyto(value.reshape(target.shape), source[part])
            try:
                found = scale.apply(value).reshape(target.shape)
            except UndefinedResult as error:
                refused = error
                wrong = np.zeros(array.shape, np.bool_) if wrong is None else wrong
                wrong[..., channels][part] = error.wrong.reshape(target.shape)
            else:
                np.copyto(target, found, casting="unsafe")
    if refused is not None:
        refused.wrong = np.asarray(wrong).reshape(shape)
        raise refused
    return result.reshape(shape)


class _Scale:
    """The numbers of a RESCALE, and what its values are."""

    def __init__(self, call: Call, kind: np.dtype[Any], channels: slice) -> None:
        """Read the operands. kind: the type of the values. channels: those that they are of."""
        attributes = call.attributes
        self.call, self.is_short = call, bool(attributes["scale32"])
        self.point, self.output_point = (
            int(_with_sign(call.raw(name), is_unsigned=attributes[unsigned]).reshape(-1)[0])
            for name, unsigned in (
                ("input_zp", "input_unsigned"),
                ("output_zp", "output_unsigned"),
            )
        )
        part = channels if attributes["per_channel"] else slice(1)
        multiplier, shift = (
            call.raw(name).reshape(-1)[part].astype(np.int64) for name in ("multiplier", "shift")
        )
        wrong = (multiplier < 0) | (shift < _LEAST_SHIFT) | (shift > _MOST_SHIFT)
        refuse_undefined(call, wrong, "a negative multiplier, or a shift that is not from 2 to 62")
        self.multiplier, self.shift, self.half = multiplier, shift, np.int64(1) << (shift - 1)
        limits = np.iinfo(kind)
        least, greatest = limits.min - self.point, limits.max - self.point
        half = int(self.half.min(initial=1 << _MOST_SHIFT))
        self.may_exceed_shift = self.is_short and not -half <= least <= greatest < half
        is_double = attributes["rounding_mode"] == RoundingMode.DOUBLE_ROUND and self.is_short
        self.more = np.where((shift > _DOUBLE_ROUNDED) & is_double, np.int64(1) << 30, 0)
        self.is_double = bool(self.more.any())
        # Then half has no lower bits, so that it can be added to the upper bits of a product alone.
        self.is_upper = bool((shift > _UPPER_BITS).all())
        if self.is_upper:
            self.half_above = (self.half >> _UPPER_BITS).astype(np.int32)
            self.shift_above = (shift - _UPPER_BITS).astype(np.int32)
        low, high = integer_limits(call.result.dtype)
        if attributes["output_unsigned"]:
            low, high = 0, high - low
        bounds = np.iinfo(np.int32)
        self.low = max(low - self.output_point, bounds.min)
        self.high = min(high - self.output_point, bounds.max)
        self.saturates = self.low > bounds.min or self.high < bounds.max

    def repeat(self, size: int) -> None:
        """Repeat the numbers of the channels for so many values: numpy computes faster on long lines."""
        count = len(self.multiplier)
        if count <= 1:
            return
        names = ["multiplier", "shift", "half", "more"]
        for name in [*names, *(["half_above", "shift_above"] if self.is_upper else [])]:
            setattr(self, name, np.tile(getattr(self, name), size // count))

    def apply(self, value: Array) -> Array:
        """Return INT32 for values in INT64, which are whole channels; they are lost."""
        if self.point:
            value -= self.point
        if self.may_exceed_shift:
            half = self._for(self.half, value)
            wrong = (value < -half) | (value >= half)
            refuse_undefined(self.call, wrong, "a value that has more bits than the shift")
        sign = (value >> 63) | 1 if self.is_double else None
        product = np.multiply(value, self._for(self.multiplier, value), out=value)
        if sign is not None:
            product += np.multiply(sign, self._for(self.more, value), out=sign)
        if self.is_upper:
            # Faster than shifts of 64 bits.
            scaled: Array = product.view(np.int32)[_UPPER::2] + self._for(self.half_above, value)
            scaled >>= self._for(self.shift_above, value)
        else:
            product += self._for(self.half, value)
            product >>= self._for(self.shift, value)
            if not self.is_short:
                wrong = (product < -(1 << 31)) | (product >= 1 << 31)
                refuse_undefined(self.call, wrong, "a scaled value of more than 32 bits")
            scaled = product.astype(np.int32)
        if self.saturates:
            np.clip(scaled, self.low, self.high, out=scaled)
        if self.output_point:
            scaled += np.int32(self.output_point)
        return scaled

    def _for(self, numbers: Array, value: Array) -> Array:
        return numbers[: len(value)] if len(numbers) > 1 else numbers


def _with_sign(array: Array, *, is_unsigned: bool) -> Array:
    """Return integers of numpy's own types, whose bits are those of unsigned ones with `is_unsigned`."""
    if is_unsigned:
        return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
    return array if array.dtype.kind == "i" else array.astype(np.int8)


def look_up(call: Call) -> Array:
    """Return the entries of a table.

    INT8: entry input + 128. INT16: the upper 9 bits choose an entry and the lower 7 interpolate to the
    next one; the result has 7 bits after the point.
    """
    table = call.raw("table")
    if table.size == 256:
        codes = np.asarray(call.raw("input1"), order="C").view(np.uint8)
        # Entries in the order of the codes of INT8: 0 to 127, then -128 to -1.
        found: Array = np.roll(table, 128).take(codes)
        return found
    value, table = call.value("input1"), call.value("table")
    index, fraction = (value >> 7) + 256, value & 0x7F
    base = table[index]
    slope = table[index + 1] - base
    wrong = (slope < -(1 << 15)) | (slope >= 1 << 15)
    refuse_undefined(call, wrong, "two entries that differ by more than 16 bits")
    result: Array = (base << 7) + slope * fraction
    return result


OPERATIONS: Final[dict[str, Operation]] = {
    "CAST": cast,
    "RESCALE": rescale,
    "TABLE": look_up,
}
