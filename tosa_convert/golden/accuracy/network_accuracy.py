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
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.golden.accuracy.criteria import Spread
from tosa_convert.golden.accuracy.error_bounds import FLOATS, kinds_of, may_flush
from tosa_convert.golden.accuracy.implementation_errors import Errors, errors_of, rounded
from tosa_convert.golden.accuracy.spreads import spread_of, spread_of_scales
from tosa_convert.golden.accuracy.undefined_casts import undefined_integers
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.arrays.slots import SCALE_SUFFIX
from tosa_convert.graph.model import Block, Graph, Operator, operator_path
from tosa_convert.graph.opset import CONST, VARIABLE_READ, VARIABLE_WRITE
from tosa_convert.reference.call import integer_limits
from tosa_convert.reference.evaluate import Machine
from tosa_convert.reference.scaled_tensors import Scaled, Value, plain

#: Runs with errors.
RUNS: Final = 6
#: The first batch of independent runs: `measure` is asked for lower ones.
_INDEPENDENT: Final = 1000
#: Of these, the first ones, in which the errors of functions have one sign in the whole program.
_COHERENT: Final = 2
#: How many elements in a row differ in the errors of functions in the other runs.
_CODES: Final = 3 ** (RUNS - _COHERENT)
#: The shares of what TOSA allows a function that the coherent runs err, in each batch in turn. Six
#: times the spread of the first one is more than all of it: this leaves room for errors of several
#: functions that add up. The others show results that jump in between.
_SHARES: Final = (0.8, 1.0, 0.9, 0.6, 0.3)
#: How many times their spread the operands of an operator that decides are moved.
_MOVED_BY: Final = 6.0
#: How many times their spread the operands of a function are moved, to see whether its result jumps or
#: bends there; and how many times that of the runs its change is then.
_PROBED_AT: Final = 4.0
_BENDS: Final = 5.0
#: Operators that read what is given.
_READ: Final = (CONST, VARIABLE_READ)
#: Operators on single elements whose results follow their operands in a straight line.
_STRAIGHT: Final = frozenset(("ADD", "NEGATE", "SELECT", "SUB"))


@dataclass(slots=True)
class _Run(Machine):
    """A run of the program with errors; number 0 has none."""

    number: int = 0
    batch: int = 0
    random: np.random.Generator = field(default_factory=np.random.default_rng)
    is_alive: bool = True

    def compute(
        self, block: Block, operator: Operator, operands: Sequence[Value], where: str
    ) -> dict[str, Value]:
        results = self.without_errors(block, operator, operands, where)
        return self.with_errors(results, errors_of(block, operator, operands, results))

    def without_errors(
        self, block: Block, operator: Operator, operands: Sequence[Value], where: str
    ) -> dict[str, Value]:
        """Return results; NaN is cast to the least integer in run 1, and to the greatest in run 2."""
        results = Machine.compute(self, block, operator, operands, where)
        if 0 < self.number <= _COHERENT:
            is_open = undefined_integers(block, operator, operands)
            if is_open is not None:
                (name,) = operator.outputs
                limit = integer_limits(block.tensors[name].dtype)[self.number - 1]
                value = plain(results[name])
                results[name] = np.where(is_open, np.array(limit).astype(value.dtype), value)
        return results

    def with_errors(
        self, results: Mapping[str, Value], errors: Mapping[str, Errors]
    ) -> dict[str, Value]:
        """Return results with random errors of at most this size; the exact run only stores them."""
        changed = dict(results)
        with np.errstate(all="ignore"):
            for name, error in errors.items():
                value = results[name]
                if self.number:
                    array = self._with_error(name, plain(value), error)
                elif error.stored is not None:
                    array = rounded(plain(value), error.stored)
                else:
                    continue
                changed[name] = value._replace(data=array) if isinstance(value, Scaled) else array
        return changed

    def _with_error(self, name: str, exact: Array, error: Errors) -> Array:
        changed = np.asarray(error.of_rounding * self._shares(exact.shape))
        changed += exact
        if error.of_function is not None:
            share = self._shares_of_function(name, exact.shape)
            changed += share * np.where(np.asarray(share) < 0, *error.of_function)
        # The sum of an error and of -0 is 0.
        stays = ~np.isfinite(exact) | ((exact == 0) & (changed == 0))
        if stays.any():
            changed[stays] = exact[stays]
        if error.stored is not None:
            return rounded(changed, error.stored)
        if self.number <= _COHERENT:
            changed = self._flushed(changed, np.abs(changed) < error.least)
        if self.number == 1:
            overflows = np.abs(changed) > error.most
            changed = np.where(overflows, np.copysign(np.inf, changed), changed)
        return changed

    def _shares_of_function(self, name: str, shape: tuple[int, ...]) -> Array | float:
        """Return which share of what TOSA allows a function this run errs.

        Run 1 is high everywhere, and run 2 low. In the others the share of an element
        is -1, 0 or 1: two elements of a row or a column have the same in all runs only if they are
        a multiple of _CODES apart, so that a difference of two, as in a softmax, errs in some run.
        """
        if self.number <= _COHERENT:
            share = _SHARES[self.batch % len(_SHARES)]
            return share if self.number == 1 else -share
        seed = [zlib.crc32(name.encode()), self.batch]
        codes = np.random.default_rng(seed).permutation(_CODES)
        digits = codes // 3 ** (self.number - _COHERENT - 1) % 3 - 1.0
        place = np.zeros(shape, np.intp)
        for axis, size in enumerate(shape):
            step = 4 ** (len(shape) - 1 - axis)  # no multiple of 3
            place += (np.arange(size) * step).reshape(-1, *[1] * (len(shape) - 1 - axis))
        found: Array = digits[place % _CODES] * (1 - self._shares(shape) ** 2 / 8)
        return found

    def _flushed(self, values: Array, is_small: Array) -> Array:
        """Return zeros in place of small values: of their sign in run 1, and without one in run 2."""
        return np.where(is_small, np.copysign(0.0, values) if self.number == 1 else 0.0, values)

    def _shares(self, shape: tuple[int, ...]) -> Array:
        """Return random numbers between -1 and 1."""
        shares = np.asarray(self.random.random(shape, np.float32))
        shares *= 2
        shares -= 1
        return shares


