"""What a model is checked against: other programs that compute it, or results they left behind.

Two kinds. A `Runner` computes any tensors of the graph from any others (IREE, a command, another
version of the model on the reference model). A `Record` has results of one run (a folder, an `.npz`,
the TFLite interpreter or torch on the original model).
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shlex
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from tosa_convert import api
from tosa_convert.child_process import Ended, run_child
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.formats import EXTENSIONS
from tosa_convert.golden.array_io import Array, Lazy, Slot, coerce
from tosa_convert.golden.npz import open_npz, stored, unpack_npz, write_npz
from tosa_convert.golden.runner import (
    TIMEOUT,
    as_graph,
    input_slots,
    output_slots,
    run_in,
    write_scratch,
)
from tosa_convert.graph.extract import computed_tensors, extract_from, extract_region
from tosa_convert.graph.model import Graph

_MODEL_EXTENSIONS: Final = tuple(EXTENSIONS)
_MISSING: Final = 3
#: Elements of an array that are remembered to tell which tensor it is.
SAMPLE: Final = 2048
_PIP: Final = {
    "iree": "pip install iree-base-compiler iree-base-runtime",
    "tflite": "pip install ai-edge-litert",
    "torch": "pip install torch",
}


class Runner(Protocol):
    """Computes tensors of a graph."""

    name: str

    def compute(
        self,
        graph: Graph,
        names: list[str],
        inputs: Mapping[str, Array],
        cuts: list[str],
        folder: Path,
    ) -> Mapping[str, Array]:
        """The tensors `names`, computed from the graph's inputs and those of `cuts` that they need.

        inputs: arrays of all of them by key.
        folder: an empty one, from which the result may read, so that it lasts no longer.
        """

    def inside(self, output: str, attribute: str) -> Runner:
        """The same for a region: of the operator that makes `output`, the one in `attribute`."""


class Record:
    """Results of one run, by tensor; `steps` in running order for those without a name.

    Neither need be in memory. files: a folder they lie in that goes when this object goes.
    """

    def __init__(
        self,
        name: str,
        arrays: Mapping[str, Array],
        steps: Sequence[Callable[[], Array]] = (),
        files: Path | None = None,
    ) -> None:
        self.name, self.arrays, self.steps = name, arrays, steps
        if files is not None:
            weakref.finalize(self, shutil.rmtree, files, ignore_errors=True)


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
        files = Path(tempfile.mkdtemp(prefix="tosa-run-"))
        try:
            outputs, steps = work(python, text, original, given, timeout, files)
            return Record(text, _by_position(graph, outputs, text), steps, files)
        except BaseException:
            shutil.rmtree(files, ignore_errors=True)
            raise
    if os.path.isdir(text):
        return Record(text, open_folder(Path(text)))
    if text.endswith(".npz"):
        return Record(text, open_npz(text))
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


def _by_position(graph: Graph, outputs: Sequence[Callable[[], Array]], what: str) -> Lazy:
    wanted = output_slots(graph)
    if len(wanted) != len(outputs):
        raise fail(
            "backend-failed", what, f"it gave {len(outputs)} outputs, the TOSA model {len(wanted)}"
        )
    by_key = {slot.key: read for slot, read in zip(wanted, outputs, strict=True)}
    return Lazy(by_key, lambda key: by_key[key]())


def open_folder(folder: Path) -> Lazy:
    """Arrays by tensor from a folder: by its manifest.json if there is one, else by file name.

    Raises TosaConvertError("file-error").
    """
    manifest = folder / "manifest.json"
    if not manifest.exists():
        return stored({path.stem: path for path in sorted(folder.glob("*.npy"))})
    try:
        rows = json.loads(manifest.read_text())["tensors"]
        # The last part only: a manifest must not lead out of its folder.
        files = {str(row["name"]): folder / Path(str(row["file"])).name for row in rows}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise fail("file-error", str(manifest), f"it is no manifest: {error!r}") from None
    return stored(files)


def work(
    python: str, kind: str, model: str, inputs: list[Array], timeout: float, folder: Path
) -> tuple[list[Callable[[], Array]], list[Callable[[], Array]]]:
    """Outputs and steps of a model run by `worker.py` under `python`, to be read from `folder`.

    Raises TosaConvertError("missing-backend") and ("backend-failed").
    """
    for array in inputs:
        if array.dtype.kind not in "biuf":
            raise fail("backend-failed", kind, f"an input is {array.dtype}, which numpy lacks")
    given = [folder / f"in{i}.npy" for i in range(len(inputs))]
    for path, array in zip(given, inputs, strict=True):
        np.save(path, array)
    # As text, not by path: beside the file lie modules whose names the software imports, too.
    source = Path(__file__).with_name("worker.py").read_text(encoding="utf-8")
    command = [python, "-c", source, kind, os.path.abspath(model)]
    ended = _run(command, folder, folder, timeout, kind)
    for path in given:
        path.unlink()
    if ended.code == _MISSING:
        raise fail("missing-backend", kind, _last_line(ended.stderr), _PIP[kind])
    if ended.code:
        raise fail("backend-failed", kind, _last_line(ended.stderr) or _ending(ended.code))
    return _numbered(folder, "out"), _numbered(folder, "step")


def _numbered(folder: Path, prefix: str) -> list[Callable[[], Array]]:
    found: list[Callable[[], Array]] = []
    while (path := folder / f"{prefix}{len(found)}.npy").exists():
        found.append(functools.partial(np.load, path, allow_pickle=False))
    return found


def _run(command: list[str], folder: Path, scratch: Path, timeout: float, what: str) -> Ended:
    try:
        ended = run_child(command, timeout=timeout, folder=folder)
    except OSError as error:
        raise fail("missing-backend", what, f"{command[0]}: {error.strerror}") from None
    if ended.timed_out:
        raise fail("backend-failed", what, f"it did not end within {timeout:g} s")
    return ended


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:1000] if lines else ""


def _checked(graph: Graph, arrays: Mapping[str, Array]) -> Lazy:
    """The arrays in the graph's types where they are another spelling of them, else as they are."""
    return typed(arrays, {slot.key: slot for slot in output_slots(graph)})


