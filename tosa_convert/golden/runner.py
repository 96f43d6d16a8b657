"""Run a program on the TOSA reference model and get numpy arrays back."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from tosa_convert import api
from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.files import Pieces, map_file, write_pieces
from tosa_convert.formats import MLIR_FORMATS, sniff
from tosa_convert.golden import model_process
from tosa_convert.golden.array_io import (
    Array,
    Lazy,
    Slot,
    coerce,
    constant_of,
    load_npy,
    match,
    save_npy,
    slots,
)
from tosa_convert.golden.explain_failure import explain, is_nameless
from tosa_convert.golden.random_inputs import random_inputs
from tosa_convert.graph.extract import reachable
from tosa_convert.graph.model import Block, Graph, Region, Tensor
from tosa_convert.graph.opset import VARIABLE_READ, VARIABLE_WRITE
from tosa_convert.graph.verify import verify

Level = Literal["none", "8k"]

#: Seconds a run may take unless the caller says otherwise.
TIMEOUT: Final = 600.0
_LEVELS: Final = {"none": "NONE", "8k": "EIGHTK"}


@dataclass(frozen=True, slots=True)
class Result:
    """What a run gave, as arrays by name, in the graph's element types.

    Types that numpy lacks are those of ml_dtypes; INT48 is int64; in precise mode every floating
    point tensor is float64. Scales of a block-scaled tensor are under its name and "/scale".
    variables: the state after the run, by the variable's name.
    bounds: for each output the bound that TOSA's accuracy rules are made from (bounds mode).
    intermediates: the tensors asked for. seconds: the reference model's own time.
    """

    outputs: dict[str, Array]
    variables: dict[str, Array] = field(default_factory=dict)
    bounds: dict[str, Array] = field(default_factory=dict)
    intermediates: dict[str, Array] = field(default_factory=dict)
    seconds: float = 0.0


def as_graph(
    program: Any,
    *,
    func: str | None = None,
    bindings: str = "",
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> Graph:
    """A Graph of anything that can be read: a Graph, a path, bytes, or a module of any bindings.

    input_shapes: sizes for arguments with dynamic dimensions, of files and modules.
    MLIR is stamped with the lowest version that expresses it.
    Raises TosaConvertError.
    """
    if isinstance(program, Graph):
        return program
    if isinstance(program, (str, os.PathLike)) and not os.path.isfile(program):
        program = map_file(program)  # a pipe can be read only once
    if isinstance(program, (str, os.PathLike, bytes, bytearray, memoryview)):
        graph = api.load(program, func=func, bindings=bindings, input_shapes=input_shapes)
        data = memoryview(program) if not isinstance(program, (str, os.PathLike)) else None
        head = data if data is not None else map_file(program)  # type: ignore[arg-type]
        return api.stamp(graph) if sniff(head, "") in MLIR_FORMATS else graph
    return api.load(
        api.export_tosa_func_to_flatbuffer(program, func=func, input_shapes=input_shapes)
    )


def input_slots(graph: Graph) -> list[Slot]:
    """The arrays that the main block takes, in order."""
    return _slots_of(graph.main, graph.main.inputs, "input")


def output_slots(graph: Graph) -> list[Slot]:
    """The arrays that the main block gives, in order; one that it gives twice stands once."""
    return _slots_of(graph.main, list(dict.fromkeys(graph.main.outputs)), "output")


def _slots_of(block: Block, names: list[str], what: str) -> list[Slot]:
    found: list[Slot] = []
    findings: list[Finding] = []
    for name in names:
        try:
            found += slots(block, name, f'{what} "{name}"')
        except TosaConvertError as error:
            findings += error.findings
    if findings:
        raise TosaConvertError(findings)
    return found


def run(
    program: Any,
    inputs: Mapping[str, Any] | None = None,
    *,
    variables: Mapping[str, Any] | None = None,
    intermediates: str | list[str] | None = None,
    random: int | None = None,
    precise: bool = False,
    bounds: bool = False,
    level: Level = "none",
    timeout: float = TIMEOUT,
    func: str | None = None,
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> Result:
    """Run a program on the reference model.

    program: a Graph, a module of any MLIR bindings, bytes, or a path to anything that is read.
    inputs: an array for each input, by name, in exactly its type and shape.
    variables: initial states, by name; those left out start as the program says.
    intermediates: patterns such as "*" or ["layer_1*"] of tensors wanted as well.
    random: a seed; inputs that are not given get random values of it.
    precise: compute floating point in FP64. bounds: also give the accuracy bounds (implies precise).
    level: "none" or "8k", the limits on sizes that the model checks.
    timeout: seconds for one run.
    input_shapes: sizes for arguments with dynamic dimensions; without, they are refused.

    Raises TosaConvertError: "input-mismatch" before anything runs, "refmodel-refused" naming the
    operator, the rule and the shapes, "refmodel-timeout", "missing-refmodel".
    """
    graph = as_graph(program, func=func, input_shapes=input_shapes)
    given = dict(inputs or {})
    wanted = input_slots(graph)
    if random is not None:
        given = {**random_inputs(graph, wanted, random), **given}
    arrays = match(wanted, given)
    collected: dict[str, Array] = {}
    if intermediates is not None:
        from tosa_convert.golden.intermediates import iterate

        patterns = [intermediates] if isinstance(intermediates, str) else list(intermediates)
        state = with_variables(graph, variables or {})
        for item in iterate(state, arrays, patterns, precise=precise, level=level, timeout=timeout):
            collected.update(item.arrays)
    as_it_is = isinstance(program, (str, os.PathLike)) and not variables and not input_shapes
    original = program if as_it_is else None
    with session() as folder:
        for slot in wanted:
            save_npy(folder / f"{file_stem(wanted, slot)}.npy", slot, arrays[slot.key])
        finals = final_states(graph)
        rewritten = with_variables(graph, variables or {})
        extra = [name for name in finals.values() if name not in graph.main.outputs]
        if extra:
            rewritten = with_outputs(rewritten, [*rewritten.main.outputs, *dict.fromkeys(extra)])
            original = None
        if original is not None and _is_flatbuffer(original) and not _idle_variables(graph):
            _link(original, folder / "model.tosa")
        else:
            write_model(rewritten, folder)
        seconds = execute(
            rewritten,
            folder,
            precise=precise or bounds,
            bounds=bounds,
            level=level,
            timeout=timeout,
        )
        out = output_slots(rewritten)
        files = {slot.key: f"{file_stem(out, slot, 'out')}.npy" for slot in out}
        values = {slot.key: load_npy(folder / files[slot.key], slot) for slot in out}
        own = {slot.key for slot in output_slots(graph)}
        return Result(
            {key: value for key, value in values.items() if key in own},
            _final_values(graph, finals, values, variables or {}),
            {
                slot.key: load_npy(folder / f"bounds_{files[slot.key]}", slot)
                for slot in out
                if bounds and slot.key in own
            },
            collected,
            seconds,
        )


def run_in(folder: Path, graph: Graph, inputs: Mapping[str, Array], timeout: float) -> Lazy:
    """Run a graph on the reference model in an empty folder; its outputs, read from there on demand.

    inputs: at least its inputs' arrays by key.
    Raises TosaConvertError; see `run`.
    """
    wanted = input_slots(graph)
    missing = [
        Finding("input-mismatch", f'input "{slot.key}"', f"it is missing; it is {slot}")
        for slot in wanted
        if slot.key not in inputs
    ]
    if missing:
        raise TosaConvertError(missing)
    written = [folder / f"{file_stem(wanted, slot)}.npy" for slot in wanted]
    for slot, path in zip(wanted, written, strict=True):
        save_npy(path, slot, coerce(slot, inputs[slot.key]))
    write_model(graph, folder)
    execute(graph, folder, timeout=timeout)
    for path in (*written, folder / "model.tosa"):
        path.unlink()
    out = {slot.key: slot for slot in output_slots(graph)}
    ordered = list(out.values())
    return Lazy(
        out,
        lambda key: load_npy(folder / f"{file_stem(ordered, out[key], 'out')}.npy", out[key]),
    )


@contextlib.contextmanager
def session() -> Iterator[Path]:
    """A temporary folder for one run."""
    with tempfile.TemporaryDirectory(prefix="tosa-run-") as name:
        yield Path(name)


def file_stem(all_slots: list[Slot], slot: Slot, prefix: str = "in") -> str:
    """The name of a slot's file; scales lie beside their values under a name the model expects."""
    tensors = list(dict.fromkeys(s.tensor for s in all_slots))
    stem = f"{prefix}{tensors.index(slot.tensor)}"
    return stem if slot.key == slot.tensor else f"{stem}_scale"


