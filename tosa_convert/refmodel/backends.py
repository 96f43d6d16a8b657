"""What a model is checked against: other programs that compute it, or results they left behind.

Two kinds. A `Runner` computes any tensors of the graph from any others (IREE, a command, another
version of the model on the reference model). A `Record` has results of one run (a folder, an `.npz`,
the TFLite interpreter or torch on the original model).
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from tosa_convert import api
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.graph.extract import computed_tensors, extract
from tosa_convert.graph.model import Graph
from tosa_convert.refmodel.arrays import Array, Slot, coerce, slots
from tosa_convert.refmodel.npz import load_npz, save_npz
from tosa_convert.refmodel.runner import (
    TIMEOUT,
    as_graph,
    input_slots,
    output_slots,
    run,
    session,
    write_scratch,
)

_MODEL_EXTENSIONS: Final = (".tosa", ".mlir", ".mlirbc", ".bc", ".json")
_MISSING: Final = 3
_PIP: Final = {
    "iree": "pip install iree-base-compiler iree-base-runtime",
    "tflite": "pip install ai-edge-litert",
    "torch": "pip install torch",
}


class Runner(Protocol):
    """Computes tensors of a graph."""

    name: str

    def compute(
        self, graph: Graph, names: list[str], inputs: Mapping[str, Array], cuts: list[str]
    ) -> dict[str, Array]:
        """The tensors `names`, computed from the graph's inputs and from the tensors `cuts`.

        inputs: arrays of all of them by key.
        """


class Record:
    """Results of one run, by tensor; `steps` in running order for those without a name."""

    def __init__(
        self, name: str, arrays: Mapping[str, Array], steps: list[Array] | None = None
    ) -> None:
        self.name = name
        self.arrays = dict(arrays)
        self.steps = steps or []


def open_backend(
    text: str,
    graph: Graph,
    inputs: Mapping[str, Array],
    *,
    original: str = "",
    python: str = "",
    timeout: float = TIMEOUT,
) -> Runner | Record:
    """The backend that `--against TEXT` means.

    text: "iree", "tflite", "torch", a folder of `.npy`, an `.npz`, another model, or a command.
    original: the TFLite model, or torch's FILE.py:NAME or exported program.
    python: the Python that has the backend's packages; by default this one.
    Raises TosaConvertError.
    """
    python = python or sys.executable
    if text == "iree":
        return Iree(python, timeout)
    if text in ("tflite", "torch"):
        if not original:
            raise fail(
                "option-conflict",
                f"--against {text}",
                "the original model is needed",
                "--original MODEL.tflite, or --original FILE.py:NAME for torch",
            )
        given = [inputs[slot.key] for slot in input_slots(graph)]
        outputs, steps = work(python, text, original, given, timeout)
        return Record(text, _by_position(graph, outputs, text), steps)
    if os.path.isdir(text):
        return Record(text, load_folder(Path(text)))
    if text.endswith(".npz"):
        return Record(text, load_npz(text))
    if text.endswith(_MODEL_EXTENSIONS) and os.path.exists(text):
        return OtherModel(text, timeout)
    words = shlex.split(text)
    if not words or shutil.which(words[0]) is None:
        raise fail(
            "missing-backend",
            f"--against {text}",
            "it is neither iree, tflite, torch, a folder, an .npz, a model, nor a command on PATH",
        )
    return Command(words, timeout)


def _by_position(graph: Graph, outputs: list[Array], what: str) -> dict[str, Array]:
    wanted = output_slots(graph)
    if len(wanted) != len(outputs):
        raise fail(
            "backend-failed", what, f"it gave {len(outputs)} outputs, the TOSA model {len(wanted)}"
        )
    return {slot.key: array for slot, array in zip(wanted, outputs, strict=True)}


def load_folder(folder: Path) -> dict[str, Array]:
    """Arrays by tensor from a folder: by its manifest.json if there is one, else by file name."""
    manifest = folder / "manifest.json"
    if manifest.exists():
        rows = json.loads(manifest.read_text())["tensors"]
        pairs = [(str(row["name"]), folder / Path(str(row["file"])).name) for row in rows]
    else:
        pairs = [(path.stem, path) for path in sorted(folder.glob("*.npy"))]
    try:
        return {name: np.load(path, allow_pickle=False) for name, path in pairs}
    except (OSError, ValueError) as error:
        raise fail("file-error", str(folder), f"cannot be read: {error}") from None


def work(
    python: str, kind: str, model: str, inputs: list[Array], timeout: float
) -> tuple[list[Array], list[Array]]:
    """Outputs and steps of a model run by `worker.py` under `python`.

    Raises TosaConvertError("missing-backend") and ("backend-failed").
    """
    for array in inputs:
        if array.dtype.kind not in "biuf":
            raise fail("backend-failed", kind, f"an input is {array.dtype}, which numpy lacks")
    with session() as folder:
        np.savez(folder / "in.npz", **{f"in{i}": array for i, array in enumerate(inputs)})
        # As text, not by path: beside the file lie modules whose names the software imports, too.
        source = Path(__file__).with_name("worker.py").read_text(encoding="utf-8")
        command = [python, "-c", source, kind, os.path.abspath(model), "in.npz", "out.npz"]
        ended = _run(command, folder, timeout, kind)
        if ended.returncode == _MISSING:
            raise fail("missing-backend", kind, _last_line(ended.stderr), _PIP[kind])
        if ended.returncode:
            raise fail(
                "backend-failed", kind, _last_line(ended.stderr) or f"exit {ended.returncode}"
            )
        arrays = load_npz(folder / "out.npz")
    return _numbered(arrays, "out"), _numbered(arrays, "t")


def _numbered(arrays: Mapping[str, Array], prefix: str) -> list[Array]:
    found: list[Array] = []
    while f"{prefix}{len(found)}" in arrays:
        found.append(arrays[f"{prefix}{len(found)}"])
    return found


def _run(
    command: list[str], folder: Path, timeout: float, what: str
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        raise fail("backend-failed", what, f"it did not end within {timeout:g} s") from None
    except OSError as error:
        raise fail("missing-backend", what, f"{command[0]}: {error.strerror}") from None


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:1000] if lines else ""


def _checked(graph: Graph, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays in the graph's types where they are another spelling of them, else as they are."""
    typed: dict[str, Array] = {}
    known: dict[str, Slot] = {slot.key: slot for slot in output_slots(graph)}
    for key, array in arrays.items():
        typed[key] = as_slot(known[key], array) if key in known else array
    return typed


