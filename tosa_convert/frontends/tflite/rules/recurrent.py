"""Recurrent operators without gates, RNN and SVDF, and what they share with LSTM.

A cell is applied to a sequence step by step. States are variables that are read before the first step
and written after the last one. Inside of a cell, tensors have the shape [batch, 1, 1, elements], that
of CONV2D.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from tosa_convert.frontends.lowering import movement
from tosa_convert.frontends.lowering.arithmetic import clip
from tosa_convert.frontends.lowering.recurrent import Cell, States, run_cell
from tosa_convert.frontends.lowering.reductions import by_operator
from tosa_convert.frontends.lowering.scope import (
    Array,
    Data,
    NotLowered,
    Scope,
    constant,
    whole_data,
)
from tosa_convert.frontends.lowering.types import INT32, carrier, is_float
from tosa_convert.frontends.tflite.node import Node, Rule
from tosa_convert.frontends.tflite.rescale import rescaled
from tosa_convert.frontends.tflite.scales import ACTIVATIONS, rescale_of, single

_TANH: Final = 4
_INT16: Final = np.dtype(np.int16)
#: The beginning of names that a converter makes of its own operations.
_OF_CONVERTER: Final = ("tfl.", "arith.")
OTHER: Final = "TFLite has no kernel with its types, or its weights are computed"
_HYBRID: Final = (
    "its inputs are FP32 and its weights integers: TFLite quantises the inputs in each call",
    "quantise the inputs too, or keep the weights in floating point",
)


# -- operands --------------------------------------------------------------------------------------


def constants_at(n: Node, places: Sequence[int]) -> dict[int, Data]:
    """Return those of some operands that are given, which must be constants."""
    found = {place: n.array(place) for place in places if n.has(place) and n.array(place).size}
    if any(a.data is None for a in found.values()):
        raise NotLowered(OTHER)
    return {place: whole_data(a) for place, a in found.items()}


def refuse_hybrid(n: Node, places: Sequence[int]) -> None:
    """Refuse integer operands beside a floating-point input."""
    if any(n.tensor(place).dtype != "float32" for place in places):
        raise NotLowered(*_HYBRID)


class State:
    """Hold an operand that an operator keeps between calls, as a variable of the program."""

    def __init__(self, n: Node, place: int) -> None:
        number, tensors = n.operator.inputs[place], n.part.tensors
        self.scope, self.tensor = n.scope, tensors[number]
        if number < 0 or not self.tensor.is_variable:
            raise ValueError(f"operand {place} is not a variable")
        name = self.tensor.name
        others = [one.name for one in tensors if one.is_variable]
        if not name or name.startswith(_OF_CONVERTER) or others.count(name) > 1:
            # `worker.py` finds the state by this name, too.
            name = f"{n.kind.lower()}_{n.operator.index}_state_{place}"
        # TFLite fills states with their zero point.
        zero, shape = self.tensor.zero_point, self.tensor.shape
        self.variable = n.scope.builder.variable(name, carrier(self.tensor.dtype), shape, zero)

    def read(self, shape: Sequence[int]) -> Array:
        b = self.scope.builder
        return self.scope.array(b.reshape(b.read(self.variable), shape), self.tensor.dtype)

    def write(self, a: Array) -> None:
        s = self.scope
        s.builder.write(self.variable, s.whole(movement.reshape(s, a, self.tensor.shape)))


# -- steps -----------------------------------------------------------------------------------------


def activate(s: Scope, x: Array, code: int) -> Array:
    """Apply an activation by its code in TensorFlow's schema."""
    if code == _TANH:
        return s.elementwise("tanh", x)
    if code not in ACTIVATIONS:
        raise NotLowered(OTHER)
    low, high = ACTIVATIONS[code]
    if low is None:
        return x
    return clip(s, x, low, math.inf if high is None else high)


def matrix_of(weights: Sequence[Data]) -> Array:
    """Return matrices of [results, elements], one below the other, as weights of CONV2D."""
    return constant(np.ascontiguousarray(np.concatenate(weights)[:, None, None]))


def product(s: Scope, x: Array, matrix: Array, bias: Array, zero: int = 0) -> Array:
    """Multiply elements less a zero point by a matrix, and add a bias."""
    made = s.builder.conv2d(s.whole(x), s.value(matrix), s.value(bias), zero, 0)
    return s.array(made, x.dtype if is_float(x.dtype) else INT32)


def rows_of(n: Node, places: Sequence[int], time_major: bool) -> tuple[Array, int, int]:
    """Return sequences, joined, as rows of [time * batch, 1, 1, elements]; sizes of time and batch."""
    s = n.scope
    x = movement.concatenate(s, [n.array(one) for one in places], n.array(0).rank - 1)
    if x.rank == 3 and not time_major:
        x = movement.transpose(s, x, (1, 0, 2))
    steps, batch, size = (1, *x.shape)[-3:]  # Without time there is a single step.
    return movement.reshape(s, x, (steps * batch, 1, 1, size)), steps, batch


