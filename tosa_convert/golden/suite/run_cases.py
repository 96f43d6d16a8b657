"""Run a folder of cases: convert each file, run the original and the converted one, compare the outputs.

A case is a folder with an official descriptor (`desc.json`), or with a model and `inputs.npz` as
`bisect` writes them. Cases run in local worker processes, or through any executor of
`concurrent.futures` such as that of a Dask cluster. `journal` keeps the answers.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from tosa_convert import api
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.golden.accuracy.comparison import compare
from tosa_convert.golden.arrays.npz import load_npz
from tosa_convert.golden.arrays.scratch import scratch_folder, write_scratch
from tosa_convert.golden.checking.check import check
from tosa_convert.golden.running import model_process
from tosa_convert.golden.running.programs import as_graph, input_slots, output_slots
from tosa_convert.golden.running.run import run
from tosa_convert.golden.running.run_options import RunOptions
from tosa_convert.golden.running.variable_states import state_slots
from tosa_convert.golden.suite.descriptor import case_files, described_run, read_descriptor
from tosa_convert.golden.suite.journal import Answer, Journal, Status
from tosa_convert.io.files import refuse_irregular, walk, write_pieces
from tosa_convert.io.formats import Format
from tosa_convert.process.child import Ended, describe_exit
from tosa_convert.process.pool import run_jobs

Via = Literal["tosa", "mlir", "mlirbc", "json"]

#: Runs a function on each of many cases; yields the answers as they come, in any order.
CaseRunner = Callable[[Callable[[str], "Answer"], list[str]], Generator["Answer", None, None]]

#: How often a case runs if its worker process dies.
ATTEMPTS: Final = 2
#: Names of the program in a case that has `inputs.npz`.
MODELS: Final = ("case.tosa", "model.tosa", "test.tosa")


def find_cases(root: Path) -> list[str]:
    """Find the cases below a folder. Return their paths in it, sorted.

    Raises:
        TosaConvertError: "unrecognised-input" if there are none.
    """
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
        folder = waiting.pop()
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
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


def answered(
    name: str, *, run: Callable[[str], Answer], key: Callable[[str], str], kind: type[Answer]
) -> Answer:
    """Run a case, and say by its key what decided the answer.

    A defect of ours in one case must not cost the answers of all others.
    """
    start = time.monotonic()
    before = key(name)
    try:
        return replace(run(name), key=before)
    except Exception as error:
        said = f"a defect of tosa-convert: {type(error).__name__}: {error}"
        text = f"{said}\n{traceback.format_exc()}"
        return kind(name, "error", text, round(time.monotonic() - start, 4), key=before)


def run_case(root: str, name: str, via: Via = "tosa", timeout: float = 60.0) -> Answer:
    """Run one case, from the file to the verdict; an expected failure is an answer, too."""
    start = time.monotonic()
    folder = Path(root, name).resolve()
    try:
        if (folder / "desc.json").exists():
            status, message, outputs = _official(folder, via, timeout)
        else:
            status, message, outputs = _ours(folder, via, timeout)
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


def _official(folder: Path, via: Via, timeout: float) -> tuple[Status, str, int]:
    """Run both files of an official case with its inputs. Their outputs are compared byte for byte."""
    description = read_descriptor(folder)
    source, inputs = case_files(folder, description)
    with scratch_folder() as work:
        original_folder, converted_folder = work / "original", work / "converted"
        _prepare(original_folder, inputs, description)
        (original_folder / "model.tosa").symlink_to(source)
        original = _run_official(original_folder, timeout)
        try:
            converted_data = convert_there_and_back(source.read_bytes(), via)
        except TosaConvertError as error:
            if original.code > 0:
                return "pass", f"both refuse it: {error.findings[0]}", 0
            return "error", f"not converted: {error}", 0
        _prepare(converted_folder, inputs, description)
        write_scratch(converted_folder / "model.tosa", [converted_data])
        converted = _run_official(converted_folder, timeout)
        if original.code != converted.code:
            text = " / ".join(converted.stderr.strip().splitlines()[:3])
            before, after = describe_exit(original.code), describe_exit(converted.code)
            return "fail", f"{before} before the conversion, {after} after it: {text}", 0
        if original.code:
            if description.get("expected_failure") or original.code > 0:
                return "pass", f"both are refused ({describe_exit(original.code)})", 0
            return "error", f"the original ends with {describe_exit(original.code)}", 0
        return _compare_files(original_folder / "out", converted_folder / "out")


def _prepare(folder: Path, inputs: Mapping[str, Path], description: Mapping[str, Any]) -> None:
    """Make a folder with a case's inputs and its descriptor, for a model of the name model.tosa."""
    (folder / "out").mkdir(parents=True)
    for name, path in inputs.items():
        (folder / name).symlink_to(path)
    write_scratch(folder / "desc.json", [json.dumps(described_run(description)).encode()])