def as_slot(slot: Slot, array: Array) -> Array:
    """The array in the slot's type if it only spells it differently; a comparison tells the rest."""
    try:
        return coerce(slot, array)
    except TosaConvertError:
        same = array.dtype.itemsize == slot.dtype.numpy.itemsize and array.shape == slot.shape
        if same and array.dtype.kind in "biu" and slot.dtype.numpy.kind in "biu":
            return np.ascontiguousarray(array).view(slot.dtype.numpy)
        return array


class Iree:
    """IREE for the host: the sub-graph as MLIR, compiled and run by a Python that has it."""

    name = "iree"

    def __init__(self, python: str, timeout: float) -> None:
        self.python, self.timeout = python, timeout

    def compute(
        self, graph: Graph, names: list[str], inputs: Mapping[str, Array], cuts: list[str]
    ) -> dict[str, Array]:
        """See Runner."""
        part = extract(graph, names, cuts)
        with session() as folder:
            path = folder / "part.mlir"
            write_scratch(path, [_text_for_iree(part)])
            given = [inputs[slot.key] for slot in input_slots(part)]
            outputs, _ = work(self.python, "iree", str(path), given, self.timeout)
        return _checked(part, _by_position(part, outputs, "iree"))


def _text_for_iree(graph: Graph) -> bytes:
    """The graph in MLIR's generic text, which any bindings read, with every constant dense.

    IREE 3.13 compiles a RESCALE whose multipliers are a resource to one that gives zeros.
    """
    data = b"".join(api.encode(graph))
    module = api.import_tosa_func_from_flatbuffer(data, constants="dense")
    asm: str = module.operation.get_asm(print_generic_op_form=True)
    return asm.encode()


class OtherModel:
    """Another version of the model, with the same names, on the reference model."""

    def __init__(self, path: str, timeout: float) -> None:
        self.name, self.timeout = path, timeout
        self.graph = as_graph(path)

    def compute(
        self, graph: Graph, names: list[str], inputs: Mapping[str, Array], cuts: list[str]
    ) -> dict[str, Array]:
        """See Runner."""
        part = extract(self.graph, names, cuts)
        needed = [slot.key for slot in input_slots(part)]
        return run(part, {k: inputs[k] for k in needed}, timeout=self.timeout).outputs


class Command:
    """Any command: `{model}`, `{inputs}`, `{outputs}` in its words, or the three behind them."""

    def __init__(self, words: list[str], timeout: float) -> None:
        self.name, self.words, self.timeout = words[0], words, timeout

    def compute(
        self, graph: Graph, names: list[str], inputs: Mapping[str, Array], cuts: list[str]
    ) -> dict[str, Array]:
        """See Runner."""
        part = extract(graph, names, cuts)
        with session() as folder:
            write_scratch(folder / "model.tosa", api.encode(part))
            save_npz(folder / "in.npz", {s.key: inputs[s.key] for s in input_slots(part)})
            places = {
                "{model}": str(folder / "model.tosa"),
                "{inputs}": str(folder / "in.npz"),
                "{outputs}": str(folder / "out.npz"),
            }
            words = list(self.words)
            if not any(mark in word for word in words for mark in places):
                words += list(places)
            for mark, path in places.items():
                words = [word.replace(mark, path) for word in words]
            ended = _run(words, Path.cwd(), self.timeout, self.name)
            if ended.returncode or not (folder / "out.npz").exists():
                text = _last_line(ended.stderr) or f"exit code {ended.returncode}, no outputs"
                raise fail("backend-failed", self.name, text)
            return _checked(part, load_npz(folder / "out.npz"))


def align(graph: Graph, golden: Mapping[str, Array], steps: list[Array]) -> list[tuple[str, Array]]:
    """Which tensors of the graph nameless steps are: same type and shape, in order, nearest in value.

    golden: the tensors' arrays. Steps that match none are left out.
    """
    computed = [name for _, name in computed_tensors(graph) if name in golden]
    pairs: list[tuple[str, Array]] = []
    position = 0
    for step in steps:
        best: tuple[float, int] | None = None
        for index in range(position, len(computed)):
            array = golden[computed[index]]
            if array.shape != step.shape or array.dtype != step.dtype:
                continue
            distance = float(np.mean(np.abs(array.astype(np.float64) - step.astype(np.float64))))
            # Of equals the last: what a converter puts behind an operator belongs to it.
            if best is None or distance <= best[0]:
                best = (distance, index)
        if best is not None and best[0] <= _far(step):
            pairs.append((computed[best[1]], step))
            position = best[1] + 1
    return pairs


def _far(step: Array) -> float:
    """How far apart the mean of two arrays of one tensor can be: a tenth of its spread."""
    return 0.1 * float(np.std(step.astype(np.float64))) + 1.0


def slots_of(graph: Graph, names: list[str]) -> dict[str, Slot]:
    """The slots of tensors by key."""
    return {slot.key: slot for name in names for slot in slots(graph.main, name)}
