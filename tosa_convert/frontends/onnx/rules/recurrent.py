"""LSTM, GRU and RNN."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np

from tosa_convert.frontends.lowering import layout, recurrent
from tosa_convert.frontends.lowering.arithmetic import clamp, divided
from tosa_convert.frontends.lowering.recurrent import Activation, Run, States, Weights
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant
from tosa_convert.frontends.onnx.node import Node, Rule


def _number(x: Array, value: float) -> Array:
    return constant(np.full((1,) * x.rank, value, x.dtype))


def _operator(name: str) -> Callable[[float, float], Activation]:
    return lambda alpha, beta: lambda s, x: s.elementwise(name, x)


def _affine(alpha: float, beta: float) -> Activation:
    return lambda s, x: s.add(s.mul(x, alpha), beta)


def _leaky(alpha: float, beta: float) -> Activation:
    return lambda s, x: s.select(s.greater_equal(x, 0), x, s.mul(x, alpha))


def _thresholded(alpha: float, beta: float) -> Activation:
    return lambda s, x: s.select(s.greater(x, alpha), x, 0)


def _scaled_tanh(alpha: float, beta: float) -> Activation:
    return lambda s, x: s.mul(s.elementwise("tanh", s.mul(x, beta)), alpha)


def _hard_sigmoid(alpha: float, beta: float) -> Activation:
    return lambda s, x: clamp(s, _number(x, 0), s.add(s.mul(x, alpha), beta), _number(x, 1))


def _elu(alpha: float, beta: float) -> Activation:
    def apply(s: Scope, x: Array) -> Array:
        below = s.mul(s.sub(s.elementwise("exp", s.minimum(x, 0)), 1), alpha)
        return s.select(s.greater_equal(x, 0), x, below)

    return apply


def _softsign(alpha: float, beta: float) -> Activation:
    return lambda s, x: divided(s, x, s.add(s.elementwise("abs", x), 1))


def _softplus(alpha: float, beta: float) -> Activation:
    """log(1 + exp(x)), which does not overflow: the greater of x and 0, and what is left."""

    def apply(s: Scope, x: Array) -> Array:
        away = s.elementwise("negate", s.elementwise("abs", x))
        rest = s.elementwise("log", s.add(s.elementwise("exp", away), 1))
        return s.add(s.maximum(x, 0), rest)

    return apply


def _relu(alpha: float, beta: float) -> Activation:
    return lambda s, x: clamp(s, _number(x, 0), x, _number(x, np.inf))


#: Activation, in small letters -> what makes it of alpha and beta, and their defaults.
_ACTIVATIONS: Final[dict[str, tuple[Callable[[float, float], Activation], float, float]]] = {
    "sigmoid": (_operator("sigmoid"), 0, 0),
    "tanh": (_operator("tanh"), 0, 0),
    "relu": (_relu, 0, 0),
    "softsign": (_softsign, 0, 0),
    "softplus": (_softplus, 0, 0),
    "affine": (_affine, 1, 0),
    "leakyrelu": (_leaky, 0.01, 0),
    "thresholdedrelu": (_thresholded, 1, 0),
    "scaledtanh": (_scaled_tanh, 1, 1),
    "hardsigmoid": (_hard_sigmoid, 0.2, 0.5),
    "elu": (_elu, 1, 0),
}
#: Those that take alpha, and of them those that take beta.
_OF_ALPHA: Final = (
    *("affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu"),
)
_OF_BETA: Final = ("affine", "scaledtanh", "hardsigmoid")


def _activations(n: Node, names: Sequence[str]) -> list[Activation]:
    """Return the activations of all directions. Each takes its numbers from the lists in turn."""
    alphas, betas = (list(n.get(f"activation_{name}", ())) for name in ("alpha", "beta"))
    found = []
    for name in names:
        key = name.lower()
        if key not in _ACTIVATIONS:
            raise NotLowered(f"ONNX does not define the activation {name} of it")
        function, alpha, beta = _ACTIVATIONS[key]
        alpha = alphas.pop(0) if alphas and key in _OF_ALPHA else alpha
        beta = betas.pop(0) if betas and key in _OF_BETA else beta
        found.append(function(alpha, beta))
    return found


#: Runs one direction: scope, sequence, weights, states, activations and how -> outputs and states.
_Direction = Callable[..., tuple[list[Array], States]]


def _layer(
    n: Node, direction_of: Callable[[int], _Direction], names: Sequence[str], states: int
) -> list[Array]:
    """Run all directions, and return the outputs and the last states of ONNX."""
    s, is_batch_first = n.scope, bool(n.get("layout", 0))
    x = _swapped(s, n.array(0)) if is_batch_first else n.array(0)
    batch, hidden = x.shape[1], n.array(2).shape[2]
    way = n.get("direction", "forward")
    ways = [False, True] if way == "bidirectional" else [way == "reverse"]
    given = _activations(n, n.get("activations") or [*names] * len(ways))
    outputs, ends = [], []
    for number, is_reverse in enumerate(ways):
        begin = []
        for index in range(5, 5 + states):
            if n.has(index):
                state = n.array(index)
                state = _swapped(s, state) if is_batch_first else state
                begin.append(layout.part(s, state, 0, number, number + 1))
            else:
                begin.append(recurrent.zero_state(batch, hidden, x.dtype))
        own = given[number * len(names) : (number + 1) * len(names)]
        run = Run(n.optional(4), is_reverse, n.get("clip"))
        made, last = direction_of(number)(s, x, _weights(n, number), begin, own, run)
        outputs.append(made)
        ends.append(last)
    return _results(n, outputs, ends, is_batch_first)


def _results(
    n: Node, outputs: Sequence[list[Array]], ends: Sequence[States], is_batch_first: bool
) -> list[Array]:
    """Join the outputs [time, directions, batch, hidden] and the states [directions, batch, hidden]."""
    s, first = n.scope, outputs[0][0]
    made = []
    steps = [step for steps in zip(*outputs, strict=True) for step in steps]
    y = layout.concatenate(s, steps, 0) if n.wanted[0] else first
    if n.wanted[0]:
        y = layout.reshape(s, y, (len(outputs[0]), len(outputs), *first.shape[1:]))
        y = layout.transpose(s, y, (2, 0, 1, 3)) if is_batch_first else y
    made.append(y)
    for index in range(len(ends[0])):
        if index + 1 < len(n.wanted) and n.wanted[index + 1]:
            last = layout.concatenate(s, [end[index] for end in ends], 0)
            made.append(_swapped(s, last) if is_batch_first else last)
        else:
            made.append(first)
    return made


def _swapped(s: Scope, a: Array) -> Array:
    """Exchange the first two dimensions."""
    return layout.transpose(s, a, (1, 0, 2))


def _row(s: Scope, a: Array, number: int) -> Array:
    """Return what belongs to a direction, without its dimension."""
    return layout.reshape(s, layout.part(s, a, 0, number, number + 1), a.shape[1:])


def _weights(n: Node, number: int) -> Weights:
    s = n.scope
    inputs, states = (_row(s, n.array(index), number) for index in (1, 2))
    if not n.has(3):
        return Weights(inputs, states)
    both = _row(s, n.array(3), number)
    return Weights(inputs, states, *layout.split(s, both, [both.size // 2] * 2, 0))


def _lstm(n: Node) -> list[Array]:
    def direction_of(number: int) -> _Direction:
        looks = _row(n.scope, n.array(7), number) if n.has(7) else None
        coupled = bool(n.get("input_forget", 0))
        return partial(recurrent.lstm, peepholes=looks, is_coupled=coupled)

    return _layer(n, direction_of, ("Sigmoid", "Tanh", "Tanh"), 2)


def _gru(n: Node) -> list[Array]:
    is_after = bool(n.get("linear_before_reset", 0))
    direction = partial(recurrent.gru, is_reset_after=is_after)
    return _layer(n, lambda _: direction, ("Sigmoid", "Tanh"), 1)


def _rnn(n: Node) -> list[Array]:
    return _layer(n, lambda _: recurrent.rnn, ("Tanh",), 1)


RULES: Final[dict[str, Rule]] = {"LSTM": _lstm, "GRU": _gru, "RNN": _rnn}
