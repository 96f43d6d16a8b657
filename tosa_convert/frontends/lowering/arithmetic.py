"""Arithmetic, comparisons and bits of every element type.

TOSA computes with INT32 and INT64: smaller integers are widened and cut again, which keeps JAX's
wrap-around. Unsigned integers have the bits of signed ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering.limits import known_limits, limits_of_result
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant
from tosa_convert.frontends.lowering.types import (
    BOOL,
    FLOAT32,
    INT32,
    carrier,
    is_float,
    is_small,
    is_unsigned,
)

_UINT32: Final = np.dtype(np.uint32)
_INT32_MIN: Final = -(2**31)
_CAST: Final = "cast to int32"


def by_int32(function: Callable[..., Array]) -> Callable[..., Array]:
    """Return a function that computes small integers in INT32, and keeps the low bits of them."""

    def wide(s: Scope, *arrays: Array) -> Array:
        if not is_small(arrays[0].dtype):
            return function(s, *arrays)
        return s.narrowed(function(s, *map(s.widened, arrays)), arrays[0].dtype)

    return wide


def computed(s: Scope, name: str, a: Array, b: Array) -> Array:
    """Compute ADD, SUB or MUL of numbers of any type."""
    if is_small(a.dtype):
        return s.narrowed(s.elementwise(name, s.widened(a), s.widened(b)), a.dtype)
    if is_unsigned(a.dtype):
        x, y = (s.viewed(item, carrier(a.dtype)) for item in (a, b))
        is_plain = name == "mul" or _fits_when_narrowed(s, a.dtype)
        made = s.elementwise(name, x, y) if is_plain else _wrapped(s, name, x, y)
        return s.viewed(made, a.dtype)
    if a.dtype == INT32 and name != "mul" and limits_of_result(name, {}, [a, b], a) is None:
        return _wrapped(s, name, a, b)
    return s.elementwise(name, a, b)


def _fits_when_narrowed(s: Scope, dtype: Any) -> bool:
    """Return whether the numbers of a type of 64 bits become INT32, which is asked for if they fit."""
    return s.narrows and np.dtype(dtype).itemsize == 8


def _wrapped(s: Scope, name: str, a: Array, b: Array) -> Array:
    """Add or subtract modulo 2^32 or 2^64: TOSA does not define a sum that does not fit.

    The sign bit is set apart so that the rest fits, and is then put right. MUL wraps around by itself.
    """
    if a.data is not None and b.data is not None:
        return s.elementwise(name, a, b)
    least = int(np.iinfo(a.dtype).min)
    if name == "sub" and a.number() == 0:
        return s.mul(b, -1)
    if name == "add" and a.is_constant:
        a, b = b, a
    number = b.number()
    if name == "add" and number is not None and number >= 0:
        made = s.add(s.elementwise("bitwise_or", a, least), b)
        flipped = s.elementwise("bitwise_xor", made, least)
        made = s.select(s.greater(0, a), made, flipped)
        made.origin = ("sum", a, (int(number),))
        return made
    second = s.elementwise("bitwise_or", b, least)
    if name == "sub":
        made = s.sub(s.elementwise("bitwise_or", a, least), second)
        sign = s.elementwise("bitwise_xor", a, b)
    else:
        made = s.add(s.elementwise("bitwise_and", a, ~least), second)
        sign = s.elementwise("bitwise_xor", s.elementwise("bitwise_not", a), b)
    return s.elementwise("bitwise_xor", made, s.elementwise("bitwise_and", sign, least))


def _halves(s: Scope, a: Array) -> tuple[Array, Array]:
    """Return the low and the high 16 bits of uint32, as INT32 from 0 to 65535."""
    bits = s.viewed(a, INT32)
    return s.elementwise("bitwise_and", bits, 0xFFFF), s.elementwise(
        "logical_right_shift", bits, 16
    )


def uint32_to_float(s: Scope, a: Array, dtype: Any) -> Array:
    """Convert uint32 to the nearest values of a floating-point type."""
    low, high = (s.cast(half, np.float32) for half in _halves(s, a))
    made = s.add(s.mul(high, 65536.0), low)
    return s.cast(made, dtype)


def float_to_uint32(s: Scope, a: Array) -> Array:
    """Return whole numbers from 0 to 2^32 - 1, given as FP32."""
    high = s.elementwise("floor", s.mul(a, 1 / 65536))
    low = s.sub(a, s.mul(high, 65536.0))
    shifted = s.elementwise("logical_left_shift", s.cast(high, INT32), 16)
    return s.viewed(s.elementwise("bitwise_or", shifted, s.cast(low, INT32)), _UINT32)


def uint64_to_float(s: Scope, a: Array, dtype: Any) -> Array:
    """Convert uint64 to floating-point values; above 2^32 they are within one unit of the last place."""
    bits = s.viewed(a, np.int64)
    parts = (s.elementwise("logical_right_shift", bits, 32), bits)
    high, low = (
        uint32_to_float(s, s.viewed(s.cast(part, INT32), _UINT32), FLOAT32) for part in parts
    )
    return s.cast(s.add(s.mul(high, 2.0**32), low), dtype)


def float_to_uint64(s: Scope, a: Array) -> Array:
    """Return whole numbers from 0 to 2^64 - 1, given as FP32, as bits of INT64."""
    high = s.elementwise("floor", s.mul(a, 2.0**-32))
    low = s.sub(a, s.mul(high, 2.0**32))
    high, low = (
        s.elementwise("bitwise_and", s.cast(s.viewed(half, INT32), np.int64), 0xFFFFFFFF)
        for half in (float_to_uint32(s, high), float_to_uint32(s, low))
    )
    return s.elementwise("bitwise_or", s.elementwise("logical_left_shift", high, 32), low)


def ordered(s: Scope, a: Array) -> Array:
    """Convert elements to a type that TOSA compares, in the same order."""
    if is_small(a.dtype) or a.dtype == BOOL:
        return s.widened(a)
    if is_unsigned(a.dtype):
        kind = carrier(a.dtype)
        bits = s.viewed(a, kind)
        if _fits_when_narrowed(s, a.dtype):
            return bits
        return s.elementwise("bitwise_xor", bits, int(np.iinfo(kind).min))
    return a


def unordered(s: Scope, a: Array, dtype: Any) -> Array:
    """Convert what `ordered` made back to the original type."""
    if dtype == BOOL:
        return s.cast(a, BOOL)
    if is_unsigned(dtype) and not is_small(dtype):
        if not _fits_when_narrowed(s, dtype):
            a = s.elementwise("bitwise_xor", a, int(np.iinfo(a.dtype).min))
        return s.viewed(a, dtype)
    return s.narrowed(a, dtype) if is_small(dtype) else a


def extremum(s: Scope, name: str, a: Array, b: Array) -> Array:
    """Compute MAXIMUM or MINIMUM of numbers of any type."""
    if a.dtype == BOOL:
        return s.either(a, b) if name == "maximum" else s.both(a, b)
    for x, bound in ((a, b), (b, a)):
        number = bound.number()
        if is_float(x.dtype) and number is not None and x.rank >= bound.rank:
            shape = np.broadcast_shapes(x.shape, bound.shape)
            low, high = (number, np.inf) if name == "maximum" else (-np.inf, number)
            if x.value is not None and not np.isnan(float(number)):
                return replace(clip(s, x, float(low), float(high)), shape=shape)
    return unordered(s, s.elementwise(name, ordered(s, a), ordered(s, b)), a.dtype)


def combination(s: Scope, word: str) -> Callable[[Array, Array], Array]:
    """Return the "add", "sub", "mul", "max" or "min" of two arrays of any type."""
    if word in ("max", "min"):
        return partial(extremum, s, f"{word}imum")
    return partial(computed, s, word)


def mul(s: Scope, a: Array, b: Array) -> Array:
    for x, y in ((a, b), (b, a)):
        if x.origin is not None and x.origin[0] == "scaled" and y.data is not None:
            _, x, (factor,) = x.origin
            wide = y.data.astype(np.float64) * factor
            return mul(s, x, Array(y.dtype, y.shape, wide.astype(y.dtype)))
    return _other_than(1, a, b) or computed(s, "mul", a, b)


def max_(s: Scope, a: Array, b: Array) -> Array:
    # Softmax begins with the greatest of minus infinity and a number.
    other = _other_than(-np.inf, a, b) if is_float(a.dtype) else None
    return other or extremum(s, "maximum", a, b)


def _other_than(neutral: float, a: Array, b: Array) -> Array | None:
    """Return the operand that is the result, because the other one is neutral; None if neither is."""
    shape = np.broadcast_shapes(a.shape, b.shape)
    if a.number() == neutral and b.shape == shape:
        return b
    return a if b.number() == neutral and a.shape == shape else None


def clip(s: Scope, x: Array, low: float, high: float) -> Array:
    """Clamp floating-point numbers to a range by one CLAMP, also what a CLAMP made."""
    # As MINIMUM of MAXIMUM, in the type of the numbers: bounds beyond its range are infinite.
    low, high = np.array((min(low, high), high)).astype(x.dtype).astype(np.float64).tolist()
    if x.origin is not None and x.origin[0] == "bounded":
        _, x, inner = x.origin
        low, high = (min(max(bound, low), high) for bound in inner)
    if x.data is not None:
        return s.minimum(s.maximum(x, low), high)
    if x.origin is not None and x.origin[0] == "reshaped":
        return s.reshaped(clip(s, x.origin[1], low, high), x.shape)
    made = s.builder.clamp(s.value(x), min_val=low, max_val=high)
    return Array(x.dtype, x.shape, None, made, origin=("bounded", x, (low, high)))


def clamp(s: Scope, low: Array, x: Array, high: Array) -> Array:
    return extremum(s, "minimum", extremum(s, "maximum", x, low), high)


def neg(s: Scope, a: Array) -> Array:
    if is_float(a.dtype):
        return s.elementwise("negate", a)
    return computed(s, "mul", a, s.aligned([-1, a])[0])  # The least number is its own negative.


def abs_(s: Scope, a: Array) -> Array:
    if is_unsigned(a.dtype) or a.dtype == BOOL:
        return a
    if is_small(a.dtype):
        return s.narrowed(s.elementwise("abs", s.widened(a)), a.dtype)
    if not is_float(a.dtype) and known_limits(a)[0] == np.iinfo(a.dtype).min:
        return s.maximum(a, neg(s, a))
    return s.elementwise("abs", a)


def sign(s: Scope, a: Array) -> Array:
    if is_unsigned(a.dtype):
        positive = s.negation(equals(s, a, s.aligned([0, a])[0]))
        return s.viewed(s.cast(positive, carrier(a.dtype)), a.dtype)
    # What is neither above nor below 0 is itself: 0, -0.0 or NaN.
    return by_int32(lambda s, x: s.select(s.greater(x, 0), 1, s.select(s.greater(0, x), -1, x)))(
        s, a
    )


def with_zero_point(s: Scope, a: Array, zero: int = 0) -> tuple[Array, int]:
    """Return bytes as INT8, and their zero point: uint8 is INT8 with one that is 128 less."""
    if a.dtype == np.int8:
        return a, zero
    if a.data is not None:
        shifted = (a.data.astype(np.int16) - 128).astype(np.int8)
        return Array(np.dtype(np.int8), a.shape, shifted), zero - 128
    return s.elementwise("bitwise_xor", s.viewed(a, np.int8), -128), zero - 128


# -- division ------------------------------------------------------------------------------------


def divided(s: Scope, a: Array, b: Array) -> Array:
    """Divide floating-point values. TOSA has reciprocals, but no division."""
    if b.data is not None:
        with np.errstate(all="ignore"):
            wide = np.asarray(1 / b.data.astype(np.float64))
            return mul(s, a, Array(b.dtype, b.shape, wide.astype(b.dtype)))
    inverse = s.elementwise("reciprocal", b)
    return inverse if a.number() == 1 else s.mul(a, inverse)


@by_int32
def quotient(s: Scope, a: Array, b: Array) -> Array:
    """Divide integers as XLA does: rounded to 0, and -1 for a division by 0."""
    if b.data is not None and not np.isin(b.data, (0, -1)).any():
        return s.elementwise("intdiv", a, b)
    by_zero, by_minus_one = s.equal(b, 0), s.equal(b, -1)
    safe = s.select(s.either(by_zero, by_minus_one), 1, b)
    negative = s.mul(a, -1)  # The least number stays what it is.
    made = s.elementwise("intdiv", a, safe)
    return s.select(by_zero, -1, s.select(by_minus_one, negative, made))


def _shift_of(b: Array) -> int | None:
    """Return the exponent of a constant power of 2; None for other numbers."""
    number = b.number()
    if number is None or number == 0 or int(number) & (int(number) - 1):
        return None
    return int(number).bit_length() - 1


def _unsigned_quotient(s: Scope, a: Array, b: Array) -> Array:
    """Divide uint32 or uint64; all bits are set for a division by 0.

    INTDIV is of signed numbers, so half of the dividend is divided, and the last bit found from what
    remains. A divisor with the highest bit goes into a dividend once or not at all.
    """
    x, y = (s.viewed(item, carrier(a.dtype)) for item in (a, b))
    shift = _shift_of(b)
    if shift is not None:
        return s.viewed(s.elementwise("logical_right_shift", x, shift), a.dtype)
    if _fits_when_narrowed(s, a.dtype):
        return s.viewed(quotient(s, x, y), a.dtype)
    is_small_divisor = s.greater(y, 0)
    safe = s.select(is_small_divisor, y, 1)
    half = s.elementwise("intdiv", s.elementwise("logical_right_shift", x, 1), safe)
    even = s.elementwise("logical_left_shift", half, 1)
    rest = s.viewed(_wrapped(s, "sub", x, s.mul(even, safe)), a.dtype)
    is_odd = s.greater_equal(ordered(s, rest), ordered(s, s.viewed(safe, a.dtype)))
    made = s.select(is_odd, s.elementwise("bitwise_or", even, 1), even)
    once = s.select(s.greater_equal(ordered(s, a), ordered(s, b)), 1, 0, x.dtype)
    of_large = s.select(s.equal(y, 0), -1, once)
    return s.viewed(s.select(is_small_divisor, made, of_large), a.dtype)


def div(s: Scope, a: Array, b: Array) -> Array:
    if is_float(a.dtype):
        return divided(s, a, b)
    if is_unsigned(a.dtype) and not is_small(a.dtype):
        return _unsigned_quotient(s, a, b)
    return quotient(s, a, b)


def rem(s: Scope, a: Array, b: Array) -> Array:
    """Return the remainder with the sign of the dividend."""
    if is_float(a.dtype):
        return _float_remainder(s, a, b)
    if is_unsigned(a.dtype) and not is_small(a.dtype):
        shift = _shift_of(b)
        if shift is not None:
            mask = (1 << shift) - 1
            bits = s.elementwise("bitwise_and", s.viewed(a, carrier(a.dtype)), mask)
            return s.viewed(bits, a.dtype)
        taken = computed(s, "mul", _unsigned_quotient(s, a, b), b)
        return computed(s, "sub", a, taken)
    return _integer_remainder(s, a, b)


@by_int32
def _integer_remainder(s: Scope, x: Array, y: Array) -> Array:
    if y.data is not None and not np.isin(y.data, (0, -1)).any():
        return s.sub(x, s.mul(s.elementwise("intdiv", x, y), y))
    # By 0 it is the dividend, and by -1 it is 0.
    safe = s.select(s.either(s.equal(y, 0), s.equal(y, -1)), 1, y)
    rest = s.sub(x, s.mul(s.elementwise("intdiv", x, safe), safe))
    return s.select(s.equal(y, 0), x, rest)


def floor_quotient(s: Scope, a: Array, b: Array) -> Array:
    """Divide, rounded down, as Python's // does."""
    if is_float(a.dtype):
        return _float_floor_quotient(s, a, b)
    return div(s, a, b) if is_unsigned(a.dtype) else _signed_floor_quotient(s, a, b)