def measure(
    graph: Graph,
    inputs: Mapping[str, Array],
    wanted: Collection[str],
    timeout: float = 0.0,
    batch: int = 0,
) -> dict[str, Spread]:
    """Measure the spread of tensors of the main block.

    Args:
        graph: the program.
        inputs: an array for each of its inputs.
        wanted: names of tensors.
        timeout: seconds for each run; 0 for no limit.
        batch: another number means other random errors.

    Returns:
        The spread of each; that of the scales of a tensor which holds them is under "NAME/scale".
        A run whose errors move an index out of range ends, and does not count.

    Raises:
        TosaConvertError: as `reference.evaluate.Machine.run`, and "refmodel-timeout".
    """
    machines = _machines(graph, batch)
    result: dict[str, Spread] = {}
    end = time.monotonic() + timeout * len(machines)
    for name, values, possible, sigma in _in_step(machines, inputs):
        _refuse_late(name, timeout, end)
        if name in wanted:
            result[name] = spread_of(graph.main, name, values, possible, sigma)
            if all(isinstance(value, Scaled) for value in values):
                result[name + SCALE_SUFFIX] = spread_of_scales(values)
    return result


def independent_runs(
    graph: Graph, inputs: Mapping[str, Array], batch: int, timeout: float = 0.0
) -> Iterator[tuple[str, list[Array]]]:
    """Iterate over the tensors of the main block, with the data of the exact run and of RUNS others.

    The errors of these runs are drawn independently of those that `measure` draws, and nothing moves the
    operands of operators that decide: each is what one correct implementation may compute.

    Args:
        graph: the program.
        inputs: an array for each of its inputs.
        batch: another number means other random errors.
        timeout: seconds for each run; 0 for no limit.

    Raises:
        TosaConvertError: as `measure`.
    """
    machines = _machines(graph, _INDEPENDENT + batch)
    end = time.monotonic() + timeout * len(machines)
    for name, values, *_ in _in_step(machines, inputs, moves=False):
        _refuse_late(name, timeout, end)
        yield name, [plain(value) for value in values]


def _machines(graph: Graph, batch: int) -> list[_Run]:
    """Return the exact run and those with the errors of a batch."""
    return [
        _Run(
            graph,
            "wide",
            number=number,
            batch=batch,
            random=np.random.default_rng([number, batch] if batch else number),
        )
        for number in range(RUNS + 1)
    ]


def _refuse_late(name: str, timeout: float, end: float) -> None:
    """Raise TosaConvertError("refmodel-timeout") after the end of the time for all runs."""
    if timeout and time.monotonic() > end:
        message = f"the runs that measure its accuracy took longer than {timeout:g} s each"
        raise fail("refmodel-timeout", f'"{name}"', message, "allow more time")


