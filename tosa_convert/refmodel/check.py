"""Check a model against a backend: run both, then compare."""

from __future__ import annotations

from collections.abc import Mapping

from tosa_convert.errors import TosaConvertError
from tosa_convert.graph.extract import extract
from tosa_convert.graph.model import Graph, operator_path
from tosa_convert.refmodel.accuracy import EXACT, Rule, rules
from tosa_convert.refmodel.arrays import SCALE_SUFFIX, Array, slots
from tosa_convert.refmodel.backends import Record, Runner, as_slot
from tosa_convert.refmodel.compare import Comparison, Judge, Tolerances, compare
from tosa_convert.refmodel.runner import TIMEOUT, output_slots, run


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
    if isinstance(backend, Record):
        known = {slot.key: slot for slot in output_slots(graph)}
        found = {k: as_slot(known[k], v) for k, v in backend.arrays.items() if k in known}
        # Intermediates that a folder holds as well are bisect's business.
        extra = {k: v for k, v in backend.arrays.items() if k not in known}
        computed = {name for op in graph.main.operators for name in op.outputs}
        found.update({k: v for k, v in extra.items() if k not in computed and k not in inputs})
    else:
        found = backend.compute(graph, list(dict.fromkeys(graph.main.outputs)), inputs, [])
    judges, notes = judges_for(graph, list(golden), inputs, tolerances, timeout=timeout)
    return compare(
        golden,
        found,
        tolerances=tolerances,
        judges=judges,
        origins=origins(graph),
        notes=notes,
    )


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
    for name in names:
        rule = found.get(name)
        if rule is None or name not in block.tensors or (tolerances and tolerances.names(name)):
            continue
        if rule == EXACT or rule.kind == "steps":
            judges[name] = Judge(rule, block.tensors[name].dtype)
        else:
            inexact.append(name)
    if not inexact:
        return judges, ()
    part = extract(graph, inexact)
    given = {s.key: inputs[s.key] for name in part.main.inputs for s in slots(block, name)}
    try:
        exact = run(part, given, bounds=True, timeout=timeout)
    except TosaConvertError as error:
        note = f"no accuracy rules, for the precise run failed: {error.findings[0].message}"
        return judges, (note,)
    for name in inexact:
        judges[name] = Judge(
            found[name], block.tensors[name].dtype, exact.outputs[name], exact.bounds[name]
        )
    return judges, ()
