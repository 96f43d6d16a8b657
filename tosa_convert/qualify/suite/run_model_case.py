"""Run the suite of models of frameworks: each lowered, exported and compared with its framework."""

from __future__ import annotations

import functools
import math
import os
import shlex
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.formats.write import dumps, stamp
from tosa_convert.frontends.lower_model import WANTED, FrontendOptions, Lowered, lowered
from tosa_convert.frontends.process.request import CONSTANTS
from tosa_convert.frontends.process.run import packages_of, server_of
from tosa_convert.frontends.table import FRONTENDS, missing, recognize
from tosa_convert.frontends.unlowered import operator_and_count
from tosa_convert.golden.accuracy.comparison import Comparison
from tosa_convert.golden.accuracy.criteria import FLOATING_POINT, Tolerances
from tosa_convert.golden.arrays import Array, Arrays, narrowed, save_npz, scratch_folder
from tosa_convert.golden.backends.process import KeptWorkers, Machine, of_software
from tosa_convert.golden.backends.runners import Record
from tosa_convert.golden.checking.check import Reference
from tosa_convert.golden.models.compare_model import as_slot, compare_model
from tosa_convert.golden.running.programs import input_slots, output_slots, shapes_of_inputs
from tosa_convert.golden.running.run_options import RunOptions
from tosa_convert.graph.model import Graph, counted
from tosa_convert.io import log
from tosa_convert.io.options import Narrow, ReadOptions
from tosa_convert.qualify.suite.answers import Answer, Status, Verdict, nearby, used_by
from tosa_convert.qualify.suite.engine import Plan
from tosa_convert.qualify.suite.html_table import Page, Table
from tosa_convert.qualify.suite.model_cases import (
    DATA_SETS,
    NODE_TEST_MODEL,
    Cases,
    NoTensorError,
    OnnxModel,
    files_of_model,
    inputs_of,
    is_node_test,
    read_model,
    read_tensor,
    short_name,
    source_of,
)

# -- A test of ONNX: a model, its inputs, and the outputs that ONNX expects ------------------------

#: The relative tolerance of ONNX's own runner. Its absolute one is smaller; a sum of FP32 needs this.
_RTOL: Final = 1e-3
_ATOL: Final = 1e-5
#: The relative tolerance for elements of 16 bits: the last bit of BF16.
_RTOL_16_BITS: Final = 4e-3
#: The pattern of all tensors; integers must be equal.
_ALL: Final = "*"
#: Operators whose first input is a size or a condition.
_SIZES_FIRST: Final = frozenset(
    {
        *("ConstantOfShape", "Range", "If", "Loop", "MelWeightMatrix"),
        *("BlackmanWindow", "HammingWindow", "HannWindow"),
    }
)


@dataclass(frozen=True, slots=True)
class NodeTest:
    """Hold a test that was read. inputs: by name, in order. outputs: in order."""

    path: Path
    model: OnnxModel
    inputs: dict[str, Array]
    outputs: list[Array]

    def constants(self) -> dict[str, Array]:
        """Return the inputs that can only be constants in TOSA: sizes, axes and the like.

        These are the inputs of rank 0 and 1; the first input is one only if it is a size or a condition
        of an operator.
        """
        first_too = bool(_SIZES_FIRST.intersection(self.model.operators))
        return {
            name: array
            for index, (name, array) in enumerate(self.inputs.items())
            if (index or first_too) and array.ndim <= 1
        }


def operator_of(folder: Path) -> str:
    """Return what a test tests: its operator, or "several"."""
    kinds = set(read_model(folder / NODE_TEST_MODEL).operators)
    return kinds.pop() if len(kinds) == 1 else "several"


def read_node_test(folder: Path) -> NodeTest:
    """Read the test of a folder, with its first set of inputs and outputs."""
    path = folder / NODE_TEST_MODEL
    model = read_model(path)
    if model.not_tensors:
        raise NoTensorError("; ".join(model.not_tensors))
    data = min(folder.glob(DATA_SETS))
    given, expected = _arrays(data, "input"), _arrays(data, "output")
    for what, arrays, names in (
        ("inputs", given, model.inputs),
        ("outputs", expected, model.outputs),
    ):
        if len(arrays) != len(names):
            message = f"it has {len(arrays)} {what}, the model has {len(names)}"
            raise fail("file-error", str(data), message)
    return NodeTest(path, model, dict(zip(model.inputs, given, strict=True)), expected)