def write_scratch(path: Path, pieces: Pieces) -> None:
    """Write a file that need not outlive the run: unlike `replace_file`, it does not wait for disks."""
    with open(path, "wb", buffering=0) as file:
        write_pieces(file, pieces)


def write_model(graph: Graph, folder: Path) -> None:
    """Write the graph as `model.tosa`, without variables that its main block does not use.

    The reference model refuses those; regions that use them have them, too.
    Raises TosaConvertError with what is unsound about the graph.
    """
    (folder / "model.tosa").unlink(missing_ok=True)  # it may be a link to the user's own file
    findings = verify(graph)
    if findings:
        raise TosaConvertError(findings)
    if idle := _idle_variables(graph):
        kept = {name: tensor for name, tensor in graph.main.tensors.items() if name not in idle}
        first, *blocks = graph.regions[0].blocks
        regions = [Region(graph.regions[0].name, [replace(first, tensors=kept), *blocks])]
        graph = replace(graph, regions=[*regions, *graph.regions[1:]])
    write_scratch(folder / "model.tosa", api.encode(graph))


def _idle_variables(graph: Graph) -> set[str]:
    """Variables that the main block declares and does not use."""
    main = graph.main
    idle = {name for name, tensor in main.tensors.items() if tensor.variable}
    if idle:
        idle.difference_update(main.inputs, main.outputs)
        for op in main.operators:
            idle.difference_update(op.inputs, op.outputs)
    return idle


