"""Functions of floating-point numbers that TOSA does not have, from those that it has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from tosa_convert.frontends.jax.arithmetic import computed, divided
from tosa_convert.frontends.jax.arrays import (
    FLOAT32,
    INT32,
    Array,
    NotLowered,
    constant,
    is_float,
)
from tosa_convert.frontends.jax.conversion import converted
from tosa_convert.frontends.jax.scope import Operand, Scope
from tosa_convert.frontends.jax.step import Rule, Step

#: Integer exponents up to this one are products.
_MOST_PRODUCTS: Final = 64
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


def operator(name: str) -> Rule:
    """Return the rule of a function that is an operator of TOSA."""

    def rule(step: Step) -> Array:
        (a,) = step.inputs
        return step.scope.unary(name, a)

    return rule


def _polynomial(s: Scope, x: Array, coefficients: Sequence[float]) -> Array:
    made: Operand = coefficients[0]
    for coefficient in coefficients[1:]:
        made = s.add(s.mul(made, x), coefficient)
    assert isinstance(made, Array)
    return made


def in_fp32(function: Rule) -> Rule:
    """Return the rule of a function that is computed in FP32 for narrower types, too."""

    def rule(step: Step) -> Array:
        s, kind = step.scope, step.dtype
        wide = [converted(s, item, FLOAT32) for item in step.inputs]
        inner = Step(s, step.name, wide, step.params, step.shapes, [FLOAT32], step.run)
        made = function(inner)
        assert isinstance(made, Array)
        return converted(s, made, kind)

    return rule


# -- roots and powers ----------------------------------------------------------------------------


def square_root(s: Scope, x: Array) -> Array:
    """Return the reciprocal of RSQRT: right for 0 and infinity as well."""
    return s.unary("reciprocal", s.unary("rsqrt", x))


def sqrt(step: Step) -> Array:
    (a,) = step.inputs
    return square_root(step.scope, a)


def cbrt(step: Step) -> Array:
    s, (a,) = step.scope, step.inputs
    root = s.elementwise("pow", s.unary("abs", a), 1 / 3)
    return s.select(s.greater(0, a), s.unary("negate", root), root)


def integer_pow(step: Step) -> Array:
    (a,) = step.inputs
    return _product_power(step.scope, a, step.params["y"])


def _product_power(s: Scope, a: Array, exponent: int) -> Array:
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
    return s.unary("reciprocal", made)


def power(step: Step) -> Array:
    """Lower a power. POW is defined for positive bases, and for 0 if the exponent is positive."""
    s, (x, y) = step.scope, step.inputs
    if not is_float(x.dtype):
        raise NotLowered("TOSA does not have powers of integers", "cast to float32")
    y = converted(s, y, x.dtype)
    number, base = y.number(), x.number()
    if number is not None and float(number).is_integer() and abs(number) <= _MOST_PRODUCTS:
        return _product_power(s, x, int(number))
    if number is not None and abs(number) == 0.5:
        root = s.unary("rsqrt", x)
        return root if number < 0 else s.unary("reciprocal", root)
    if base is not None and base > 0:
        return s.elementwise("pow", x, y)
    return _any_power(s, x, y)


def _any_power(s: Scope, x: Array, y: Array) -> Array:
    size, is_zero = s.unary("abs", x), s.equal(x, 0)
    made = s.elementwise("pow", s.select(is_zero, 1, size), y)
    of_zero = s.select(s.equal(y, 0), 1, np.inf, x.dtype)
    of_zero = s.select(s.greater(y, 0), 0, of_zero)
    made = s.select(is_zero, of_zero, made)
    # A negative base has powers with whole exponents; odd ones are negative.
    half = s.mul(y, 0.5)
    is_odd = s.negation(s.equal(s.unary("floor", half), half))
    is_whole = s.equal(s.unary("floor", y), y)
    negative = s.select(is_odd, s.unary("negate", made), made)
    negative = s.select(is_whole, negative, np.nan)
    return s.select(s.greater(0, x), negative, made)


# -- exponentials and logarithms -----------------------------------------------------------------


def exp2(step: Step) -> Array:
    s, (a,) = step.scope, step.inputs
    return s.elementwise("pow", constant(np.asarray(2, a.dtype)), a)


def expm1(step: Step) -> Array:
    (a,) = step.inputs
    return exponential_minus_1(step.scope, a)


def exponential_minus_1(s: Scope, x: Array) -> Array:
    """exp(x) - 1. Near 0 it is (u - 1) * x / log(u) for u = exp(x), whose errors cancel."""
    u = s.unary("exp", x)
    less = s.sub(u, 1)
    near = s.mul(less, divided(s, x, s.unary("log", u)))
    near = s.select(s.equal(u, 1), x, near)
    return s.select(s.greater(0.5, s.unary("abs", x)), near, less)


def log1p(step: Step) -> Array:
    (a,) = step.inputs
    return log_1_plus(step.scope, a)


def log_1_plus(s: Scope, x: Array) -> Array:
    """log(1 + x). Near 0 it is log(u) * x / (u - 1) for u = 1 + x, whose errors cancel."""
    u = s.add(x, 1)
    far = s.unary("log", u)
    near = s.mul(far, divided(s, x, s.sub(u, 1)))
    near = s.select(s.equal(u, 1), x, near)
    return s.select(s.greater(0.5, s.unary("abs", x)), near, far)


def erfc(step: Step) -> Array:
    s, (a,) = step.scope, step.inputs
    return s.sub(1, s.unary("erf", a))


def erf_inv(step: Step) -> Array:
    s, (x,) = step.scope, step.inputs
    w = s.unary("negate", s.unary("log", s.mul(s.sub(1, x), s.add(x, 1))))
    near = _polynomial(s, s.sub(w, 2.5), _INVERSE_NEAR)
    far = _polynomial(s, s.sub(square_root(s, w), 3.0), _INVERSE_FAR)
    # Infinity times 0 would not be a number at 1 and -1.
    far = s.select(s.equal(s.unary("abs", x), 1), np.inf, far)
    return s.mul(s.select(s.greater(5.0, w), near, far), x)


def is_finite(step: Step) -> Array:
    s, (a,) = step.scope, step.inputs
    return s.greater(np.inf, s.unary("abs", a))


# -- angles --------------------------------------------------------------------------------------


def tan(step: Step) -> Array:
    s, (a,) = step.scope, step.inputs
    return divided(s, s.unary("sin", a), s.unary("cos", a))


def arctangent(s: Scope, x: Array) -> Array:
    """By a polynomial of a number below tan(pi / 8), and the angles of pi / 4 and pi / 2."""
    size = s.unary("abs", x)
    is_large = s.greater(size, math.tan(3 * math.pi / 8))
    is_middle = s.both(s.greater(size, math.tan(math.pi / 8)), s.negation(is_large))
    inverse = s.unary("negate", s.unary("reciprocal", s.select(is_large, size, 1)))
    middle = divided(s, s.sub(size, 1), s.add(size, 1))
    small = s.select(is_large, inverse, s.select(is_middle, middle, size))
    offset = s.select(is_middle, s.aligned([math.pi / 4, x])[0], 0)
    offset = s.select(is_large, math.pi / 2, offset)
    square = s.mul(small, small)
    series = s.mul(s.mul(_polynomial(s, square, _ARCTANGENT), square), small)
    made = s.add(offset, s.add(series, small))
    return s.select(s.greater(0, x), s.unary("negate", made), made)


def angle(s: Scope, y: Array, x: Array) -> Array:
    """Return the angle of the point (x, y)."""
    size_y, size_x = s.unary("abs", y), s.unary("abs", x)
    is_steep = s.greater(size_y, size_x)
    above, below = s.select(is_steep, size_x, size_y), s.select(is_steep, size_y, size_x)
    both_infinite = s.equal(above, np.inf)
    ratio = divided(s, above, s.select(s.equal(below, 0), 1, below))
    made = arctangent(s, s.select(both_infinite, 1, ratio))
    made = s.select(is_steep, s.sub(math.pi / 2, made), made)
    made = s.select(s.greater(0, x), s.sub(math.pi, made), made)
    return s.select(s.greater(0, y), s.unary("negate", made), made)


def atan(step: Step) -> Array:
    (a,) = step.inputs
    return arctangent(step.scope, a)


def atan2(step: Step) -> Array:
    y, x = step.inputs
    return angle(step.scope, y, x)


def _cosine(s: Scope, x: Array) -> Array:
    """sqrt(1 - x^2)."""
    return square_root(s, s.mul(s.sub(1, x), s.add(x, 1)))


def asin(step: Step) -> Array:
    s, (a,) = step.scope, step.inputs
    return _outside(s, a, angle(s, a, _cosine(s, a)))


def acos(step: Step) -> Array:
    s, (a,) = step.scope, step.inputs
    return _outside(s, a, angle(s, _cosine(s, a), a))


def _outside(s: Scope, x: Array, made: Array) -> Array:
    """NaN where the size of x is above 1."""
    return s.select(s.greater(s.unary("abs", x), 1), np.nan, made)


def sinh(step: Step) -> Array:
    """Half of u + u / (u + 1) for u = exp(x) - 1, by the size of x."""
    s, (a,) = step.scope, step.inputs
    size = s.unary("abs", a)
    u = exponential_minus_1(s, size)
    made = s.mul(s.add(u, divided(s, u, s.add(u, 1))), 0.5)
    # exp(x) / 2 may be finite where exp(x) is not.
    large = s.unary("exp", s.sub(size, math.log(2)))
    made = s.select(s.greater(size, 10), large, made)
    return s.select(s.greater(0, a), s.unary("negate", made), made)


def cosh(step: Step) -> Array:
    s, (a,) = step.scope, step.inputs
    size, half = s.unary("abs", a), math.log(2)
    return s.add(s.unary("exp", s.sub(size, half)), s.unary("exp", s.sub(-half, size)))


def asinh(step: Step) -> Array:
    """log(1 + size + size^2 / (1 + sqrt(size^2 + 1))), with the sign of x."""
    s, (a,) = step.scope, step.inputs
    size = s.unary("abs", a)
    small = s.minimum(size, 1e4)
    square = s.mul(small, small)
    root = square_root(s, s.add(square, 1))
    made = log_1_plus(s, s.add(small, divided(s, square, s.add(root, 1))))
    large = s.add(s.unary("log", s.maximum(size, 1)), math.log(2))
    made = s.select(s.greater(size, 1e4), large, made)
    return s.select(s.greater(0, a), s.unary("negate", made), made)


def acosh(step: Step) -> Array:
    s, (a,) = step.scope, step.inputs
    less = s.sub(s.minimum(a, 1e4), 1)
    root = square_root(s, s.mul(less, s.add(less, 2)))
    made = log_1_plus(s, s.add(less, root))
    large = s.add(s.unary("log", s.maximum(a, 1)), math.log(2))
    return s.select(s.greater(a, 1e4), large, made)


def atanh(step: Step) -> Array:
    s, (a,) = step.scope, step.inputs
    difference = s.sub(log_1_plus(s, a), log_1_plus(s, s.unary("negate", a)))
    return s.mul(difference, 0.5)


# -- rounding ------------------------------------------------------------------------------------


def round_(step: Step) -> Array:
    """To whole numbers. CAST rounds to the nearest one, and to the even one of two."""
    s, (a,) = step.scope, step.inputs
    mantissa = {"float32": 23, "float16": 10, "bfloat16": 7}[str(a.dtype)]
    size = s.unary("abs", a)
    has_fraction = s.greater(float(2**mantissa), size)
    if step.params["rounding_method"].name == "TO_NEAREST_EVEN":
        whole = s.cast(s.cast(s.select(has_fraction, a, 0), INT32), a.dtype)
        return s.select(has_fraction, whole, a)
    down = s.unary("floor", size)
    whole = s.select(s.greater_equal(s.sub(size, down), 0.5), s.add(down, 1), down)
    whole = s.select(s.greater(0, a), s.unary("negate", whole), whole)
    return s.select(has_fraction, whole, a)


def logsumexp2(s: Scope, a: Array, b: Array) -> Array:
    """log(exp(a) + exp(b))."""
    high, low = s.maximum(a, b), s.minimum(a, b)
    difference = s.select(s.equal(high, low), 0, s.sub(low, high))
    return s.add(high, log_1_plus(s, s.unary("exp", difference)))
