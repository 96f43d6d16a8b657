"""The table of JAX's primitives: one row for each, with what lowers it, or why nothing does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tosa_convert.frontends.jax import (
    arithmetic,
    contraction,
    conversion,
    convolution,
    functions,
    indexing,
    loops,
    movement,
    reductions,
    scattering,
    sorting,
    user_functions,
    windows,
)
from tosa_convert.frontends.jax.step import Rule


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


def _elementwise(**rules: Rule) -> dict[str, Row]:
    return {name.rstrip("_"): Row(rule, is_elementwise=True) for name, rule in rules.items()}


def _movement(**rules: Rule) -> dict[str, Row]:
    return {name: Row(movement.as_bits(rule), moves_elements=True) for name, rule in rules.items()}


def _others(**rules: Rule) -> dict[str, Row]:
    return {name.rstrip("_").replace("__", "-"): Row(rule) for name, rule in rules.items()}


_OPERATORS: Final = ("abs", "ceil", "cos", "erf", "exp", "floor", "log", "rsqrt", "sin", "tanh")
_FP32: Final = functions.in_fp32

ROWS: Final[dict[str, Row]] = {
    **_elementwise(**{name: functions.operator(name) for name in _OPERATORS}),
    **_elementwise(
        abs=arithmetic.abs_,
        acos=_FP32(functions.acos),
        acosh=_FP32(functions.acosh),
        add=arithmetic.add,
        add_any=arithmetic.add,
        and_=arithmetic.bitwise("and"),
        asin=_FP32(functions.asin),
        asinh=_FP32(functions.asinh),
        atan=_FP32(functions.atan),
        atan2=_FP32(functions.atan2),
        atanh=_FP32(functions.atanh),
        bitcast_convert_type=conversion.bitcast_convert_type,
        cbrt=functions.cbrt,
        clz=arithmetic.clz,
        convert_element_type=conversion.convert_element_type,
        cosh=_FP32(functions.cosh),
        div=arithmetic.div,
        eq=arithmetic.eq,
        eq_to=arithmetic.eq_to,
        erf_inv=_FP32(functions.erf_inv),
        erfc=functions.erfc,
        exp2=functions.exp2,
        expm1=_FP32(functions.expm1),
        ge=arithmetic.ge,
        gt=arithmetic.gt,
        integer_pow=functions.integer_pow,
        is_finite=functions.is_finite,
        le=arithmetic.le,
        le_to=arithmetic.le_to,
        log1p=_FP32(functions.log1p),
        logistic=functions.operator("sigmoid"),
        lt=arithmetic.lt,
        lt_to=arithmetic.lt_to,
        max=arithmetic.max_,
        min=arithmetic.min_,
        mul=arithmetic.mul,
        ne=arithmetic.ne,
        neg=arithmetic.neg,
        not_=arithmetic.not_,
        or_=arithmetic.bitwise("or"),
        population_count=arithmetic.population_count,
        pow=functions.power,
        reduce_precision=conversion.reduce_precision,
        rem=arithmetic.rem,
        round=functions.round_,
        shift_left=arithmetic.shift_left,
        shift_right_arithmetic=arithmetic.shift_right_arithmetic,
        shift_right_logical=arithmetic.shift_right_logical,
        sign=arithmetic.sign,
        sinh=_FP32(functions.sinh),
        sqrt=functions.sqrt,
        square=arithmetic.square,
        sub=arithmetic.sub,
        tan=_FP32(functions.tan),
        xor=arithmetic.bitwise("xor"),
    ),
    **_movement(
        broadcast_in_dim=movement.broadcast_in_dim,
        broadcast_to=movement.broadcast_to,
        concatenate=movement.concatenate,
        expand_dims=movement.squeeze,
        iota=movement.iota,
        pad=movement.pad,
        reshape=movement.reshape,
        rev=movement.rev,
        slice=movement.slice_,
        split=movement.split,
        squeeze=movement.squeeze,
        stack=movement.stack,
        transpose=movement.transpose,
        unstack=movement.unstack,
    ),
    **_others(
        argmax=reductions.argmax,
        argmin=reductions.argmin,
        clamp=arithmetic.clamp,
        cond=loops.cond,
        conv_general_dilated=convolution.conv_general_dilated,
        cumlogsumexp=reductions.cumulative("logsumexp"),
        cummax=reductions.cumulative("max"),
        cummin=reductions.cumulative("min"),
        cumprod=reductions.cumulative("prod"),
        cumsum=reductions.cumulative("sum"),
        dot_general=contraction.dot_general,
        dynamic_slice=indexing.dynamic_slice,
        dynamic_update_slice=scattering.dynamic_update_slice,
        gather=indexing.gather,
        reduce=user_functions.reduce_function,
        reduce_and=reductions.bits("and"),
        reduce_max=reductions.reduce_max,
        reduce_min=reductions.reduce_min,
        reduce_or=reductions.bits("or"),
        reduce_prod=reductions.reduce_prod,
        reduce_sum=reductions.reduce_sum,
        reduce_window=user_functions.reduce_window_function,
        reduce_window_max=windows.reduce_window("max"),
        reduce_window_min=windows.reduce_window("min"),
        reduce_window_sum=windows.reduce_window("sum"),
        reduce_xor=reductions.bits("xor"),
        scan=loops.scan,
        scatter=scattering.scatter("set"),
        scatter__add=scattering.scatter("add"),
        scatter__max=scattering.scatter("max"),
        scatter__min=scattering.scatter("min"),
        scatter__mul=scattering.scatter("mul"),
        scatter__sub=scattering.scatter("sub"),
        select_and_scatter_add=windows.select_and_scatter_add,
        select_n=arithmetic.select_n,
        sort=sorting.sort,
        tile=movement.as_bits(movement.tile),
        top_k=sorting.top_k,
        while_=loops.while_,
    ),
    # Primitives that return their operands: what they ask for is a matter of where JAX runs.
    **dict.fromkeys(
        (
            *("copy", "copy_p", "device_put", "layout_constraint", "name", "optimization_barrier"),
            *("pvary", "reshard", "sharding_constraint", "stop_gradient"),
            *("with_memory_space_constraint", "mesh_cast"),
        ),
        Row(movement.same, moves_elements=True),
    ),
}

#: Primitives that call a jaxpr, which is lowered in their place.
CALLS: Final = frozenset(
    (
        *("jit", "pjit", "closed_call", "core_call", "call", "composite", "custom_jvp_call"),
        *("custom_vjp_call", "custom_vjp_call_jaxpr", "custom_vmap_call"),
        *("remat2", "checkpoint", "remat"),
    )
)

_RANDOM: Final = (
    "random numbers that depend on arguments: TOSA does not have them",
    "draw them outside and pass them as an argument, or use a constant key",
)
_LINEAR_ALGEBRA: Final = (
    "TOSA does not have decompositions and solvers of linear algebra",
    "compute it outside and pass the result as an argument",
)
_COMPLEX: Final = (
    "TOSA does not have complex numbers",
    "compute with real and imaginary parts as two arrays",
)
_SPECIAL: Final = (
    "TOSA does not have this function",
    "approximate it with functions that lower, such as exp, log and erf",
)
#: Special functions that litert-converter writes with operators of TFLite.
_SPECIAL_IN_TFLITE: Final = (
    "TOSA does not have this function",
    "--via litert-converter takes the route through TFLite, which has it; or approximate it with "
    "functions that lower, such as exp, log and erf",
)
_CALLBACK: Final = (
    "it calls Python, which a program of TOSA cannot",
    "remove it, or compute it outside and pass the result as an argument",
)
_DEVICES: Final = (
    "it communicates between devices; a program of TOSA runs on one",
    "lower the function for one device, outside of shard_map and pmap",
)
_REFERENCE: Final = (
    "it reads or writes a mutable array",
    "return the new value, as functions of jax.numpy do",
)

#: Primitives without a lowering -> why, and what would help.
REFUSED: Final[dict[str, tuple[str, str]]] = {
    **dict.fromkeys(
        (
            *("random_bits", "random_seed", "random_split", "random_fold_in", "random_wrap"),
            *("random_unwrap", "random_clone", "random_gamma", "threefry2x32", "threefry4x32"),
            *("rng_bit_generator", "rng_uniform", "philox2x32", "philox4x32", "iota_2x32_shape"),
        ),
        _RANDOM,
    ),
    **dict.fromkeys(
        (
            *("cholesky", "cholesky_update", "lu", "lu_pivots_to_permutation", "qr", "geqrf"),
            *("geqp3", "ormqr", "householder_product", "eig", "eigh", "svd", "schur"),
            *("hessenberg", "triangular_solve", "tridiagonal", "tridiagonal_solve"),
            *("custom_linear_solve", "symmetric_product"),
        ),
        _LINEAR_ALGEBRA,
    ),
    **dict.fromkeys(("complex", "conj", "real", "imag", "fft"), _COMPLEX),
    **dict.fromkeys(
        (
            *("igamma", "igammac", "igamma_grad_a", "nextafter"),
            *("regularized_incomplete_beta", "mulhi"),
        ),
        _SPECIAL,
    ),
    **dict.fromkeys(
        ("bessel_i0e", "bessel_i1e", "digamma", "lgamma", "polygamma", "zeta"), _SPECIAL_IN_TFLITE
    ),
    **dict.fromkeys(
        ("pure_callback", "io_callback", "debug_callback", "debug_print", "ffi_call"), _CALLBACK
    ),
    **dict.fromkeys(
        (
            *("all_gather", "all_to_all", "psum", "pmax", "pmin", "ppermute", "reduce_scatter"),
            *("axis_index", "shard_map", "xla_pmap", "psum_invariant", "all_gather_invariant"),
        ),
        _DEVICES,
    ),
    **dict.fromkeys(
        ("get", "swap", "addupdate", "new_ref", "empty_ref", "freeze", "run_state"), _REFERENCE
    ),
}