def execute(
    graph: Graph,
    folder: Path,
    *,
    precise: bool = False,
    bounds: bool = False,
    level: Level = "none",
    timeout: float = TIMEOUT,
    ins: list[str] | None = None,
    outs: list[str] | None = None,
) -> float:
    """Run `model.tosa` on `in<k>.npy` into `out<k>.npy`, all in `folder`; returns seconds.

    ins, outs: other file names for the graph's inputs and outputs, in order.
    Raises TosaConvertError; see `run`.
    """
    block = graph.main
    unique = list(dict.fromkeys(block.outputs))
    description: dict[str, Any] = {
        "tosa_file": "model.tosa",
        "ifm_name": block.inputs,
        "ifm_file": ins or [f"in{i}.npy" for i in range(len(block.inputs))],
        "ofm_name": block.outputs,
        "ofm_file": outs or [f"out{unique.index(name)}.npy" for name in block.outputs],
        "expected_failure": False,
    }
    if bounds:
        description["test_requirements"] = {"bounds_file_required": True}
    (folder / "desc.json").write_text(json.dumps(description), encoding="utf-8")
    if level not in _LEVELS:
        raise fail("option-conflict", "level", f"found {level!r}, expected none or 8k")
    if any(op.spec.name == "EXP2_SHAPE" for _, part in graph.blocks() for op in part.operators):
        level = "8k"  # without a level the model takes no exponent at all
    command = [
        str(model_process.locate()),
        "--test_desc=desc.json",
        "--flatbuffer_dir=.",
        "--output_dir=.",
        f"--tosa_level={_LEVELS[level]}",
        f"--precise_mode={int(precise)}",
    ]
    start = time.monotonic()
    ended = model_process.run(command, folder, timeout)
    seconds = time.monotonic() - start
    if ended.code == 0:
        missing = [f for f in description["ofm_file"] if not (folder / f).exists()]
        if not missing:
            return seconds
    if is_nameless(ended):
        raise TosaConvertError(
            explain(graph, ended, "", _first_invalid(graph, folder, command, timeout))
        )
    trace = ""
    with contextlib.suppress(TosaConvertError):
        again = [
            *command,
            "--terminate_early=true",
            "--loglevel=MED",
            "--debugmask=GT",
            "--logfile=trace",
        ]
        model_process.run(again, folder, timeout)
    with contextlib.suppress(OSError):
        trace = (folder / "trace").read_text(errors="replace")
    raise TosaConvertError(explain(graph, ended, trace))


def _first_invalid(graph: Graph, folder: Path, command: list[str], timeout: float) -> int | None:
    """The operator of the main block at which the model stops validating, by halving."""
    main = graph.main

    def refused(count: int) -> bool:
        operators = main.operators[:count]
        outputs = [name for name in operators[-1].outputs if name in main.tensors]
        used = {*main.inputs, *(n for op in operators for n in (*op.inputs, *op.outputs))}
        tensors = {n: t for n, t in main.tensors.items() if n in used or t.variable}
        shapes = {n: s for n, s in main.shapes.items() if n in used}
        block = Block(main.name, main.inputs, outputs, operators, tensors, shapes)
        # Only regions that are run: what is wrong in one is the fault of the operator that runs it.
        regions = [Region(graph.regions[0].name, [block]), *reachable(graph, operators)]
        write_model(Graph(graph.version, regions, graph.producer), folder)
        description = {
            "tosa_file": "model.tosa",
            "ifm_name": block.inputs,
            "ifm_file": [f"in{i}.npy" for i in range(len(block.inputs))],
            "ofm_name": outputs,
            "ofm_file": [f"part{i}.npy" for i in range(len(outputs))],
            "expected_failure": False,
        }
        (folder / "desc.json").write_text(json.dumps(description), encoding="utf-8")
        return is_nameless(model_process.run([*command, "--validate_only=1"], folder, timeout))

    low, high = 1, len(main.operators)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if refused(middle) else (middle + 1, high)
    return low - 1 if refused(low) else None


