"""Elementwise operators, with ONNX's broadcasting, and casts as onnxruntime makes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, Final

import ml_dtypes
import numpy as np
from onnx import TensorProto

from tosa_convert.frontends.lowering import activations, arithmetic, functions, movement
from tosa_convert.frontends.lowering.arithmetic import float_to_uint32, truncated
from tosa_convert.frontends.lowering.conversion import bitcast, converted
from tosa_convert.frontends.lowering.quantisation import limits, quantized_fp8
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant, whole_data
from tosa_convert.frontends.lowering.types import (
    BOOL,
    FLOAT32,
    INT32,
    carrier,
    is_float,
    is_small,
    is_unsigned,
)
from tosa_convert.frontends.onnx.node import Node, Rule, plain

#: Exponents of integers up to this one are products: 2**31 does not fit INT32.
_MOST_FACTORS: Final = 31
#: Operators of TOSA, and functions of the lowering that compute in FP32, by their names in ONNX.
_OPERATORS: Final = (
    *("Ceil", "Cos", "Erf", "Exp", "Floor", "Log", "Reciprocal", "Sigmoid", "Sin", "Tanh"),
)
_FUNCTIONS: Final = ("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Sinh")


def ranked(s: Scope, *arrays: Array) -> list[Array]:
    """Return arrays of one rank, with sizes of 1 before those of shorter shapes."""
    rank = max(a.rank for a in arrays)
    return [movement.reshape(s, a, ((1,) * (rank - a.rank) + a.shape)) for a in arrays]


def with_old_axis(n: Node) -> list[Array]:
    """Return the operands; up to opset 6 the second one is placed by the attribute `axis`."""
    a, b = n.arrays
    axis = n.get("axis")
    if n.since < 7 and n.get("broadcast", 0) and axis is not None:
        axis = int(axis) % a.rank
        b = movement.reshape(n.scope, b, (*b.shape, *(1,) * (a.rank - axis - b.rank)))
    return ranked(n.scope, a, b)


def _binary(function: Callable[..., Array], **named: Any) -> Rule:
    return lambda n: function(n.scope, *with_old_axis(n), **named)


def _operator(name: str) -> Rule:
    return lambda n: n.scope.elementwise(name, n.array(0))


# -- arithmetic ----------------------------------------------------------------------------------


def added(s: Scope, a: Array, b: Array) -> Array:
    """Add numbers. A sum of INT32 that wraps around is not defined in TOSA."""
    for x, zero in ((a, b), (b, a)):
        if zero.number() == 0 and is_float(x.dtype) is False:
            shape = np.broadcast_shapes(a.shape, b.shape)
            if x.shape == shape:
                return x
    return _plain(s, "add", a, b)


def _plain(s: Scope, name: str, a: Array, b: Array) -> Array:
    if a.dtype == INT32 or is_float(a.dtype):
        return s.elementwise(name, a, b)
    return arithmetic.computed(s, name, a, b)


def divided(s: Scope, a: Array, b: Array) -> Array:
    """Divide numbers; a division by 0, and that of the least integer by -1, are not defined."""
    if a.data is not None and b.data is not None and is_float(a.dtype):
        with np.errstate(all="ignore"):
            return constant(a.data / b.data)
    if b.number() == 1:
        return arithmetic.mul(s, a, b)
    if is_float(a.dtype) or (is_unsigned(a.dtype) and not is_small(a.dtype)):
        return arithmetic.div(s, a, b)
    return arithmetic.by_int32(lambda s, x, y: s.elementwise("intdiv", x, y))(s, a, b)


def _modulo(n: Node) -> Array:
    """Return the remainder with the sign of the divisor, or with `fmod` of the dividend."""
    s = n.scope
    a, b = ranked(s, *n.arrays)
    if is_float(a.dtype):
        if not n.get("fmod", 0):
            raise NotLowered("ONNX has Mod of real numbers with fmod=1 only")
        return arithmetic.rem(s, a, b)
    if is_unsigned(a.dtype) and not is_small(a.dtype):
        if n.get("fmod", 0) and a.dtype.itemsize == 8 and not s.narrows:
            raise NotLowered("onnxruntime rounds uint64 to FP64 for fmod=1", "use fmod=0")
        return arithmetic.rem(s, a, b)
    moves = not n.get("fmod", 0) and not is_unsigned(a.dtype)

    def remainder(s: Scope, x: Array, y: Array) -> Array:
        rest = s.sub(x, s.mul(s.elementwise("intdiv", x, y), y))
        return arithmetic.to_sign_of(s, rest, y) if moves else rest

    return arithmetic.by_int32(remainder)(s, a, b)


def _power(n: Node) -> Array:
    """Return a power: by products where FP32 is not exact or TOSA's POW is not defined."""
    s = n.scope
    a, b = ranked(s, *n.arrays) if n.since < 13 else n.arrays
    number = b.number()
    shape = np.broadcast_shapes(a.shape, b.shape)
    if number is not None:
        number = float(number)
        whole = number.is_integer() and abs(number) < _MOST_FACTORS
        if whole and (is_float(a.dtype) or number >= 0):
            made = functions.integer_power(s, a, int(number))
            return movement.broadcast_to(s, made, shape)
        if abs(number) == 0.5 and is_float(a.dtype):  # Of minus infinity it is infinity, or 0.
            root = s.elementwise(
                "abs", functions.power(s, a, b)
            )  # The inverse of -0.0 is negative.
            made = s.select(s.equal(a, -np.inf), np.inf if number > 0 else 0, root, a.dtype)
            return movement.broadcast_to(s, made, shape)
    return functions.power(s, *ranked(s, a, b))


