"""The operations of StableHLO and CHLO that compute each element by itself, or move elements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

import jax.numpy as jnp
import numpy as np
from jax import lax

from tosa_convert.frontends.lowering.scope import NotLowered
from tosa_convert.frontends.stablehlo.attributes import dtype_of, shape_of
from tosa_convert.frontends.stablehlo.evaluate import Operation, Rule

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
_BITWISE: Final = {"and": "and", "or": "or", "xor": "xor", "not": "not"}
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


def _function(name: str) -> Rule:
    function = getattr(lax, name)
    return lambda op: function(*op.operands)


def _clamp(op: Operation) -> Any:
    low, x, high = op.operands
    return lax.clamp(low, x, high)


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
    (x,), dtype = op.operands, dtype_of(op.types[0])
    if dtype == np.bool_ and x.dtype != np.bool_:
        return lax.ne(x, jnp.zeros(x.shape, x.dtype))
    return lax.convert_element_type(x, dtype)


def _reduce_precision(op: Operation) -> Any:
    bits = op.attributes.number("exponent_bits"), op.attributes.number("mantissa_bits")
    return lax.reduce_precision(op.operands[0], *bits)


def _fft(op: Operation) -> Any:
    lengths = tuple(op.attributes.numbers("fft_length"))
    return lax.fft(op.operands[0], op.attributes.text("fft_type"), lengths)


def _constant(op: Operation) -> Any:
    return op.attributes.constant(op.types[0])


def _constant_like(op: Operation) -> Any:
    value = op.attributes.number("value")
    return jnp.full(shape_of(op.types[0]), value, dtype_of(op.types[0]))


def _is_infinite(op: Operation, sign: int = 0) -> Any:
    (x,) = op.operands
    held = lax.abs(x) if not sign else x
    return lax.eq(held, jnp.full(x.shape, -np.inf if sign < 0 else np.inf, x.dtype))


def _shapes_match(op: Operation, rule: Rule) -> Any:
    """Compute with operands that are broadcast as CHLO says, by default from the last dimension."""
    shape = shape_of(op.types[0])
    dimensions = op.attributes.numbers("broadcast_dimensions")
    held = []
    for x in op.operands:
        rank = jnp.ndim(x)
        aligned = dimensions if dimensions is not None and rank == len(dimensions) else None
        places = aligned if aligned is not None else range(len(shape) - rank, len(shape))
        held.append(lax.broadcast_in_dim(x, shape, tuple(places)))
    return rule(replace(op, operands=held))


# -- movements of elements -----------------------------------------------------------------------


def _broadcast_in_dim(op: Operation) -> Any:
    places = op.attributes.numbers("broadcast_dimensions", [])
    return lax.broadcast_in_dim(op.operands[0], shape_of(op.types[0]), tuple(places))


def _broadcast(op: Operation) -> Any:
    return lax.broadcast(op.operands[0], tuple(op.attributes.numbers("broadcast_sizes")))


def _reshape(op: Operation) -> Any:
    return lax.reshape(op.operands[0], shape_of(op.types[0]))


def _iota(op: Operation) -> Any:
    dimension = op.attributes.number("iota_dimension")
    return lax.broadcasted_iota(dtype_of(op.types[0]), shape_of(op.types[0]), dimension)


def _pad(op: Operation) -> Any:
    x, value = op.operands
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    config = zip(*(op.attributes.numbers(name) for name in names), strict=True)
    return lax.pad(x, value, [tuple(map(int, row)) for row in config])


def _slice(op: Operation) -> Any:
    names = ("start_indices", "limit_indices", "strides")
    return lax.slice(op.operands[0], *(op.attributes.numbers(name) for name in names))


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
        import jax

        take = jax.vmap(take)
    return take(x, index)


def _dimension_size(op: Operation) -> Any:
    return np.array(op.operands[0].shape[op.attributes.number("dimension")], np.int32)


def _same(op: Operation) -> Any:
    return op.operands


RULES: Final[dict[str, Rule]] = {
    **{name: _function(function) for name, function in _FUNCTIONS.items()},
    **{name: _function(f"bitwise_{word}") for name, word in _BITWISE.items()},
    "bitcast_convert": lambda op: lax.bitcast_convert_type(op.operands[0], dtype_of(op.types[0])),
    "broadcast": _broadcast,
    "broadcast_in_dim": _broadcast_in_dim,
    "clamp": _clamp,
    "compare": _compare,
    "concatenate": lambda op: lax.concatenate(op.operands, op.attributes.number("dimension")),
    "constant": _constant,
    "constant_like": _constant_like,
    "convert": _convert,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "fft": _fft,
    "get_dimension_size": _dimension_size,
    "imag": lambda op: jnp.imag(op.operands[0]),
    "iota": _iota,
    "is_inf": _is_infinite,
    "is_neg_inf": partial(_is_infinite, sign=-1),
    "is_pos_inf": partial(_is_infinite, sign=1),
    "optimization_barrier": _same,
    "pad": _pad,
    "power": _power,
    "real": lambda op: jnp.real(op.operands[0]),
    "reduce_precision": _reduce_precision,
    "reshape": _reshape,
    "reverse": lambda op: lax.rev(op.operands[0], op.attributes.numbers("dimensions")),
    "round_nearest_afz": lambda op: lax.round(op.operands[0], lax.RoundingMethod.AWAY_FROM_ZERO),
    "round_nearest_even": lambda op: lax.round(op.operands[0], lax.RoundingMethod.TO_NEAREST_EVEN),
    "select": _select,
    "slice": _slice,
    "torch_index_select": _torch_index_select,
    "transpose": lambda op: lax.transpose(
        op.operands[0], tuple(op.attributes.numbers("permutation"))
    ),
}
_WIDENED: Final[dict[str, Callable[..., Any]]] = {
    f"broadcast_{name}": partial(_shapes_match, rule=RULES[name])
    for name in (*_BROADCAST, "compare", "select")
}
RULES.update(_WIDENED)
