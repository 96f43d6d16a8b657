"""Find cases of programs; convert and compare them, or judge a backend on them by their own rules.

A case is a folder with an official descriptor (`desc.json`), or with a model and `inputs.npz` as
`bisect` writes them.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Final, Literal, NamedTuple

from tosa_convert import api
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.golden.accuracy.comparison import compare
from tosa_convert.golden.accuracy.criteria import NO_TOLERANCES, Tolerances
from tosa_convert.golden.arrays import (
    SCALE_FILE,
    Array,
    Arrays,
    LazyArrays,
    load_npz,
    scratch_folder,
    subfolder,
    unpacked,
    write_scratch,
)
from tosa_convert.golden.backends.isolated import (
    NUMPY,
    REFERENCE_MODEL,
    Command,
    OtherModel,
    PythonFile,
    refuse_same_engine,
    with_slot_types,
)
from tosa_convert.golden.backends.process import (
    PACKAGES,
    KeptWorkers,
    Machine,
    of_backend,
    of_file_at_hand,
    run_backend,
)
from tosa_convert.golden.backends.runners import (
    ORIGINALS,
    Backend,
    Record,
    backend_on,
    open_backend,
    open_folder,
    refuse_no_results,
)
from tosa_convert.golden.checking.check import (
    Reference,
    backend_outputs,
    check,
    edge_sets,
    seeded_inputs,
)
from tosa_convert.golden.edges.edge_inputs import seeds_of_sets
from tosa_convert.golden.running.programs import (
    Program,
    as_graph,
    input_arrays,
    input_slots,
    load_program,
    output_slots,
    result_slots,
)
from tosa_convert.golden.running.run import run
from tosa_convert.golden.running.run_options import Engine, RunOptions
from tosa_convert.graph.model import Block, Graph, Region
from tosa_convert.graph.versions import V1_0
from tosa_convert.io.files import refuse_irregular, walk, write_pieces
from tosa_convert.io.formats import Format
from tosa_convert.io.options import ReadOptions, refuse_time_limit
from tosa_convert.process.child import Used
from tosa_convert.qualify.bisection.bisect import bisect
from tosa_convert.qualify.suite.answers import (
    Answer,
    Failed,
    Outcome,
    Status,
    nearby,
    reduced,
    remove_kept,
    used_by,
)
from tosa_convert.qualify.suite.official_case import (
    OfficialCase,
    case_inputs,
    named_operator,
    operator_and_type,
    problems,
    read_case,
    run_reference,
    tested_by,
)
from tosa_convert.rules.profiles import complete
from tosa_convert.rules.public import find_violations

Via = Literal["tosa", "mlir", "mlirbc", "json"]

#: Names of the program in a case that has `inputs.npz`.
MODELS: Final = ("case.tosa", "model.tosa", "test.tosa")


def find_cases(root: Path) -> list[str]:
    """Find the cases below a folder. Return their paths in it, sorted."""
    names = [
        os.path.relpath(folder, root)
        for folder, names in walk(root)
        if "desc.json" in names or ("inputs.npz" in names and set(names) & set(MODELS))
    ]
    if not names:
        raise fail(
            "unrecognised-input",
            str(root),
            "no case below it: a folder with desc.json, or with case.tosa and inputs.npz",
        )
    return sorted(names)


def files_of_case(root: str, name: str) -> list[str]:
    """List all files of a case: those in its folder and below, but not those of further cases."""
    found: list[str] = []
    waiting = [os.path.join(root, name)]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    found.append(entry.path)
                elif not any(
                    os.path.exists(os.path.join(entry.path, mark))
                    for mark in ("desc.json", "inputs.npz")
                ):
                    waiting.append(entry.path)
    return found


def model_of(folder: Path) -> Path:
    """Find the program of a case that has `inputs.npz`. Raises TosaConvertError("file-error")."""
    for name in MODELS:
        if (folder / name).exists():
            refuse_irregular(folder / name)
            return folder / name
    raise fail("file-error", str(folder), f"cannot be read: it has none of {', '.join(MODELS)}")


def run_case(
    root: str, name: str, via: Via = "tosa", timeout: float = 60.0, engine: Engine = "auto"
) -> Answer:
    """Run one case, from the file to the verdict; an expected failure is an answer, too."""
    start = time.monotonic()
    folder, options = Path(root, name).resolve(), RunOptions(timeout=timeout, engine=engine)
    try:
        run_one = _official if (folder / "desc.json").exists() else _ours
        status, message, outputs = run_one(folder, via, options)
    except TosaConvertError as error:
        status, message, outputs = "error", str(error), 0
    return Answer(name, status, message, round(time.monotonic() - start, 4), outputs)


def convert_there_and_back(data: bytes | memoryview, via: Via) -> bytes:
    """Convert a flatbuffer into another format and back; the version it is stamped with stays."""
    graph = api.load(data)
    version = f"{graph.version.major}.{graph.version.minor}"
    if via != "tosa":
        other_format: Format = via
        other = io.BytesIO()
        write_pieces(other, api.render(graph, other_format))
        graph = api.load(other.getvalue())
        graph = api.stamp(graph, version)
    return b"".join(api.encode(graph))


def _official(folder: Path, via: Via, options: RunOptions) -> tuple[Status, str, int]:
    """Run both programs of an official case with its inputs, and compare their outputs bit for bit."""
    case = read_case(folder)
    inputs, original, refusal = dict[str, Array](), dict[str, Array](), None
    try:
        inputs = case_inputs(case)
        original = run(case.program, inputs, options).outputs
    except TosaConvertError as error:
        is_refused = error.code == "refmodel-refused" or case.is_expected_to_fail
        if not is_refused or error.code in ("file-error", "unsafe-path"):
            raise
        refusal = error
    try:
        data = convert_there_and_back(case.source.read_bytes(), via)
        with scratch_folder() as work:
            write_scratch(work / "model.tosa", [data])
            found = run(work / "model.tosa", inputs, options).outputs
    except TosaConvertError as error:
        if refusal is not None:
            return "pass", f"both are refused: {refusal.findings[0]}", 0
        status: Status = "fail" if error.code.startswith("refmodel-") else "error"
        return status, f"the converted program: {error}", 0
    if refusal is not None:
        return "fail", f"refused before the conversion, and not after it: {refusal}", 0
    different = [
        name
        for name, array in original.items()
        if name not in found or array.tobytes() != found[name].tobytes()
    ]
    if different or found.keys() != original.keys():
        return "fail", "different outputs: " + ", ".join(different), len(original)
    return "pass", "", len(original)


def _ours(folder: Path, via: Via, options: RunOptions) -> tuple[Status, str, int]:
    path = model_of(folder)
    graph = as_graph(convert_there_and_back(path.read_bytes(), via))
    inputs = load_npz(folder / "inputs.npz", {s.key: s.shape for s in input_slots(graph)})
    if (folder / "expected.npz").exists():
        shapes = {key: slot.shape for key, slot in result_slots(graph).items()}
        expected = load_npz(folder / "expected.npz", shapes)
        result = check(graph, expected, inputs, timeout=options.timeout, engine=options.engine)
    else:
        result = compare(run(path, inputs, options).outputs, run(graph, inputs, options).outputs)
    return ("pass" if result.ok else "fail"), result.what_is_wrong, len(result.tensors)


# -- holds how a backend is qualified, and selects the cases that it needs to run ------------------

#: Kinds of further inputs -> the option that asks for them.
_KINDS: Final = {("seed", "edges"): (), ("seed",): ("--no-edges",), ("edges",): ("--edges",)}
_EMPTY: Final = Graph(V1_0, [Region("main", [Block("main")])])


@dataclass(frozen=True, slots=True, kw_only=True)
class Qualification:
    """Say how a backend is qualified.

    against, python: as for `open_backend`; a folder of results has a folder for each case. claims: the
        profiles and extensions that the backend has; None for all. level: "8k" or "none"; what exceeds
        it is not run.
    timeout: seconds for one run of either side. custom: what says the meaning of CUSTOM operators; see
        `load`.
    keep: a folder that gets a folder for each case that does not pass. reduce: reduce the inputs of a
        wrong case, for what is kept.
    seeds: of further inputs on which a case must be right, too. kinds: of those, "seed" for random and
        "edges" for edge inputs.
    strict: let a case fail whose outputs are of low precision, unless it has an official rule.
    """

    against: str
    python: str = ""
    claims: frozenset[str] | None = None
    level: str = "8k"
    timeout: float = 60.0
    engine: Engine = "auto"
    custom: tuple[str, ...] = ()
    keep: Path | None = None
    reduce: bool = False
    seeds: int = 0
    kinds: tuple[str, ...] = ("seed", "edges")
    strict: bool = False

    def __post_init__(self) -> None:
        refuse_time_limit(self.timeout)

    @property
    def run_options(self) -> RunOptions:
        return RunOptions(timeout=self.timeout, engine=self.engine)

    def program_of(self, folder: Path) -> Program:
        return load_program(model_of(folder), ReadOptions(custom=self.custom))

    @property
    def tolerances(self) -> Tolerances:
        """Return what cases without an official rule are judged by."""
        return replace(NO_TOLERANCES, strict=self.strict)

    def command_for(self, case_folder: Path) -> str:
        """Return the command that runs one case again, in the working folder."""
        against = self.against
        words = ["tosa-flatbuffer", "suite", nearby(str(case_folder))]
        words += ["--against", nearby(against) if os.path.exists(against) else against]
        if self.python:
            words += ["--python", self.python]
        if self.level != "8k":
            words += ["--level", self.level]
        if self.engine != "auto":
            words += ["--engine", self.engine]
        for one in self.custom:
            words += ["--custom", nearby(one) if os.path.exists(one) else one]
        if self.seeds:
            words += ["--seeds", str(self.seeds), *_KINDS[self.kinds]]
        if self.strict:
            words.append("--strict")
        return shlex.join(words)

    def require_backend(self) -> None:
        """Raise TosaConvertError if no case can run on the backend, before the first one is run."""
        refuse_no_results(self.against, "**/*")
        software = self.against.partition(":")[0]
        if self.seeds and os.path.isdir(self.against):
            message = "recorded results are those of the cases' own inputs"
            raise fail("option-conflict", "--seeds", message, "name a backend that runs")
        if software in ORIGINALS:
            raise fail(
                "option-conflict",
                f"--against {self.against}",
                f"{software} runs models of its own, and no TOSA programs",
                f"tosa-flatbuffer check MODEL --against {ORIGINALS[software]}",
            )
        if self.against == "iree":
            command = [self.python or sys.executable, "-c", "import iree.compiler, iree.runtime"]
            ended = run_backend(command, self.timeout, "iree")
            if ended.code:
                raise fail("missing-backend", "iree", ended.stderr.strip()[-200:], PACKAGES["iree"])
        elif not os.path.isdir(self.against):
            backend = open_backend(self.against, _EMPTY, {}, python=self.python)
            runs_any = (NUMPY, REFERENCE_MODEL)
            runs_one_model = isinstance(backend, OtherModel) and backend.text not in runs_any
            if runs_one_model or isinstance(backend, Record):
                message = "a case needs a backend that runs any program, or a folder of results"
                raise fail("option-conflict", f"--against {self.against}", message)


def may_run(root: str, name: str, *, settings: Qualification) -> bool:
    """Return whether a case runs with these settings, as far as its files say; a damaged one counts."""
    if settings.claims is None and settings.level == "none" and not os.path.isdir(settings.against):
        return True
    folder = Path(os.path.normpath(Path(root, name).absolute()))
    if os.path.isdir(settings.against) and not Path(settings.against, name).is_dir():
        return False
    try:
        if (folder / "desc.json").exists():
            return not why_not_selected(read_case(folder), settings)
        return not why_not_allowed(settings.program_of(folder).graph, settings)
    except TosaConvertError:
        return True


def why_not_selected(case: OfficialCase, settings: Qualification) -> str:
    """Return why a backend with these claims need not run a case, or "".

    Profiles and extensions are those that the descriptor states, or that the rules of TOSA ask for.
    """
    needs = case.description.get("test_requirements")
    if needs is None or settings.claims is None:
        return "" if case.is_expected_to_fail else why_not_allowed(case.graph, settings)
    has = complete(settings.claims)
    profiles = [_capability(text) for text in needs.get("profiles_supported", ())]
    if profiles and not has & set(profiles):
        return f"it needs {' or '.join(profiles)}"
    missing = {_capability(text) for text in needs.get("extensions_required", ())} - has
    if missing:
        return f"it needs {' and '.join(sorted(missing))}"
    if case.is_expected_to_fail:
        return ""
    return why_not_allowed(case.graph, replace(settings, claims=None))


def why_not_allowed(graph: Graph, settings: Qualification) -> str:
    """Return why a backend with these claims need not run a program by TOSA's rules, or ""."""
    if settings.claims is not None:
        for finding in find_violations(graph, profile=settings.claims):
            if finding.code == "outside-profile":
                return finding.message
    if settings.level == "8k":
        for finding in find_violations(graph, level="8k"):
            if finding.code == "outside-level":
                return f"outside level 8K: {finding.message}"
    return ""


