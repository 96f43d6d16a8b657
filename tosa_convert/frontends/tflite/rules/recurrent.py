"""Recurrent operators without gates: RNN, of one step and of sequences, and SVDF."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.frontends.lowering.scope import NotLowered
from tosa_convert.frontends.tflite.node import Rule
from tosa_convert.frontends.tflite.read import Operator as TfliteOperator
from tosa_convert.frontends.tflite.read import TfliteFile, operator_name
from tosa_convert.frontends.tflite.rules.by_builder import Given, by_builder, sizes_of
from tosa_convert.frontends.tflite.rules.sequences import (
    HYBRID,
    Constants,
    State,
    Step,
    activate,
    constants_at,
    find_state,
    is_activation,
    matrix_of,
    rows_of,
    run_steps,
    sequence_of,
)
from tosa_convert.frontends.tflite.scales import rescale_of, single

if TYPE_CHECKING:
    from tosa_convert.builder import Builder, DTypeName, Value

#: In the operator of both directions: the first weights, the second input, and its weights.
_BOTH_WEIGHTS: Final = (1, 5)
_AUX: Final = 9
_AUX_WEIGHTS: Final = (10, 11)


@dataclass(frozen=True, slots=True)
class _Direction:
    """inputs: numbers of the operands that are its inputs, and weights: of those for each of them.

    recurrent, bias: numbers of the other weights. state: of the output.
    """

    inputs: tuple[int, ...]
    weights: tuple[int, ...]
    recurrent: int
    bias: int
    state: State


@dataclass(frozen=True, slots=True)
class _Rnn:
    """directions: the second one is backwards. is_merged: both have one result.

    activation, time_major: as in TFLite.
    """

    directions: tuple[_Direction, ...]
    activation: int
    time_major: bool
    is_merged: bool = False


def _find_rnn(model: TfliteFile, operator: TfliteOperator) -> _Rnn | None:
    """Find the facts of RNN, and of sequences in one direction."""
    is_step = operator_name(operator.code) == "RNN"
    options = (operator.option(0, "b"), True) if is_step else _sequence_options(operator)
    return _checked(model, operator, [(1, {0: 1})], *options, is_merged=False)


def _find_both(model: TfliteFile, operator: TfliteOperator) -> _Rnn | None:
    """Find the facts of sequences in both directions."""
    taken = model.takes(operator)
    rows = []
    for number, (weights, aux) in enumerate(zip(_BOTH_WEIGHTS, _AUX_WEIGHTS, strict=True)):
        inputs = {0: weights}
        if _AUX in taken and aux in taken:
            inputs[_AUX] = aux
        elif _AUX in taken and number and operator.option(0, "b"):
            # Without weights of its own the second input is that of the second direction. TFLite's
            # kernel forgets that if the batch comes first.
            inputs = {_AUX: weights}
        rows.append((weights, inputs))
    is_merged = bool(operator.option(2, "b"))
    return _checked(model, operator, rows, *_sequence_options(operator), is_merged=is_merged)


def _sequence_options(operator: TfliteOperator) -> tuple[int, bool]:
    return operator.option(1, "b"), bool(operator.option(0, "b"))


def _checked(
    model: TfliteFile,
    operator: TfliteOperator,
    rows: Sequence[tuple[int, dict[int, int]]],
    activation: int,
    time_major: bool,
    *,
    is_merged: bool,
) -> _Rnn | None:
    """Return the facts of directions: of each the place of its weights, and input -> weights."""
    numbers = {place: number for number, place in enumerate(model.takes(operator))}
    directions = []
    for first, inputs in rows:
        weights = [*inputs.values(), first + 1, first + 2]
        if constants_at(model, operator, weights) is None or not is_activation(activation):
            return None
        types = {model.tensors[operator.inputs[place]].dtype for place in weights}
        if model.tensors[operator.inputs[0]].dtype != "float32":
            return None
        if types != {"float32"}:
            raise NotLowered(*HYBRID)
        directions.append(
            _Direction(
                tuple(numbers[place] for place in inputs),
                tuple(numbers[place] for place in inputs.values()),
                *(numbers[first + 1], numbers[first + 2]),
                find_state(model, operator, first + 3),
            )
        )
    return _Rnn(tuple(directions), activation, time_major, is_merged)


def _lower_rnn(b: Builder, given: Given, facts: _Rnn) -> list[Value]:
    """activation(weights @ x + recurrent @ output of the step before + bias)."""
    import numpy as np

    made = []
    for number, direction in enumerate(facts.directions):
        const = Constants()
        sequences = [given.operands[one] for one in direction.inputs]
        x = sequences[0] if len(sequences) == 1 else b.concat(sequences, axis=2)
        rows, steps, _ = rows_of(b, x, time_major=facts.time_major)
        weights = matrix_of([np.concatenate([given.constants[n] for n in direction.weights], 1)])
        recurrent, bias = given.constants[direction.recurrent], given.constants[direction.bias]
        step = _step(const, matrix_of([recurrent]), np.zeros_like(bias), facts.activation)
        taken = const.product(b, rows, weights, bias)
        result = run_steps(b, taken, steps, [direction.state], step, backwards=bool(number))
        rank = given.rank
        made.append(sequence_of(b, result, rank, steps, time_major=facts.time_major))
    return [b.concat(made, axis=2)] if facts.is_merged else made


def _step(const: Constants, recurrent: Any, none: Any, activation: int) -> Step:
    def step(b: Builder, x: Value, states: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
        total = b.add(x, const.product(b, states[0], recurrent, none))
        output = activate(b, total, activation)
        return output, [output]

    return step


@dataclass(frozen=True, slots=True)
class _Svdf:
    """bias: the number of the operand that is it. rank, activation: as in TFLite.

    zero_points: of input and result. sizes: multipliers and shifts to the state and to the result; None
    of floating point.
    """

    bias: int | None
    state: State
    rank: int
    activation: int
    zero_points: tuple[int, int] = (0, 0)
    sizes: tuple[tuple[int, int], tuple[int, int]] | None = None


def _find_svdf(model: TfliteFile, operator: TfliteOperator) -> _Svdf | None:
    constants = constants_at(model, operator, (1, 2, 3))
    activation, rank = operator.option(1, "b"), operator.option(0)
    if constants is None or len(constants) < 2 or not is_activation(activation) or rank < 1:
        return None
    x, feature, time = (model.tensors[one] for one in operator.inputs[:3])
    kept, result = model.tensors[operator.inputs[4]], model.result(operator)
    found = _Svdf(constants.get(3), find_state(model, operator, 4), rank, activation)
    if x.dtype == "float32":
        if {feature.dtype, time.dtype} != {"float32"}:
            raise NotLowered(*HYBRID)
        return found
    types = [one.dtype for one in (x, feature, time, kept, result)]
    if types != ["int8", "int8", "int16", "int16", "int8"]:
        return None
    sizes = (
        rescale_of(single(single(x.scale * feature.scale) / kept.scale)),
        rescale_of(single(single(kept.scale * time.scale) / result.scale)),
    )
    zeros = x.zero_point, result.zero_point
    return _Svdf(found.bias, found.state, rank, activation, zeros, sizes)


def _lower_svdf(b: Builder, given: Given, facts: _Svdf) -> list[Value]:
    """Multiply by a matrix, keep the results of the latest calls, and sum them with weights of time."""
    import numpy as np

    x, (feature, time) = given.operands[0], given.constants[1:3]
    (filters, memory), batch = time.shape, sizes_of(x)[0]
    units = filters // facts.rank
    bias = np.zeros(units, feature.dtype if facts.sizes is None else np.int32)
    if facts.bias is not None:
        bias = given.constants[facts.bias]
    none = np.zeros(filters, bias.dtype)
    row = b.reshape(x, (batch, 1, 1, sizes_of(x)[1]))
    newest = Constants().product(b, row, matrix_of([feature]), none, facts.zero_points[0])
    if facts.sizes is not None:
        newest = _rescaled(b, newest, facts.sizes[0], 0, "int16")
    variable = facts.state.declare(b)
    state = b.reshape(b.read(variable), (batch, filters, memory))
    newest = b.reshape(newest, (batch, filters, 1))
    if memory > 1:
        earlier = b.slice(state, (0, 0, 1), (batch, filters, memory - 1))
        newest = b.concat([earlier, newest], axis=2)
    b.write(variable, b.reshape(newest, facts.state.shape))
    if facts.sizes is not None:
        newest = b.cast(newest, dtype="int32")
    products = b.mul(newest, b.const(time.astype(bias.dtype)[None]))
    grouped = b.reshape(products, (batch, units, facts.rank * memory))
    total = b.add(b.reshape(b.reduce_sum(grouped, axis=2), (batch, units)), bias[None])
    if facts.sizes is None:
        return [activate(b, total, facts.activation)]
    return [_rescaled(b, total, facts.sizes[1], facts.zero_points[1], "int8")]


def _rescaled(b: Builder, x: Value, sizes: tuple[int, int], zero: int, dtype: DTypeName) -> Value:
    import numpy as np

    multiplier, shift = sizes
    return b.rescale(
        x,
        b.const(np.array([multiplier], np.int32)),
        b.const(np.array([shift], np.int8)),
        output_zp=b.const(np.array([zero], dtype)),
        scale32=True,
        rounding_mode="DOUBLE_ROUND",
        dtype=dtype,
    )


RULES: Final[dict[str, Rule]] = {
    "RNN": by_builder(_find_rnn, _lower_rnn),
    "UNIDIRECTIONAL_SEQUENCE_RNN": by_builder(_find_rnn, _lower_rnn),
    "BIDIRECTIONAL_SEQUENCE_RNN": by_builder(_find_both, _lower_rnn),
    "SVDF": by_builder(_find_svdf, _lower_svdf),
}
