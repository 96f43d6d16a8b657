"""Decompositions of torch operators beside torch's.

torch has none of these, or one of operators that TOSA does not have.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch
from torch._decomp import decomposition_table

from tosa_convert.frontends.torch import (
    convolutions,
    elementwise,
    indexing,
    integers,
    matrices,
    quantised,
    windows,
)
from tosa_convert.frontends.torch.table import rule_of

Decomposition = Callable[..., Any]
aten: Any = torch.ops.aten

#: Operator -> its decomposition, which may return NotImplemented for arguments that it does not take.
OWN: dict[Any, Decomposition] = {
    aten.var_mean.correction: elementwise.variance_and_mean,
    aten.var.correction: lambda x, *args, **options: elementwise.variance_and_mean(
        x, *args, **options
    )[0],
    aten.native_group_norm.default: elementwise.group_normalization,
    aten.asinh.default: elementwise.asinh,
    aten.acosh.default: elementwise.acosh,
    aten.atanh.default: elementwise.atanh,
    aten.sinh.default: elementwise.sinh,
    aten.cosh.default: elementwise.cosh,
    aten.asin.default: elementwise.asin,
    aten.acos.default: elementwise.acos,
    aten.atan2.default: elementwise.atan2,
    aten.erfc.default: elementwise.erfc,
    aten.hypot.default: elementwise.hypot,
    aten.isfinite.default: elementwise.isfinite,
    aten.isinf.default: elementwise.isinf,
    aten.signbit.default: elementwise.signbit,
    aten.copysign.Tensor: elementwise.copysign,
    torch.ops.prims.prod.default: elementwise.product,
    aten.cumprod.default: elementwise.cumulative_product,
    aten.cummax.default: partial(elementwise.cumulative_extreme, is_maximum=True),
    aten.cummin.default: partial(elementwise.cumulative_extreme, is_maximum=False),
    aten._cdist_forward.default: elementwise.distances,
    aten._pdist_forward.default: elementwise.distances_of_pairs,
    aten._safe_softmax.default: elementwise.safe_softmax,
    aten.fmod.Tensor: elementwise.remainder_of_truncation,
    aten.fmod.Scalar: elementwise.remainder_of_truncation,
    aten.div.Tensor_mode: elementwise.divide_to_whole,
    aten.div.Scalar_mode: elementwise.divide_to_whole,
    aten.floor_divide.default: elementwise.floor_divide,
    aten.floor_divide.Scalar: elementwise.floor_divide,
    aten.remainder.Tensor: elementwise.remainder_of_floor,
    aten.remainder.Scalar: elementwise.remainder_of_floor,
    aten.native_dropout.default: elementwise.dropout_of_inference,
    aten.rrelu_with_noise_functional.default: elementwise.leaky_relu_of_means,
    aten.fmax.default: partial(integers.extreme_without_nan, operator=torch.maximum),
    aten.fmin.default: partial(integers.extreme_without_nan, operator=torch.minimum),
    aten.exp2.default: elementwise.power_of_two,
    aten.mm.default: integers.product_of_matrices,
    aten.bmm.default: integers.product_of_matrices,
    aten.block_diag.default: indexing.block_diagonal,
    aten.tril_indices.default: indexing.lower_triangle,
    aten.triu_indices.default: indexing.upper_triangle,
    aten.embedding_bag.padding_idx: indexing.embedding_bag,
    aten._embedding_bag.default: indexing.embedding_bag,
    aten._embedding_bag_forward_only.default: indexing.embedding_bag,
    aten.index_copy.default: indexing.index_copy,
    aten.index_fill.int_Scalar: indexing.index_fill,
    aten.index_fill.int_Tensor: indexing.index_fill,
    aten.scatter_add.default: indexing.scatter_add,
    aten.scatter_reduce.two: indexing.scatter_reduce,
    aten.scatter.reduce: indexing.scatter_with,
    aten.scatter.value_reduce: indexing.scatter_with,
    aten.index_reduce.default: indexing.index_reduce,
    aten.index_add.default: indexing.index_add,
    aten.index_put.default: indexing.index_put,
    aten._index_put_impl.default: indexing.index_put,
    aten.searchsorted.Tensor: indexing.search_sorted,
    aten.pad.default: windows.pad,
    **{
        getattr(aten, f"{kind}_pad{axes}d").default: partial(windows.pad, mode=mode)
        for kind, mode in (("reflection", "reflect"), ("replication", "replicate"))
        for axes in (1, 2, 3)
    },
    aten.avg_pool2d.default: partial(windows.average_pool, axes=2),
    aten.avg_pool3d.default: partial(windows.average_pool, axes=3),
    aten._adaptive_avg_pool2d.default: windows.adaptive_average,
    aten.adaptive_avg_pool1d.default: windows.adaptive_average,
    aten._adaptive_avg_pool3d.default: windows.adaptive_average,
    aten.adaptive_max_pool2d.default: windows.adaptive_maximum,
    aten.adaptive_max_pool3d.default: windows.adaptive_maximum,
    aten.upsample_nearest2d.vec: windows.repeat_elements,
    aten.upsample_bilinear2d.vec: windows.resize_bilinear,
    aten.upsample_bicubic2d.vec: windows.resize_bicubic,
    aten._upsample_bicubic2d_aa.default: partial(windows.resize_without_aliases, cubic=True),
    aten._upsample_bilinear2d_aa.default: partial(windows.resize_without_aliases, cubic=False),
    aten.kthvalue.default: indexing.kth_value,
    aten.median.dim: indexing.median,
    aten.median.default: indexing.median_of_all,
    aten.histc.default: indexing.histogram,
    aten._linalg_det.default: matrices.determinant,
    aten.linalg_inv_ex.default: matrices.inverse,
    aten.linalg_inv.default: matrices.inverse_alone,
    aten.linalg_slogdet.default: matrices.sign_and_logarithm,
    aten.cholesky_solve.default: matrices.solve_by_factor,
    aten.linalg_solve.default: matrices.solve,
    aten.linalg_solve_ex.default: matrices.solve_and_report,
    aten.linalg_solve_triangular.default: matrices.solve_triangular,
    aten.linalg_cholesky.default: matrices.cholesky,
    aten.linalg_cholesky_ex.default: matrices.cholesky_and_report,
    aten._grouped_mm.default: matrices.product_of_groups,
    aten.fake_quantize_per_tensor_affine.default: quantised.fake_quantize,
    aten.fake_quantize_per_tensor_affine.tensor_qparams: quantised.fake_quantize,
    aten.fake_quantize_per_channel_affine.default: quantised.fake_quantize_channels,
    aten.scatter.value: indexing.scatter_number,
    aten.convolution.default: convolutions.convolution,
    aten._trilinear.default: elementwise.product_of_three,
    aten.conv_tbc.default: convolutions.convolution_of_times,
    aten.convolution_backward.default: convolutions.gradients,
}


def decompositions() -> dict[Any, Decomposition]:
    """Return the table for `run_decompositions`: torch's, without what has rules, and ours."""
    known = {**decomposition_table, **torch.export.default_decompositions()}
    for packet in _INTO_PRIMS:
        for overload in packet.overloads():
            known.pop(getattr(packet, overload), None)
    table = {
        operator: decomposition
        for operator, decomposition in known.items()
        if isinstance(operator, torch._ops.OpOverload)
        and (rule_of(operator) is None or operator.overloadpacket in _DECOMPOSED)
    }
    table.update(OWN)
    table.update(quantised.decompositions())
    experts = getattr(torch.ops.transformers, "grouped_mm_fallback", None)
    if experts is not None:
        table[experts.default] = matrices.product_of_groups
    return table


#: Operators that torch decomposes into others that do not lower, either: they are named as they are.
_INTO_PRIMS: Final = (
    *(aten.i0, aten.special_i0e, aten.special_i1, aten.special_i1e, aten.special_zeta),
    *(aten.special_bessel_j0, aten.special_bessel_j1, aten.special_spherical_bessel_j0),
    *(aten.igamma, aten.igammac, aten.lgamma, aten.digamma),
)
#: Operators that torch decomposes, although they have rules for some arguments.
_DECOMPOSED: Final = (aten.fill, aten.copy)


def composites() -> dict[Any, Decomposition]:
    """Return torch's decompositions of operators that are written with others, such as `fft_rfft`."""
    composite = torch._C.DispatchKey.CompositeImplicitAutograd
    return {
        operator: decomposition
        for operator, decomposition in torch.export.default_decompositions().items()
        if operator.has_kernel_for_dispatch_key(composite)
    }
