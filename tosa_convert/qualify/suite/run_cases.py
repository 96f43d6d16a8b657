"""Run a folder of cases: convert each file, run the original and the converted one, compare the outputs.

A case is a folder with an official descriptor (`desc.json`), or with a model and `inputs.npz` as
`bisect` writes them.
"""

from __future__ import annotations

import contextlib
import io
import os
import time
from pathlib import Path
from typing import Final, Literal

from tosa_convert import api
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.golden.accuracy.comparison import compare
from tosa_convert.golden.arrays.by_name import Array, load_npz, scratch_folder, write_scratch
from tosa_convert.golden.checking.check import check
from tosa_convert.golden.running.programs import as_graph, input_slots, output_slots, state_slots
from tosa_convert.golden.running.run import run
from tosa_convert.golden.running.run_options import Engine, RunOptions
from tosa_convert.io.files import refuse_irregular, walk, write_pieces
from tosa_convert.io.formats import Format
from tosa_convert.qualify.suite.answers import Answer, Status
from tosa_convert.qualify.suite.official_case import (
    case_inputs,
    read_case,
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
