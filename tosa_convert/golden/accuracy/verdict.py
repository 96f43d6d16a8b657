"""The one verdict on arrays of a program's tensors, which `check` and `bisect` share.

A tensor is judged by the tolerance that names it, by TOSA's rule for the operator if at most one
operator before it is inexact, or by the error that was measured for the network before it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.accuracy.comparison import Comparison, compare
from tosa_convert.golden.accuracy.criteria import (
    Check,
    NetworkCheck,
    Spread,
    ToleranceCheck,
    Tolerances,
)
from tosa_convert.golden.accuracy.erring_runs import open_tensors
from tosa_convert.golden.accuracy.error_bounds import (
    EXACT,
    Rule,
    is_subnormal,
    makers_of,
    may_flush,
    rules,
    with_operands,
)
from tosa_convert.golden.accuracy.network_accuracy import measure
from tosa_convert.golden.accuracy.spreads import exact_elements, merged
from tosa_convert.golden.arrays.by_name import Array, scratch_folder, subfolder
from tosa_convert.golden.arrays.npz import SCALE_SUFFIX
from tosa_convert.golden.running.programs import STATE_PREFIX, variables_of, with_final_states
from tosa_convert.golden.running.run_graph import bounds_in_folder, run_in_folder
from tosa_convert.golden.running.run_options import RunOptions
from tosa_convert.graph.derived import extract
from tosa_convert.graph.dtypes import BLOCK_SCALE, DType
from tosa_convert.graph.model import Block, Graph, Operator, operator_path
from tosa_convert.reference.block_scaled import Scaled, Value
from tosa_convert.reference.evaluate import Machine

# --------------------------------------------------------------------------------------------------
# results of operators that read subnormal numbers as zeros, which TOSA lets implementations do.


@dataclass(slots=True)
class _Flushing(Machine):
    """A run in FP64 whose operators read subnormal numbers of their element types as zeros."""

    def compute(
        self, block: Block, operator: Operator, operands: Sequence[Value], where: str
    ) -> dict[str, Value]:
        read = [
            _flushed(value, block.tensors[name].dtype) if name in block.tensors else value
            for name, value in zip(operator.inputs, operands, strict=True)
        ]
        return Machine.compute(self, block, operator, read, where)


def flushed_results(
    graph: Graph, inputs: Mapping[str, Array], wanted: Container[str]
) -> dict[str, Array]:
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


class LazyChecks(Mapping[str, Check]):
    """Checks by key, made on every access: each may hold arrays of the size of its tensor."""

    def __init__(self, makers: Mapping[str, Callable[[], Check]]) -> None:
        self._makers = dict(makers)

    def __getitem__(self, key: str) -> Check:
        return self._makers[key]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def judge(
    graph: Graph,
    inputs: Mapping[str, Array],
    golden: Mapping[str, Array],
    actual: Mapping[str, Array],
    *,
    tolerances: Tolerances,
    options: RunOptions,
    at: Mapping[str, tuple[str, str]] | None = None,
    notes: tuple[str, ...] = (),
) -> Comparison:
    """Compare tensors of a graph's main block with the golden ones."""
    compared = [key for key in golden if key in actual]
    places = origins(graph) if at is None else at
    with scratch_folder() as folder:
        checks, more = checks_for(graph, compared, inputs, golden, folder, tolerances, options)
        return compare(
            golden,
            actual,
            tolerances=tolerances,
            checks=checks,
            origins=places,
            notes=(*notes, *more),
        )


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
    inputs: Mapping[str, Array],
    golden: Mapping[str, Array],
    folder: Path,
    tolerances: Tolerances,
    options: RunOptions,
) -> tuple[Mapping[str, Check], tuple[str, ...]]:
    """Return the check of each array that no tolerance names, and notes; see `judge`."""
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
            makers[key] = _constant(ToleranceCheck(EXACT, BLOCK_SCALE))
        elif rule is not None and (rule == EXACT or rule.kind == "steps"):
            makers[key] = _constant(ToleranceCheck(rule, row, flushed=flushed.get(name)))
        else:
            inexact[key] = name, rule
    notes: list[str] = []
    if inexact:
        official = tolerances.official
        more, notes = _measured(graph, inexact, inputs, folder, options, flushed, official=official)
        makers |= more
    return LazyChecks(makers), tuple(notes)


def _measured(
    graph: Graph,
    inexact: Mapping[str, tuple[str, Rule | None]],
    inputs: Mapping[str, Array],
    folder: Path,
    options: RunOptions,
    flushed: Mapping[str, Array],
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


def _constant(check: Check) -> Callable[[], Check]:
    return lambda: check


def _inexact_checks(
    graph: Graph,
    inexact: Mapping[str, tuple[str, Rule | None]],
    inputs: Mapping[str, Array],
    folder: Path,
    options: RunOptions,
    flushed: Mapping[str, Array],
    *,
    is_official: bool,
) -> dict[str, Callable[[], Check]]:
    """Return the checks against results of runs in FP64, which stay in the folder.

    is_official: TOSA's rule alone decides about a sum, not the spread of ordinary implementations.
    """
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
    block: Block,
    rules_of: Mapping[str, Rule | None],
    exact: Mapping[str, Array],
    bounds: Mapping[str, Array],
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
    graph: Graph,
    names: Iterable[str],
    inputs: Mapping[str, Array],
    folder: Path,
    options: RunOptions,
) -> tuple[Mapping[str, Array], Mapping[str, Array]]:
    """Return tensors in FP64 and their bounds, which stay in the folder."""
    wanted = list(dict.fromkeys(names))
    if not wanted:
        return {}, {}
    part = extract(graph, wanted)
    precise = replace(options, precise=True, bounds=True)
    return run_in_folder(folder, part, inputs, precise), bounds_in_folder(folder, part)


def _more_runs(
    graph: Graph,
    inputs: Mapping[str, Array],
    name: str,
    key: str,
    first: Spread,
    timeout: float,
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
