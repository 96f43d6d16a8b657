"""Expressions of torch for the matrix of operators and element types, and how they are lowered."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from frontends.matrix import BITS, FLOATS, SIGNED, Row, dtype
from torch.nn import functional as F  # noqa: N812
from torch.utils import _pytree as pytree

import tosa_convert as tc
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.frontends.read_result import with_own_outputs
from tosa_convert.frontends.torch.convert import lower_directly
from tosa_convert.frontends.torch.refusals import NotLoweredError
from tosa_convert.frontends.torch.rules.node import view_of

INDEX: Final = "int64"
WIDE: Final = ("int64", "float64")
FLUSHES: Final = False
REFUSALS: Final = (NotLoweredError, TosaConvertError)
_ALL: Final = (*FLOATS, *BITS)
_MOST: Final = ("float32", "float16", "bfloat16", "int8", "int32", "int64", "uint8", "bool")
_INTEGERS: Final = (*SIGNED, "uint8")
_MIXED: Final = (
    *("int32/float16", "float16/float32", "uint8/int8", "bool/int8", "int64/int8", "int8/bfloat16"),
    *("bfloat16/float16", "uint8/int16", "float32/int64"),
)
_SMALL: Final = ("float32", "float16", "int32", "int64", "uint8")
_SOME: Final = ("float32", "float16", "int8", "int64", "uint8", "bool")
_REAL: Final = ("float32", "float16", "bfloat16")

_COLUMN: Final = torch.arange(3)[:, None]
_TURNED: Final = torch.tensor([[[1, 0.2, 0], [0, 1, 0.1]]])
TABLE: Final = (
    Row(
        """x.abs(); x.neg(); x.sign(); x.sgn(); x.square(); x.ceil(); x.floor(); x.trunc(); x.round();
        x.frac(); x.isnan(); x.isinf(); x.isfinite(); x.isposinf(); x.isneginf(); x.signbit();
        x.nan_to_num(); x.logical_not(); x.bitwise_not(); x.positive(); x.angle(); x.conj();
        F.relu(x); F.relu6(x); F.hardtanh(x); F.leaky_relu(x); F.threshold(x, 1, 5);
        F.hardshrink(x);
        F.softshrink(x); x.clamp(-1, 5); x.clamp(min=1); x.clamp(max=5); x.clamp(5, 1);
        x.clamp(0.5, 2.5); x + 1; x - 3; 1 - x; x * 2; x * 0.5; x / 3; x // 3; x // -2; x % 3;
        x % -2;
        x % 2.5; x.fmod(3); x.fmod(-2.5); x**2; x**3; x**0; x > 1; x == 2; x < 2.5; x != 0;
        x >= 300;
        x <= -1; x & 5; x | 8; x ^ 3; x << 1; x >> 1; x.bool(); torch.where(x > 0, x, 0);
        x.masked_fill(x > 1, 2); x.copysign(-1.0); x.maximum(x.new_tensor(2)); x.logical_and(x);
        torch.round(x, decimals=1); x.deg2rad(); torch.zeros_like(x); torch.full_like(x, 3);
        x.new_full((2,), 1); torch.div(x, 4, rounding_mode="trunc");
        torch.heaviside(x, x); x.float(); x.half(); x.bfloat16(); x.double();
        x.sort()[0]; x.argsort(stable=True); x.amax(); x.amin(); x.argmax(); x.argmin(); x.max(0);
        x.flip(0); x.unique(); x.nonzero(); x[x > 1]""",
        "ends",
        _ALL,
    ),
    Row(
        """x.exp(); x.exp2(); x.expm1(); x.log(); x.log2(); x.log10(); x.log1p(); x.sqrt(); x.rsqrt();
        x.reciprocal(); x.tanh(); x.asin(); x.acos(); x.atan(); x.asinh();
        x.acosh(); x.atanh(); x.sigmoid(); x.logit(); x**-1; x**-2; 2**x; 3 / x;
        x.float_power(2); x.lgamma(); x.digamma(); x.i0()""",
        "ends",
        (*_REAL, *BITS),
        64,
    ),
    Row(
        """x.erf(); x.erfc(); x.erfinv(); torch.special.entr(x); torch.special.log_ndtr(x);
        torch.special.xlog1py(x, x); torch.special.ndtr(x); F.hardswish(x);
        F.hardsigmoid(x); F.elu(x); F.elu(x, 2); F.selu(x); F.celu(x, 2);
        F.silu(x); F.mish(x); F.softplus(x); F.softplus(x, 2, 3);
        F.softsign(x); F.tanhshrink(x); F.logsigmoid(x); F.rrelu(x); F.softmin(x, 0)""",
        "usual",
        (*_REAL, *BITS),
        16,
        1,
    ),
    Row("x.sinh(); x.cosh()", "ends", ("float32", *BITS), 64),
    Row("x**0.5; x**1.5; x**-0.5; x**-1.5", "40:p", (*_REAL, "int32", "uint8"), 16),
    Row('F.gelu(x); F.gelu(x, approximate="tanh")', "40", (*_REAL, *BITS), 16, 1),
    Row(
        "x.sinh(); x.cosh(); x.sin(); x.cos(); x.tan(); x.sinc()",
        "40",
        (*_REAL, "int32", "uint8"),
        64,
    ),
    *(
        Row(f"x.to(torch.{target})", "whole", [one for one in _ALL if one != target])
        for target in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
    ),
    Row(
        """x + y; x - y; x * y; x == y; x != y; x < y; x <= y; x > y; x >= y; x.maximum(y);
        x.minimum(y); x.fmax(y); x.fmin(y); x.logical_and(y); x.logical_or(y); x.logical_xor(y);
        x & y; x | y; x ^ y; torch.where(x > y, x, y);
        x.heaviside(y); x.clamp(min=y); torch.isclose(x, y); x.copysign(y)""",
        "pairs",
        (*_ALL, *_MIXED),
    ),
    Row(
        """x / y; x // y; x % y; x.fmod(y); torch.div(x, y, rounding_mode="trunc");
        torch.div(x, y, rounding_mode="floor")""",
        "divisors",
        (*_MOST, "int16", *_MIXED),
    ),
    Row(
        "x.atan2(y); x.pow(y); x.hypot(y); x.xlogy(y); x.lerp(y, 0.25); x.ldexp(y); x.nextafter(y)",
        "pairs",
        (*_REAL, *_INTEGERS, "bool", "int32/float32", "float16/float32"),
        64,
    ),
    Row(
        """x.logaddexp(y); x.logaddexp2(y); F.l1_loss(x, y, reduction="none");
        F.mse_loss(x, y, reduction="none"); F.smooth_l1_loss(x, y, reduction="none");
        F.huber_loss(x, y, reduction="none"); F.kl_div(x, y, reduction="none");
        F.binary_cross_entropy_with_logits(x, y, reduction="none")""",
        "pairs",
        (*_REAL, "int32"),
        64,
        1,
    ),
    Row('F.soft_margin_loss(x, y, reduction="none")', "pairs", ("float32", "bfloat16"), 64, 1),
    Row("x << y; x >> y", "shifts", _INTEGERS),
    Row(
        "x.add(y, alpha=2); x.sub(y, alpha=3); torch.rsub(x, y, alpha=2); x.addcmul(x, y, value=2)",
        "2,3,4 2,3,4",
        (*_ALL, *_MIXED),
    ),
    Row("torch.var_mean(x, 0); torch.std_mean(x, -1)", "2,3,4", _REAL, 64),
    Row("x.gcd(y); x.lcm(y)", "3,7:p 3,7:p", _INTEGERS),
    *(
        Row(
            """x.sum(); x.sum(0); x.sum(-1, keepdim=True); x.mean(); x.mean(0); x.prod(); x.prod(-1);
            x.amax(0); x.amin(-1, keepdim=True); x.max(-1); x.min(0); x.argmax(0);
            x.argmin(-1, keepdim=True); x.any(); x.all(0); x.any(-1); x.aminmax(); x.nansum();
            x.nanmean(); x.count_nonzero(0); x.cumsum(0); x.cumprod(-1); x.cummax(0); x.cummin(-1);
            x.sort(dim=-1, stable=True); x.sort(0, True); x.argsort(dim=-1, stable=True);
            x.topk(1, 0);
            x.median(); x.median(-1); x.nanmedian(); x.kthvalue(1, 0); x.mode(0);
            x.sum(0, dtype=torch.float32); x.msort(); x.diff(dim=0); x.flatten(); x.unsqueeze(0);
            x.squeeze(); x.flip(-1); x.roll(1, 0); x.tile(2); x.clone(); x.view(-1); x.expand_as(x);
            torch.stack([x, x], -1); torch.cat([x, x]); torch.atleast_3d(x);
            x.repeat_interleave(2)""",
            shape,
            types,
        )
        for shape, types in (
            *(
                ("2,3,4", _MOST),
                ("3,7!", ("float32", "float16", "int64", "uint8")),
                (".", ("float32", "int64", "bool")),
            ),
            *(("1,1", ("float16", "int8")), ("2,5,1,3,2", ("float32", "int32"))),
        )
    ),
    *(
        Row(
            """x.std(); x.var(0); x.std(-1, correction=0); x.var(-1, keepdim=True);
            x.norm(); x.norm(1, 0); x.norm(math.inf, -1); x.norm(0); x.norm(3, 0);
            x.norm(-math.inf); torch.linalg.vector_norm(x, 2, -1); x.logsumexp(0); x.logsumexp(-1);
            x.softmax(0); x.softmax(-1); x.log_softmax(-1); x.logcumsumexp(0);
            F.normalize(x, dim=0);
            x.quantile(0.3); x.quantile(0.5, 0); F.layer_norm(x, x.shape[-1:]);
            F.rms_norm(x, x.shape[-1:]); x.renorm(2, 0, 1.0); torch.trapezoid(x);
            torch.cov(x.flatten(0, -2)); x.softmax(0, dtype=torch.float32)""",
            shape,
            _REAL,
            16,
            1,
        )
        for shape in ("2,3,4", "3,7!", "5", "6,1,3")
    ),
    Row(
        """x.reshape(4, 6); x.permute(2, 0, 1); x.transpose(0, -1); x.mT; x.movedim(0, 1); x.flip(0, 2);
        x.roll((1, 2), (0, 2)); x.tile(2, 1, 1); x.repeat(1, 2, 1); x[None].expand(3, 2, 3, 4);
        x.narrow(1, 1, 2); x[:, ::2]; x[..., -1]; x[1]; x[:, None, 1:]; x[-1, :, 1:3];
        x.select(2, 1);
        x.split(2, 1); x.chunk(2, -1); x.unbind(1); x.tensor_split(3, 2); x.diagonal(0, 1, 2);
        x.diagonal(1); torch.diag_embed(x); x.tril(); x.triu(1); x.rot90(); x.unfold(2, 2, 1);
        x.as_strided((2, 2), (1, 3), 1); F.pad(x, (1, 2)); F.pad(x, (1, 0, 0, 2), value=7);
        F.pad(x, (-1, 1)); F.pad(x, (1, 1), "reflect"); F.pad(x, (2, 0), "replicate");
        F.pad(x, (1, 2), "circular"); x.repeat_interleave(2, 1); torch.hstack([x, x]);
        torch.dstack([x, x]); torch.block_diag(x[0], x[1]);
        x.index_fill(1, torch.tensor([0, 2]), 5);
        x.diagonal_scatter(x[0, :2].T);
        x.select_scatter(x[0] * 2, 0, 1); x.slice_scatter(x[:, :1], 1, 2); x.masked_select(x > 0);
        x[:, [2, 0]]; x[[1, 0], :, [0, 3]]; x.take(torch.tensor([0, 23, 5])); x[0].trace();
        torch.outer(x[0, 0], x[1, 1]); torch.kron(x[0], x[1]); torch.cross(x[:, :, 0], x[:, :, 1]);
        torch.tensordot(x, x, ([0, 2], [0, 2])); torch.einsum("abc,abd->acd", x, x); x @ x.mT;
        torch.bucketize(x, x.flatten().sort()[0]); torch.isin(x, x[0]); x.histc(4, -2, 2);
        torch.meshgrid(x[0, 0], x[1, 1], indexing="ij"); torch.vander(x[0, 0]);
        x.unflatten(-1, (2, 2));
        torch.searchsorted(x.sort()[0], x); torch.cdist(x, x); F.pdist(x[0]);
        torch.dot(x[0, 0], x[1, 1])""",
        "2,3,4",
        _SOME,
        32,
    ),
    Row(
        """x.gather(1, y); torch.take_along_dim(x, y, 1);
        x.scatter(1, (y[:, :1] + _COLUMN) % 3, x); x.scatter(1, y, 2);
        x.scatter_add(1, y, x); x.scatter_reduce(1, y, x, "amax");
        x.scatter_reduce(1, y, x, "prod");
        x.scatter_reduce(1, y, x, "mean"); x.scatter_reduce(1, y, x, "amin", include_self=False);
        x.index_select(2, y[0, 0]); x[:, y[0, 0]]; x[y[0, :, 0] % 2, :, y[0, :, 0]];
        x.index_add(1, y[0, 0], x.repeat(1, 2, 1)[:, :4]); x.index_copy(1, torch.tensor([2, 0, 1]), x);
        x.index_put((y[:, :, 0] % 2,), x[0, 0]); x.index_put((y % 2, y), x[0, 0], True);
        x.index_reduce(1, z[0], x, "amax"); F.embedding(y, x[0]); x.put(y % 2, x);
        F.embedding_bag(y[0], x[0]); F.embedding_bag(y[0], x[0], mode="max")""",
        "2,3,4 2,3,4:3 1,3:3",
        _SOME,
        16,
    ),
    Row("F.one_hot(y, 5); y.bincount(minlength=4); x[y]", "6 6:4", ("int64",)),
    Row(
        """x.masked_fill(y, 3); torch.where(y, x, x + 1); x.masked_scatter(y, x); x * y; x.where(y, 0);
        x.masked_fill(y, -2); torch.where(y, 1, x); (x > 1) & y; x.index_put((y,), x[0, 0, 0])""",
        "2,3,4 2,3,4:b",
        _SOME,
    ),
    Row(
        """x @ y; torch.addmm(z, x, y); torch.addmm(z, x, y, beta=2, alpha=3); x.mm(y);
        x.mv(y[:, 0]); torch.einsum("ij,jk->ki", x, y); torch.inner(x, y.T);
        F.linear(x, y.T, z); F.linear(x, y.T)""",
        "3,5 5,2 2",
        _MOST,
        64,
    ),
    Row("x @ y; torch.bmm(x, y); torch.baddbmm(z, x, y, beta=0.5)", "2,3,4 2,4,2 2,3,2", _MOST, 64),
    Row("x @ y", "4 2,4,3", _SMALL, 64),
    Row("x @ y; x.matmul(y) + z", "2,1,3,4 5,4,2 2", _SMALL, 64),
    Row(
        "x + y; x * y; torch.where(x > 0, x, y); x.maximum(y); x / (y * y + 1)", "2,1,4 3,1", _MOST
    ),
    Row("x + y; x - y; x < y; x.pow(y)", "2,3 .:p", ("float32", "float16", "float32/float64")),
    Row(
        """F.conv1d(x[:, :, 0], y[..., :3], stride=2);
        F.conv1d(x[:, :, 0], y[..., :3], z, 1, 1, 2);
        F.conv2d(x, y.reshape(2, 3, 3, 3)); F.conv2d(x, y.reshape(2, 3, 3, 3), z, 2, 1);
        F.conv2d(x, y.reshape(2, 3, 3, 3), None, 1, "same", 2);
        F.conv2d(x, y.reshape(6, 1, 3, 3), None, 1, 1, 1, 3);
        F.conv_transpose2d(x, y.reshape(3, 2, 3, 3), z, 2, 1, 1);
        F.conv_transpose2d(x, y.reshape(3, 2, 3, 3), None, 3, 0, 0, 1, 2);
        F.conv3d(x[None], y.reshape(2, 1, 3, 3, 3), None, 1, 1);
        F.conv_transpose1d(x[0, :, :3], y.reshape(3, 2, 9)[..., :4], None, 2)""",
        "1,3,8,7 2,3,9 2",
        (*_REAL, "float64", "int32", "int8"),
        256,
    ),
    *(
        Row(
            """F.max_pool2d(x, 2); F.max_pool2d(x, 3, 2, 1); F.max_pool2d(x, 2, 2, ceil_mode=True);
            F.max_pool2d(x, 3, 1, 1, 2); F.max_pool2d(x, 2, return_indices=True);
            F.avg_pool2d(x, 2);
            F.avg_pool2d(x, 3, 2, 1); F.avg_pool2d(x, 3, 2, 1, count_include_pad=False);
            F.avg_pool2d(x, 2, ceil_mode=True); F.avg_pool2d(x, 2, divisor_override=3);
            F.max_pool1d(x[0], 3, 2); F.avg_pool1d(x[0], 3, 2, 1); F.max_pool3d(x, 2);
            F.avg_pool3d(x, 2, 1); F.adaptive_avg_pool2d(x, (3, 2)); F.adaptive_max_pool2d(x, 3);
            F.adaptive_avg_pool2d(x, 1); F.lp_pool2d(x, 2, 2); F.local_response_norm(x, 2);
            F.unfold(x, 3, padding=1); F.pixel_unshuffle(x[..., :6], 2); F.channel_shuffle(x, 3);
            F.batch_norm(x, x[0, :, 0, 0], x[0, :, 0, 1] ** 2 + 1); F.instance_norm(x);
            F.group_norm(x, 3); F.cosine_similarity(x, x + 1);
            F.grid_sample(x, F.affine_grid(_TURNED.to(x), (1, 3, 4, 4)));
            F.glu(x[..., :6]); F.pad(x, (1, 1, 2, 2), "reflect")""",
            shape,
            (*_REAL, "float64", "int32", "uint8"),
            64,
            1,
        )
        for shape in ("1,3,8,7", "1,3,8,7!")
    ),
    Row(
        """F.scaled_dot_product_attention(x, x, x); F.interpolate(x, scale_factor=2);
        F.scaled_dot_product_attention(x, x, x, is_causal=True); F.interpolate(x, (5, 11));
        F.interpolate(x, (5, 11), mode="bilinear"); F.interpolate(x, (3, 4), mode="area");
        F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True);
        F.interpolate(x, (9, 5), mode="bicubic"); F.interpolate(x, (9, 5), mode="nearest-exact");
        F.interpolate(x, (4, 4), mode="bilinear", antialias=True)""",
        "1,3,8,7",
        (*_REAL, "uint8"),
        64,
        1,
    ),
    Row(
        """torch.linalg.det(x); torch.linalg.inv(x); torch.linalg.solve(x, x[:, :1]); x.logdet();
        torch.linalg.slogdet(x); torch.linalg.matrix_power(x, 3);
        torch.linalg.cholesky(x @ x.mT + 9);
        torch.linalg.solve_triangular(x, x, upper=True); torch.linalg.qr(x); torch.linalg.eigh(x)""",
        "3,3:p",
        ("float32", "float64"),
        4096,
        1,
    ),
    Row(
        """F.cross_entropy(x, y); F.cross_entropy(x, y, label_smoothing=0.1); F.nll_loss(x, y);
        F.cross_entropy(x, y, ignore_index=2, reduction="sum"); F.multi_margin_loss(x, y);
        F.multilabel_soft_margin_loss(x, x.sigmoid()); F.nll_loss(x, y, reduction="none")""",
        "6,4 6:4",
        _REAL,
        64,
        1,
    ),
)


def function_of(expression: str) -> Callable[..., Any]:
    names = {"torch": torch, "F": F, "math": math, "_TURNED": _TURNED, "_COLUMN": _COLUMN}
    return eval(f"lambda x, y=None, z=None: ({expression})", names)  # type: ignore[no-any-return]


def tensor(array: Any) -> torch.Tensor:
    if array.dtype == dtype("bfloat16"):
        return torch.from_numpy(np.array(array.view(np.int16))).view(torch.bfloat16)
    return torch.from_numpy(np.array(array))


def computed(expression: str, operands: Sequence[Any]) -> list[Any]:
    """Return what torch computes."""
    made = function_of(expression)(*map(tensor, operands))
    return [np.array(view_of(torch.as_tensor(leaf))) for leaf in pytree.tree_leaves(made)]


class _Calls(torch.nn.Module):  # type: ignore[misc,unused-ignore]
    """Calls functions, each with operands of its own."""

    def __init__(self, functions: Sequence[Callable[..., Any]]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, arguments: Any) -> Any:
        return [call(*given) for call, given in zip(self.functions, arguments, strict=True)]


def lowered(
    expressions: Sequence[str], operands: Sequence[Any], narrow: Any, path: Path
) -> tc.Graph:
    """Return the program of some expressions, each with operands of its own."""
    calls = _Calls([function_of(one) for one in expressions])
    arguments = [tuple(map(tensor, given)) for given in operands]
    try:
        program = torch.export.export(calls.eval(), (arguments,), strict=False)
    except Exception as error:  # Of what torch itself does not export.
        raise fail("not-lowered", "torch.export", str(error)) from None
    graph = with_own_outputs(lower_directly(program, narrow).graph)
    if narrow:
        tc.save(graph, path)
        graph = tc.load(path, narrow=narrow)
    return tc.rewrites.apply(graph).graph
