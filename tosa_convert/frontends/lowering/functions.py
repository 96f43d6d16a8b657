"""Functions of floating-point numbers that TOSA does not have, from those that it has."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering.arithmetic import computed, divided, equals
from tosa_convert.frontends.lowering.conversion import converted
from tosa_convert.frontends.lowering.limits import known_limits
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Operand, Scope, constant
from tosa_convert.frontends.lowering.types import FLOAT32, INT32, is_float, is_unsigned

#: Integer exponents up to this one are products.
_MOST_PRODUCTS: Final = 64
#: The greatest computed exponent of integers.
_MOST_EXPONENT: Final = 2**31 - 1
#: Coefficients, the highest power first, of arctangent near 0 (in powers of x^2), and of the inverse
#: error function near 0 and far from it (M. Giles, "Approximating the erfinv function", 2010).
_ARCTANGENT: Final = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)
_INVERSE_NEAR: Final = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
_INVERSE_FAR: Final = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)


def _polynomial(s: Scope, x: Array, coefficients: Sequence[float]) -> Array:
    made: Operand = coefficients[0]
    for coefficient in coefficients[1:]:
        made = s.add(s.mul(made, x), coefficient)
    assert isinstance(made, Array)
    return made


def in_fp32(function: Callable[..., Array]) -> Callable[..., Array]:
    """Return a function that computes in FP32 for narrower types, too."""

    def computed_in_fp32(s: Scope, *arrays: Array) -> Array:
        wide = [converted(s, item, FLOAT32) for item in arrays]
        return converted(s, function(s, *wide), arrays[0].dtype)

    return computed_in_fp32


# -- roots and powers ----------------------------------------------------------------------------


def sqrt(s: Scope, x: Array) -> Array:
    """Return the reciprocal of RSQRT: right for 0 and infinity as well."""
    return s.elementwise("reciprocal", s.elementwise("rsqrt", x))


def cbrt(s: Scope, a: Array) -> Array:
    """Return the cube root. POW is not defined for infinities and NaN, which are their own roots."""
    size, is_number = s.elementwise("abs", a), is_finite(s, a)
    root = s.elementwise("pow", s.select(is_number, size, 1), 1 / 3)
    root = s.select(is_number, root, size)
    return s.select(s.greater(0, a), s.elementwise("negate", root), root)


def integer_power(s: Scope, a: Array, exponent: int) -> Array:
    """Return a power as products of squares."""
    made: Array | None = None
    square, left = a, abs(exponent)
    while left:
        if left & 1:
            made = square if made is None else computed(s, "mul", made, square)
        left >>= 1
        square = computed(s, "mul", square, square) if left else square
    if made is None:
        return Array(a.dtype, a.shape, np.ones((1,) * a.rank, a.dtype))
    if exponent > 0:
        return made
    if not is_float(a.dtype):
        raise NotLowered("integers have no negative powers", "cast to float32")
    return s.elementwise("reciprocal", made)


def integer_powers(s: Scope, a: Array, b: Array) -> Array:
    """Return powers modulo 2^bits. Negative exponents round to 0; those of 0 are 0."""
    low, high = known_limits(b)
    if b.dtype.itemsize == 8 and not s.narrows and high > _MOST_EXPONENT:
        raise NotLowered(f"the exponents are {b.dtype}", "cast them to int32")
    bits = converted(s, b, INT32)
    one = np.ones((1,) * a.rank, a.dtype)
    made, square = constant(one), a
    for index in range(min(high, _MOST_EXPONENT).bit_length()):
        square = computed(s, "mul", square, square) if index else square
        bit = s.elementwise("bitwise_and", s.elementwise("logical_right_shift", bits, index), 1)
        factor = s.select(s.equal(bit, 1), square, constant(one))
        made = computed(s, "mul", made, factor) if index else factor
    if low >= 0:
        return made
    is_odd = s.equal(s.elementwise("bitwise_and", bits, 1), 1)
    of_one = s.select(equals(s, a, constant(one)), 1, 0, a.dtype)
    inverse = of_one
    if not is_unsigned(a.dtype):
        alternating = s.select(is_odd, -1, 1, a.dtype)
        inverse = s.select(equals(s, a, constant(-one)), alternating, of_one)
    return s.select(s.greater(0, bits), inverse, made)


def power(s: Scope, x: Array, y: Array) -> Array:
    """Lower a power. POW is defined for positive bases, and for 0 if the exponent is positive."""
    if not is_float(x.dtype):
        exponent = y.number()
        if exponent is not None and 0 <= exponent <= _MOST_PRODUCTS:
            return integer_power(s, x, int(exponent))
        if is_float(y.dtype):
            raise NotLowered(f"the exponents of integers are {y.dtype}", "cast both to float32")
        return integer_powers(s, x, y)
    y = converted(s, y, x.dtype)
    number, base = y.number(), x.number()
    if number is not None and float(number).is_integer() and abs(number) <= _MOST_PRODUCTS:
        return integer_power(s, x, int(number))
    if number is not None and abs(number) == 0.5:
        root = s.elementwise("rsqrt", x)
        return root if number < 0 else s.elementwise("reciprocal", root)
    if base is not None and 0 < base < np.inf:
        return _positive_power(s, x, y)
    if number is not None and math.isfinite(number) and number % 1:
        return _fractional_power(s, x, float(number))
    return _any_power(s, x, y)


def _fractional_power(s: Scope, x: Array, exponent: float) -> Array:
    """Return a power of numbers above 0; POW is undefined for others, and for infinity."""
    is_inside = s.both(s.greater(x, 0), s.greater(np.inf, x))
    made = s.elementwise("pow", s.select(is_inside, x, 1), exponent)
    of_zero, of_infinity = (0, np.inf) if exponent > 0 else (np.inf, 0)
    is_infinite = s.equal(s.elementwise("abs", x), np.inf)
    at_end = s.select(is_infinite, of_infinity, np.nan, x.dtype)
    return s.select(is_inside, made, s.select(s.equal(x, 0), of_zero, at_end))


def _positive_power(s: Scope, x: Array, y: Array) -> Array:
    """Return a power of a positive base. POW is not defined for infinities and NaN; EXP and LOG are."""
    are_numbers = [(a, is_finite(s, a)) for a in (x, y) if not _is_finite_number(a)]
    if not are_numbers:
        return s.elementwise("pow", x, y)
    safe = {id(a): s.select(is_number, a, 1) for a, is_number in are_numbers}
    made = s.elementwise("pow", safe.get(id(x), x), safe.get(id(y), y))
    limit = s.elementwise("exp", s.mul(y, s.elementwise("log", x)))
    limit = s.select(s.equal(x, 1), 1, limit)
    limit = s.select(s.equal(y, 0), 1, limit)
    is_number = are_numbers[0][1]
    for _, other in are_numbers[1:]:
        is_number = s.both(is_number, other)
    return s.select(is_number, made, limit)


def _is_finite_number(a: Array) -> bool:
    number = a.number()
    return number is not None and bool(np.isfinite(float(number)))


def _any_power(s: Scope, x: Array, y: Array) -> Array:
    size, is_zero = s.elementwise("abs", x), s.equal(x, 0)
    size = s.select(is_zero, 1, size)
    made = _positive_power(s, size, y)
    of_zero = s.select(s.greater(0, y), np.inf, y)  # The power of NaN is NaN.
    of_zero = s.select(s.greater(y, 0), 0, s.select(s.equal(y, 0), 1, of_zero))
    made = s.select(is_zero, of_zero, made)
    # A negative base has powers with whole exponents; odd ones are negative. Infinity has all.
    half = s.mul(y, 0.5)
    is_even = s.equal(s.elementwise("floor", half), half)
    is_whole = s.equal(s.elementwise("floor", y), y)
    is_odd = s.both(is_whole, s.negation(is_even))
    negative = s.select(is_odd, s.elementwise("negate", made), made)
    has_power = s.either(s.either(is_whole, is_zero), s.equal(size, np.inf))
    negative = s.select(has_power, negative, np.nan)
    return s.select(has_minus(s, x), negative, made)


# -- exponentials and logarithms -----------------------------------------------------------------


def exp2(s: Scope, a: Array) -> Array:
    return power(s, constant(np.asarray(2, a.dtype)), a)


def expm1(s: Scope, x: Array) -> Array:
    """Return exp(x) - 1. Near 0 it is (u - 1) * x / log(u) for u = exp(x), whose errors cancel."""
    u = s.elementwise("exp", x)
    less = s.sub(u, 1)
    near = s.mul(less, divided(s, x, s.elementwise("log", u)))
    near = s.select(s.equal(u, 1), x, near)
    return s.select(s.greater(0.5, s.elementwise("abs", x)), near, less)


def log1p(s: Scope, x: Array) -> Array:
    """Return log(1 + x). Near 0 it is log(u) * x / (u - 1) for u = 1 + x, whose errors cancel."""
    u = s.add(x, 1)
    far = s.elementwise("log", u)
    near = s.mul(far, divided(s, x, s.sub(u, 1)))
    near = s.select(s.equal(u, 1), x, near)
    return s.select(s.greater(0.5, s.elementwise("abs", x)), near, far)


def erfc(s: Scope, a: Array) -> Array:
    return s.sub(1, s.elementwise("erf", a))


def erf_inv(s: Scope, x: Array) -> Array:
    w = s.elementwise("negate", s.elementwise("log", s.mul(s.sub(1, x), s.add(x, 1))))
    near = _polynomial(s, s.sub(w, 2.5), _INVERSE_NEAR)
    far = _polynomial(s, s.sub(sqrt(s, w), 3.0), _INVERSE_FAR)
    # Infinity times 0 would not be a number at 1 and -1.
    far = s.select(s.equal(s.elementwise("abs", x), 1), np.inf, far)
    return s.mul(s.select(s.greater(5.0, w), near, far), x)


def is_finite(s: Scope, a: Array) -> Array:
    return s.greater(np.inf, s.elementwise("abs", a))


# -- angles --------------------------------------------------------------------------------------


def tan(s: Scope, a: Array) -> Array:
    return divided(s, s.elementwise("sin", a), s.elementwise("cos", a))


def atan(s: Scope, x: Array) -> Array:
    """Compute it by a polynomial of a number below tan(pi / 8), and the angles of pi / 4 and pi / 2."""
    size = s.elementwise("abs", x)
    is_large = s.greater(size, math.tan(3 * math.pi / 8))
    is_middle = s.both(s.greater(size, math.tan(math.pi / 8)), s.negation(is_large))
    inverse = s.elementwise("negate", s.elementwise("reciprocal", s.select(is_large, size, 1)))
    middle = divided(s, s.sub(size, 1), s.add(size, 1))
    small = s.select(is_large, inverse, s.select(is_middle, middle, size))
    offset = s.select(is_middle, s.aligned([math.pi / 4, x])[0], 0)
    offset = s.select(is_large, math.pi / 2, offset)
    square = s.mul(small, small)
    series = s.mul(s.mul(_polynomial(s, square, _ARCTANGENT), square), small)
    made = s.add(offset, s.add(series, small))
    return s.select(s.greater(0, x), s.elementwise("negate", made), made)


def atan2(s: Scope, y: Array, x: Array) -> Array:
    size_y, size_x = s.elementwise("abs", y), s.elementwise("abs", x)
    is_steep = s.greater(size_y, size_x)
    above, below = s.select(is_steep, size_x, size_y), s.select(is_steep, size_y, size_x)
    # Neither is NaN.
    both_infinite = s.both(s.equal(above, np.inf), s.equal(below, np.inf))
    ratio = divided(s, above, s.select(s.equal(below, 0), 1, below))
    made = atan(s, s.select(both_infinite, 1, ratio))
    made = s.select(is_steep, s.sub(math.pi / 2, made), made)
    made = s.select(has_minus(s, x), s.sub(math.pi, made), made)
    return s.select(has_minus(s, y), s.elementwise("negate", made), made)


def has_minus(s: Scope, a: Array) -> Array:
    """Return where a number is negative or -0.0, whose reciprocal is minus infinity."""
    if a.data is not None:
        return constant(np.signbit(a.data))
    inverse = s.elementwise("reciprocal", a)
    return s.greater(0, s.select(s.equal(a, 0), inverse, a))


def _cosine(s: Scope, x: Array) -> Array:
    """Return sqrt(1 - x^2)."""
    return sqrt(s, s.mul(s.sub(1, x), s.add(x, 1)))


def asin(s: Scope, a: Array) -> Array:
    return _outside(s, a, atan2(s, a, _cosine(s, a)))


def acos(s: Scope, a: Array) -> Array:
    return _outside(s, a, atan2(s, _cosine(s, a), a))


def _outside(s: Scope, x: Array, made: Array) -> Array:
    """Return NaN where the size of x is above 1, to be added."""
    return s.select(s.greater(s.elementwise("abs", x), 1), np.nan, made)


def sinh(s: Scope, a: Array) -> Array:
    """Return half of u + u / (u + 1) for u = exp(x) - 1, by the size of x."""
    size = s.elementwise("abs", a)
    u = expm1(s, size)
    made = s.mul(s.add(u, divided(s, u, s.add(u, 1))), 0.5)
    # exp(x) / 2 may be finite where exp(x) is not.
    large = s.elementwise("exp", s.sub(size, math.log(2)))
    made = s.select(s.greater(size, 10), large, made)
    return s.select(s.greater(0, a), s.elementwise("negate", made), made)


def cosh(s: Scope, a: Array) -> Array:
    size, half = s.elementwise("abs", a), math.log(2)
    return s.add(s.elementwise("exp", s.sub(size, half)), s.elementwise("exp", s.sub(-half, size)))


def asinh(s: Scope, a: Array) -> Array:
    """Return log(1 + size + size^2 / (1 + sqrt(size^2 + 1))), with the sign of x."""
    size = s.elementwise("abs", a)
    small = s.minimum(size, 1e4)
    square = s.mul(small, small)
    root = sqrt(s, s.add(square, 1))
    made = log1p(s, s.add(small, divided(s, square, s.add(root, 1))))
    large = s.add(s.elementwise("log", s.maximum(size, 1)), math.log(2))
    made = s.select(s.greater(size, 1e4), large, made)
    return s.select(s.greater(0, a), s.elementwise("negate", made), made)


def acosh(s: Scope, a: Array) -> Array:
    less = s.sub(s.minimum(a, 1e4), 1)
    root = sqrt(s, s.mul(less, s.add(less, 2)))
    made = log1p(s, s.add(less, root))
    large = s.add(s.elementwise("log", s.maximum(a, 1)), math.log(2))
    made = s.select(s.greater(a, 1e4), large, made)
    return s.select(s.greater(1, a), np.nan, made)


def atanh(s: Scope, a: Array) -> Array:
    difference = s.sub(log1p(s, a), log1p(s, s.elementwise("negate", a)))
    return s.mul(difference, 0.5)


# -- rounding ------------------------------------------------------------------------------------


def round_(s: Scope, a: Array, method: Any) -> Array:
    if method.name == "TO_NEAREST_EVEN":
        return round_to_even(s, a)
    size = s.elementwise("abs", a)
    down = s.elementwise("floor", size)
    whole = s.select(s.greater_equal(s.sub(size, down), 0.5), s.add(down, 1), down)
    whole = s.select(s.greater(0, a), s.elementwise("negate", whole), whole)
    return s.select(_has_fraction(s, size), whole, a)


def round_to_even(s: Scope, a: Array) -> Array:
    """Round to the nearest whole numbers, and to the even one of two, as CAST does."""
    is_fraction = _has_fraction(s, s.elementwise("abs", a))
    whole = s.cast(s.cast(s.select(is_fraction, a, 0), INT32), a.dtype)
    return s.select(is_fraction, whole, a)


def _has_fraction(s: Scope, size: Array) -> Array:
    mantissa = {"float32": 23, "float16": 10, "bfloat16": 7}[str(size.dtype)]
    return s.greater(float(2**mantissa), size)


def logsumexp2(s: Scope, a: Array, b: Array) -> Array:
    """Return log(exp(a) + exp(b))."""
    high, low = s.maximum(a, b), s.minimum(a, b)
    difference = s.select(s.equal(high, low), 0, s.sub(low, high))
    return s.add(high, log1p(s, s.elementwise("exp", difference)))
