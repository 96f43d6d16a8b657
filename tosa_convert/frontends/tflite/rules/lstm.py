"""LSTM: of one step, of a sequence, and of a sequence in both directions.

All gates are one product for the whole sequence, and one for each step. Integers are those of TFLite's
kernel with int16 as cell, bit for bit; its other kernel, which has 12 intermediate tensors, computes
between its integers in floating point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from tosa_convert.frontends.lowering.scope import Array, Data, NotLowered
from tosa_convert.frontends.tflite.node import Node, Rule
from tosa_convert.frontends.tflite.rules.lstm_cells import FloatCell, IntegerCell, LstmCell
from tosa_convert.frontends.tflite.rules.lstm_integers import find_integers
from tosa_convert.frontends.tflite.rules.sequences import (
    OTHER,
    State,
    constants_at,
    joined,
    refuse_hybrid,
    rows_of,
    run,
)

#: What an operand is -> its place in the operator of one direction.
_PLACES: Final = {
    **{f"input_{gate}": 1 + n for n, gate in enumerate("ifco")},
    **{f"recurrent_{gate}": 5 + n for n, gate in enumerate("ifco")},
    **{f"cell_{gate}": 9 + n for n, gate in enumerate("ifo")},
    **{f"bias_{gate}": 12 + n for n, gate in enumerate("ifco")},
    "projection": 16,
    "projection_bias": 17,
}
_NORMS: Final = {f"norm_{gate}": 20 + n for n, gate in enumerate("ifco")}
_STATES: Final = 18
#: In the operator of both directions: how much later the weights of the second one are, the states of
#: each, the second input, and its weights in each.
_SECOND: Final = 17
_BOTH_STATES: Final = (35, 37)
_AUX: Final = 39
_AUX_WEIGHTS: Final = (40, 44)
#: The kernel of LSTM that has other operands.
_BASIC: Final = 1


def _one(n: Node) -> Array:
    is_step = n.kind == "LSTM"
    if is_step and n.option(3, "b") == _BASIC:
        raise NotLowered("it is the basic kernel", "export it with the full kernel")
    places = _PLACES | (_NORMS if len(n.given) > _STATES + 2 else {})
    return _directed(n, places, [0], _STATES, is_step or n.flag(3))


def _both(n: Node) -> Sequence[Array]:
    made = []
    for number, (states, aux) in enumerate(zip(_BOTH_STATES, _AUX_WEIGHTS, strict=True)):
        places = {role: place + number * _SECOND for role, place in _PLACES.items()}
        inputs = [0]
        if n.has(_AUX) and n.has(_AUX_WEIGHTS[0] + 1):
            # With weights of its own the second input is added; without, it is that of the second
            # direction.
            inputs = [0, _AUX]
            places |= {f"aux_{gate}": aux + at for at, gate in enumerate("ifco")}
        elif n.has(_AUX) and number:
            inputs = [_AUX]
        made.append(_directed(n, places, inputs, states, n.flag(4, True), bool(number)))
    return joined(n, made, n.flag(3))


def _directed(
    n: Node,
    places: Mapping[str, int],
    inputs: Sequence[int],
    states: int,
    time_major: bool,
    backwards: bool = False,
) -> Array:
    """Lower a direction. places: of its weights, by what they are. states: the place of its states."""
    constants = constants_at(n, list(places.values()))
    roles = {role: place for role, place in places.items() if place in constants}
    weights = {role: constants[place] for role, place in roles.items()}
    rows, steps, batch = rows_of(n, inputs, time_major)
    cell = _cell(n, roles, weights, batch if time_major else 1)
    kept = State(n, states), State(n, states + 1)
    return run(n, cell.gates_of(n.scope, rows), steps, kept, cell.step, time_major, backwards)


def _cell(n: Node, roles: Mapping[str, int], weights: dict[str, Data], batch: int) -> LstmCell:
    """Return the cell of a direction. batch: 1 if it comes first, and sequences run one by one."""
    for gate in "ifco":
        recurrent = weights.get(f"recurrent_{gate}")
        if recurrent is not None and recurrent.ndim == 1:  # A diagonal.
            weights[f"recurrent_{gate}"] = np.diag(recurrent)
        if f"aux_{gate}" in weights:
            both = weights[f"input_{gate}"], weights[f"aux_{gate}"]
            weights[f"input_{gate}"] = np.concatenate(both, axis=1)
    activation, clips = n.option(0, "b"), (n.real(1), n.real(2))
    if n.tensor(0).dtype == "float32":
        refuse_hybrid(n, list(roles.values()))
        if not activation:
            reason = "its activation is NONE, for which TFLite's kernel leaves other numbers"
            raise NotLowered(reason)
        return FloatCell(weights, activation, *clips)
    if n.tensor(0).dtype != "int8":
        raise NotLowered(OTHER)
    if len(n.operator.intermediates) == len("ifco") * 3:
        reason = "its kernel computes in floating point between integers"
        raise NotLowered(reason, "quantise it with 5 intermediate tensors, not 12")
    integers = find_integers(n, {role: n.tensor(place) for role, place in roles.items()}, clips)
    return IntegerCell(weights, integers, batch)


RULES: Final[dict[str, Rule]] = {
    "LSTM": _one,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _one,
    "BIDIRECTIONAL_SEQUENCE_LSTM": _both,
}
