"""Judge arrays of a program's tensors, for `check` and `bisect`.

A tensor is judged by the tolerance that names it, by TOSA's rule for the operator if at most one
operator before it is inexact, or by the error that was measured for the network before it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.golden.accuracy.criteria import (
    Check,
    NetworkCheck,
    Spread,
    ToleranceCheck,
    Tolerances,
)
from tosa_convert.golden.accuracy.erring_runs import (
    RUNS,
    SUMS_OF_PRODUCTS,
    ErringRun,
    chooses_zeros,
    errors_of,
    open_tensors,
    results_of_runs,
    subnormal_numbers,
    undefined_integers,
)
from tosa_convert.golden.accuracy.error_bounds import (
    EXACT,
    Rule,
    is_subnormal,
    makers_of,
    may_flush,
    rules,
    with_operands,
)
from tosa_convert.golden.accuracy.spreads import (
    ReachedElements,
    add_kinks,
    align_errors,
    decides,
    exact_elements,
    may_have_kinks,
    merged,
    moved_operands,
    spread_of,
    spread_of_scales,
)
from tosa_convert.golden.arrays import SCALE_SUFFIX, Array, Arrays, Lazy, subfolder
from tosa_convert.golden.running.programs import STATE_PREFIX, variables_of, with_final_states
from tosa_convert.golden.running.run_graph import bounds_in_folder, run_in_folder
from tosa_convert.golden.running.run_options import RunOptions
from tosa_convert.graph.derived import extract
from tosa_convert.graph.dtypes import BLOCK_SCALE, DType
from tosa_convert.graph.model import Block, Graph, Operator, operator_path
from tosa_convert.graph.opset import CONST, VARIABLE_READ, VARIABLE_WRITE
from tosa_convert.reference.block_scaled import Scaled, Value, plain
from tosa_convert.reference.evaluate import Machine

# -- the errors that correct implementations of a network make, measured instead of guessed --------
# The program runs in FP64 once exactly and, in step with that, in several runs that add errors to the
# results of floating point: what TOSA allows a function such as SIN, what the order of a sum costs, one
# rounding to the element type, subnormal numbers that are flushed to zero. How far the runs are apart
# is the spread of a tensor, for each element. Before an operator that decides (its result is an
# integer, a BOOL or an index) the runs move its operands by several times their spread, so that every
# element that is unsure changes in some run, and with it all that depends on it.

#: The first batch of independent runs: `measure` is asked for lower ones.
_INDEPENDENT: Final = 1000


def measure(
    graph: Graph, inputs: Arrays, wanted: Collection[str], timeout: float = 0.0, batch: int = 0
) -> dict[str, Spread]:
    """Measure the spread of tensors of the main block.

    Runs that cast NaN to one integer everywhere lose it where operands are moved: what follows from it
    is measured without that, too.
    """
    result: dict[str, Spread] = {}
    casts_nan = False
    for moves in (True, False):
        machines = _machines(graph, batch)
        end = time.monotonic() + timeout * len(machines)
        found: dict[str, Spread] = {}
        is_over = False
        with _errors_of_exact_run():
            reached = ReachedElements(graph)
            for name, values, possible, sigma in _in_step(machines, inputs, reached, moves=moves):
                _refuse_late(name, timeout, end)
                is_over = moves and 2 * sum(machine.is_alive for machine in machines[1:]) < RUNS
                if is_over:
                    break
                if name in wanted and name not in found and (name not in result or casts_nan):
                    own = reached.of(name)
                    found[name] = spread_of(graph.main, name, values, possible, sigma, own)
                    if all(isinstance(value, Scaled) for value in values):
                        found[name + SCALE_SUFFIX] = spread_of_scales(values)
        for name, spread in found.items():
            result[name] = merged([result[name], spread]) if name in result else spread
        casts_nan = any(machine.casts_nan for machine in machines)
        if not (is_over or casts_nan):
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
    graph: Graph, inputs: Arrays, batch: int, timeout: float = 0.0
) -> Iterator[tuple[str, list[Array]]]:
    """Iterate over the tensors of the main block, with the data of the exact run and of RUNS others.

    Their errors are drawn independently of those of `measure`, and nothing moves the operands of
    operators that decide: each is what one correct implementation may compute.
    """
    machines = _machines(graph, _INDEPENDENT + batch)
    end = time.monotonic() + timeout * len(machines)
    for name, values, *_ in _in_step(machines, inputs, ReachedElements(graph), moves=False):
        _refuse_late(name, timeout, end)
        yield name, [plain(value) for value in values]


def _machines(graph: Graph, batch: int) -> list[ErringRun]:
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
    if timeout and time.monotonic() > end:
        message = f"the runs that measure its accuracy took longer than {timeout:g} s each"
        raise fail("refmodel-timeout", f'"{name}"', message, "allow more time")


def _in_step(
    machines: list[ErringRun], inputs: Arrays, reached: ReachedElements, *, moves: bool
) -> Iterator[tuple[str, list[Value], Array | None, Array | None]]:
    """Compute the main block in all runs; iterate over each tensor's values in the runs that go on.

    With them come, for an index of the largest element, the indices that are possible, and the spread if
    it is known without the runs.
    moves: move the operands of operators that decide by several times their spread. A run that moves one
        to where TOSA defines no result ends; without it, it goes on beside there.
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
    """Return the results of an operator of the main block; None if all operands are refused."""
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
    """Return operands with integers in the exact ones' range: outside of it any result is right."""
    clipped, same = list(operands), list(operands)
    for position, (own, value) in enumerate(zip(operands, exact, strict=True)):
        if own is not value and not isinstance(value, Scaled) and value.dtype.kind in "iu":
            same[position] = value
            clipped[position] = np.clip(plain(own), value.min(), value.max())
    return [clipped, same]


