"""LSTM, GRU and RNN, unrolled over their sequence: torch-mlir has no loops for TOSA."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from tosa_convert.frontends.onnx.decompositions.node import Decomposition

#: Steps that are unrolled.
_STEPS: Final = 1024


@dataclass
class _Direction:
    """The weights of one direction, as matrices to multiply from the right, and its states."""

    e: Decomposition
    weights: str
    recurrent: str
    bias: str
    recurrent_bias: str
    hidden: int
    activations: list[str]
    clip: float | None

    def activate(self, number: int, x: str) -> str:
        """Apply one of the activations; the input is clipped first."""
        e, name = self.e, self.activations[number]
        if self.clip is not None:
            x = e.op("Max", e.op("Min", x, e.like(self.clip)), e.like(-self.clip))
        e.leave_if(name.lower() not in _ACTIVATIONS, f"the activation {name} takes parameters")
        return e.op(_ACTIVATIONS[name.lower()], x)

    def gate(self, x: str, number: int) -> str:
        """Slice the columns of one gate."""
        return self.e.slice(x, 1, number * self.hidden, (number + 1) * self.hidden)


_ACTIVATIONS: Final = {
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "relu": "Relu",
    "softsign": "Softsign",
    "softplus": "Softplus",
}
#: One step: the direction, the input times its weights, the states -> the states.
_Step = Callable[[_Direction, str, list[str]], list[str]]


def lstm(e: Decomposition) -> None:
    """Long short-term memory, with peepholes."""
    peepholes = e.inputs[7] if e.has(7) else ""
    e.leave_if(e.attribute("input_forget", 0), "input and forget gate are coupled")

    def step_of(number: int) -> _Step:
        p = _row(e, peepholes, number) if peepholes else ""
        return lambda d, x, states: _lstm_step(d, x, states, p)

    _unroll(e, 4, ["Sigmoid", "Tanh", "Tanh"], step_of, states=2)


def _lstm_step(d: _Direction, x: str, states: list[str], peepholes: str) -> list[str]:
    e, (h, c) = d.e, states
    total = e.op("Add", x, e.op("MatMul", h, d.recurrent))
    if d.recurrent_bias:
        total = e.op("Add", total, d.recurrent_bias)
    i, o, f, g = (d.gate(total, number) for number in range(4))
    if peepholes:
        pi, po, pf = (d.gate(peepholes, number) for number in range(3))
        i, f = e.op("Add", i, e.op("Mul", pi, c)), e.op("Add", f, e.op("Mul", pf, c))
    i, f, g = d.activate(0, i), d.activate(0, f), d.activate(1, g)
    c = e.op("Add", e.op("Mul", f, c), e.op("Mul", i, g))
    if peepholes:
        o = e.op("Add", o, e.op("Mul", po, c))
    return [e.op("Mul", d.activate(0, o), d.activate(2, c)), c]


def gru(e: Decomposition) -> None:
    """Gated recurrent units, with the reset before or after the product."""
    after = bool(e.attribute("linear_before_reset", 0))
    _unroll(
        e, 3, ["Sigmoid", "Tanh"], lambda _: lambda d, x, s: _gru_step(d, x, s, after), states=1
    )


def _gru_step(d: _Direction, x: str, states: list[str], after: bool) -> list[str]:
    e, (h,) = d.e, states
    product = e.op("MatMul", h, d.recurrent)
    if d.recurrent_bias:
        product = e.op("Add", product, d.recurrent_bias)
    z = d.activate(0, e.op("Add", d.gate(x, 0), d.gate(product, 0)))
    r = d.activate(0, e.op("Add", d.gate(x, 1), d.gate(product, 1)))
    if after:
        candidate = e.op("Mul", r, d.gate(product, 2))
    else:
        candidate = e.op("MatMul", e.op("Mul", r, h), d.gate(d.recurrent, 2))
        if d.recurrent_bias:
            candidate = e.op("Add", candidate, d.gate(d.recurrent_bias, 2))
    new = d.activate(1, e.op("Add", d.gate(x, 2), candidate))
    kept = e.op("Mul", z, e.op("Sub", h, new))
    return [e.op("Add", new, kept)]


def rnn(e: Decomposition) -> None:
    """Unroll one layer with one activation."""

    def step(d: _Direction, x: str, states: list[str]) -> list[str]:
        total = e.op("Add", x, e.op("MatMul", states[0], d.recurrent))
        if d.recurrent_bias:
            total = e.op("Add", total, d.recurrent_bias)
        return [d.activate(0, total)]

    _unroll(e, 1, ["Tanh"], lambda _: step, states=1)


def _row(e: Decomposition, x: str, number: int) -> str:
    """Slice the part of a direction, keeping the axis; that makes vectors rows."""
    return e.slice(x, 0, number, number + 1)


def _unroll(
    e: Decomposition,
    gates: int,
    activations: list[str],
    step_of: Callable[[int], _Step],
    states: int,
) -> None:
    shape = e.shape(0)
    batch_first = bool(e.attribute("layout", 0))
    batch, length = (shape[0], shape[1]) if batch_first else (shape[1], shape[0])
    e.leave_if(length > _STEPS, f"the sequence has {length} steps")
    lengths = _lengths(e, batch, length)
    hidden = int(e.attribute("hidden_size", e.shape(2)[2]))
    x = e.transpose(e.inputs[0], [1, 0, 2]) if batch_first else e.inputs[0]
    direction = e.attribute("direction", "forward")
    ways = [False, True] if direction == "bidirectional" else [direction == "reverse"]
    given = e.attribute("activations", activations * len(ways))
    sequences, ends = [], []
    for number, backwards in enumerate(ways):
        names = given[number * len(activations) : (number + 1) * len(activations)]
        d = _direction(e, number, gates, hidden, names)
        initial = [_initial(e, 5 + s, number, batch, hidden, batch_first) for s in range(states)]
        outputs, last = _run(d, x, initial, step_of(number), (length, batch, backwards), lengths)
        sequences.append(outputs)
        ends.append(last)
    _results(e, sequences, ends, (length, batch, hidden), batch_first)


def _lengths(
    e: Decomposition, batch: int, length: int
) -> np.ndarray[tuple[int], np.dtype[np.int64]] | None:
    """Return the lengths of the sequences, or None if all are whole."""
    if not e.has(4):
        return None
    lengths: np.ndarray[tuple[int], np.dtype[np.int64]] = e.value(4).reshape(batch).astype(np.int64)
    return None if (lengths == length).all() else lengths


def _direction(
    e: Decomposition, number: int, gates: int, hidden: int, names: list[str]
) -> _Direction:
    size = e.shape(1)[2]
    weights = e.transpose(e.reshape(_row(e, e.inputs[1], number), [gates * hidden, size]), [1, 0])
    recurrent = e.reshape(_row(e, e.inputs[2], number), [gates * hidden, hidden])
    bias = recurrent_bias = ""
    if e.has(3):
        both = _row(e, e.inputs[3], number)
        bias = e.slice(both, 1, 0, gates * hidden)
        recurrent_bias = e.slice(both, 1, gates * hidden, 2 * gates * hidden)
    clip = e.attribute("clip")
    return _Direction(
        e, weights, e.transpose(recurrent, [1, 0]), bias, recurrent_bias, hidden, names, clip
    )


def _initial(
    e: Decomposition, index: int, number: int, batch: int, hidden: int, batch_first: bool
) -> str:
    if not e.has(index):
        return e.constant(np.zeros((batch, hidden)), e.numpy_type())
    state = e.transpose(e.inputs[index], [1, 0, 2]) if batch_first else e.inputs[index]
    return e.reshape(_row(e, state, number), [batch, hidden])


def _run(
    d: _Direction,
    x: str,
    states: list[str],
    step: _Step,
    layout: tuple[int, int, bool],
    lengths: np.ndarray[tuple[int], np.dtype[np.int64]] | None,
) -> tuple[list[str], list[str]]:
    """Run a direction over the steps; return the outputs in the order of time, and the last states."""
    e = d.e
    length, batch, backwards = layout
    products = e.op("MatMul", x, d.weights)
    if d.bias:
        products = e.op("Add", products, d.bias)
    width = e.shape(1)[1]
    outputs = [""] * length
    for time in reversed(range(length)) if backwards else range(length):
        now = e.reshape(e.slice(products, 0, time, time + 1), [batch, width])
        new = step(d, now, states)
        if lengths is None:
            states, outputs[time] = new, new[0]
        else:
            runs = e.constant((time < lengths)[:, None])
            states = [e.op("Where", runs, b, a) for a, b in zip(states, new, strict=True)]
            outputs[time] = e.op("Where", runs, new[0], e.like(0))
    return outputs, states


def _results(
    e: Decomposition,
    sequences: list[list[str]],
    ends: list[list[str]],
    sizes: tuple[int, int, int],
    batch_first: bool,
) -> None:
    """Y, and the last states that are asked for."""
    length, batch, hidden = sizes
    if e.wants(0):
        steps = [
            e.reshape(step, [1, 1, batch, hidden]) for outputs in sequences for step in outputs
        ]
        y = e.op("Concat", *steps, axis=0)
        y = e.transpose(e.reshape(y, [len(sequences), length, batch, hidden]), [1, 0, 2, 3])
        e.result(e.transpose(y, [2, 0, 1, 3]) if batch_first else y, 0)
    for index in range(len(ends[0])):
        if e.wants(index + 1):
            rows = [e.reshape(end[index], [1, batch, hidden]) for end in ends]
            last = e.op("Concat", *rows, axis=0)
            e.result(e.transpose(last, [1, 0, 2]) if batch_first else last, index + 1)
