"""LSTM, GRU and RNN."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from tosa_convert.frontends.lowering import activations, movement, recurrent
from tosa_convert.frontends.lowering.recurrent import Activation, Run, States, Weights
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope
from tosa_convert.frontends.onnx.node import Node, Rule

#: Activation, in small letters -> its function of an array and numbers, and the defaults of these.
_ACTIVATIONS: Final[dict[str, tuple[Any, ...]]] = {
    "sigmoid": (lambda s, x: s.elementwise("sigmoid", x),),
    "tanh": (lambda s, x: s.elementwise("tanh", x),),
    "relu": (activations.relu,),
    "softsign": (activations.softsign,),
    "softplus": (activations.softplus,),
    "leakyrelu": (activations.leaky_relu, 0.01),
    "thresholdedrelu": (activations.thresholded_relu, 1.0),
    "elu": (activations.elu, 1.0),
    "affine": (lambda s, x, alpha, beta: s.add(s.mul(x, alpha), beta), 1.0, 0.0),
    "scaledtanh": (
        lambda s, x, alpha, beta: s.mul(s.elementwise("tanh", s.mul(x, beta)), alpha),
        *(1.0, 1.0),
    ),
    "hardsigmoid": (activations.hard_sigmoid, 0.2, 0.5),
}


def _with_numbers(function: Callable[..., Array], numbers: Sequence[float]) -> Activation:
    return lambda s, x: function(s, x, *numbers)


def _activations(n: Node, names: Sequence[str]) -> list[Activation]:
    """Return the activations of all directions. Each takes its numbers from the lists in turn."""
    alphas, betas = (list(n.get(f"activation_{name}", ())) for name in ("alpha", "beta"))
    found: list[Activation] = []
    for name in names:
        key = name.lower()
        if key not in _ACTIVATIONS:
            raise NotLowered(f"ONNX does not define the activation {name} of it")
        function, *numbers = _ACTIVATIONS[key]
        for place, given in zip(range(len(numbers)), (alphas, betas), strict=False):
            numbers[place] = given.pop(0) if given else numbers[place]
        found.append(_with_numbers(function, numbers))
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
                begin.append(movement.part(s, state, 0, number, number + 1))
            else:
                begin.append(recurrent.zero_state(batch, hidden, x.dtype))
        own = given[number * len(names) : (number + 1) * len(names)]
        run = Run(n.optional(4), is_reverse, n.get("clip"))
        made, last = direction_of(number)(s, x, _weights(n, number), begin, own, run)
        outputs.append(made)
        runs = recurrent.is_running(s, run.lengths, 0, batch) if run.lengths else None
        is_given = any(map(n.has, range(5, 5 + states)))
        if is_given and runs and (runs.data is None or not runs.data.all()):
            n.remark("returns 0 for a sequence of no element, as onnxruntime, not its first state")
            last = [s.select(runs, state, 0) for state in last]
        ends.append(last)
    return _results(n, outputs, ends, is_batch_first)


def _results(
    n: Node, outputs: Sequence[list[Array]], ends: Sequence[States], is_batch_first: bool
) -> list[Array]:
    """Join the outputs [time, directions, batch, hidden] and the states [directions, batch, hidden]."""
    s, first = n.scope, outputs[0][0]
    made = []
    steps = [step for steps in zip(*outputs, strict=True) for step in steps]
    y = movement.concatenate(s, steps, 0) if n.wanted[0] else first
    if n.wanted[0]:
        y = movement.reshape(s, y, (len(outputs[0]), len(outputs), *first.shape[1:]))
        y = movement.transpose(s, y, (2, 0, 1, 3)) if is_batch_first else y
    made.append(y)
    for index in range(len(ends[0])):
        if index + 1 < len(n.wanted) and n.wanted[index + 1]:
            last = movement.concatenate(s, [end[index] for end in ends], 0)
            made.append(_swapped(s, last) if is_batch_first else last)
        else:
            made.append(first)
    return made


def _swapped(s: Scope, a: Array) -> Array:
    return movement.transpose(s, a, (1, 0, 2))


def _weights(n: Node, number: int) -> Weights:
    s = n.scope
    inputs, states = (movement.row(s, n.array(index), number) for index in (1, 2))
    if not n.has(3):
        return Weights(inputs, states)
    both = movement.row(s, n.array(3), number)
    return Weights(inputs, states, *movement.split(s, both, [both.size // 2] * 2, 0))


def _lstm(n: Node) -> list[Array]:
    def direction_of(number: int) -> _Direction:
        looks = movement.row(n.scope, n.array(7), number) if n.has(7) else None
        coupled = bool(n.get("input_forget", 0))
        return partial(recurrent.lstm, peepholes=looks, is_coupled=coupled)

    return _layer(n, direction_of, ("Sigmoid", "Tanh", "Tanh"), 2)


def _gru(n: Node) -> list[Array]:
    is_after = bool(n.get("linear_before_reset", 0))
    direction = partial(recurrent.gru, is_reset_after=is_after)
    return _layer(n, lambda _: direction, ("Sigmoid", "Tanh"), 1)


RULES: Final[dict[str, Rule]] = {
    "LSTM": _lstm,
    "GRU": _gru,
    "RNN": lambda n: _layer(n, lambda _: recurrent.rnn, ("Tanh",), 1),
}
