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
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import numpy as np

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.golden.accuracy.criteria import Spread
from tosa_convert.golden.accuracy.erring_runs import (
    RUNS,
    SUMS_OF_PRODUCTS,
    ErringRun,
    chooses_zeros,
    errors_of,
    results_of_runs,
    subnormal_numbers,
    undefined_integers,
)
from tosa_convert.golden.accuracy.spreads import (
    ReachedElements,
    add_kinks,
    align_errors,
    decides,
    may_have_kinks,
    moved_operands,
    spread_of,
    spread_of_scales,
)
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.arrays.npz import SCALE_SUFFIX
from tosa_convert.graph.model import Block, Graph, Operator, operator_path
from tosa_convert.graph.opset import CONST, VARIABLE_READ, VARIABLE_WRITE
from tosa_convert.reference.block_scaled import Scaled, Value, plain
from tosa_convert.reference.evaluate import Machine

#: The first batch of independent runs: `measure` is asked for lower ones.
_INDEPENDENT: Final = 1000


def measure(
    graph: Graph,
    inputs: Mapping[str, Array],
    wanted: Collection[str],
    timeout: float = 0.0,
    batch: int = 0,
) -> dict[str, Spread]:
    """Measure the spread of tensors of the main block."""
    result: dict[str, Spread] = {}
    for moves in (True, False):
        machines = _machines(graph, batch)
        end = time.monotonic() + timeout * len(machines)
        with _errors_of_exact_run():
            reached = ReachedElements(graph)
            for name, values, possible, sigma in _in_step(machines, inputs, reached, moves=moves):
                _refuse_late(name, timeout, end)
                if 2 * sum(machine.is_alive for machine in machines[1:]) < RUNS:
                    break
                if name in wanted and name not in result:
                    own = reached.of(name)
                    result[name] = spread_of(graph.main, name, values, possible, sigma, own)
                    if all(isinstance(value, Scaled) for value in values):
                        result[name + SCALE_SUFFIX] = spread_of_scales(values)
            else:
                break
    return result


@contextmanager
def _errors_of_exact_run() -> Iterator[None]:
    """Let a run in FP64 that TOSA leaves undefined, as an index out of range, be "refmodel-failed"."""
    try:
        yield
    except TosaConvertError as error:
        if error.code.startswith("refmodel-"):
            raise
        rows = [replace(row, code="refmodel-failed") for row in error.findings]
        raise TosaConvertError(rows) from None


def independent_runs(
    graph: Graph, inputs: Mapping[str, Array], batch: int, timeout: float = 0.0
) -> Iterator[tuple[str, list[Array]]]:
    """Iterate over the tensors of the main block, with the data of the exact run and of RUNS others.

    The errors of these runs are drawn independently of those that `measure` draws, and nothing moves the
    operands of operators that decide: each is what one correct implementation may compute.
    """
    machines = _machines(graph, _INDEPENDENT + batch)
    end = time.monotonic() + timeout * len(machines)
    for name, values, *_ in _in_step(machines, inputs, ReachedElements(graph), moves=False):
        _refuse_late(name, timeout, end)
        yield name, [plain(value) for value in values]


