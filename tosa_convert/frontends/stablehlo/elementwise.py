"""The operations of StableHLO and CHLO that compute each element by itself, or move elements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tosa_convert.frontends.lowering.scope import NotLowered
from tosa_convert.frontends.stablehlo.evaluate import (
    Operation,
    Rule,
    dtype,
    number,
    numbers,
    row,
    shape,
    text,
)

#: Operation -> the function of `jax.lax` that is the same.
_FUNCTIONS: Final = {
    **{
        name: name
        for name in (
            *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "bessel_i1e", "cbrt"),
            *("ceil", "clamp", "complex", "conj", "cosh", "digamma", "erf", "erf_inv", "erfc"),
            *("floor", "is_finite", "lgamma", "log", "logistic", "mulhi", "polygamma"),
            *("rsqrt", "select", "shift_left", "shift_right_arithmetic"),
            *("shift_right_logical", "sign", "sinh", "sqrt", "square", "tan", "tanh", "zeta"),
        )
    },
    "abs": "abs",
    "add": "add",
    "cosine": "cos",
    "count_leading_zeros": "clz",
    "divide": "div",
    "exponential": "exp",
    "exponential_minus_one": "expm1",
    "log_plus_one": "log1p",
    "maximum": "max",
    "minimum": "min",
    "multiply": "mul",
    "negate": "neg",
    "next_after": "nextafter",
    "popcnt": "population_count",
    "power": "pow",
    "remainder": "rem",
    "sine": "sin",
    "subtract": "sub",
}
_COMPARISONS: Final = {
    "EQ": lax.eq,
    "NE": lax.ne,
    "GE": lax.ge,
    "GT": lax.gt,
    "LE": lax.le,
    "LT": lax.lt,
}
#: CHLO's operations on operands of other shapes, and what they compute once these are equal.
_BROADCAST: Final = (
    *("add", "and", "atan2", "complex", "divide", "maximum", "minimum", "multiply", "next_after"),
    *("or", "polygamma", "power", "remainder", "shift_left", "shift_right_arithmetic"),
    *("shift_right_logical", "subtract", "xor", "zeta"),
)


def _compare(op: Operation) -> Any:
    x, y = op.operands
    direction = op.attributes.text("comparison_direction")
    if op.attributes.text("compare_type") != "TOTALORDER" or not jnp.issubdtype(
        x.dtype, jnp.floating
    ):
        return _COMPARISONS[direction](x, y)
    # JAX's own primitives of the total order, in which a NaN is above all numbers.
    if direction in ("GT", "GE"):
        x, y = y, x
    order = {"EQ": lax.eq_to_p, "NE": lax.eq_to_p, "LT": lax.lt_to_p, "GT": lax.lt_to_p}
    made = order.get(direction, lax.le_to_p).bind(x, y)
    return lax.bitwise_not(made) if direction == "NE" else made


def _power(op: Operation) -> Any:
    x, y = op.operands
    if not jnp.issubdtype(x.dtype, jnp.integer):
        return lax.pow(x, y)
    numbers = np.unique(y).tolist() if isinstance(y, (np.ndarray, np.generic)) else []
    if len(numbers) != 1:
        raise NotLowered("integers to the power of integers that are computed", "cast to float32")
    return lax.integer_pow(x, numbers[0])


def _select(op: Operation) -> Any:
    condition, yes, no = op.operands
    if jnp.ndim(condition) == 0 and jnp.ndim(yes):
        condition = lax.broadcast(condition, yes.shape)
    return lax.select(condition, yes, no)


def _convert(op: Operation) -> Any:
    (x,), kind = op.operands, dtype(op)
    if kind == np.bool_ and x.dtype != np.bool_:
        return lax.ne(x, jnp.zeros(x.shape, x.dtype))
    return lax.convert_element_type(x, kind)


def _is(x: Any, number: float) -> Any:
    return lax.eq(x, jnp.full(x.shape, number, x.dtype))


def _shapes_match(op: Operation, rule: Rule) -> Any:
    """Compute with operands that are broadcast as CHLO says, by default from the last dimension."""
    sizes, dimensions = shape(op), op.attributes.numbers("broadcast_dimensions")
    held = []
    for x in op.operands:
        rank = jnp.ndim(x)
        is_placed = dimensions is not None and rank == len(dimensions)
        places = dimensions if is_placed else range(len(sizes) - rank, len(sizes))
        held.append(lax.broadcast_in_dim(x, sizes, tuple(places)))
    return rule(replace(op, operands=held))


# -- movements of elements -----------------------------------------------------------------------


def _pad(op: Operation) -> Any:
    x, value = op.operands
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    config = zip(*(op.attributes.numbers(name) for name in names), strict=True)
    return lax.pad(x, value, [tuple(map(int, row)) for row in config])


def _dynamic_slice(op: Operation) -> Any:
    x, *starts = op.operands
    sizes = op.attributes.numbers("slice_sizes")
    # In StableHLO a negative index is clamped; in `jax.lax` it would count from the end.
    return lax.dynamic_slice(x, starts, sizes, allow_negative_indices=False)


def _dynamic_update_slice(op: Operation) -> Any:
    x, update, *starts = op.operands
    return lax.dynamic_update_slice(x, update, starts, allow_negative_indices=False)


def _torch_index_select(op: Operation) -> Any:
    x, index = op.operands
    axis, batch = op.attributes.number("dim"), op.attributes.number("batch_dims", 0)
    take = partial(jnp.take, axis=axis - batch, mode="clip")
    for _ in range(batch):
        take = jax.vmap(take)
    return take(x, index)


RULES: Final[dict[str, Rule]] = {
    **{name: row(getattr(lax, function)) for name, function in _FUNCTIONS.items()},
    **{word: row(getattr(lax, f"bitwise_{word}")) for word in ("and", "or", "xor", "not")},
    "bitcast_convert": row(lax.bitcast_convert_type, dtype),
    "broadcast": row(lax.broadcast, numbers("broadcast_sizes")),
    "broadcast_in_dim": row(lax.broadcast_in_dim, shape, numbers("broadcast_dimensions", ())),
    "compare": _compare,
    "concatenate": lambda op: lax.concatenate(op.operands, op.attributes.number("dimension")),
    "constant": lambda op: op.attributes.constant(op.types[0]),
    "constant_like": lambda op: jnp.full(shape(op), op.attributes.number("value"), dtype(op)),
    "convert": _convert,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "fft": row(lax.fft, text("fft_type"), numbers("fft_length")),
    "get_dimension_size": row(
        lambda x, axis: np.array(x.shape[axis], np.int32), number("dimension")
    ),
    "imag": row(jnp.imag),
    "iota": row(lax.broadcasted_iota, dtype, shape, number("iota_dimension")),
    "is_inf": row(lambda x: _is(lax.abs(x), np.inf)),
    "is_neg_inf": row(lambda x: _is(x, -np.inf)),
    "is_pos_inf": row(lambda x: _is(x, np.inf)),
    "optimization_barrier": lambda op: op.operands,
    "pad": _pad,
    "power": _power,
    "real": row(jnp.real),
    "reduce_precision": row(lax.reduce_precision, number("exponent_bits"), number("mantissa_bits")),
    "reshape": row(lax.reshape, shape),
    "reverse": row(lax.rev, numbers("dimensions")),
    "round_nearest_afz": row(lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO)),
    "round_nearest_even": row(lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)),
    "select": _select,
    "slice": row(lax.slice, numbers("start_indices"), numbers("limit_indices"), numbers("strides")),
    "torch_index_select": _torch_index_select,
    "transpose": row(lax.transpose, numbers("permutation")),
}
_WIDENED: Final[dict[str, Callable[..., Any]]] = {
    f"broadcast_{name}": partial(_shapes_match, rule=RULES[name])
    for name in (*_BROADCAST, "compare", "select")
}
RULES.update(_WIDENED)
