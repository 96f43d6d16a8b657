"""Recurrent operators without gates: RNN, of one step and of sequences, and SVDF."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from tosa_convert.frontends.lowering import movement
from tosa_convert.frontends.lowering.recurrent import States
from tosa_convert.frontends.lowering.reductions import by_operator
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant
from tosa_convert.frontends.lowering.types import INT32
from tosa_convert.frontends.tflite.node import Node, Rule
from tosa_convert.frontends.tflite.rescale import rescaled
from tosa_convert.frontends.tflite.rules.sequences import (
    OTHER,
    State,
    activate,
    constants_at,
    joined,
    matrix_of,
    product,
    refuse_hybrid,
    rows_of,
    run,
)
from tosa_convert.frontends.tflite.scales import rescale_of, single

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
