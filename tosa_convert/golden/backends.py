"""Backends that a model is checked against: programs that compute it, or recorded results of them.

There are two forms. A `Runner` computes any tensors of the graph from any others (IREE, a command,
another version of the model on the reference model). A `Record` has the results of one run (a folder,
an `.npz`, the TFLite interpreter or torch on the original model).
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shlex
import shutil
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from tosa_convert import api
from tosa_convert.child_process import Ended, describe_exit
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.files import file_error
from tosa_convert.formats import EXTENSIONS
from tosa_convert.golden.array_io import Slot, coerce, match, slots
from tosa_convert.golden.arrays import Array, LazyArrays
from tosa_convert.golden.commands import command_words, run_command, with_paths
from tosa_convert.golden.npz import npy_files, open_npz, read_npy, unpack_npz, write_npz
from tosa_convert.golden.programs import Program, as_graph, input_slots, output_slots
from tosa_convert.golden.reference_model import TIMEOUT, RunOptions, run_in_folder, run_program
from tosa_convert.golden.scratch import (
    file_errors,
    new_scratch_folder,
    scratch_errors,
    write_npy,
    write_scratch,
)
from tosa_convert.golden.variable_states import STATE_PREFIX, state_slots, variables_of
from tosa_convert.graph.extract import extract_from, extract_region
from tosa_convert.graph.model import Graph, counted

_MODEL_EXTENSIONS: Final = tuple(EXTENSIONS)
#: Exit code of `backend_worker.py` if the backend's packages are not installed.
_MISSING: Final = 3
#: Lines of a backend's own output that a message repeats, and characters of each.
_SAID_LINES: Final = 20
_SAID_CHARACTERS: Final = 90
_PIP: Final = {
    "iree": "pip install iree-base-compiler iree-base-runtime",
    "tflite": "pip install ai-edge-litert",
    "torch": "pip install torch",
}


class Runner(Protocol):
    """Computes tensors of a graph.

    name: for messages. text: what `--against` takes to open it again.
    """

    name: str
    text: str

    def compute(
        self,
        graph: Graph,
        names: list[str],
        inputs: Mapping[str, Array],
        cuts: list[str],
        folder: Path,
    ) -> Mapping[str, Array]:
        """The tensors `names`, computed from the graph's inputs and those of `cuts` that they need.

        A program as it is (`names` are its outputs, without cuts) runs unchanged, and the result may
        also have the states of its variables after the run, by `variable:NAME`.

        inputs: arrays of all of them by key.
        folder: an empty folder. The result may read from it on demand, and is not used after the
            folder is removed.
        Raises TosaConvertError("backend-failed") if the backend gives no result.
        """

    def inside(self, output: str, attribute: str) -> Runner:
        """The backend for a region: of the operator that makes `output`, the one in `attribute`."""


class Record:
    """Results of one run, by tensor, and `steps`: unnamed results in execution order.

    Neither needs to be in memory. files: a folder with them that is removed with this object.
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


Backend = Runner | Record


def open_backend(
    text: str,
    graph: Graph,
    inputs: Mapping[str, Array],
    *,
    original: str = "",
    python: str = "",
    timeout: float = TIMEOUT,
    keep: Path | None = None,
) -> Backend:
    """The backend that `--against TEXT` means.

    Args:
        text: "iree", "tflite", "torch", a folder of `.npy` files, an `.npz` file, another model
            with the same tensor names, or a command line.
        graph: the program.
        inputs: an array for each input; "tflite" and "torch" run at once.
        original: the TFLite model, or torch's FILE.py:NAME or exported program.
        python: the Python that has the backend's packages; by default this one.
        timeout: seconds for one run.
        keep: a folder for the models and inputs on which "iree" or a command fails.

    Raises:
        TosaConvertError: `missing-backend`, `backend-failed`, `file-error`, or `option-conflict`
            if "tflite" or "torch" has no original.

    Example:
        >>> from tosa_convert import golden
        >>> graph = golden.generate(seed=2, operators=3, kinds=["ABS"])
        >>> golden.open_backend("no-such-program", graph, {})
        Traceback (most recent call last):
        ...
        tosa_convert.errors.TosaConvertError: --against no-such-program: error: ...
    """
    python = python or sys.executable
    if text == "iree":
        return Iree(python, timeout, keep)
    if text in ("tflite", "torch"):
        if not original:
            raise fail(
                "option-conflict",
                f"--against {text}",
                "the original model is needed",
                "--original MODEL.tflite, or --original FILE.py:NAME for torch",
            )
        given = [inputs[slot.key] for slot in input_slots(graph)]
        files = new_scratch_folder()
        try:
            with scratch_errors(files):
                outputs, steps = run_worker(python, text, original, given, timeout, files)
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
    words = command_words(text)
    if not words:
        raise fail(
            "missing-backend",
            f"--against {text}",
            "expected iree, tflite, torch, a folder, an .npz file, a model, or a command on PATH",
        )
    return Command(words, timeout, keep)


