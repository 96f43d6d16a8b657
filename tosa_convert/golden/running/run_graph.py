"""Run one graph on the TOSA reference model, or on numpy.

For the reference model there is a folder with `model.tosa`, `.npy` inputs and outputs.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tosa_convert import api
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.arrays.by_name import Array, LazyArrays
from tosa_convert.golden.arrays.scratch import full_disk, scratch_folder, write_scratch
from tosa_convert.golden.arrays.slots import (
    Slot,
    coerce,
    load_npy,
    missing_input,
    save_npy,
    slot_file,
)
from tosa_convert.golden.running import numpy_engine, reference_model_process
from tosa_convert.golden.running.explain_failure import explain, is_nameless
from tosa_convert.golden.running.numpy_engine import BOUNDS_PREFIX, Computed
from tosa_convert.golden.running.programs import Program, input_slots, output_slots
from tosa_convert.golden.running.run_options import DEFAULT_RUN, Level, RunOptions
from tosa_convert.golden.running.variable_states import (
    final_states,
    needs_another_name,
    unused_variables,
    with_final_states,
    with_name_of_main_block,
    with_variables,
    without_unused_variables,
)
from tosa_convert.golden.running.work import Work
from tosa_convert.graph.derived import reachable
from tosa_convert.graph.model import Block, Graph, Region
from tosa_convert.graph.shown import Shown, arrays_text
from tosa_convert.graph.verify import verify
from tosa_convert.io.files import map_file
from tosa_convert.records import dataclass, field, replace
from tosa_convert.rules.infer import endless_logarithms

_LEVELS: Final[dict[Level, str]] = {"none": "NONE", "8k": "EIGHTK"}
#: The exit code of the model if a file would exceed the process's limit on file sizes.
_FILE_TOO_LARGE: Final = -getattr(signal, "SIGXFSZ", 0) or None
#: The operator that the model refuses to run without a level.
_NEEDS_LEVEL: Final = "EXP2_SHAPE"


@dataclass(frozen=True, slots=True)
class Result(Shown):
    """The results of a run, as arrays by name, in the graph's element types.

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

    def __str__(self) -> str:
        states = {f"variable {name}": array for name, array in self.variables.items()}
        return arrays_text({**self.outputs, **states, **self.intermediates})


def run_program(
    program: Program,
    inputs: Mapping[str, Array],
    options: RunOptions = DEFAULT_RUN,
    variables: Mapping[str, Any] | None = None,
) -> Result:
    """Run a program, without intermediates.

    inputs: as `input_arrays` returns them. variables: initial states by name.
    A flatbuffer that needs no change is run as it is, not as this package would write it.
    Raises TosaConvertError; see `golden.run`.
    """
    graph, given = program.graph, variables or {}
    runnable, states = with_final_states(with_variables(graph, given))
    written = [name for name in states.values() if name not in graph.main.outputs]
    if written:
        runnable = with_outputs(runnable, [*runnable.main.outputs, *dict.fromkeys(written)])
    found = _computed(program, runnable, inputs, options)
    own = {slot.key for slot in output_slots(graph)}
    return Result(
        {key: array for key, array in found.outputs.items() if key in own},
        final_states(graph, states, found.outputs, given),
        {key: array for key, array in found.bounds.items() if key in own},
        seconds=found.seconds,
    )


def _computed(
    program: Program, runnable: Graph, inputs: Mapping[str, Array], options: RunOptions
) -> Computed:
    """Run the form of a program that is run."""
    graph = program.graph
    endless = endless_logarithms(graph)
    if endless:
        raise TosaConvertError(endless)
    ins, outs = input_slots(graph), output_slots(runnable)
    if options.uses_numpy:
        return numpy_engine.compute(runnable, inputs, options)
    with scratch_folder() as folder:
        for slot in ins:
            save_npy(folder / file_name(ins, slot), slot, inputs[slot.key])
        unchanged = runnable is graph and not (unused_variables(graph) or needs_another_name(graph))
        if unchanged and program.flatbuffer is not None:
            link_or_copy(program.flatbuffer, folder / "model.tosa")
        else:
            write_model(runnable, folder)
        seconds = execute(runnable, folder, options)
        values = dict(_outputs_in(folder, outs))
        bounds: dict[str, Array] = {}
        if options.bounds:
            own, lazy = output_slots(graph), _outputs_in(folder, outs, BOUNDS_PREFIX)
            bounds = {slot.key: lazy[slot.key] for slot in own}
        return Computed(values, bounds, seconds)