@by_int32
def _signed_floor_quotient(s: Scope, x: Array, y: Array) -> Array:
    down = quotient(s, x, y)
    rest = s.sub(x, s.mul(down, y))
    return s.sub(down, s.select(_is_past(s, rest, y), 1, 0, x.dtype))


def _float_floor_quotient(s: Scope, a: Array, b: Array) -> Array:
    """Divide what the exact remainder leaves, which is a multiple of the divisor but for rounding."""
    x, y, rest = (s.cast(item, FLOAT32) for item in (a, b, rem(s, a, b)))
    made = divided(s, s.sub(x, rest), y)
    near = s.elementwise("floor", s.add(made, 0.5))
    made = s.select(s.greater(2.0**23, s.elementwise("abs", made)), near, made)
    made = s.sub(made, s.select(_is_past(s, rest, y), 1, 0, FLOAT32))
    return s.cast(s.select(s.equal(y, 0), divided(s, x, y), made), a.dtype)


def floor_remainder(s: Scope, a: Array, b: Array) -> Array:
    """Return the remainder with the sign of the divisor, as Python's % does."""
    rest = rem(s, a, b)
    return rest if is_unsigned(a.dtype) else by_int32(to_sign_of)(s, rest, b)


def to_sign_of(s: Scope, rest: Array, b: Array) -> Array:
    """Add the divisor to a remainder that has the other sign."""
    return s.add(rest, s.select(_is_past(s, rest, b), b, 0))


