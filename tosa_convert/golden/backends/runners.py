"""Open backends: programs that compute a model, or recorded results of them.

A `Runner` computes any tensors of the graph from any others (IREE, a command, another version of the
model). A `Record` has the results of one run (a folder, an `.npz`, or TFLite, torch or ONNX Runtime on
the original).
"""

from __future__ import annotations

import json
import os
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from tosa_convert.errors import fail
from tosa_convert.extensions import find_extension, is_extension
from tosa_convert.golden.arrays import (
    Array,
    Arrays,
    LazyArrays,
    narrowed,
    new_scratch_folder,
    npy_files,
    open_npz,
    scratch_errors,
    unpack_npz,
    write_scratch,
)
from tosa_convert.golden.backends.isolated import (
    NUMPY,
    REFERENCE_MODEL,
    REWRITTEN,
    Command,
    Iree,
    OtherModel,
    Passes,
    ProgramCommand,
    PythonFile,
    by_position,
)
from tosa_convert.golden.backends.process import (
    Machine,
    meant_backend,
    numbered,
    run_worker,
    unknown_backend,
)
from tosa_convert.golden.backends.recorded_tensors import Recorded, steps_of_model
from tosa_convert.golden.backends.tflite_model import pair_with_tflite
from tosa_convert.golden.running.programs import (
    input_slots,
    result_slots,
    shapes_of_results,
    variables_of,
)
from tosa_convert.golden.running.reference_model_process import command_words, program_path
from tosa_convert.golden.running.run_options import TIMEOUT
from tosa_convert.graph.model import Graph, counted
from tosa_convert.io.files import path_below, read_json
from tosa_convert.io.formats import EXTENSIONS
from tosa_convert.io.options import refuse_time_limit
from tosa_convert.process.child import remove_temporary_folder

# -- consumers of TOSA programs that `--against` knows by name: a row says how each is run ---------


@dataclass(frozen=True, slots=True)
class Adapter:
    """Say how a consumer is run.

    package: what PyPI calls it. words, refusal: as for `ProgramCommand`. pipeline: passes of MLIR that
        its bindings run.
    """

    package: str
    words: tuple[str, ...] = ()
    pipeline: str = ""
    refusal: str = ""


_SERIALIZER: Final = "filename={program}"
#: The second one is of a zero point that is no constant, of EXT-DYNAMIC.
_MLIR_REFUSAL: Final = r"(?<!LLVM )[Ee]rror: |ERROR: cannot retrieve the zero points"
_VELA_REFUSAL: Final = (
    "Validation error:|could not run on NPU|Compilation failed: TOSA (builder|FB Reader) error"
)


def _tosa_opt(*words: str) -> Adapter:
    return Adapter("tosa-tools", ("tosa-opt", *words), refusal=_MLIR_REFUSAL)


def _vela(accelerator: str) -> Adapter:
    words = ("vela", "--accelerator-config", accelerator, "--output-format", "raw")
    return Adapter(
        "ethos-u-vela", (*words, "--output-dir", "{folder}", "{model}"), refusal=_VELA_REFUSAL
    )


def _torch_mlir(*passes: str) -> Adapter:
    functions = [f"func.func({name})" if name.startswith("tosa-") else name for name in passes]
    return Adapter("torch-mlir", pipeline=f"builtin.module({','.join(functions)})")


ADAPTERS: Final[Mapping[str, Adapter]] = {
    "tosa-opt": _tosa_opt("{mlir}", "-o", "{program}.mlir"),
    "tosa-opt:bytecode": _tosa_opt("{mlir}", "--emit-bytecode", "-o", "{program}.mlirbc"),
    "tosa-opt:serialize": _tosa_opt(
        "{mlir}", f"--tosa-serialize=tosa-flatbuffer-{_SERIALIZER}.tosa", "-o", os.devnull
    ),
    "tosa-opt:deserialize": _tosa_opt(
        "{mlir}", "--tosa-deserialize=tosa-flatbuffer-filename={model}", "-o", "{program}.mlir"
    ),
    "tosa-opt:validate": _tosa_opt("{mlir}", "--tosa-validate", "-o", "{program}.mlir"),
    "torch-mlir:canonicalize": _torch_mlir("canonicalize"),
    "torch-mlir:cse": _torch_mlir("cse"),
    "torch-mlir:sccp": _torch_mlir("sccp"),
    "torch-mlir:infer-shapes": _torch_mlir("tosa-infer-shapes"),
    "torch-mlir:constant-fold": _torch_mlir("tosa-layerwise-constant-fold"),
    "torch-mlir:constant-fold-aggressive": _torch_mlir(
        "tosa-layerwise-constant-fold{aggressive-reduce-constant=true}"
    ),
    "torch-mlir:reduce-transposes": _torch_mlir("tosa-reduce-transposes"),
    "torch-mlir:make-broadcastable": _torch_mlir("tosa-make-broadcastable"),
    "torch-mlir:decompositions": _torch_mlir("tosa-optional-decompositions"),
    "torch-mlir:narrow-i64": _torch_mlir("tosa-narrow-i64-to-i32{aggressive-rewrite=false}"),
    "torch-mlir:downgrade": _torch_mlir("tosa-downgrade-1-1-to-1-0"),
    "torch-mlir:all": _torch_mlir(
        "tosa-infer-shapes",
        "tosa-make-broadcastable",
        "tosa-optional-decompositions",
        "canonicalize",
        "tosa-layerwise-constant-fold",
        "tosa-reduce-transposes",
        "canonicalize",
        "cse",
    ),
    "torch-mlir": Adapter("torch-mlir", pipeline="run"),
    "vela:ethos-u55": _vela("ethos-u55-128"),
    "vela:ethos-u65": _vela("ethos-u65-256"),
    "vela:ethos-u85": _vela("ethos-u85-256"),
    "model-converter": Adapter(
        "ai-ml-sdk-model-converter",
        ("model-converter", "--input", "{model}", "--output", "{program}.vgf"),
        refusal=_MLIR_REFUSAL,
    ),
    # From a TFLite model of the program's operators.
    "tflite-converter": Adapter(
        "tosa-converter-for-tflite",
        ("tosa-converter-for-tflite", "{tflite}", "--bytecode", "-o", "{program}.mlirbc"),
        refusal="failed to legalize",
    ),
}