def _outputs_in(folder: Path, outs: Sequence[Slot], prefix: str = "") -> LazyArrays:
    """Return the arrays of a run's outputs, which are read from its folder on demand."""
    by_key = {slot.key: (folder / f"{prefix}{file_name(outs, slot, 'out')}", slot) for slot in outs}
    return LazyArrays(by_key, lambda key: load_npy(*by_key[key]))


def run_graph(
    graph: Graph, inputs: Mapping[str, Array], options: RunOptions = DEFAULT_RUN
) -> dict[str, Array]:
    """Compute the outputs of a graph whose inputs are given as `input_arrays` returns them."""
    return run_program(Program(graph), inputs, options).outputs


def run_in_folder(
    folder: Path, graph: Graph, inputs: Mapping[str, Array], options: RunOptions = DEFAULT_RUN
) -> LazyArrays:
    """Run a graph in an empty folder; its outputs, read from there on demand.

    inputs: at least its inputs' arrays by key.
    Raises TosaConvertError; see `golden.run`.
    """
    ins, outs = input_slots(graph), output_slots(graph)
    missing = [missing_input(slot) for slot in ins if slot.key not in inputs]
    if missing:
        raise TosaConvertError(missing)
    needless = [folder / "model.tosa"]
    for slot in ins:
        needless.append(folder / file_name(ins, slot))
        save_npy(needless[-1], slot, coerce(slot, inputs[slot.key]))
    if not options.uses_numpy:
        write_model(graph, folder)
    execute(graph, folder, options)
    for path in needless:
        path.unlink(missing_ok=True)
    return _outputs_in(folder, outs)


def bounds_in_folder(folder: Path, graph: Graph) -> LazyArrays:
    """Read the bounds that a run of `run_in_folder` with `bounds` left in its folder, by output."""
    return _outputs_in(folder, output_slots(graph), BOUNDS_PREFIX)


def file_name(all_slots: Sequence[Slot], slot: Slot, prefix: str = "in") -> str:
    """Return the name of a slot's file; the model looks for scales under the name of the values."""
    tensors = list(dict.fromkeys(s.tensor for s in all_slots))
    return slot_file(f"{prefix}{tensors.index(slot.tensor)}", slot)


def with_outputs(graph: Graph, outputs: list[str]) -> Graph:
    """Return the same graph with other outputs of the main block; everything else is shared."""
    main = Region(graph.regions[0].name, [replace(graph.main, outputs=outputs)])
    return replace(graph, regions=[main, *graph.regions[1:]])


def write_model(graph: Graph, folder: Path) -> None:
    """Write the graph as `model.tosa`, in the form that the reference model runs.

    Raises TosaConvertError with what is unsound about the graph.
    """
    (folder / "model.tosa").unlink(missing_ok=True)  # it may be a link to the user's own file
    findings = verify(graph)
    if findings:
        raise TosaConvertError(findings)
    runnable = with_name_of_main_block(without_unused_variables(graph))
    write_scratch(folder / "model.tosa", api.encode(runnable))


def link_or_copy(source: Path, target: Path) -> None:
    """Make the file appear as `target`: by a link, or by a copy where links are not available."""
    try:
        target.symlink_to(source.resolve())
    except OSError:
        write_scratch(target, [map_file(source)])