def _is_past(s: Scope, rest: Array, b: Array) -> Array:
    """Return where a remainder has the other sign than the divisor."""
    if b.data is not None and bool((b.data > 0).all()):
        return s.greater(0, rest)
    if is_float(rest.dtype):
        return s.greater(0, s.mul(s.cast(sign(s, rest), rest.dtype), sign(s, b)))
    return s.both(
        s.negation(s.equal(rest, 0)),
        s.elementwise("logical_xor", s.greater(0, rest), s.greater(0, b)),
    )


def truncated(s: Scope, a: Array) -> Array:
    return s.select(s.greater(0, a), s.elementwise("ceil", a), s.elementwise("floor", a))


#: Quotients below 2^_WIDEST are taken in one round; a round before takes the divisor times 2^_SHIFT.
_WIDEST: Final = 110
_SHIFT: Final = 72
#: Divisors are below this power of 2, so that they can be split.
_MOST_SPLIT: Final = 114
#: Type -> the exponent above its greatest number, that of its least one, and its significant bits.
_RANGES: Final = {"float32": (128, -126, 24), "bfloat16": (128, -126, 8), "float16": (16, -24, 11)}


def _float_remainder(s: Scope, a: Array, b: Array) -> Array:
    """Return the exact remainder with the sign of the dividend, as fmod of C does.

    Each step subtracts a multiple of the divisor by a factor of few bits: the product and the
    difference are exact in FP32.
    """
    x = s.cast(a, FLOAT32)
    top, least, bits = _RANGES[str(a.dtype)]
    size, step = s.elementwise("abs", x), s.elementwise("abs", s.cast(b, FLOAT32))
    if b.data is not None:
        step = Array(FLOAT32, b.shape, np.abs(b.data.astype(np.float32)))
        least, bits = _exponent_and_bits(step.data)
    if bits == 1:
        quotient = divided(s, size, step)
        rest = s.sub(size, s.mul(s.elementwise("floor", quotient), step))
        rest = s.select(s.greater_equal(quotient, 2.0**24), 0, rest)
    else:
        rest = _rest_of_division(s, size, step, top - least, bits)
    # A finite number is the remainder by infinity; there is none of infinity, or by 0.
    rest = s.select(s.greater(step, size), size, rest)
    is_defined = s.both(s.greater(np.inf, size), s.greater(step, 0))
    rest = s.select(is_defined, rest, np.nan)
    return s.cast(s.select(s.greater(0, x), s.elementwise("negate", rest), rest), a.dtype)


