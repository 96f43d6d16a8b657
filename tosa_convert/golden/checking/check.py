"""The public function `check`: run a program on the reference model and on a backend, and compare."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tosa_convert.golden.accuracy.comparison import Comparison
from tosa_convert.golden.accuracy.user_tolerances import NO_TOLERANCES, Tolerances
from tosa_convert.golden.accuracy.verdict import judge
from tosa_convert.golden.arrays.by_name import Array, LazyArrays
from tosa_convert.golden.arrays.scratch import scratch_folder
from tosa_convert.golden.arrays.slots import SCALE_SUFFIX
from tosa_convert.golden.backends.other_model import OtherModel, refuse_same_engine
from tosa_convert.golden.backends.runners import (
    Backend,
    Record,
    open_backend,
    with_slot_types,
)
from tosa_convert.golden.running.programs import (
    AS_IT_IS,
    Program,
    as_graph,
    input_arrays,
    output_slots,
)
from tosa_convert.golden.running.run_graph import run_program
from tosa_convert.golden.running.run_options import TIMEOUT, Engine, RunOptions
from tosa_convert.golden.running.variable_states import (
    STATE_PREFIX,
    state_slots,
    variables_of,
    with_variables,
)
from tosa_convert.graph.model import Graph
from tosa_convert.io.options import ReadOptions


def check(
    program: Any,
    against: str | Mapping[str, Array] | Backend,
    inputs: Mapping[str, Any] | None = None,
    *,
    random: int | None = None,
    variables: Mapping[str, Any] | None = None,
    tolerances: Tolerances = NO_TOLERANCES,
    timeout: float = TIMEOUT,
    engine: Engine = "auto",
    read: ReadOptions = AS_IT_IS,
) -> Comparison:
    """Compare a program's outputs on the reference model with those of a backend.

    Integers are compared bit for bit; floating point by TOSA's accuracy rule for the operator where
    one applies, else by a multiple of the error that the reference model itself makes. The states of
    variables after the run are compared, too, if the backend gives them.

    Args:
        program: anything that `golden.run` takes.
        against: a backend from `golden.open_backend`, the text that names one, or arrays by name;
            `variable:NAME` is the state of a variable after the run.
        inputs: an array for each input, by name, in exactly its element type and shape.
        random: a seed, 0 or more, for inputs that are not given.
        variables: initial states by name, for both sides; the others start as the program says.
        tolerances: for tensors by name, instead of the rules.
        timeout: seconds for one run of either.
        engine: what computes the reference; see `RunOptions`.
        read: how to read a file or module.

    Returns:
        The comparison; its `ok` says whether all outputs agree.

    Raises:
        TosaConvertError: as `golden.run`; `missing-backend` and `backend-failed`; `option-conflict`
            for a tolerance whose name no output has.

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
    graph, backend = with_initial_states(graph, backend, variables or {})
    return check_outputs(
        graph, arrays, backend, tolerances, RunOptions(timeout=timeout, engine=engine)
    )


def check_outputs(
    graph: Graph,
    inputs: Mapping[str, Array],
    backend: Backend,
    tolerances: Tolerances,
    options: RunOptions,
) -> Comparison:
    """Compare the outputs and states of a program as it is; see `check`."""
    refuse_same_engine(backend, options)
    golden = reference_outputs(graph, inputs, options)
    tolerances.refuse_unmatched(golden)
    with scratch_folder() as folder:
        own, judged = folder / "backend", folder / "judged"
        own.mkdir()
        judged.mkdir()
        actual = backend_outputs(graph, inputs, backend, own)
        return compare_with(graph, inputs, golden, actual, judged, tolerances, options)


def reference_outputs(
    graph: Graph, inputs: Mapping[str, Array], options: RunOptions
) -> dict[str, Array]:
    """Run a program on the reference model; return its outputs and states."""
    result = run_program(Program(graph), inputs, options)
    states = {STATE_PREFIX + name: array for name, array in result.variables.items()}
    return {**result.outputs, **states}


def compare_with(
    graph: Graph,
    inputs: Mapping[str, Array],
    golden: Mapping[str, Array],
    actual: Mapping[str, Array],
    folder: Path,
    tolerances: Tolerances,
    options: RunOptions,
) -> Comparison:
    """Compare what a backend gives with the outputs and states of the reference model.

    folder: an empty folder for the reference model's further runs.
    """
    tolerances.refuse_unmatched(golden)
    notes = [
        f"variable {name}: not compared: {reason}"
        for name in variables_of(graph)
        if (reason := _why_not_compared(STATE_PREFIX + name, golden, actual))
    ]
    if options.uses_numpy:
        notes.append("the reference is numpy: tosa_convert.reference computed it")
    expected = {
        key: array
        for key, array in golden.items()
        if key in actual or not key.startswith(STATE_PREFIX)
    }
    return judge(
        graph,
        inputs,
        expected,
        actual,
        folder,
        tolerances=tolerances,
        options=options,
        notes=tuple(notes),
    )


def _why_not_compared(key: str, golden: Mapping[str, Array], actual: Mapping[str, Array]) -> str:
    if key not in golden:
        return "control flow uses variables, and it has no initial value: its state is not known"
    return "" if key in actual else "the backend does not give its state"


def backend_outputs(
    graph: Graph, inputs: Mapping[str, Array], backend: Backend, folder: Path
) -> Mapping[str, Array]:
    """Run a whole program on a backend; return its outputs, and its states if the backend gives them."""
    if isinstance(backend, Record):
        return _recorded_outputs(graph, backend, inputs)
    names = list(dict.fromkeys(graph.main.outputs))
    return backend.compute(graph, names, inputs, [], folder)


def as_backend(
    against: str | Mapping[str, Array] | Backend,
    graph: Graph,
    inputs: Mapping[str, Array],
    timeout: float,
) -> Backend:
    """Open a backend of any form that `check` and `bisect` take."""
    if isinstance(against, str):
        return open_backend(against, graph, inputs, timeout=timeout)
    if isinstance(against, Mapping):
        return Record("arrays", against)
    if not isinstance(against, Record) and not hasattr(against, "compute"):
        message = f"found {type(against).__name__}, expected a backend, arrays by tensor, or a text"
        raise TypeError(message)
    return against


def with_initial_states(
    graph: Graph, backend: Backend, variables: Mapping[str, Any]
) -> tuple[Graph, Backend]:
    """Return the program and the backend with other initial states of variables.

    The states are part of the program that backends get; another model has its own.
    """
    if isinstance(backend, OtherModel) and variables:
        backend = backend.of_graph(with_variables(backend.graph, variables))
    return with_variables(graph, variables), backend


def _recorded_outputs(graph: Graph, backend: Record, inputs: Mapping[str, Array]) -> LazyArrays:
    """Return the recorded outputs and states, and recorded arrays that are not tensors of the model.

    Recorded inputs and intermediates are for `bisect`.
    """
    outputs = state_slots(graph) | {slot.key: slot for slot in output_slots(graph)}
    computed = {name for op in graph.main.operators for name in op.outputs}
    others = computed | {name + SCALE_SUFFIX for name in computed} | set(inputs)
    keys = [key for key in backend.arrays if key in outputs or key not in others]
    return with_slot_types(LazyArrays(keys, backend.arrays.__getitem__), outputs)
