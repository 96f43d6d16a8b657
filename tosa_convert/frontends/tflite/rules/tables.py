"""Functions of one quantised element: tables with a result for every integer.

TABLE looks up 8 bits. It interpolates 16 bits, which gives the numbers of TFLite only where TFLite
interpolates as well; other functions of 16 bits are looked up by GATHER.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tosa_convert.builder.rescale import fixed_point
from tosa_convert.frontends.lowering import arithmetic
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant
from tosa_convert.frontends.lowering.types import INT32
from tosa_convert.frontends.tflite.integer_functions import shifted_right
from tosa_convert.frontends.tflite.node import Node, Rule
from tosa_convert.frontends.tflite.rescale import (
    ONE,
    Integers,
    every,
    gathered,
    multiplied,
    rescaled,
)
from tosa_convert.frontends.tflite.rules import elementwise
from tosa_convert.frontends.tflite.rules.quantised import either, power_of_two, slopes_of
from tosa_convert.frontends.tflite.scales import narrowed, rescale_of, single

Floats = npt.NDArray[np.float64]

#: Intervals of a TABLE of int16, and the bits by which it is interpolated.
INTERVALS: Final = 512
FRACTION: Final = 7
_HALF: Final = 1 << 15
#: The root of 1/2 with 31 bits after the point.
HALF_ROOT: Final = round(math.sqrt(0.5) * (1 << 31))
#: Bits of fractions that the kernel of RSQRT keeps.
_KEPT: Final = 20


# -- tables ----------------------------------------------------------------------------------------


def looked_up(s: Scope, x: Array, table: Integers) -> Array:
    """Return the element of a table for each integer of 8 or 16 bits, from the lowest."""
    dtype = x.dtype
    entries = table.astype(dtype)
    if x.data is not None:
        return Array(dtype, x.shape, np.roll(entries, len(entries) // 2)[x.data])
    if dtype.itemsize == 1:
        return Array(dtype, x.shape, None, s.builder.table(s.value(x), entries))
    return gathered(s, s.add(s.cast(x, INT32), _HALF), constant(entries))


def interpolated(s: Scope, x: Array, table: Integers) -> Array:
    """Look up int16 as TFLite does: halves of the bits that are interpolated are rounded up."""
    value = s.builder.table(s.value(x), table.astype(np.int16))
    wide = Array(INT32, x.shape, None, value)
    return s.elementwise("arithmetic_right_shift", wide, FRACTION, round=True)


def within(dtype: Any, numbers: Integers) -> Integers:
    limits = np.iinfo(dtype)
    found: Integers = np.clip(numbers, limits.min, limits.max)
    return found


def rounded_away(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Round to integers, halves away from zero, as TFLite does."""
    whole = np.trunc(x)
    made: npt.NDArray[Any] = whole + np.sign(x) * (np.abs(x - whole) >= 0.5)
    return made


def interpolation_table(
    function: Callable[[Floats], Floats],
    low: float,
    high: float,
    result: tuple[float, float],
    kind: Any = np.float32,
) -> Integers:
    """Return a TABLE of int16 of a function, each entry moved by half of its interval's middle error.

    low, high: of the argument. result: the range. kind: the type in which TFLite computes.
    """
    first, last = (np.array([end], kind) for end in (low, high))
    step = (last - first) / kind(INTERVALS)
    factor = kind(2 * _HALF) / (kind(result[1]) - kind(result[0]))
    ends = first + np.arange(INTERVALS + 1).astype(kind) * step

    def scaled(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        with np.errstate(all="ignore"):
            return np.asarray(function(x.astype(np.float64)).astype(kind) * factor)

    samples = scaled(ends)
    whole = rounded_away(samples)
    middles = rounded_away(scaled(ends[:-1] + step / kind(2)))
    between = rounded_away((samples[1:] + whole[:-1]) / kind(2))
    moved = whole[:-1] - rounded_away((between - middles) / kind(2))
    numbers = np.concatenate([moved, rounded_away(scaled(last))])
    found: Integers = np.clip(numbers, -_HALF, _HALF - 1).astype(np.int64)
    return found


# -- functions of real numbers ---------------------------------------------------------------------


def _erf(x: Floats) -> Floats:
    return np.array([math.erf(one) for one in x.tolist()])


def _gelu(x: Floats) -> Floats:
    return np.asarray(0.5 * x * (1 + _erf(x / math.sqrt(2))))


def _gelu_tanh(x: Floats) -> Floats:
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


def _elu(x: Floats) -> Floats:
    return np.asarray(np.maximum(x, 0) + np.expm1(np.minimum(x, 0)))


def logistic(x: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-x)))