def _exponent_and_bits(numbers: Any) -> tuple[int, int]:
    """Return the least exponent of constants that are neither 0 nor infinite, and their most bits."""
    mantissas, exponents = np.frexp(numbers[np.isfinite(numbers) & (numbers > 0)])
    whole = (mantissas * 2**24).astype(np.int64)
    bits = [24 - (int(one & -one).bit_length() - 1) for one in np.unique(whole)]
    return int(exponents.min(initial=1)) - 1, max(bits, default=1)


def _rest_of_division(s: Scope, size: Array, step: Array, span: int, bits: int) -> Array:
    """Return the remainder of positive numbers, whose quotient is below 2^span."""
    is_large = s.greater(step, 2.0**60)  # Their reciprocals may be subnormal.
    scale = s.select(is_large, 2.0**-64, 1.0, FLOAT32)
    rest, part = s.mul(size, scale), s.mul(step, scale)
    rounds = [part]
    while span - _SHIFT * (len(rounds) - 1) > _WIDEST:
        last = rounds[-1]
        far = s.mul(last, 2.0**_SHIFT)
        rounds.append(s.select(s.greater(2.0 ** (_MOST_SPLIT - _SHIFT), last), far, last))
    # The first products must not be above the greatest number.
    is_high = s.greater_equal(rest, 2.0**126)
    fewer, more = (s.select(is_high, by, 1.0, FLOAT32) for by in (0.25, 4.0))
    first = s.mul(rounds.pop(), fewer)
    span -= _SHIFT * len(rounds)
    rest = s.mul(_reduced(s, s.mul(rest, fewer), first, bits, span), more)
    while rounds:
        rest = _reduced(s, rest, rounds.pop(), bits, _SHIFT)
    rest = s.select(s.greater(0, rest), s.add(rest, part), rest)
    return s.mul(rest, s.select(is_large, 2.0**64, 1.0, FLOAT32))


