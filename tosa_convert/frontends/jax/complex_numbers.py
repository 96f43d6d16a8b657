"""Lower complex numbers inside a program: each is a pair of arrays, its real and its imaginary part.

A rule is a function of JAX on pairs, whose jaxpr is lowered. Arguments and results stay real.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope
from tosa_convert.records import NamedTuple

#: The longest Fourier transform: it is a product with a matrix of the square of its length.
_MOST_LENGTH: Final = 2048
_ADVICE: Final = "compute with real and imaginary parts as two arrays"
#: Primitives that do the same to both parts.
_BY_PARTS: Final = frozenset(
    (
        *("add", "add_any", "broadcast_in_dim", "concatenate", "copy", "copy_p", "cumsum"),
        *("dynamic_slice", "dynamic_update_slice", "expand_dims", "gather", "neg", "pad"),
        *("optimization_barrier", "reduce_sum", "reshape", "rev", "select_n", "slice", "split"),
        *("squeeze", "sub", "transpose"),
    )
)


class Complex(NamedTuple):
    """The real and the imaginary part of complex numbers."""

    real: Any
    imag: Any


def is_complex(dtype: Any) -> bool:
    """Return whether elements are complex numbers."""
    return getattr(dtype, "kind", "") == "c"


def as_parts(data: Any) -> Array:
    """Make a constant of complex numbers, as its parts."""
    parts = [np.array(part) for part in (data.real, data.imag)]
    held = [Array(part.dtype, tuple(part.shape), part) for part in parts]
    return Array(data.dtype, tuple(data.shape), parts=(held[0], held[1]))


def lower_complex(
    run: Callable[..., list[Array]], scope: Scope, equation: Any, inputs: Sequence[Array]
) -> list[Array]:
    """Return the results of an equation with complex numbers.

    run: lowers a jaxpr, as of `Walk`.
    """
    name = equation.primitive.name
    rule = _RULES.get(name) or (_by_parts if name in _BY_PARTS else None)
    if rule is None:
        raise NotLowered(f"TOSA does not have complex numbers, and {name} has them", _ADVICE)
    flat = [part for item in inputs for part in item.parts or (item,)]

    def called(*arrays: Any) -> Any:
        left = iter(arrays)
        given = [Complex(next(left), next(left)) if item.parts else next(left) for item in inputs]
        return rule(equation, *given)

    kinds = [jax.ShapeDtypeStruct(item.shape, item.dtype) for item in flat]
    made = iter(run(scope, jax.make_jaxpr(called)(*kinds), flat))
    results = []
    for item in equation.outvars:
        aval = item.aval
        if is_complex(aval.dtype):
            results.append(Array(aval.dtype, tuple(aval.shape), parts=(next(made), next(made))))
        else:
            results.append(next(made))
    return results


def _by_parts(equation: Any, *args: Any) -> Any:
    """Apply a primitive to the real parts, and to the imaginary ones."""
    made = [
        equation.primitive.bind(
            *(item[part] if isinstance(item, Complex) else item for item in args),
            **equation.params,
        )
        for part in range(2)
    ]
    if not equation.primitive.multiple_results:
        return Complex(*made)
    return [
        Complex(*pair) if is_complex(item.aval.dtype) else pair[0]
        for *pair, item in zip(*made, equation.outvars, strict=True)
    ]


def _times(x: Complex, y: Complex) -> Complex:
    return Complex(x.real * y.real - x.imag * y.imag, x.real * y.imag + x.imag * y.real)


def _divided(_: Any, x: Complex, y: Complex) -> Complex:
    """Divide by Smith's method: no square overflows."""
    is_real = jnp.abs(y.real) >= jnp.abs(y.imag)
    large, small = (jnp.where(is_real, *pair) for pair in (y, y[::-1]))
    ratio = jnp.where(large == 0, 0, small / large)
    size = large + small * ratio
    real = jnp.where(is_real, x.real + x.imag * ratio, x.real * ratio + x.imag)
    imag = jnp.where(is_real, x.imag - x.real * ratio, x.imag * ratio - x.real)
    return Complex(real / size, imag / size)


def _size(_: Any, x: Complex) -> Any:
    low, high = (find(jnp.abs(x.real), jnp.abs(x.imag)) for find in (jnp.minimum, jnp.maximum))
    ratio = jnp.where(high == 0, 0, low / jnp.where(high == 0, 1, high))
    return high * jnp.sqrt(1 + ratio * ratio)


def _exponential(_: Any, x: Complex) -> Complex:
    size = jnp.exp(x.real)
    return Complex(size * jnp.cos(x.imag), size * jnp.sin(x.imag))


