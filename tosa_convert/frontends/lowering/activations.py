"""Activation functions of floating-point numbers, with few operators."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from tosa_convert.frontends.lowering.arithmetic import clip, divided, mul
from tosa_convert.frontends.lowering.scope import Array, Operand, Scope, constant

#: Above this number, mish(x) is x in FP32.
_LARGE: Final = 20.0


def scaled(s: Scope, x: Array, by: float) -> Array:
    """Multiply by a number; by 1 it is the array itself."""
    return mul(s, x, constant(np.asarray(by).astype(x.dtype)))


# -- bounded ones --------------------------------------------------------------------------------


def relu(s: Scope, x: Array) -> Array:
    return clip(s, x, 0.0, np.inf)


def hard_sigmoid(s: Scope, x: Array, slope: float = 1 / 6, offset: float = 0.5) -> Array:
    """Return max(0, min(1, slope * x + offset))."""
    return clip(s, s.add(scaled(s, x, slope), offset), 0.0, 1.0)


def hard_swish(s: Scope, x: Array) -> Array:
    return s.mul(x, hard_sigmoid(s, x))


def thresholded_relu(s: Scope, x: Array, threshold: float = 1.0, value: float = 0.0) -> Array:
    """Return x where it is above a threshold, and a value elsewhere."""
    return s.select(s.greater(x, threshold), x, value)


def shrink(s: Scope, x: Array, limit: float = 0.5, bias: float = 0.0) -> Array:
    """Move numbers beyond `limit` by `bias` to 0; others, and NaN, become 0."""
    low, high = (x, x) if bias == 0 else (s.add(x, bias), s.sub(x, bias))
    made = s.select(s.greater(-limit, x), low, 0)
    return s.select(s.greater(x, limit), high, made)


# -- slopes --------------------------------------------------------------------------------------


def leaky_relu(s: Scope, x: Array, slope: Operand = 0.01) -> Array:
    """Return x, or slope * x where x is negative. slope: a number, or an array that broadcasts to x."""
    if not isinstance(slope, Array):
        slope = constant(np.asarray(slope).astype(x.dtype))
    product = s.mul(x, slope)
    if slope.data is not None and bool(((slope.data > 0) & (slope.data <= 1)).all()):
        return s.maximum(x, product)
    return s.select(s.greater_equal(x, 0), x, product)


def elu(s: Scope, x: Array, alpha: float = 1.0, scale: float = 1.0, inner: float = 1.0) -> Array:
    """Compute scale * x, or scale * alpha * (exp(inner * x) - 1) where x is not positive."""
    less = s.sub(s.elementwise("exp", scaled(s, x, inner)), 1)
    return s.select(s.greater(x, 0), scaled(s, x, scale), scaled(s, less, alpha * scale))


def celu(s: Scope, x: Array, alpha: float = 1.0) -> Array:
    """Return max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    if alpha > 0:
        return elu(s, x, alpha, 1.0, 1 / alpha)
    less = s.sub(s.elementwise("exp", scaled(s, x, 1 / alpha)), 1)
    return s.add(relu(s, x), clip(s, scaled(s, less, alpha), -np.inf, 0.0))


# -- smooth ones ---------------------------------------------------------------------------------


def swish(s: Scope, x: Array, beta: float = 1.0) -> Array:
    """Compute x * sigmoid(beta * x)."""
    return s.mul(x, s.elementwise("sigmoid", scaled(s, x, beta)))


def gelu(s: Scope, x: Array) -> Array:
    """Compute x * (1 + erf(x / sqrt(2))) / 2."""
    share = s.add(s.elementwise("erf", s.mul(x, math.sqrt(0.5))), 1)
    return s.mul(s.mul(x, 0.5), share)


def gelu_tanh(s: Scope, x: Array) -> Array:
    """Compute x * (1 + tanh(u)) / 2 as x * sigmoid(2 * u); u is sqrt(2 / pi) * (x + 0.044715 * x^3)."""
    slope = 2 * math.sqrt(2 / math.pi)
    inner = s.mul(x, s.add(s.mul(s.mul(x, x), slope * 0.044715), slope))
    return s.mul(x, s.elementwise("sigmoid", inner))


def softplus(s: Scope, x: Array) -> Array:
    """Return log(1 + exp(x)), which is max(x, 0) + log(1 + exp(-|x|)) and does not overflow."""
    power = s.elementwise("exp", s.elementwise("negate", s.elementwise("abs", x)))
    return s.add(relu(s, x), s.elementwise("log", s.add(power, 1)))


def mish(s: Scope, x: Array) -> Array:
    """Compute x * tanh(softplus(x)): tanh(log(1 + u)) is n / (n + 2), for n = u * (u + 2)."""
    u = s.elementwise("exp", clip(s, x, -np.inf, _LARGE))
    n = s.mul(u, s.add(u, 2))
    return s.mul(x, s.mul(n, s.elementwise("reciprocal", s.add(n, 2))))


def softsign(s: Scope, x: Array) -> Array:
    return divided(s, x, s.add(s.elementwise("abs", x), 1))
