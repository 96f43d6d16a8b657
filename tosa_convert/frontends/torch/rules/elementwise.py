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
from tosa_convert.frontends.lowering.quantisation import divided_once
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant
from tosa_convert.frontends.lowering.types import BOOL, FLOAT32, carrier, is_float, is_unsigned
from tosa_convert.frontends.torch.rules.node import Node, Rule, kind_of

# -- arithmetic ----------------------------------------------------------------------------------


def combined(s: Scope, word: str, a: Array, b: Array) -> Array:
    """Compute ADD, SUB or MUL of numbers of any type; integers wrap around."""
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


def _binary(function: Callable[..., Array], *, promotes: bool = False, **named: Any) -> Rule:
    """Return the rule of a function of two arrays, in the type of the result or of both operands."""

    def rule(n: Node, a: Any, b: Any) -> Array:
        kind = n.promoted() if promotes else n.dtype
        return function(n.scope, *n.arrays(a, b, dtype=kind), **named)

    return rule


def _divided_whole(n: Node, a: Any, b: Any, *, rounding_mode: str | None = None) -> Array:
    s, (x, y) = n.scope, n.arrays(a, b)
    if rounding_mode is None:
        return arithmetic.divided(s, x, y)
    if rounding_mode == "floor":
        return arithmetic.floor_quotient(s, x, y)
    return _truncated_quotient(n, x, y) if is_float(x.dtype) else arithmetic.div(s, x, y)


def _truncated_quotient(n: Node, x: Array, y: Array) -> Array:
    """Round the quotient of IEEE 754 to 0; where its error is not a number, it is infinite or small."""
    s, (x, y) = n.scope, n.arrays(x, y, dtype=FLOAT32)
    made = divided_once(s, x, y)
    made = s.select(functions.is_finite(s, made), made, arithmetic.divided(s, x, y))
    return arithmetic.truncated(s, n.convert(made, n.dtype))


def _extremum(s: Scope, x: Array, y: Array, *, name: str) -> Array:
    return arithmetic.extremum(s, name, x, y)


def _extremum_of_numbers(s: Scope, x: Array, y: Array, *, name: str) -> Array:
    """Return the number where one of the two is NaN."""
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
        return n.convert(functions.power(s, x, y), kind)
    return functions.power(s, *n.arrays(a, b))


# -- comparisons, truth values and bits ----------------------------------------------------------


def _shifted_right(s: Scope, x: Array, by: Array) -> Array:
    if is_unsigned(x.dtype):
        return arithmetic.shifted(s, x, by, "logical_right_shift")
    return arithmetic.shifted(s, x, by, "arithmetic_right_shift", round=False)


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


def _in_fp32(n: Node, *given: Any, function: Callable[..., Array]) -> Array:
    return n.convert(function(n.scope, *n.arrays(*given, dtype=FLOAT32)), n.dtype)


def _with_sign(s: Scope, x: Array, y: Array) -> Array:
    size = s.elementwise("abs", x)
    return s.select(functions.has_minus(s, y), s.elementwise("negate", size), size)


def _hypotenuse(s: Scope, x: Array, y: Array) -> Array:
    """Return the root of the sum of squares, which is infinite beside infinity, even of NaN."""
    sizes = [s.elementwise("abs", s.select(s.is_nan(one), 0, one)) for one in (x, y)]
    is_infinite = s.equal(s.elementwise("maximum", *sizes), math.inf)
    return s.select(is_infinite, math.inf, complex_numbers.magnitude(s, (x, y)))


def _operator(name: str) -> Unary:
    return lambda s, x: s.elementwise(name, x)


def _logarithm(base: float) -> Rule:
    scale = 1 / math.log(base)
    return partial(_in_fp32, function=lambda s, x: s.mul(s.elementwise("log", x), scale))


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


def _whole(n: Node, a: Array, *, function: Unary) -> Array:
    return function(n.scope, a) if is_float(a.dtype) else a


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
        return arithmetic.clip(n.scope, x, min(least, most), most)
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


def _gelu(n: Node, a: Array, *, approximate: str = "none") -> Array:
    function = activations.gelu_tanh if approximate == "tanh" else activations.gelu
    return _in_fp32(n, a, function=function)


def _dropout(n: Node, a: Array, p: float, train: bool | None) -> list[Array]:
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


#: Functions of the lowering that compute in FP32, by torch's names of them.
_FUNCTIONS: Final = {
    **{
        name: name
        for name in (
            *("expm1", "log1p", "exp2", "erfc", "tan", "atan", "asin", "acos", "sinh", "cosh"),
            *("asinh", "acosh", "atanh"),
        )
    },
    **dict.fromkeys(("erfinv", "special_erfinv"), "erf_inv"),
}
_OPERATORS: Final = (
    *("exp", "log", "sin", "cos", "tanh", "sigmoid", "erf", "rsqrt", "reciprocal"),
)