def _logarithm(_: Any, x: Complex) -> Complex:
    return Complex(jnp.log(_size(_, x)), jnp.arctan2(x.imag, x.real))


def _converted(equation: Any, x: Any) -> Any:
    kind = equation.params["new_dtype"]
    real, imag = x if isinstance(x, Complex) else (x, jnp.zeros_like(x))
    if not is_complex(kind):
        return lax.convert_element_type(real, kind)
    part = np.zeros((), kind).real.dtype
    return Complex(*(lax.convert_element_type(item, part) for item in (real, imag)))


def _conjugate(_: Any, x: Any) -> Complex:
    return Complex(x.real, -x.imag) if isinstance(x, Complex) else Complex(x, -jnp.zeros_like(x))


def _product(equation: Any, x: Complex, y: Complex) -> Complex:
    params = dict(equation.params)
    if is_complex(params.get("preferred_element_type")):
        params["preferred_element_type"] = np.dtype(x.real.dtype)
    dot = partial(equation.primitive.bind, **params)
    return Complex(
        dot(x.real, y.real) - dot(x.imag, y.imag), dot(x.real, y.imag) + dot(x.imag, y.real)
    )


def _power(equation: Any, x: Complex) -> Complex:
    exponent = equation.params["y"]
    if not 1 <= exponent <= 8:
        raise NotLowered(f"a complex number to the power of {exponent}", _ADVICE)
    made = x
    for _ in range(exponent - 1):
        made = _times(made, x)
    return made


# -- Fourier transforms --------------------------------------------------------------------------


def _waves(length: int) -> tuple[Any, Any]:
    """Return cosines and sines of the angles of a transform."""
    if length > _MOST_LENGTH:
        reason = f"a Fourier transform of length {length}; the longest has {_MOST_LENGTH}"
        raise NotLowered(reason, "split it, or compute it outside")
    steps = np.arange(length)
    angles = 2 * np.pi / length * (np.outer(steps, steps) % length)
    return np.cos(angles), np.sin(angles)


def _along(x: Any, axis: int, matrix: Any) -> Any:
    """Multiply an axis by a matrix."""
    moved = jnp.moveaxis(x, axis, -1)
    return jnp.moveaxis(jnp.matmul(moved, jnp.asarray(matrix, moved.dtype)), -1, axis)


def _whole(x: Complex, axis: int, length: int, sign: int) -> Complex:
    """Transform an axis of complex numbers: -1 is forward, and 1 is the inverse."""
    cosines, sines = _waves(length)
    if sign > 0:
        cosines, sines = cosines / length, sines / length
    real = _along(x.real, axis, cosines) - sign * _along(x.imag, axis, sines)
    return Complex(real, _along(x.imag, axis, cosines) + sign * _along(x.real, axis, sines))


def _fourier(equation: Any, x: Any) -> Any:
    kind = str(getattr(equation.params["fft_type"], "name", equation.params["fft_type"]))
    lengths = equation.params["fft_lengths"]
    axes = list(zip(range(-len(lengths), 0), lengths, strict=True))
    sign = 1 if kind.startswith("I") else -1
    last = lengths[-1]
    half = last // 2 + 1
    if kind == "RFFT":
        cosines, sines = (wave[:, :half] for wave in _waves(last))
        x = Complex(_along(x, -1, cosines), -_along(x, -1, sines))
    for axis, length in axes[:-1] if kind in ("RFFT", "IRFFT") else axes:
        x = _whole(x, axis, length, sign)
    if kind != "IRFFT":
        return x
    # Every number but the first and the middle one also stands for its conjugate.
    weights = np.full(half, 2 / last)
    weights[0] /= 2
    if last % 2 == 0:
        weights[-1] /= 2
    cosines, sines = (weights[:, None] * wave[:half] for wave in _waves(last))
    return _along(x.real, -1, cosines) - _along(x.imag, -1, sines)


_RULES: Final[dict[str, Callable[..., Any]]] = {
    "abs": _size,
    "complex": lambda _, real, imag: Complex(real, imag),
    "conj": _conjugate,
    "convert_element_type": _converted,
    "div": _divided,
    "dot_general": _product,
    "eq": lambda _, x, y: (x.real == y.real) & (x.imag == y.imag),
    "exp": _exponential,
    "fft": _fourier,
    "imag": lambda _, x: x.imag,
    "integer_pow": _power,
    "log": _logarithm,
    "mul": lambda _, x, y: _times(x, y),
    "ne": lambda _, x, y: (x.real != y.real) | (x.imag != y.imag),
    "real": lambda _, x: x.real,
    "square": lambda _, x: _times(x, x),
}
