"""Elementwise operators: arithmetic, comparisons, bits, functions, activations and conversions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import torch

from tosa_convert.frontends.lowering import activations, arithmetic, complex_numbers, functions
from tosa_convert.frontends.lowering.limits import limits_of_result
from tosa_convert.frontends.lowering.quantization import divided_once
from tosa_convert.frontends.lowering.scope import (
    BOOL,
    FLOAT32,
    Array,
    NotLowered,
    Scope,
    carrier,
    constant,
    is_float,
    is_unsigned,
)
from tosa_convert.frontends.torch.rules.node import Node, Rule, kind_of

# -- arithmetic ----------------------------------------------------------------------------------


def combined(s: Scope, word: str, a: Array, b: Array) -> Array:
    """ADD, SUB or MUL of numbers of any type; integers wrap around."""
    if a.dtype == BOOL:
        return s.both(a, b) if word == "mul" else s.either(a, b)
    shape = np.broadcast_shapes(a.shape, b.shape)
    if word == "mul":
        for one, other in ((a, b), (b, a)):
            if other.number() == 1 and one.shape == shape:
                return one
    made = arithmetic.computed(s, word, a, b)
    if made.data is None:
        made.limits = limits_of_result(word, {}, [a, b], made)
    return made


def _arithmetic(n: Node, a: Any, b: Any, *, alpha: Any = 1, word: str) -> Array:
    x, y = n.arrays(a, b)
    if alpha != 1:
        x, y = n.arrays(x, combined(n.scope, "mul", *n.arrays(y, alpha)))
    return combined(n.scope, word, x, y)


def _division(n: Node, a: Any, b: Any) -> Array:
    return arithmetic.divided(n.scope, *n.arrays(a, b))


def _divided_whole(n: Node, a: Any, b: Any, *, rounding_mode: str | None = None) -> Array:
    """Lower `div` with a rounding mode, and `//`."""
    if rounding_mode is None:
        return _division(n, a, b)
    s, (x, y) = n.scope, n.arrays(a, b)
    if rounding_mode == "floor":
        return arithmetic.floor_quotient(s, x, y)
    return _truncated_quotient(n, x, y) if is_float(x.dtype) else arithmetic.div(s, x, y)


def _truncated_quotient(n: Node, x: Array, y: Array) -> Array:
    """Round the quotient of IEEE 754 to 0; where its error is not a number, it is infinite or small."""
    s, (x, y) = n.scope, n.arrays(x, y, dtype=FLOAT32)
    made = divided_once(s, x, y)
    made = s.select(functions.is_finite(s, made), made, arithmetic.divided(s, x, y))
    return arithmetic.truncated(s, n.convert(made, n.dtype))


def _remainder(n: Node, a: Any, b: Any, *, function: Callable[..., Array]) -> Array:
    return function(n.scope, *n.arrays(a, b))


def _extremum(n: Node, a: Any, b: Any, *, name: str) -> Array:
    return arithmetic.extremum(n.scope, name, *n.arrays(a, b))


def _extremum_of_numbers(n: Node, a: Any, b: Any, *, name: str) -> Array:
    """Return the number where one of the two is NaN."""
    s, (x, y) = n.scope, n.arrays(a, b)
    made = arithmetic.extremum(s, name, x, y)
    if not is_float(x.dtype):
        return made
    return s.select(s.is_nan(x), y, s.select(s.is_nan(y), x, made))


def _sign(n: Node, a: Array) -> Array:
    s = n.scope
    if is_float(a.dtype):  # That of NaN is 0.
        return s.select(s.greater(a, 0), 1, s.select(s.greater(0, a), -1, 0, a.dtype))
    return a if a.dtype == BOOL else arithmetic.sign(s, a)


def _power(n: Node, a: Any, b: Any) -> Array:
    s = n.scope
    kind = n.dtype
    if is_float(kind):
        exponent = b if not isinstance(b, Array) else b.number()
        if exponent is not None and float(exponent) == 2:
            (x,) = n.arrays(a)
            return s.mul(x, x)
        x, y = n.arrays(a, b, dtype=FLOAT32)
        if exponent is not None and math.isfinite(exponent) and (2 * exponent) % 1:
            return n.convert(_fractional_power(s, x, float(exponent)), kind)
        return n.convert(functions.power(s, x, y), kind)
    return functions.power(s, *n.arrays(a, b))


def _fractional_power(s: Scope, x: Array, exponent: float) -> Array:
    """Return a power of numbers above 0; POW is undefined for others, and for infinity."""
    is_inside = s.both(s.greater(x, 0.0), s.greater(math.inf, x))
    made = s.elementwise("pow", s.select(is_inside, x, 1.0), exponent)
    of_zero, of_infinity = (0.0, math.inf) if exponent > 0 else (math.inf, 0.0)
    size = s.elementwise("abs", x)
    at_end = s.select(s.equal(size, math.inf), of_infinity, math.nan, FLOAT32)
    at_end = s.select(s.equal(x, 0.0), of_zero, at_end)
    return s.select(is_inside, made, at_end)


# -- comparisons, truth values and bits ----------------------------------------------------------


def _comparison(n: Node, a: Any, b: Any, *, name: str, is_flipped: bool = False) -> Array:
    x, y = n.arrays(a, b, dtype=n.promoted(0, 1))
    return arithmetic.compared(n.scope, x, y, name, is_flipped)


def _equal(n: Node, a: Any, b: Any) -> Array:
    return arithmetic.equals(n.scope, *n.arrays(a, b, dtype=n.promoted(0, 1)))


def _not_equal(n: Node, a: Any, b: Any) -> Array:
    return arithmetic.ne(n.scope, *n.arrays(a, b, dtype=n.promoted(0, 1)))


def _logical(n: Node, a: Any, b: Any, *, word: str) -> Array:
    return n.scope.elementwise(f"logical_{word}", *n.arrays(a, b, dtype=BOOL))


def _logical_not(n: Node, a: Array) -> Array:
    return n.scope.negation(n.convert(a, BOOL))


def _bitwise(n: Node, a: Any, b: Any, *, word: str) -> Array:
    x, y = n.arrays(a, b)
    return arithmetic.bitwise(n.scope, x, y, word)


def _shifted(n: Node, a: Any, b: Any, *, is_left: bool) -> Array:
    x, by = n.arrays(a, b)
    if is_left:
        return arithmetic.shifted(n.scope, x, by, "logical_left_shift")
    if is_unsigned(x.dtype):
        return arithmetic.shifted(n.scope, x, by, "logical_right_shift")
    return arithmetic.shifted(n.scope, x, by, "arithmetic_right_shift", round=False)


def where(n: Node, condition: Array, yes: Any, no: Any) -> Array:
    """Return the elements of one tensor where a condition is true, of another elsewhere."""
    x, y = n.arrays(yes, no)
    rank = max(condition.rank, x.rank)
    test, x, y = (n.ranked(one, rank) for one in (n.convert(condition, BOOL), x, y))
    s = n.scope
    if x.dtype == BOOL and condition.dtype == BOOL:
        return s.select(test, x, y)
    held = [s.viewed(one, carrier(one.dtype)) for one in (x, y)]
    return s.viewed(s.select(test, *held), x.dtype)


def _test(n: Node, a: Array, *, function: Callable[..., Array], of_integers: bool) -> Array:
    """Test floating-point numbers for what is the same for all integers."""
    if is_float(a.dtype):
        return function(n.scope, a)
    return Array(BOOL, a.shape, np.full((1,) * a.rank, of_integers))


def _has_minus(n: Node, a: Array) -> Array:
    if is_float(a.dtype):
        return functions.has_minus(n.scope, a)
    return arithmetic.compared(n.scope, a, n.scope.aligned([0, a])[0], "greater", True)


# -- functions of floating point -----------------------------------------------------------------

#: A function of one array in floating point.
Unary = Callable[[Scope, Array], Array]


def _unary(n: Node, a: Any, *, function: Unary) -> Array:
    (x,) = n.arrays(a)
    return function(n.scope, x)


def _in_fp32(n: Node, a: Any, *, function: Unary) -> Array:
    (x,) = n.arrays(a, dtype=FLOAT32)
    return n.convert(function(n.scope, x), n.dtype)


def _of_two(n: Node, a: Any, b: Any, *, function: Callable[..., Array]) -> Array:
    """Compute a function of two arrays in FP32."""
    return n.convert(function(n.scope, *n.arrays(a, b, dtype=FLOAT32)), n.dtype)


def _with_sign(s: Scope, x: Array, y: Array) -> Array:
    size = s.elementwise("abs", x)
    return s.select(functions.has_minus(s, y), s.elementwise("negate", size), size)


def _hypotenuse(s: Scope, x: Array, y: Array) -> Array:
    """Return the root of the sum of squares, which is infinite beside infinity, even of NaN."""
    is_infinite = s.equal(s.elementwise("maximum", *_sizes_of_numbers(s, x, y)), math.inf)
    return s.select(is_infinite, math.inf, complex_numbers.magnitude(s, (x, y)))


def _sizes_of_numbers(s: Scope, *values: Array) -> list[Array]:
    return [s.elementwise("abs", s.select(s.is_nan(one), 0, one)) for one in values]


def _angle(s: Scope, x: Array) -> Array:
    return s.select(s.greater(0, x), math.pi, s.select(s.is_nan(x), x, 0))


def _operator(name: str) -> Rule:
    """Return the rule of a function that is an operator of TOSA."""
    return partial(_unary, function=lambda s, x: s.elementwise(name, x))


def _logarithm(base: float) -> Rule:
    scale = 1 / math.log(base)
    return partial(_in_fp32, function=lambda s, x: s.mul(s.elementwise("log", x), scale))


def _reciprocal(n: Node, a: Any) -> Array:
    (x,) = n.arrays(a)
    return n.scope.elementwise("reciprocal", x)


def _rounded(n: Node, a: Array, *, decimals: int = 0) -> Array:
    """Round to the nearest whole number, and to the even one of two: CAST does that."""
    if not is_float(a.dtype):
        return a
    if decimals:
        factor = constant(np.asarray(10.0 ** abs(decimals), FLOAT32))
        apart, back = (arithmetic.mul, arithmetic.divided)[:: 1 if decimals > 0 else -1]
        whole = functions.round_to_even(n.scope, apart(n.scope, n.convert(a, FLOAT32), factor))
        return n.convert(back(n.scope, whole, factor), a.dtype)
    return functions.round_to_even(n.scope, a)


def _whole(n: Node, a: Array, *, name: str) -> Array:
    return n.scope.elementwise(name, a) if is_float(a.dtype) else a


def _truncated(n: Node, a: Array) -> Array:
    return arithmetic.truncated(n.scope, a) if is_float(a.dtype) else a


# -- activations ---------------------------------------------------------------------------------


def clamp(n: Node, a: Array, low: Any = None, high: Any = None) -> Array:
    """Clamp to numbers or arrays; None is no bound. If the bounds cross, the result is the upper one."""
    s, kind = n.scope, n.dtype
    (x,) = n.arrays(a)
    numbers = [one for one in (low, high) if one is not None and not isinstance(one, Array)]
    if len(numbers) == 2 - (low, high).count(None) and is_float(kind):
        if any(math.isnan(one) for one in numbers):
            return Array(kind, x.shape, np.full((1,) * x.rank, np.nan, kind))
        least = -math.inf if low is None else low
        most = math.inf if high is None else high
        return n.clamp(x, min(least, most), most)
    for bound, name, word in ((low, "maximum", "min"), (high, "minimum", "max")):
        if bound is not None:
            x = arithmetic.extremum(s, name, *n.arrays(x, _held_bound(bound, kind, word)))
    return x


def _held_bound(bound: Any, kind: np.dtype[Any], word: str) -> Any:
    """Return what a bound is in an integer type that cannot hold it: releases of torch differ."""
    if isinstance(bound, Array) or is_float(kind):
        return bound
    bound, limits = int(bound), np.iinfo(kind)
    if limits.min <= bound <= limits.max:
        return bound
    end = limits.min if word == "min" else limits.max
    number = torch.tensor(end, dtype=getattr(torch, str(kind)))
    return int(torch.clamp(number, **{word: bound}))


def _relu(n: Node, a: Array) -> Array:
    return clamp(n, a, 0)


def _leaky_relu(n: Node, a: Array, slope: float = 0.01) -> Array:
    return activations.leaky_relu(n.scope, a, slope)


def _elu(n: Node, a: Array, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Array:
    return activations.elu(n.scope, a, alpha, scale, input_scale)


def _gelu(n: Node, a: Array, *, approximate: str = "none") -> Array:
    function = activations.gelu_tanh if approximate == "tanh" else activations.gelu
    return _in_fp32(n, a, function=function)


def _dropout(n: Node, a: Array, p: float, train: bool | None) -> list[Array]:
    """Keep all elements, as in inference."""
    if train is not False:
        raise NotLowered("it draws random numbers")
    return [a, Array(BOOL, a.shape, np.ones((1,) * a.rank, np.bool_))]


def _random_leaky_relu(
    n: Node, a: Array, noise: Array, low: float = 0.125, high: float = 1 / 3, *training: Any
) -> list[Array]:
    """Take the mean of the bounds as the slope, as in inference."""
    if training[:1] == (True,):
        raise NotLowered("it draws random numbers")
    return [activations.leaky_relu(n.scope, a, (low + high) / 2), noise]


# -- conversions ---------------------------------------------------------------------------------


def _to_copy(n: Node, a: Array, **_: Any) -> Array:
    return n.convert(a, n.dtype)


def _convert_element_type(n: Node, a: Array, dtype: Any) -> Array:
    return n.convert(a, n.own(kind_of(dtype)))


RULES: Final[dict[str, Rule]] = {
    "add": partial(_arithmetic, word="add"),
    "sub": partial(_arithmetic, word="sub"),
    "mul": partial(_arithmetic, word="mul"),
    "div": _division,
    "div.Tensor_mode": _divided_whole,
    "div.Scalar_mode": _divided_whole,
    "floor_divide": partial(_divided_whole, rounding_mode="floor"),
    "fmod": partial(_remainder, function=arithmetic.rem),
    "remainder": partial(_remainder, function=arithmetic.floor_remainder),
    "maximum": partial(_extremum, name="maximum"),
    "max.other": partial(_extremum, name="maximum"),
    "minimum": partial(_extremum, name="minimum"),
    "min.other": partial(_extremum, name="minimum"),
    "fmax": partial(_extremum_of_numbers, name="maximum"),
    "fmin": partial(_extremum_of_numbers, name="minimum"),
    "neg": lambda n, a: arithmetic.neg(n.scope, a),
    "abs": lambda n, a: arithmetic.abs_(n.scope, a),
    "sign": _sign,
    "sgn": _sign,
    "pow": _power,
    "gt": partial(_comparison, name="greater"),
    "ge": partial(_comparison, name="greater_equal"),
    "lt": partial(_comparison, name="greater", is_flipped=True),
    "le": partial(_comparison, name="greater_equal", is_flipped=True),
    "eq": _equal,
    "ne": _not_equal,
    **{f"logical_{word}": partial(_logical, word=word) for word in ("and", "or", "xor")},
    "logical_not": _logical_not,
    **{f"bitwise_{word}": partial(_bitwise, word=word) for word in ("and", "or", "xor")},
    "bitwise_not": lambda n, a: arithmetic.not_(n.scope, a),
    **dict.fromkeys(("bitwise_left_shift", "__lshift__"), partial(_shifted, is_left=True)),
    **dict.fromkeys(("bitwise_right_shift", "__rshift__"), partial(_shifted, is_left=False)),
    "where": where,
    "isnan": partial(_test, function=Scope.is_nan, of_integers=False),
    "isfinite": partial(_test, function=functions.is_finite, of_integers=True),
    "isinf": partial(
        _test, function=lambda s, x: s.equal(s.elementwise("abs", x), math.inf), of_integers=False
    ),
    "signbit": _has_minus,
    "copysign": partial(_of_two, function=_with_sign),
    "atan2": partial(_of_two, function=functions.atan2),
    "hypot": partial(_of_two, function=_hypotenuse),
    "angle": partial(_in_fp32, function=_angle),
    **{
        name: _operator(name)
        for name in ("exp", "log", "sin", "cos", "tanh", "sigmoid", "erf", "rsqrt")
    },
    "sqrt": partial(_unary, function=functions.sqrt),
    "reciprocal": _reciprocal,
    "log2": _logarithm(2),
    "log10": _logarithm(10),
    **{
        name: partial(_in_fp32, function=getattr(functions, function))
        for name, function in (
            *(
                (name, name)
                for name in (
                    *("expm1", "log1p", "exp2", "erfc", "tan", "atan", "asin", "acos", "sinh"),
                    *("cosh", "asinh", "acosh", "atanh"),
                )
            ),
            *(("erfinv", "erf_inv"), ("special_erfinv", "erf_inv")),
        )
    },
    "floor": partial(_whole, name="floor"),
    "ceil": partial(_whole, name="ceil"),
    "trunc": _truncated,
    "round": _rounded,
    "clamp": clamp,
    "hardtanh": lambda n, a, low=-1.0, high=1.0: clamp(n, a, low, high),
    "clamp_min": lambda n, a, low: clamp(n, a, low),
    "clamp_max": lambda n, a, high: clamp(n, a, None, high),
    "relu": _relu,
    "leaky_relu": _leaky_relu,
    "elu": _elu,
    "gelu": _gelu,
    "native_dropout": _dropout,
    "rrelu_with_noise_functional": _random_leaky_relu,
    "silu": partial(_in_fp32, function=activations.silu),
    "_to_copy": _to_copy,
    "prims.convert_element_type": _convert_element_type,
}