def real_table(n: Node, function: Callable[[Floats], Floats], index: int = 0) -> Integers:
    """Return the integers for a function of the numbers that 8 bits stand for."""
    x = n.array(index)
    numbers = (every(x.dtype, n.zero(index)) * np.float32(n.scale(index))).astype(np.float32)
    with np.errstate(all="ignore"):
        found = function(numbers.astype(np.float64)).astype(np.float32)
        steps = (found * np.float32(1 / np.float32(n.result_scale))).astype(np.float64)
    return within(x.dtype, rounded_away(np.nan_to_num(steps)) + n.result_zero)


def _real(function: Callable[[Floats], Floats], wide: Rule | None = None) -> Rule:
    """Return the rule of a function of 8 bits. wide: of 16 bits."""

    def rule(n: Node) -> Array:
        dtype = n.tensor(0).dtype
        if dtype in ("int8", "uint8"):
            return looked_up(n.scope, n.array(0), real_table(n, function))
        if dtype != "int16" or wide is None:
            raise NotLowered(f"TFLite has no kernel of quantised {dtype}")
        made = wide(n)
        assert isinstance(made, Array)
        return made

    return rule


def _in_intervals(function: Callable[[Floats], Floats]) -> Rule:
    """Return the rule of a function of 16 bits that TFLite interpolates."""

    def rule(n: Node) -> Array:
        s, result = n.scope, _range_of(n.result_scale)

        def defined(x: Floats) -> Floats:
            # The logarithm of 0 and below is the lowest number of the result.
            made = function(x)
            return np.where(np.isfinite(made), made, result[0])

        table = interpolation_table(defined, *_range_of(n.scale(0)), result)
        return s.cast(interpolated(s, n.array(0), table), np.int16)

    return rule


def _range_of(scale: float) -> tuple[float, float]:
    """Return the lowest and the highest number of int16, whose zero point is 0."""
    return single(scale * -_HALF), single(scale * (_HALF - 1))


# -- LOGISTIC and TANH of 16 bits ------------------------------------------------------------------

#: Of TFLite's kernels: the bits of fractions of their inputs, and the largest multiplier and shift.
_INPUT_BITS: Final = 12
_LARGEST_MULTIPLIER: Final = 32767
_LARGEST_SHIFT: Final = 30
_SATURATED: Final = 255
#: The logistic function in TFLite's kernels: 65,536 / (1 + exp(-i / 24)) for i from 0 to 255, rounded,
#: and one more at these places. By experiment, with TANH of LiteRT 2.3.0 at numbers that need no
#: interpolation.
_ABOVE: Final = """
4 8 12 14 15 16 17 19 20 21 22 25 27 28 29 30 31 33 34 35 37 39 40 41 43 44 45 46 49 50 54 62 63 64
66 82 86 93 100 103 112 116 135 255
"""


def _sigmoid(is_tanh: bool) -> Rule:
    def rule(n: Node) -> Array:
        scale = n.scale(0)
        power = power_of_two(scale)
        if power is not None and power + _INPUT_BITS in (0, int(is_tanh)):
            multiplier, shift = 3 << power + _INPUT_BITS, 0
        else:
            scaled, shift = scale * 3 * (1 << _INPUT_BITS), 0
            while scaled <= _LARGEST_MULTIPLIER / 2 and shift <= _LARGEST_SHIFT:
                scaled, shift = scaled * 2, shift + 1
            multiplier = int(scaled)
        if multiplier > _LARGEST_MULTIPLIER or shift > _LARGEST_SHIFT:
            raise NotLowered(f"TFLite's kernel does not take the scale {scale:g}")
        table = _sigmoid_table(multiplier, shift, is_tanh)
        return looked_up(n.scope, n.array(0), table)

    return rule


