"""Complex numbers as pairs of arrays: the real parts, and the imaginary parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import movement
from tosa_convert.frontends.lowering.arithmetic import divided as quotient
from tosa_convert.frontends.lowering.functions import atan2, sqrt
from tosa_convert.frontends.lowering.products import by_matrix
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant

Pair = tuple[Array, Array]
#: The longest Fourier transform: it is a product with a matrix of the square of its length.
_MOST_LENGTH: Final = 2048
#: The greatest exponent of a power.
_MOST_FACTORS: Final = 8
ADVICE: Final = "compute with real and imaginary parts as two arrays"


def is_complex(dtype: Any) -> bool:
    return getattr(dtype, "kind", "") == "c"


def real_kind(dtype: Any) -> Any:
    """Return the element type of the parts of complex numbers; others are their own."""
    return np.zeros((), dtype).real.dtype if is_complex(dtype) else dtype


def parts_of(data: Any) -> Pair:
    real, imag = (constant(np.array(part, order="C")) for part in (data.real, data.imag))
    return real, imag


def of_real(x: Array) -> Pair:
    return x, _zero(x, x.shape)


def _zero(x: Array, shape: Sequence[int]) -> Array:
    return Array(x.dtype, tuple(shape), np.zeros((1,) * x.rank, x.dtype))


# -- arithmetic ----------------------------------------------------------------------------------


def mul(s: Scope, x: Pair, y: Pair) -> Pair:
    real = s.sub(s.mul(x[0], y[0]), s.mul(x[1], y[1]))
    return real, s.add(s.mul(x[0], y[1]), s.mul(x[1], y[0]))


def contracted(s: Scope, x: Pair, y: Pair, dot: Callable[[Array, Array], Array]) -> Pair:
    """Multiply by a product of real numbers, such as that of matrices; a part of zeros is left out."""
    if x[1].number() == 0:
        return dot(x[0], y[0]), dot(x[0], y[1])
    if y[1].number() == 0:
        return dot(x[0], y[0]), dot(x[1], y[0])
    real = s.sub(dot(x[0], y[0]), dot(x[1], y[1]))
    return real, s.add(dot(x[0], y[1]), dot(x[1], y[0]))


def scaled(s: Scope, x: Pair, by: Array) -> Pair:
    return s.mul(x[0], by), s.mul(x[1], by)


def divided(s: Scope, x: Pair, y: Pair) -> Pair:
    """Divide by Smith's method: no square overflows."""
    is_real = s.greater_equal(s.elementwise("abs", y[0]), s.elementwise("abs", y[1]))
    large, small = s.select(is_real, y[0], y[1]), s.select(is_real, y[1], y[0])
    ratio = s.select(s.equal(large, 0), 0, quotient(s, small, large))
    size = s.add(large, s.mul(small, ratio))
    own, other = (s.mul(part, ratio) for part in x)
    real = s.select(is_real, s.add(x[0], other), s.add(own, x[1]))
    imag = s.select(is_real, s.sub(x[1], own), s.sub(other, x[0]))
    return quotient(s, real, size), quotient(s, imag, size)


def conjugate(s: Scope, x: Pair) -> Pair:
    return x[0], s.elementwise("negate", x[1])


def integer_power(s: Scope, x: Pair, exponent: int) -> Pair:
    if not 1 <= exponent <= _MOST_FACTORS:
        raise NotLowered(f"a complex number to the power of {exponent}", ADVICE)
    made = x
    for _ in range(exponent - 1):
        made = mul(s, made, x)
    return made


def equals(s: Scope, x: Pair, y: Pair) -> Array:
    return s.both(s.equal(x[0], y[0]), s.equal(x[1], y[1]))


# -- functions -----------------------------------------------------------------------------------


