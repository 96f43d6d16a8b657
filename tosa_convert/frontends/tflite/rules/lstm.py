"""LSTM: of one step, of a sequence, and of a sequence in both directions.

All gates are one product for the whole sequence, and one for each step. Integers are those of TFLite's
kernel with int16 as cell, bit for bit; its other kernel, which has 12 intermediate tensors, computes
between its integers in floating point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tosa_convert.frontends.lowering.scope import NotLowered
from tosa_convert.frontends.tflite.node import Rule
from tosa_convert.frontends.tflite.read import Operator as TfliteOperator
from tosa_convert.frontends.tflite.read import TfliteFile, operator_name
from tosa_convert.frontends.tflite.rules.by_builder import Given, by_builder
from tosa_convert.frontends.tflite.rules.lstm_cell import FloatCell, LstmCell
from tosa_convert.frontends.tflite.rules.lstm_integer import (
    IntegerCell,
    Integers,
    find_integers,
)
from tosa_convert.frontends.tflite.rules.sequences import (
    HYBRID,
    State,
    constants_at,
    find_state,
    is_activation,
    rows_of,
    run_steps,
    sequence_of,
)

if TYPE_CHECKING:
    from tosa_convert.builder import Builder
    from tosa_convert.builder.values import Value

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


@dataclass(frozen=True, slots=True)
class _Direction:
    """inputs: numbers of the operands that are its inputs. weights: those of its constants, by role.

    states: of the output and the cell.
    """

    inputs: tuple[int, ...]
    weights: Mapping[str, int]
    states: tuple[State, State]


@dataclass(frozen=True, slots=True)
class _Lstm:
    """directions: the second one is backwards. is_merged: both have one result.

    activation, cell_clip, proj_clip, time_major: as in TFLite. integers: those of int8.
    """

    directions: tuple[_Direction, ...]
    activation: int
    cell_clip: float
    proj_clip: float
    time_major: bool
    is_merged: bool = False
    integers: Integers | None = None


def _find_one(model: TfliteFile, operator: TfliteOperator) -> _Lstm | None:
    """Find the facts of LSTM and UNIDIRECTIONAL_SEQUENCE_LSTM."""
    is_step = operator_name(operator.code) == "LSTM"
    if is_step and operator.option(3, "b") == _BASIC:
        raise NotLowered("it is the basic kernel", "export it with the full kernel")
    places = _PLACES | (_NORMS if len(operator.inputs) > _STATES + 2 else {})
    direction = _direction(model, operator, places, (0,), _STATES)
    options = operator.options
    if direction is None or options is None:
        return None
    time_major = is_step or bool(operator.option(3, "b"))
    clips = options.real(1), options.real(2)
    found = _Lstm((direction,), operator.option(0, "b"), *clips, time_major)
    return _checked(model, operator, found, _roles(places, direction))


def _find_both(model: TfliteFile, operator: TfliteOperator) -> _Lstm | None:
    """Find the facts of BIDIRECTIONAL_SEQUENCE_LSTM."""
    taken = model.takes(operator)
    # With weights of its own the second input is added; without, it is that of the second direction.
    has_weights = _AUX_WEIGHTS[0] + 1 in taken
    directions = []
    roles: dict[str, int] = {}
    for number, (states, aux) in enumerate(zip(_BOTH_STATES, _AUX_WEIGHTS, strict=True)):
        places = {role: place + number * _SECOND for role, place in _PLACES.items()}
        inputs: tuple[int, ...] = (0,)
        if _AUX in taken:
            if has_weights:
                inputs = (0, _AUX)
                places |= {f"aux_{gate}": aux + n for n, gate in enumerate("ifco")}
            elif number:
                inputs = (_AUX,)
        direction = _direction(model, operator, places, inputs, states)
        if direction is None:
            return None
        directions.append(direction)
        roles |= {f"{number}{role}": place for role, place in _roles(places, direction).items()}
    options = operator.options
    if options is None:
        return None
    found = _Lstm(
        tuple(directions),
        operator.option(0, "b"),
        *(options.real(1), options.real(2)),
        bool(operator.option(4, "b", 1)),
        bool(operator.option(3, "b")),
    )
    return _checked(model, operator, found, roles)


def _direction(
    model: TfliteFile,
    operator: TfliteOperator,
    places: Mapping[str, int],
    inputs: Sequence[int],
    states: int,
) -> _Direction | None:
    """Find one direction; return None if its weights are not constant."""
    constants = constants_at(model, operator, list(places.values()))
    if constants is None:
        return None
    numbers = {place: number for number, place in enumerate(model.takes(operator))}
    weights = {role: constants[place] for role, place in places.items() if place in constants}
    kept = (find_state(model, operator, states), find_state(model, operator, states + 1))
    return _Direction(tuple(numbers[place] for place in inputs), weights, kept)


def _roles(places: Mapping[str, int], direction: _Direction) -> dict[str, int]:
    return {role: place for role, place in places.items() if role in direction.weights}


def _checked(
    model: TfliteFile, operator: TfliteOperator, found: _Lstm, roles: Mapping[str, int]
) -> _Lstm | None:
    """Return the facts with those of integers, or why the operator is refused."""
    x = model.tensors[operator.inputs[0]]
    tensors = {role: model.tensors[operator.inputs[place]] for role, place in roles.items()}
    types = {tensor.dtype for tensor in tensors.values()}
    if x.dtype == "float32" and types == {"float32"}:
        if not found.activation:
            raise NotLowered(
                "its activation is NONE, for which TFLite's kernel leaves other numbers"
            )
        return found if is_activation(found.activation) else None
    if x.dtype == "float32":
        raise NotLowered(*HYBRID)
    if x.dtype != "int8" or len(found.directions) != 1:
        return None
    if len(operator.intermediates) == len("ifco") * 3:
        raise NotLowered(
            "its kernel computes in floating point between integers",
            "quantise it with 5 intermediate tensors, not 12",
        )
    integers = find_integers(model, operator, tensors, (found.cell_clip, found.proj_clip))
    if integers is None:
        return None
    return _Lstm(
        found.directions,
        found.activation,
        *(found.cell_clip, found.proj_clip),
        found.time_major,
        integers=integers,
    )


def _lower(b: Builder, given: Given, facts: _Lstm) -> list[Value]:
    import numpy as np

    made = []
    for number, direction in enumerate(facts.directions):
        sequences = [given.operands[one] for one in direction.inputs]
        x = sequences[0] if len(sequences) == 1 else b.concat(sequences, axis=2)
        rows, steps, batch = rows_of(b, x, time_major=facts.time_major)
        weights = {role: given.constants[place] for role, place in direction.weights.items()}
        for gate in "ifco":
            recurrent = weights.get(f"recurrent_{gate}")
            if recurrent is not None and recurrent.ndim == 1:  # A diagonal.
                weights[f"recurrent_{gate}"] = np.diag(recurrent)
            if f"aux_{gate}" in weights:
                both = weights[f"input_{gate}"], weights[f"aux_{gate}"]
                weights[f"input_{gate}"] = np.concatenate(both, axis=1)
        cell: LstmCell
        if facts.integers is None:
            limits = facts.activation, facts.cell_clip, facts.proj_clip
            cell = FloatCell(weights, *limits)
        else:
            # If the batch comes first, the kernel runs one sequence after the other.
            cell = IntegerCell(weights, facts.integers, batch if facts.time_major else 1)
        taken = cell.gates_of(b, rows)
        result = run_steps(b, taken, steps, direction.states, cell.step, backwards=bool(number))
        rank = given.rank
        made.append(sequence_of(b, result, rank, steps, time_major=facts.time_major))
    return [b.concat(made, axis=2)] if facts.is_merged else made


RULES: Final[dict[str, Rule]] = {
    "LSTM": by_builder(_find_one, _lower),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": by_builder(_find_one, _lower),
    "BIDIRECTIONAL_SEQUENCE_LSTM": by_builder(_find_both, _lower),
}
