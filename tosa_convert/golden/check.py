"""Check a model against a backend: run both, then compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.array_io import SCALE_SUFFIX, Array, Lazy, slots
from tosa_convert.golden.backends import Record, Runner, typed
from tosa_convert.golden.compare import Comparison, Judge, Tolerances, compare
from tosa_convert.golden.runner import TIMEOUT, output_slots, run, session
from tosa_convert.golden.tolerance_rules import EXACT, Rule, rules
from tosa_convert.graph.dtypes import BLOCK_SCALE
from tosa_convert.graph.extract import extract
from tosa_convert.graph.model import Graph, operator_path


def check(
    graph: Graph,
    backend: Runner | Record,
    inputs: Mapping[str, Array],
    *,
    tolerances: Tolerances | None = None,
    timeout: float = TIMEOUT,
) -> Comparison:
    """Compare the reference model's outputs with the backend's.

    inputs: an array for each input, as `match` returns them.
    Raises TosaConvertError if either does not run.
    """
    golden = run(graph, inputs, timeout=timeout).outputs
    judges, notes = judges_for(graph, list(golden), inputs, tolerances, timeout=timeout)
    with session() as folder:
        if isinstance(backend, Record):
            found: Mapping[str, Array] = _of_outputs(graph, backend, inputs)
        else:
            names = list(dict.fromkeys(graph.main.outputs))
            found = backend.compute(graph, names, inputs, [], folder)
        return compare(
            golden,
            found,
            tolerances=tolerances,
            judges=judges,
            origins=origins(graph),
            notes=notes,
        )


def _of_outputs(graph: Graph, backend: Record, inputs: Mapping[str, Array]) -> Lazy:
    """What was left of the outputs, and what is no tensor of the model at all."""
    known = {slot.key: slot for slot in output_slots(graph)}
    # Inputs and intermediates that a folder holds as well are bisect's business.
    own = {name for op in graph.main.operators for name in op.outputs}
    own |= {name + SCALE_SUFFIX for name in own} | set(inputs)
    keys = [key for key in backend.arrays if key in known or key not in own]
    return typed(Lazy(keys, backend.arrays.__getitem__), known)


def origins(graph: Graph) -> dict[str, tuple[str, str]]:
    """Operator and location by tensor of the main block."""
    found = {}
    for index, op in enumerate(graph.main.operators):
        for name in op.outputs:
            found[name] = (operator_path("", index, op).strip(), op.location)
            found[name + SCALE_SUFFIX] = found[name]
    return found


def judges_for(
    graph: Graph,
    names: list[str],
    inputs: Mapping[str, Array],
    tolerances: Tolerances | None = None,
    known: Mapping[str, Rule] | None = None,
    *,
    timeout: float = TIMEOUT,
) -> tuple[dict[str, Judge], tuple[str, ...]]:
    """TOSA's rules for those of the tensors that have one, with the exact results they need.

    known: the rules by tensor, if the caller has them. Where the precise run is refused, the notes
    say so and the tensors get a tolerance.
    """
    found = dict(known) if known is not None else rules(graph)
    block = graph.main
    judges: dict[str, Judge] = {}
    inexact: list[str] = []
    for key in names:
        name = key if key in block.tensors else key.removesuffix(SCALE_SUFFIX)
        rule = found.get(name)
        if rule is None or name not in block.tensors or (tolerances and tolerances.names(key)):
            continue
        if key != name:
            judges[key] = Judge(EXACT, BLOCK_SCALE)  # all rules are about values: scales are exact
        elif rule == EXACT or rule.kind == "steps":
            judges[key] = Judge(rule, block.tensors[name].dtype)
        else:
            inexact.append(name)
    if not inexact:
        return judges, ()
    operands = {
        name: op.inputs[0]
        for op in block.operators
        for name in op.outputs
        if name in inexact and found[name].kind == "max-relative" and op.spec.name == "RESIZE"
    }
    part = extract(graph, list(dict.fromkeys((*inexact, *operands.values()))))
    given = {s.key: inputs[s.key] for name in part.main.inputs for s in slots(block, name)}
    try:
        exact = run(part, given, bounds=True, timeout=timeout)
    except TosaConvertError as error:
        note = f"no accuracy rules, for the precise run failed: {error.findings[0].message}"
        return judges, (note,)
    for name in inexact:
        rule = found[name]
        if name in operands:
            size = np.abs(exact.outputs[operands[name]])
            rule = replace(rule, largest=float(size.max(initial=0.0, where=np.isfinite(size))))
        judges[name] = Judge(
            rule, block.tensors[name].dtype, exact.outputs[name], exact.bounds[name]
        )
    return judges, ()