def _capability(text: str) -> str:
    """Return the name of a profile or extension, from that of the official tests.

    Example:
        >>> _capability("tosa-ext-mx-common")
        'EXT-MX-COMMON'
    """
    return text.upper().removeprefix("TOSA-")


def files_qualified(root: str, name: str, *, settings: Qualification) -> list[str]:
    """List the files that decide a case besides the backend: those of the case, and its results."""
    found = files_of_case(root, name)
    if os.path.isdir(settings.against):
        found += files_of_case(settings.against, name)
    return found


#: Codes that say that a file of the case cannot be used.
_NOT_JUDGED: Final = ("file-error", "unsafe-path", "backend-unreachable")
#: Of this worker process, or thread of it.
_KEPT: Final = KeptWorkers()


def qualify_case(root: str, name: str, *, settings: Qualification) -> Answer:
    """Run one case on a backend.

    The status is "pass"; "wrong" if the rules refuse a result; "refused" if the backend does not support
    the program; "crashed" if it gave no result; "not-run" with the reason; "error" if the case is
    damaged, or the backend cannot be reached.
    """
    start = time.monotonic()
    folder = Path(os.path.normpath(Path(root, name).absolute()))
    operator = types = ""
    covers: Sequence[str] = ()
    machine = Machine(settings.python or sys.executable, settings.timeout, _KEPT)
    outcome = Outcome("error")
    if settings.keep is not None:
        remove_kept(settings.keep, name, folder)
    try:
        if (folder / "desc.json").exists():
            case = read_case(folder)
            operator, types = operator_and_type(case)
            outcome = Outcome("not-run")
            outcome = _official_case(case, name, settings, machine)
        else:
            program = settings.program_of(folder)
            shapes = {slot.key: slot.shape for slot in input_slots(program.graph)}
            inputs = input_arrays(program.graph, load_npz(folder / "inputs.npz", shapes))
            operator, types, covers = tested_by(program.graph)
            outcome = Outcome("not-run")
            outcome = _saved_case(program, inputs, folder, name, settings, machine)
    except TosaConvertError as error:
        status = "error" if error.code in _NOT_JUDGED else outcome.status
        outcome = Outcome(status, str(error))
    seconds = round(time.monotonic() - start, 4)
    known = {*_files_of_backend(settings.against), *files_qualified(root, name, settings=settings)}
    read = {path: of_file_at_hand(path) for path in sorted(machine.read - known)}
    said = {**outcome._asdict(), **used_by(machine.used)}
    return Answer(
        name, seconds=seconds, operator=operator, types=types, covers=covers, read=read, **said
    )


