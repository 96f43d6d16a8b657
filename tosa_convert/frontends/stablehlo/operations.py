"""The operations of StableHLO and CHLO, as functions of `jax.lax`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import primitives
from jax.extend.mlir.dialects import stablehlo

from tosa_convert.frontends.jax.user_functions import traced_sort
from tosa_convert.frontends.lowering.scope import NotLowered
from tosa_convert.frontends.lowering.types import neutral
from tosa_convert.frontends.stablehlo.evaluate import (
    Function,
    Operation,
    Rule,
    dtype,
    number,
    numbers,
    row,
    shape,
    shape_of,
    text,
)

#: Operation -> the function of `jax.lax` that is the same.
_FUNCTIONS: Final = {
    **{
        name: name
        for name in (
            *("abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh"),
            *("bessel_i1e", "cbrt"),
            *("ceil", "clamp", "complex", "conj", "cosh", "digamma", "erf", "erf_inv", "erfc"),
            *("floor", "is_finite", "lgamma", "log", "logistic", "mulhi", "polygamma"),
            *("rsqrt", "select", "shift_left", "shift_right_arithmetic"),
            *("shift_right_logical", "sign", "sinh", "sqrt", "square", "tan", "tanh", "zeta"),
        )
    },
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
        return getattr(lax, direction.lower())(x, y)
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


# -- what contracts, reduces, sorts, reads at computed places, and branches ------------------------

#: What a region of two numbers computes: its only operation -> the word of `jax.lax`.
_REDUCERS: Final = {
    "stablehlo.add": "sum",
    "stablehlo.multiply": "prod",
    "stablehlo.maximum": "max",
    "stablehlo.minimum": "min",
    "stablehlo.and": "and",
    "stablehlo.or": "or",
    "stablehlo.xor": "xor",
}
_COMBINED: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "sum": lax.add,
    "prod": lax.mul,
    "max": lax.max,
    "min": lax.min,
    "and": lax.bitwise_and,
    "or": lax.bitwise_or,
    "xor": lax.bitwise_xor,
}
#: How a region compares -> the primitive that does.
_SELECTS: Final = {"GE": primitives.ge_p, "LE": primitives.le_p}
_SCATTERS: Final = {
    "sum": lax.scatter_add,
    "prod": lax.scatter_mul,
    "max": lax.scatter_max,
    "min": lax.scatter_min,
    "sub": lax.scatter_sub,
}
#: Custom calls that return their operands: they say where and how XLA computes.
_MARKERS: Final = frozenset(
    (
        *("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement"),
        *("LayoutConstraint", "shape_assertion", "mhlo.sharding"),
    )
)


def _word(block: Any) -> str:
    """Return the word of what a region computes of its two arguments; "" for anything else."""
    operations = [held.operation for held in block.operations]
    if len(operations) != 2 or len(block.arguments) != 2:
        return ""
    made, end = operations
    is_plain = list(end.operands) == list(made.results)
    arguments = list(block.arguments)
    uses = list(made.operands)
    if is_plain and uses == arguments and made.name == "stablehlo.subtract":
        return "sub"
    is_plain = is_plain and uses in (arguments, arguments[::-1])
    return _REDUCERS.get(made.name, "") if is_plain else ""


def _returns_update(block: Any) -> bool:
    operations = [held.operation for held in block.operations]
    return len(operations) == 1 and list(operations[0].operands) == [block.arguments[1]]


def _one_or_all(function: Function) -> Callable[..., Any]:
    """Return a region as a function that returns its only result without a list."""

    def called(*arguments: Any) -> Any:
        found = function(*arguments)
        return found[0] if len(found) == 1 else tuple(found)

    return called


# -- products ------------------------------------------------------------------------------------


def _dot_general(op: Operation) -> Any:
    numbers = stablehlo.DotDimensionNumbers(op.attributes.raw("dot_dimension_numbers"))
    contracting = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
    batch = numbers.lhs_batching_dimensions, numbers.rhs_batching_dimensions
    return _product(op, (contracting, batch))


def _product(op: Operation, numbers: Any) -> Any:
    return lax.dot_general(*op.operands, numbers, preferred_element_type=dtype(op))


def _layout(numbers: Any) -> lax.ConvDimensionNumbers:
    names = ("input_batch", "input_feature"), ("kernel_output_feature", "kernel_input_feature")
    return lax.ConvDimensionNumbers(
        *(
            (
                *(getattr(numbers, f"{name}_dimension") for name in pair),
                *getattr(numbers, f"{pair[0].partition('_')[0]}_spatial_dimensions"),
            )
            for pair in (*names, ("output_batch", "output_feature"))
        )
    )


def _convolution(op: Operation) -> Any:
    a = op.attributes
    numbers = stablehlo.ConvDimensionNumbers(a.raw("dimension_numbers"))
    x, kernel = op.operands
    rank = jnp.ndim(x) - 2
    ones = [1] * rank
    reversal = a.numbers("window_reversal", [False] * rank)
    turned = [
        axis
        for axis, is_turned in zip(numbers.kernel_spatial_dimensions, reversal, strict=True)
        if is_turned
    ]
    if turned:
        kernel = lax.rev(kernel, turned)
    kind, layout = dtype(op), _layout(numbers)
    if x.dtype != kernel.dtype:
        x, kernel = (lax.convert_element_type(item, kind) for item in (x, kernel))
    return lax.conv_general_dilated(
        x,
        kernel,
        a.numbers("window_strides", ones),
        a.numbers("padding", [(0, 0)] * rank),
        lhs_dilation=a.numbers("lhs_dilation", ones),
        rhs_dilation=a.numbers("rhs_dilation", ones),
        dimension_numbers=layout,
        feature_group_count=a.number("feature_group_count", 1),
        batch_group_count=a.number("batch_group_count", 1),
        preferred_element_type=kind,
    )


def _cholesky(op: Operation) -> Any:
    (x,) = op.operands
    if op.attributes.number("lower", False):
        return lax.linalg.cholesky(x, symmetrize_input=False)
    turned = jnp.swapaxes(x, -1, -2)
    return jnp.swapaxes(lax.linalg.cholesky(turned, symmetrize_input=False), -1, -2)


def _triangular_solve(op: Operation) -> Any:
    return lax.linalg.triangular_solve(
        *op.operands,
        left_side=bool(op.attributes.number("left_side")),
        lower=bool(op.attributes.number("lower")),
        transpose_a="NO_TRANSPOSE" not in str(op.attributes.raw("transpose_a")),
        unit_diagonal=bool(op.attributes.number("unit_diagonal")),
    )


# -- reductions ----------------------------------------------------------------------------------


def _halves(op: Operation) -> tuple[list[Any], list[Any]]:
    """Return the arrays of a reduction, and their initial values."""
    count = len(op.operands) // 2
    return op.operands[:count], op.operands[count:]


def _reduce(op: Operation) -> Any:
    arrays, initial = _halves(op)
    axes = tuple(op.attributes.numbers("dimensions"))
    word = _word(op.blocks[0]) if len(arrays) == 1 else ""
    if word not in _COMBINED:
        combine = op.regions[0]
        return lax.reduce(tuple(arrays), tuple(initial), lambda x, y: tuple(combine(*x, *y)), axes)
    (array,), (start,) = arrays, initial
    made = getattr(lax, f"reduce_{word}")(array, axes)
    if _is_neutral(word, start):
        return made
    return _COMBINED[word](lax.broadcast(start, made.shape), made)


def _is_neutral(word: str, start: Any) -> bool:
    """Return whether an initial value is a constant that changes nothing."""
    if not isinstance(start, (np.ndarray, np.generic)):
        return False
    return bool(np.asarray(start).reshape(()) == _neutral(word, start.dtype))


def _window(op: Operation) -> dict[str, Any]:
    rank = len(op.attributes.numbers("window_dimensions"))
    ones = (1,) * rank
    return {
        "window_dimensions": tuple(op.attributes.numbers("window_dimensions")),
        "window_strides": tuple(op.attributes.numbers("window_strides", ones)),
        "padding": tuple(map(tuple, op.attributes.numbers("padding", [(0, 0)] * rank))),
    }


def _reduce_window(op: Operation) -> Any:
    arrays, initial = _halves(op)
    window = _window(op)
    ones = (1,) * len(window["window_dimensions"])
    window["base_dilation"] = tuple(op.attributes.numbers("base_dilations", ones))
    window["window_dilation"] = tuple(op.attributes.numbers("window_dilations", ones))
    word = _word(op.blocks[0]) if len(arrays) == 1 else ""
    if word in ("sum", "max", "min"):
        (array,), (start,) = arrays, initial
        if _is_neutral(word, start) and array.dtype != np.bool_:
            return lax.reduce_window(array, _neutral(word, array.dtype), _COMBINED[word], **window)
    combine = op.regions[0]
    return lax.reduce_window(
        tuple(arrays), tuple(initial), lambda x, y: tuple(combine(*x, *y)), **window
    )


def _neutral(word: str, kind: Any) -> Any:
    """Return the initial value that changes nothing, by which `jax.lax` recognises a reduction."""
    if kind == np.bool_:
        return np.array(word in ("min", "and", "prod"))
    if word == "and":
        return np.array(-1).astype(kind)
    return np.array(neutral("mul" if word == "prod" else word, kind), kind)


def _select_and_scatter(op: Operation) -> Any:
    x, source, start = op.operands
    select = _SELECTS.get(_select_word(op.blocks[0]))
    if _word(op.blocks[1]) != "sum" or select is None:
        reason = "a select_and_scatter other than adding to the greatest or the least"
        raise NotLowered(reason, "use the gradient of a max pool")
    made = primitives.select_and_scatter_add_p.bind(source, x, select_prim=select, **_window(op))
    return made if _is_neutral("sum", start) else made + start


def _select_word(block: Any) -> str:
    """Return "GE" or "LE" if a region only compares its arguments in this way."""
    operations = [held.operation for held in block.operations]
    if len(operations) != 2 or operations[0].name != "stablehlo.compare":
        return ""
    if list(operations[0].operands) != list(block.arguments):
        return ""
    word = str(operations[0].attributes["comparison_direction"])
    return next((name for name in ("GE", "LE") if name in word), "")


# -- sorting, reading and writing at computed places ---------------------------------------------


def _sort(op: Operation) -> Any:
    axis = op.attributes.number("dimension", -1) % max(jnp.ndim(op.operands[0]), 1)
    return traced_sort(op.operands, axis, _one_or_all(op.regions[0]))


def _gather(op: Operation) -> Any:
    numbers = stablehlo.GatherDimensionNumbers(op.attributes.raw("dimension_numbers"))
    x, start = op.operands
    start = _index_last(start, numbers.index_vector_dim)
    return lax.gather(
        x,
        start,
        lax.GatherDimensionNumbers(
            tuple(numbers.offset_dims),
            tuple(numbers.collapsed_slice_dims),
            tuple(numbers.start_index_map),
            tuple(numbers.operand_batching_dims),
            _shifted(numbers.start_indices_batching_dims, numbers.index_vector_dim),
        ),
        tuple(op.attributes.numbers("slice_sizes")),
        mode=lax.GatherScatterMode.CLIP,
    )


def _index_last(start: Any, dimension: int) -> Any:
    """Move the dimension of the index vectors to the end, where `jax.lax` has it."""
    if dimension == jnp.ndim(start):
        return lax.expand_dims(start, [dimension])
    return jnp.moveaxis(start, dimension, -1) if dimension != jnp.ndim(start) - 1 else start


def _shifted(dimensions: Sequence[int], removed: int) -> tuple[int, ...]:
    return tuple(n - (n > removed) for n in dimensions)


def _scatter(op: Operation) -> Any:
    count = (len(op.operands) - 1) // 2
    arrays, start, updates = op.operands[:count], op.operands[count], op.operands[count + 1 :]
    numbers = stablehlo.ScatterDimensionNumbers(op.attributes.raw("scatter_dimension_numbers"))
    word = _word(op.blocks[0]) if count == 1 else ""
    function = lax.scatter if count == 1 and _returns_update(op.blocks[0]) else _SCATTERS.get(word)
    if function is None:
        reason = "a scatter whose region is not a sum, a product, an extreme or the update"
        raise NotLowered(reason, "write it with one of these")
    start = _index_last(start, numbers.index_vector_dim)
    return function(
        arrays[0],
        start,
        updates[0],
        lax.ScatterDimensionNumbers(
            tuple(numbers.update_window_dims),
            tuple(numbers.inserted_window_dims),
            tuple(numbers.scattered_dims_to_operand_dims),
            tuple(numbers.input_batching_dims),
            _shifted(numbers.scatter_indices_batching_dims, numbers.index_vector_dim),
        ),
        indices_are_sorted=bool(op.attributes.number("indices_are_sorted", False)),
        unique_indices=bool(op.attributes.number("unique_indices", False)),
        mode=lax.GatherScatterMode.FILL_OR_DROP,
    )


# -- control flow, calls -------------------------------------------------------------------------


def _while(op: Operation) -> Any:
    condition, body = op.regions
    return lax.while_loop(
        lambda values: condition(*values)[0],
        lambda values: tuple(body(*values)),
        tuple(map(jnp.asarray, op.operands)),
    )


def _case(op: Operation) -> Any:
    (index,) = op.operands
    last = len(op.regions) - 1
    # An index out of range means the last branch.
    index = lax.select((index < 0) | (index > last), jnp.asarray(last, index.dtype), index)
    return lax.switch(index, [lambda f=branch: tuple(f()) for branch in op.regions])


def _if(op: Operation) -> Any:
    yes, no = op.regions
    return lax.cond(op.operands[0], lambda: tuple(yes()), lambda: tuple(no()))


def _map(op: Operation) -> Any:
    flat = [lax.reshape(item, (math.prod(item.shape),)) for item in op.operands]
    made = jax.vmap(_one_or_all(op.regions[0]))(*flat)
    return lax.reshape(made, shape_of(op.types[0]))


def _custom_call(op: Operation) -> Any:
    name = op.attributes.text("call_target_name")
    if name in _MARKERS:
        return op.operands[: len(op.types)]
    rule = CUSTOM_CALLS.get(name)
    if rule is None:
        reason = f"a custom call of {name}, which TOSA does not have"
        raise NotLowered(reason, "compute it outside and pass the result as an argument")
    return rule(op)


# -- batch normalisation -------------------------------------------------------------------------


def _along(op: Operation, value: Any) -> Any:
    axis = op.attributes.number("feature_index")
    return lax.broadcast_in_dim(value, op.operands[0].shape, (axis,))


def _normalised(op: Operation, scale: Any, offset: Any, mean: Any, variance: Any) -> Any:
    x = op.operands[0]
    epsilon = jnp.asarray(op.attributes.number("epsilon"), x.dtype)
    factor = lax.rsqrt(variance + epsilon) * scale
    return (x - _along(op, mean)) * _along(op, factor) + _along(op, offset)


def _batch_norm_training(op: Operation) -> Any:
    x, scale, offset = op.operands
    axes = tuple(axis for axis in range(x.ndim) if axis != op.attributes.number("feature_index"))
    mean = jnp.mean(x, axes)
    variance = jnp.mean(lax.square(x - _along(op, mean)), axes)
    return _normalised(op, scale, offset, mean, variance), mean, variance


def _batch_norm_grad(op: Operation) -> Any:
    x, scale, mean, variance, gradient = op.operands
    axes = tuple(axis for axis in range(x.ndim) if axis != op.attributes.number("feature_index"))
    count = jnp.asarray(math.prod(x.shape[axis] for axis in axes), x.dtype)
    factor = lax.rsqrt(variance + jnp.asarray(op.attributes.number("epsilon"), x.dtype))
    centred = x - _along(op, mean)
    of_offset = jnp.sum(gradient, axes)
    of_scale = jnp.sum(gradient * centred, axes) * factor
    spread = centred * _along(op, factor * of_scale / count)
    made = gradient - _along(op, of_offset / count) - spread
    return made * _along(op, scale * factor), of_scale, of_offset


# -- one device ----------------------------------------------------------------------------------


def _alone(op: Operation) -> Any:
    """Return the operands of a communication in groups of one device, which changes nothing."""
    groups = op.attributes.numbers(
        "replica_groups", op.attributes.numbers("source_target_pairs", [])
    )
    members = {
        int(member) for row in groups for member in (row if isinstance(row, tuple) else [row])
    }
    if members - {0}:
        reason = "it communicates between devices; a program of TOSA runs on one"
        raise NotLowered(reason, "lower the function for one device")
    if any(shape_of(kind) != item.shape for kind, item in zip(op.types, op.operands, strict=False)):
        raise NotLowered("it splits or joins among devices", "lower the function for one device")
    return op.operands[: len(op.types)]


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
    **dict.fromkeys(
        (
            *("all_gather", "all_reduce", "all_to_all", "collective_broadcast"),
            *("collective_permute", "reduce_scatter"),
        ),
        _alone,
    ),
    "after_all": lambda op: [None],
    "batch_norm_grad": _batch_norm_grad,
    "create_token": lambda op: [None],
    "get_tuple_element": lambda op: [op.operands[0][op.attributes.number("index")]],
    **dict.fromkeys(("partition_id", "replica_id"), lambda op: np.zeros((), np.uint32)),
    "tuple": lambda op: [tuple(op.operands)],
    "batch_norm_inference": lambda op: _normalised(op, *op.operands[1:]),
    "batch_norm_training": _batch_norm_training,
    "case": _case,
    "cholesky": _cholesky,
    "composite": lambda op: op.call(op.attributes.text("decomposition"), *op.operands),
    "convolution": _convolution,
    "custom_call": _custom_call,
    "dot": lambda op: _product(op, (([jnp.ndim(op.operands[0]) - 1], [0]), ([], []))),
    "dot_general": _dot_general,
    **dict.fromkeys(
        ("einsum", "unary_einsum"),
        lambda op: jnp.einsum(op.attributes.text("einsum_config"), *op.operands),
    ),
    "func.call": lambda op: op.call(op.attributes.text("callee"), *op.operands),
    "gather": _gather,
    "if": _if,
    "map": _map,
    "reduce": _reduce,
    "reduce_window": _reduce_window,
    "scatter": _scatter,
    "select_and_scatter": _select_and_scatter,
    "sort": _sort,
    "top_k": row(lax.top_k, number("k")),
    "triangular_solve": _triangular_solve,
    "while": _while,
}
RULES.update(
    {
        f"broadcast_{name}": partial(_shapes_match, rule=RULES[name])
        for name in (*_BROADCAST, "compare", "select")
    }
)
CUSTOM_CALLS: Final[dict[str, Rule]] = {"mhlo.topk": RULES["top_k"]}
