"""Means, variances, softmax and normalisations against float64, by known and given factors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from frontends.lowered_arrays import F16, F32, names, program, results

from tosa_convert.frontends.lowering import normalization as norm
from tosa_convert.frontends.lowering.scope import constant

RNG = np.random.default_rng(3)
X = (RNG.normal(size=(2, 6, 4, 5)) + 3).astype(F32)
D = X.astype(np.float64)
#: For each channel: a factor, an offset and a variance.
SCALE, BIAS = RNG.normal(size=6).astype(F32), RNG.normal(size=6).astype(F32)
SPREAD = np.abs(SCALE) + F32(1)
IMAGE, LAST = (2, 3), (3,)


def channels(a: Any) -> Any:
    return a.astype(np.float64).reshape(1, -1, 1, 1)


def standard(d: Any, axes: Sequence[int], epsilon: float = 1e-5) -> Any:
    axes = tuple(axes)
    return (d - d.mean(axes, keepdims=True)) / np.sqrt(d.var(axes, keepdims=True) + epsilon)


def softmax(d: Any, axis: int) -> Any:
    powers = np.exp(d - d.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def neighbours(d: Any, size: int) -> Any:
    before = (size - 1) // 2
    padded = np.pad(d * d, [(0, 0), (before, size - 1 - before), (0, 0), (0, 0)])
    return sum(padded[:, at : at + d.shape[1]] for at in range(size))


GROUPS = standard(D.reshape(2, 3, 40), (2,)).reshape(D.shape)
#: A function, its factors, what it returns, and how many operators its program has.
ROWS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Any, int]] = {
    "mean": (partial(norm.mean, axes=(-2, -1), keep=True), (), D.mean(IMAGE, keepdims=True), 3),
    "mean without its axes": (partial(norm.mean, axes=(1,)), (), D.mean(1), 3),
    "variance": (
        lambda s, x: norm.mean_and_variance(s, x, (1, 3), 1)[1],
        *((), D.var((1, 3), ddof=1), 9),
    ),
    "variance of pairs": (lambda s, x: norm.mean_and_variance(s, x, [1])[1], (), D.var(1), 7),
    "mean of pairs": (lambda s, x: norm.mean_and_variance(s, x, [1])[0], (), D.mean(1), 3),
    "softmax": (norm.softmax, (), softmax(D, 3), 6),
    "softmax of channels": (partial(norm.softmax, axis=1), (), softmax(D, 1), 6),
    "log softmax": (partial(norm.log_softmax, axis=-2), (), np.log(softmax(D, 2)), 6),
    "logsumexp": (partial(norm.logsumexp, axes=(0, 2)), (), np.log(np.exp(D).sum((0, 2))), 12),
    "batch": (
        norm.batch_norm,
        (SCALE, BIAS, BIAS, SPREAD),
        (D - channels(BIAS)) / np.sqrt(channels(SPREAD) + 1e-5) * channels(SCALE) + channels(BIAS),
        2,
    ),
    "layer": (
        lambda s, x, *more: norm.layer_norm(s, x, [-1], *more),
        (SCALE[:5], BIAS[:5]),
        standard(D, LAST) * SCALE[:5] + BIAS[:5],
        10,
    ),
    "layer alone": (lambda s, x: norm.layer_norm(s, x, [2, 3]), (), standard(D, IMAGE), 11),
    "root of mean square": (
        lambda s, x, *more: norm.rms_norm(s, x, [-1], *more),
        (SCALE[:5],),
        D / np.sqrt((D * D).mean(3, keepdims=True) + 1e-5) * SCALE[:5],
        6,
    ),
    "instance": (
        norm.instance_norm,
        (SCALE, BIAS),
        standard(D, IMAGE) * channels(SCALE) + channels(BIAS),
        12,
    ),
    "group": (
        lambda s, x, *more: norm.group_norm(s, x, 3, *more),
        (SCALE, BIAS),
        GROUPS * channels(SCALE) + channels(BIAS),
        13,
    ),
    "group by group": (
        lambda s, x, *more: norm.group_norm(s, x, 3, *more),
        (SCALE[:3], BIAS[:3]),
        GROUPS * channels(SCALE[:3].repeat(2)) + channels(BIAS[:3].repeat(2)),
        13,
    ),
    "norm of order 2": (
        lambda s, x: norm.lp_norm(s, x, 2, [1], keep=True),
        (),
        np.sqrt((D * D).sum(1, keepdims=True)),
        4,
    ),
    "norm of order 3": (
        lambda s, x: norm.lp_norm(s, x, 3, [1]),
        (),
        (np.abs(D) ** 3).sum(1) ** (1 / 3),
        6,
    ),
    "greatest": (lambda s, x: norm.lp_norm(s, x, np.inf, [1]), (), np.abs(D).max(1), 3),
    "local response": (
        partial(norm.local_response, size=4, alpha=0.1, bias=2.0),
        (),
        D / (2 + 0.1 / 4 * neighbours(D, 4)) ** 0.75,
        13,
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_normalisation_has_its_values_and_few_operators(name: str) -> None:
    function, factors, want, count = ROWS[name]

    def by_constants(s: Any, x: Any) -> Any:
        return function(s, x, *map(constant, factors))

    (found,) = results(by_constants, X)
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)
    assert sum(names(program(by_constants, X)).values()) == count
    np.testing.assert_allclose(results(function, X, *factors)[0], want, rtol=1e-4, atol=1e-5)


def test_sums_of_fp16_are_fp32() -> None:
    """Sum squares beyond FP16, whose greatest number is 65504."""
    x = (X * 100).astype(F16)
    (found,) = results(lambda s, a: norm.layer_norm(s, a, [-1]), x)
    assert found.dtype == F16
    np.testing.assert_allclose(found, standard(x.astype(np.float64), LAST), rtol=1e-2, atol=1e-2)
