"""Softmax, and normalisations by means and variances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import layout
from tosa_convert.frontends.lowering.arithmetic import divided
from tosa_convert.frontends.lowering.scope import FLOAT32, Array, constant
from tosa_convert.frontends.torch.rules.node import Node, Rule
from tosa_convert.frontends.torch.rules.reductions import extreme, mean, summed


def _softmax(n: Node, a: Array, dim: int, *_: Any) -> Array:
    s, x = n.scope, n.convert(a, FLOAT32)
    if a.rank == 0:
        return n.convert(s.elementwise("exp", s.sub(x, x)), n.dtype)
    axes = [dim % a.rank]
    powers = s.elementwise("exp", s.sub(x, extreme(n, x, axes, "max")))
    return n.convert(divided(s, powers, summed(n, powers, axes)), n.dtype)


def _log_softmax(n: Node, a: Array, dim: int, *_: Any) -> Array:
    s, x = n.scope, n.convert(a, FLOAT32)
    if a.rank == 0:
        return n.convert(s.sub(x, x), n.dtype)
    axes = [dim % a.rank]
    less = s.sub(x, extreme(n, x, axes, "max"))
    total = summed(n, s.elementwise("exp", less), axes)
    return n.convert(s.sub(less, s.elementwise("log", total)), n.dtype)


def _batch_norm(
    n: Node,
    a: Array,
    weight: Array | None,
    bias: Array | None,
    means: Array,
    variances: Array,
    *given: Any,
) -> list[Array]:
    """Normalise by known statistics: a product and a sum for each channel if all are constants."""
    epsilon, s = given[-1], n.scope
    shape = (1, -1, *(1,) * (a.rank - 2))
    x = n.convert(a, FLOAT32)
    held = [
        None if one is None else n.convert(one, FLOAT32) for one in (weight, bias, means, variances)
    ]
    if all(one is None or one.data is not None for one in held):
        w, b, m, v = (None if one is None else one.data for one in held)
        factor = 1 / np.sqrt(np.asarray(v, np.float64) + epsilon)
        factor = factor if w is None else factor * w
        shift = -np.asarray(m, np.float64) * factor
        shift = shift if b is None else shift + b
        parts = [constant(one.astype(np.float32).reshape(shape)) for one in (factor, shift)]
        made = s.add(s.mul(x, parts[0]), parts[1])
    else:
        w_, b_, m_, v_ = (
            None if one is None else layout.reshape(s, one, _channels(one, a.rank)) for one in held
        )
        assert m_ is not None
        assert v_ is not None
        inverse = s.elementwise("rsqrt", s.add(v_, epsilon))
        made = s.mul(s.sub(x, m_), inverse if w_ is None else s.mul(inverse, w_))
        made = made if b_ is None else s.add(made, b_)
    empty = Array(n.dtype, (0,), np.zeros((0,), np.float32))
    return [n.convert(made, n.dtype), *[empty] * (len(n.shapes) - 1)]


def _channels(a: Array, rank: int) -> Sequence[int]:
    return (1, a.size, *(1,) * (rank - 2))


def _layer_norm(
    n: Node,
    a: Array,
    sizes: Sequence[int],
    weight: Array | None,
    bias: Array | None,
    epsilon: float,
) -> list[Array]:
    s, x = n.scope, n.convert(a, FLOAT32)
    axes = list(range(a.rank - len(sizes), a.rank))
    means = mean(n, x, axes)
    centred = s.sub(x, means)
    variance = mean(n, s.mul(centred, centred), axes)
    inverse = s.elementwise("rsqrt", s.add(variance, epsilon))
    made = s.mul(centred, inverse)
    for name, one in (("mul", weight), ("add", bias)):
        if one is not None:
            made = s.elementwise(name, made, n.ranked(n.convert(one, FLOAT32), a.rank))
    results = [n.convert(made, n.dtype)]
    for part, kind in zip((means, inverse), n.dtypes[1:], strict=False):
        results.append(n.convert(part, kind))
    return results


RULES: Final[dict[str, Rule]] = {
    "_softmax": _softmax,
    "softmax": _softmax,
    "_log_softmax": _log_softmax,
    "log_softmax": _log_softmax,
    "_native_batch_norm_legit_no_training": _batch_norm,
    "native_layer_norm": _layer_norm,
}
