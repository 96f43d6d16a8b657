"""LSTM, GRU and RNN against their definitions in float64."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from frontends.lowered_arrays import F32, names, program, results

from tosa_convert.frontends.lowering import recurrent
from tosa_convert.frontends.lowering.recurrent import Run, Weights
from tosa_convert.frontends.lowering.scope import NotLowered, constant

RNG = np.random.default_rng(5)
TIME, BATCH, FEATURES, HIDDEN = 3, 2, 4, 5
X = RNG.normal(size=(TIME, BATCH, FEATURES)).astype(F32)
H, C = (RNG.normal(size=(1, BATCH, HIDDEN)).astype(F32) for _ in range(2))
LOOKS = RNG.normal(size=3 * HIDDEN).astype(F32)
LENGTHS = np.array([3, 1], np.int32)
Numbers = dict[str, Any]


def weights(gates: int, biased: bool = True) -> Weights:
    random = np.random.default_rng(gates)
    sizes: list[tuple[int, ...]] = [(FEATURES,), (HIDDEN,), (), ()][: 4 if biased else 2]
    return Weights(
        *(constant(random.normal(size=(gates * HIDDEN, *size)).astype(F32)) for size in sizes)
    )


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def sums(w: Weights, x: Any, h: Any) -> tuple[Any, Any]:
    """Return the gates' sums of an input, and those of a state."""
    bias, more = (0.0 if b is None else b.data for b in (w.bias, w.recurrent_bias))
    assert w.inputs.data is not None
    assert w.recurrent.data is not None
    return x @ w.inputs.data.T.astype(float) + bias, h @ w.recurrent.data.T.astype(float) + more


def lstm_step(w: Weights, x: Any, h: Any, c: Any, given: Numbers) -> tuple[Any, ...]:
    a, b = sums(w, x, h)
    i, o, f, g = np.split(a + b, 4, -1)
    pi, po, pf = np.split(given.get("peepholes", np.zeros(3 * HIDDEN)), 3)
    limit = given.get("clip", np.inf)
    i, f, g = (np.clip(part, -limit, limit) for part in (i + pi * c, f + pf * c, g))
    i = sigmoid(i)
    f = 1 - i if given.get("is_coupled") else sigmoid(f)
    c = f * c + i * np.tanh(g)
    return sigmoid(np.clip(o + po * c, -limit, limit)) * np.tanh(c), c


def gru_step(w: Weights, x: Any, h: Any, given: Numbers) -> tuple[Any, ...]:
    a, b = sums(w, x, h)
    z, r = np.split(sigmoid((a + b)[..., : 2 * HIDDEN]), 2, -1)
    new = r * b[..., 2 * HIDDEN :]
    if not given.get("is_reset_after"):
        new = sums(w, x, r * h)[1][..., 2 * HIDDEN :]
    new = np.tanh(a[..., 2 * HIDDEN :] + new)
    return ((1 - z) * new + z * h,)


def rnn_step(w: Weights, x: Any, h: Any, given: Numbers) -> tuple[Any, ...]:
    return (np.tanh(sum(sums(w, x, h))),)


def unrolled(step: Callable[..., Any], w: Weights, states: Any, given: Numbers) -> list[Any]:
    """Return the outputs in a row, and the last states."""
    held, outputs = [state[0].astype(float) for state in states], np.zeros((TIME, BATCH, HIDDEN))
    lengths = given.get("lengths", np.full(BATCH, TIME))
    for time in reversed(range(TIME)) if given.get("reverse") else range(TIME):
        new = step(w, X[time].astype(float), *held, given)
        runs = (time < lengths)[:, None]
        held = [np.where(runs, b, a) for a, b in zip(held, new, strict=True)]
        outputs[time] = np.where(runs, new[0], 0)
    return [outputs, *held]


def operator(name: str) -> recurrent.Activation:
    return lambda s, x: s.elementwise(name, x)