def _reduced(s: Scope, rest: Array, part: Array, bits: int, span: int) -> Array:
    """Subtract multiples of `part`, which has so many bits, until about half of it is left."""
    is_split = bits > 12
    kept = 11 if is_split else min(24 - bits, 16)
    high = _upper_bits(s, part, 12) if is_split else part
    low = s.sub(part, high)
    inverse = divided(s, constant(np.ones((), np.float32)), part)
    for _ in range(math.ceil((span + 2) / (kept - 1))):
        quotient = s.elementwise("floor", s.add(s.mul(rest, inverse), 0.5))
        quotient = _upper_bits(s, quotient, kept)
        rest = s.sub(rest, s.mul(quotient, high))
        rest = s.sub(rest, s.mul(quotient, low)) if is_split else rest
    return rest


def _upper_bits(s: Scope, a: Array, count: int) -> Array:
    """Round numbers to so many significant bits: T. J. Dekker, 1971."""
    wide = s.mul(a, 2.0 ** (24 - count) + 1)
    return s.sub(wide, s.sub(wide, a))


# -- comparisons and truth values ----------------------------------------------------------------


def equals(s: Scope, a: Array, b: Array) -> Array:
    """Return where elements of any type are equal."""
    if a.dtype == BOOL:
        return s.negation(s.elementwise("logical_xor", a, b))
    if a.dtype == _UINT32 or a.dtype == np.uint64:
        kind = carrier(a.dtype)
        return s.equal(s.viewed(a, kind), s.viewed(b, kind))
    return s.equal(ordered(s, a), ordered(s, b))