@functools.cache
def _files_of_backend(against: str) -> frozenset[str]:
    """Return the files of a backend that decide every answer, as `of_backend` has them."""
    return frozenset(of_backend(against))


def _saved_case(
    program: Program,
    inputs: dict[str, Array],
    folder: Path,
    name: str,
    settings: Qualification,
    machine: Machine,
) -> Outcome:
    """Judge a case with a program and `inputs.npz`, as `check --save` writes it, like `check`."""
    graph = program.graph
    if reason := why_not_allowed(graph, settings):
        return Outcome("not-run", reason)
    against = settings.against
    if os.path.isdir(against):
        against = str(Path(against, name))
        if not os.path.isdir(against):
            return Outcome("not-run", f"{settings.against} has no results of it")
    keep = None if settings.keep is None else settings.keep / name
    failed = Failed(name, model_of(folder), keep, settings.command_for(folder))
    backend = backend_on(machine, against, graph, inputs, keep=keep)
    run = _Run(graph, backend, machine, settings, failed)
    return run.judged(inputs, run.like_check)


class _Verdict(NamedTuple):
    """Say what is wrong with the results for some inputs, or "", and hold these results."""

    wrong: str
    tensors: int
    expected: Arrays
    found: Arrays
    low_precision: str = ""


#: Judges a backend on inputs, in an empty folder.
_Judge = Callable[[dict[str, Array], Path], _Verdict]


