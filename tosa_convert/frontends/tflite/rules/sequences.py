"""Cells that are applied to a sequence step by step, and the states that they keep between calls.

A short sequence is unrolled, because fewer programs read loops: one whose steps together have at most
`_UNROLLED` operators. A longer one is a WHILE_LOOP. States are variables that are read before the first
step and written after the last one, so that the loop carries them.

Inside of a cell, tensors have the shape [batch, 1, 1, elements], that of CONV2D.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.frontends.tflite.read import Operator as TfliteOperator
from tosa_convert.frontends.tflite.read import TfliteFile, operator_name
from tosa_convert.frontends.tflite.rules.by_builder import between, sizes_of
from tosa_convert.frontends.tflite.scales import ACTIVATIONS
from tosa_convert.graph.dtypes import INT16, DType, dtype

if TYPE_CHECKING:
    from tosa_convert.builder import Builder
    from tosa_convert.builder.values import Value, Variable

#: As many operators as the loops of JAX have equations that are unrolled.
_UNROLLED: Final = 1024
#: Operands of a CONCAT that every level of TOSA allows.
_MOST_OPERANDS: Final = 64
_TANH: Final = 4

#: The beginning of names that a converter makes of its own operations.
_OF_CONVERTER: Final = ("tfl.", "arith.")

HYBRID: Final = (
    "its inputs are FP32 and its weights integers: TFLite quantises the inputs in each call",
    "quantise the inputs too, or keep the weights in floating point",
)

#: Builds one step: it gets what the step takes of the sequence, and the states; it returns what the step
#: adds to the results, and the next states. It makes its constants itself: a loop's body has its own.
Step = Callable[["Builder", "Value", Sequence["Value"]], tuple["Value", Sequence["Value"]]]


@dataclass(frozen=True, slots=True)
class State:
    """A tensor that an operator keeps between calls: its name, type, shape and first elements."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    zero: int

    def declare(self, b: Builder) -> Variable:
        return b.variable(self.name, self.dtype, self.shape, self.zero)


def find_state(model: TfliteFile, operator: TfliteOperator, place: int) -> State:
    """Find the state at a place among the operands, with a name that no other one has.

    Raises ValueError if it is none.
    """
    number = operator.inputs[place]
    tensor = model.tensors[number]
    if number < 0 or not tensor.is_variable:
        raise ValueError(f"operand {place} is not a variable")
    name = tensor.name
    others = [one.name for one in model.tensors if one.is_variable]
    if not name or name.startswith(_OF_CONVERTER) or others.count(name) > 1:
        # `worker.py` finds the state by this name, too.
        name = f"{operator_name(operator.code).lower()}_{operator.index}_state_{place}"
    # TFLite fills states of int8 with their zero point, and others with 0.
    zero = tensor.zero_point if tensor.dtype == "int8" else 0
    kind = dtype("FP32" if tensor.dtype == "float32" else tensor.dtype.upper())
    return State(name, kind, tensor.shape, zero)


def constants_at(
    model: TfliteFile, operator: TfliteOperator, places: Sequence[int]
) -> dict[int, int] | None:
    """Find which operands there are at these places: place -> number among those that are no states.

    Returns None if one of them is not a constant.
    """
    taken = model.takes(operator)
    numbers = {place: number for number, place in enumerate(taken)}
    found = {place: numbers[place] for place in places if place in numbers}
    is_constant = all(len(model.tensors[taken[place]].data) for place in found)
    return found if is_constant else None


def activate(b: Builder, x: Value, code: int) -> Value:
    """Apply an activation by its code in TensorFlow's schema."""
    return b.tanh(x) if code == _TANH else between(b, x, ACTIVATIONS[code])


def is_activation(code: int) -> bool:
    return code == _TANH or code in ACTIVATIONS


def clipped(b: Builder, x: Value, limit: float) -> Value:
    """Clamp to a distance from 0; 0 means no limit."""
    return between(b, x, (-limit, limit) if limit > 0 else (None, None))