def execute(
    graph: Graph,
    folder: Path,
    options: RunOptions = DEFAULT_RUN,
    *,
    ins: list[str] | None = None,
    outs: list[str] | None = None,
) -> float:
    """Run `model.tosa` on `in<k>.npy` into `out<k>.npy`, all in `folder`; returns seconds.

    numpy runs the graph, and needs no `model.tosa`.

    ins, outs: other file names for the graph's inputs and outputs, in order.
    Raises TosaConvertError; see `golden.run`.
    """
    block = graph.main
    unique = list(dict.fromkeys(block.outputs))
    outs = outs or [f"out{unique.index(name)}.npy" for name in block.outputs]
    ins = ins or [f"in{i}.npy" for i in range(len(block.inputs))]
    if options.uses_numpy:
        return numpy_engine.execute(graph, folder, options, ins, outs)
    _write_description(folder, block, ins, outs, with_bounds=options.bounds)
    command = _command(graph, options)
    start = time.monotonic()
    with Work(graph, options.progress).timed():
        ended = reference_model_process.run(command, folder, options.timeout)
    seconds = time.monotonic() - start
    if ended.code == 0 and all((folder / file).exists() for file in outs):
        return seconds
    # The model then fails with a message of its own, or writes only a part of its output.
    if ended.code == _FILE_TOO_LARGE or not shutil.disk_usage(folder).free:
        raise full_disk(folder)
    if is_nameless(ended):
        index = _first_invalid_operator(graph, folder, command, options.timeout)
        raise TosaConvertError(explain(graph, ended, "", index))
    trace = _trace(folder, command, options.timeout)
    raise TosaConvertError(explain(graph, ended, trace))


def _write_description(
    folder: Path, block: Block, ins: list[str], outs: list[str], *, with_bounds: bool = False
) -> None:
    description: dict[str, Any] = {
        "tosa_file": "model.tosa",
        "ifm_name": block.inputs,
        "ifm_file": ins,
        "ofm_name": block.outputs,
        "ofm_file": outs,
        "expected_failure": False,
    }
    if with_bounds:
        description["test_requirements"] = {"bounds_file_required": True}
    write_scratch(folder / "desc.json", [json.dumps(description).encode()])


def level_argument(graph: Graph, level: Level) -> str:
    """Return the argument of the reference model for a level; without one it refuses EXP2_SHAPE."""
    has_limit = any(op.spec.name == _NEEDS_LEVEL for _, b in graph.blocks() for op in b.operators)
    return f"--tosa_level={_LEVELS['8k' if has_limit else level]}"


def _command(graph: Graph, options: RunOptions) -> list[str]:
    return [
        str(reference_model_process.locate()),
        "--test_desc=desc.json",
        "--flatbuffer_dir=.",
        "--output_dir=.",
        level_argument(graph, options.level),
        f"--precise_mode={int(options.precise or options.bounds)}",
    ]


def _trace(folder: Path, command: list[str], timeout: float) -> str:
    """Return the log of the model when it runs again with its trace on."""
    arguments = ["--terminate_early=true", "--loglevel=MED", "--debugmask=GT", "--logfile=trace"]
    with contextlib.suppress(TosaConvertError):
        reference_model_process.run([*command, *arguments], folder, timeout)
    with contextlib.suppress(OSError):
        return (folder / "trace").read_text(errors="replace")
    return ""


def _first_invalid_operator(
    graph: Graph, folder: Path, command: list[str], timeout: float
) -> int | None:
    """Find by bisection the operator of the main block at which the model stops validating."""
    main = graph.main

    def is_refused(count: int) -> bool:
        operators = main.operators[:count]
        outputs = [name for name in operators[-1].outputs if name in main.tensors]
        used = {*main.inputs, *(n for op in operators for n in (*op.inputs, *op.outputs))}
        tensors = {n: t for n, t in main.tensors.items() if n in used or t.variable}
        shapes = {n: s for n, s in main.shapes.items() if n in used}
        block = Block(main.name, main.inputs, outputs, operators, tensors, shapes)
        # Only regions that are run: an invalid one is the fault of the operator that runs it.
        regions = [Region(graph.regions[0].name, [block]), *reachable(graph, operators)]
        write_model(Graph(graph.version, regions, graph.producer), folder)
        ins = [f"in{i}.npy" for i in range(len(block.inputs))]
        outs = [f"part{i}.npy" for i in range(len(outputs))]
        _write_description(folder, block, ins, outs)
        return is_nameless(
            reference_model_process.run([*command, "--validate_only=1"], folder, timeout)
        )

    low, high = 1, len(main.operators)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_refused(middle) else (middle + 1, high)
    return low - 1 if is_refused(low) else None
