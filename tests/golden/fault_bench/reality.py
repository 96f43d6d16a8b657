"""Whether a row of the bench is a fault: on some inputs its outputs are not what TOSA permits."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from pathlib import Path

import numpy as np
from golden.fault_bench.fault import At, Fault, FaultyMachine, Inputs, Scaled, Value

from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.accuracy.error_bounds import (
    EXACT,
    Rule,
    numbers,
    rule_of,
    rules,
    same_values,
)
from tosa_convert.golden.arrays import Array
from tosa_convert.golden.running.programs import STATE_PREFIX
from tosa_convert.golden.running.run_graph import compute
from tosa_convert.golden.running.run_options import RunOptions
from tosa_convert.graph import Graph, Region
from tosa_convert.graph.derived import extract
from tosa_convert.graph.dtypes import DType

#: A backend is wrong in a network if an output is this far off, by its largest element.
_GROSS = 0.02


def shows_fault(fault: Fault, inputs: Iterable[Inputs]) -> bool:
    """Return whether some of the inputs show the fault.

    An output is wrong if its rule refuses it; behind several inexact operators, which no rule is about,
    if it differs and the faulty operator breaks its own rule. If no operator of the run is at the place
    of the fault, or has regions, it is wrong if it is grossly so.
    """
    graph, backend = fault.program(), fault.backend()
    breaks_rule: bool | None = None

    def watched(at: At, results: list[Value]) -> list[Value]:
        nonlocal breaks_rule
        right = deepcopy(results)
        changed = list(original(at, results))
        found = _breaks_rule(at, right, changed)
        if found is not None:
            breaks_rule = breaks_rule or found
        return changed

    original = backend.operator
    backend.operator = watched  # type: ignore[method-assign]
    for arrays in inputs:
        breaks_rule = None
        try:
            right, wrong = (_run(machine, graph, arrays) for machine in (FaultyMachine(), backend))
        except TosaConvertError:
            continue  # TOSA does not define what these inputs give
        for key, expected in right.items():
            found = wrong[key]
            dtype = _dtype(graph, key)
            if found.dtype != expected.dtype or found.shape != expected.shape:
                return True
            if same_values(numbers(found, dtype), numbers(expected, dtype)).all():
                continue
            if _is_wrong(graph, arrays, key, expected, found, breaks_rule=breaks_rule):
                return True
    return False


def _run(machine: FaultyMachine, graph: Graph, arrays: Inputs) -> dict[str, Array]:
    names = list(dict.fromkeys(graph.main.outputs))
    return dict(machine.compute(graph, names, arrays, [], Path()))


def _dtype(graph: Graph, key: str) -> DType:
    name = key.removeprefix(STATE_PREFIX)
    tensors = graph.main.tensors
    if name in tensors:
        return tensors[name].dtype
    found = [t.dtype for t in tensors.values() if t.variable_name == name]
    return found[0] if found else tensors[name.removesuffix("/scale")].dtype


def _is_wrong(
    graph: Graph,
    arrays: Inputs,
    key: str,
    expected: Array,
    found: Array,
    *,
    breaks_rule: bool | None,
) -> bool:
    rule = rules(graph).get(key)
    if rule == EXACT:
        return True
    if rule is not None:
        return _refused(rule, extract(graph, [key]), arrays, key, found)
    if breaks_rule is not None:
        return breaks_rule
    dtype = _dtype(graph, key)
    wide, other = numbers(expected, dtype), numbers(found, dtype)
    with np.errstate(all="ignore"):
        error = np.nan_to_num(np.abs(wide - other), nan=np.inf)
        return bool(error.max() > _GROSS * max(np.nanmax(np.abs(wide)), 1e-30))


def _refused(rule: Rule, part: Graph, arrays: Inputs, key: str, found: Array) -> bool:
    dtype = part.main.tensors[key].dtype
    given = {name: arrays[name] for name in arrays if name.split("/")[0] in part.main.inputs}
    if rule.kind == "steps":
        (right,) = compute(part, given, RunOptions()).outputs.values()
        return bool((np.abs(right.astype(float) - found.astype(float)) > rule.amount).any())
    precise = compute(part, given, RunOptions(precise=True, bounds=True))
    bounds = precise.bounds.get(key)
    return not rule.accepts(found, precise.outputs[key], bounds, dtype).all()


def _breaks_rule(at: At, results: list[Value], changed: list[Value]) -> bool | None:
    """Return whether results are not what the rule of their operator permits for its operands.

    None if they are the right ones, so that a fault is elsewhere.
    """
    block, op = at.block, at.op
    if op.spec.regions:
        return None
    is_same = True
    for name, right, found in zip(op.outputs, results, changed, strict=True):
        rule, dtype = rule_of(block, op, name), block.tensors[name].dtype
        if isinstance(right, Scaled) or isinstance(found, Scaled):
            assert isinstance(right, Scaled)
            assert isinstance(found, Scaled)
            pairs = zip(right, found, strict=True)
            if any((a.view(np.uint8) != b.view(np.uint8)).any() for a, b in pairs):
                return True
            continue
        if same_values(numbers(right, dtype), numbers(found, dtype)).all():
            continue
        is_same = False
        if rule is None or rule == EXACT:
            return True
        tensors = {
            operand: value
            for operand, value in zip(op.inputs, at.operands, strict=True)
            if operand in block.tensors and block.tensors[operand].data is None
        }
        own = Region(at.machine.graph.regions[0].name, [block])
        part = extract(Graph(at.machine.graph.version, [own]), [name], list(tensors))
        arrays: dict[str, Array] = {}
        for operand, value in tensors.items():
            if isinstance(value, Scaled):
                arrays |= {operand: value.data, f"{operand}/scale": value.scale}
            else:
                arrays[operand] = value
        if _refused(rule, part, arrays, name, found):
            return True
    return None if is_same else False