@dataclass(frozen=True, slots=True)
class _Run:
    """Judge a case on a backend."""

    graph: Graph
    backend: Backend
    machine: Machine
    settings: Qualification
    failed: Failed

    def like_check(self, arrays: dict[str, Array], scratch: Path) -> _Verdict:
        options, graph, backend = self.settings.run_options, self.graph, self.backend
        reference = Reference(graph, arrays, options, self.settings.tolerances)
        expected = reference.outputs
        found = self.timed(lambda: backend_outputs(graph, arrays, backend, scratch))
        result = reference.judge(found)
        count, imprecise = len(result.tensors), result.low_precision
        return _Verdict(result.what_is_wrong, count, expected, found, imprecise)

    def judged(
        self, inputs: dict[str, Array], judge: _Judge, *, is_refusal_right: bool = False
    ) -> Outcome:
        """Judge a case on its own inputs, and then on further ones; keep what shows that it fails."""
        refuse_same_engine(self.backend, self.settings.run_options)
        with scratch_folder() as scratch:
            try:
                own = judge(inputs, scratch)
            except TosaConvertError as error:
                status = _failed(error)
                if status == "refused" and is_refusal_right:
                    return Outcome("pass")
                self.failed.keep(inputs, str(error))
                return Outcome(status, str(error))
            if not own.wrong:
                return self.on_further_inputs(Outcome("pass", "", own.tensors, own.low_precision))
            message, is_record = own.wrong, isinstance(self.backend, Record)
            if self.settings.reduce and self.failed.folder is not None and not is_record:
                smallest, text = reduced(inputs, _in_folder(judge))
                message += text
                self.failed.keep(smallest, message)
            else:
                self.failed.keep(inputs, message, own.expected, own.found)
        return Outcome("wrong", message, own.tensors, at_fault=self.at_fault(inputs))

    def on_further_inputs(self, passed: Outcome) -> Outcome:
        """Judge a program that is right on further inputs, but those without a golden result."""
        further = [
            (kind, own)
            for seed, kind in product(range(self.settings.seeds), self.settings.kinds)
            for own in (seeds_of_sets(self.graph, seed) if kind == "edges" else (seed,))
        ]
        for kind, seed in further:
            make = edge_sets if kind == "edges" else seeded_inputs
            name, arrays = "", dict[str, Array]()
            with scratch_folder() as scratch:
                try:
                    ((name, arrays),) = make(self.graph, {}, seed, 1, ())
                    own = self.like_check(arrays, scratch)
                except TosaConvertError as error:
                    if not error.code.startswith("backend-") and error.code != "file-error":
                        continue
                    message = f"{name}: {error}"
                    self.failed.keep(arrays, message)
                    return Outcome(_failed(error), message, passed.outputs)
                said = passed.low_precision or own.low_precision
                passed = Outcome("pass", "", passed.outputs + own.tensors, said)
                if own.wrong:
                    message = f"{name}: {own.wrong}"
                    self.failed.keep(arrays, message, own.expected, own.found)
                    return Outcome("wrong", message, passed.outputs, at_fault=self.at_fault(arrays))
        return passed

    def at_fault(self, inputs: Arrays) -> list[str]:
        """Return the operators that `bisect` names in a network that is wrong, each with its type."""
        settings = self.settings
        if isinstance(self.backend, Record) or not tested_by(self.graph)[2]:
            return []
        try:
            found = bisect(
                self.graph,
                self.backend,
                inputs,
                tolerances=settings.tolerances,
                find_all=True,
                timeout=settings.timeout,
                engine=settings.engine,
            )
        except TosaConvertError:  # the verdict on the case stays
            return []
        named = set()
        for one in filter(None, (found.first, *found.others)):
            if len(one.operators) == 1:
                ((_, path, _, _),) = one.operators
                named.add(named_operator(one.case.graph, path.rpartition(" ")[2]))
        return sorted(f"{operator} {types}" for operator, types in named)

    def timed(self, run: Callable[[], Arrays]) -> Arrays:
        """Run a backend. Of one in this process the time is taken here."""
        if not isinstance(self.backend, OtherModel):
            return run()
        start, before = time.monotonic(), time.process_time()
        found = run()
        seconds, processor = time.monotonic() - start, time.process_time() - before
        self.machine.used.append(Used(round(seconds, 4), round(processor, 4)))
        return found