# -- comparisons ---------------------------------------------------------------------------------


def equals(s: Scope, a: Array, b: Array) -> Array:
    if a.data is not None and b.data is not None:
        return constant(np.asarray(a.data == b.data))
    return arithmetic.equals(s, *ranked(s, a, b))


def _is_inf(n: Node) -> Array:
    s, x = n.scope, n.array(0)
    positive, negative = n.get("detect_positive", 1), n.get("detect_negative", 1)
    if is_float(x.dtype) and np.dtype(x.dtype).itemsize == 1:
        x = converted(s, x, np.float32)
    if positive and negative:
        return s.equal(s.elementwise("abs", x), np.inf)
    if positive or negative:
        return s.equal(x, np.inf if positive else -np.inf)
    return Array(BOOL, x.shape, np.zeros((1,) * x.rank, np.bool_))


def _is_nan(s: Scope, x: Array) -> Array:
    if np.dtype(x.dtype).itemsize == 1:
        x = converted(s, x, np.float32)
    return s.is_nan(x)


def _where(n: Node) -> Array:
    s = n.scope
    condition, yes, no = ranked(s, *n.arrays)
    kind = yes.dtype
    made = s.select(condition, *(s.viewed(item, carrier(kind)) for item in (yes, no)))
    return s.viewed(made, kind)


def _extreme_of_all(name: str) -> Rule:
    def rule(n: Node) -> Array:
        s = n.scope
        arrays = ranked(s, *n.arrays)
        # Constants first, so that one operator takes them.
        arrays.sort(key=lambda a: not a.is_constant)
        return reduce(lambda a, b: arithmetic.extremum(s, name, b, a), arrays)

    return rule


def _sum(n: Node) -> Array:
    return reduce(lambda a, b: added(n.scope, *ranked(n.scope, a, b)), n.arrays)


def _mean(n: Node) -> Array:
    total = _sum(n)
    count = len(n.given)
    return total if count == 1 else n.scope.mul(total, 1 / count)


# -- bounds --------------------------------------------------------------------------------------


def _clip(n: Node) -> Array:
    """Bound numbers; the upper bound counts where they are the wrong way round.

    onnxruntime bounds reals by the greatest number where a bound is left out.
    """
    s, x = n.scope, n.array(0)
    low, high = n.optional(1), n.optional(2)
    if n.since < 11:
        given = (n.get("min"), n.get("max"))
        low, high = (None if v is None else constant(np.asarray(v, x.dtype)) for v in given)
    if not is_float(x.dtype):
        made = x
        for name, bound in (("maximum", low), ("minimum", high)):
            if bound is not None:
                made = arithmetic.extremum(s, name, *ranked(s, made, bound))
        return made
    kind = FLOAT32 if n.since < 12 else x.dtype  # Before, onnxruntime bounds FP32 only.
    with np.errstate(over="ignore"):
        most = np.asarray(ml_dtypes.finfo(kind).max).astype(x.dtype)  # type: ignore[no-untyped-call]
    low = constant(-most) if low is None else low
    high = constant(most) if high is None else high
    ends = low.number(), high.number()
    if None not in ends and not any(np.isnan(float(end)) for end in ends):
        return arithmetic.clip(s, x, *map(float, ends))
    made = s.maximum(*ranked(s, x, low))
    return s.minimum(*ranked(s, made, high))


