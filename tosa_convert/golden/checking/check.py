"""Check a program on the reference model and a backend: on one set of inputs, or on several."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tosa_convert import api
from tosa_convert.errors import Findings, TosaConvertError, fail, printable
from tosa_convert.golden.accuracy.comparison import Comparison, compare, in_type_of
from tosa_convert.golden.accuracy.criteria import (
    NO_TOLERANCES,
    Check,
    Criterion,
    Tolerances,
    criterion_for,
)
from tosa_convert.golden.accuracy.verdict import checks_for, origins
from tosa_convert.golden.arrays import (
    SCALE_SUFFIX,
    Array,
    Arrays,
    LazyArrays,
    OutputFolder,
    coerce,
    differing_elements,
    npz_pieces,
    scratch_folder,
    stored_arrays,
    subfolder,
)
from tosa_convert.golden.backends.isolated import (
    NUMPY,
    OtherModel,
    refuse_reader,
    refuse_same_engine,
    with_slot_types,
)
from tosa_convert.golden.backends.runners import ORIGINALS, Backend, Record, as_backend
from tosa_convert.golden.edges.edge_inputs import (
    DEFAULT_INPUTS,
    DEFAULT_SEED,
    chosen_inputs,
    find_edge_inputs,
    seeds_of_sets,
)
from tosa_convert.golden.running.programs import (
    AS_IT_IS,
    STATE_PREFIX,
    Program,
    as_graph,
    input_slots,
    result_slots,
    state_slots,
    variables_of,
    with_variables,
)
from tosa_convert.golden.running.random_inputs import Ranges, random_inputs
from tosa_convert.golden.running.run_graph import run_program
from tosa_convert.golden.running.run_options import DEFAULT_RUN, TIMEOUT, Engine, RunOptions
from tosa_convert.graph.constant import constant_of
from tosa_convert.graph.dtypes import FLOATS, FP8, FP32, DType
from tosa_convert.graph.model import Block, Graph, Operator, Region, Tensor, operator_path, quoted
from tosa_convert.graph.opset import IDENTITY
from tosa_convert.io.keywords import ReadKeywords, takes_keywords
from tosa_convert.io.options import ReadOptions
from tosa_convert.process.child import Begin
from tosa_convert.version import STAMP

if TYPE_CHECKING:
    from typing_extensions import Unpack

# -- A program with its arithmetic in FP32, in place of shorter floats -----------------------------

#: Element types that become FP32, and what texts call them.
_NARROW: Final = frozenset(row for row in (*FLOATS, *FP8) if row is not FP32)
_SHORTER: Final = f"{', '.join(row.name for row in FLOATS if row is not FP32)} and FP8"
WIDENED: Final = f"widened: both sides computed in FP32 in place of {_SHORTER}"


def widened(graph: Graph) -> Graph:
    """Return a program with FP32 in place of shorter floats, in tensors, constants and accumulators.

    Constants are converted exactly. A CAST between types that become one is an IDENTITY.
    """
    findings = Findings()
    is_any = False
    for path, block in graph.blocks():
        for tensor in block.tensors.values():
            is_any |= tensor.dtype in _NARROW
            is_of_blocks = tensor.dtype.is_float and tensor.dtype not in (*_NARROW, FP32)
            if tensor.scale is not None or is_of_blocks:
                where = f"{path} {quoted(tensor.name)}"
                findings.add("option-conflict", where, "data in blocks with scales stays as it is")
        for index, op in enumerate(block.operators):
            if op.spec.name == "CUSTOM":
                where = operator_path(path, index, op)
                findings.add("option-conflict", where, "its types cannot be changed")
    if not is_any and not findings:
        message = f"the program has no tensor of {_SHORTER}"
        findings.add("option-conflict", "--widen", message, "leave the option out")
    findings.raise_if_any()
    regions = [
        Region(region.name, [_widened_block(block) for block in region.blocks])
        for region in graph.regions
    ]
    # What was valid stays so: a violation here would be a mistake of this module.
    return api.stamp(Graph(graph.version, regions, graph.producer))


def widened_inputs(graph: Graph, inputs: Arrays) -> dict[str, Array]:
    """Return the inputs of a program in the types of the widened one. graph: before it was widened."""
    return {
        key: array.astype(np.float32) if _becomes_fp32(graph.main.tensors.get(key)) else array
        for key, array in inputs.items()
    }


def refuse_fixed(backend: Backend) -> None:
    is_model = isinstance(backend, OtherModel) and backend.text != NUMPY
    if isinstance(backend, Record) or is_model:
        name = backend.text if isinstance(backend, OtherModel) else backend.name
        message = f"{name} has results or a model of its own, whose arithmetic cannot be changed"
        hint = "name a backend that runs the program: a command, a Python file, iree or numpy"
        raise fail("option-conflict", "--widen", message, hint)


def _becomes_fp32(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.dtype in _NARROW


def _widened_block(block: Block) -> Block:
    tensors = {name: _widened_tensor(tensor) for name, tensor in block.tensors.items()}
    operators = [_widened_operator(block, op, tensors) for op in block.operators]
    names = list(block.inputs), list(block.outputs)
    return Block(block.name, *names, operators, tensors, dict(block.shapes))


def _widened_tensor(tensor: Tensor) -> Tensor:
    if not _becomes_fp32(tensor):
        return tensor
    data = tensor.data
    if data is not None:
        data = constant_of(data.numpy().astype(np.float32), FP32)
    return replace(tensor, dtype=FP32, data=data)


def _widened_operator(block: Block, op: Operator, tensors: Mapping[str, Tensor]) -> Operator:
    if op.spec.name == "CAST" and tensors[op.inputs[0]].dtype is tensors[op.outputs[0]].dtype:
        return Operator(IDENTITY, op.inputs, op.outputs, {}, op.location)
    attributes: dict[str, Any] = {}
    is_changed = bool(op.inputs) and _becomes_fp32(block.tensors.get(op.inputs[0]))
    for name, value in op.attributes.items():
        number = block.element_of(op, name) if is_changed else None
        if isinstance(value, DType) and value in _NARROW:
            attributes[name] = FP32
        elif number is not None and isinstance(value, bytes):
            data = np.array([number], "<f4").tobytes()
            attributes[name] = data + bytes(max(0, len(value) - len(data)))
        else:
            attributes[name] = value
    return Operator(op.spec, op.inputs, op.outputs, attributes, op.location)


@takes_keywords(ReadKeywords)
def check(
    program: Any,
    against: str | Mapping[str, Array] | Backend,
    inputs: Mapping[str, Any] | None = None,
    *,
    random: int | None = None,
    edges: bool = False,
    variables: Mapping[str, Any] | None = None,
    tolerances: Tolerances = NO_TOLERANCES,
    strict: bool = False,
    widen: bool = False,
    timeout: float = TIMEOUT,
    engine: Engine = "auto",
    read: ReadOptions = AS_IT_IS,
    **options: Unpack[ReadKeywords],
) -> Comparison:
    """Compare a program's outputs on the reference model with those of a backend.

    Integers are compared bit for bit; floating point by TOSA's accuracy rule for the operator where
    one applies, else by a multiple of the error that the reference model itself makes. The states of
    variables after the run are compared, too, if the backend gives them.

    Further keywords are those of `tosa_convert.load`: how a file or module is read.

    Args:
        program: anything that `golden.run` takes.
        against: a backend from `golden.open_backend`, the text that names one, or arrays by name;
            `variable:NAME` is the state of a variable after the run.
        inputs: an array for each input, by name, in exactly its element type and shape.
        random: a seed, 0 or more, for inputs that are not given; 0 if none is given, which a note says.
        edges: take `golden.edge_inputs` of that seed instead of random ones.
        variables: initial states by name, for both sides; the others start as the program says.
        tolerances: for tensors by name, instead of the rules.
        strict: fail a tensor that may err by more than a hundredth of its values; see `Tolerances`.
        widen: run the program with tensors of FP32 in place of FP16, BF16 and FP8 on both sides, so
            that smaller faults are seen.
        timeout: seconds for one run of either.
        engine: what computes the reference; see `RunOptions`.
        read: how to read a file or module, as a value.

    Returns:
        The comparison; its `ok` says whether all outputs agree.

    Raises:
        TosaConvertError: as `golden.run`; `missing-backend` and `backend-failed`; `option-conflict`
            for a tolerance whose name no output has, and for a program or a backend that cannot be
            widened.

    Example:
        >>> from tosa_convert import golden
        >>> graph = golden.generate(seed=2, operators=3, kinds=["ABS"])
        >>> answer = golden.run(graph, random=1).outputs
        >>> golden.check(graph, answer, random=1).ok
        True
    """
    graph = as_graph(program, read, options)
    if by_default := not inputs and random is None and bool(graph.main.inputs):
        random = DEFAULT_SEED
    arrays = chosen_inputs(graph, inputs, random, edges=edges, variables=variables)
    if widen:
        graph, arrays = with_variables(graph, variables or {}), widened_inputs(graph, arrays)
        graph, variables = widened(graph), {}
    backend = as_backend(against, graph, arrays, timeout)
    if widen:
        refuse_fixed(backend)
    graph, backend = with_initial_states(graph, backend, variables or {})
    tolerances = replace(tolerances, strict=tolerances.strict or strict)
    options_of_run = RunOptions(timeout=timeout, engine=engine)
    found = Reference(graph, arrays, options_of_run, tolerances).check(backend)
    refuse_reader(backend)
    notes = [DEFAULT_INPUTS] * by_default + [WIDENED] * widen
    return replace(found, notes=(*found.notes, *notes)) if notes else found


class Reference:
    """Compute what the reference gives for one set of inputs, once, and judge others by it.

    places: of each tensor the operator and its location, if they are those of a larger program.
    """

    def __init__(
        self,
        graph: Graph,
        inputs: Arrays,
        options: RunOptions = DEFAULT_RUN,
        tolerances: Tolerances = NO_TOLERANCES,
        places: Mapping[str, tuple[str, str]] | None = None,
    ) -> None:
        self.graph, self.inputs = graph, inputs
        self.options, self.tolerances = options, tolerances
        self.places = origins(graph) if places is None else places
        self._wait = self._computed

    def begin(self, begin: Begin) -> None:
        """Begin to compute the outputs, while other things are done."""
        self._wait = begin(self._computed)

    @cached_property
    def outputs(self) -> Arrays:
        """Return its outputs, and the states of variables after the run."""
        return self._wait()

    def _computed(self) -> Arrays:
        result = run_program(Program(self.graph), self.inputs, self.options)
        states = {STATE_PREFIX + name: array for name, array in result.variables.items()}
        return {**result.outputs, **states}

    def check(self, backend: Backend) -> Comparison:
        with scratch_folder() as folder:
            return self.run(backend, folder)[1]

    def run(self, backend: Backend, folder: Path) -> tuple[Arrays, Comparison]:
        """Run a backend, and judge it. folder: an empty one, from which the outputs are read."""
        refuse_same_engine(backend, self.options)
        self.tolerances.refuse_unmatched(self.outputs)
        actual = backend_outputs(self.graph, self.inputs, backend, folder)
        return actual, self.judge(actual, _notes_of(backend))

    def judge(self, actual: Arrays, notes: Sequence[str] = ()) -> Comparison:
        """Compare outputs and states. notes: for the report, of the backend."""
        graph, golden = self.graph, self.outputs
        self.tolerances.refuse_unmatched(golden)
        found = [
            f"variable {name}: not compared: {reason}"
            for name in variables_of(graph)
            if (reason := _why_not_compared(STATE_PREFIX + name, golden, actual))
        ]
        if self.options.runs_on_numpy(graph):
            found.append("the reference is numpy: it ran the program, and not the reference model")
        # A backend that names a state wrongly gives states: that of each variable is wanted then.
        states = state_slots(graph)
        is_misnamed = any(key.startswith(STATE_PREFIX) and key not in states for key in actual)
        expected = {
            key: array
            for key, array in golden.items()
            if key in actual or is_misnamed or not key.startswith(STATE_PREFIX)
        }
        return self.compare(expected, actual, (*notes, *found))

    def compare(self, golden: Arrays, actual: Arrays, notes: Sequence[str] = ()) -> Comparison:
        compared = [key for key in golden if key in actual]
        with scratch_folder() as folder:
            checks, more = self._checks(compared, golden, folder)
            return compare(
                golden,
                actual,
                tolerances=self.tolerances,
                checks=checks,
                origins=self.places,
                notes=(*notes, *more),
            )

    def _checks(
        self, keys: Iterable[str], golden: Arrays, folder: Path
    ) -> tuple[Mapping[str, Check], tuple[str, ...]]:
        given = self.graph, keys, self.inputs, golden, folder
        return checks_for(*given, self.tolerances, self.options)

    def criteria(
        self, arrays: Arrays, folder: Path
    ) -> tuple[dict[str, Criterion], tuple[str, ...]]:
        """Return what each array of the program is judged by, and notes. folder: an empty one."""
        checks, notes = self._checks(list(arrays), arrays, folder)
        found = {
            key: criterion_for(key, arrays[key].dtype, self.tolerances, checks.get(key))
            for key in arrays
        }
        return found, notes


def _notes_of(backend: Backend) -> tuple[str, ...]:
    return backend.notes if isinstance(backend, Record) else ()


def _why_not_compared(key: str, golden: Arrays, actual: Arrays) -> str:
    if key not in golden:
        return "control flow uses variables, and it has no initial value: its state is not known"
    return "" if key in actual else "the backend does not give its state"


def backend_outputs(graph: Graph, inputs: Arrays, backend: Backend, folder: Path) -> Arrays:
    """Run a whole program on a backend; return its outputs, and its states if the backend gives them."""
    if isinstance(backend, Record):
        return _recorded_outputs(graph, backend, inputs)
    return backend.compute(graph, list(dict.fromkeys(graph.main.outputs)), inputs, [], folder)


def with_initial_states(
    graph: Graph, backend: Backend, variables: Mapping[str, Any]
) -> tuple[Graph, Backend]:
    """Return the program and the backend with other initial states; another model has its own."""
    if isinstance(backend, OtherModel) and variables:
        backend = backend.of_graph(with_variables(backend.graph, variables))
    return with_variables(graph, variables), backend


def _recorded_outputs(graph: Graph, backend: Record, inputs: Arrays) -> LazyArrays:
    """Return the recorded outputs and states, and recorded arrays that are not tensors of the model."""
    outputs = result_slots(graph)
    computed = {name for op in graph.main.operators for name in op.outputs}
    others = computed | {name + SCALE_SUFFIX for name in computed} | set(inputs)
    keys = [key for key in backend.arrays if key in outputs or key not in others]
    return with_slot_types(LazyArrays(keys, backend.arrays.__getitem__), outputs)


OpenBackend = Callable[[Arrays], Backend]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPlan:
    """Say how each set of inputs is checked.

    repeat: runs of the backend on the same inputs, which must be equal bit for bit. save: a folder that
        gets a folder for each set of inputs.
    reference: another backend whose outputs are expected instead of the reference model's; they are
        compared within the tolerances, and integers bit for bit.
    """

    tolerances: Tolerances = NO_TOLERANCES
    options: RunOptions = DEFAULT_RUN
    repeat: int = 1
    save: Path | None = None
    reference: OpenBackend | None = None


def check_inputs(own: Reference, name: str, opener: OpenBackend, plan: CheckPlan) -> Comparison:
    """Check a backend on the inputs of a reference, whose run may have begun."""
    graph, inputs = own.graph, own.inputs
    backend = opener(inputs)
    if plan.repeat > 1 and isinstance(backend, Record) and backend.files is None:
        message = "recorded results cannot be computed again"
        raise fail("option-conflict", "--repeat", message, "name a backend that runs")
    if plan.reference is None:
        refuse_same_engine(backend, plan.options)
    with scratch_folder() as folder:
        actual = backend_outputs(graph, inputs, backend, subfolder(folder, "backend"))
        refuse_reader(backend)
        golden: Arrays
        if plan.reference is None:
            golden, result = own.outputs, own.judge(actual, _notes_of(backend))
        else:
            other = plan.reference(inputs)
            if isinstance(other, OtherModel):
                refuse_same_engine(backend, other.options)
            outputs = backend_outputs(graph, inputs, other, subfolder(folder, "reference"))
            refuse_reader(other)
            golden = _in_program_types(graph, outputs, other.name)
            plan.tolerances.refuse_unmatched(golden)
            notes = (*_notes_of(backend), *_notes_of(other))
            result = compare(golden, actual, tolerances=plan.tolerances, notes=notes)
        changed: dict[str, str] = {}
        for number in range(2, plan.repeat + 1):
            again = subfolder(folder, f"again{number}")
            other = opener(inputs) if isinstance(backend, Record) else backend
            further = backend_outputs(graph, inputs, other, again)
            for key in actual:
                if key not in changed and (text := _difference(actual[key], further.get(key))):
                    changed[key] = f"run {number} on the same inputs {text}"
        result = _with_changes(result, changed)
        if plan.save is not None:
            _save(graph, inputs, golden, actual, result, plan.save / name)
        return result


def _in_program_types(graph: Graph, found: Arrays, name: str) -> dict[str, Array]:
    """Return a backend's outputs in the program's types; refuse others, which two backends may share."""
    findings = Findings()
    arrays = dict(found)
    for slot in result_slots(graph).values():
        if slot.key in arrays and slot.nbytes:
            wanted = np.broadcast_to(np.zeros((), slot.dtype.numpy), slot.shape)
            arrays[slot.key], _, problem = in_type_of(wanted, arrays[slot.key])
            if problem:
                findings.add("backend-failed", f"{name}: {quoted(slot.key)}", problem)
    findings.raise_if_any()
    return arrays


def _difference(one: Array, other: Array | None) -> str:
    """Describe how another run differs, bit for bit."""
    if other is None:
        return "gives no such output"
    if one.shape != other.shape or one.dtype != other.dtype:
        return f"gives {other.dtype}{list(other.shape)}"
    count = differing_elements(one, other)
    return f"gives other values in {count} of {one.size} elements" if count else ""


def _with_changes(result: Comparison, changed: Mapping[str, str]) -> Comparison:
    rows = tuple(
        replace(row, ok=False, problem=f"nondeterministic: {changed[row.name]}")
        if row.name in changed
        else row
        for row in result.tensors
    )
    return replace(result, tensors=rows)


def _save(
    graph: Graph, inputs: Arrays, golden: Arrays, actual: Arrays, result: Comparison, folder: Path
) -> None:
    """Write a folder that `suite` runs as a case, too."""
    with OutputFolder(folder) as target:
        target.write("model.tosa", api.encode(api.stamp(graph)))
        target.write("inputs.npz", npz_pieces(inputs))
        target.write("expected.npz", npz_pieces(golden))
        # What has another shape is not read, and would be zeros.
        slots = [slot for key, slot in result_slots(graph).items() if key in actual]
        keys = [slot.key for slot in slots if actual[slot.key].shape == slot.shape]
        target.write("found.npz", npz_pieces(LazyArrays(keys, actual.__getitem__)))
        target.write("comparison.json", [result.to_json().encode() + b"\n"])


def seeded_inputs(
    graph: Graph, given: Arrays, first: int, count: int, ranges: Ranges
) -> Iterator[tuple[str, dict[str, Array]]]:
    """Iterate over random inputs of several seeds, each with its name; those that are given stay."""
    slots = input_slots(graph)
    for seed in range(first, first + count):
        yield f"seed-{seed}", {**random_inputs(graph, slots, seed, ranges), **given}


def edge_sets(
    graph: Graph, given: Arrays, first: int, count: int, ranges: Ranges, *, further: bool = False
) -> Iterator[tuple[str, dict[str, Array]]]:
    """Iterate over edge inputs of several seeds, each set with its name; those that are given stay.

    further: with the further sets that belong to a seed of a small program.
    """
    for seed in range(first, first + count):
        for own in seeds_of_sets(graph, seed) if further else (seed,):
            yield f"edges-{own}", find_edge_inputs(graph, own, given, ranges).arrays


def calibration_inputs(
    graph: Graph, path: Path, given: Arrays
) -> Iterator[tuple[str, dict[str, Array]]]:
    """Iterate over the samples of an `.npz` file whose arrays have samples as their first dimension."""
    arrays = dict(stored_arrays(path))
    slots = {slot.key: slot for slot in input_slots(graph)}
    findings = Findings()
    counts = {key: array.shape[0] for key, array in arrays.items() if array.shape}
    for key, array in arrays.items():
        where = f'{path}: "{key}"'
        if key not in slots:
            findings.add("input-mismatch", where, f"the inputs are {', '.join(slots) or 'none'}")
        elif not array.shape or array.shape[1:] != slots[key].shape:
            wanted = ", ".join(["samples", *map(str, slots[key].shape)])
            message = f"found shape {list(array.shape)}, expected [{wanted}]"
            findings.add("input-mismatch", where, message)
        elif counts[key] != next(iter(counts.values())):
            message = f"found {counts[key]} samples, and {next(iter(counts.values()))} before"
            findings.add("input-mismatch", where, message)
    if not arrays or not all(counts.values()):
        findings.add("input-mismatch", str(path), "it has no samples")
    for key in slots:
        if key not in arrays and key not in given:
            findings.add("input-mismatch", str(path), f'it has no array for the input "{key}"')
    findings.raise_if_any()
    samples = zip(*(array.rows() for array in arrays.values()), strict=True)
    for number, sample in enumerate(samples):
        own = {key: coerce(slots[key], row) for key, row in zip(arrays, sample, strict=True)}
        yield f"sample-{number}", {**given, **own}


def runs_as_json(
    results: Mapping[str, Comparison],
    more: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    is_single: bool = False,
    engine: Engine,
) -> str:
    """Return comparisons, or one without a name, as one JSON text; `more` adds to their rows."""
    rows: list[dict[str, Any]] = [
        {"run": name, **row.to_dict(), **(more or {}).get(name, {})}
        for name, row in results.items()
    ]
    if is_single:
        (content,) = rows
        del content["run"]
        content["engine"] = engine
    else:
        is_ok = all(row.ok for row in results.values()) and bool(rows)
        content = {"ok": is_ok, "engine": engine, "runs": rows}
    return json.dumps({**STAMP, **content}, indent=1, allow_nan=False)


# -- the inputs of several seeds: random ones and edge inputs --------------------------------------


def takes_edge_inputs(against: str) -> bool:
    """Return whether a backend runs on edge inputs: not recorded results, nor frameworks' models."""
    is_recorded = against.endswith(".npz") or os.path.isdir(against)
    return not is_recorded and against.partition(":")[0] not in ORIGINALS