def _in_folder(judge: _Judge) -> Callable[[dict[str, Array]], str]:
    """Return what says what is wrong on inputs, in a folder of its own; "" for other failures."""

    def text(arrays: dict[str, Array]) -> str:
        with scratch_folder() as folder:
            try:
                return judge(arrays, folder).wrong
            except TosaConvertError:
                return ""

    return text


def _official_case(
    case: OfficialCase, name: str, settings: Qualification, machine: Machine
) -> Outcome:
    if reason := why_not_selected(case, settings):
        return Outcome("not-run", reason)
    inputs = case_inputs(case)
    keep = None if settings.keep is None else settings.keep / name
    failed = Failed(name, case.source, keep, settings.command_for(case.folder))
    backend = _open(case, name, inputs, settings, keep, machine)
    if backend is None:
        return Outcome("not-run", f"{settings.against} has no results of it")
    run = _Run(case.graph, backend, machine, settings, failed)

    def judge(arrays: dict[str, Array], folder: Path) -> _Verdict:
        def compute() -> Arrays:
            return _found(case, backend, arrays, subfolder(folder, "backend"))

        if case.is_expected_to_fail:
            found = run.timed(compute)
            return _Verdict("expected to be refused, and it gave results", len(found), {}, found)
        own = subfolder(folder, "reference")
        reference = run_reference(case, arrays, own, settings.level, settings.run_options)
        found = run.timed(compute)
        text = "\n".join(f"{key}: {said}" for key, said in problems(case, reference, found).items())
        return _Verdict(text, len(reference.arrays), reference.arrays, found)

    return run.judged(inputs, judge, is_refusal_right=case.is_expected_to_fail)