def _relu(s: Scope, x: Array) -> Array:
    if is_float(x.dtype):
        return activations.relu(s, x)
    if is_unsigned(x.dtype):
        return x
    return arithmetic.extremum(s, "maximum", *ranked(s, x, constant(np.zeros((), x.dtype))))


# -- bits ----------------------------------------------------------------------------------------


def _shift(n: Node) -> Array:
    a, by = ranked(n.scope, *n.arrays)
    word = "left" if n.get("direction") == "LEFT" else "right"
    return arithmetic.shifted(n.scope, a, by, f"logical_{word}_shift")


# -- activations ---------------------------------------------------------------------------------


def _prelu(n: Node) -> Array:
    s, (x, slope) = n.scope, n.arrays
    if n.since < 7 and slope.rank == 1:
        slope = movement.reshape(s, slope, (slope.size, *(1,) * (x.rank - 2)))
    x, slope = ranked(s, x, slope)
    if is_float(x.dtype):
        return activations.leaky_relu(s, x, slope)
    zero = constant(np.zeros((1,) * x.rank, x.dtype))
    negative = arithmetic.compared(s, zero, x, "greater")
    if is_unsigned(x.dtype):
        return x
    return s.select(negative, arithmetic.computed(s, "mul", x, slope), x)


def _gelu(s: Scope, x: Array, approximate: str) -> Array:
    return activations.gelu_tanh(s, x) if approximate == "tanh" else activations.gelu(s, x)


def _shrink(s: Scope, x: Array, lambd: float, bias: float) -> Array:
    if is_float(x.dtype):
        return activations.shrink(s, x, lambd, bias)
    wide = converted(s, x, np.float32)
    return converted(s, activations.shrink(s, wide, lambd, bias), x.dtype)


# -- casts -----------------------------------------------------------------------------------------

FP8: Final = (np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2))
#: Types of 2 and 4 bits, and ONNX's numbers of them; those of 2 bits are of onnx 1.20.
_FEW: Final = {np.dtype(getattr(ml_dtypes, name)) for name in ("int2", "int4", "uint2", "uint4")}
_FEW_NUMBERS: Final = {
    getattr(TensorProto, name)
    for name in ("INT2", "INT4", "UINT2", "UINT4")
    if hasattr(TensorProto, name)
}


def held_in_bytes(model: Any) -> list[str]:
    """Return remarks on the inputs and outputs of such integers."""
    return [
        f"{info.name} has 8 bits, since TOSA's CAST takes no integers of fewer"
        for info in (*model.graph.input, *model.graph.output)
        if info.type.tensor_type.elem_type in _FEW_NUMBERS
    ]


def cast(s: Scope, a: Array, dtype: Any, *, saturates: bool = True) -> Array:
    """Convert an array; real numbers lose their fractions, and integers their high bits."""
    target = np.dtype(dtype)
    if a.dtype == target:
        return a
    if target.kind in "OSU" or np.dtype(a.dtype).kind in "OSU":
        raise NotLowered("TOSA has tensors of numbers only, not text")
    if target in _FEW or a.dtype in _FEW:
        return _few_bits(s, a, target)
    if target in FP8:
        real = a if is_float(a.dtype) and a.dtype not in FP8 else converted(s, a, FLOAT32)
        return quantized_fp8(s, real, target, saturates)
    if a.dtype in FP8 and not is_float(target):
        return cast(s, converted(s, a, FLOAT32), target)
    if is_float(a.dtype) and is_small(target) and target != BOOL:
        # By INT32: its low bits are what onnxruntime keeps.
        return s.narrowed(s.cast(truncated(s, a), INT32), target)
    if is_float(a.dtype) and target == np.uint32:
        wide = s.maximum(converted(s, a, FLOAT32), 0.0)
        return float_to_uint32(s, s.elementwise("floor", wide))
    return converted(s, a, target)


