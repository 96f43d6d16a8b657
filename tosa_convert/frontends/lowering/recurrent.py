"""Recurrent layers of one direction: cells that run over a sequence; LSTM, GRU and RNN, unrolled."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tosa_convert.builder import Builder
from tosa_convert.frontends.lowering import movement
from tosa_convert.frontends.lowering.arithmetic import clip
from tosa_convert.frontends.lowering.control_flow import UNROLLED, while_loop
from tosa_convert.frontends.lowering.indexing import index32
from tosa_convert.frontends.lowering.products import product
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant
from tosa_convert.frontends.lowering.types import carrier

#: Operands of a CONCAT that every level of TOSA allows.
_MOST_OPERANDS: Final = 64
#: Most steps of layers that are unrolled whatever they have.
_MOST_STEPS: Final = 1024

Activation = Callable[[Scope, Array], Array]
#: The state and, of LSTM, the cell, each [1, batch, hidden].
States = Sequence[Array]


@dataclass(frozen=True)
class Weights:
    """What a direction multiplies with; the gates lie side by side in the first dimension.

    inputs: [gates * hidden, features]. recurrent: [gates * hidden, hidden].
    bias: of the inputs, and recurrent_bias: of the states, [gates * hidden]; None for zeros.
    """

    inputs: Array
    recurrent: Array
    bias: Array | None = None
    recurrent_bias: Array | None = None


@dataclass(frozen=True)
class Run:
    """How a direction runs over a sequence.

    lengths: of the sequences of the batch, [batch]; None if all are whole.
    reverse: from the last element to the first. clip: limits what activations get, by its size.
    """

    lengths: Array | None = None
    reverse: bool = False
    clip: float | None = None


#: One step: its number in time, the states -> the new states.
_Step = Callable[[int, States], States]


#: One step of a sequence: its rows, and the states -> the rows of its result, and the next states.
Cell = Callable[[Scope, Array, States], tuple[Array, States]]


def run_cell(
    s: Scope, rows: Array, steps: int, states: States, cell: Cell, reverse: bool = False
) -> tuple[Array, States]:
    """Return the rows of the results of all steps, and the last states.

    A short sequence is unrolled, because fewer programs read loops: one whose steps together have at
    most UNROLLED operators.
    """
    like, count = _one_step(rows, steps, states, cell)
    if steps > 1 and steps * count > UNROLLED:
        return _looped(s, rows, like, states, cell, reverse)
    size = rows.shape[0] // steps
    made = []
    for time in range(steps)[:: -1 if reverse else 1]:
        y, states = cell(s, movement.part(s, rows, 0, time * size, (time + 1) * size), states)
        made.append(y)
    made = made[:: -1 if reverse else 1]
    while len(made) > 1:
        parts = [made[at : at + _MOST_OPERANDS] for at in range(0, len(made), _MOST_OPERANDS)]
        made = [movement.concatenate(s, part, 0) for part in parts]
    return made[0], states


def _one_step(rows: Array, steps: int, states: States, cell: Cell) -> tuple[Array, int]:
    """Build a step alone; return its result, and how many operators it has without constants."""
    trial = Scope(Builder())
    shape = rows.shape[0] // steps, *rows.shape[1:]
    given = [
        trial.array(trial.builder.input(f"x{at}", carrier(one.dtype), sizes), one.dtype)
        for at, (one, sizes) in enumerate([(rows, shape), *((one, one.shape) for one in states)])
    ]
    made, after = cell(trial, given[0], given[1:])
    trial.builder.output(*(trial.whole(one) for one in (made, *after)))
    names = (one.spec.name for one in trial.builder.graph().main.operators)
    return made, sum(name not in ("CONST", "CONST_SHAPE") for name in names)


def _looped(
    s: Scope, rows: Array, like: Array, states: States, cell: Cell, reverse: bool
) -> tuple[Array, States]:
    """Carry the step's number, the rows, the results so far and the states. like: a step's result."""
    batch = like.shape[0]
    steps, shape = rows.shape[0] // batch, (batch, *rows.shape[1:])
    table = movement.reshape(s, rows, (1, steps, math.prod(shape)))
    results = constant(np.zeros((1, steps, like.size), like.dtype))
    first = constant(np.zeros((1, 1), np.int32))

    def goes_on(inner: Scope, state: Sequence[Array], _: Sequence[Array]) -> list[Array]:
        return [inner.reshaped(inner.greater(steps, state[0]), ())]

    def body(inner: Scope, state: Sequence[Array], _: Sequence[Array]) -> list[Array]:
        number, table, results, *before = state
        at = inner.sub(steps - 1, number) if reverse else number
        x = inner.apply("gather", [table, at], rows.dtype)
        y, after = cell(inner, movement.reshape(inner, x, shape), before)
        y = movement.reshape(inner, y, (1, 1, like.size))
        results = inner.apply("scatter", [results, at, y], like.dtype)
        return [inner.add(number, 1), table, results, *after]

    _, _, made, *last = while_loop(s, [first, table, results, *states], [], goes_on, body, {})
    return movement.reshape(s, made, (steps * batch, *like.shape[1:])), last


def lstm(
    s: Scope,
    x: Array,
    weights: Weights,
    states: States,
    activations: Sequence[Activation],
    run: Run,
    peepholes: Array | None = None,
    is_coupled: bool = False,
) -> tuple[list[Array], States]:
    """Return the outputs by time, each [1, batch, hidden], and the last states.

    x: [time, batch, features]. Gates: input, output, forget, cell. activations: of the gates, of the
    candidate for the cell, and of the cell. peepholes: [3 * hidden], of input, output and forget.
    is_coupled: the forget gate is what the input gate leaves.
    """
    of_gates, of_candidate, of_cell = activations
    size = weights.recurrent.shape[1]
    products = _products(s, x, weights.inputs, _sum(s, weights.bias, weights.recurrent_bias))
    matrix = _right(s, weights.recurrent)
    looks = _gates(s, movement.reshape(s, peepholes, (1, 1, 3 * size)), size) if peepholes else None

    def step(time: int, states: States) -> States:
        h, c = states
        sums = _plus_product(s, _at(s, products, x, time), h, matrix)
        if looks is None:
            sums = _clipped(s, sums, run.clip)
            opened = of_gates(s, movement.part(s, sums, 2, 0, 3 * size))
            i, o, f = _gates(s, opened, size)
            g = movement.part(s, sums, 2, 3 * size, 4 * size)
        else:
            i, o, f, g = _gates(s, sums, size)
            i, f = (_plus(s, a, look, c) for a, look in ((i, looks[0]), (f, looks[2])))
            i, f, g = (_clipped(s, a, run.clip) for a in (i, f, g))
            i, f = of_gates(s, i), of_gates(s, f)
        f = s.sub(1, i) if is_coupled else f
        c = _plus(s, s.mul(i, of_candidate(s, g)), f, c)
        if looks is not None:
            o = of_gates(s, _clipped(s, _plus(s, o, looks[1], c), run.clip))
        return [s.mul(o, of_cell(s, c)), c]

    return _unrolled(s, x, states, step, run)


def gru(
    s: Scope,
    x: Array,
    weights: Weights,
    states: States,
    activations: Sequence[Activation],
    run: Run,
    is_reset_after: bool = False,
) -> tuple[list[Array], States]:
    """Return the outputs by time, and the last state, as `lstm` does.

    Gates: update, reset, hidden. is_reset_after: the reset is applied to the product with the state,
    not to the state.
    """
    of_gates, of_candidate = activations
    size = weights.recurrent.shape[1]
    sizes = 2 * size, size
    w_gates, w_new = movement.split(s, weights.inputs, sizes, 0)
    r_gates, r_new = movement.split(s, weights.recurrent, sizes, 0)
    (b_gates, b_new), (rb_gates, rb_new) = (
        movement.split(s, bias, sizes, 0) if bias else (None, None)
        for bias in (weights.bias, weights.recurrent_bias)
    )
    inner = movement.reshape(s, rb_new, (1, 1, size)) if rb_new and is_reset_after else None
    for_gates = _products(s, x, w_gates, _sum(s, b_gates, rb_gates))
    for_new = _products(s, x, w_new, b_new if is_reset_after else _sum(s, b_new, rb_new))
    right_gates, right_new = _right(s, r_gates), _right(s, r_new)

    def step(time: int, states: States) -> States:
        (h,) = states
        sums = _plus_product(s, _at(s, for_gates, x, time), h, right_gates)
        z, r = _gates(s, of_gates(s, _clipped(s, sums, run.clip)), size)
        new = _at(s, for_new, x, time)
        if is_reset_after:
            reset = _sum(s, _product(s, h, right_new), inner)
            new = s.add(new, s.mul(r, reset)) if reset else new
        else:
            new = _plus_product(s, new, h if _is_zero(h) else s.mul(r, h), right_new)
        new = of_candidate(s, _clipped(s, new, run.clip))
        return [s.add(new, s.mul(z, s.sub(h, new)))]

    return _unrolled(s, x, states, step, run)


def rnn(
    s: Scope,
    x: Array,
    weights: Weights,
    states: States,
    activations: Sequence[Activation],
    run: Run,
) -> tuple[list[Array], States]:
    """Return the outputs by time, and the last state, as `lstm` does."""
    products = _products(s, x, weights.inputs, _sum(s, weights.bias, weights.recurrent_bias))
    matrix = _right(s, weights.recurrent)

    def step(time: int, states: States) -> States:
        sums = _plus_product(s, _at(s, products, x, time), states[0], matrix)
        return [activations[0](s, _clipped(s, sums, run.clip))]

    return _unrolled(s, x, states, step, run)


def _unrolled(
    s: Scope, x: Array, states: States, step: _Step, run: Run
) -> tuple[list[Array], States]:
    """Run over the steps. A sequence that is shorter keeps its states, and has outputs of 0."""
    length, batch, _ = x.shape
    if length > _MOST_STEPS:
        reason = f"a sequence of {length} steps is not unrolled"
        raise NotLowered(reason, f"use sequences of up to {_MOST_STEPS} steps")
    made: dict[int, Array] = {}
    for time in reversed(range(length)) if run.reverse else range(length):
        new = step(time, states)
        runs = None if run.lengths is None else is_running(s, run.lengths, time, batch)
        if runs is None or (runs.data is not None and runs.data.all()):
            states, made[time] = new, new[0]
        else:
            states = [s.select(runs, b, a) for a, b in zip(states, new, strict=True)]
            made[time] = s.select(runs, new[0], 0)
    return [made[time] for time in range(length)], states


def is_running(s: Scope, lengths: Array, time: int, batch: int) -> Array:
    """Return which sequences of the batch have an element at a time, [1, batch, 1]."""
    return s.greater(movement.reshape(s, index32(s, lengths), (1, batch, 1)), time)


def _products(s: Scope, x: Array, weights: Array, bias: Array | None) -> Array:
    """Multiply all elements of the sequences at once: [1, time * batch, outputs]."""
    flat = movement.reshape(s, x, (1, x.shape[0] * x.shape[1], x.shape[2]))
    made = product(s, flat, _right(s, weights), x.dtype)
    if bias is None or _is_zero(bias):
        return made
    return s.add(made, movement.reshape(s, bias, (1, 1, bias.size)))


def _right(s: Scope, weights: Array) -> Array:
    """Transpose weights [outputs, inputs] to the second factor of a product, [1, inputs, outputs]."""
    return movement.reshape(s, movement.transpose(s, weights, (1, 0)), (1, *weights.shape[::-1]))


def _at(s: Scope, products: Array, x: Array, time: int) -> Array:
    """Return the rows of one time, [1, batch, outputs]."""
    batch = x.shape[1]
    return movement.part(s, products, 1, time * batch, (time + 1) * batch)


def _plus_product(s: Scope, x: Array, h: Array, right: Array) -> Array:
    """Add the product of states and a matrix."""
    made = _product(s, h, right)
    return x if made is None else s.add(x, made)


def _product(s: Scope, h: Array, right: Array) -> Array | None:
    """Multiply states by a matrix; None if the product is known to be 0."""
    is_finite = right.data is not None and bool(np.isfinite(right.data).all())
    return None if is_finite and _is_zero(h) else product(s, h, right, h.dtype)


def _plus(s: Scope, x: Array, gate: Array, state: Array) -> Array:
    """Add the product of a gate and a state, which is 0 for one that is known to be."""
    return x if _is_zero(state) else s.add(x, s.mul(gate, state))


def _is_zero(a: Array) -> bool:
    return a.data is not None and not a.data.any()


def _sum(s: Scope, a: Array | None, b: Array | None) -> Array | None:
    return s.add(a, b) if a and b else a or b


def _gates(s: Scope, a: Array, size: int) -> list[Array]:
    return movement.split(s, a, [size] * (a.shape[2] // size), 2)


def _clipped(s: Scope, a: Array, limit: float | None) -> Array:
    return a if limit is None else clip(s, a, -limit, limit)


def zero_state(batch: int, hidden: int, dtype: Any) -> Array:
    """Return a state of zeros, [1, batch, hidden]."""
    return Array(np.dtype(dtype), (1, batch, hidden), np.zeros((1, 1, 1), dtype))