@lru_cache(maxsize=8)
def _sigmoid_table(multiplier: int, shift: int, is_tanh: bool) -> Integers:
    """Return LOGISTIC or TANH of all integers of 16 bits; TANH is 2 * logistic(2 * x) - 1."""
    above = [int(place) for place in _ABOVE.split()]
    table = np.rint(65536 / (1 + np.exp(-np.arange(256) / 24))).astype(np.int64)
    table[above] += 1
    position = (every(np.int16) * multiplier + (1 << shift >> 1)) >> shift
    bits = 8 if is_tanh else 9
    size = np.abs(position)
    whole, rest = size >> bits, size & ((1 << bits) - 1)
    at = np.minimum(whole, _SATURATED - 1)
    made = (table[at] << bits) + rest * (table[at + 1] - table[at])
    if is_tanh:
        made = np.where(whole >= _SATURATED, 0xFFFF << 8, made)
        made = np.where(position >= 0, made - (1 << 23) + 128, (1 << 23) + 127 - made) >> 8
    else:
        made = np.where(whole >= _SATURATED, 0x7FFF << 10, made)
        made = np.where(position >= 0, made + 512, (1 << 25) + 511 - made) >> 10
    return made


# -- functions of integers -------------------------------------------------------------------------


def integer_table(n: Node, function: Callable[[Integers], Integers]) -> Array:
    """Look up a function of integers less their zero point."""
    x = n.array(0)
    table = within(x.dtype, function(every(x.dtype, n.zero(0))) + n.result_zero)
    return looked_up(n.scope, x, table)


def _leaky_relu(n: Node) -> Array:
    s, x, (above, below) = n.scope, n.array(0), slopes_of(n)
    sign = int(math.copysign(1, below))
    if x.dtype == np.int16:
        number = rescaled(s, x, ONE, INT32)
        products = [
            rescaled(s, one, rescale_of(abs(slope)), x.dtype)
            for one, slope in ((x, above), (x if sign == 1 else s.mul(number, sign), below))
        ]
        return s.select(s.greater(number, 0), *products)

    def chosen(x: Integers) -> Integers:
        falling = multiplied(sign * np.minimum(x, 0), *rescale_of(abs(below)))
        return falling + multiplied(np.maximum(x, 0), *rescale_of(above))

    return integer_table(n, chosen)


def _abs(n: Node) -> Array:
    """Round to 31 bits, and then to integers; halves of the second are rounded up."""
    s, x = n.scope, n.array(0)
    scale = single(n.scale(0) / n.result_scale)
    if n.tensor(0).dtype not in ("int8", "int16"):
        raise NotLowered(f"TFLite has no kernel of quantised {n.tensor(0).dtype}")
    if x.dtype == np.int16:
        return rescaled(
            s, s.elementwise("abs", rescaled(s, x, ONE, INT32)), rescale_of(scale), x.dtype
        )

    return integer_table(n, lambda x: multiplied(np.abs(x), *rescale_of(scale)))


def _negated(n: Node) -> Array:
    """Negate the integers, whatever their zero point, as TFLite does."""
    x = n.array(0)
    if x.dtype == np.int16:
        return arithmetic.neg(n.scope, x)
    return looked_up(n.scope, x, (-every(x.dtype)).astype(x.dtype).astype(np.int64))


