"""Run a folder of cases: convert each file, run the original and the converted one, compare the outputs.

A case is a folder with an official descriptor (`desc.json`), or with a model and `inputs.npz` as
`bisect` writes them.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from tosa_convert import api
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.golden.accuracy.comparison import compare
from tosa_convert.golden.arrays.by_name import scratch_folder, write_scratch
from tosa_convert.golden.arrays.npz import load_npz
from tosa_convert.golden.checking.check import check
from tosa_convert.golden.running import reference_model_process
from tosa_convert.golden.running.programs import as_graph, input_slots, output_slots, state_slots
from tosa_convert.golden.running.run import run
from tosa_convert.golden.running.run_options import Engine, RunOptions
from tosa_convert.io.files import refuse_irregular, walk, write_pieces
from tosa_convert.io.formats import Format
from tosa_convert.process.child import Ended, describe_exit
from tosa_convert.qualify.suite.answers import Answer, Status
from tosa_convert.qualify.suite.official_case import (
    case_files,
    case_inputs,
    described_run,
    read_case,
    read_descriptor,
)

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


def run_case(
    root: str, name: str, via: Via = "tosa", timeout: float = 60.0, engine: Engine = "auto"
) -> Answer:
    """Run one case, from the file to the verdict; an expected failure is an answer, too."""
    start = time.monotonic()
    folder, options = Path(root, name).resolve(), RunOptions(timeout=timeout, engine=engine)
    try:
        if (folder / "desc.json").exists():
            status, message, outputs = _official(folder, via, options)
        else:
            status, message, outputs = _ours(folder, via, options)
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
    """Run both files of an official case with its inputs. Their outputs are compared byte for byte."""
    if options.uses_numpy:
        return _official_on_numpy(folder, via, options)
    description = read_descriptor(folder)
    source, inputs = case_files(folder, description)
    with scratch_folder() as work:
        original_folder, converted_folder = work / "original", work / "converted"
        _prepare(original_folder, inputs, description)
        (original_folder / "model.tosa").symlink_to(source)
        original = _run_official(original_folder, options.timeout)
        try:
            converted_data = convert_there_and_back(source.read_bytes(), via)
        except TosaConvertError as error:
            if original.code > 0:
                return "pass", f"both refuse it: {error.findings[0]}", 0
            return "error", f"not converted: {error}", 0
        _prepare(converted_folder, inputs, description)
        write_scratch(converted_folder / "model.tosa", [converted_data])
        converted = _run_official(converted_folder, options.timeout)
        if original.code != converted.code:
            text = " / ".join(converted.stderr.strip().splitlines()[:3])
            before, after = describe_exit(original.code), describe_exit(converted.code)
            return "fail", f"{before} before the conversion, {after} after it: {text}", 0
        if original.code:
            if description.get("expected_failure") or original.code > 0:
                return "pass", f"both are refused ({describe_exit(original.code)})", 0
            return "error", f"the original ends with {describe_exit(original.code)}", 0
        return _compare_files(original_folder / "out", converted_folder / "out")


def _official_on_numpy(folder: Path, via: Via, options: RunOptions) -> tuple[Status, str, int]:
    """Run both programs of an official case on numpy, and compare their outputs bit for bit."""
    case = read_case(folder)
    inputs = case_inputs(case)
    try:
        original = run(case.graph, inputs, options).outputs
    except TosaConvertError as error:
        if case.is_expected_to_fail:
            return "pass", f"it is refused: {error.findings[0]}", 0
        raise
    converted = as_graph(convert_there_and_back(case.source.read_bytes(), via))
    found = run(converted, inputs, options).outputs
    different = [
        name
        for name, array in original.items()
        if name not in found or array.tobytes() != found[name].tobytes()
    ]
    if different or found.keys() != original.keys():
        return "fail", "different outputs: " + ", ".join(different), len(original)
    return "pass", "", len(original)


def _prepare(folder: Path, inputs: Mapping[str, Path], description: Mapping[str, Any]) -> None:
    """Make a folder with a case's inputs and its descriptor, for a model of the name model.tosa."""
    (folder / "out").mkdir(parents=True)
    for name, path in inputs.items():
        (folder / name).symlink_to(path)
    write_scratch(folder / "desc.json", [json.dumps(described_run(description)).encode()])


def _run_official(folder: Path, timeout: float) -> Ended:
    command = [str(reference_model_process.locate()), "--test_desc=desc.json", "--output_dir=out"]
    return reference_model_process.run(command, folder, timeout)


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


def _ours(folder: Path, via: Via, options: RunOptions) -> tuple[Status, str, int]:
    """Run a case with `inputs.npz`."""
    path = model_of(folder)
    graph = as_graph(convert_there_and_back(path.read_bytes(), via))
    inputs = load_npz(folder / "inputs.npz", {s.key: s.shape for s in input_slots(graph)})
    if (folder / "expected.npz").exists():
        results = (*output_slots(graph), *state_slots(graph).values())
        expected = load_npz(folder / "expected.npz", {s.key: s.shape for s in results})
        result = check(graph, expected, inputs, timeout=options.timeout, engine=options.engine)
    else:
        original = run(path, inputs, options).outputs
        result = compare(original, run(graph, inputs, options).outputs)
    return ("pass" if result.ok else "fail"), result.what_is_wrong, len(result.tensors)
