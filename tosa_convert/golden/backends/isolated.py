"""Compute each program in a process of its own: by IREE, Python files and commands."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from tosa_convert import api
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.formats.read import open_input
from tosa_convert.golden.arrays import (
    INT48,
    SCALE_SUFFIX,
    Array,
    Arrays,
    LazyArrays,
    Slot,
    coerce,
    match,
    npz_pieces,
    slots,
    unpack_npz,
    write_npy,
    write_scratch,
)
from tosa_convert.golden.backends.process import (
    REFUSED,
    Machine,
    failures_kept,
    numbered,
    of_file,
    refuse_failure,
    run_backend,
    run_worker,
)
from tosa_convert.golden.backends.tflite_model import tflite_model
from tosa_convert.golden.running.programs import (
    AS_IT_IS,
    STATE_PREFIX,
    Program,
    as_graph,
    input_slots,
    output_slots,
    result_slots,
    shapes_of_results,
    variables_of,
)
from tosa_convert.golden.running.reference_model_process import with_paths
from tosa_convert.golden.running.run_graph import run_in_folder, run_program
from tosa_convert.golden.running.run_options import Engine, RunOptions
from tosa_convert.graph.derived import extract_from, extract_region
from tosa_convert.graph.model import Block, Graph, counted
from tosa_convert.graph.opset import operator
from tosa_convert.io import log
from tosa_convert.io.files import map_file
from tosa_convert.io.options import ReadOptions
from tosa_convert.process.child import Ended, last_words

# -- backends that run programs on an engine of our own: another version of the model, and numpy ---

NUMPY: Final = "numpy"
REFERENCE_MODEL: Final = "reference-model"


def part_of(graph: Graph, names: Sequence[str], cuts: Sequence[str]) -> Graph:
    """Return the part of a graph that a backend computes; the whole keeps writes to variables."""
    if not cuts and set(names) == set(graph.main.outputs):
        return graph
    return extract_from(graph, names, cuts)


def refuse_same_engine(backend: object, options: RunOptions) -> None:
    reference = NUMPY if options.uses_numpy else REFERENCE_MODEL
    if isinstance(backend, OtherModel) and backend.text == reference:
        hints = {
            NUMPY: "install the reference model, or name another backend",
            REFERENCE_MODEL: "--engine numpy computes the reference by numpy",
        }
        message = f"the reference is {reference} as well, so that nothing would be compared"
        raise fail("option-conflict", f"--against {reference}", message, hints[reference])


class OtherModel:
    """Run another version of the model, of the same names, on the reference model or another engine."""

    def __init__(
        self, path: str, timeout: float, graph: Graph | None = None, engine: Engine = "auto"
    ) -> None:
        self.name = self.text = path
        self.options = RunOptions(timeout=timeout, engine=engine)
        self.graph = as_graph(path) if graph is None else graph

    def compute(
        self, graph: Graph, names: list[str], inputs: Arrays, cuts: list[str], folder: Path
    ) -> Arrays:
        part = part_of(self.graph, names, cuts)
        if part is not self.graph or not variables_of(part):
            return run_in_folder(folder, part, inputs, self.options)
        given = match(input_slots(part), inputs, strict=False)
        result = run_program(Program(part), given, self.options)
        states = {STATE_PREFIX + name: array for name, array in result.variables.items()}
        return {**result.outputs, **states}

    def of_graph(self, graph: Graph) -> OtherModel:
        return OtherModel(self.name, self.options.timeout, graph, self.options.engine)

    def inside(self, output: str, attribute: str) -> OtherModel:
        for op in self.graph.main.operators:
            if output in op.outputs and attribute in op.attributes:
                return self.of_graph(extract_region(self.graph, str(op.attributes[attribute])))
        raise fail("undefined-name", self.name, f'the operator of "{output}" has no {attribute}')


_SELECT: Final = operator("SELECT")
#: How MLIR is read that others wrote: values have names of their own, and regions capture values.
_OF_OTHERS: Final = ReadOptions(names="generate", pass_captured=True)
#: Names of inputs in the files of model-converter.
_NUMBERED: Final = re.compile(r"input_(\d+)")
#: In what LLVM's programs say when they crash.
_CRASH: Final = re.compile("Assertion|Stack dump|LLVM ERROR|UNREACHABLE")
#: In the words of a command that writes a program: the beginning of its file's name.
REWRITTEN: Final = "{program}"


def by_position(
    graph: Graph,
    outputs: Sequence[Callable[..., Array]],
    name: str,
    changed: Sequence[Callable[..., Array]] = (),
) -> LazyArrays:
    """Return a model's outputs by the names that the program has for them."""
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