def _machines(graph: Graph, batch: int) -> list[ErringRun]:
    """Return the exact run and those with the errors of a batch."""
    return [
        ErringRun(
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
    machines: list[ErringRun],
    inputs: Mapping[str, Array],
    reached: ReachedElements,
    *,
    moves: bool,
) -> Iterator[tuple[str, list[Value], Array | None, Array | None]]:
    """Compute the main block in all runs; iterate over each tensor's values in the runs that go on.

    With them come, for an index of the largest element, the indices that are possible, and the spread
    if it is known without the runs.

    reached: which elements errors reach, of the tensors so far.
    moves: move the operands of operators that decide by several times their spread. A run that moves
        one to where TOSA defines no result ends; without it, it goes on beside there.
    """
    block = machines[0].graph.main
    last_use = {name: index for index, op in enumerate(block.operators) for name in op.inputs}
    given = {name: machines[0].argument(block, name, inputs) for name in block.inputs}
    small = subnormal_numbers(block, given)
    reached.start(given)
    states: list[dict[str, Value]] = [machine.as_read(given, small) for machine in machines]
    for name, value in given.items():
        yield name, [value], None, None
    for index, operator in enumerate(block.operators):
        where = operator_path("main", index, operator)
        pairs = zip(machines, states, strict=True)
        operands = [[m.value(block, own, name) for name in operator.inputs] for m, own in pairs]
        possible = None
        if moves:
            random = machines[1].random
            operands, possible = moved_operands(block, operator, operands, random, reached)
        found = _compute_all(index, operands, where, machines, states, reached, moves=moves)
        reached.add(operator, operands[0], states[0])
        if operator.spec is CONST:
            reached.start({name: states[0][name] for name in operator.outputs})
        # What regions decide is not moved inside of them.
        shows_jumps = moves and not operator.spec.regions and decides(block, operator)
        if shows_jumps and all(machine.is_alive for machine in machines):
            reached.keep_those_that_jump(operator, states, possible)
        for name, sigma in found.items():
            live = zip(machines, states, strict=True)
            yield name, [own[name] for machine, own in live if machine.is_alive], possible, sigma
        for name in {*operator.inputs, *operator.outputs}:
            if last_use.get(name, -1) <= index:
                for own in states:
                    own.pop(name, None)


def _computed(
    machine: ErringRun, index: int, operands: list[Value], where: str, others: list[list[Value]]
) -> dict[str, Value] | None:
    """Return the results of an operator of the main block; None if it is refused.

    others: operands that take the place of those that are refused, in turn.
    """
    block = machine.graph.main
    operator = block.operators[index]
    for own in (operands, *others):
        try:
            if operator.spec.regions:
                return machine.control_flow(index, operator, own)
            return machine.without_errors(block, operator, own, where)
        except TosaConvertError:
            continue
    return None


def _in_range_of(exact: list[Value], operands: list[Value]) -> list[list[Value]]:
    """Return operands whose integers are in the range of the exact ones, and others that have these.

    Where errors move an index or a shift to where TOSA defines no result, any result would be right.
    """
    clipped, same = list(operands), list(operands)
    for position, (own, value) in enumerate(zip(operands, exact, strict=True)):
        if own is not value and not isinstance(value, Scaled) and value.dtype.kind in "iu":
            same[position] = value
            clipped[position] = np.clip(plain(own), value.min(), value.max())
    return [clipped, same]


def _are_same(block: Block, operator: Operator, operands: list[list[Value]]) -> bool:
    """Return whether all runs have the same operands, of which TOSA says what the results are."""
    is_defined = undefined_integers(block, operator, operands[0]) is None
    return (
        is_defined
        and not chooses_zeros(block, operator, operands[0])
        and all(
            all(one is other for one, other in zip(operands[0], own, strict=True))
            for own in operands[1:]
        )
    )


def _compute_all(
    index: int,
    operands: list[list[Value]],
    where: str,
    machines: list[ErringRun],
    states: list[dict[str, Value]],
    reached: ReachedElements,
    *,
    moves: bool,
) -> dict[str, Array | None]:
    """Compute an operator of the main block in all runs; return its results with their known spreads.

    Where all runs have the same operands it is computed once, and the spread of a sum is known: that of
    the errors that are added, which are evenly distributed.
    """
    exact = machines[0]
    block = exact.graph.main
    operator = block.operators[index]
    touches_state = bool(operator.spec.regions) or operator.spec is VARIABLE_WRITE
    is_same = not touches_state and _are_same(block, operator, operands)
    if operator.spec.regions:
        results: dict[str, Value] = exact.control_flow(index, operator, operands[0])
    else:
        results = Machine.compute(exact, block, operator, operands[0], where)
    given = operands[0], results, is_same, operands[1:]
    errors = {} if touches_state else errors_of(block, operator, *given)
    stored = exact.with_errors(results, errors)
    states[0].update(stored)
    if is_same:
        # Where nothing errs, all runs have the same array.
        errors = {name: error for name, error in errors.items() if error.is_any}
    found: list[dict[str, Value]] = []
    shared: dict[int, Array] = {}
    if not is_same and operator.spec.name in SUMS_OF_PRODUCTS:
        shared = results_of_runs(block, operator, operands, plain(results[operator.outputs[0]]))
    for number, values in enumerate(operands[1:], 1):
        machine = machines[number]
        found.append(dict(results if errors else stored))
        if not machine.is_alive or is_same:
            continue
        if number in shared:
            found[-1] = {operator.outputs[0]: shared[number]}
        else:
            others = [] if moves else _in_range_of(operands[0], values)
            computed = _computed(machine, index, values, where, others)
            machine.is_alive = computed is not None or not moves
            found[-1] = computed or found[-1]
    if moves and not is_same and may_have_kinks(block, operator):
        add_kinks(exact, index, operands, results, found, reached)
    if not is_same and operator.spec.family == "fft":
        align_errors(operands, results, found)
    small = subnormal_numbers(block, results) if operator.spec is CONST else {}
    for machine, own, made in zip(machines[1:], states[1:], found, strict=True):
        changed = machine.with_errors(made, errors) if machine.is_alive else stored
        own.update(
            machine.as_read(changed, subnormal_numbers(block, changed))
            if operator.spec is VARIABLE_READ
            else machine.as_read(changed, small)
        )
    return {
        name: error.of_rounding / math.sqrt(3)
        if is_same and (error := errors.get(name)) is not None and error.is_of_sum
        else None
        for name in results
    }
