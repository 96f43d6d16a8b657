"""Movements, reductions and cumulative functions: what they compute, and with which operators."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from frontends.lowered_arrays import F32, known, names, program, results

from tosa_convert.frontends.lowering import activations, movement, reductions
from tosa_convert.frontends.lowering.products import product
from tosa_convert.frontends.lowering.scope import Array, Scope, constant

RNG = np.random.default_rng(4)
X = RNG.normal(size=(2, 3, 4, 5)).astype(F32)
WIDE = RNG.normal(size=(2, 1, 3, 2, 2, 2, 3)).astype(F32)
WEIGHT, BIAS = RNG.normal(size=(1, 5, 5)).astype(F32), RNG.normal(size=5).astype(F32)


def logsumexp(x: Any, axis: int) -> Any:
    return np.log(np.cumsum(np.exp(x.astype(np.float64)), axis))


#: A function, its operand, what numpy returns, and the operators.
ROWS: dict[str, tuple[Callable[..., Any], Any, Any, dict[str, int]]] = {
    "transpose": (
        partial(movement.transpose, perms=(0, 2, 3, 1)),
        X,
        X.transpose(0, 2, 3, 1),
        {"TRANSPOSE": 1},
    ),
    "transpose of neighbours": (
        partial(movement.transpose, perms=(2, 3, 0, 1), merges=True),
        X,
        X.transpose(2, 3, 0, 1),
        {"RESHAPE": 2, "TRANSPOSE": 1},
    ),
    "transpose of seven dimensions": (
        lambda s, a: movement.reshape(s, movement.transpose(s, a, (2, 3, 0, 1, 4, 5, 6)), (6, 24)),
        WIDE,
        WIDE.transpose(2, 3, 0, 1, 4, 5, 6).reshape(6, 24),
        {"RESHAPE": 2, "TRANSPOSE": 1},
    ),
    "sum of an image": (
        partial(reductions.summed, axes=(2, 3), keep=True),
        X,
        X.sum((2, 3), keepdims=True),
        {"REDUCE_SUM": 2},
    ),
    "sum of all": (
        partial(reductions.summed, axes=(0, 1, 2, 3)),
        X,
        X.sum(),
        {"RESHAPE": 2, "REDUCE_SUM": 1},
    ),
    "product": (
        partial(reductions.multiplied, axes=(1,), keep=True),
        X,
        X.prod(1, keepdims=True),
        {"REDUCE_PRODUCT": 1},
    ),
    "least": (
        partial(reductions.extreme, axes=(3,), word="min"),
        X,
        X.min(3),
        {"REDUCE_MIN": 1, "RESHAPE": 1},
    ),
    "place of the least": (
        partial(reductions.position, axes=(3,), dtype=np.int32, word="min"),
        X,
        X.argmin(3),
        {"NEGATE": 1, "ARGMAX": 1},
    ),
    "cumulative sum": (
        partial(reductions.cumulative, axis=3, reverse=False, word="add"),
        X,
        np.cumsum(X, 3),
        {"SLICE": 3, "PAD": 3, "ADD": 3},
    ),
    "cumulative product from the end": (
        partial(reductions.cumulative, axis=1, reverse=True, word="mul"),
        X,
        np.cumprod(X[:, ::-1], 1)[:, ::-1],
        {"SLICE": 2, "PAD": 2, "MUL": 2},
    ),
    "cumulative maximum": (
        partial(reductions.cumulative, axis=2, reverse=False, word="max"),
        X,
        np.maximum.accumulate(X, 2),
        {"SLICE": 2, "PAD": 2, "MAXIMUM": 2},
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_function_has_its_values_and_operators(name: str) -> None:
    function, x, want, operators = ROWS[name]
    np.testing.assert_allclose(results(function, x)[0], want, rtol=1e-4, atol=1e-5)
    assert names(program(function, x)) == operators
    np.testing.assert_allclose(known(function, x), want, rtol=1e-4, atol=1e-5)


def test_a_cumulative_logarithm_begins_with_its_first_element() -> None:
    function = partial(reductions.cumulative, axis=3, reverse=False, word="logsumexp")
    np.testing.assert_allclose(results(function, X)[0], logsumexp(X, 3), rtol=1e-4, atol=1e-5)


# -- RESHAPE -------------------------------------------------------------------------------------


def dense(s: Scope, a: Array) -> Array:
    """Multiply the last dimension, as frameworks do: with its own RESHAPEs."""
    flat = movement.reshape(s, a, (1, a.size // 5, 5))
    made = movement.reshape(s, product(s, flat, constant(WEIGHT), F32), a.shape)
    return s.add(made, constant(BIAS))


def test_no_reshape_is_between_two_products() -> None:
    def network(s: Scope, a: Array) -> Array:
        hidden = activations.relu(s, activations.gelu(s, dense(s, a)))
        return s.add(dense(s, s.select(s.greater(hidden, 1), hidden, 0)), a)

    found = names(program(network, X))
    assert found["MATMUL"] == 2
    assert found["RESHAPE"] == 2

    def gelu(x: Any) -> Any:
        return results(activations.gelu, x.astype(F32))[0]

    hidden = np.maximum(gelu(X @ WEIGHT[0] + BIAS), 0)
    want = np.where(hidden > 1, hidden, 0) @ WEIGHT[0] + BIAS + X
    np.testing.assert_allclose(results(network, X)[0], want, rtol=1e-4, atol=1e-4)


def test_reshapes_that_undo_each_other_are_none() -> None:
    def back(s: Scope, a: Array) -> Array:
        made = movement.reshape(s, movement.reshape(s, a, (6, 20)), (120,))
        return s.elementwise("abs", movement.reshape(s, made, X.shape))

    assert names(program(back, X)) == {"ABS": 1}