def _run_official(folder: Path, timeout: float) -> Ended:
    command = [str(model_process.locate()), "--test_desc=desc.json", "--output_dir=out"]
    return model_process.run(command, folder, timeout)


def _compare_files(original: Path, converted: Path) -> tuple[Status, str, int]:
    """Compare two folders of outputs byte for byte."""
    expected, actual = (
        {path.name: path.read_bytes() for path in folder.iterdir()}
        for folder in (original, converted)
    )
    if not expected:
        return "fail", "nothing was compared: the original has no outputs", 0
    different = [name for name in sorted(expected) if expected[name] != actual.get(name)]
    different += sorted(actual.keys() - expected.keys())
    if different:
        return "fail", "different outputs: " + ", ".join(different), len(expected)
    return "pass", "", len(expected)


def _ours(folder: Path, via: Via, timeout: float) -> tuple[Status, str, int]:
    """Run a case with `inputs.npz`.

    Its outputs are compared with `expected.npz`, or else with the original's.
    """
    path = model_of(folder)
    graph = as_graph(convert_there_and_back(path.read_bytes(), via))
    inputs = load_npz(folder / "inputs.npz", {s.key: s.shape for s in input_slots(graph)})
    if (folder / "expected.npz").exists():
        results = (*output_slots(graph), *state_slots(graph).values())
        expected = load_npz(folder / "expected.npz", {s.key: s.shape for s in results})
        result = check(graph, expected, inputs, timeout=timeout)
    else:
        options = RunOptions(timeout=timeout)
        original = run(path, inputs, options).outputs
        result = compare(original, run(graph, inputs, options).outputs)
    message = "" if result.ok else "\n".join(map(str, result.failures)) or str(result)
    return ("pass" if result.ok else "fail"), message, len(result.tensors)


def run_all(
    names: Iterable[str],
    run_cases: CaseRunner,
    journal: Journal,
    function: Callable[[str], Answer],
    *,
    progress: Callable[[Answer], None] = lambda answer: None,
) -> None:
    """Run the cases that have no answer in the journal.

    Args:
        names: the cases.
        run_cases: `on_local_processes(...)` or `on_executor(...)`.
        journal: gets the answers.
        function: runs a case, such as `run_case` for a folder, or what `qualify_with` returns.
        progress: called with each new answer.
    """
    waiting = [name for name in names if name not in journal.answers]
    with contextlib.closing(run_cases(function, waiting)) as answers:
        for answer in answers:
            if journal.add(answer):
                progress(answer)


@dataclass(frozen=True, slots=True)
class _Died:
    """The answer for a case that killed its worker; `code` is minus the signal, or the exit code."""

    case: str
    code: int


def on_local_processes(processes: int, *, fork: bool = False) -> CaseRunner:
    """Run cases in worker processes; `fork` as for `run_jobs`."""

    def run_cases(
        function: Callable[[str], Answer], names: list[str]
    ) -> Generator[Answer, None, None]:
        for attempt in range(1, ATTEMPTS + 1):
            died: list[str] = []
            # Memory may have run out: then the case passes if it runs alone.
            results: Generator[tuple[int, Answer | _Died], None, None] = run_jobs(
                function,
                names,
                processes=processes if attempt == 1 else 1,
                on_death=_Died,
                fork=fork,
            )
            with contextlib.closing(results):
                for _, answer in results:
                    if not isinstance(answer, _Died):
                        yield answer
                    elif attempt < ATTEMPTS:
                        died.append(answer.case)
                    else:
                        message = f"its worker process ended with {describe_exit(answer.code)}"
                        yield Answer(answer.case, "error", message)
            names = died

    return run_cases


def on_executor(executor: Executor, window: int) -> CaseRunner:
    """Run cases on an executor, `window` of them at a time."""

    def run_cases(
        function: Callable[[str], Answer], names: list[str]
    ) -> Generator[Answer, None, None]:
        waiting = list(reversed(names))
        running: set[Future[Answer]] = set()
        try:
            while waiting or running:
                while waiting and len(running) < window:
                    running.add(executor.submit(function, waiting.pop()))
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        finally:
            # Not `cancel_futures` of `shutdown`: Dask's executor does not have this argument.
            for future in running:
                future.cancel()
            executor.shutdown(wait=True)

    return run_cases