def _failed(error: TosaConvertError) -> Status:
    if error.code == "backend-refused":
        return "refused"
    if error.code in ("backend-failed", "file-error"):
        return "crashed"
    raise error


def _open(
    case: OfficialCase,
    name: str,
    inputs: Arrays,
    settings: Qualification,
    keep: Path | None,
    machine: Machine,
) -> Backend | None:
    """Open the backend for one case. Return None if a folder of results has none for it."""
    if os.path.isdir(settings.against):
        results = Path(settings.against, name)
        return _recorded(case, results) if results.is_dir() else None
    backend = backend_on(machine, settings.against, case.graph, inputs, keep=keep)
    if isinstance(backend, (Command, PythonFile)):
        backend.original = case.program.flatbuffer
    return backend


def _recorded(case: OfficialCase, folder: Path) -> Record:
    """Return the results in a folder: `.npy` files named as the tensors, or as the descriptor has it."""
    arrays = open_folder(folder)
    names: dict[str, str] = {}
    files = zip(case.description["ofm_name"], case.description["ofm_file"], strict=True)
    stems = {name: Path(file).stem for name, file in files}
    slots = {slot.key: slot for slot in output_slots(case.graph)}
    for slot in slots.values():
        suffix = "" if slot.key == slot.tensor else SCALE_FILE
        for stem in (slot.key, slot.tensor + suffix, stems.get(slot.tensor, "") + suffix):
            if stem in arrays:
                names[slot.key] = stem
                break
    found = LazyArrays(names, lambda key: unpacked(slots[key], arrays[names[key]]))
    return Record(str(folder), found)


def _found(case: OfficialCase, backend: Backend, inputs: Arrays, folder: Path) -> dict[str, Array]:
    slots = {slot.key: slot for slot in output_slots(case.graph)}
    if isinstance(backend, Record):
        answer: Arrays = with_slot_types(backend.arrays, slots)
    else:
        answer = backend_outputs(case.graph, inputs, backend, folder)
    return {key: answer[key] for key in slots if key in answer}