def _in_step(
    machines: list[_Run], inputs: Mapping[str, Array], *, moves: bool = True
) -> Iterator[tuple[str, list[Value], Array | None, Array | None]]:
    """Compute the main block in all runs; iterate over each tensor's values in the runs that go on.

    With them come, for an index of the largest element, the indices that are possible, and the spread
    if it is known without the runs.

    moves: move the operands of operators that decide by several times their spread.
    """
    block = machines[0].graph.main
    last_use = {name: index for index, op in enumerate(block.operators) for name in op.inputs}
    given = {name: machines[0].argument(block, name, inputs) for name in block.inputs}
    states: list[dict[str, Value]] = [_as_read(block, given, machine) for machine in machines]
    for name, value in given.items():
        yield name, [value], None, None
    for index, operator in enumerate(block.operators):
        where = operator_path("main", index, operator)
        pairs = zip(machines, states, strict=True)
        operands = [[m.value(block, own, name) for name in operator.inputs] for m, own in pairs]
        possible = None
        if moves:
            operands, possible = _moved(block, operator, operands, machines[1].random)
        found = _compute_all(index, operands, where, machines, states, bends=moves)
        for name, sigma in found.items():
            live = zip(machines, states, strict=True)
            yield name, [own[name] for machine, own in live if machine.is_alive], possible, sigma
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
    *,
    bends: bool,
) -> dict[str, Array | None]:
    """Compute an operator of the main block in all runs; return its results with their known spreads.

    Where all runs have the same operands it is computed once, and the spread of a sum is known: that of
    the errors that are added, which are evenly distributed.
    """
    exact = machines[0]
    block = exact.graph.main
    operator = block.operators[index]
    touches_state = bool(operator.spec.regions) or operator.spec is VARIABLE_WRITE
    is_same = not touches_state and all(
        all(one is other for one, other in zip(operands[0], own, strict=True))
        for own in operands[1:]
    )
    is_same = is_same and undefined_integers(block, operator, operands[0]) is None
    if operator.spec.regions:
        results: dict[str, Value] = exact.control_flow(index, operator, operands[0])
    else:
        results = Machine.compute(exact, block, operator, operands[0], where)
    errors = {} if touches_state else errors_of(block, operator, operands[0], results, is_same)
    stored = exact.with_errors(results, errors)
    states[0].update(stored)
    if is_same:
        # Where nothing errs, all runs have the same array.
        errors = {name: error for name, error in errors.items() if error.is_any}
    found: list[dict[str, Value]] = []
    for machine, values in zip(machines[1:], operands[1:], strict=True):
        found.append(dict(results if errors else stored))
        if not machine.is_alive or is_same:
            continue
        try:
            if operator.spec.regions:
                found[-1] = machine.control_flow(index, operator, values)
            else:
                found[-1] = machine.without_errors(block, operator, values, where)
        except TosaConvertError:
            machine.is_alive = False
    if bends and not is_same and _may_bend(block, operator):
        _add_bends(exact, index, operands, results, found)
    for machine, own, given in zip(machines[1:], states[1:], found, strict=True):
        changed = machine.with_errors(given, errors) if machine.is_alive else stored
        own.update(_as_read(block, changed, machine) if operator.spec in _READ else changed)
    return {
        name: error.of_rounding / math.sqrt(3)
        if is_same and (error := errors.get(name)) is not None and error.is_of_sum
        else None
        for name in results
    }