def magnitude(s: Scope, x: Pair) -> Array:
    """Return the absolute values, of which no square overflows."""
    sizes = [s.elementwise("abs", part) for part in x]
    low, high = s.minimum(*sizes), s.maximum(*sizes)
    # Neither 0 by 0 nor infinity by infinity is a number.
    ratio = s.select(s.equal(low, high), 1, quotient(s, low, high))
    return s.mul(high, sqrt(s, s.add(s.mul(ratio, ratio), 1)))


def angle(s: Scope, x: Pair) -> Array:
    return atan2(s, x[1], x[0])


def polar(s: Scope, size: Array, turn: Array) -> Pair:
    return s.mul(size, s.elementwise("cos", turn)), s.mul(size, s.elementwise("sin", turn))


def root(s: Scope, x: Pair) -> Pair:
    """Return the square roots whose real parts are not negative."""
    size = magnitude(s, x)
    real, imag = (
        sqrt(s, s.mul(s.maximum(part, 0), 0.5)) for part in (s.add(size, x[0]), s.sub(size, x[0]))
    )
    return real, s.select(s.greater(0, x[1]), s.elementwise("negate", imag), imag)


def exponential(s: Scope, x: Pair) -> Pair:
    return polar(s, s.elementwise("exp", x[0]), x[1])


def logarithm(s: Scope, x: Pair) -> Pair:
    return s.elementwise("log", magnitude(s, x)), angle(s, x)


# -- Fourier transforms --------------------------------------------------------------------------


def transformed(s: Scope, x: Pair, axes: Sequence[int], is_inverse: bool = False) -> Pair:
    """Transform axes; the inverse divides by their lengths."""
    for axis in axes:
        length = x[0].shape[axis]
        cosines, sines = _waves(length)
        if is_inverse:
            cosines, sines = cosines / length, -sines / length
        real, imag = (_along(s, part, axis, cosines) for part in x)
        turned = [_along(s, part, axis, sines) for part in x]
        real = real if turned[1].number() == 0 else s.add(real, turned[1])
        is_real = imag.number() == 0
        x = real, s.elementwise("negate", turned[0]) if is_real else s.sub(imag, turned[0])
    return x


def transformed_real(s: Scope, x: Array, axis: int) -> Pair:
    """Transform an axis of real numbers to half of its spectrum."""
    length = x.shape[axis]
    cosines, sines = (wave[:, : length // 2 + 1] for wave in _waves(length))
    return _along(s, x, axis, cosines), _along(s, x, axis, -sines)


def real_from_half(s: Scope, x: Pair, axis: int, length: int) -> Array:
    """Transform half of a spectrum back to so many real numbers."""
    half = length // 2 + 1
    # The half spectrum leaves out conjugates: all numbers but the first and the middle one count twice.
    weights = np.full(half, 2 / length)
    weights[0] /= 2
    if length % 2 == 0:
        weights[-1] /= 2
    cosines, sines = (weights[:, None] * wave[:half] for wave in _waves(length))
    return s.sub(_along(s, x[0], axis, cosines), _along(s, x[1], axis, sines))


def _waves(length: int) -> tuple[Any, Any]:
    """Return cosines and sines of the angles of a transform."""
    if length > _MOST_LENGTH:
        reason = f"a Fourier transform of length {length}; the longest has {_MOST_LENGTH}"
        raise NotLowered(reason, "split it, or compute it outside")
    steps = np.arange(length)
    angles = 2 * np.pi / length * (np.outer(steps, steps) % length)
    # A quarter turn has an exact 0, which pi in double precision does not give.
    waves = np.stack([np.cos(angles), np.sin(angles)])
    waves[np.abs(waves) < 1e-12] = 0
    return waves[0], waves[1]


def _along(s: Scope, x: Array, axis: int, matrix: Any) -> Array:
    """Multiply an axis by a matrix."""
    axis %= x.rank
    if x.number() == 0:
        return _zero(x, [matrix.shape[1] if k == axis else n for k, n in enumerate(x.shape)])
    made = by_matrix(s, movement.moved(s, x, axis, x.rank - 1), matrix)
    return movement.moved(s, made, x.rank - 1, axis)