class Constants:
    """Makes an array a constant once in each block, so that steps share their weights."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, int], tuple[Builder, Any, Value]] = {}

    def __call__(self, b: Builder, array: Any) -> Value:
        key = id(b), id(array)
        if key not in self._made:
            self._made[key] = b, array, b.const(array)  # What is kept has an id of its own.
        return self._made[key][2]

    def product(self, b: Builder, x: Value, matrix: Any, bias: Any, zero_point: int = 0) -> Value:
        """Multiply elements by a matrix as `matrix_of` returns it, and add a bias."""
        return b.conv2d(x, self(b, matrix), self(b, bias), zero_point, 0)


def matrix_of(weights: Sequence[Any]) -> Any:
    """Return matrices of [results, elements], one below the other, as weights of CONV2D."""
    import numpy as np

    return np.ascontiguousarray(np.concatenate(weights)[:, None, None])


def part(b: Builder, x: Value, number: int, count: int) -> Value:
    """Return one of the equal parts of the elements."""
    *outer, size = sizes_of(x)
    return b.slice(x, [0] * len(outer) + [number * (size // count)], [*outer, size // count])


def rows_of(b: Builder, x: Value, *, time_major: bool) -> tuple[Value, int, int]:
    """Return a sequence as rows of [time * batch, 1, 1, elements], and the sizes of time and batch."""
    sizes = sizes_of(x)
    if len(sizes) == 2:  # A single step.
        sizes = (1, *sizes)
    elif not time_major:
        x, sizes = b.transpose(x, perms=[1, 0, 2]), (sizes[1], sizes[0], sizes[2])
    steps, batch, size = sizes
    return b.reshape(x, (steps * batch, 1, 1, size)), steps, batch


def sequence_of(b: Builder, rows: Value, rank: int, steps: int, *, time_major: bool) -> Value:
    """Return rows as a sequence, which has a single step if its rank is 2."""
    count, size = sizes_of(rows)[0], sizes_of(rows)[-1]
    if rank == 2:
        return b.reshape(rows, (count, size))
    made = b.reshape(rows, (steps, count // steps, size))
    return made if time_major else b.transpose(made, perms=[1, 0, 2])


def run_steps(
    b: Builder,
    rows: Value,
    steps: int,
    states: Sequence[State],
    step: Step,
    *,
    backwards: bool = False,
) -> Value:
    """Apply a step to each part of the rows, and keep the states; return the rows of the results."""
    variables = [one.declare(b) for one in states]
    values = []
    for one, variable in zip(states, variables, strict=True):
        batch = sizes_of(rows)[0] // steps
        value = b.reshape(b.read(variable), (batch, 1, 1, math.prod(one.shape) // batch))
        values.append(b.cast(value, dtype="int32") if one.dtype is INT16 else value)
    like, count = _one_step(rows, steps, values, step)
    if steps == 1 or steps * count <= _UNROLLED:
        made, values = _unroll(b, rows, steps, values, step, backwards)
    else:
        made, values = _loop(b, rows, like, values, step, backwards)
    for one, variable, value in zip(states, variables, values, strict=True):
        last = b.cast(value, dtype="int16") if one.dtype is INT16 else value
        b.write(variable, b.reshape(last, one.shape))
    return made


def _one_step(rows: Value, steps: int, values: Sequence[Value], step: Step) -> tuple[Value, int]:
    """Build a step alone; return its result, and how many operators it has without constants."""
    from tosa_convert.builder import Builder

    trial = Builder()
    count, *sizes = sizes_of(rows)
    given = trial.input("x", rows.dtype, (count // steps, *sizes))
    states = [trial.input(f"s{n}", one.dtype, one.shape or ()) for n, one in enumerate(values)]
    y, after = step(trial, given, states)
    trial.output(y, *after)
    names = (one.spec.name for one in trial.graph().main.operators)
    return y, sum(name not in ("CONST", "CONST_SHAPE") for name in names)


def _unroll(
    b: Builder, rows: Value, steps: int, values: list[Value], step: Step, backwards: bool
) -> tuple[Value, list[Value]]:
    count, *sizes = sizes_of(rows)
    batch = count // steps
    made: list[Value] = []
    for number in range(steps)[:: -1 if backwards else 1]:
        start, size = [number * batch, 0, 0, 0], [batch, *sizes]
        y, after = step(b, b.slice(rows, start, size) if steps > 1 else rows, values)
        values = list(after)
        made.append(y)
    made = made[:: -1 if backwards else 1]
    while len(made) > 1:
        parts = [made[n : n + _MOST_OPERANDS] for n in range(0, len(made), _MOST_OPERANDS)]
        made = [b.concat(one, axis=0) if len(one) > 1 else one[0] for one in parts]
    return made[0], values


def _loop(
    b: Builder, rows: Value, like: Value, values: list[Value], step: Step, backwards: bool
) -> tuple[Value, list[Value]]:
    """Carry the number of the step, the rows, the results so far, and the states.

    `like` is the result of a step.
    """
    import numpy as np

    count, *sizes = sizes_of(rows)
    batch = sizes_of(like)[0]
    steps, size = count // batch, math.prod(sizes_of(like))
    kind = {"FP32": np.float32, "INT8": np.int8, "INT32": np.int32}[like.dtype.name]
    results = b.const(np.zeros((1, steps, size), kind))
    first = b.const(np.zeros((1, 1), np.int32))
    flat = b.reshape(rows, (1, steps, math.prod(sizes) * batch))

    def go_on(inner: Builder, number: Value, *_: Value) -> Value:
        return inner.reshape(inner.greater(steps, number), ())

    def body(
        inner: Builder, number: Value, flat: Value, results: Value, *values: Value
    ) -> Sequence[Value]:
        at = inner.sub(steps - 1, number) if backwards else number
        x = inner.reshape(inner.gather(flat, at), (batch, *sizes))
        y, after = step(inner, x, values)
        results = inner.scatter(results, at, inner.reshape(y, (1, 1, size)))
        return inner.add(number, 1), flat, results, *after

    _, _, made, *values = b.while_loop([first, flat, results, *values], go_on, body)
    return b.reshape(made, (steps * batch, *sizes_of(like)[1:])), values
