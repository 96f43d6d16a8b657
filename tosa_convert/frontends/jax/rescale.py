"""Sums of products of quantised integers at the scale of a result: RESCALE, as a primitive of JAX."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import mlir

from tosa_convert.builder.rescale import fixed_points
from tosa_convert.frontends.jax.step import Step
from tosa_convert.frontends.lowering import movement
from tosa_convert.frontends.lowering.scope import Array
from tosa_convert.frontends.lowering.types import INT32

#: Scales at which RESCALE takes every number of 32 bits.
_LEAST: Final = 2.0**-31
_ABOVE: Final = 0.5
#: No primitive of JAX multiplies integers by a number.
_RESCALE: Final = Primitive("rescale")
_RESCALE.def_abstract_eval(
    lambda array, *, dtype, **params: ShapedArray(array.shape, np.dtype(dtype))
)


@partial(mlir.register_lowering, _RESCALE)
@partial(mlir.lower_fun, multiple_results=False)
def _computed(
    array: Any, *, scales: tuple[float, ...], axis: int, zero: int, dtype: np.dtype[Any]
) -> Any:
    """Compute in integers what RESCALE does, with XLA."""
    shape = [1] * array.ndim
    shape[axis] = len(scales)
    multipliers, exponents = fixed_points(scales)
    multiplier, shift = multipliers.reshape(shape), 31 - exponents.reshape(shape)
    wide = array.astype(np.int64) * multiplier + (np.int64(1) << (shift - 1))
    limits = np.iinfo(dtype)
    return jnp.clip((wide >> shift) + zero, limits.min, limits.max).astype(dtype)


def is_rescaled(scales: npt.NDArray[np.float64]) -> bool:
    """Return whether RESCALE takes any INT32 at these scales."""
    return bool(np.all((scales >= _LEAST) & (scales < _ABOVE)))


def rescale(array: Any, scales: tuple[float, ...], axis: int, zero: int, dtype: Any) -> Any:
    """Have JAX trace `round(array * scale) + zero`, saturated."""
    return _RESCALE.bind(array, scales=scales, axis=axis, zero=zero, dtype=np.dtype(dtype))


def lower_rescale(step: Step) -> Array:
    """Write RESCALE, whose last axis may have many scales."""
    s, (a,), params = step.scope, step.inputs, step.params
    multipliers, exponents = fixed_points(params["scales"])
    is_by_channel, last = len(multipliers) > 1, a.rank - 1
    moved = movement.moved(s, a, params["axis"], last) if is_by_channel else a
    made = s.builder.rescale(
        s.whole(moved),
        multipliers.astype(np.int32),
        (31 - exponents).astype(np.int8),
        np.zeros(1, INT32),
        np.array([params["zero"]], params["dtype"]),
        scale32=True,
        rounding_mode="SINGLE_ROUND",
        per_channel=is_by_channel,
        dtype=params["dtype"].name,
    )
    found = s.array(made, params["dtype"])
    return movement.moved(s, found, last, params["axis"]) if is_by_channel else found
