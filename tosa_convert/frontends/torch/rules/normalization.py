"""Softmax, and normalisations by means and variances."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import movement, normalization
from tosa_convert.frontends.lowering.arithmetic import clip, divided
from tosa_convert.frontends.lowering.reductions import extreme, summed
from tosa_convert.frontends.lowering.scope import Array
from tosa_convert.frontends.lowering.types import FLOAT32
from tosa_convert.frontends.torch.rules.node import Node, Rule


def _softmax(n: Node, a: Array, dim: int, *_: Any, is_log: bool = False) -> Array:
    s, x = n.scope, n.convert(a, FLOAT32)
    if a.rank == 0:  # It is 1, or NaN.
        made = s.sub(x, x) if is_log else s.elementwise("exp", s.sub(x, x))
    else:
        made = (normalization.log_softmax if is_log else normalization.softmax)(s, x, dim)
    return n.convert(made, n.dtype)


def _batch_norm(
    n: Node,
    a: Array,
    weight: Array | None,
    bias: Array | None,
    means: Array,
    variances: Array,
    momentum: float,
    epsilon: float,
) -> list[Array]:
    """Normalise by known statistics; nothing uses the further results, which are empty."""
    made = normalization.batch_norm(n.scope, a, weight, bias, means, variances, epsilon)
    return [made, *(n.unused(number) for number in range(1, len(n.shapes)))]


def _layer_norm(
    n: Node,
    a: Array,
    sizes: Sequence[int],
    weight: Array | None,
    bias: Array | None,
    epsilon: float,
) -> list[Array]:
    axes = range(a.rank - len(sizes), a.rank)
    scale, shift = (None if one is None else n.ranked(one, a.rank) for one in (weight, bias))
    found = normalization.layer_norm_with_statistics(n.scope, a, axes, scale, shift, epsilon)
    return [n.convert(one, kind) for one, kind in zip(found, n.dtypes, strict=True)]


def _group_norm(
    n: Node,
    a: Array,
    weight: Array | None,
    bias: Array | None,
    count: int,
    channels: int,
    size: int,
    groups: int,
    epsilon: float,
) -> list[Array]:
    s = n.scope
    made = [normalization.group_norm(s, a, groups, weight, bias, epsilon), n.unused(1), n.unused(2)]
    if n.is_used(1) or n.is_used(2):
        rows = movement.reshape(
            s, n.convert(a, FLOAT32), (count, groups, channels // groups * size)
        )
        found = normalization.layer_norm_with_statistics(s, rows, [2], None, None, epsilon)
        made[1:] = [movement.reshape(s, one, (count, groups)) for one in found[1:]]
    return [n.convert(one, kind) for one, kind in zip(made, n.dtypes, strict=True)]


def _safe_softmax(n: Node, a: Array, dim: int, dtype: Any = None) -> Array:
    """Lower softmax that is 0 where all scores are minus infinity, as if these were finite.

    In any other row, the greatest score is finite and the sum at least 1, or the result is NaN.
    """
    s, x = n.scope, n.convert(a, FLOAT32)
    if a.rank == 0:
        return n.convert(
            s.select(s.equal(x, -np.inf), 0, s.elementwise("exp", s.sub(x, x))), n.dtype
        )
    axes = [dim % a.rank]
    most = extreme(s, x, axes, "max", keep=True)
    most = clip(s, most, float(np.finfo(np.float32).min), np.inf)
    powers = s.elementwise("exp", s.sub(x, most))
    total = clip(s, summed(s, powers, axes, keep=True), 1.0, np.inf)
    return n.convert(divided(s, powers, total), n.dtype)


RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(("_softmax", "softmax"), _softmax),
    **dict.fromkeys(("_log_softmax", "log_softmax"), partial(_softmax, is_log=True)),
    "_native_batch_norm_legit_no_training": _batch_norm,
    "native_layer_norm": _layer_norm,
    "native_group_norm": _group_norm,
    "_safe_softmax": _safe_softmax,
}
