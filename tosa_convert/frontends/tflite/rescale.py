"""RESCALE as TFLite's kernels multiply integers by quotients, and tables of integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tosa_convert.frontends.lowering import movement
from tosa_convert.frontends.lowering.scope import Array, Scope
from tosa_convert.frontends.lowering.types import INT32, carrier
from tosa_convert.frontends.tflite.scales import Scale, rescale_of

Integers = npt.NDArray[np.int64]

#: Multiplies by 1.
ONE: Final[Scale] = (1 << 30, 30)
#: Up to this shift RESCALE rounds once in either way.
_MOST_ONCE: Final = 31
#: As far to the left RESCALE does not shift numbers of 16 bits.
_MOST_LEFT: Final = 15
#: As many operands as `shifted` and its callers try to find out whether fewer operators do.
_BYTES: Final = 256


def rescaled(
    s: Scope,
    x: Array,
    scales: Scale | Sequence[Scale],
    dtype: Any,
    given: int = 0,
    zero: int = 0,
    is_once: bool = False,
    is_narrow: bool = False,
) -> Array:
    """Multiply integers less their zero point `given`; add the zero point `zero`, and saturate.

    scales: of all elements, or of each element of the last axis. is_once: they are rounded once, not to
    31 bits first. is_narrow: sums of 48 bits are multiplied by 16 bits.
    """
    rows = [scales] if isinstance(scales[0], int) else list(scales)
    target = np.dtype(dtype)
    if rows == [ONE] and given == zero and x.dtype == target:
        return x
    multipliers, shifts = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    if x.data is not None and not is_narrow:
        limits = np.iinfo(target)
        wide = multiplied(x.data.astype(np.int64) - given, multipliers, shifts, is_once) + zero
        held = np.clip(wide, limits.min, limits.max).astype(target)
        return Array(target, x.shape, held if x.rank else held.reshape(()))
    zeros: dict[str, Any] = {}
    if given:
        zeros["input_zp"] = np.array([given], x.dtype)
    if zero:
        zeros["output_zp"] = np.array([zero], target)
    is_single = is_once or is_narrow or shifts.max() <= _MOST_ONCE
    made = s.builder.rescale(
        s.value(x),
        multipliers.astype(np.int16 if is_narrow else np.int32),
        shifts.astype(np.int8),
        scale32=not is_narrow,
        rounding_mode="SINGLE_ROUND" if is_single else "DOUBLE_ROUND",
        per_channel=len(rows) > 1,
        dtype=carrier(target),
        **zeros,
    )
    return Array(target, x.shape, None, made)


def multiplied(x: Integers, multiplier: Any, shift: Any, is_once: bool = False) -> Integers:
    """Multiply integers as RESCALE does.

    Example:
        >>> multiplied(np.array([5, -5, 6]), 1 << 30, 31).tolist()
        [3, -2, 3]
    """
    half = np.int64(1) << (np.asarray(shift, np.int64) - 1)
    if not is_once:
        half = half + np.sign(x) * (np.asarray(shift) > 31) * (1 << 30)
    found: Integers = (x * multiplier + half) >> shift
    return found


def shifted(s: Scope, x: Array, zero: int, left: int, scale: float, is_near: bool = False) -> Array:
    """Return (x - zero) << left times a scale below 1, as INT32. is_near: rounding once will do."""
    multiplier, shift = rescale_of(scale)
    if is_near or _is_same(x.dtype, zero, left, (multiplier, shift)):
        return rescaled(s, x, (multiplier, shift - left), INT32, given=zero)
    if x.dtype == np.int8 or left < _MOST_LEFT:
        wide = rescaled(s, x, (1 << 30, 30 - left), INT32, given=zero)
    else:
        wide = rescaled(s, x, ONE, INT32, given=zero)
        wide = s.elementwise("logical_left_shift", wide, left)
    return rescaled(s, wide, (multiplier, shift), INT32)


def every(dtype: Any, zero: int = 0) -> Integers:
    """Return all integers of 8 or 16 bits, from the lowest, less a zero point."""
    limits = np.iinfo(dtype)
    return np.arange(limits.min, limits.max + 1, dtype=np.int64) - zero


def _is_same(dtype: Any, zero: int, left: int, scale: Scale) -> bool:
    """Return whether one RESCALE gives what two give, for all integers of a type."""
    x = every(dtype, zero)
    once = multiplied(x, scale[0], scale[1] - left)
    return bool(np.array_equal(once, multiplied(x << left, *scale)))


def is_near_sum(
    dtype: Any,
    zeros: tuple[int, int],
    left: int,
    scales: tuple[float, float],
    result: Scale,
    sign: int,
) -> bool:
    """Return whether sums of operands rounded once equal those rounded twice: all pairs are tried."""
    x, y = (every(dtype, zero) for zero in zeros)
    if len(x) > _BYTES:
        return False
    found = []
    for is_once in (True, False):
        parts = []
        for number, scale in ((x, scales[0]), (y, scales[1])):
            multiplier, shift = rescale_of(scale)
            if is_once:
                parts.append(multiplied(number, multiplier, shift - left))
            else:
                parts.append(multiplied(number << left, multiplier, shift))
        total = parts[0][:, None] + sign * parts[1][None]
        found.append(multiplied(total, *result))
    return bool(np.array_equal(found[0], found[1]))


def gathered(s: Scope, index: Array, table: Array) -> Array:
    rows = movement.reshape(s, table, (1, table.size, 1))
    flat = movement.reshape(s, index, (1, index.size))
    found = s.array(s.builder.gather(s.whole(rows), s.whole(flat)), table.dtype)
    return movement.reshape(s, found, index.shape)