def part_of(graph: Graph, names: Sequence[str], cuts: Sequence[str]) -> Graph:
    """The part of a graph that a backend computes: the graph itself if that is all of it.

    The whole has operators that no output depends on, too, such as writes to variables.
    """
    if not cuts and set(names) == set(graph.main.outputs):
        return graph
    return extract_from(graph, names, cuts)


def _by_position(graph: Graph, outputs: Sequence[Callable[[], Array]], name: str) -> LazyArrays:
    names = graph.main.outputs
    # A program may return a tensor twice.
    wanted = [slot for output in names for slot in slots(graph.main, output)]
    if len(wanted) != len(outputs):
        wanted = output_slots(graph)
    if len(wanted) != len(outputs):
        message = f"it has {counted(len(outputs), 'output')}, the TOSA model has {len(wanted)}"
        raise fail("backend-failed", name, message)
    by_key = {slot.key: read for slot, read in zip(wanted, outputs, strict=True)}
    return LazyArrays(by_key, lambda key: by_key[key]())


def open_folder(folder: Path) -> LazyArrays:
    """Arrays by tensor from a folder: named by its manifest.json if there is one, else by their files.

    Raises TosaConvertError("file-error").
    """
    manifest = folder / "manifest.json"
    if not manifest.exists():
        return npy_files({path.stem: path for path in sorted(folder.glob("*.npy"))})
    try:
        rows = json.loads(manifest.read_text())["tensors"]
        # Only the last component: a manifest must not lead out of its folder.
        files = {str(row["name"]): folder / Path(str(row["file"])).name for row in rows}
    except OSError as error:
        raise file_error(manifest, error, "read") from None
    except (ValueError, KeyError, TypeError) as error:
        raise fail("file-error", str(manifest), f"not a valid manifest: {error!r}") from None
    return npy_files(files)


def run_worker(
    python: str, software: str, model: str, inputs: list[Array], timeout: float, folder: Path
) -> tuple[list[Callable[[], Array]], list[Callable[[], Array]]]:
    """Run a model by `backend_worker.py` under `python`; its outputs and steps, read from `folder`.

    Raises TosaConvertError("missing-backend") and ("backend-failed").
    """
    for array in inputs:
        if array.dtype.kind not in "biuf":
            message = f"numpy has no type {array.dtype}, which an input has"
            raise fail("backend-failed", software, message)
    given = [folder / f"in{i}.npy" for i in range(len(inputs))]
    for path, array in zip(given, inputs, strict=True):
        write_npy(path, array)
    # As text, not by path: the file's folder has modules whose names the software imports, too.
    source = Path(__file__).with_name("backend_worker.py").read_text(encoding="utf-8")
    command = [python, "-c", source, software, os.path.abspath(model)]
    ended = _run(command, timeout, software, folder)
    if ended.code == _MISSING:
        raise fail("missing-backend", software, ended.stderr.strip()[-200:], _PIP[software])
    if ended.code:
        raise fail("backend-failed", software, _said(ended))
    for path in given:
        path.unlink()
    return _numbered(folder, "out"), _numbered(folder, "step")


def _numbered(folder: Path, prefix: str) -> list[Callable[[], Array]]:
    """The arrays of the files `<prefix>0.npy`, `<prefix>1.npy`, ... of a folder."""
    readers: list[Callable[[], Array]] = []
    while (path := folder / f"{prefix}{len(readers)}.npy").exists():
        readers.append(functools.partial(read_npy, path))
    return readers


def _run(command: list[str], timeout: float, name: str, folder: Path | None = None) -> Ended:
    """Run a backend's command."""
    ended = run_command(command, timeout=timeout, name=name, folder=folder)
    if ended.timed_out:
        ended_text = _said(ended).partition("; ")[2]
        text = f"it did not end within {timeout:g} s"
        raise fail("backend-failed", name, f"{text}; {ended_text}" if ended_text else text)
    return ended


def _said(ended: Ended, problem: str = "") -> str:
    """How a backend ended, and the last lines that it wrote to stderr."""
    lines = [line.rstrip() for line in ended.stderr.splitlines() if line.strip()][-_SAID_LINES:]
    head = f"it ended with {describe_exit(ended.code)}{problem}"
    if not lines:
        return f"{head}, and wrote nothing to stderr"
    return "\n    ".join(
        (f"{head}; the end of its stderr:", *(x[:_SAID_CHARACTERS] for x in lines))
    )


@contextlib.contextmanager
def _failures_kept(name: str, folder: Path, keep: Path | None) -> Iterator[None]:
    """Keep a copy of a backend's folder if the block raises "backend-failed".

    A damaged file is the backend's failure, too.
    """
    try:
        yield
    except TosaConvertError as error:
        finding = error.findings[0]
        if finding.code not in ("backend-failed", "file-error"):
            raise
        hint = "--keep DIR keeps its model and inputs"
        if keep is not None:
            number = len(list(keep.glob("failed-*"))) if keep.is_dir() else 0
            kept = keep / f"failed-{number}"
            with file_errors(kept):
                shutil.copytree(folder, kept)
            hint = f"its model and inputs are in {kept}"
        raise fail("backend-failed", name, finding.message, hint) from None