def typed(arrays: Mapping[str, Array], known: Mapping[str, Slot]) -> Lazy:
    """The arrays, those that have a slot as `as_slot` gives them."""
    return Lazy(
        arrays, lambda key: as_slot(known[key], arrays[key]) if key in known else arrays[key]
    )


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
        self,
        graph: Graph,
        names: list[str],
        inputs: Mapping[str, Array],
        cuts: list[str],
        folder: Path,
    ) -> Mapping[str, Array]:
        """See Runner."""
        part = extract_from(graph, names, cuts)
        path = folder / "part.mlir"
        write_scratch(path, [_text_for_iree(part)])
        given = [inputs[slot.key] for slot in input_slots(part)]
        outputs, _ = work(self.python, "iree", str(path), given, self.timeout, folder)
        return _checked(part, _by_position(part, outputs, "iree"))

    def inside(self, output: str, attribute: str) -> Runner:
        """See Runner."""
        return self


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

    def __init__(self, path: str, timeout: float, graph: Graph | None = None) -> None:
        self.name, self.timeout = path, timeout
        self.graph = as_graph(path) if graph is None else graph

    def compute(
        self,
        graph: Graph,
        names: list[str],
        inputs: Mapping[str, Array],
        cuts: list[str],
        folder: Path,
    ) -> Mapping[str, Array]:
        """See Runner."""
        return run_in(folder, extract_from(self.graph, names, cuts), inputs, self.timeout)

    def inside(self, output: str, attribute: str) -> Runner:
        """See Runner. Raises TosaConvertError("undefined-name") if it has no such region."""
        for op in self.graph.main.operators:
            if output in op.outputs and attribute in op.attributes:
                inner = extract_region(self.graph, str(op.attributes[attribute]))
                return OtherModel(self.name, self.timeout, inner)
        raise fail("undefined-name", self.name, f'no {attribute} belongs to "{output}"')