def with_outputs(graph: Graph, outputs: list[str]) -> Graph:
    """The same graph with other outputs of the main block; everything else is shared."""
    main = graph.main
    block = Block(main.name, main.inputs, outputs, main.operators, main.tensors, main.shapes)
    return Graph(
        graph.version, [Region(graph.regions[0].name, [block]), *graph.regions[1:]], graph.producer
    )


def variables_of(graph: Graph) -> dict[str, Tensor]:
    """The variables of the main block by name: the symbol if there is one, else the tensor's."""
    return {
        tensor.variable_name or tensor.name: tensor
        for tensor in graph.main.tensors.values()
        if tensor.variable
    }


def with_variables(graph: Graph, states: Mapping[str, Any]) -> Graph:
    """The same graph with other initial states.

    Raises TosaConvertError("input-mismatch") for names that are no variables and for other types.
    """
    if not states:
        return graph
    known = variables_of(graph)
    findings = [
        Finding(
            "input-mismatch",
            f'variable "{name}"',
            "there is no such variable; " + (", ".join(map(repr, known)) or "there are none"),
        )
        for name in states
        if name not in known
    ]
    if findings:
        raise TosaConvertError(findings)
    new: dict[str, Tensor] = {}
    for name, array in states.items():
        tensor = known[name]
        slot = slots(graph.main, tensor.name)[0]
        data = constant_of(slot, coerce(slot, array))
        new[name] = Tensor(
            tensor.name, tensor.dtype, tensor.shape, data, tensor.scale, True, tensor.variable_name
        )
    regions = []
    for region in graph.regions:
        blocks = []
        for block in region.blocks:
            tensors = {
                key: new.get(tensor.variable_name or tensor.name, tensor)
                if tensor.variable
                else tensor
                for key, tensor in block.tensors.items()
            }
            blocks.append(
                Block(
                    block.name,
                    block.inputs,
                    block.outputs,
                    block.operators,
                    tensors,
                    block.shapes,
                )
            )
        regions.append(Region(region.name, blocks))
    return replace(graph, regions=regions)


def final_states(graph: Graph) -> dict[str, str]:
    """Variable -> the tensor that the main block writes into it last.

    Empty if a nested region touches variables: which of its writes happen is known only there.
    """
    nested = (op for _, block in list(graph.blocks())[1:] for op in block.operators)
    if any(op.spec is VARIABLE_WRITE or op.spec is VARIABLE_READ for op in nested):
        return {}
    tensors = graph.main.tensors
    return {
        tensors[op.outputs[0]].variable_name or op.outputs[0]: op.inputs[0]
        for op in graph.main.operators
        if op.spec is VARIABLE_WRITE
    }


def _final_values(
    graph: Graph, finals: dict[str, str], values: dict[str, Array], given: Mapping[str, Any]
) -> dict[str, Array]:
    if any(op.spec is VARIABLE_WRITE for _, b in list(graph.blocks())[1:] for op in b.operators):
        return {}
    states: dict[str, Array] = {}
    for name, tensor in variables_of(graph).items():
        slot = slots(graph.main, tensor.name)[0]
        if name in finals:
            states[name] = values[finals[name]]
        elif name in given:
            states[name] = coerce(slot, given[name])
        elif tensor.data is not None:
            states[name] = tensor.data.numpy().reshape(slot.shape)
    return states


def _is_flatbuffer(path: str | os.PathLike[str]) -> bool:
    return sniff(map_file(path), os.fspath(path)) == "tosa"


def _link(source: str | os.PathLike[str], target: Path) -> None:
    """Make the file appear as `target`: by a link, or by a copy where links are not to be had."""
    try:
        target.symlink_to(Path(source).resolve())
    except OSError:
        write_scratch(target, [map_file(source)])