def _with_output_types(graph: Graph, arrays: Mapping[str, Array]) -> LazyArrays:
    """The arrays in the types of the graph's outputs and states, if they hold the same elements."""
    outputs = {slot.key: slot for slot in output_slots(graph)}
    return with_slot_types(arrays, {**state_slots(graph), **outputs})


def with_slot_types(arrays: Mapping[str, Array], by_key: Mapping[str, Slot]) -> LazyArrays:
    """The arrays, those that have a slot as `as_slot_type` returns them."""
    return LazyArrays(
        arrays, lambda key: as_slot_type(by_key[key], arrays[key]) if key in by_key else arrays[key]
    )


def as_slot_type(slot: Slot, array: Array) -> Array:
    """The array in the slot's type if it holds the same elements in another notation.

    Any other array is returned unchanged: the comparison judges the difference.
    """
    try:
        return coerce(slot, array)
    except TosaConvertError:
        return array


class Iree:
    """IREE for the host: compiles the sub-graph, as MLIR, and runs it."""

    name = text = "iree"

    def __init__(self, python: str, timeout: float, keep: Path | None = None) -> None:
        self.python, self.timeout, self.keep = python, timeout, keep

    def compute(
        self,
        graph: Graph,
        names: list[str],
        inputs: Mapping[str, Array],
        cuts: list[str],
        folder: Path,
    ) -> Mapping[str, Array]:
        """See Runner."""
        part = part_of(graph, names, cuts)
        path = folder / "part.mlir"
        write_scratch(path, [_text_for_iree(part)])
        given = [inputs[slot.key] for slot in input_slots(part)]
        with _failures_kept("iree", folder, self.keep):
            outputs, _ = run_worker(self.python, "iree", str(path), given, self.timeout, folder)
        return _with_output_types(part, _by_position(part, outputs, "iree"))

    def inside(self, output: str, attribute: str) -> Runner:
        """See Runner."""
        return self


def _text_for_iree(graph: Graph) -> bytes:
    """The graph in MLIR's generic text, which any bindings read, with every constant dense.

    IREE 3.13 compiles a RESCALE whose multipliers are a resource so that it gives zeros.
    """
    data = b"".join(api.encode(graph))
    module = api.import_tosa_func_from_flatbuffer(data, constants="dense")
    asm: str = module.operation.get_asm(print_generic_op_form=True)
    return asm.encode()


class OtherModel:
    """Another version of the model, with the same names, on the reference model."""

    def __init__(self, path: str, timeout: float, graph: Graph | None = None) -> None:
        self.name = self.text = path
        self.timeout = timeout
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
        part = part_of(self.graph, names, cuts)
        options = RunOptions(timeout=self.timeout)
        if part is not self.graph or not variables_of(part):
            return run_in_folder(folder, part, inputs, options)
        result = run_program(Program(part), match(input_slots(part), inputs, strict=False), options)
        states = {STATE_PREFIX + name: array for name, array in result.variables.items()}
        return {**result.outputs, **states}

    def inside(self, output: str, attribute: str) -> Runner:
        """See Runner. Raises TosaConvertError("undefined-name") if it has no such region."""
        for op in self.graph.main.operators:
            if output in op.outputs and attribute in op.attributes:
                inner = extract_region(self.graph, str(op.attributes[attribute]))
                return OtherModel(self.name, self.timeout, inner)
        raise fail("undefined-name", self.name, f'the operator of "{output}" has no {attribute}')


class Command:
    """Any command: `{model}`, `{inputs}`, `{outputs}` in its words, or the three appended to them."""

    def __init__(self, words: list[str], timeout: float, keep: Path | None = None) -> None:
        self.name, self.words, self.timeout, self.keep = words[0], words, timeout, keep
        # Absolute: the text is also used in another working folder.
        self.text = shlex.join(os.path.abspath(w) if os.path.isfile(w) else w for w in words)

    def compute(
        self,
        graph: Graph,
        names: list[str],
        inputs: Mapping[str, Array],
        cuts: list[str],
        folder: Path,
    ) -> Mapping[str, Array]:
        """See Runner."""
        part = part_of(graph, names, cuts)
        write_scratch(folder / "model.tosa", api.encode(part))
        wanted = [slot.key for slot in input_slots(part)]
        with open(folder / "in.npz", "wb") as file:
            write_npz(file, ((key, inputs[key]) for key in wanted))
        paths = {
            "{model}": str(folder / "model.tosa"),
            "{inputs}": str(folder / "in.npz"),
            "{outputs}": str(folder / "out.npz"),
        }
        words = with_paths(self.words, paths, appended=list(paths))
        with _failures_kept(self.name, folder, self.keep):
            ended = _run(words, self.timeout, self.name)
            if ended.code:
                raise fail("backend-failed", self.name, _said(ended))
            if not (folder / "out.npz").exists():
                raise fail("backend-failed", self.name, _said(ended, " and no outputs"))
            answer = unpack_npz(folder / "out.npz", folder)
            for name in answer:
                answer[name]  # a damaged array is found here
        for name in ("in.npz", "out.npz"):
            (folder / name).unlink()
        return _with_output_types(part, answer)

    def inside(self, output: str, attribute: str) -> Runner:
        """See Runner."""
        return self