def _arrays(folder: Path, what: str) -> list[Array]:
    count = len(list(folder.glob(f"{what}_*.pb")))
    return [read_tensor(folder / f"{what}_{index}.pb") for index in range(count)]


def compare_node_test(
    test: NodeTest, graph: Graph, constants: Iterable[str], timeout: float
) -> Comparison:
    """Compare what a test's program gives on the reference model with what ONNX expects."""
    left = set(constants)
    given = [array for name, array in test.inputs.items() if name not in left]
    slots, results = input_slots(graph), output_slots(graph)
    if len(given) != len(slots) or len(test.outputs) != len(graph.main.outputs):
        message = (
            f"the program has {counted(len(slots), 'input')} and "
            f"{counted(len(graph.main.outputs), 'output')}, the test {len(given)} and "
            f"{len(test.outputs)}"
        )
        raise fail("frontend-failed", "onnx", message, "please report it")
    inputs = {s.key: as_slot(array, s) for s, array in zip(slots, given, strict=True)}
    by_key = {slot.key: slot for slot in results}
    expected = {
        name: narrowed(array, np.dtype(by_key[name].dtype.numpy))
        for name, array in zip(graph.main.outputs, test.outputs, strict=True)
    }
    short = [
        name
        for name, array in expected.items()
        if array.dtype.itemsize == 2 and array.dtype.kind not in "iub"
    ]
    tolerances = Tolerances(
        atol=((_ALL, 0.0), (FLOATING_POINT, _ATOL)),
        rtol=((_ALL, 0.0), (FLOATING_POINT, _RTOL), *((name, _RTOL_16_BITS) for name in short)),
    )
    reference = Reference(graph, inputs, RunOptions(timeout=timeout), tolerances)
    return reference.check(Record("the test", expected))


