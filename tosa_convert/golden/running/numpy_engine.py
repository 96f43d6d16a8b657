"""Runs programs in this process, by the definitions of `tosa_convert.reference`."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.arrays.scratch import write_npy
from tosa_convert.golden.arrays.slots import Slot, load_npy, save_npy, slot_file, slots
from tosa_convert.golden.running.run_options import RunOptions
from tosa_convert.golden.running.work import Work
from tosa_convert.graph.model import Graph
from tosa_convert.process.ending_signals import ended_while_computing
from tosa_convert.records import NamedTuple

if TYPE_CHECKING:
    from tosa_convert.reference.call import Precision, Step
    from tosa_convert.reference.evaluate import Machine

#: What the name of a file with bounds begins with.
BOUNDS_PREFIX: Final = "bounds_"


class Computed(NamedTuple):
    """The results of a run by the key of their slot; bounds only if they were asked for."""

    outputs: dict[str, Array]
    bounds: dict[str, Array]
    seconds: float


def definition(kind: str) -> str:
    """Return what an operator computes, in words; "" of one that computes nothing.

    Example:
        >>> definition("ABS")
        'Return the absolute value. That of the least integer is not defined.'
    """
    from tosa_convert.reference.evaluate import OPERATIONS

    return inspect.getdoc(OPERATIONS[kind]) or "" if kind in OPERATIONS else ""


def compute(graph: Graph, inputs: Mapping[str, Array], options: RunOptions) -> Computed:
    """Return what a program gives."""
    start = time.monotonic()
    if options.level != "none":
        _refuse_exceeded_level(graph, options.level)
    precision: Precision = "wide" if options.precise or options.bounds else "own"
    outputs = _run(graph, inputs, precision, options)
    bounds = _run(graph, inputs, "bounds", options) if options.bounds else {}
    return Computed(outputs, bounds, time.monotonic() - start)


def execute(
    graph: Graph, folder: Path, options: RunOptions, ins: Sequence[str], outs: Sequence[str]
) -> float:
    """Run a program on files as the reference model does; return the seconds it took.

    ins, outs: the files of the inputs and outputs of the main block, in order.
    """
    block = graph.main
    named = [(slot, folder / file) for slot, file in _files(graph, block.inputs, ins)]
    found = compute(graph, {slot.key: load_npy(path, slot) for slot, path in named}, options)
    for slot, file in _files(graph, block.outputs, outs):
        _save(folder / file, slot, found.outputs[slot.key])
        if options.bounds:
            _save(folder / f"{BOUNDS_PREFIX}{file}", slot, found.bounds[slot.key])
    return found.seconds


def _files(graph: Graph, names: Sequence[str], files: Sequence[str]) -> list[tuple[Slot, str]]:
    return [
        (slot, slot_file(file.removesuffix(".npy"), slot))
        for name, file in zip(names, files, strict=True)
        for slot in slots(graph.main, name)
    ]


def _save(path: Path, slot: Slot, array: Array) -> None:
    if array.dtype == slot.dtype.numpy:
        save_npy(path, slot, array)
    else:
        write_npy(path, array)


def _run(
    graph: Graph, inputs: Mapping[str, Array], precision: Precision, options: RunOptions
) -> dict[str, Array]:
    outputs: dict[str, Array] = {}
    for _ in _timed_steps(graph, inputs, precision, options, outputs):
        pass
    return outputs


def compute_steps(graph: Graph, inputs: Mapping[str, Array], options: RunOptions) -> Iterator[Step]:
    """Iterate over the operators of a program as they are computed; see `compute`."""
    if options.level != "none":
        _refuse_exceeded_level(graph, options.level)
    precision: Precision = "wide" if options.precise else "own"
    return _timed_steps(graph, inputs, precision, options, {})


def _timed_steps(
    graph: Graph,
    inputs: Mapping[str, Array],
    precision: Precision,
    options: RunOptions,
    outputs: dict[str, Array],
) -> Iterator[Step]:
    from tosa_convert.reference.evaluate import Machine

    work = Work(graph, options.progress)
    spent, since = 0.0, time.monotonic()
    machine = Machine(graph, precision)
    with ended_while_computing():
        for step in _refusing_what_fails(machine, machine.steps(inputs, outputs)):
            spent += time.monotonic() - since
            if options.timeout and spent > options.timeout:
                raise fail(
                    "refmodel-timeout",
                    step.where,
                    f"the run in numpy took longer than {options.timeout:g} s",
                    "allow more time, or use smaller inputs",
                )
            yield step
            if not step.inside.path:
                work.report(step.index + 1)
            del step  # nothing else may hold its values
            since = time.monotonic()  # what the caller does with a step is not the run's time


def _refusing_what_fails(machine: Machine, steps: Iterator[Step]) -> Iterator[Step]:
    """Iterate over the steps of a run; an operator that numpy cannot compute is a finding."""
    try:
        yield from steps
    except (TosaConvertError, MemoryError):
        raise
    except Exception as error:
        from tosa_convert.rules.public import find_violations

        found = find_violations(machine.graph)
        if found:
            raise TosaConvertError(found) from error
        message = f"numpy cannot compute it: {type(error).__name__}: {error}"
        hint = "TOSA allows the program, so please report it"
        raise fail("refmodel-failed", machine.where, message, hint) from error


def _refuse_exceeded_level(graph: Graph, level: str) -> None:
    from tosa_convert.rules.public import find_violations

    found = [row for row in find_violations(graph, level=level) if row.code == "outside-level"]
    if found:
        raise TosaConvertError(found)