def with_slot_types(arrays: Arrays, by_key: Mapping[str, Slot]) -> LazyArrays:
    """Return the arrays in the types of their slots, if these hold the same elements, or unchanged."""

    def read(key: str) -> Array:
        array = arrays[key]
        with contextlib.suppress(TosaConvertError):
            return coerce(by_key[key], array) if key in by_key else array
        return array

    return LazyArrays(arrays, read)


class _Isolated:
    """Compute a part of a program in a process of its own.

    name, text: as for Runner. keep: a folder for the parts on which it fails. original: a file to run
        instead of the whole program as this package would write it.
    """

    def __init__(self, name: str, text: str, machine: Machine, keep: Path | None) -> None:
        self.name, self.text, self.machine, self.keep = name, text, machine, keep
        self.original: Path | None = None

    def compute(
        self, graph: Graph, names: list[str], inputs: Arrays, cuts: list[str], folder: Path
    ) -> Arrays:
        part = part_of(graph, names, cuts)
        self.write(part, folder, self.original if part is graph else None)
        # Read when they are written: they may be files.
        given = LazyArrays([slot.key for slot in input_slots(part)], inputs.__getitem__)
        with failures_kept(self.name, folder, self.keep):
            answer = self.run(part, given, folder)
        return with_slot_types(answer, result_slots(part))

    def write(self, part: Graph, folder: Path, original: Path | None) -> None:
        pieces = api.encode(part) if original is None else [map_file(original)]
        write_scratch(folder / "model.tosa", pieces)

    def run(self, part: Graph, inputs: Arrays, folder: Path) -> Arrays:
        """Run the program that was written; return its outputs, and its states if they are known."""
        raise NotImplementedError

    def inside(self, output: str, attribute: str) -> _Isolated:
        return self


class Iree(_Isolated):
    """Compile the sub-graph, as MLIR, with IREE for the host, and run it; once for many inputs."""

    def __init__(self, machine: Machine, keep: Path | None = None) -> None:
        super().__init__("iree", "iree", machine, keep)
        self._compiled = "", b""

    def write(self, part: Graph, folder: Path, original: Path | None) -> None:
        """Write generic text with dense constants: of a RESCALE's resources IREE 3.13 makes zeros."""
        data = b"".join(api.encode(part))
        module = api.import_tosa_func_from_flatbuffer(data, constants="dense", validate=False)
        asm: str = module.operation.get_asm(print_generic_op_form=True)
        write_scratch(folder / "part.mlir", [asm.encode()])

    def run(self, part: Graph, inputs: Arrays, folder: Path) -> Arrays:
        path, given = folder / "part.mlir", list(inputs.values())
        module, text = folder / "module.vmfb", of_file(path)
        if text == self._compiled[0]:
            write_scratch(module, [self._compiled[1]])
        try:
            outputs, _ = run_worker(self.machine, "iree", str(path), given, folder)
        except TosaConvertError as error:
            has_scales = any(part.main.tensors[name].scale is not None for name in part.main.inputs)
            if not has_scales or "input list and function mismatch" not in str(error):
                raise
            message = "its function takes the elements of a block-scaled input without their scales"
            raise fail("backend-refused", "iree", message) from None
        self._compiled = text, module.read_bytes() if module.exists() else b""
        answer = by_position(part, outputs, "iree")
        wide = {slot.key for slot in output_slots(part) if slot.dtype is INT48}
        # The upper 16 of the 64 bits in which IREE gives an i48 are not its sign.
        return LazyArrays(answer, lambda k: answer[k] << 16 >> 16 if k in wide else answer[k])


class PythonFile(_Isolated):
    """Call the function `run` of a Python file with a program and arrays; it returns arrays."""

    def __init__(self, path: str, machine: Machine, keep: Path | None = None) -> None:
        super().__init__(path, os.path.abspath(path), machine, keep)
        self.file = self.text

    def run(self, part: Graph, inputs: Arrays, folder: Path) -> Arrays:
        outs = [slot.key for slot in output_slots(part)]
        text = json.dumps({"inputs": list(inputs), "outputs": outs})
        write_scratch(folder / "names.json", [text.encode()])
        outputs, _ = run_worker(self.machine, "python", self.file, list(inputs.values()), folder)
        return by_position(part, outputs, self.name)


