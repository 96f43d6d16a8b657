"""Softmax, and normalisations by means and variances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import normalization
from tosa_convert.frontends.lowering.scope import FLOAT32, Array
from tosa_convert.frontends.torch.rules.node import Node, Rule


def _softmax(n: Node, a: Array, dim: int, *_: Any) -> Array:
    s, x = n.scope, n.convert(a, FLOAT32)
    if a.rank == 0:  # It is 1, or NaN.
        return n.convert(s.elementwise("exp", s.sub(x, x)), n.dtype)
    return n.convert(normalization.softmax(s, x, dim), n.dtype)


def _log_softmax(n: Node, a: Array, dim: int, *_: Any) -> Array:
    s, x = n.scope, n.convert(a, FLOAT32)
    made = s.sub(x, x) if a.rank == 0 else normalization.log_softmax(s, x, dim)
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
    rows = zip(n.shapes[1:], n.dtypes[1:], strict=True)
    return [made, *(Array(kind, shape, np.zeros(shape, kind)) for shape, kind in rows)]


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


RULES: Final[dict[str, Rule]] = {
    "_softmax": _softmax,
    "softmax": _softmax,
    "_log_softmax": _log_softmax,
    "log_softmax": _log_softmax,
    "_native_batch_norm_legit_no_training": _batch_norm,
    "native_layer_norm": _layer_norm,
}
