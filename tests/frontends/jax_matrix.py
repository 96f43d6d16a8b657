"""Expressions of JAX for the matrix of operators and element types, and how they are lowered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np
from frontends.matrix import Row

import tosa_convert as tc

INDEX: Final = "int32"
WIDE: Final = ()
#: XLA takes subnormal numbers of FP32 and BF16 for 0.
FLUSHES: Final = True
REFUSALS: Final = (tc.TosaConvertError,)
_REAL: Final = ("float32", "float16", "bfloat16")
_SIGNED: Final = ("int8", "int16", "int32")
_INTEGERS: Final = (*_SIGNED, "uint8", "uint16", "uint32")
_ALL: Final = (*_REAL, *_INTEGERS, "bool")
_MIXED: Final = ("int32/float16", "uint8/int8", "bool/int8", "float16/bfloat16", "int16/uint32")

_AXES: Final = ("NCHW", "HWIO", "NCHW")
TABLE: Final = (
    Row(
        """jnp.abs(x); -x; jnp.sign(x); jnp.square(x); jnp.ceil(x); jnp.floor(x); jnp.trunc(x);
        jnp.round(x); jnp.isnan(x); jnp.isinf(x); jnp.isfinite(x); jnp.isposinf(x); jnp.signbit(x);
        jnp.nan_to_num(x); ~x; jnp.logical_not(x); jnp.positive(x); jnp.conj(x); jnp.real(x);
        jnp.clip(x, 1, 5); jnp.clip(x, min=1); jnp.clip(x, max=5); nn.relu(x); nn.relu6(x);
        nn.hard_tanh(x); nn.leaky_relu(x); x + 1; x - 3; 1 - x; x * 2; x / 3; x // 3; x % 3; x**2;
        x**3; x > 1; x == 2; x < 2; x != 0; x <= 3; x >= 2; x & 5; x | 8; x ^ 3; x << 1; x >> 1;
        lax.shift_right_logical(x, x.dtype.type(2)); lax.population_count(x); lax.clz(x);
        jnp.where(x > 0, x, 0); jnp.maximum(x, 2); jnp.minimum(x, 2); jnp.cumsum(x); jnp.sort(x);
        jnp.argsort(x); x.max(); x.min(); x.argmax(); x.argmin(); x[::-1]; jnp.zeros_like(x);
        jnp.full_like(x, 3); jnp.fmod(x, 3); jnp.fix(x); jnp.bitwise_count(x);
        jnp.heaviside(x, x); jnp.frexp(x); jnp.modf(x); jnp.divmod(x, 3); jnp.rint(x);
        lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO); lax.reduce_precision(x, 5, 10);
        lax.clamp(x.dtype.type(1), x, x.dtype.type(3)); lax.rem(x, x.dtype.type(3));
        lax.stop_gradient(x); lax.optimization_barrier(x); lax.associative_scan(jnp.maximum, x)""",
        "ends",
        _ALL,
    ),
    Row(
        """jnp.exp(x); jnp.expm1(x); jnp.log(x); jnp.log2(x); jnp.log10(x); jnp.log1p(x);
        jnp.sqrt(x); lax.rsqrt(x); jnp.reciprocal(x); jnp.tanh(x); jnp.arccos(x); jnp.arctan(x);
        jnp.arcsinh(x); jnp.arccosh(x); jnp.arctanh(x); nn.sigmoid(x); x**-1; x**-2; 2**x; 3 / x;
        jnp.cbrt(x); scipy.gammaln(x); scipy.digamma(x); scipy.i0(x); jnp.deg2rad(x)""",
        "ends",
        (*_REAL, "int32", "int8", "uint8", "bool"),
        64,
    ),
    Row(
        """jnp.arcsin(x); scipy.erf(x); scipy.erfc(x); scipy.erfinv(x); scipy.logit(x); scipy.entr(x);
        nn.hard_swish(x); nn.hard_sigmoid(x); nn.elu(x); nn.selu(x); nn.celu(x, 2); nn.gelu(x);
        nn.gelu(x, approximate=False); nn.silu(x); nn.mish(x); nn.softplus(x); nn.soft_sign(x);
        nn.log_sigmoid(x); nn.sparse_plus(x); nn.sparse_sigmoid(x); scipy.ndtr(x); nn.softmax(x);
        scipy.xlog1py(x, x); nn.log_softmax(x)""",
        "usual",
        (*_REAL, "int32", "int8", "uint8", "bool"),
        16,
        1,
    ),
    Row("x**0.5; x**1.5; x**-0.5", "40:p", (*_REAL, "int32", "uint8"), 16),
    Row("nn.squareplus(x)", "40", ("float32", "int32"), 16),
    Row(
        "jnp.sinh(x); jnp.cosh(x); jnp.exp2(x); jnp.sin(x); jnp.cos(x); jnp.tan(x); jnp.sinc(x)",
        "40",
        (*_REAL, "int32", "uint8"),
        64,
    ),
    *(
        Row(f'x.astype("{target}")', "ends", [one for one in _ALL if one != target])
        for target in _ALL
    ),
    Row('x.astype("float8_e4m3fn"); x.astype("float8_e5m2")', "ends", _ALL),
    Row('x.astype("float32"); x.astype("int16")', "ends", ("float8_e4m3fn", "float8_e5m2")),
    Row(
        """lax.bitcast_convert_type(x, "int32"); lax.bitcast_convert_type(x, "float32");
        lax.bitcast_convert_type(x, "uint8"); lax.bitcast_convert_type(x, "int16")""",
        "ends",
        (*_REAL, *_INTEGERS),
    ),
    Row(
        """x + y; x - y; x * y; x == y; x != y; x < y; x <= y; x > y; x >= y; jnp.maximum(x, y);
        jnp.minimum(x, y); jnp.fmax(x, y); jnp.fmin(x, y); jnp.logical_and(x, y);
        jnp.logical_xor(x, y); x & y; x | y; x ^ y; jnp.where(x > y, x, y); jnp.copysign(x, y);
        lax.max(x, y); lax.min(x, y); lax.sub(x, y); lax.mul(x, y); jnp.isclose(x, y);
        jnp.clip(x, y, y); jnp.hypot(x, y); jnp.subtract(x, y); lax.select(x > y, x, y)""",
        "pairs",
        (*_ALL, *_MIXED),
    ),
    Row(
        "x / y; x // y; x % y; jnp.fmod(x, y); lax.div(x, y); lax.rem(x, y); jnp.divmod(x, y)",
        "divisors",
        (*_ALL, *_MIXED),
    ),
    Row(
        """jnp.arctan2(x, y); jnp.power(x, y); lax.pow(x, y);
        lax.nextafter(x, y); jnp.ldexp(x, y); lax.atan2(x, y)""",
        "pairs",
        (*_REAL, *_INTEGERS, "int32/float32"),
        64,
    ),
    Row(
        "scipy.xlogy(x, y); jnp.logaddexp(x, y); jnp.logaddexp2(x, y)",
        "pairs",
        (*_REAL, *_INTEGERS, "int32/float32"),
        64,
        1,
    ),
    Row("x << y; x >> y; lax.shift_right_logical(x, y)", "shifts", _INTEGERS),
    Row("jnp.gcd(x, y); jnp.lcm(x, y)", "3,4:p 3,4:p", _INTEGERS),
    *(
        Row(
            """x.sum(); x.sum(0); x.sum(-1, keepdims=True); x.mean(0); x.prod(-1); x.max(0);
            x.min(-1, keepdims=True); x.argmax(0); x.argmin(-1); x.any(-1); x.all(0); jnp.nansum(x);
            jnp.nanmax(x, 0); jnp.count_nonzero(x, 0); jnp.cumsum(x, 0);
            jnp.cumprod(x, -1); lax.cummax(x, 0); lax.cummin(x, 0, True); jnp.sort(x, -1);
            jnp.argsort(x, 0, stable=True); lax.top_k(x, 1); jnp.median(x, 0); jnp.diff(x, axis=0);
            jnp.ravel(x); x[None]; jnp.squeeze(x); jnp.flip(x, -1); jnp.roll(x, 1, 0);
            jnp.tile(x, 2);
            jnp.stack([x, x], -1); jnp.concatenate([x, x]); jnp.repeat(x, 2); jnp.ptp(x);
            lax.reduce(x, x.dtype.type(0), lax.bitwise_or, (0,)); jnp.sort(x, 0, descending=True);
            jnp.bitwise_xor.reduce(x); jnp.average(x, 0);
            jnp.unique(x, size=3)""",
            shape,
            types,
        )
        for shape, types in (
            *(("2,3,4", _ALL), ("3,7!", _ALL), ("1,1", ("float16", "uint8"))),
            ("2,5,1,3,2", ("float32", "int32")),
        )
    ),
    *(
        Row(
            """x.std(); x.var(0); jnp.nanmean(x); x.var(-1, ddof=1); jnp.linalg.norm(x[..., 0]);
            scipy.logsumexp(x, 0);
            nn.softmax(x, 0); nn.log_softmax(x); nn.standardize(x); lax.cumlogsumexp(x);
            jnp.quantile(x, 0.3); jnp.trapezoid(x); nn.logsumexp(x, -1, keepdims=True);
            jnp.linalg.vector_norm(x, ord=1); jnp.linalg.vector_norm(x, ord=jnp.inf, axis=0)""",
            shape,
            _REAL,
            16,
            1,
        )
        for shape in ("2,3,4", "3,7!", "6,1,3")
    ),
    Row(
        """x.reshape(4, 6); x.transpose(2, 0, 1); jnp.swapaxes(x, 0, -1); jnp.moveaxis(x, 0, 1);
        x[:, ::2]; x[..., -1]; x[:, None, 1:]; x[-1, :, ::-1]; jnp.split(x, 2, -1);
        jnp.diagonal(x, 0, 1, 2); jnp.tril(x); jnp.triu(x, 1); jnp.rot90(x); jnp.pad(x, 1);
        jnp.pad(x, ((0, 0), (1, 2), (0, 1)), "reflect"); jnp.pad(x, 2, "edge");
        jnp.pad(x, 1, "wrap");
        lax.pad(x, x.dtype.type(1), ((0, 1, 1), (1, 0, 0), (-1, 0, 2))); jnp.repeat(x, 2, 1);
        jnp.broadcast_to(x[:, :1], (3, 2, 3, 4)); jnp.kron(x[0], x[1]); jnp.outer(x[0, 0], x[1, 1]);
        jnp.cross(x[:, :, 0], x[:, :, 1]); jnp.tensordot(x, x, ([0, 2], [0, 2]));
        jnp.einsum("abc,abd->acd", x, x); x @ x.mT; jnp.trace(x[0]); jnp.isin(x, x[0]);
        x[:, jnp.array([2, 0])]; x[jnp.array([1, 0]), :, jnp.array([0, 3])]; x.at[0].set(x[1]);
        x.at[:, 1].add(x[:, 0]); x.at[:, ::2].max(3); x.at[0, 1, 2].mul(2); x.at[1].min(x[0]);
        jnp.take(x, jnp.array([0, 23, 5])); jnp.searchsorted(x.ravel().sort(), x);
        jnp.vander(x[0, 0]);
        lax.dynamic_slice(x, (0, 1, 1), (1, 2, 2)); jnp.histogram(x, 4, (-2, 2))[0];
        lax.rev(x, (0, 2));
        lax.dynamic_update_slice(x, x[:1, :1], (1, 2, 0)); jnp.nonzero(x, size=3); x[x > 0];
        jnp.unique(x);
        lax.scan(lambda a, b: (a + b, a * b), x[0], x); lax.map(lambda a: a * 2, x);
        lax.fori_loop(0, 3, lambda i, a: a + a, x);
        lax.cond(x[0, 0, 0] > 0, lambda a: a, lambda a: a * 2, x);
        lax.while_loop(lambda a: a.sum() < 20, lambda a: a + 1, x); jax.vmap(jnp.dot)(x[0], x[1]);
        lax.reduce_window(x, x.dtype.type(0), lax.add, (1, 2, 2), (1, 1, 2), "VALID");
        lax.reduce_window(x, x.dtype.type(0), lax.max, (1, 2, 2), (1, 1, 2), "SAME");
        jax.ops.segment_sum(x, jnp.array([1, 0]), 3);
        jax.ops.segment_max(x, jnp.array([1, 1]), 2)""",
        "2,3,4",
        _ALL,
        32,
    ),
    Row(
        """jnp.take_along_axis(x, y, 1); x[:, y[0, 0]]; x[y[0, :, 0] % 2, :, y[0, :, 0]];
        jnp.take(x, y, 1); jnp.take(x, y - 1, 0, mode="clip"); x.at[:, y[0, 0]].set(2);
        x.at[:, y[0, 0]].add(x[:, :1]); x.at[:, y[0, 0]].max(x[:, :1]);
        x.at[:, y[0, 0]].mul(x[:, :1]);
        x.at[y[0, 0, 0]].set(x[0], mode="drop");
        lax.dynamic_slice(x, (y[0, 0, 0], 0, 1), (1, 2, 2));
        lax.dynamic_update_slice(x, x[:1], (y[0, 0, 1], 0, 0));
        jnp.choose(y, [x, x + 1, x], mode="clip");
        lax.dynamic_index_in_dim(x, y[0, 0, 0], 1); nn.one_hot(y, 3);
        jnp.take(x, y * 2, 1, mode="fill")""",
        "2,3,4 2,3,4:3",
        _ALL,
        16,
    ),
    Row(
        "jnp.where(y, x, x + 1); x * y; jnp.where(y, x, 0); jnp.where(y, 1, x); x.at[:].set(y);"
        "jnp.sum(x, where=y); jnp.max(x, initial=0, where=y); jnp.select([y, ~y], [x, x + 1])",
        "2,3,4 2,3,4:b",
        _ALL,
    ),
    Row('x @ y; jnp.dot(x, y); jnp.einsum("ij,jk->ki", x, y)', "3,5 5,2", _ALL, 64),
    Row("x @ y; lax.batch_matmul(x, y); jnp.vecdot(x, y.mT[:, :1])", "2,3,4 2,4,2", _ALL, 64),
    Row("x + y; x * y; jnp.maximum(x, y); x < y", "2,1,4 3,1", _ALL),
    Row("jnp.dot(x, y, preferred_element_type=jnp.int32)", "3,5 5,2", ("int8", "uint8", "int16")),
    Row(
        """lax.conv(x, y.reshape(2, 3, 3, 3), (1, 1), "SAME");
        lax.conv(x, y.reshape(2, 3, 3, 3), (2, 2), "VALID");
        lax.conv_general_dilated(x, y.reshape(6, 1, 3, 3), (1, 1), "SAME", feature_group_count=3);
        lax.conv_general_dilated(x, y.reshape(2, 3, 3, 3), (1, 1), [(1, 2), (0, 1)], (2, 1), (1, 2));
        lax.conv_transpose(x, y.reshape(3, 3, 3, 2), (2, 2), "SAME", dimension_numbers=_AXES);
        lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), "SAME");
        lax.reduce_window(x, 0.0, lax.add, (1, 1, 3, 3), (1, 1, 2, 2), "VALID");
        jax.image.resize(x, (1, 3, 5, 11), "bilinear");
        jax.image.resize(x, (1, 3, 16, 14), "nearest");
        jax.image.resize(x, (1, 3, 4, 4), "cubic"); nn.dot_product_attention(x, x, x);
        nn.glu(x[:, :, :6]);
        nn.dot_product_attention(x, x, x, is_causal=True); jnp.fft.fft(x).real;
        jnp.fft.rfft(x).imag""",
        "1,3,8,7 2,3,9",
        (*_REAL, "int32", "int8"),
        64,
        1,
    ),
    Row(
        """jnp.linalg.det(x); jnp.linalg.inv(x); jnp.linalg.solve(x, x[:, :1]); jnp.linalg.slogdet(x);
        jnp.linalg.matrix_power(x, 3); jnp.linalg.cholesky(x @ x.mT + 9 * jnp.eye(3));
        lax.linalg.triangular_solve(x, x); jnp.linalg.qr(x); jnp.linalg.eigh(x)""",
        "3,3:p",
        ("float32",),
        4096,
        1,
    ),
)


def function_of(expression: str) -> Callable[..., Any]:
    names: dict[str, Any] = {"jax": jax, "jnp": jax.numpy, "lax": jax.lax, "nn": jax.nn}
    names |= {"scipy": jax.scipy.special, "_AXES": _AXES}
    return eval(f"lambda x, y=None: ({expression})", names)  # type: ignore[no-any-return]


def computed(expression: str, operands: Sequence[Any]) -> list[Any]:
    """Return what JAX computes."""
    made = jax.jit(function_of(expression))(*map(jax.numpy.asarray, operands))
    return [np.asarray(leaf) for leaf in jax.tree.leaves(made)]


def lowered(
    expressions: Sequence[str], operands: Sequence[Any], narrow: Any, path: Path
) -> tc.Graph:
    """Return the program of some expressions, each with operands of its own."""
    functions = [function_of(one) for one in expressions]

    def calls(*arguments: Any) -> Any:
        return [call(*given) for call, given in zip(functions, arguments, strict=True)]

    return tc.frontends.from_jax(calls, operands)