def ne(s: Scope, a: Array, b: Array) -> Array:
    if a.dtype == BOOL:
        return s.elementwise("logical_xor", a, b)
    return s.negation(equals(s, a, b))


def compared(s: Scope, a: Array, b: Array, name: str, is_flipped: bool = False) -> Array:
    """Compare numbers of any type by GREATER or GREATER_EQUAL. is_flipped: the second with the first."""
    held = [ordered(s, item) for item in (a, b)]
    made = s.elementwise(name, *(held[::-1] if is_flipped else held), dtype=BOOL)
    if a.dtype == INT32 and is_flipped and name == "greater" and b.number() == 0:
        made.origin = ("negative", a, ())
    return made


def sorted_before(s: Scope, a: Array, b: Array) -> Array:
    """Return where a is less than b, with NaN greater than all others."""
    less = s.greater(ordered(s, b), ordered(s, a))
    if not is_float(a.dtype):
        return less
    return s.either(less, s.both(s.is_nan(b), s.equal(a, a)))


def le_to(s: Scope, a: Array, b: Array) -> Array:
    return s.negation(sorted_before(s, b, a))


def eq_to(s: Scope, a: Array, b: Array) -> Array:
    if not is_float(a.dtype):
        return equals(s, a, b)
    return s.either(s.equal(a, b), s.both(s.is_nan(a), s.is_nan(b)))


def bitwise(s: Scope, a: Array, b: Array, word: str) -> Array:
    """Combine bits or truth values by "and", "or" or "xor"."""
    if a.dtype == BOOL:
        return s.elementwise(f"logical_{word}", a, b)
    kind = carrier(a.dtype)
    made = s.elementwise(f"bitwise_{word}", s.viewed(a, kind), s.viewed(b, kind))
    return s.viewed(made, a.dtype)


def not_(s: Scope, a: Array) -> Array:
    if a.dtype == BOOL:
        return s.negation(a)
    return s.viewed(s.elementwise("bitwise_not", s.viewed(a, carrier(a.dtype))), a.dtype)