def find_adapter(text: str) -> Adapter | None:
    """Return the row of a name; of Vela also by a size of its accelerator, or without one as `--for`."""
    if text == "vela":
        return ADAPTERS["vela:ethos-u55"]
    chosen, _, size = text.rpartition("-")
    if size.isdecimal() and chosen in ADAPTERS and chosen.startswith("vela:"):
        return _vela(text.removeprefix("vela:"))
    return ADAPTERS.get(text)


def open_adapter(name: str, machine: Machine, keep: Path | None) -> ProgramCommand | Passes:
    """Return the backend of a row. Raises TosaConvertError("missing-backend") if it is not installed."""
    row = find_adapter(name)
    assert row is not None
    if row.pipeline:
        return Passes(name, row.pipeline, machine, keep)
    program = program_path(row.words[0], machine.python)
    if program is None:
        message = f"{row.words[0]} is not on PATH, nor beside {machine.python}"
        raise fail("missing-backend", f"--against {name}", message, f"pip install {row.package}")
    backend = ProgramCommand([program, *row.words[1:]], machine, keep, row.refusal)
    backend.name = backend.text = name
    return backend


_MODEL_EXTENSIONS: Final = tuple(EXTENSIONS)
#: The file of a folder of results that says which tensor is in which file.
MANIFEST: Final = "manifest.json"
#: What the software says of its results.
_NOTE_FILE: Final = "note.txt"
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
    """Results of one run, by tensor, and `steps`: returns those of a model's operators, in order.

    Neither needs to be in memory. files: a folder with them that is removed with this object.
    notes: what the reader of a report should know, such as which tensors were taken for the program's.
    """

    def __init__(
        self,
        name: str,
        arrays: Mapping[str, Array],
        steps: Callable[[], Sequence[Recorded]] = list,
        files: Path | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.name, self.arrays, self.steps, self.files = name, arrays, steps, files
        self.notes = notes
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
    refuse_no_results(text, "*")
    refuse_time_limit(timeout)
    machine = Machine(python or sys.executable, timeout)
    return backend_on(machine, text, graph, inputs, original=original, keep=keep)


def as_backend(
    against: str | Arrays | Backend, graph: Graph, inputs: Arrays, timeout: float
) -> Backend:
    """Open a backend of any form that `check` and `bisect` take."""
    if isinstance(against, str):
        return open_backend(against, graph, inputs, timeout=timeout)
    if isinstance(against, Mapping):
        return Record("arrays", against)
    if not isinstance(against, Record) and not hasattr(against, "compute"):
        message = f"found {type(against).__name__}, expected a backend, arrays by tensor, or a text"
        raise TypeError(message)
    return against


def backend_on(
    machine: Machine,
    text: str,
    graph: Graph,
    inputs: Arrays,
    *,
    original: str = "",
    keep: Path | None = None,
) -> Backend:
    """Return the backend that `--against TEXT` means, for runs on a machine; see `open_backend`."""
    timeout = machine.timeout
    if text == NUMPY:
        return OtherModel(text, timeout, graph, "numpy")
    if text == REFERENCE_MODEL:
        return OtherModel(text, timeout, graph, "reference-model")
    if text == "iree":
        return Iree(machine, keep)
    if find_adapter(text) is not None:
        return open_adapter(text, machine, keep)
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
        raise unknown_backend(text, ADAPTERS)
    kind = ProgramCommand if any(REWRITTEN in word for word in words) else Command
    return kind(words, machine, keep)


def refuse_no_results(text: str, pattern: str) -> None:
    """Raise TosaConvertError("file-error") if a text names a folder that has no results."""
    if os.path.isdir(text):
        names = (path.name for path in Path(text).glob(pattern))
        if not any(name.endswith(".npy") or name == MANIFEST for name in names):
            message = f"the folder has no results: neither .npy files nor {MANIFEST}"
            raise fail("file-error", f"--against {text}", message, meant_backend(text, ADAPTERS))


def run_original(
    software: str,
    original: str,
    graph: Graph,
    inputs: Arrays,
    machine: Machine,
    *,
    is_double: bool = False,
    is_made_of_it: bool = False,
) -> Record:
    """Return the results of software that runs the model from which the TOSA program was made.

    is_double: torch computes in FP64. is_made_of_it: inputs and outputs correspond by position, whatever
        their names are.
    """
    if not original:
        hint = f"--against {ORIGINALS[software]}"
        message = "the original model is needed: it does not run TOSA programs"
        raise fail("option-conflict", f"--against {software}", message, hint)
    _refuse_missing_file(software, original)
    pairs = None
    if software == "tflite" and not is_made_of_it:
        pairs = pair_with_tflite(graph, original)
    keys = [slot.key for slot in input_slots(graph)] if pairs is None else pairs.inputs
    given = [inputs[key] for key in keys]
    files = new_scratch_folder()
    try:
        with scratch_errors(files):
            if pairs is not None:
                write_scratch(files / "results.json", [json.dumps(pairs.outputs).encode()])
            if is_double:
                write_scratch(files / "in_double", [])
            outputs, steps = run_worker(machine, software, original, given, files)
        changed = numbered(files, "changed")
        answer = in_program_types(graph, by_position(graph, outputs, software, changed))
        notes = () if pairs is None else pairs.notes
        if (said := files / _NOTE_FILE).exists():
            notes = (*notes, said.read_text(encoding="utf-8"))
        return Record(software, answer, partial(steps_of_model, files, steps), files, notes)
    except BaseException:
        remove_temporary_folder(files)
        raise


def _refuse_missing_file(software: str, original: str) -> None:
    path, colon, _ = original.rpartition(":")
    file = path if colon and path.endswith(".py") else original
    if not os.path.exists(file):
        where = f"--against {software}:{original}"
        raise fail("file-error", where, "cannot be read: No such file or directory")


def in_program_types(graph: Graph, arrays: Arrays) -> LazyArrays:
    by_key = result_slots(graph)

    def read(key: str) -> Array:
        array, slot = arrays[key], by_key.get(key)
        # Rounding is meant; an integer that does not fit is a difference to be judged.
        return array if slot is None else narrowed(array, np.dtype(slot.dtype.numpy))

    return LazyArrays(arrays, read)


def open_folder(folder: Path) -> LazyArrays:
    """Read arrays by tensor from a folder: named by its manifest.json, or else by their files."""
    manifest = folder / MANIFEST
    if not manifest.exists():
        return npy_files({path.stem: path for path in sorted(folder.glob("*.npy"))})
    expected = "a manifest of tensors"
    content = read_json(manifest, expected)
    try:
        names = {str(row["name"]): row["file"] for row in content["tensors"]}
    except (KeyError, TypeError) as error:
        raise fail("file-error", str(manifest), f"not {expected}: {error!r:.200}") from None
    where = str(manifest)
    return npy_files({name: Path(path_below(folder, file, where)) for name, file in names.items()})


# -- several calls of a model in its framework, which keeps its states from one to the next --------

#: Software whose models have states that are known after each call.
WITH_STATES: Final = frozenset(["torch", "jax", "tflite", "keras", "tensorflow"])
HIDES_STATES: Final = frozenset(["tflite", "keras", "tensorflow"])


def call_in_a_row(
    software: str,
    original: str,
    graph: Graph,
    calls: Sequence[Arrays],
    *,
    machine: Machine,
    folder: Path,
) -> list[Arrays]:
    """Return a model's outputs, and the states of its variables, after each of several calls."""
    slots = input_slots(graph)
    given = [inputs[slot.key] for inputs in calls for slot in slots]
    asked = {"calls": len(calls), "states": list(variables_of(graph))}
    with scratch_errors(folder):
        write_scratch(folder / "calls.json", [json.dumps(asked).encode()])
        outputs, _ = run_worker(machine, software, original, given, folder)
    count, rest = divmod(len(outputs), len(calls))
    if rest:
        message = f"{counted(len(calls), 'call')} gave {counted(len(outputs), 'output')}"
        raise fail("backend-failed", software, message)
    changed = numbered(folder, "changed")
    writes = len(changed) // len(calls)
    found: list[Arrays] = []
    for number in range(len(calls)):
        own = by_position(
            graph,
            outputs[number * count : (number + 1) * count],
            software,
            changed[number * writes : (number + 1) * writes],
        )
        (kept := folder / f"call{number}").mkdir()
        states = unpack_npz(folder / f"call{number}.npz", kept)
        found.append(in_program_types(graph, {**own, **states}))
    return found
