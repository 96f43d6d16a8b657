"""Activation functions against float64, as programs and of constants."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from frontends.lowered_arrays import F16, F32, known, names, program, results

from tosa_convert.frontends.lowering import activations as act
from tosa_convert.frontends.lowering.scope import constant

EDGES = np.array([0, -0.0, 0.3, -0.3, 3, -3, 5, -5, 20, -20, 100, -100, 1e30, np.inf, np.nan])
X = np.concatenate([np.random.default_rng(0).normal(size=40) * 4, EDGES]).astype(F32)
#: Slopes of each column.
SLOPES = np.array([0.0, 0.25, 1.0, 2.0, -1.0], F32)


def erf(x: Any) -> Any:
    return np.vectorize(math.erf)(x)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def clip(x: Any, low: float, high: float) -> Any:
    return np.minimum(np.maximum(x, low), high)


def elu(x: Any, alpha: float = 1.0) -> Any:
    return np.where(x > 0, x, alpha * np.expm1(x))


def celu(x: Any, alpha: float) -> Any:
    return np.maximum(x, 0) + np.minimum(0, alpha * np.expm1(x / alpha))


def softplus(x: Any) -> Any:
    return np.logaddexp(0, x)


def gelu_tanh(x: Any) -> Any:
    return x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2


#: A function, the same in float64, and how many operators its program has.
ROWS: dict[str, tuple[Callable[..., Any], Callable[[Any], Any], int]] = {
    "relu": (act.relu, lambda x: np.maximum(x, 0), 1),
    "hard sigmoid": (
        partial(act.hard_sigmoid, slope=0.2),
        lambda x: clip(0.2 * x + 0.5, 0, 1),
        3,
    ),
    "hard swish": (act.hard_swish, lambda x: x * clip(x / 6 + 0.5, 0, 1), 4),
    "thresholded": (
        partial(act.thresholded_relu, threshold=0.5),
        lambda x: np.where(x > 0.5, x, 0),
        2,
    ),
    "shrink": (
        partial(act.shrink, limit=0.7, bias=0.2),
        lambda x: np.where(x > 0.7, x - 0.2, np.where(x < -0.7, x + 0.2, 0)),
        6,
    ),
    "leaky": (partial(act.leaky_relu, slope=0.1), lambda x: np.where(x >= 0, x, 0.1 * x), 2),
    "steep": (partial(act.leaky_relu, slope=3.0), lambda x: np.where(x >= 0, x, 3 * x), 3),
    "flat": (partial(act.leaky_relu, slope=0.0), lambda x: np.where(x >= 0, x, 0 * x), 3),
    "elu": (act.elu, elu, 4),
    "selu": (partial(act.elu, alpha=1.67, scale=1.05), lambda x: 1.05 * elu(x, 1.67), 6),
    "celu": (partial(act.celu, alpha=2.0), lambda x: celu(x, 2), 6),
    "celu of a negative alpha": (partial(act.celu, alpha=-2.0), lambda x: celu(x, -2), 7),
    "silu": (act.swish, lambda x: x * sigmoid(x), 2),
    "swish": (partial(act.swish, beta=1.5), lambda x: x * sigmoid(1.5 * x), 3),
    "gelu": (act.gelu, lambda x: x * (1 + erf(x / np.sqrt(2))) / 2, 5),
    "gelu by tanh": (act.gelu_tanh, gelu_tanh, 6),
    "softplus": (act.softplus, softplus, 7),
    "mish": (act.mish, lambda x: x * np.tanh(softplus(x)), 8),
    "softsign": (act.softsign, lambda x: x / (1 + np.abs(x)), 4),
}


@pytest.mark.parametrize("name", ROWS)
@np.errstate(all="ignore")
def test_a_function_has_its_values_and_few_operators(name: str) -> None:
    function, expected, count = ROWS[name]
    want = expected(X.astype(np.float64)).astype(F32)
    (found,) = results(function, X)
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)
    assert sum(names(program(function, X)).values()) == count
    np.testing.assert_allclose(known(function, X), want, rtol=1e-5, atol=1e-6)


def test_fp16_stays_fp16() -> None:
    (found,) = results(act.gelu_tanh, X[:40].astype(F16))
    assert found.dtype == F16
    np.testing.assert_allclose(found, gelu_tanh(X[:40].astype(np.float64)), rtol=2e-2, atol=2e-2)


def test_slopes_broadcast() -> None:
    x = X[:40].reshape(8, 5)
    want = np.where(x >= 0, x, x * SLOPES)
    for function, data in (
        (act.leaky_relu, (x, SLOPES)),
        (lambda s, a: act.leaky_relu(s, a, constant(SLOPES)), (x,)),
    ):
        np.testing.assert_array_equal(results(function, *data)[0], want)
    below_one = np.full(5, 0.5, F32)
    graph = program(lambda s, a: act.leaky_relu(s, a, constant(below_one)), x)
    assert names(graph) == {"MUL": 1, "MAXIMUM": 1}