class Command(_Isolated):
    """Run any command, with `{model}`, `{inputs}`, `{outputs}` in its words, or appended to them.

    With `{input_dir}` and `{output_dir}` it reads in0.npy, in1.npy, ... and writes out0.npy, ... in the
    program's order instead.
    """

    def __init__(self, words: list[str], machine: Machine, keep: Path | None = None) -> None:
        # Absolute: the text is also used in another working folder.
        text = shlex.join(os.path.abspath(w) if os.path.isfile(w) else w for w in words)
        super().__init__(words[0], text, machine, keep)
        self.words = words

    def run(self, part: Graph, inputs: Arrays, folder: Path) -> Arrays:
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
        answer: Arrays
        if with_folders:
            answer = by_position(part, numbered(folder / "out", "out"), self.name)
            for name in answer:
                answer[name]  # a damaged array is found here
        elif (folder / "out.npz").exists():
            answer = unpack_npz(folder / "out.npz", folder, shapes_of_results(part))
        else:
            raise fail("backend-failed", self.name, last_words(ended, " and no outputs"))
        for name in ("in.npz", "out.npz"):
            (folder / name).unlink(missing_ok=True)
        return answer


class ProgramCommand(Command):
    """Run a command that writes another program, whose results numpy computes.

    `{program}` is where that goes, in any format that can be read: `{program}.mlir` is a file of MLIR. A
    command without it only reads: its answer is what numpy computes of the program itself. refusal: a
    regular expression for stderr that tells a refusal from a crash.
    """

    def __init__(
        self, words: list[str], machine: Machine, keep: Path | None = None, refusal: str = ""
    ) -> None:
        super().__init__(words, machine, keep)
        self.refusal = refusal
        self.only_reads = not any(REWRITTEN in word for word in words)

    def run(self, part: Graph, inputs: Arrays, folder: Path) -> Arrays:
        names = {"{model}": "model.tosa", "{mlir}": "model.mlir", "{tflite}": "model.tflite"}
        names |= {REWRITTEN: "program", "{folder}": "written"}
        if any("{mlir}" in word for word in self.words):
            write_plain_mlir(part, folder)
        if any("{tflite}" in word for word in self.words):
            write_scratch(folder / "model.tflite", [tflite_model(part)])
        paths = {mark: str(folder / name) for mark, name in names.items()}
        words = with_paths(self.words, paths, appended=[])
        ended = run_backend(words, self.machine.timeout, self.name)
        self.machine.used.append(ended.used)
        if ended.code > 0 and self.is_refusal(ended.stderr):
            ended = replace(ended, code=REFUSED)
        refuse_failure(ended, self.name)
        other = part if self.only_reads else written_program(folder, self.name, ended)
        return results_of(part, other, inputs, self)

    def is_refusal(self, stderr: str) -> bool:
        return bool(self.refusal and re.search(self.refusal, stderr)) and not _CRASH.search(stderr)


def refuse_reader(backend: object) -> None:
    """Refuse a backend that computes nothing where results are to be compared."""
    if isinstance(backend, ProgramCommand) and backend.only_reads:
        raise fail(
            "option-conflict",
            f"--against {backend.text}",
            "it takes the program, but gives no results, so that nothing was compared",
            "`suite` and `fuzz` count what it takes; `doctor` lists the programs that read a file",
        )


class Passes(PythonFile):
    """Run passes of MLIR, and compute the program after them: in numpy, or compiled with `run`."""

    def __init__(self, name: str, pipeline: str, machine: Machine, keep: Path | None) -> None:
        super().__init__(str(Path(__file__).with_name("mlir_consumer.py")), machine, keep)
        self.name = self.text = name
        self.pipeline = pipeline

    def run(self, part: Graph, inputs: Arrays, folder: Path) -> Arrays:
        write_plain_mlir(part, folder)
        results = [slot.key for slot in output_slots(part)]
        outs = results if self.pipeline == "run" else []
        names = {"inputs": list(inputs), "outputs": outs, "results": results}
        text = json.dumps({**names, "pipeline": self.pipeline})
        write_scratch(folder / "names.json", [text.encode()])
        outputs, _ = run_worker(self.machine, "python", self.file, list(inputs.values()), folder)
        if outs:
            return by_position(part, outputs, self.name)
        return results_of(part, written_program(folder, self.name), inputs, self)


def write_plain_mlir(part: Graph, folder: Path) -> None:
    """Write a program as `model.mlir`, without names and locations."""
    plain = api.render(part, "mlir", names="generate", locations=False)
    write_scratch(folder / "model.mlir", plain)