def check_seeds(
    program: Any, against: str, count: int, note: Callable[[str], None], *, edges: bool = True
) -> dict[str, Comparison]:
    """Check a program on random inputs of the first seeds, and on their edge inputs."""
    graph = as_graph(program, AS_IT_IS)
    edges = edges and bool(input_slots(graph)) and takes_edge_inputs(against)
    results: dict[str, Comparison] = {}
    for seed in range(count):
        results[f"seed-{seed}"] = check(graph, against, random=seed)
        for own in seeds_of_sets(graph, seed) if edges else ():
            try:
                arrays = find_edge_inputs(graph, own, {}).arrays
            except TosaConvertError as error:
                note(f"no run with edge inputs: {error.findings[0].message}")
                continue
            results[f"edges-{own}"] = check(graph, against, arrays)
    return results


def bisect_command(model: str, run: str, against: str) -> str:
    """Return the command that names the operator that is wrong in a run; "" for a run of other inputs.

    run: the name of its inputs, as `check_seeds` has them.
    """
    kind, _, seed = run.partition("-")
    if kind not in ("seed", "edges") or not seed.isdecimal():
        return ""
    words = ["tosa-flatbuffer", "bisect", model, "--random", seed]
    words += ["--edges"] if kind == "edges" else []
    return printable(shlex.join([*words, "--against", against]))