def run(
    n: Node,
    rows: Array,
    steps: int,
    states: Sequence[State],
    cell: Cell,
    time_major: bool,
    backwards: bool,
) -> Array:
    """Apply a cell to each part of the rows, and keep the states; return the results as a sequence."""
    s, batch = n.scope, rows.shape[0] // steps
    before = [one.read((batch, 1, 1, math.prod(one.tensor.shape) // batch)) for one in states]
    wide = [s.cast(one, INT32) if one.dtype == _INT16 else one for one in before]
    made, after = run_cell(s, rows, steps, wide, cell, backwards)
    for state, old, new in zip(states, before, after, strict=True):
        state.write(s.cast(new, old.dtype))
    size = made.shape[-1]
    if len(n.result.shape) == 2:
        return movement.reshape(s, made, (batch, size))
    made = movement.reshape(s, made, (steps, batch, size))
    return made if time_major else movement.transpose(s, made, (1, 0, 2))


def joined(n: Node, directions: Sequence[Array], is_merged: bool) -> Sequence[Array]:
    """Return the results of directions, or one of both."""
    return [movement.concatenate(n.scope, directions, 2)] if is_merged else directions


# -- RNN and SVDF ----------------------------------------------------------------------------------

#: In the operator of both directions: the first weights of each, the second input, and its weights.
_BOTH_WEIGHTS: Final = (1, 5)
_AUX: Final = 9
_AUX_WEIGHTS: Final = (10, 11)
#: Types of input, weights, weights of time, state and result of SVDF.
_OF_INTEGERS: Final = ["int8", "int8", "int16", "int16", "int8"]


def _both(n: Node) -> Sequence[Array]:
    made = []
    for number, (weights, aux) in enumerate(zip(_BOTH_WEIGHTS, _AUX_WEIGHTS, strict=True)):
        inputs = {0: weights}
        if n.has(_AUX) and n.has(aux):
            inputs[_AUX] = aux
        elif n.has(_AUX) and number and n.flag(0):
            # Without weights of its own the second input is that of the second direction. TFLite's
            # kernel forgets that if the batch comes first.
            inputs = {_AUX: weights}
        made.append(_directed(n, weights, inputs, n.option(1, "b"), n.flag(0), bool(number)))
    return joined(n, made, n.flag(2))


def _directed(
    n: Node,
    first: int,
    inputs: Mapping[int, int],
    activation: int,
    time_major: bool,
    backwards: bool = False,
) -> Array:
    """Lower activation(weights @ x + recurrent @ last output + bias). inputs: input -> its weights."""
    constants = constants_at(n, [*inputs.values(), first + 1, first + 2])
    if n.tensor(0).dtype != "float32":
        raise NotLowered(OTHER)
    refuse_hybrid(n, list(constants))
    weights = matrix_of([np.concatenate([constants[one] for one in inputs.values()], 1)])
    recurrent, bias = matrix_of([constants[first + 1]]), constant(constants[first + 2])
    none = constant(np.zeros_like(constants[first + 2]))

    def cell(s: Scope, x: Array, states: States) -> tuple[Array, States]:
        output = activate(s, s.add(x, product(s, states[0], recurrent, none)), activation)
        return output, [output]

    rows, steps, _ = rows_of(n, list(inputs), time_major)
    taken = product(n.scope, rows, weights, bias)
    return run(n, taken, steps, [State(n, first + 3)], cell, time_major, backwards)


def _svdf(n: Node) -> Array:
    """Multiply by a matrix, keep the results of the latest calls, and sum them with weights of time."""
    s, x = n.scope, n.array(0)
    constants, rank = constants_at(n, (1, 2, 3)), n.option(0)
    kept = n.part.tensors[n.operator.inputs[4]]
    is_float = n.tensor(0).dtype == "float32"
    if is_float:
        refuse_hybrid(n, (1, 2))
    elif [*(n.tensor(at).dtype for at in range(3)), kept.dtype, n.result.dtype] != _OF_INTEGERS:
        raise NotLowered(OTHER)
    feature, time = constants[1], constants[2]
    (filters, memory), batch = time.shape, x.shape[0]
    units = filters // rank
    kind = feature.dtype if is_float else np.dtype(np.int32)
    bias = constants.get(3, np.zeros(units, kind))
    none = constant(np.zeros(filters, kind))
    row = movement.reshape(s, x, (batch, 1, 1, x.shape[1]))
    newest = product(s, row, matrix_of([feature]), none, n.zero(0))
    if not is_float:
        scale = single(single(n.scale(0) * n.scale(1)) / kept.scale)
        newest = rescaled(s, newest, rescale_of(scale), np.int16)
    variable = State(n, 4)
    state = variable.read((batch, filters, memory))
    newest = movement.reshape(s, newest, (batch, filters, 1))
    earlier = [movement.part(s, state, 2, 1, memory)] if memory > 1 else []
    newest = movement.concatenate(s, [*earlier, newest], 2)
    variable.write(newest)
    products = s.mul(
        newest if is_float else s.cast(newest, INT32), constant(time.astype(kind)[None])
    )
    grouped = movement.reshape(s, products, (batch, units, rank * memory))
    total = s.add(by_operator(s, grouped, (2,), "reduce_sum"), constant(bias[None]))
    if is_float:
        return activate(s, total, n.option(1, "b"))
    scale = single(single(kept.scale * n.scale(2)) / n.result_scale)
    return rescaled(s, total, rescale_of(scale), np.int8, zero=n.result_zero)


RULES: Final[dict[str, Rule]] = {
    "RNN": lambda n: _directed(n, 1, {0: 1}, n.option(0, "b"), True),
    "UNIDIRECTIONAL_SEQUENCE_RNN": lambda n: _directed(n, 1, {0: 1}, n.option(1, "b"), n.flag(0)),
    "BIDIRECTIONAL_SEQUENCE_RNN": _both,
    "SVDF": _svdf,
}