TANH, SIGMOID = operator("tanh"), operator("sigmoid")
LSTM = recurrent.lstm, lstm_step, 4, (SIGMOID, TANH, TANH)
GRU = recurrent.gru, gru_step, 3, (SIGMOID, TANH)
RNN = recurrent.rnn, rnn_step, 1, (TANH,)
#: A layer, what is special about it, and how many operators its program has.
ROWS: dict[str, tuple[Any, Numbers, int]] = {
    "lstm": (LSTM, {}, 49),
    "lstm without biases": (LSTM, {"biased": False}, 48),
    "lstm backwards": (LSTM, {"reverse": True}, 49),
    "lstm of some lengths": (LSTM, {"lengths": LENGTHS}, 54),
    "lstm with peepholes": (LSTM, {"peepholes": LOOKS}, 70),
    "lstm of limited sums": (LSTM, {"clip": 0.5}, 52),
    "lstm of coupled gates": (LSTM, {"is_coupled": True}, 49),
    "gru": (GRU, {}, 48),
    "gru with a late reset": (GRU, {"is_reset_after": True}, 51),
    "gru backwards of some lengths": (GRU, {"reverse": True, "lengths": LENGTHS}, 52),
    "rnn": (RNN, {}, 16),
}
#: What is told to the run, and not to the layer.
_OF_RUN = ("lengths", "reverse", "clip")


def built(kind: Any, given: Numbers, count: int) -> Callable[..., Any]:
    layer, _, gates, activations = kind
    w = weights(gates, given.get("biased", True))
    run_of = {key: value for key, value in given.items() if key in _OF_RUN}
    others = {key: value for key, value in given.items() if key not in (*_OF_RUN, "biased")}

    def lowered(s: Any, x: Any, *states: Any) -> Any:
        run: Numbers = {k: constant(v) if k == "lengths" else v for k, v in run_of.items()}
        more = {k: constant(v) if k == "peepholes" else v for k, v in others.items()}
        made, last = layer(s, x, w, states[:count], activations, Run(**run), **more)
        return [*made, *last]

    return lowered


@pytest.mark.parametrize("name", ROWS)
def test_a_layer_has_its_values_and_few_operators(name: str) -> None:
    kind, given, count = ROWS[name]
    states = (H, C) if kind is LSTM else (H,)
    want = unrolled(kind[1], weights(kind[2], given.get("biased", True)), states, given)
    function = built(kind, given, len(states))
    found = results(function, X, *states)
    np.testing.assert_allclose(np.concatenate(found[:TIME]), want[0], rtol=1e-5, atol=1e-6)
    for got, state in zip(found[TIME:], want[1:], strict=True):
        np.testing.assert_allclose(got[0], state, rtol=1e-5, atol=1e-6)
    assert sum(names(program(function, X, *states)).values()) == count


def test_lengths_may_be_computed() -> None:
    def lowered(s: Any, x: Any, h: Any, lengths: Any) -> Any:
        made, last = recurrent.rnn(s, x, weights(1), [h], (TANH,), Run(lengths, reverse=True))
        return [*made, *last]

    found = results(lowered, X, H, LENGTHS)
    want = unrolled(rnn_step, weights(1), (H,), {"lengths": LENGTHS, "reverse": True})
    np.testing.assert_allclose(np.concatenate(found[:TIME]), want[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[TIME][0], want[1], rtol=1e-5, atol=1e-6)


def test_a_state_of_zeros_is_not_multiplied() -> None:
    zeros = recurrent.zero_state(BATCH, HIDDEN, F32)

    def lowered(states: Any, s: Any, x: Any, h: Any) -> Any:
        return recurrent.rnn(s, x, weights(1), states or [h], (TANH,), Run())[0]

    counts = [names(program(partial(lowered, given), X, H)) for given in ([zeros], None)]
    assert [count["MATMUL"] for count in counts] == [TIME, TIME + 1]


def test_many_steps_are_refused() -> None:
    x = np.zeros((1025, 1, FEATURES), F32)
    with pytest.raises(NotLowered, match="1025 steps"):
        program(built(RNN, {}, 1), x, H[:, :1])