def _are_same(block: Block, operator: Operator, operands: list[list[Value]]) -> bool:
    """Return whether all runs have the same operands, of which TOSA says what the results are."""
    first, *others = operands
    return (
        undefined_integers(block, operator, first) is None
        and not chooses_zeros(block, operator, first)
        and all(one is other for own in others for one, other in zip(first, own, strict=True))
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

    Where all runs have the same operands, the spread of a sum is known: that of evenly distributed
    errors.
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


# -- results of operators that read subnormal numbers as zeros, which TOSA lets implementations do -


@dataclass(slots=True)
class _Flushing(Machine):
    """Run in FP64 with operators that read subnormal numbers of their element types as zeros."""

    def compute(
        self, block: Block, operator: Operator, operands: Sequence[Value], where: str
    ) -> dict[str, Value]:
        read = [
            _flushed(value, block.tensors[name].dtype) if name in block.tensors else value
            for name, value in zip(operator.inputs, operands, strict=True)
        ]
        return Machine.compute(self, block, operator, read, where)


def flushed_results(graph: Graph, inputs: Arrays, wanted: Container[str]) -> dict[str, Array]:
    """Return tensors of the main block in FP64 that read subnormal numbers as zeros."""
    block = graph.main
    given = [(name, inputs[name]) for name in block.inputs if name in inputs]
    constants = (
        (tensor.name, tensor.data.numpy())
        for tensor in block.tensors.values()
        if tensor.data is not None and may_flush(tensor.dtype)
    )
    if not any(
        is_subnormal(array, block.tensors[name].dtype).any() for name, array in (*given, *constants)
    ):
        return {}
    found: dict[str, Array] = {}
    try:
        for step in _Flushing(graph, "wide").steps(inputs, {}):
            if step.block is block:
                found |= {name: array for name, array in step.results.items() if name in wanted}
    except TosaConvertError:
        return {}
    return found


def _flushed(value: Value, row: DType) -> Value:
    if isinstance(value, Scaled):
        return value
    is_small = is_subnormal(value, row)
    return np.where(is_small, np.copysign(0.0, value), value) if is_small.any() else value


def origins(graph: Graph) -> dict[str, tuple[str, str]]:
    """Return operator and location by tensor of the main block."""
    result = {}
    for index, op in enumerate(graph.main.operators):
        for name in op.outputs:
            result[name] = (operator_path("", index, op).strip(), op.location)
            result[name + SCALE_SUFFIX] = result[name]
    return result


def checks_for(
    graph: Graph,
    keys: Iterable[str],
    inputs: Arrays,
    golden: Arrays,
    folder: Path,
    tolerances: Tolerances,
    options: RunOptions,
) -> tuple[Mapping[str, Check], tuple[str, ...]]:
    """Return the check of each array that no tolerance names, and notes."""
    graph, states = with_final_states(graph)
    variables = variables_of(graph)
    all_rules = rules(graph, official=tolerances.official)
    block = graph.main
    makers: dict[str, Callable[[], Check]] = {}
    inexact: dict[str, tuple[str, Rule | None]] = {}
    flushed = flushed_results(graph, inputs, all_rules)
    for name in open_tensors(graph, inputs, golden):
        # No rule is about them, but other implementations have what the spread says.
        all_rules.pop(name, None)
    for key in keys:
        if key.startswith(STATE_PREFIX) and key not in block.tensors:
            # A state is the tensor that is written last, or the initial one.
            state = key.removeprefix(STATE_PREFIX)
            name = states.get(state) or variables[state].name
        else:
            name = key if key in block.tensors else key.removesuffix(SCALE_SUFFIX)
        if name not in block.tensors:
            continue
        is_scale = key == name + SCALE_SUFFIX
        row = block.tensors[name].dtype
        rule = all_rules.get(name)
        if tolerances.names(key, (BLOCK_SCALE if is_scale else row).numpy):
            continue
        if is_scale and rule is not None:
            # All rules are about values: scales are exact.
            makers[key] = partial(ToleranceCheck, EXACT, BLOCK_SCALE)
        elif rule is not None and (rule == EXACT or rule.kind == "steps"):
            makers[key] = partial(ToleranceCheck, rule, row, flushed=flushed.get(name))
        else:
            inexact[key] = name, rule
    notes: list[str] = []
    if inexact:
        official = tolerances.official
        more, notes = _measured(graph, inexact, inputs, folder, options, flushed, official=official)
        makers |= more
    # Made on every access: each may hold arrays of the size of its tensor.
    return Lazy(makers, lambda key: makers[key]()), tuple(notes)


def _measured(
    graph: Graph,
    inexact: Mapping[str, tuple[str, Rule | None]],
    inputs: Arrays,
    folder: Path,
    options: RunOptions,
    flushed: Arrays,
    *,
    official: bool,
) -> tuple[dict[str, Callable[[], Check]], list[str]]:
    """Return the checks of `_inexact_checks`, and notes about arrays that cannot be measured."""
    makers: dict[str, Callable[[], Check]] = {}
    parts, failed = [inexact], dict[str, list[str]]()
    for number, part in enumerate(parts):
        own = subfolder(folder, f"part{number}")
        try:
            makers |= _inexact_checks(
                graph, part, inputs, own, options, flushed, is_official=official
            )
        except TosaConvertError as error:
            if not error.code.startswith("refmodel-"):
                raise
            if len(part) > 1 and error.code != "refmodel-timeout":
                # What cannot be measured does not take the rules of the others.
                rows, half = list(part.items()), len(part) // 2
                parts += [dict(rows[:half]), dict(rows[half:])]
            else:
                failed.setdefault(error.findings[0].message, []).extend(part)
    return makers, [
        f"accuracy rules were not applied to {', '.join(names)}: the precise run failed: {message}"
        for message, names in failed.items()
    ]


def _inexact_checks(
    graph: Graph,
    inexact: Mapping[str, tuple[str, Rule | None]],
    inputs: Arrays,
    folder: Path,
    options: RunOptions,
    flushed: Arrays,
    *,
    is_official: bool,
) -> dict[str, Callable[[], Check]]:
    """Return the checks against results of runs in FP64, which stay in the folder."""
    block = graph.main
    names = dict(inexact.values())
    needed = ("resize",) if is_official else ("resize", "reduce-product")
    makers = {name: makers_of(block, name, needed) for name, rule in names.items() if rule}
    operands = [op.inputs[0] for found in makers.values() for op in found]
    ruled = [name for name, rule in names.items() if rule is not None]
    are_exact = exact_elements(graph, inputs, ruled)
    exact, bounds = _precise_run(graph, [*ruled, *operands], inputs, folder, options)
    # TOSA allows a sum as much as the worst order can cost, and any order much less in practice; and
    # some functions anything.
    spread_too = {
        name
        for name, rule in names.items()
        if rule is not None and rule.kind == "dot-product" and not is_official
    }
    if not is_official:
        spread_too.update(_with_wide_bounds(block, names, exact, bounds))
    network = [name for name, rule in names.items() if rule is None or name in spread_too]
    spreads: Mapping[str, Spread] = {}
    if network:
        spreads = measure(extract(graph, network), inputs, network, options.timeout)

    def by_rule(name: str, rule: Rule) -> Callable[[], Check]:
        def make() -> Check:
            row, own, bound = block.tensors[name].dtype, rule, bounds[name]
            if makers[name]:
                arrays = [exact[op.inputs[0]] for op in makers[name]]
                own, bound = with_operands(block.tensors[name], rule, makers[name], arrays, bound)
            network = by_network(name, name)() if name in spread_too else None
            also, certain = flushed.get(name), are_exact.get(name)
            return ToleranceCheck(own, row, exact[name], bound, network, also, certain)

        return make

    def by_network(key: str, name: str) -> Callable[[], NetworkCheck]:
        is_scale = key == name + SCALE_SUFFIX
        row = BLOCK_SCALE if is_scale else block.tensors[name].dtype
        own = key if is_scale else name
        more = _more_runs(graph, inputs, name, own, spreads[own], options.timeout)
        return lambda: NetworkCheck(row, spreads[own], more)

    return {
        key: by_network(key, name) if rule is None else by_rule(name, rule)
        for key, (name, rule) in inexact.items()
    }


def _with_wide_bounds(
    block: Block, rules_of: Mapping[str, Rule | None], exact: Arrays, bounds: Arrays
) -> Iterator[str]:
    """Iterate over tensors with an element that TOSA's rule allows to err by all its value, and by 1.

    The bounds of EXP and TANH of an infinity are infinite: their rule alone allows any result there.
    """
    for name, rule in rules_of.items():
        if rule is not None:
            size, row = np.abs(exact[name]), block.tensors[name].dtype
            error = rule.limits(exact[name], bounds[name], row)[2]
            if (error >= np.maximum(size, 1.0)).any():
                yield name


def _precise_run(
    graph: Graph, names: Iterable[str], inputs: Arrays, folder: Path, options: RunOptions
) -> tuple[Arrays, Arrays]:
    """Return tensors in FP64 and their bounds, which stay in the folder."""
    wanted = list(dict.fromkeys(names))
    if not wanted:
        return {}, {}
    part = extract(graph, wanted)
    precise = replace(options, precise=True, bounds=True)
    return run_in_folder(folder, part, inputs, precise), bounds_in_folder(folder, part)


def _more_runs(
    graph: Graph, inputs: Arrays, name: str, key: str, first: Spread, timeout: float
) -> Callable[[int], Spread | None]:
    """Return a function that gives the spread of so many measurements of a tensor."""
    spreads = [first]

    def more(measurements: int) -> Spread | None:
        part = extract(graph, [name])
        try:
            for batch in range(len(spreads), measurements):
                spreads.append(measure(part, inputs, [name], timeout, batch)[key])
        except TosaConvertError as error:
            if not error.code.startswith("refmodel-"):
                raise
            return None
        return merged(spreads)

    return more