def _few_bits(s: Scope, a: Array, dtype: Any) -> Array:
    """Convert from or to a type of few bits, which 8 bits hold: TOSA's CAST takes none of fewer.

    onnxruntime rounds real numbers, halves away from zero, and keeps the lowest bits of integers.
    """
    target = np.dtype(dtype)
    if a.dtype in _FEW:
        if a.data is not None:
            wide = constant(whole_data(a).astype(np.int8))
        else:
            wide = Array(np.dtype(np.int8), a.shape, None, a.value)
        return _few_bits(s, wide, target) if target in _FEW else converted(s, wide, target)
    if is_float(a.dtype):
        real = converted(s, a, FLOAT32)
        away = s.select(s.greater(0, real), -0.5, 0.5, FLOAT32)
        whole = converted(s, s.add(real, away), INT32)
    else:
        whole = converted(s, a, INT32)
    least, greatest = limits(target)
    size = greatest - least + 1
    wrapped = s.elementwise("bitwise_and", whole, size - 1)
    if least:
        wrapped = s.sub(s.elementwise("bitwise_xor", wrapped, size // 2), size // 2)
    if wrapped.data is not None:
        return Array(target, a.shape, wrapped.data.astype(target))
    return Array(target, a.shape, None, s.value(s.cast(wrapped, np.int8)))


def _cast(n: Node) -> Array:
    target = n.array(1).dtype if n.kind == "CastLike" else n.walk.dtype(int(n.get("to")))
    return cast(n.scope, n.array(0), target, saturates=bool(n.get("saturate", 1)))


def _bit_cast(n: Node) -> Array:
    target = n.walk.dtype(int(n.get("to")))
    a = n.array(0)
    if np.dtype(a.dtype).itemsize != target.itemsize:
        raise NotLowered(f"{a.dtype} and {target} do not have the same number of bits")
    if a.data is not None:
        return Array(target, a.shape, a.data.view(target))
    if a.dtype == BOOL:
        return converted(n.scope, a, target)
    if target == BOOL:
        raise NotLowered("TOSA does not reinterpret the bits of numbers as truth values")
    return bitcast(n.scope, a, target)


RULES: Final[dict[str, Rule]] = {
    **{name: _operator(name.lower()) for name in _OPERATORS},
    **{name: plain(functions.in_fp32(getattr(functions, name.lower()))) for name in _FUNCTIONS},
    "And": _binary(Scope.both),
    "Or": _binary(Scope.either),
    "Xor": _binary(lambda s, a, b: s.elementwise("logical_xor", a, b)),
    **{
        f"Bitwise{word}": _binary(arithmetic.bitwise, word=word.lower())
        for word in ("And", "Or", "Xor")
    },
    "Abs": plain(arithmetic.abs_),
    "Add": _binary(added),
    "BitShift": _shift,
    "BitwiseNot": plain(arithmetic.not_),
    "Celu": plain(activations.celu, "alpha"),
    "Clip": _clip,
    "Div": _binary(divided),
    "Elu": plain(activations.elu, "alpha"),
    "Equal": _binary(equals),
    "Gelu": plain(_gelu, "approximate"),
    "Greater": _binary(arithmetic.compared, name="greater"),
    "GreaterOrEqual": _binary(arithmetic.compared, name="greater_equal"),
    "HardSigmoid": plain(activations.hard_sigmoid, "alpha", "beta"),
    "HardSwish": plain(activations.hard_swish),
    "IsInf": _is_inf,
    "IsNaN": plain(_is_nan),
    "LeakyRelu": plain(activations.leaky_relu, "alpha"),
    "Less": _binary(arithmetic.compared, name="greater", is_flipped=True),
    "LessOrEqual": _binary(arithmetic.compared, name="greater_equal", is_flipped=True),
    "Max": _extreme_of_all("maximum"),
    "Mean": _mean,
    "Min": _extreme_of_all("minimum"),
    "Mish": plain(functions.in_fp32(activations.mish)),
    "Mod": _modulo,
    "Mul": _binary(arithmetic.mul),
    "Neg": plain(arithmetic.neg),
    "Not": plain(arithmetic.not_),
    "PRelu": _prelu,
    "Pow": _power,
    "Relu": plain(_relu),
    "Round": plain(functions.round_to_even),
    "Selu": plain(activations.elu, "alpha", "gamma"),
    "Shrink": plain(_shrink, "lambd", "bias"),
    "Sign": plain(arithmetic.sign),
    "Softplus": plain(activations.softplus),
    "Softsign": plain(activations.softsign),
    "Sqrt": plain(functions.sqrt),
    "Sub": _binary(lambda s, a, b: _plain(s, "sub", a, b)),
    "Sum": _sum,
    "Swish": plain(activations.swish, "alpha"),
    "Tan": plain(functions.tan),
    "ThresholdedRelu": plain(activations.thresholded_relu, "alpha"),
    "Where": _where,
    "BitCast": _bit_cast,
    "Cast": _cast,
    "CastLike": _cast,
}
