"""Backends that a model is checked against: programs that compute it, or recorded results of them.

There are two forms. A `Runner` computes any tensors of the graph from any others (IREE, a command,
another version of the model on the reference model). A `Record` has the results of one run (a folder,
an `.npz`, or TFLite, torch or ONNX Runtime on the original model).
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from tosa_convert import api
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.extensions import find_extension, is_extension
from tosa_convert.formats.read import open_input
from tosa_convert.golden.arrays.by_name import Array, LazyArrays
from tosa_convert.golden.arrays.npz import npy_files, npz_pieces, open_npz, unpack_npz
from tosa_convert.golden.arrays.scratch import (
    new_scratch_folder,
    scratch_errors,
    write_npy,
    write_scratch,
)
from tosa_convert.golden.arrays.slots import INT48, Slot, coerce, slots
from tosa_convert.golden.backends.other_model import NUMPY, OtherModel, part_of
from tosa_convert.golden.backends.process import (
    Machine,
    failures_kept,
    numbered,
    refuse_failure,
    run_backend,
    run_worker,
    unknown_backend,
)
from tosa_convert.golden.running.commands import command_words, with_paths
from tosa_convert.golden.running.programs import (
    AS_IT_IS,
    Program,
    as_graph,
    input_slots,
    output_slots,
    shapes_of_results,
)
from tosa_convert.golden.running.run_graph import run_program
from tosa_convert.golden.running.run_options import TIMEOUT, RunOptions
from tosa_convert.golden.running.variable_states import state_slots
from tosa_convert.graph.model import Graph, counted
from tosa_convert.io import log
from tosa_convert.io.files import map_file, path_below, read_json
from tosa_convert.io.formats import EXTENSIONS
from tosa_convert.io.options import ReadOptions
from tosa_convert.process.child import last_words, remove_temporary_folder

_MODEL_EXTENSIONS: Final = tuple(EXTENSIONS)
#: How MLIR is read that others wrote: values have names of their own, and regions capture values.
_OF_OTHERS: Final = ReadOptions(names="generate", pass_captured=True)
#: In the words of a command that writes a program: the beginning of its file's name.
REWRITTEN: Final = "{program}"
#: 64-bit types of frameworks -> the types that TOSA has instead, as numpy writes them.
_NARROWER: Final = frozenset({("i8", "i4"), ("f8", "f4")})
#: Software that runs models of its own -> how the original of a TOSA program is given.
ORIGINALS: Final = {
    "tflite": "tflite:MODEL.tflite",
    "torch": "torch:FILE.py:NAME, or torch:PROGRAM.pt2",
    "onnxruntime": "onnxruntime:MODEL.onnx",
    "jax": "jax:FILE.py:NAME",
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
        """Compute the tensors `names` from the graph's inputs and those of `cuts` that they need.

        A program as it is (`names` are its outputs, without cuts) runs unchanged, and the result may
        also have the states of its variables after the run, by `variable:NAME`.

        inputs: arrays of all of them by key.
        folder: an empty folder. The result may read from it on demand, and is not used after the
            folder is removed.
        Raises TosaConvertError("backend-failed") if the backend gives no result.
        """

    def inside(self, output: str, attribute: str) -> Runner:
        """Return the backend for the region in `attribute` of the operator that makes `output`."""


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
        self.name, self.arrays, self.steps, self.files = name, arrays, steps, files
        if files is not None:
            weakref.finalize(self, remove_temporary_folder, files)


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
    """Return the backend that `--against TEXT` means.

    Args:
        text: "numpy", "iree", "tflite", "torch", "onnxruntime" or "jax", a `.py` file with a function
            `run`, `extension:NAME` for a backend of another package, a folder of `.npy` files, an `.npz`
            file, another model with the same tensor names, or a command line. The original may follow a
            colon: "tflite:model.tflite".
        graph: the program.
        inputs: an array for each input; software that has an original runs at once.
        original: the TFLite or ONNX model, or torch's FILE.py:NAME or exported program.
        python: the Python that has the backend's packages; by default this one.
        timeout: seconds for one run.
        keep: a folder for the models and inputs on which "iree" or a command fails.

    Raises:
        TosaConvertError: `missing-backend`, `backend-failed`, `file-error`, or `option-conflict`
            if software that needs an original has none.

    Example:
        >>> from tosa_convert import golden
        >>> graph = golden.generate(seed=2, operators=3, kinds=["ABS"])
        >>> golden.open_backend("no-such-program", graph, {})
        Traceback (most recent call last):
        ...
        tosa_convert.errors.TosaConvertError: --against no-such-program: error: ...
    """
    if not isinstance(text, str):
        raise TypeError(f"found {type(text).__name__}, expected a text, as --against takes it")
    machine = Machine(python or sys.executable, timeout)
    return backend_on(machine, text, graph, inputs, original=original, keep=keep)


def backend_on(
    machine: Machine,
    text: str,
    graph: Graph,
    inputs: Mapping[str, Array],
    *,
    original: str = "",
    keep: Path | None = None,
) -> Backend:
    """Return the backend that `--against TEXT` means, for runs on a machine; see `open_backend`."""
    timeout = machine.timeout
    if text == NUMPY:
        return OtherModel(text, timeout, graph, "numpy")
    if text == "iree":
        return Iree(machine, keep)
    software, colon, after_colon = text.partition(":")
    if software in ORIGINALS:
        if colon and original:
            raise fail("option-conflict", f"--against {text}", "--original names another model")
        return run_original(software, after_colon or original, graph, inputs, machine)
    if is_extension(text):
        return PythonFile(str(find_extension("backends", text).source), machine, keep)
    if text.endswith(".py") and os.path.isfile(text):
        return PythonFile(text, machine, keep)
    if os.path.isdir(text):
        return Record(text, open_folder(Path(text)))
    if text.endswith(".npz"):
        return Record(text, open_npz(text, shapes_of_results(graph)))
    if text.endswith(_MODEL_EXTENSIONS) and os.path.exists(text):
        return OtherModel(text, timeout)
    words = command_words(text)
    if not words:
        raise unknown_backend(text)
    kind = ProgramCommand if any(REWRITTEN in word for word in words) else Command
    return kind(words, machine, keep)


def run_original(
    software: str,
    original: str,
    graph: Graph,
    inputs: Mapping[str, Array],
    machine: Machine,
) -> Record:
    """Return the results of software that runs the model from which the TOSA program was made.

    Raises TosaConvertError as `open_backend`.
    """
    if not original:
        hint = f"--against {ORIGINALS[software]}"
        message = "the original model is needed: it does not run TOSA programs"
        raise fail("option-conflict", f"--against {software}", message, hint)
    given = [inputs[slot.key] for slot in input_slots(graph)]
    files = new_scratch_folder()
    try:
        with scratch_errors(files):
            outputs, steps = run_worker(machine, software, original, given, files)
        changed = numbered(files, "changed")
        answer = in_program_types(graph, by_position(graph, outputs, software, changed))
        return Record(software, answer, steps, files)
    except BaseException:
        remove_temporary_folder(files)
        raise


def in_program_types(graph: Graph, arrays: Mapping[str, Array]) -> LazyArrays:
    """Return a framework's arrays in the program's types, if these hold the same elements.

    TOSA's integers are signless: unsigned ones keep their bits. 64-bit elements are narrowed to 32 bits
    if they fit.
    """
    by_key = state_slots(graph) | {slot.key: slot for slot in output_slots(graph)}

    def read(key: str) -> Array:
        array, slot = arrays[key], by_key.get(key)
        wanted = None if slot is None else np.dtype(slot.dtype.numpy)
        if wanted is None:
            return array
        if (array.dtype.kind, wanted.kind) == ("u", "i") and array.itemsize == wanted.itemsize:
            return np.ascontiguousarray(array).view(wanted).reshape(array.shape)
        if (array.dtype.str[1:], wanted.str[1:]) not in _NARROWER:
            return array
        narrow = array.astype(wanted)
        # Rounding is meant; an integer that does not fit is a difference to be judged.
        return narrow if wanted.kind == "f" or np.array_equal(narrow, array) else array

    return LazyArrays(arrays, read)


def by_position(
    graph: Graph,
    outputs: Sequence[Callable[..., Array]],
    name: str,
    changed: Sequence[Callable[..., Array]] = (),
) -> LazyArrays:
    """Return a model's outputs by the names that the program has for them.

    Args:
        graph: the program.
        outputs: their readers in order, which get the expected shape as `read_npy` does.
        name: of the software.
        changed: the inputs that the model writes to, which may be the program's last outputs.

    Raises:
        TosaConvertError: "backend-failed".
    """
    # A program may return a tensor twice.
    wanted = [slot for output in graph.main.outputs for slot in slots(graph.main, output)]
    if len(wanted) == len(outputs) + len(changed):
        outputs = [*outputs, *changed]
    wanted = wanted if len(wanted) == len(outputs) else output_slots(graph)
    if len(wanted) != len(outputs):
        message = f"it has {counted(len(outputs), 'output')}, the TOSA model has {len(wanted)}"
        raise fail("backend-failed", name, message)
    by_key = {slot.key: (read, slot.shape) for slot, read in zip(wanted, outputs, strict=True)}
    return LazyArrays(by_key, lambda key: by_key[key][0](shape=by_key[key][1]))


def open_folder(folder: Path) -> LazyArrays:
    """Read arrays by tensor from a folder: named by its manifest.json, or else by their files.

    Raises TosaConvertError("file-error").
    """
    manifest = folder / "manifest.json"
    if not manifest.exists():
        return npy_files({path.stem: path for path in sorted(folder.glob("*.npy"))})
    expected = "a manifest of tensors"
    content = read_json(manifest, expected)
    try:
        names = {str(row["name"]): row["file"] for row in content["tensors"]}
    except (KeyError, TypeError) as error:
        raise fail("file-error", str(manifest), f"not {expected}: {error!r:.200}") from None
    where = str(manifest)
    files = {name: Path(path_below(folder, file, where)) for name, file in names.items()}
    return npy_files(files)


def with_slot_types(arrays: Mapping[str, Array], by_key: Mapping[str, Slot]) -> LazyArrays:
    """Return the arrays in the types of their slots, if these hold the same elements.

    Others are returned unchanged: the comparison judges the difference.
    """

    def read(key: str) -> Array:
        array = arrays[key]
        with contextlib.suppress(TosaConvertError):
            return coerce(by_key[key], array) if key in by_key else array
        return array

    return LazyArrays(arrays, read)


class _Isolated:
    """A backend that computes a part of a program in a process of its own.

    name, text: as for Runner. keep: a folder for the parts on which it fails.
    original: a file to run instead of the whole program as this package would write it.
    """

    def __init__(self, name: str, text: str, machine: Machine, keep: Path | None) -> None:
        self.name, self.text, self.machine, self.keep = name, text, machine, keep
        self.original: Path | None = None

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
        self.write(part, folder, self.original if part is graph else None)
        # Read when they are written: they may be files.
        given = LazyArrays([slot.key for slot in input_slots(part)], inputs.__getitem__)
        with failures_kept(self.name, folder, self.keep):
            answer = self.run(part, given, folder)
        outputs = {slot.key: slot for slot in output_slots(part)}
        return with_slot_types(answer, {**state_slots(part), **outputs})

    def write(self, part: Graph, folder: Path, original: Path | None) -> None:
        """Write the program."""
        pieces = api.encode(part) if original is None else [map_file(original)]
        write_scratch(folder / "model.tosa", pieces)

    def run(self, part: Graph, inputs: Mapping[str, Array], folder: Path) -> Mapping[str, Array]:
        """Run the program that was written; return its outputs, and its states if they are known."""
        raise NotImplementedError

    def inside(self, output: str, attribute: str) -> Runner:
        """See Runner."""
        return self


class Iree(_Isolated):
    """IREE for the host: compiles the sub-graph, as MLIR, and runs it."""

    def __init__(self, machine: Machine, keep: Path | None = None) -> None:
        super().__init__("iree", "iree", machine, keep)

    def write(self, part: Graph, folder: Path, original: Path | None) -> None:
        """Write the graph in MLIR's generic text, which any bindings read, with every constant dense.

        IREE 3.13 compiles a RESCALE whose multipliers are a resource so that it gives zeros.
        """
        data = b"".join(api.encode(part))
        module = api.import_tosa_func_from_flatbuffer(data, constants="dense", validate=False)
        asm: str = module.operation.get_asm(print_generic_op_form=True)
        write_scratch(folder / "part.mlir", [asm.encode()])

    def run(self, part: Graph, inputs: Mapping[str, Array], folder: Path) -> Mapping[str, Array]:
        """Run it by IREE."""
        path, given = str(folder / "part.mlir"), list(inputs.values())
        outputs, _ = run_worker(self.machine, "iree", path, given, folder)
        answer = by_position(part, outputs, "iree")
        wide = {slot.key for slot in output_slots(part) if slot.dtype is INT48}
        # The upper 16 of the 64 bits in which IREE gives an i48 are not its sign.
        return LazyArrays(answer, lambda k: answer[k] << 16 >> 16 if k in wide else answer[k])


class PythonFile(_Isolated):
    """A Python file with a function `run`, which gets a program and arrays, and returns arrays."""

    def __init__(self, path: str, machine: Machine, keep: Path | None = None) -> None:
        super().__init__(path, os.path.abspath(path), machine, keep)

    def run(self, part: Graph, inputs: Mapping[str, Array], folder: Path) -> Mapping[str, Array]:
        """Call the function in a child process."""
        outs = [slot.key for slot in output_slots(part)]
        text = json.dumps({"inputs": list(inputs), "outputs": outs})
        write_scratch(folder / "names.json", [text.encode()])
        given = list(inputs.values())
        outputs, _ = run_worker(self.machine, "python", self.text, given, folder)
        return by_position(part, outputs, self.name)


class Command(_Isolated):
    """Any command: `{model}`, `{inputs}`, `{outputs}` in its words, or the three appended to them.

    With `{input_dir}` and `{output_dir}` it reads in0.npy, in1.npy, ... and writes out0.npy, ... in the
    program's order instead.
    """

    def __init__(self, words: list[str], machine: Machine, keep: Path | None = None) -> None:
        # Absolute: the text is also used in another working folder.
        text = shlex.join(os.path.abspath(w) if os.path.isfile(w) else w for w in words)
        super().__init__(words[0], text, machine, keep)
        self.words = words

    def run(self, part: Graph, inputs: Mapping[str, Array], folder: Path) -> Mapping[str, Array]:
        """Run the command on files."""
        files = {"{model}": "model.tosa", "{inputs}": "in.npz", "{outputs}": "out.npz"}
        folders = {"{input_dir}": str(folder / "in"), "{output_dir}": str(folder / "out")}
        paths = {mark: str(folder / name) for mark, name in files.items()}
        words = with_paths(self.words, paths | folders, appended=list(paths))
        with_folders = any(mark in word for word in self.words for mark in folders)
        if with_folders:
            for path in folders.values():
                os.mkdir(path)
            for number, array in enumerate(inputs.values()):
                write_npy(folder / "in" / f"in{number}.npy", array)
        else:
            write_scratch(folder / "in.npz", npz_pieces(inputs))
        ended = run_backend(words, self.machine.timeout, self.name)
        self.machine.used.append(ended.used)
        refuse_failure(ended, self.name)
        answer: Mapping[str, Array]
        if with_folders:
            answer = by_position(part, numbered(folder / "out", "out"), self.name)
        elif (folder / "out.npz").exists():
            answer = unpack_npz(folder / "out.npz", folder, shapes_of_results(part))
        else:
            raise fail("backend-failed", self.name, last_words(ended, " and no outputs"))
        for name in answer:
            answer[name]  # a damaged array is found here
        for name in ("in.npz", "out.npz"):
            (folder / name).unlink(missing_ok=True)
        return answer


class ProgramCommand(Command):
    """A command that writes another program, whose results numpy computes.

    `{model}` is the program as `.tosa`, `{mlir}` as MLIR text. `{program}` is where the other program
    goes, in any format that can be read: `{program}.mlir` is a file of MLIR.
    """

    def run(self, part: Graph, inputs: Mapping[str, Array], folder: Path) -> Mapping[str, Array]:
        """Run the command, and compute what it wrote, whose inputs and outputs have the same order."""
        marks = {"{model}": folder / "model.tosa", "{mlir}": folder / "model.mlir"}
        if any("{mlir}" in word for word in self.words):
            plain = api.render(part, "mlir", names="generate", locations=False)
            write_scratch(marks["{mlir}"], plain)
        paths = {mark: str(path) for mark, path in marks.items()}
        written = {REWRITTEN: str(folder / "program")}
        words = with_paths(self.words, paths | written, appended=[])
        ended = run_backend(words, self.machine.timeout, self.name)
        self.machine.used.append(ended.used)
        refuse_failure(ended, self.name)
        found = sorted(folder.glob("program*"))
        if len(found) != 1:
            message = f" and wrote {counted(len(found), 'file')} in place of one program"
            raise fail("backend-failed", self.name, last_words(ended, message))
        try:
            with log.warnings_off():
                is_mlir = open_input(str(found[0])).is_mlir
                other = as_graph(str(found[0]), _OF_OTHERS if is_mlir else AS_IT_IS)
        except TosaConvertError as error:
            message = f"what it wrote cannot be read: {error.findings[0].message}"
            raise fail("backend-failed", self.name, message) from None
        taken = [slot.key for slot in input_slots(other)]
        if len(taken) != len(inputs):
            message = f"what it wrote has {counted(len(taken), 'input')}, the program {len(inputs)}"
            raise fail("backend-failed", self.name, message)
        given = dict(zip(taken, inputs.values(), strict=True))
        options = RunOptions(timeout=self.machine.timeout, engine="numpy")
        results = run_program(Program(other), given, options).outputs
        readers = [partial(_result, results, slot.key) for slot in output_slots(other)]
        return by_position(part, readers, self.name)


def _result(results: Mapping[str, Array], key: str, shape: tuple[int, ...]) -> Array:
    """Return a result as the readers of `by_position` do."""
    return results[key]