class Command:
    """Any command: `{model}`, `{inputs}`, `{outputs}` in its words, or the three behind them."""

    def __init__(self, words: list[str], timeout: float) -> None:
        self.name, self.words, self.timeout = words[0], words, timeout

    def compute(
        self,
        graph: Graph,
        names: list[str],
        inputs: Mapping[str, Array],
        cuts: list[str],
        folder: Path,
    ) -> Mapping[str, Array]:
        """See Runner."""
        part = extract_from(graph, names, cuts)
        write_scratch(folder / "model.tosa", api.encode(part))
        wanted = [slot.key for slot in input_slots(part)]
        with open(folder / "in.npz", "wb") as file:
            write_npz(file, ((key, inputs[key]) for key in wanted))
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
        ended = _run(words, Path.cwd(), folder, self.timeout, self.name)
        if ended.code or not (folder / "out.npz").exists():
            text = _last_line(ended.stderr) or f"{_ending(ended.code)}, no outputs"
            raise fail("backend-failed", self.name, text)
        answer = unpack_npz(folder / "out.npz", folder)
        for name in ("in.npz", "out.npz"):
            (folder / name).unlink()
        return _checked(part, answer)

    def inside(self, output: str, attribute: str) -> Runner:
        """See Runner."""
        return self


def align(
    graph: Graph,
    golden: Iterable[tuple[str, Array]],
    steps: Sequence[Callable[[], Array]],
) -> dict[str, int]:
    """Which tensors of the graph nameless steps are: same type and shape, in order, nearest in value.

    golden: the tensors with their arrays, one at a time; none is kept.
    Returns tensor -> index of the step. Steps that match none are left out.
    """
    order = {name: index for index, (_, name) in enumerate(computed_tensors(graph))}
    looks = [_Look(read()) for read in steps]
    alike: dict[Any, list[int]] = {}
    for number, look in enumerate(looks):
        alike.setdefault(look.kind, []).append(number)
    distances: list[list[tuple[int, float]]] = [[] for _ in steps]
    names: dict[int, str] = {}
    for name, array in golden:
        if name in order:
            names[order[name]] = name
            look = _Look(array)
            for number in alike.get(look.kind, ()):
                distances[number].append((order[name], look.distance(looks[number])))
    found: dict[str, int] = {}
    position = 0
    for number, row in enumerate(distances):
        best: tuple[float, int] | None = None
        for index, distance in sorted(row):
            # Of equals the last: what a converter puts behind an operator belongs to it.
            if index >= position and (best is None or distance <= best[0]):
                best = (distance, index)
        if best is not None and best[0] <= looks[number].far:
            found[names[best[1]]] = number
            position = best[1] + 1
    return found


class _Look:
    """What is remembered of an array to tell what it is like: its kind, a hash, and a sample.

    far: how far apart the mean of two arrays of one tensor can be: a tenth of its spread.
    """

    def __init__(self, array: Array) -> None:
        self.kind = (str(array.dtype), array.shape)
        flat = np.ascontiguousarray(array).reshape(-1)
        self.hash = hashlib.sha256(flat.view(np.uint8).data).digest()
        if flat.size > SAMPLE:
            # Not evenly spaced: that might see a single channel only.
            flat = flat[np.random.default_rng(0).integers(0, flat.size, SAMPLE)]
        self.sample = flat.astype(np.float64)
        with np.errstate(all="ignore"):
            self.far = 0.1 * float(np.std(self.sample)) + 1.0 if flat.size else 1.0

    def distance(self, other: _Look) -> float:
        """0 for equal arrays only, else about the mean difference in size."""
        if self.hash == other.hash:
            return 0.0
        with np.errstate(all="ignore"):
            mean = float(np.mean(np.abs(self.sample - other.sample)))
        return max(mean, sys.float_info.min)