def _inverse_root(n: Node) -> Array:
    """Return 1 / sqrt(x) by the multiplier that TFLite's kernel finds in integers."""
    scale = single(1 / (math.sqrt(n.scale(0)) * n.result_scale))
    multiplier, exponent = fixed_point(scale)

    def roots(x: Integers) -> Integers:
        pairs = [inverse_root_of(value) for value in x.clip(1).tolist()]
        root, shift = np.array(pairs, np.int64).T
        kept = multiplied(np.ones_like(x), root, 31 - _KEPT + shift)
        found = multiplied(kept, multiplier, 31 - exponent + _KEPT)
        return np.where(x > 0, found, np.iinfo(n.array(0).dtype).max - n.result_zero)

    return integer_table(n, roots)


def inverse_root_of(value: int) -> tuple[int, int]:
    """Return 1 / sqrt(value) as a multiplier and a shift, by Newton's steps; value < 2 ** 29."""
    if value <= 1:
        return (1 << 31) - 1, 0
    pairs = (31 - value.bit_length()) // 2 - 1
    shift = 11 - pairs
    half = ((value << 2 * pairs >> 1) + 1) >> 1
    x = 1 << 28
    for _ in range(5):
        # The kernel would bound it to 31 bits; no number is that large.
        cube = _high(_high(x, x), x) << 6
        x = (_high(x, 3 << 27) - _high(half, cube)) << 3
    root = _high(x, HALF_ROOT)
    return (root << -shift, 0) if shift < 0 else (root, shift)


def _high(x: int, y: int) -> int:
    return (x * y + (1 << 30)) >> 31


def _hard_swish(n: Node) -> Array:
    """Multiply by a number from 0 to 1, both of 16 bits and with as many fraction bits as they have."""
    fine = single(n.scale(0) / 128)
    to_result, to_unit = (_short(single(fine / to)) for to in (n.result_scale, single(3 / 32768)))
    if to_result[1] > 0:
        raise NotLowered("TFLite's kernel does not make the scale so much smaller")

    def products(x: Integers) -> Integers:
        wide = x << 7
        number = _rounded_product(wide, to_result[0])
        unit, exponent = wide, to_unit[1]
        if exponent > 0:
            unit = within(np.int16, unit << (exponent - 1))
        unit = _rounded_product(unit, to_unit[0])
        unit = within(np.int16, unit << 1) if exponent > 0 else shifted_right(unit, -exponent)
        unit = (unit + _HALF) >> 1
        return shifted_right(np.fix(unit * number / _HALF).astype(np.int64), -to_result[1])

    return integer_table(n, products)


def _short(scale: float) -> tuple[int, int]:
    """Return the multiplier of 15 bits and the exponent of a scale."""
    multiplier, exponent = fixed_point(scale)
    return narrowed(multiplier), exponent


def _rounded_product(x: Integers, y: int) -> Integers:
    """Return the upper half of twice a product of 16 bits, rounded."""
    return within(np.int16, (x * y + (1 << 14)) >> 15)


def _root(n: Node) -> Array:
    """Round down, as TFLite does for no other function."""
    x = n.array(0)
    numbers = np.maximum(every(x.dtype, n.zero(0)), 0).astype(np.float32) * np.float32(n.scale(0))
    steps = np.floor(np.sqrt(numbers.astype(np.float32)) / np.float32(n.result_scale))
    if x.dtype != np.int8:
        raise NotLowered(f"TFLite has no kernel of quantised {n.tensor(0).dtype}")
    return looked_up(n.scope, x, within(x.dtype, steps.astype(np.int64) + n.result_zero))


RULES: Final[dict[str, Rule]] = {
    name: either(rule, elementwise.RULES[name])
    for name, rule in {
        "ABS": _abs,
        "ELU": _real(_elu),
        "EXP": _real(np.exp, _in_intervals(np.exp)),
        "GELU": lambda n: _real(_gelu_tanh if n.flag(0) else _gelu)(n),
        "HARD_SWISH": _hard_swish,
        "LEAKY_RELU": _leaky_relu,
        "LOG": _real(np.log, _in_intervals(np.log)),
        "LOGISTIC": _real(logistic, _sigmoid(False)),
        "NEG": _negated,
        "RSQRT": _inverse_root,
        "SQRT": _root,
        "TANH": _real(np.tanh, _sigmoid(True)),
    }.items()
}
