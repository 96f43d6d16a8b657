"""The errors that correct implementations of a network make, measured instead of guessed.

The program runs in FP64 once exactly and, in step with that, in several runs that add errors to the
results of floating point. The errors are what implementations really have: what TOSA allows a function
such as SIN, what the order of a sum costs, one rounding to the element type, and subnormal numbers that
are flushed to zero. How far the runs are apart is the spread of a tensor, for each element.

Before an operator that decides (its result is an integer, a BOOL or an index) the runs move its
operands by several times their spread, so that every element that is unsure changes in some run, and
with it all that depends on it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final, NamedTuple

import numpy as np

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.golden.accuracy.bounds_of_operators import accumulator, rule_of, terms_of_sum
from tosa_convert.golden.accuracy.criteria import Spread, half_units
from tosa_convert.golden.accuracy.error_bounds import (
    FLOATS,
    MXINT8_UNIT,
    kinds_of,
    may_flush,
    numbers,
    same_values,
)
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.model import Block, Graph, Operator, operator_path
from tosa_convert.graph.opset import VARIABLE_WRITE
from tosa_convert.reference.bounds import BOUNDS
from tosa_convert.reference.call import is_float
from tosa_convert.reference.evaluate import Machine, call_of
from tosa_convert.reference.scaled_tensors import Scaled, Value, plain

#: Runs with errors.
RUNS: Final = 6
#: Of these, runs in which the error of a function has one sign in all elements of a result.
_SYSTEMATIC: Final = 2
#: How many times their spread the operands of an operator that decides are moved.
_MOVED_BY: Final = 6.0
#: The weight of an element's neighbours in its spread: its own has few runs.
_NEIGHBOURS: Final = 0.25
#: How many times the lower quartile of its neighbours' squares counts.
_OUTLIERS: Final = 16.0


class _Errors(NamedTuple):
    """The largest errors that are added to a result.

    of_function: what TOSA allows the operator, or None. of_rounding: of sums and of rounding.
    least, most: the smallest normal number and the largest one; what is smaller may become zero, and
        what is larger infinite.
    """

    of_function: Array | None
    of_rounding: Array
    least: float
    most: float


@dataclass(slots=True)
class _Run(Machine):
    """A run of the program with errors; number 0 has none."""

    number: int = 0
    random: np.random.Generator = field(default_factory=np.random.default_rng)
    is_alive: bool = True

    def compute(
        self, block: Block, operator: Operator, operands: Sequence[Value], where: str
    ) -> dict[str, Value]:
        results = Machine.compute(self, block, operator, operands, where)
        if self.number == 0:
            return results
        errors = _errors_of(block, operator, operands, results)
        return self.with_errors(results, errors)

    def with_errors(
        self, results: Mapping[str, Value], errors: Mapping[str, _Errors]
    ) -> dict[str, Value]:
        """Return results with random errors of at most this size."""
        with np.errstate(all="ignore"):
            changed = {
                name: self._with_error(plain(results[name]), error)
                for name, error in errors.items()
            }
        return {**results, **changed}

    def _with_error(self, exact: Array, error: _Errors) -> Array:
        is_systematic = self.number <= _SYSTEMATIC
        changed = np.asarray(error.of_rounding * self._shares(exact.shape))
        if error.of_function is not None:
            shares = self._shares(exact.shape) if not is_systematic else np.sign(self._shares(()))
            changed += shares * error.of_function
        changed += exact
        infinite = ~np.isfinite(exact)
        if infinite.any():
            changed[infinite] = exact[infinite]
        if is_systematic:
            changed[np.abs(changed) < error.least] = 0.0
        if self.number == 1:
            overflows = np.abs(changed) > error.most
            changed = np.where(overflows, np.copysign(np.inf, changed), changed)
        return changed

    def _shares(self, shape: tuple[int, ...]) -> Array:
        """Return random numbers between -1 and 1."""
        shares = np.asarray(self.random.random(shape, np.float32))
        shares *= 2
        shares -= 1
        return shares


def measure(
    graph: Graph, inputs: Mapping[str, Array], wanted: Collection[str], timeout: float = 0.0
) -> dict[str, Spread]:
    """Measure the spread of tensors of the main block.

    Args:
        graph: the program.
        inputs: an array for each of its inputs.
        wanted: names of tensors.
        timeout: seconds for each run; 0 for no limit.

    Returns:
        The spread of each. A run whose errors move an index out of range ends, and does not count.

    Raises:
        TosaConvertError: as `reference.evaluate.Machine.run`, and "refmodel-timeout".
    """
    machines = [
        _Run(graph, "wide", number=number, random=np.random.default_rng(number))
        for number in range(RUNS + 1)
    ]
    result: dict[str, Spread] = {}
    end = time.monotonic() + timeout * len(machines)
    for name, values, possible in _in_step(machines, inputs):
        _refuse_late(name, timeout, end)
        if name in wanted:
            result[name] = _spread(graph.main, name, values, possible)
    return result


def independent_runs(
    graph: Graph, inputs: Mapping[str, Array], count: int, timeout: float = 0.0
) -> Iterator[tuple[str, list[Array]]]:
    """Iterate over the tensors of the main block, with the data of the exact run and of further ones.

    The errors of these runs are drawn independently of those that `measure` draws, and nothing moves the
    operands of operators that decide: each is what one correct implementation may compute.

    Args:
        graph: the program.
        inputs: an array for each of its inputs.
        count: of the runs with errors.
        timeout: seconds for each run; 0 for no limit.

    Raises:
        TosaConvertError: as `measure`.
    """
    machines = [_Run(graph, "wide")]
    for number in range(count):
        random = np.random.default_rng(RUNS + 1 + number)
        machines.append(_Run(graph, "wide", number=1 + number % RUNS, random=random))
    end = time.monotonic() + timeout * len(machines)
    for name, values, _ in _in_step(machines, inputs, moves=False):
        _refuse_late(name, timeout, end)
        yield name, [plain(value) for value in values]


def _refuse_late(name: str, timeout: float, end: float) -> None:
    """Raise TosaConvertError("refmodel-timeout") after the end of the time for all runs."""
    if timeout and time.monotonic() > end:
        message = f"the runs that measure its accuracy took longer than {timeout:g} s each"
        raise fail("refmodel-timeout", f'"{name}"', message, "allow more time")


def _in_step(
    machines: list[_Run], inputs: Mapping[str, Array], *, moves: bool = True
) -> Iterator[tuple[str, list[Value], Array | None]]:
    """Compute the main block in all runs; iterate over each tensor's values in the runs that go on.

    With them come, for an index of the largest element, the indices that are possible.

    moves: move the operands of operators that decide by several times their spread.
    """
    block = machines[0].graph.main
    last_use = {name: index for index, op in enumerate(block.operators) for name in op.inputs}
    given = {name: machines[0].argument(block, name, inputs) for name in block.inputs}
    states: list[dict[str, Value]] = [dict(given) for _ in machines]
    for name, value in given.items():
        yield name, [value], None
    for index, operator in enumerate(block.operators):
        where = operator_path("main", index, operator)
        pairs = zip(machines, states, strict=True)
        operands = [[m.value(block, own, name) for name in operator.inputs] for m, own in pairs]
        possible = None
        if moves:
            operands, possible = _moved(block, operator, operands, machines[1].random)
        for name in _compute_all(index, operands, where, machines, states):
            live = zip(machines, states, strict=True)
            yield name, [own[name] for machine, own in live if machine.is_alive], possible
        for name in {*operator.inputs, *operator.outputs}:
            if last_use.get(name, -1) <= index:
                for own in states:
                    own.pop(name, None)


def _compute_all(
    index: int,
    operands: list[list[Value]],
    where: str,
    machines: list[_Run],
    states: list[dict[str, Value]],
) -> list[str]:
    """Compute an operator of the main block in all runs; return the names of its results.

    Where all runs have the same operands it is computed once.
    """
    exact = machines[0]
    block = exact.graph.main
    operator = block.operators[index]
    touches_state = bool(operator.spec.regions) or operator.spec is VARIABLE_WRITE
    is_same = not touches_state and all(
        all(one is other for one, other in zip(operands[0], own, strict=True))
        for own in operands[1:]
    )
    if operator.spec.regions:
        results: dict[str, Value] = exact.control_flow(index, operator, operands[0])
    else:
        results = exact.compute(block, operator, operands[0], where)
    states[0].update(results)
    errors = {} if touches_state else _errors_of(block, operator, operands[0], results, is_same)
    for machine, own, values in zip(machines[1:], states[1:], operands[1:], strict=True):
        if not machine.is_alive:
            own.update(results)
            continue
        found = results
        try:
            if operator.spec.regions:
                found = machine.control_flow(index, operator, values)
            elif not is_same:
                found = Machine.compute(machine, block, operator, values, where)
        except TosaConvertError:
            machine.is_alive = False
        own.update(machine.with_errors(found, errors) if errors else found)
    return list(results)


def _errors_of(
    block: Block,
    operator: Operator,
    operands: Sequence[Value],
    results: Mapping[str, Value],
    is_certain: bool = False,
) -> dict[str, _Errors]:
    """Return the errors that implementations of an operator have; nothing for what is exact.

    is_certain: no run has errors in the operands. Then an operator that is correctly rounded has the
        same result in all implementations, or is not rounded; else only what is rounded errs.
    """
    errors = {}
    for name, value in results.items():
        tensor = block.tensors.get(name)
        if tensor is None or tensor.dtype.name not in FLOATS or isinstance(value, Scaled):
            continue
        rule = rule_of(block, operator, name)
        if rule is not None and rule.kind == "exact":
            continue
        half = half_units(value, tensor.dtype)
        of_function = None
        with np.errstate(all="ignore"):
            if not operator.spec.is_inexact:
                away = np.abs(value - _rounded(value, tensor.dtype))
                half = np.nan_to_num(away) if is_certain else half * (away != 0)
            elif rule is not None and rule.kind == "dot-product":
                unit = 2.0 ** (-1 - FLOATS[accumulator(operator, tensor.dtype.name)][0])
                # Errors of additions grow with the partial sums: as the sum of the terms' sizes if
                # their signs vary, and with the root of their number if they do not.
                growth = math.sqrt(terms_of_sum(block, operator)) / 2
                half = half + unit * (_bounds(block, operator, operands, name, value))
                half += unit * growth * np.abs(value)
            elif rule is not None and (rule.kind != "ulp" or rule.amount > 1):
                bounds = None
                if rule.needs_bounds:
                    bounds = _bounds(block, operator, operands, name, value)
                allowed = rule.limits(value, bounds, tensor.dtype)[2]
                of_function = np.where(np.isfinite(allowed), allowed, 0.0)
        _, least, most, _ = FLOATS[tensor.dtype.name]
        least = least if may_flush(tensor.dtype) else 0.0
        errors[name] = _Errors(of_function, half, least, most)
    return errors


def _rounded(value: Array, row: DType) -> Array:
    """Return numbers rounded to an element type, in FP64."""
    code = np.rint(value / MXINT8_UNIT) if row.name == "MXINT8" else value
    return numbers(code.astype(row.numpy), row)


def _bounds(
    block: Block, operator: Operator, operands: Sequence[Value], name: str, value: Array
) -> Array:
    """Return the bounds of a result whose operands are exact, as `reference.bounds` defines them."""
    if operator.spec.family == "fft":
        # Sines and cosines have errors, also where they are 0.
        parts = [np.abs(plain(part)).sum(axis=(1, 2), keepdims=True) for part in operands]
        return np.asarray(np.broadcast_to(sum(parts), value.shape))
    function = BOUNDS.get(operator.spec.name)
    if function is None:
        return np.abs(value)
    call = call_of(block, operator, operands, "wide")
    if "local_bound" in call.attributes:
        call = replace(call, attributes={**call.attributes, "local_bound": True})
    found = function(call)
    if isinstance(found, tuple):
        found = found[operator.outputs.index(name)]
    return np.asarray(found).reshape(value.shape)


# -- operators that decide --------------------------------------------------------------------------


def _decides(block: Block, operator: Operator) -> bool:
    """Return whether the result jumps: it is discrete, or a number that does not follow its operand."""
    operands, results = (
        [block.tensors[name].dtype for name in names if name in block.tensors]
        for names in (operator.inputs, operator.outputs)
    )
    is_discrete = any(row.is_float for row in operands) and not all(row.is_float for row in results)
    return is_discrete or operator.spec.is_step


def _moved(
    block: Block, operator: Operator, operands: list[list[Value]], random: np.random.Generator
) -> tuple[list[list[Value]], Array | None]:
    """Return the operands of each run, moved by several times their spread where the result can jump.

    The first two runs move the first operand down and up, and the others the other way; an operand that
    is given twice is the same number in each place. Also return the indices that are possible, if the
    result is the index of the largest element.
    """
    moved = [list(own) for own in operands]
    possible = None
    sign = -1.0
    decides = _decides(block, operator)
    first = {name: i for i, name in reversed(list(enumerate(operator.inputs)))}
    for position, name in enumerate(operator.inputs):
        if first[name] < position:
            for own in moved:
                own[position] = own[first[name]]
            continue
        exact = operands[0][position]
        tensor = block.tensors.get(name)
        if tensor is None or isinstance(exact, Scaled) or not tensor.dtype.is_float:
            continue
        if all(own[position] is exact for own in operands):
            continue
        is_positive = operator.spec.operand(position, len(operands[0])).domain == "positive"
        if not decides and not is_positive:
            continue
        sigma = _spread(block, name, [own[position] for own in operands]).sigma
        assert sigma is not None
        size = _MOVED_BY * sigma
        # A logarithm jumps at 0 only.
        moves = decides | (np.abs(exact) <= size)
        for number, own in enumerate(moved[1:], 1):
            is_systematic = number <= _SYSTEMATIC
            step = (
                (sign if number % 2 else -sign)
                if is_systematic
                else random.uniform(-1, 1, size.shape)
            )
            own[position] = np.where(moves, exact + step * size, own[position])
        sign = -sign
        if operator.spec.name == "ARGMAX":
            axis = operator.attributes["axis"]
            assert isinstance(axis, int)
            least = np.max(exact - size, axis=axis, keepdims=True)
            possible = np.moveaxis(exact + size >= least, axis, -1)
    return moved, possible


# -- spreads ----------------------------------------------------------------------------------------


def _spread(
    block: Block, name: str, values: Sequence[Value], possible: Array | None = None
) -> Spread:
    """Return the spread of a tensor of its values in all runs, the first of which is exact."""
    arrays = [plain(value) for value in values]
    exact = arrays[0]
    kind = block.tensors[name].dtype.name
    if kind not in FLOATS:
        wide = [array.astype(np.float64) if is_float(array.dtype) else array for array in arrays]
        low, high = reduce(np.minimum, wide), reduce(np.maximum, wide)
        return Spread(wide[0], low=low, high=high, possible=possible)
    exact = exact.astype(np.float64, copy=False)
    squares = np.zeros(exact.shape)
    kinds: Array | None = None
    for other in arrays[1:]:
        if other is arrays[0]:
            continue
        with np.errstate(all="ignore"):
            error = other - exact
        if not np.isfinite(error).all():
            differs = ~np.isfinite(error) & ~same_values(other, exact)
            error = np.where(np.isfinite(error), error, 0.0)
            kinds = np.zeros(exact.shape, np.uint8) if kinds is None else kinds
            kinds |= np.where(differs, kinds_of(other), np.uint8(0))
        with np.errstate(over="ignore"):
            squares += np.square(error)
    squares /= max(len(arrays) - 1, 1)
    most = FLOATS[kind][2]
    squares = np.where(np.abs(exact) <= most, np.minimum(squares, most**2), 0.0)
    return Spread(exact, sigma=np.sqrt(_with_neighbours(squares)), kinds=kinds)


def _with_neighbours(squares: Array) -> Array:
    """Return the squares moved towards the mean of the row or of the channel, whichever is less.

    A mean is limited by the lower quartile, so that a few large errors hide no small one.
    """
    if squares.ndim == 0 or not squares.size:
        return squares
    table = squares.reshape(-1, squares.shape[-1])
    near = _near(table, 1)
    if len(table) > 1:
        near = np.minimum(near, _near(table, 0))
    return np.asarray((table + _NEIGHBOURS * (near - table)).reshape(squares.shape))


def _near(table: Array, axis: int) -> Array:
    """Return the mean along an axis, limited by the lower quartile of what is not zero."""
    ordered = np.sort(np.where(table > 0, table, np.inf), axis=axis)
    quarter = np.count_nonzero(table, axis=axis, keepdims=True) // 4
    quartile = np.take_along_axis(ordered, quarter, axis=axis)
    return np.minimum(table.mean(axis=axis, keepdims=True), _OUTLIERS * quartile)