RULES: Final[dict[str, Rule]] = {
    **{word: partial(_arithmetic, word=word) for word in ("add", "sub", "mul")},
    "div": _divided_whole,
    "floor_divide": partial(_divided_whole, rounding_mode="floor"),
    "fmod": _binary(arithmetic.rem),
    "remainder": _binary(arithmetic.floor_remainder),
    **dict.fromkeys(("maximum", "max.other"), _binary(_extremum, name="maximum")),
    **dict.fromkeys(("minimum", "min.other"), _binary(_extremum, name="minimum")),
    "fmax": _binary(_extremum_of_numbers, name="maximum"),
    "fmin": _binary(_extremum_of_numbers, name="minimum"),
    "neg": lambda n, a: arithmetic.neg(n.scope, a),
    "abs": lambda n, a: arithmetic.abs_(n.scope, a),
    "sign": _sign,
    "sgn": _sign,
    "pow": _power,
    "gt": _binary(arithmetic.compared, promotes=True, name="greater"),
    "ge": _binary(arithmetic.compared, promotes=True, name="greater_equal"),
    "lt": _binary(arithmetic.compared, promotes=True, name="greater", is_flipped=True),
    "le": _binary(arithmetic.compared, promotes=True, name="greater_equal", is_flipped=True),
    "eq": _binary(arithmetic.equals, promotes=True),
    "ne": _binary(arithmetic.ne, promotes=True),
    **{
        f"logical_{word}": lambda n, a, b, word=word: n.scope.elementwise(
            f"logical_{word}", *n.arrays(a, b, dtype=BOOL)
        )
        for word in ("and", "or", "xor")
    },
    "logical_not": lambda n, a: n.scope.negation(n.convert(a, BOOL)),
    **{f"bitwise_{word}": _binary(arithmetic.bitwise, word=word) for word in ("and", "or", "xor")},
    "bitwise_not": lambda n, a: arithmetic.not_(n.scope, a),
    **dict.fromkeys(
        ("bitwise_left_shift", "__lshift__"), _binary(arithmetic.shifted, name="logical_left_shift")
    ),
    **dict.fromkeys(("bitwise_right_shift", "__rshift__"), _binary(_shifted_right)),
    "where": where,
    "isnan": partial(_test, function=Scope.is_nan, of_integers=False),
    "isfinite": partial(_test, function=functions.is_finite, of_integers=True),
    "isinf": partial(
        _test, function=lambda s, x: s.equal(s.elementwise("abs", x), math.inf), of_integers=False
    ),
    "signbit": _has_minus,
    "copysign": partial(_in_fp32, function=_with_sign),
    "atan2": partial(_in_fp32, function=functions.atan2),
    "hypot": partial(_in_fp32, function=_hypotenuse),
    "angle": partial(
        _in_fp32,
        function=lambda s, x: s.select(s.greater(0, x), math.pi, s.select(s.is_nan(x), x, 0)),
    ),
    **{name: partial(_unary, function=_operator(name)) for name in _OPERATORS},
    "sqrt": partial(_unary, function=functions.sqrt),
    "log2": _logarithm(2),
    "log10": _logarithm(10),
    **{
        name: partial(_in_fp32, function=getattr(functions, function))
        for name, function in _FUNCTIONS.items()
    },
    "floor": partial(_whole, function=_operator("floor")),
    "ceil": partial(_whole, function=_operator("ceil")),
    "trunc": partial(_whole, function=arithmetic.truncated),
    "round": _rounded,
    "clamp": clamp,
    "hardtanh": lambda n, a, low=-1.0, high=1.0: clamp(n, a, low, high),
    "clamp_min": clamp,
    "clamp_max": lambda n, a, high: clamp(n, a, None, high),
    "relu": lambda n, a: clamp(n, a, 0),
    "leaky_relu": lambda n, a, slope=0.01: activations.leaky_relu(n.scope, a, slope),
    "elu": lambda n, a, *numbers: activations.elu(n.scope, a, *numbers),
    "gelu": _gelu,
    "native_dropout": _dropout,
    "rrelu_with_noise_functional": _random_leaky_relu,
    "silu": partial(_in_fp32, function=activations.swish),
    "_to_copy": lambda n, a, **_: n.convert(a, n.dtype),
    "prims.convert_element_type": lambda n, a, dtype: n.convert(a, n.own(kind_of(dtype))),
}