def written_program(folder: Path, name: str, ended: Ended | None = None) -> Graph:
    """Return the program that a backend wrote as `program.*`, or say how the backend failed."""
    found = sorted(folder.glob("program*"))
    if len(found) != 1:
        message = f" and wrote {counted(len(found), 'file')} in place of one program"
        raise fail("backend-failed", name, last_words(ended, message) if ended else message)
    try:
        with log.warnings_off():
            is_mlir = open_input(str(found[0])).is_mlir
            return as_graph(str(found[0]), _OF_OTHERS if is_mlir else AS_IT_IS)
    except TosaConvertError as error:
        message = f"what it wrote cannot be read: {error.findings[0].message}"
        raise fail("backend-failed", name, message) from None


def results_of(part: Graph, other: Graph, inputs: Arrays, backend: _Isolated) -> LazyArrays:
    """Return what numpy computes of the program that a backend made of `part`.

    A backend may leave out inputs that no operator takes, or that no result follows from, also by
    folding.
    """
    taken = sorted(input_slots(other), key=lambda slot: _place(slot.key))
    ours = {slot.key: slot for slot in input_slots(part)}
    states = _followed(part.main, {}, outputs=()) & {*part.main.inputs}
    if len(taken) < len(inputs):
        choices = [[key for key in inputs if _tensor(key) in names] for names in _needed(part.main)]
        only = _only_fit(taken, [*ours.values()])
        choices += [only] if taken and states.issubset(map(_tensor, only)) else []
        kept = next((keys for keys in choices if len(keys) == len(taken)), choices[0])
        inputs = LazyArrays(kept, inputs.__getitem__)
    if len(taken) != len(inputs):
        message = f"what it wrote has {counted(len(taken), 'input')}, the program {len(inputs)}"
        raise fail("backend-failed", backend.name, message)
    for slot, key in zip(taken, inputs, strict=True):
        if slot.dtype.element_bytes != ours[key].dtype.element_bytes:
            message = f"what it wrote takes {slot.dtype} where the program takes {ours[key].dtype}"
            raise fail("backend-failed", backend.name, message)
    given = dict(zip((slot.key for slot in taken), inputs.values(), strict=True))
    options = RunOptions(timeout=backend.machine.timeout, engine="numpy")
    results = run_program(Program(other), given, options).outputs
    # A pass may join operators, so that one result is returned several times.
    found = [slot for output in other.main.outputs for slot in slots(other.main, output)]
    return by_position(part, [partial(_result, results, slot.key) for slot in found], backend.name)


def _place(key: str) -> int:
    """Return the position in the name that model-converter gives an input; it lists them by use."""
    found = _NUMBERED.fullmatch(key)
    return int(found[1]) if found is not None else 0


def _tensor(key: str) -> str:
    return key.removesuffix(SCALE_SUFFIX)


def _needed(block: Block) -> Iterator[set[str]]:
    """Iterate over the values that operators need; a SELECT of two equal values needs no condition."""
    yield {name for op in block.operators for name in op.inputs} | {*block.outputs}
    yield _followed(block, {})
    folded: dict[str, str] = {}
    for op in block.operators:
        if op.spec is _SELECT:
            (result,), (_, *both) = op.outputs, op.inputs
            one, other = (folded.get(name, name) for name in both)
            if one == other and block.tensors[one].shape == block.tensors[result].shape:
                folded[result] = one
    yield _followed(block, folded)


def _only_fit(taken: Sequence[Slot], given: Sequence[Slot]) -> list[str]:
    """Return the inputs in whose order and shapes others fit; none if there are several choices."""
    first = _fit(taken, given)
    last = _fit(taken[::-1], given[::-1])[::-1]
    return first if first == last else []


def _fit(taken: Sequence[Slot], given: Sequence[Slot]) -> list[str]:
    """Return the first input of the same shape for each, in order; fewer if they do not fit."""
    rest = iter(given)
    found = (next((own.key for own in rest if own.shape == slot.shape), "") for slot in taken)
    return [key for key in found if key]


def _followed(
    block: Block, folded: Mapping[str, str], outputs: Sequence[str] | None = None
) -> set[str]:
    """Return the values that outputs or variables follow from. folded: results equal to others."""
    wanted = block.outputs if outputs is None else outputs
    needed = {*wanted, *(name for name, row in block.tensors.items() if row.variable)}
    for op in reversed(block.operators):
        if needed & {*op.outputs}:
            values = [folded[name] for name in op.outputs if name in folded]
            needed.update(values or op.inputs)
    return needed


def _result(results: Arrays, key: str, shape: tuple[int, ...]) -> Array:
    """Return a result as `by_position` reads it: a scalar of TOSA is a vector of one element in VGF."""
    found = results[key]
    return found.reshape(shape) if shape == () and found.shape == (1,) else found
