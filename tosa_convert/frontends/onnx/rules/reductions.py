"""Reductions, cumulative functions, softmax, normalisations and losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np

from tosa_convert.frontends.lowering import movement, normalization, reductions
from tosa_convert.frontends.lowering.arithmetic import mul
from tosa_convert.frontends.lowering.conversion import converted
from tosa_convert.frontends.lowering.functions import sqrt
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant
from tosa_convert.frontends.lowering.types import INT32, is_float
from tosa_convert.frontends.onnx.node import ByDefinition, Item, Node, Rule, place, plain

#: Reduces an array along axes, whose sizes become 1.
Reduction = Callable[[Scope, Array, Sequence[int]], Array]

# -- reductions ----------------------------------------------------------------------------------


def axes_of(n: Node, rank: int, since: int) -> list[int] | None:
    """Return the axes of a reduction, from an attribute or since an opset an operand; None for none."""
    given: Sequence[int] | None
    given = n.get("axes") if n.since < since else (n.ints(1) if n.has(1) else None)
    if not given:
        return None if n.get("noop_with_empty_axes", 0) else list(range(rank))
    return sorted({place(int(axis), rank) for axis in given})


def _reduction(
    function: Reduction, since: int = 18, alone: Callable[..., Array] | None = None
) -> Rule:
    """Return the rule of a reduction. alone: the function of each element if there is no axis."""

    def rule(n: Node) -> Array:
        s, a = n.scope, n.array(0)
        axes = axes_of(n, a.rank, since)
        if axes is None:
            return a if alone is None else alone(s, a)
        made = function(s, a, axes)
        if n.get("keepdims", 1):
            return made
        return movement.reshape(s, made, [size for k, size in enumerate(a.shape) if k not in axes])

    return rule


def total(s: Scope, a: Array, axes: Sequence[int]) -> Array:
    """Sum elements. A sum of INT32 that wraps around is not defined in TOSA."""
    if a.dtype == INT32:
        return reductions.by_operator(s, a, axes, "reduce_sum", True)
    return reductions.summed(s, a, axes, True)


def _mean(s: Scope, a: Array, axes: Sequence[int]) -> Array:
    if is_float(a.dtype):
        return normalization.mean(s, a, axes, True)
    count = math.prod(a.shape[axis] for axis in axes)
    made = total(s, a, axes)
    return s.elementwise("intdiv", *s.aligned([made, count]))


def _real(function: Callable[..., Array]) -> Callable[..., Array]:
    """Return a function that refuses integers."""

    def of_reals(s: Scope, a: Array, *axes: Sequence[int]) -> Array:
        if not is_float(a.dtype):
            raise NotLowered("TOSA has no roots and logarithms of integers")
        return function(s, a, *axes)

    return of_reals


def _absolute(s: Scope, a: Array) -> Array:
    return s.elementwise("abs", a)


def _square(s: Scope, a: Array) -> Array:
    return s.mul(a, a)


_GREATEST: Final = partial(reductions.extreme, word="max", keep=True)

# -- cumulative functions ------------------------------------------------------------------------


def _cumulative(word: str, neutral: int) -> Rule:
    def rule(n: Node) -> Array:
        s, a = n.scope, n.array(0)
        axis = place(n.number(1), a.rank)
        backwards = bool(n.get("reverse", 0))
        if n.get("exclusive", 0):
            low, high = [0] * a.rank, [0] * a.rank
            low[axis], high[axis] = (-1, 1) if backwards else (1, -1)
            a = movement.pad(s, a, low, high, constant(np.asarray(neutral, a.dtype)))
        return reductions.cumulative(s, a, axis, backwards, word)

    return rule


# -- softmax -------------------------------------------------------------------------------------


def _along_axis(function: Callable[[Scope, Array, int], Array]) -> Rule:
    """Return the rule of a function along one axis; before opset 13 along all from it on."""

    def rule(n: Node) -> Array:
        s, a = n.scope, n.array(0)
        if n.since >= 13:
            return function(s, a, n.axis(a.rank, -1))
        axis = n.axis(a.rank, 1)
        if math.prod(a.shape[axis + 1 :]) == 1 and a.rank:
            return function(s, a, axis)
        flat = movement.reshape(s, a, (math.prod(a.shape[:axis]), math.prod(a.shape[axis:])))
        return movement.reshape(s, function(s, flat, 1), a.shape)

    return rule


# -- normalisations ------------------------------------------------------------------------------


def _batch(n: Node) -> list[Array]:
    s, (x, scale, bias, mean, variance) = n.scope, n.arrays[:5]
    epsilon = float(n.get("epsilon", 1e-5))
    if not n.get("training_mode", 0):
        if n.since < 9 and not n.get("spatial", 1):
            raise NotLowered("it normalises each element with statistics of its own")
        made = normalization.batch_norm(s, x, scale, bias, mean, variance, epsilon)
        return [made]
    axes = [k for k in range(x.rank) if k != 1]
    now = normalization.mean_and_variance(s, x, axes)
    made = normalization.batch_norm(s, x, scale, bias, *now, epsilon)
    momentum = float(n.get("momentum", 0.9))
    running = [
        s.add(s.mul(old, momentum), s.mul(converted(s, new, old.dtype), 1 - momentum))
        for old, new in zip((mean, variance), now, strict=True)
    ]
    return [made, *running]


def _from_axis(function: Callable[..., Array | Sequence[Array]], operands: int) -> Rule:
    """Return the rule of a normalisation along all axes from one on, with scale and bias."""

    def rule(n: Node) -> Array | Sequence[Array]:
        x, given = n.array(0), [n.optional(index) for index in range(1, operands)]
        axes = range(n.axis(x.rank, -1), x.rank)
        return function(n.scope, x, axes, *given, epsilon=n.get("epsilon"))

    return rule


def _group(n: Node) -> Array:
    x, scale, bias = n.arrays
    return normalization.group_norm(n.scope, x, n.get("num_groups"), scale, bias, n.get("epsilon"))


def _mean_variance(n: Node) -> Array:
    s, x = n.scope, n.array(0)
    axes = [place(int(axis), x.rank) for axis in n.get("axes") or (0, 2, 3)]
    # ONNX adds 1e-9 to the deviation.
    mean = normalization.mean(s, x, axes, True)
    rest = s.sub(x, mean)
    deviation = sqrt(s, normalization.mean(s, s.mul(rest, rest), axes, True))
    return s.mul(rest, s.elementwise("reciprocal", s.add(deviation, 1e-9)))


def _lp(n: Node) -> Array:
    """Divide by the norm along an axis; zeros stay zeros."""
    s, x = n.scope, n.array(0)
    axis, order = n.axis(x.rank, -1), int(n.get("p", 2))
    norm = normalization.lp_norm(s, x, order, [axis], True)
    norm = s.select(s.equal(norm, 0), 1, norm)
    return s.mul(x, s.elementwise("reciprocal", norm))


def _global(function: Reduction) -> Rule:
    """Return the rule of a reduction of all spatial dimensions."""
    return lambda n: function(n.scope, n.array(0), list(range(2, n.array(0).rank)))


# -- losses --------------------------------------------------------------------------------------


def _cross_entropy(n: Node) -> list[Array]:
    scores = normalization.log_softmax(n.scope, n.array(0), 1)
    return [_likelihood_loss(n, scores), scores]


def _likelihood_loss(n: Node, scores: Array) -> Array:
    """Return minus the score of each label, weighted, and reduced by an attribute."""
    s, classes, labels, weights = n.scope, scores.shape[1], n.array(1), n.optional(2)
    held = converted(s, labels, INT32)
    held = movement.reshape(s, held, (held.shape[0], 1, *held.shape[1:]))
    shape = [classes if k == 1 else 1 for k in range(scores.rank)]
    every = constant(np.arange(classes, dtype=np.int32).reshape(shape))
    hit = s.equal(held, every)
    ignored = n.get("ignore_index")
    factor = (
        constant(np.ones((1,) * scores.rank, scores.dtype))
        if weights is None
        else movement.reshape(s, converted(s, weights, scores.dtype), shape)
    )
    if ignored is not None and 0 <= int(ignored) < classes:
        kept = (np.arange(classes) != int(ignored)).reshape(shape)
        factor = s.select(constant(kept), factor, constant(np.zeros(shape, scores.dtype)))
    weighted = mul(s, scores, factor)
    loss = s.elementwise("negate", total(s, s.select(hit, weighted, 0), [1]))
    loss = movement.reshape(s, loss, labels.shape)
    word = n.get("reduction", "mean")
    if word == "none":
        return loss
    axes = list(range(loss.rank))
    made = movement.reshape(s, total(s, loss, axes), ())
    if word == "sum":
        return made
    if weights is None and ignored is None:
        return s.mul(made, 1 / loss.size)
    share = total(s, s.select(hit, factor, 0), [1])
    count = movement.reshape(s, total(s, share, list(range(share.rank))), ())
    return s.mul(made, s.elementwise("reciprocal", count))


def _attention(n: Node) -> Item:
    """Refuse what ONNX defines in another order than onnxruntime computes it."""
    is_masked = n.has(3) or n.get("is_causal", 0)
    if is_masked and n.get("qk_matmul_output_mode", 0) == 1 and any(n.wanted[3:]):
        raise NotLowered(
            "onnxruntime returns scores without the mask, and ONNX's definition those with it",
            "use qk_matmul_output_mode=0 or 2",
        )
    if n.get("softcap", 0.0) and is_masked:
        raise NotLowered(
            "onnxruntime caps the scores before the mask is added, and ONNX's definition after it: "
            "write it with MatMul, Tanh and Softmax in the order that is meant"
        )
    raise ByDefinition


RULES: Final[dict[str, Rule]] = {
    "Attention": _attention,
    "BatchNormalization": _batch,
    "CumProd": _cumulative("mul", 1),
    "CumSum": _cumulative("add", 0),
    "GlobalAveragePool": _global(_mean),
    "GlobalLpPool": lambda n: _global(
        lambda s, a, axes: normalization.lp_norm(s, a, n.get("p", 2), axes, True)
    )(n),
    "GlobalMaxPool": _global(_GREATEST),
    "GroupNormalization": _group,
    "InstanceNormalization": plain(normalization.instance_norm, "epsilon"),
    "LRN": plain(normalization.local_response, "size", "alpha", "beta", "bias"),
    "LayerNormalization": _from_axis(normalization.layer_norm_with_statistics, 3),
    "LogSoftmax": _along_axis(normalization.log_softmax),
    "LpNormalization": _lp,
    "MeanVarianceNormalization": _mean_variance,
    "NegativeLogLikelihoodLoss": lambda n: _likelihood_loss(n, n.array(0)),
    "RMSNormalization": _from_axis(normalization.rms_norm, 2),
    "ReduceL1": _reduction(lambda s, a, axes: total(s, _absolute(s, a), axes), alone=_absolute),
    "ReduceL2": _reduction(
        _real(lambda s, a, axes: sqrt(s, total(s, _square(s, a), axes))), alone=_absolute
    ),
    "ReduceLogSum": _reduction(
        _real(lambda s, a, axes: s.elementwise("log", total(s, a, axes))),
        alone=_real(lambda s, a: s.elementwise("log", a)),
    ),
    "ReduceLogSumExp": _reduction(_real(partial(normalization.logsumexp, keep=True))),
    "ReduceMax": _reduction(_GREATEST),
    "ReduceMean": _reduction(_mean),
    "ReduceMin": _reduction(partial(reductions.extreme, word="min", keep=True)),
    "ReduceProd": _reduction(partial(reductions.multiplied, keep=True)),
    "ReduceSum": _reduction(total, 13),
    "ReduceSumSquare": _reduction(lambda s, a, axes: total(s, _square(s, a), axes), alone=_square),
    "Softmax": _along_axis(normalization.softmax),
    "SoftmaxCrossEntropyLoss": _cross_entropy,
}
