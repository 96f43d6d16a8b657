"""The table of JAX's primitives: one row for each, with what lowers it, or why nothing does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from tosa_convert.frontends.jax import loops, rescale, user_functions
from tosa_convert.frontends.jax.step import Rule, Step
from tosa_convert.frontends.lowering import (
    arithmetic,
    conversion,
    functions,
    indexing,
    matrices,
    movement,
    products,
    reductions,
    sorting,
    windows,
)
from tosa_convert.frontends.lowering.scope import Array, NotLowered
from tosa_convert.frontends.lowering.types import carrier

#: Lowers an operation by its operands, and by what its parameters say: (scope, *operands, *values).
Function = Callable[..., Array | Sequence[Array]]


@dataclass(frozen=True, slots=True)
class Row:
    """How a primitive is lowered.

    rule: lowers it.
    is_elementwise: an element of the result depends on the operands' elements at its place only.
    moves_elements: the rule itself moves the elements of constants, and copies none needlessly.
    """

    rule: Rule
    is_elementwise: bool = False
    moves_elements: bool = False


def _rule(function: Function, *params: str) -> Rule:
    """Return the rule that gives a function the operands, and these parameters in order."""
    return lambda step: function(step.scope, *step.inputs, *(step.params[name] for name in params))


def _elementwise(function: Function, *params: str) -> Row:
    return Row(_rule(function, *params), is_elementwise=True)


def _operator(name: str) -> Row:
    return _elementwise(lambda s, a: s.elementwise(name, a))


def _as_bits(rule: Rule) -> Rule:
    """Return the rule for the bits of an element type: TOSA moves them as its own type."""

    def of_bits(step: Step) -> Array | Sequence[Array]:
        held = [step.scope.viewed(item, carrier(item.dtype)) for item in step.inputs]
        made = rule(replace(step, inputs=held, dtypes=[carrier(dtype) for dtype in step.dtypes]))
        if isinstance(made, Array):
            return step.scope.viewed(made, step.dtype)
        return [
            step.scope.viewed(item, dtype) for item, dtype in zip(made, step.dtypes, strict=True)
        ]

    return of_bits


def _movement(function: Function, *params: str) -> Row:
    return Row(_as_bits(_rule(function, *params)), moves_elements=True)


def _reduction(function: Function, *params: str, word: str = "") -> Row:
    """Return the row of a reduction along `axes`, or of a function of `params`."""
    named = partial(function, word=word) if word else function
    return Row(_rule(named, *(params or ("axes",))))


def _collective(function: Callable[..., Array], word: str = "") -> Row:
    """Return the row of a reduction over named axes, of which vmap makes dimensions of the operands."""
    reduce = partial(function, word=word) if word else function

    def rule(step: Step) -> list[Array]:
        axes = step.params["axes"]
        if not all(isinstance(axis, int) for axis in axes) or step.params["axis_index_groups"]:
            raise NotLowered(*_BETWEEN_DEVICES)
        return [reduce(step.scope, a, axes) for a in step.inputs]

    return Row(rule)


def _convolution(step: Step) -> Array:
    (a, weight), params = step.inputs, step.params
    numbers = params["dimension_numbers"]
    window = products.Window(
        tuple(params["window_strides"]),
        tuple((int(low), int(high)) for low, high in params["padding"]),
        tuple(params["lhs_dilation"]),
        tuple(params["rhs_dilation"]),
    )
    return products.conv_general_dilated(
        step.scope,
        a,
        weight,
        window,
        (numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec),
        step.dtype,
        params["feature_group_count"],
        params["batch_group_count"],
    )


def _dot_general(step: Step) -> Array:
    a, b = step.inputs
    return products.dot_general(step.scope, a, b, step.params["dimension_numbers"], step.dtype)


def _top_k(step: Step) -> tuple[Array, Array]:
    (a,) = step.inputs
    return sorting.top_k(step.scope, a, step.params.get("axis", a.rank - 1), step.params["k"])


def _dynamic_slice(step: Step) -> Array:
    a, *starts = step.inputs
    sizes = tuple(int(n) for n in step.params["slice_sizes"])
    return indexing.dynamic_slice(step.scope, a, starts, sizes)


def _dynamic_update_slice(step: Step) -> Array:
    a, update, *starts = step.inputs
    return indexing.dynamic_update_slice(step.scope, a, update, starts)


def _linear_solve(step: Step) -> Sequence[Array]:
    """Return what the function that solves the system returns; the others are for derivatives."""
    counts = step.params["const_lengths"]
    start = counts.matvec + counts.vecmat
    own = step.inputs[start : start + counts.solve]
    right = step.inputs[start + counts.solve + counts.transpose_solve :]
    return step.run(step.scope, step.params["jaxprs"].solve, [*own, *right])


def _gather(step: Step) -> Array:
    a, indices = step.inputs
    params, filling = step.params, None
    if "FILL" in str(params["mode"]).upper():
        filling = params["fill_value"]
        filling = indexing.default_filling(a.dtype) if filling is None else filling
    window = tuple(params["slice_sizes"])
    return indexing.gather(step.scope, a, indices, params["dimension_numbers"], window, filling)


def _scatter(step: Step, word: str) -> Array:
    (a, indices, updates), params = step.inputs, step.params
    return indexing.scatter(
        step.scope,
        a,
        indices,
        updates,
        params["dimension_numbers"],
        word,
        params["unique_indices"],
        "CLIP" in str(params["mode"]).upper(),
    )


_RESHAPED: Final = Row(
    _as_bits(lambda step: movement.reshape(step.scope, step.inputs[0], step.shape)),
    moves_elements=True,
)
_WINDOW: Final = ("window_dimensions", "window_strides", "padding")
_DILATED_WINDOW: Final = (*_WINDOW, "base_dilation", "window_dilation")
_TRIANGLE: Final = ("left_side", "lower", "transpose_a", "unit_diagonal")
_BETWEEN_DEVICES: Final = (
    "it communicates between devices; a program of TOSA runs on one",
    "lower the function for one device, outside of shard_map and pmap",
)
#: Reduction of JAX -> that of the lowering.
_WORDS: Final = {"max": "max", "min": "min", "sum": "add"}
_OPERATORS: Final = ("ceil", "cos", "erf", "exp", "floor", "log", "rsqrt", "sin", "tanh")

ROWS: Final[dict[str, Row]] = {
    # Elementwise.
    **{name: _operator(name) for name in _OPERATORS},
    "logistic": _operator("sigmoid"),
    **{
        function.__name__.rstrip("_"): _elementwise(function)
        for function in (
            *(arithmetic.abs_, arithmetic.mul, arithmetic.div, arithmetic.rem, arithmetic.neg),
            *(arithmetic.sign, arithmetic.max_, arithmetic.not_, arithmetic.clz, arithmetic.ne),
            *(arithmetic.population_count, arithmetic.eq_to, arithmetic.le_to),
            *(functions.erfc, functions.exp2, functions.is_finite, functions.sqrt),
        )
    },
    "add": _elementwise(lambda s, a, b: arithmetic.computed(s, "add", a, b)),
    "add_any": _elementwise(lambda s, a, b: arithmetic.computed(s, "add", a, b)),
    "sub": _elementwise(lambda s, a, b: arithmetic.computed(s, "sub", a, b)),
    "square": _elementwise(lambda s, a: arithmetic.computed(s, "mul", a, a)),
    "min": _elementwise(lambda s, a, b: arithmetic.extremum(s, "minimum", a, b)),
    **{word: _elementwise(partial(arithmetic.bitwise, word=word)) for word in ("and", "or", "xor")},
    "shift_left": _elementwise(partial(arithmetic.shifted, name="logical_left_shift")),
    "shift_right_logical": _elementwise(partial(arithmetic.shifted, name="logical_right_shift")),
    "shift_right_arithmetic": _elementwise(
        partial(arithmetic.shifted, name="arithmetic_right_shift", round=False)
    ),
    "eq": _elementwise(arithmetic.equals),
    "gt": _elementwise(partial(arithmetic.compared, name="greater")),
    "ge": _elementwise(partial(arithmetic.compared, name="greater_equal")),
    "lt": _elementwise(partial(arithmetic.compared, name="greater", is_flipped=True)),
    "le": _elementwise(partial(arithmetic.compared, name="greater_equal", is_flipped=True)),
    "lt_to": _elementwise(arithmetic.sorted_before),
    "bitcast_convert_type": _elementwise(conversion.bitcast, "new_dtype"),
    "convert_element_type": _elementwise(conversion.converted, "new_dtype"),
    "reduce_precision": _elementwise(conversion.reduce_precision, "exponent_bits", "mantissa_bits"),
    **{
        function.__name__: _elementwise(functions.in_fp32(function))
        for function in (
            *(functions.acos, functions.acosh, functions.asin, functions.asinh, functions.atan),
            *(functions.atan2, functions.atanh, functions.cbrt, functions.cosh, functions.erf_inv),
            *(functions.expm1, functions.log1p, functions.sinh, functions.tan),
        )
    },
    "integer_pow": _elementwise(functions.integer_power, "y"),
    "pow": _elementwise(functions.power),
    "round": _elementwise(functions.round_, "rounding_method"),
    # Movements of elements.
    "broadcast_in_dim": _movement(movement.broadcast, "shape", "broadcast_dimensions"),
    "broadcast_to": _movement(movement.broadcast_to, "shape"),
    "concatenate": Row(
        _as_bits(
            lambda step: movement.concatenate(step.scope, step.inputs, step.params["dimension"])
        ),
        moves_elements=True,
    ),
    "expand_dims": _RESHAPED,
    "iota": _movement(lambda _, *parts: movement.iota(*parts), "dtype", "shape", "dimension"),
    "pad": _movement(movement.pad_between, "padding_config"),
    "reshape": _movement(
        lambda s, a, shape, order: movement.reshape(
            s, a if order is None else movement.transpose(s, a, order), shape
        ),
        *("new_sizes", "dimensions"),
    ),
    "rev": _movement(movement.reverse, "dimensions"),
    "slice": _movement(movement.cut, "start_indices", "limit_indices", "strides"),
    "split": _movement(movement.split, "sizes", "axis"),
    "squeeze": _RESHAPED,
    "stack": Row(
        _as_bits(lambda step: movement.stack(step.scope, step.inputs, step.params["axis"])),
        moves_elements=True,
    ),
    "transpose": _movement(movement.transpose, "permutation"),
    "unstack": _movement(movement.unstack, "axis"),
    "tile": Row(_as_bits(_rule(movement.tile, "reps"))),
    # Reductions.
    **{
        f"arg{word}": _reduction(reductions.position, "axes", "index_dtype", word=word)
        for word in ("max", "min")
    },
    **{
        f"cum{name}": _reduction(reductions.cumulative, "axis", "reverse", word=word)
        for name, word in (("logsumexp", "logsumexp"), ("prod", "mul"), *_WORDS.items())
    },
    "pmax": _collective(reductions.extreme, "max"),
    "pmin": _collective(reductions.extreme, "min"),
    "psum": _collective(reductions.summed),
    **{f"reduce_{word}": _reduction(reductions.bits, word=word) for word in ("and", "or", "xor")},
    "reduce_max": _reduction(reductions.extreme, word="max"),
    "reduce_min": _reduction(reductions.extreme, word="min"),
    "reduce_prod": _reduction(reductions.multiplied),
    "reduce_sum": _reduction(reductions.summed),
    **{
        f"reduce_window_{name}": _reduction(windows.windowed, *_DILATED_WINDOW, word=word)
        for name, word in _WORDS.items()
    },
    "select_and_scatter_add": Row(_rule(windows.select_and_scatter_add, *_WINDOW, "select_prim")),
    "reduce": Row(user_functions.reduce_function),
    "reduce_window": Row(user_functions.reduce_window_function),
    # Products, reading and writing at computed indices, control flow.
    "clamp": Row(_rule(arithmetic.clamp)),
    "conv_general_dilated": Row(_convolution),
    "dot_general": Row(_dot_general),
    "rescale": Row(rescale.lower_rescale),
    "select_n": Row(_rule(arithmetic.select_n)),
    "sort": Row(
        lambda step: sorting.sort(
            step.scope, step.inputs, step.params["dimension"], step.params["num_keys"]
        )
    ),
    "sort_by": Row(user_functions.sort_by_function),
    "top_k": Row(_top_k),
    "dynamic_slice": Row(_dynamic_slice),
    "dynamic_update_slice": Row(_dynamic_update_slice),
    "cholesky": Row(_rule(matrices.cholesky)),
    "gather": Row(_gather),
    "lu": Row(_rule(matrices.triangles)),
    "custom_linear_solve": Row(_linear_solve),
    "triangular_solve": Row(_rule(matrices.triangular_solve, *_TRIANGLE)),
    "scatter": Row(partial(_scatter, word="set")),
    **{
        f"scatter-{word}": Row(partial(_scatter, word=word))
        for word in ("add", "max", "min", "mul", "sub")
    },
    "cond": Row(loops.cond),
    "scan": Row(loops.scan),
    "while": Row(loops.while_),
    # Primitives that return their operands: what they ask for is a matter of where JAX runs.
    **dict.fromkeys(
        (
            *("copy", "copy_p", "device_put", "layout_constraint", "name", "optimization_barrier"),
            *("pvary", "reshard", "sharding_constraint", "stop_gradient"),
            *("with_memory_space_constraint", "mesh_cast"),
        ),
        Row(lambda step: list(step.inputs), moves_elements=True),
    ),
}

#: Primitives that call Python.
CALLBACKS: Final = ("pure_callback", "io_callback", "debug_callback", "debug_print", "ffi_call")
#: Primitives that call a jaxpr, which is lowered in their place.
CALLS: Final = frozenset(
    (
        *("jit", "pjit", "closed_call", "core_call", "call", "composite", "custom_jvp_call"),
        *("custom_vjp_call", "custom_vjp_call_jaxpr", "custom_vmap_call"),
        *("remat2", "checkpoint", "remat"),
    )
)

#: Why primitives have no lowering, and what would help.
_REFUSALS: Final = (
    (
        "random numbers that depend on arguments: TOSA does not have them",
        "draw them outside and pass them as an argument, or use a constant key",
        (
            *("random_bits", "random_seed", "random_split", "random_fold_in", "random_wrap"),
            *("random_unwrap", "random_clone", "random_gamma", "threefry2x32", "threefry4x32"),
            *("rng_bit_generator", "rng_uniform", "philox2x32", "philox4x32", "iota_2x32_shape"),
            "rng",
        ),
    ),
    (
        "TOSA does not have decompositions and solvers of linear algebra",
        "compute it outside and pass the result as an argument",
        (
            *("cholesky_update", "lu_pivots_to_permutation", "qr", "geqrf"),
            *("geqp3", "ormqr", "householder_product", "eig", "eigh", "svd", "schur", "hessenberg"),
            *("tridiagonal", "tridiagonal_solve", "symmetric_product"),
        ),
    ),
    (
        "TOSA does not have this function",
        "approximate it with functions that lower, such as exp, log and erf",
        (
            *("igamma", "igammac", "igamma_grad_a", "nextafter", "regularized_incomplete_beta"),
            *("bessel_i0e", "bessel_i1e", "digamma", "lgamma", "mulhi", "polygamma", "zeta"),
        ),
    ),
    (
        "it calls Python, which a program of TOSA cannot",
        "remove it, or compute it outside and pass the result as an argument; the checks of equinox are "
        "left out with EQX_ON_ERROR=off in the environment",
        CALLBACKS,
    ),
    (
        *_BETWEEN_DEVICES,
        (
            *("all_gather", "all_to_all", "ppermute", "reduce_scatter"),
            *("axis_index", "shard_map", "xla_pmap", "psum_invariant", "all_gather_invariant"),
        ),
    ),
    (
        "it communicates with the host or with other devices",
        "lower the function for one device, and pass what it receives as an argument",
        ("infeed", "outfeed", "send", "recv", "async_start", "async_done"),
    ),
    (
        "it reads or writes a mutable array",
        "return the new value, as functions of jax.numpy do",
        ("get", "swap", "addupdate", "new_ref", "empty_ref", "freeze", "run_state"),
    ),
)

#: Primitive without a lowering -> why, and what would help.
REFUSED: Final[dict[str, tuple[str, str]]] = {
    name: (reason, advice) for reason, advice, names in _REFUSALS for name in names
}