@dataclass(frozen=True, slots=True)
class ModelAnswer(Answer):
    """Hold what became of a case.

    The status is "pass"; "wrong" if an output differs; "refused" if it does not lower, or cannot be
    written; "crashed" if the converter ended or took too long; "not-run" for what this machine or TOSA
    does not have; "error" if the outputs could not be compared. `operator` is what the case tests,
    `types` its frontend.
    lowered: the converter made a program. exported: it was written as a flatbuffer. operators: of the
        program's main block. largest_error: the largest difference of an element from the framework's;
        None if unknown. not_lowered: operator -> how often it occurs in the model. constants: inputs of
        a node test that became constants.
    """

    lowered: bool = False
    exported: bool = False
    operators: int = 0
    largest_error: float | None = None
    not_lowered: Mapping[str, int] = field(default_factory=dict)
    constants: int = 0

    @property
    def equal(self) -> bool:
        """Return whether the program gives what the framework gives."""
        return self.status == "pass"

    def further(self) -> dict[str, Any]:
        names = ("lowered", "exported", "equal", "operators", "largest_error", "not_lowered")
        return {name: getattr(self, name) for name in (*names, "constants")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Say how cases are run.

    frontends: names of the table of frontends. python: the Python that has the frameworks; by default
        this one. narrow: element types to convert. timeout: seconds for one run of a converter, a
        framework or the reference model.
    """

    frontends: tuple[str, ...]
    python: str = ""
    narrow: tuple[Narrow, ...] = ()
    timeout: float = 60.0

    def require_packages(self) -> None:
        """Raise TosaConvertError("frontend-missing") if a frontend cannot run, before the first case."""
        findings = [
            finding
            for found in packages_of(self.frontends, self.python, self.timeout)
            for finding in missing(FRONTENDS[found.frontend], found.missing, self.python)
        ]
        if findings:
            raise TosaConvertError(findings)


def run_model_case(root: str, name: str, *, settings: Settings) -> ModelAnswer:
    """Run one case, from the model to the verdict; every failure is an answer."""
    start = time.monotonic()
    kind, source = source_of(Path(root), name)
    path = Path(source)
    group = short_name(name)
    try:
        if is_node_test(path):
            group = operator_of(path)
            found = _node_test(name, path, settings)
        else:
            found = _model(name, source, settings)
    except TosaConvertError as error:
        found = ModelAnswer(name, "error", str(error))
    return replace(found, operator=group, types=kind, seconds=round(time.monotonic() - start, 3))


def _model(name: str, source: str, settings: Settings) -> ModelAnswer:
    machine = Machine(settings.python or sys.executable, settings.timeout, _KEPT)

    def compare(found: Lowered) -> Comparison:
        beside = inputs_of(Path(source), shapes_of_inputs(found.graph))
        return compare_model(
            found.graph,
            name.partition("/")[0],
            found.model,
            given={},
            examples={**found.examples, **beside},
            seed=None,
            machine=machine,
        )

    found = _one(name, source, settings, compare, options=WANTED)
    return replace(found, **used_by(machine.used))


def _node_test(name: str, folder: Path, settings: Settings) -> ModelAnswer:
    """Run a test of ONNX as it is, and if it does not lower, with sizes and axes as constants."""
    try:
        test = read_node_test(folder)
    except NoTensorError as error:
        return ModelAnswer(name, "not-run", f"TOSA has no such value: {error}")
    found = _attempt(name, test, {}, settings)
    if found.lowered and found.status in ("pass", "wrong"):
        return found
    if constants := test.constants():
        again = _attempt(name, test, constants, settings)
        came_further = again.lowered > found.lowered or found.status == "crashed"
        if again.status in ("pass", "wrong") or came_further:
            return replace(again, constants=len(constants))
    return found


def _attempt(name: str, test: NodeTest, constants: Arrays, settings: Settings) -> ModelAnswer:
    shapes: dict[str, tuple[int | str, ...]] = {
        key: array.shape
        for key, array in test.inputs.items()
        if key in test.model.open_inputs and key not in constants
    }
    with scratch_folder() as scratch:
        options: dict[str, str] = {}
        if constants:
            path = scratch / "constants.npz"
            save_npz(path, {key: _storable(array) for key, array in constants.items()})
            options = {CONSTANTS: str(path)}
        return _one(
            name,
            str(test.path),
            settings,
            lambda found: compare_node_test(test, found.graph, constants, settings.timeout),
            shapes=shapes,
            options=options,
        )


#: Of this worker process, or thread of it.
_KEPT: Final = KeptWorkers()
#: Returns the process that imports a frontend once for all cases.
_server: Final = functools.cache(server_of)


def _storable(array: Array) -> Array:
    return array.view(f"V{array.dtype.itemsize}") if array.dtype.kind == "V" else array


def _one(
    name: str,
    source: str,
    settings: Settings,
    compare: Callable[[Lowered], Comparison],
    *,
    shapes: Mapping[str, tuple[int | str, ...]] | None = None,
    options: Mapping[str, str] | None = None,
) -> ModelAnswer:
    answer = ModelAnswer(name, "error")
    wanted = FrontendOptions(
        python=settings.python,
        timeout=settings.timeout,
        read=ReadOptions(narrow=settings.narrow, input_shapes=dict(shapes or {}), copy=True),
        options=options or {},
        server=_server(name.partition("/")[0], settings.python),
    )
    try:
        model = recognize(source)
        if model is None:
            raise fail("unrecognised-input", source, "no frontend reads it")
        with log.warnings_off(), lowered(model, wanted) as found:
            answer = replace(answer, lowered=True, operators=len(found.graph.main.operators))
            dumps(stamp(found.graph), "tosa")
            answer = replace(answer, exported=True)
            result = compare(found)
    except TosaConvertError as error:
        rows = filter(None, map(operator_and_count, error.findings))
        status = _status(error, is_exported=answer.exported)
        return replace(answer, status=status, message=str(error), not_lowered=dict(rows))
    return replace(
        answer,
        status="pass" if result.ok else "wrong",
        message=result.what_is_wrong,
        outputs=len(result.tensors),
        low_precision=result.low_precision,
        largest_error=_largest_error(result),
    )


def _status(error: TosaConvertError, *, is_exported: bool) -> Status:
    code = error.code
    if code in ("frontend-missing", "missing-backend", "missing-refmodel"):
        return "not-run"
    if code == "frontend-failed":
        return "crashed"
    return "error" if is_exported else "refused"


def _largest_error(result: Comparison) -> float | None:
    """Return the largest absolute error, or None if an element differs from every number."""
    errors = [row.needed_atol for row in result.tensors if not row.problem]
    largest = max(errors, default=None) if len(errors) == len(result.tensors) else None
    return largest if largest is not None and math.isfinite(largest) else None


# -- the suite: its plan, and what it reports ------------------------------------------------------

_COUNTS: Final = (
    "{passed} of {cases} cases are equal ({wrong} differ, {refused} do not lower, {crashed} crash "
    "the converter, {not_run} not run, {errors} not judged)"
)


def model_plan(cases: Cases, settings: Settings) -> Plan:
    """Return the plan that lowers models and compares them with their frameworks."""
    settings.require_packages()
    return Plan(
        names=cases.names,
        header={
            "folder": str(cases.root),
            "python": settings.python,
            "narrow": list(settings.narrow),
        },
        decides={"timeout": settings.timeout, "software": of_software(settings.python)},
        files=functools.partial(files_of_model, str(cases.root)),
        run_case=functools.partial(run_model_case, str(cases.root), settings=settings),
        counts=_COUNTS,
        skipped=frozenset(),
        kind=ModelAnswer,
        page=functools.partial(_page, cases.root, settings),
    )


def _page(root: Path, settings: Settings, run: Verdict) -> Page:
    def place(answer: Answer) -> Path:
        _, source = source_of(root, answer.case)
        path, colon, _ = source.rpartition(":")
        return Path(path if colon and path.endswith(".py") else source)

    return Page(
        title="Models of frameworks in TOSA",
        about=f"frontends: {', '.join(settings.frontends)}",
        rows="case or operator",
        columns="a frontend",
        links=lambda answer: [("case", place(answer))],
        command=lambda answer: _command(root, settings, answer),
        tables=tables([one for one in run.answers if isinstance(one, ModelAnswer)]),
        folders=(root,),
    )


def _command(root: Path, settings: Settings, answer: Answer) -> str:
    kind, source = source_of(root, answer.case)
    words = ["tosa-flatbuffer", "suite", nearby(source.replace("/", os.sep)), "--frontends", kind]
    if settings.narrow:
        words += ["--narrow", ",".join(settings.narrow)]
    if settings.python:
        words += ["--python", settings.python]
    return shlex.join(words)


def tables(answers: Sequence[ModelAnswer]) -> tuple[Table, ...]:
    return (
        Table(
            title="How far each came",
            head=(
                *("case or operator", "frontend", "cases", "lowered", "exported", "equal"),
                *("largest error", "seconds"),
            ),
            rows=tuple(table_rows(answers)),
            numbers=range(2, 8),
        ),
        Table(
            title="What does not lower",
            head=("does not lower", "cases", "times", "frontends"),
            rows=tuple(unlowered_rows(answers)),
            numbers=(1, 2),
            characters=60,
        ),
        Table(title="Not judged", head=("not judged", "why"), rows=tuple(not_judged_rows(answers))),
    )


def table_rows(answers: Iterable[ModelAnswer]) -> Iterator[tuple[str, ...]]:
    """Iterate over the rows of cases or operators by frontend. Cases that were not run count nowhere."""
    groups: dict[tuple[str, str], list[ModelAnswer]] = defaultdict(list)
    for answer in answers:
        if answer.status != "not-run":
            groups[answer.operator, answer.types].append(answer)
    for (group, kind), rows in sorted(groups.items()):
        errors = [row.largest_error for row in rows if row.largest_error is not None]
        yield (
            group,
            kind,
            str(len(rows)),
            str(sum(row.lowered for row in rows)),
            str(sum(row.exported for row in rows)),
            str(sum(row.equal for row in rows)),
            f"{max(errors):.2g}" if errors else "",
            f"{sum(row.seconds for row in rows):.1f}",
        )


def unlowered_rows(answers: Iterable[ModelAnswer]) -> Iterator[tuple[str, ...]]:
    """Iterate over the operators that do not lower, those of most cases first."""
    cases: Counter[str] = Counter()
    times: Counter[str] = Counter()
    frontends: dict[str, set[str]] = defaultdict(set)
    for answer in answers:
        for operator, count in answer.not_lowered.items():
            cases[operator] += 1
            times[operator] += count
            frontends[operator].add(answer.types)
    for name in sorted(cases, key=lambda name: (-cases[name], -times[name], name)):
        yield name, str(cases[name]), str(times[name]), ", ".join(sorted(frontends[name]))


def not_judged_rows(answers: Iterable[ModelAnswer]) -> Iterator[tuple[str, str]]:
    """Iterate over the cases that were not judged, and why."""
    for answer in answers:
        if answer.status == "error":
            lines = answer.message.strip().splitlines() or [""]
            yield answer.case, lines[-1 if lines[0].startswith("Traceback") else 0]