def select_n(s: Scope, which: Array, *cases: Array) -> Array:
    kind = cases[0].dtype
    if (known := _negative_index(s, which, cases)) is not None:
        return known
    held = [s.viewed(case, carrier(kind)) for case in cases]
    if which.dtype == BOOL:
        return s.viewed(s.select(which, held[1], held[0]), kind)
    made = held[-1]
    for index in range(len(held) - 2, -1, -1):
        made = s.select(s.greater(index + 1, which), held[index], made)
    return s.viewed(made, kind)


def _negative_index(s: Scope, which: Array, cases: Sequence[Array]) -> Array | None:
    """Return x, or x + c where x is negative, which cannot overflow; None for other selections."""
    if which.origin is None or which.origin[0] != "negative" or len(cases) != 2:
        return None
    x, total = cases
    if total.origin is None or not (which.origin[1] is total.origin[1] is x):
        return None
    made = s.add(s.elementwise("bitwise_or", x, _INT32_MIN), total.origin[2][0])
    return s.select(which, made, x)


# -- bits ----------------------------------------------------------------------------------------


def shifted(s: Scope, a: Array, by: Array, name: str, **attributes: Any) -> Array:
    """Shift bits, also by their number or more: TOSA forbids it; in JAX nothing but the sign stays."""
    kind, bits = carrier(a.dtype), np.dtype(a.dtype).itemsize * 8
    if s.narrows:
        bits = min(bits, 32)
    x, amount = s.viewed(a, kind), s.viewed(by, kind)
    if name == "logical_right_shift" and is_unsigned(a.dtype) and _fits_when_narrowed(s, a.dtype):
        name, attributes = "arithmetic_right_shift", {**attributes, "round": False}
    if name == "logical_right_shift" and kind.itemsize < 4:
        # TOSA shifts the bits of the element type; the widened ones are those of the unsigned type.
        unsigned = np.dtype(f"uint{bits}")
        x, kind = s.widened(s.viewed(x, unsigned)), INT32
        amount = s.widened(amount)
    known = by.data is not None and bool(((by.data >= 0) & (by.data < bits)).all())
    if known:
        return _as(s, s.elementwise(name, x, amount, **attributes), a.dtype)
    wide = s.widened(amount)
    too_far = s.either(s.greater(0, wide), s.greater_equal(wide, bits))
    if name == "arithmetic_right_shift":
        within = s.select(too_far, bits - 1, wide)
        return _as(s, s.elementwise(name, x, s.narrowed(within, kind), **attributes), a.dtype)
    within = s.narrowed(s.select(too_far, 0, wide), kind)
    made = s.elementwise(name, x, within, **attributes)
    return _as(s, s.select(too_far, 0, made), a.dtype)


def _as(s: Scope, a: Array, dtype: Any) -> Array:
    """Return INT32 or the carrier of a type as the type."""
    return s.viewed(a, dtype) if a.dtype == carrier(dtype) else s.narrowed(a, dtype)


def clz(s: Scope, a: Array) -> Array:
    if is_small(a.dtype):
        unsigned = np.dtype(f"uint{np.dtype(a.dtype).itemsize * 8}")
        wide = s.widened(s.viewed(a, unsigned))
        extra = 32 - 8 * np.dtype(a.dtype).itemsize
        return s.narrowed(s.sub(s.elementwise("clz", wide), extra), a.dtype)
    return s.viewed(s.elementwise("clz", s.viewed(a, carrier(a.dtype))), a.dtype)


def population_count(s: Scope, a: Array) -> Array:
    """Count the bits that are set, by sums of neighbouring fields."""
    size = np.dtype(a.dtype).itemsize
    if size == 8:
        raise NotLowered("the bits of integers of 64 bits are not counted", _CAST)
    if size == 4:
        low, high = _halves(s, a)
        return _as(s, s.add(_bits_of_16(s, low), _bits_of_16(s, high)), a.dtype)
    return _as(s, _bits_of_16(s, s.widened(s.viewed(a, np.dtype(f"uint{8 * size}")))), a.dtype)


def _bits_of_16(s: Scope, x: Array) -> Array:
    """Count the bits that are set in each element from 0 to 65535."""
    for shift, mask in ((1, 0x5555), (2, 0x3333), (4, 0x0F0F), (8, 0x00FF)):
        upper = s.elementwise("logical_right_shift", x, shift)
        upper = s.elementwise("bitwise_and", upper, mask)
        x = s.add(s.elementwise("bitwise_and", x, mask), upper)
    return x
