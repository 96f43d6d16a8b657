"""Compare a model in its framework with its program on the reference model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

import numpy as np

from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.formats.read import with_shapes
from tosa_convert.frontends.process.run import packages_of
from tosa_convert.frontends.quantisation_parameters import Scale, steps_of_outputs
from tosa_convert.frontends.table import FRONTENDS, RUNTIMES, Installed, frontend, missing
from tosa_convert.golden.accuracy.comparison import Comparison, TensorComparison
from tosa_convert.golden.accuracy.criteria import NO_TOLERANCES, is_integer
from tosa_convert.golden.accuracy.error_bounds import same_values
from tosa_convert.golden.arrays import (
    Array,
    Arrays,
    LazyArrays,
    Slot,
    match,
    scratch_folder,
)
from tosa_convert.golden.backends.process import Machine
from tosa_convert.golden.backends.runners import (
    HIDES_STATES,
    WITH_STATES,
    Record,
    call_in_a_row,
    run_original,
)
from tosa_convert.golden.checking.check import Reference, backend_outputs
from tosa_convert.golden.running.programs import (
    STATE_PREFIX,
    input_slots,
    output_slots,
    variables_of,
    with_variables,
)
from tosa_convert.golden.running.random_inputs import random_inputs
from tosa_convert.golden.running.reference_model_process import is_installed
from tosa_convert.golden.running.run_options import Engine, RunOptions
from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.model import DYNAMIC, Graph, counted
from tosa_convert.installation import install_command
from tosa_convert.io import log
from tosa_convert.rules.costs import multiply_accumulates, total

# -- elements of models for which FP32 is not enough: their framework itself errs there ------------
# A network that amplifies rounding, such as the largest of many nearly equal scores, or many
# steps of a recurrence, has elements about which no two implementations in FP32 agree. Its
# framework in FP64 shows which they are. All others are judged as before.

#: How many times as far as its framework in FP32 a program may be from the framework in FP64.
TIMES: Final = 2.0


def excused(
    found: Comparison,
    program: Arrays,
    framework: Arrays,
    exact: Arrays,
    name: str,
    compared: Callable[[dict[str, Array]], Comparison],
) -> Comparison:
    """Judge outputs that fail again, without the elements at which the framework itself errs as much."""
    failing = {
        row.name: _excusable(program[row.name], framework[row.name], exact[row.name])
        for row in found.failures
        if not row.problem and row.name in exact and exact[row.name].shape == row.shape
    }
    if not failing:
        return found
    others = {key: framework[key] for key in framework}
    for key, places in failing.items():
        others[key] = framework[key].copy()
        others[key][places] = program[key][places]
    again = {row.name: row for row in compared(others).tensors}

    def rejudged(row: TensorComparison) -> TensorComparison:
        if row.name not in failing:
            return row
        key, rest = row.name, again[row.name]
        sides = program[key], framework[key], exact[key]
        note = _note(row, rest, sides, failing[key], name)
        # What differs is what differed before; what is worst is the worst that fails.
        shown = row if rest.ok else replace(rest, differing=row.differing)
        return replace(
            shown,
            ok=rest.ok,
            failing=rest.failing,
            margin=rest.margin,
            note="; ".join(filter(None, (rest.note, note))),
        )

    return replace(found, tensors=tuple(map(rejudged, found.tensors)))


def _excusable(program: Array, framework: Array, exact: Array) -> Array:
    """Return the places at which the program is at most TIMES as far from FP64 as the framework is.

    Integers, indices and BOOL have no distance: where the framework's order of a row differs from that
    in FP64, the program may have the same elements in a third order.
    """
    same = same_values(_numbers(program), _numbers(exact))
    if is_integer(exact.dtype):
        return same | _permuted(program, framework, exact)
    ours, theirs = _distance(program, exact), _distance(framework, exact)
    # An infinite error of the framework says nothing about how far a number may be off.
    return same | (np.isfinite(theirs) & (ours <= TIMES * theirs))


def _permuted(program: Array, framework: Array, exact: Array) -> Array:
    """Return the places of a row at which the framework differs, if there all have the same elements."""
    length = exact.shape[-1] if exact.ndim else 1
    rows = [array.reshape(-1, length) for array in (program, framework, exact)]
    differs = rows[1] != rows[2]
    found = np.zeros(differs.shape, bool)
    for index in np.flatnonzero(differs.any(axis=1)):
        ours, theirs, wanted = (np.sort(row[index][differs[index]]) for row in rows)
        if np.array_equal(theirs, wanted) and np.array_equal(ours, wanted):
            found[index] = differs[index]
    return found.reshape(exact.shape)


def _numbers(array: Array) -> Array:
    return array if is_integer(array.dtype) else array.astype(np.float64)


def _distance(array: Array, other: Array) -> Array:
    """Return how far elements are apart: infinitely, if only one is finite or a number."""
    one, two = array.astype(np.float64), other.astype(np.float64)
    with np.errstate(invalid="ignore"):
        distance = np.nan_to_num(np.abs(one - two), nan=np.inf, posinf=np.inf)
    return np.where(same_values(one, two), 0.0, distance)


def _note(
    before: TensorComparison,
    after: TensorComparison,
    sides: tuple[Array, Array, Array],
    places: Array,
    name: str,
) -> str:
    """Return how many elements were accepted, why, and which of them is the worst."""
    if after.failing == before.failing and not after.ok:
        return f"{name} in FP32 is right about what fails, compared with {name} in FP64"
    distance = np.where(places, _distance(*sides[:2]), -1.0)
    worst = np.unravel_index(int(np.argmax(distance)), distance.shape)
    ours, theirs, wanted = (array[worst] for array in sides)
    count = counted(before.failing - after.failing, "element")
    return (
        f"ill-conditioned, and accepted: {count}, for which {name} in FP32 differs from {name} in FP64 "
        f"and the program at most {TIMES:g} times as much; the worst is at "
        f"{[int(index) for index in worst]}: program {ours}, {name} in FP32 {theirs}, in FP64 {wanted}"
    )


CALLS: Final = 3
#: The runtime whose models have numbers where a program has integers of a scale.
_IN_NUMBERS: Final = "torch"
#: The runtime that can compute a model of FP32 in FP64.
_IN_DOUBLE: Final = "torch"
#: The runtimes that quantise and dequantise between operators of floating point, and round sums
#: as their kernels do.
_IN_STEPS: Final = ("onnxruntime", "torch")
#: Multiply-accumulates from which "auto" is numpy here. The reference model does 3e8 in a second, and is
#: not what the program is compared with: that is the model.
_LARGE: Final = 1e9
#: How far a quantised output of torch may be from the program's.
STEPS: Final = 4.0
_NO_SCALES: Final[Mapping[str, Scale]] = {}


def compare_model(
    graph: Graph,
    name: str,
    model: str,
    *,
    given: Arrays,
    examples: Arrays,
    seed: int | None,
    machine: Machine,
    scales: Mapping[str, Scale] = _NO_SCALES,
    engine: Engine = "auto",
) -> Comparison:
    """Compare a model's outputs in its framework with those of its program on the reference model.

    A model with states is called CALLS times, and its states are compared after each call.
    """
    runtime = frontend(name).runtime
    if not runtime:
        message = f"models for {name} cannot be run here"
        raise fail("option-conflict", "--check", message, "leave it out, and use the verb check")
    static = _static(graph, {**examples, **given})
    options = RunOptions(timeout=machine.timeout, engine=_engine_for(static, engine))
    slots = input_slots(static)
    # What has another shape is not read, and is refused below.
    given, examples = (
        {
            **arrays,
            **{
                slot.key: _quantised(arrays[slot.key], scales.get(slot.key), slot.dtype)
                for slot in slots
                if slot.key in arrays and arrays[slot.key].shape == slot.shape
            },
        }
        for arrays in (given, examples)
    )
    matched = match(slots, given, complete=False)
    for slot in slots:
        if seed is None and slot.key not in matched and slot.key in examples:
            example = examples[slot.key]
            if example.shape == slot.shape and _says_something(array := as_slot(example, slot)):
                matched[slot.key] = array
    others = [slot for slot in slots if slot.key not in matched]
    inputs = {**matched, **random_inputs(static, others, seed or 0)}
    if runtime != _IN_NUMBERS:
        scales = _NO_SCALES
    if runtime in WITH_STATES and variables_of(static):
        if scales:
            message = "a quantised program with states cannot be checked"
            raise fail("option-conflict", "--check", message, "leave the option out")
        calls = [inputs, *(_other_inputs(inputs, given, number) for number in range(1, CALLS))]
        return _compare_calls(static, calls, runtime, model, machine, options)
    numbers = {
        key: scales[key].numbers(array) if key in scales else array for key, array in inputs.items()
    }
    backend = run_original(runtime, model, static, numbers, machine, is_made_of_it=True)
    if not scales:
        return _compare_numbers(static, inputs, backend, model, machine, options)
    outputs = {slot.key: slot.dtype for slot in output_slots(static)}
    steps = tuple((key, STEPS) for key in outputs if key in scales)
    if steps:
        backend.arrays = _in_integers(backend.arrays, scales, outputs)
    return Reference(static, inputs, options, replace(NO_TOLERANCES, atol=steps)).check(backend)


def _engine_for(graph: Graph, engine: Engine) -> Engine:
    if engine != "auto":
        return engine
    work = total(
        amount
        for _, block in graph.blocks()
        for operator in block.operators
        if (amount := multiply_accumulates(operator, block)) is not None
    )
    return "numpy" if work.value > _LARGE else "auto"


def _compare_numbers(
    graph: Graph, inputs: Arrays, found: Record, model: str, machine: Machine, options: RunOptions
) -> Comparison:
    """Compare outputs, and those that fail again with what the framework computes in FP64."""
    if found.name in _IN_STEPS and (sizes := steps_of_outputs(graph)):
        steps = tuple((key, STEPS * size) for key, size in sizes.items())
        return Reference(graph, inputs, options, replace(NO_TOLERANCES, atol=steps)).check(found)
    reference = Reference(graph, inputs, options)
    with scratch_folder() as folder:
        framework, compared = reference.run(found, folder)
        if found.name != _IN_DOUBLE or compared.ok:
            return compared
        try:
            double = run_original(found.name, model, graph, inputs, machine, is_double=True)
        except TosaConvertError as error:
            note = f"{found.name} did not run in FP64: {error.findings[0].message}"
            return replace(compared, notes=(*compared.notes, note))
        exact = backend_outputs(graph, inputs, double, folder)
        program = reference.outputs
        return excused(compared, program, framework, exact, found.name, reference.judge)


def _in_integers(
    arrays: Arrays, scales: Mapping[str, Scale], outputs: Mapping[str, DType]
) -> LazyArrays:
    """Return the outputs of a framework as integers, where the program has them."""
    return LazyArrays(arrays, lambda k: _quantised(arrays[k], scales.get(k), outputs.get(k)))


def _quantised(array: Array, scale: Scale | None, element: DType | None) -> Array:
    """Quantise floating-point elements with a scale; return other arrays as they are."""
    if scale is None or element is None or element.is_float or array.dtype.kind != "f":
        return array
    return scale.quantised(array, np.dtype(element.numpy))


def _other_inputs(inputs: Arrays, given: Arrays, seed: int) -> dict[str, Array]:
    """Make inputs of a further call: permute the elements of those that are not given."""
    random = np.random.default_rng(seed)
    return {
        name: array if name in given else random.permutation(array.reshape(-1)).reshape(array.shape)
        for name, array in inputs.items()
    }


def _compare_calls(
    graph: Graph,
    calls: Sequence[Arrays],
    runtime: str,
    model: str,
    machine: Machine,
    options: RunOptions,
) -> Comparison:
    """Compare the outputs of each of several calls, and the states after it.

    The reference begins each call with the framework's states: errors of one call do not count in the
    next.
    """
    found: list[Comparison] = []
    with scratch_folder() as folder:
        actual = call_in_a_row(runtime, model, graph, calls, machine=machine, folder=folder)
        program = graph
        for number, (inputs, answer) in enumerate(zip(calls, actual, strict=True), 1):
            reference = Reference(program, inputs, options)
            one, expected = reference.judge(answer), reference.outputs
            # A state that the framework does not have does not belong to the model.
            missing = {*one.missing, *(key for key in expected if key not in answer)}
            if runtime in HIDES_STATES:
                missing = {key for key in missing if not key.startswith(STATE_PREFIX)}
            found.append(_of_call(replace(one, missing=tuple(sorted(missing))), number))
            states = {}
            for key, array in expected.items():
                if key.startswith(STATE_PREFIX):
                    own = np.asarray(answer.get(key, array))
                    is_like = (own.shape, own.dtype) == (array.shape, array.dtype)
                    states[key.removeprefix(STATE_PREFIX)] = own if is_like else array
            if variables_of(graph).keys() - states.keys():
                break  # One is not known, as a note says.
            program = with_variables(graph, states)
    rows = [(one.tensors, one.missing, one.extra, one.notes) for one in found]
    return Comparison(*(tuple(chain.from_iterable(column)) for column in zip(*rows, strict=True)))


def _of_call(one: Comparison, number: int) -> Comparison:
    suffix = f" (call {number})"
    return Comparison(
        tuple(replace(row, name=row.name + suffix) for row in one.tensors),
        *(tuple(name + suffix for name in names) for names in (one.missing, one.extra, one.notes)),
    )


def as_slot(array: Array, slot: Slot) -> Array:
    """Return an array of a framework in the type that the program has for it.

    Unsigned integers keep their bits, 64-bit types are narrowed, and opaque bytes get their type.
    """
    target = np.dtype(slot.dtype.numpy)
    if array.dtype == target:
        return array
    same_size = array.dtype.itemsize == target.itemsize
    if same_size and (array.dtype.kind == "V" or (array.dtype.kind, target.kind) == ("u", "i")):
        return np.ascontiguousarray(array).view(target).reshape(array.shape)
    return array.astype(target)


def _says_something(array: Array) -> bool:
    if array.dtype.kind in "biu":
        return True
    numbers = array.astype(np.float32)
    return not array.size or bool((numbers != numbers.flat[0]).any())


def _static(graph: Graph, given: Arrays) -> Graph:
    """Return the graph with the sizes of the given arrays, and 1 for dynamic sizes of other inputs."""
    shapes: dict[str, tuple[int | str, ...]] = {}
    for name in graph.main.inputs:
        shape = graph.main.tensors[name].shape
        if shape is None or DYNAMIC not in shape:
            continue
        if name in given:
            shapes[name] = given[name].shape
        else:
            shapes[name] = tuple(1 if size == DYNAMIC else size for size in shape)
        log.warning("checked with the shape %s of %s", list(shapes[name]), name)
    return with_shapes(graph, shapes) if shapes else graph


# -- what `--check` of a model needs besides what converts it --------------------------------------

#: The extra of what converts TFLite models, and the one that also runs them and their programs.
_TFLITE: Final = "tflite"
_CHECK: Final = "check"


def require_for_check(name: str, python: str = "") -> None:
    """Refuse to go on without all that converting and comparing a model needs."""
    (found,) = packages_of([name], python)
    findings = [*missing(FRONTENDS[name], found.missing, python), *missing_for_check(found, python)]
    if FRONTENDS[name].extra == _TFLITE:  # One extra installs all of it.
        hint = f"{install_command(_CHECK, python)}, or --python PROGRAM for a Python that has it"
        findings = [
            replace(row, hint=hint) if row.code in ("frontend-missing", "missing-backend") else row
            for row in findings
        ]
    if findings:
        raise TosaConvertError(findings)


def missing_for_check(found: Installed, python: str = "") -> list[Finding]:
    """Return findings for a runtime that is missing, and for a reference model that is misnamed."""
    findings = []
    row, runtime = FRONTENDS[found.frontend], found.missing_runtime
    # What converts models may run them as well.
    if runtime and not {*RUNTIMES[row.runtime].values()} & {*found.missing}:
        where = python or sys.executable
        message = f"{runtime} is not installed in {where}, and --check runs models with it"
        hint = f"pip install {runtime}, or --python PROGRAM for a Python that has it"
        findings.append(Finding("missing-backend", row.runtime, message, hint))
    try:
        is_installed()
    except TosaConvertError as error:
        findings += error.findings
    return findings
