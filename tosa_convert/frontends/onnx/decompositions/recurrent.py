"""LSTM, GRU and RNN, unrolled over their sequence: torch-mlir has no loops for TOSA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.onnx.decompositions.node import Decomposition
from tosa_convert.records import dataclass

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

    def activate(self, number: int, x: str, *, is_cell: bool = False) -> str:
        """Apply one of the activations; the input is clipped first, but for the cell of LSTM."""
        e, name = self.e, self.activations[number]
        if self.clip is not None and not is_cell:
            x = e.op("Max", e.op("Min", x, e.like(self.clip)), e.like(-self.clip))
        e.leave_if(name.lower() not in _ACTIVATIONS, f"the activation {name} takes parameters")
        return e.op(_ACTIVATIONS[name.lower()], x)

    def plus(self, x: str, bias: str) -> str:
        """Add the bias, if there is one."""
        return self.e.op("Add", x, bias) if bias else x

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
        p = e.slice(peepholes, 0, number, number + 1) if peepholes else ""
        return lambda d, x, states: _lstm_step(d, x, states, p)

    _unroll(e, 4, ["Sigmoid", "Tanh", "Tanh"], step_of, states=2)


def _lstm_step(d: _Direction, x: str, states: list[str], peepholes: str) -> list[str]:
    e, (h, c) = d.e, states
    total = d.plus(e.op("Add", x, e.op("MatMul", h, d.recurrent)), d.recurrent_bias)
    i, o, f, g = (d.gate(total, number) for number in range(4))
    if peepholes:
        pi, po, pf = (d.gate(peepholes, number) for number in range(3))
        i, f = e.op("Add", i, e.op("Mul", pi, c)), e.op("Add", f, e.op("Mul", pf, c))
    i, f, g = d.activate(0, i), d.activate(0, f), d.activate(1, g)
    c = e.op("Add", e.op("Mul", f, c), e.op("Mul", i, g))
    if peepholes:
        o = e.op("Add", o, e.op("Mul", po, c))
    return [e.op("Mul", d.activate(0, o), d.activate(2, c, is_cell=True)), c]


def gru(e: Decomposition) -> None:
    """Gated recurrent units, with the reset before or after the product."""
    after = bool(e.attribute("linear_before_reset", 0))
    _unroll(
        e, 3, ["Sigmoid", "Tanh"], lambda _: lambda d, x, s: _gru_step(d, x, s, after), states=1
    )


def _gru_step(d: _Direction, x: str, states: list[str], after: bool) -> list[str]:
    e, (h,) = d.e, states
    product = d.plus(e.op("MatMul", h, d.recurrent), d.recurrent_bias)
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
        return [d.activate(0, d.plus(total, d.recurrent_bias))]

    _unroll(e, 1, ["Tanh"], lambda _: step, states=1)


class _Layer:
    """What the directions of an operator share: its sequence, its sizes, and how they lie."""

    def __init__(self, e: Decomposition, gates: int) -> None:
        self.e, self.gates = e, gates
        self.batch_first = bool(e.attribute("layout", 0))
        first, second, *_ = e.shape(0)
        self.batch, self.length = (first, second) if self.batch_first else (second, first)
        e.leave_if(self.length > _STEPS, f"the sequence has {self.length} steps")
        lengths = e.value(4).reshape(self.batch).astype(np.int64) if e.has(4) else self.length
        #: The lengths of the sequences; None if all are whole.
        self.lengths: Any = None if np.all(lengths == self.length) else lengths
        self.hidden = int(e.attribute("hidden_size", e.shape(2)[2]))
        self.x = self.swapped(e.inputs[0])

    def swapped(self, name: str) -> str:
        """Exchange the axes of batch and time, or of batch and direction, if the batch comes first."""
        return self.e.transpose(name, [1, 0, 2]) if self.batch_first else name

    def row(self, x: str, number: int) -> str:
        """Slice the part of a direction, keeping the axis; that makes vectors rows."""
        return self.e.slice(x, 0, number, number + 1)

    def direction(self, number: int, names: list[str]) -> _Direction:
        """Return the weights of a direction. names: its activations."""
        e, width = self.e, self.gates * self.hidden
        weights = e.reshape(self.row(e.inputs[1], number), [width, e.shape(1)[2]])
        weights = e.transpose(weights, [1, 0])
        recurrent = e.reshape(self.row(e.inputs[2], number), [width, self.hidden])
        bias = recurrent_bias = ""
        if e.has(3):
            both = self.row(e.inputs[3], number)
            bias, recurrent_bias = e.slice(both, 1, 0, width), e.slice(both, 1, width, 2 * width)
        recurrent = e.transpose(recurrent, [1, 0])
        clip = e.attribute("clip")
        return _Direction(e, weights, recurrent, bias, recurrent_bias, self.hidden, names, clip)

    def initial(self, index: int, number: int) -> str:
        """Return the state of a direction before the first step: an input, or zeros."""
        e = self.e
        if not e.has(index):
            return e.constant(np.zeros((self.batch, self.hidden)), e.numpy_type())
        return e.reshape(self.row(self.swapped(e.inputs[index]), number), [self.batch, self.hidden])

    def run(
        self, d: _Direction, states: list[str], step: _Step, backwards: bool
    ) -> tuple[list[str], list[str]]:
        """Run a direction over the steps; return the outputs by time, and the last states."""
        e = self.e
        products = d.plus(e.op("MatMul", self.x, d.weights), d.bias)
        width = e.shape(1)[1]
        outputs = [""] * self.length
        for time in reversed(range(self.length)) if backwards else range(self.length):
            now = e.reshape(e.slice(products, 0, time, time + 1), [self.batch, width])
            new = step(d, now, states)
            if self.lengths is None:
                states, outputs[time] = new, new[0]
            else:
                runs = e.constant((time < self.lengths)[:, None])
                states = [e.op("Where", runs, b, a) for a, b in zip(states, new, strict=True)]
                outputs[time] = e.op("Where", runs, new[0], e.like(0))
        return outputs, states

    def results(self, sequences: list[list[str]], ends: list[list[str]]) -> None:
        """Y, and the last states that are asked for."""
        e, sizes = self.e, [self.batch, self.hidden]
        if e.wants(0):
            steps = [e.reshape(step, [1, 1, *sizes]) for outputs in sequences for step in outputs]
            y = e.op("Concat", *steps, axis=0)
            y = e.transpose(e.reshape(y, [len(sequences), self.length, *sizes]), [1, 0, 2, 3])
            e.result(e.transpose(y, [2, 0, 1, 3]) if self.batch_first else y, 0)
        for index in range(len(ends[0])):
            if e.wants(index + 1):
                rows = [e.reshape(end[index], [1, *sizes]) for end in ends]
                e.result(self.swapped(e.op("Concat", *rows, axis=0)), index + 1)


def _unroll(
    e: Decomposition,
    gates: int,
    activations: list[str],
    step_of: Callable[[int], _Step],
    states: int,
) -> None:
    """Unroll all directions. step_of: gives the step of a direction, by its number."""
    layer = _Layer(e, gates)
    direction = e.attribute("direction", "forward")
    ways = [False, True] if direction == "bidirectional" else [direction == "reverse"]
    given = e.attribute("activations", activations * len(ways))
    sequences, ends = [], []
    for number, backwards in enumerate(ways):
        names = given[number * len(activations) : (number + 1) * len(activations)]
        d = layer.direction(number, names)
        initial = [layer.initial(5 + state, number) for state in range(states)]
        outputs, last = layer.run(d, initial, step_of(number), backwards)
        sequences.append(outputs)
        ends.append(last)
    layer.results(sequences, ends)