def _as_read(block: Block, values: Mapping[str, Value], machine: _Run) -> dict[str, Value]:
    """Return what a run reads: two of them flush subnormal numbers of inputs and constants to zero."""
    read = dict(values)
    if not 0 < machine.number <= _COHERENT:
        return read
    for name, value in values.items():
        tensor = block.tensors.get(name)
        if tensor is None or isinstance(value, Scaled) or not may_flush(tensor.dtype):
            continue
        is_subnormal = (np.abs(value) < FLOATS[tensor.dtype.name][1]) & (value != 0)
        if is_subnormal.any():
            read[name] = machine._flushed(value, is_subnormal)
    return read


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
    if not _decides(block, operator):
        return moved, None
    possible = None
    sign = -1.0
    sizes: dict[str, Array] = {}
    for position, name in enumerate(operator.inputs):
        exact = operands[0][position]
        tensor = block.tensors.get(name)
        if tensor is None or isinstance(exact, Scaled) or not tensor.dtype.is_float:
            continue
        if name in sizes:
            for own in moved[1:]:
                own[position] = own[operator.inputs.index(name)]
            continue
        size = np.zeros(exact.shape)
        if any(own[position] is not exact for own in operands):
            sigma = spread_of(block, name, [own[position] for own in operands]).sigma
            assert sigma is not None
            size = _MOVED_BY * sigma
            for number, own in enumerate(moved[1:], 1):
                is_first = number <= _COHERENT
                step = (
                    (sign if number % 2 else -sign)
                    if is_first
                    else random.uniform(-1, 1, size.shape)
                )
                moves = np.isfinite(exact) & np.isfinite(own[position])
                own[position] = np.where(moves, exact + step * size, own[position])
            sign = -sign
            if operator.spec.name == "ARGMAX":
                axis = operator.attributes["axis"]
                assert isinstance(axis, int)
                least = np.max(exact - size, axis=axis, keepdims=True)
                possible = np.moveaxis(exact + size >= least, axis, -1)
        sizes[name] = size
    if operator.spec.name == "EQUAL" and len(sizes) == len(operator.inputs):
        # Numbers that are moved at random are never equal: in run 1 none is, in the last one all are.
        one, other = (plain(value) for value in operands[0])
        may_be_equal = np.abs(one - other) <= sum(sizes.values())
        for number, own in enumerate(moved[2:], 2):
            is_equal = may_be_equal & (random.random(may_be_equal.shape) < number / RUNS)
            own[0], own[1] = (np.where(is_equal, other, plain(value)) for value in own)
    return moved, possible


# -- operators whose results bend -------------------------------------------------------------------


def _may_bend(block: Block, operator: Operator) -> bool:
    """Return whether a small change of an operand may change the result much more, or not at all."""
    results = [block.tensors.get(name) for name in operator.outputs]
    is_float = all(row is not None and row.dtype.name in FLOATS for row in results)
    families = ("elementwise", "activation", "conversion")
    return is_float and operator.spec.family in families and operator.spec.name not in _STRAIGHT


def _add_bends(
    machine: Machine,
    index: int,
    operands: list[list[Value]],
    exact: Mapping[str, Value],
    found: list[dict[str, Value]],
) -> None:
    """Change elements of the first two runs where the others say too little about the result.

    Beside a bend or a pole, such as those of CLAMP and RECIPROCAL, all runs may be on one side of it.
    """
    block = machine.graph.main
    operator = block.operators[index]
    (name,) = operator.outputs
    probes: list[list[Value]] = [list(operands[0]), list(operands[0])]
    sign = 1.0
    for position, operand in enumerate(operator.inputs):
        value = operands[0][position]
        tensor = block.tensors.get(operand)
        if tensor is None or isinstance(value, Scaled) or not tensor.dtype.is_float:
            continue
        if operand in operator.inputs[:position]:
            for own in probes:
                own[position] = own[operator.inputs.index(operand)]
            continue
        runs = [own[position] for own in operands]
        if all(run is value for run in runs):
            continue
        sigma = spread_of(block, operand, runs).sigma
        assert sigma is not None
        for own, step in zip(probes, (-sign, sign), strict=True):
            own[position] = np.where(np.isfinite(value), value + step * _PROBED_AT * sigma, value)
        sign = -sign
    where = operator_path("main", index, operator)
    try:
        pair = [plain(Machine.compute(machine, block, operator, p, where)[name]) for p in probes]
    except TosaConvertError:
        return
    if isinstance(exact[name], Scaled):
        return
    center = plain(exact[name])
    runs_found = [plain(own[name]) for own in found]
    with np.errstate(all="ignore"):
        errors = [np.nan_to_num(np.abs(run - center), posinf=0.0) for run in runs_found]
        sigma = np.sqrt(sum(np.square(error) for error in errors) / len(errors))
        changes = [np.nan_to_num(np.abs(probe - center), posinf=0.0) for probe in pair]
    kinds = kinds_of(center)
    for run in runs_found:
        kinds = kinds | kinds_of(run)
    bends = np.maximum(*changes) > _BENDS * sigma
    for probe in pair:
        bends |= (kinds_of(probe) & ~kinds) != 0
    if bends.any():
        for result, probe in zip(found[:_COHERENT], pair, strict=True):
            # Two of six runs at half the change: their spread is that of the operand.
            with np.errstate(invalid="ignore"):
                middle = (probe + center) / 2
            half = np.where(np.isfinite(probe) & np.isfinite(center), middle, probe)
            mine = plain(result[name])
            with np.errstate(all="ignore"):
                # What this run has already may be further away, or an infinity.
                is_less = np.isfinite(mine) & ~(np.abs(mine - center) > np.abs(half - center))
            result[name] = np.where(bends & is_less, half, mine)
