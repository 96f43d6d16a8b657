"""The public function `check`: run a program on the reference model and on a backend, and compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.array_io import SCALE_SUFFIX, slots
from tosa_convert.golden.arrays import Array, LazyArrays
from tosa_convert.golden.backends import Backend, Record, open_backend, with_slot_types
from tosa_convert.golden.comparison import (
    NO_TOLERANCES,
    Comparison,
    ToleranceCheck,
    Tolerances,
    compare,
)
from tosa_convert.golden.operator_rules import rules
from tosa_convert.golden.programs import AS_IT_IS, Program, as_graph, input_arrays, output_slots
from tosa_convert.golden.reference_model import (
    TIMEOUT,
    RunOptions,
    run_graph,
    run_program,
)
from tosa_convert.golden.scratch import scratch_folder
from tosa_convert.golden.tolerance_rules import EXACT, Rule
from tosa_convert.graph.dtypes import BLOCK_SCALE
from tosa_convert.graph.extract import extract
from tosa_convert.graph.model import Graph, operator_path
from tosa_convert.options import ReadOptions


def check(
    program: Any,
    against: str | Mapping[str, Array] | Backend,
    inputs: Mapping[str, Any] | None = None,
    *,
    random: int | None = None,
    tolerances: Tolerances = NO_TOLERANCES,
    timeout: float = TIMEOUT,
    read: ReadOptions = AS_IT_IS,
) -> Comparison:
    """Compare a program's outputs on the reference model with those of a backend.

    Integers are compared bit for bit; floating point by TOSA's accuracy rule for the operator where
    one applies, else within a tolerance.

    Args:
        program: anything that `golden.run` takes.
        against: a backend from `golden.open_backend`, the text that names one, or arrays by name.
        inputs: an array for each input, by name, in exactly its element type and shape.
        random: a seed, 0 or more, for inputs that are not given.
        tolerances: for tensors by name, instead of the rules.
        timeout: seconds for one run of either.
        read: how to read a file or module.

    Returns:
        The comparison; its `ok` says whether all outputs agree.

    Raises:
        TosaConvertError: as `golden.run`; `missing-backend` and `backend-failed`.

    Example:
        >>> from tosa_convert import golden
        >>> graph = golden.generate(seed=2, operators=3, kinds=["ABS"])
        >>> answer = golden.run(graph, random=1).outputs
        >>> golden.check(graph, answer, random=1).ok
        True
    """
    graph = as_graph(program, read)
    arrays = input_arrays(graph, inputs, random)
    backend = as_backend(against, graph, arrays, timeout)
    options = RunOptions(timeout=timeout)
    golden = run_graph(graph, arrays, options)
    checks, notes = tolerance_checks(graph, list(golden), arrays, tolerances, options=options)
    with scratch_folder() as folder:
        if isinstance(backend, Record):
            actual: Mapping[str, Array] = _recorded_outputs(graph, backend, arrays)
        else:
            names = list(dict.fromkeys(graph.main.outputs))
            actual = backend.compute(graph, names, arrays, [], folder)
        return compare(
            golden,
            actual,
            tolerances=tolerances,
            checks=checks,
            origins=origins(graph),
            notes=notes,
        )


def as_backend(
    against: str | Mapping[str, Array] | Backend,
    graph: Graph,
    inputs: Mapping[str, Array],
    timeout: float,
) -> Backend:
    """A backend of any form that `check` and `bisect` take."""
    if isinstance(against, str):
        return open_backend(against, graph, inputs, timeout=timeout)
    return Record("arrays", against) if isinstance(against, Mapping) else against


def _recorded_outputs(graph: Graph, backend: Record, inputs: Mapping[str, Array]) -> LazyArrays:
    """The recorded outputs, and recorded arrays that are not tensors of the model.

    Recorded inputs and intermediates are for `bisect`.
    """
    outputs = {slot.key: slot for slot in output_slots(graph)}
    computed = {name for op in graph.main.operators for name in op.outputs}
    others = computed | {name + SCALE_SUFFIX for name in computed} | set(inputs)
    keys = [key for key in backend.arrays if key in outputs or key not in others]
    return with_slot_types(LazyArrays(keys, backend.arrays.__getitem__), outputs)


def origins(graph: Graph) -> dict[str, tuple[str, str]]:
    """Operator and location by tensor of the main block."""
    result = {}
    for index, op in enumerate(graph.main.operators):
        for name in op.outputs:
            result[name] = (operator_path("", index, op).strip(), op.location)
            result[name + SCALE_SUFFIX] = result[name]
    return result


def tolerance_checks(
    graph: Graph,
    keys: list[str],
    inputs: Mapping[str, Array],
    tolerances: Tolerances = NO_TOLERANCES,
    tensor_rules: Mapping[str, Rule] | None = None,
    *,
    options: RunOptions,
) -> tuple[dict[str, ToleranceCheck], tuple[str, ...]]:
    """TOSA's rules for those of the arrays that have one, with the exact results that they need.

    tensor_rules: the rules by tensor, if the caller has them.
    Returns the checks by key, and notes: if the precise run is refused, a note says so and the
    tensors are compared within a tolerance.
    """
    all_rules = rules(graph) if tensor_rules is None else tensor_rules
    block = graph.main
    checks: dict[str, ToleranceCheck] = {}
    inexact: dict[str, Rule] = {}
    for key in keys:
        name = key if key in block.tensors else key.removesuffix(SCALE_SUFFIX)
        rule = all_rules.get(name)
        if rule is None or name not in block.tensors or tolerances.names(key):
            continue
        if key != name:
            # All rules are about values: scales are exact.
            checks[key] = ToleranceCheck(EXACT, BLOCK_SCALE)
        elif rule == EXACT or rule.kind == "steps":
            checks[key] = ToleranceCheck(rule, block.tensors[name].dtype)
        else:
            inexact[name] = rule
    if not inexact:
        return checks, ()
    try:
        return checks | _inexact_checks(graph, inexact, inputs, options), ()
    except TosaConvertError as error:
        if not error.code.startswith("refmodel-"):
            raise
        note = (
            f"accuracy rules were not applied: the precise run failed: {error.findings[0].message}"
        )
        return checks, (note,)


def _inexact_checks(
    graph: Graph, inexact: Mapping[str, Rule], inputs: Mapping[str, Array], options: RunOptions
) -> dict[str, ToleranceCheck]:
    """Checks by rules that refer to the exact result, which a run in FP64 computes."""
    block = graph.main
    operands = {
        name: op.inputs[0]
        for op in block.operators
        for name in op.outputs
        if name in inexact and inexact[name].kind == "max-relative" and op.spec.name == "RESIZE"
    }
    part = extract(graph, list(dict.fromkeys((*inexact, *operands.values()))))
    given = {s.key: inputs[s.key] for name in part.main.inputs for s in slots(block, name)}
    exact = run_program(Program(part), given, replace(options, bounds=True))
    checks = {}
    for name, rule in inexact.items():
        if name in operands:
            size = np.abs(exact.outputs[operands[name]])
            largest = float(size.max(initial=0.0, where=np.isfinite(size)))
            rule = replace(rule, largest=largest)
        checks[name] = ToleranceCheck(
            rule, block.tensors[name].dtype, exact.outputs[name], exact.bounds[name]
        )
    return checks
