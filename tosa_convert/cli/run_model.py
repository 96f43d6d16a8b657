"""Shared by the verbs that run programs: inputs from files, results into files, summaries."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click
import numpy as np

from tosa_convert.cli.convert_file import load_graph
from tosa_convert.cli.messages import (
    STANDARD_OUTPUT,
    RunProgress,
    copy_standard_input,
    note,
    say,
    user_of,
    write_file,
)
from tosa_convert.errors import fail, printable
from tosa_convert.golden.accuracy.criteria import FLOATING_POINT, Tolerances
from tosa_convert.golden.arrays import (
    Array,
    Shape,
    Slot,
    load_npz,
    match,
    npy_pieces,
    npz_pieces,
    read_npy,
)
from tosa_convert.golden.backends.runners import Backend, open_backend
from tosa_convert.golden.edges.edge_inputs import find_edge_inputs
from tosa_convert.golden.running.programs import (
    STATE_PREFIX,
    Program,
    input_arrays,
    input_slots,
    load_program,
    state_slots,
    with_variables,
)
from tosa_convert.golden.running.programs import variables_of as declared_variables
from tosa_convert.golden.running.run import (
    Intermediate,
    find_tensors,
    iterate_tensors,
    matches,
    not_collected,
    save_to_folder,
)
from tosa_convert.golden.running.run_graph import Result, run_program
from tosa_convert.golden.running.run_options import (
    Engine,
    RunOptions,
    chosen_engine,
    estimate_seconds,
)
from tosa_convert.graph.derived import extract
from tosa_convert.graph.model import Graph, counted, quoted
from tosa_convert.graph.shown import json_value
from tosa_convert.graph.verify import refuse_unsound
from tosa_convert.io.files import STANDARD, replace_file
from tosa_convert.io.options import ReadOptions

#: Seconds of a run that are worth a note.
_LONG: Final = 20.0
#: A tensor of more elements than this is printed without its middle.
_PRINTED_ELEMENTS: Final = 200


def program_of(model: str, options: Mapping[str, Any]) -> Program:
    """Read the program that a verb runs; "-" is standard input."""
    read = ReadOptions.of(options)
    if model != STANDARD:
        return load_program(model, read)
    graph = load_graph(model, read)
    refuse_unsound(graph)
    return Program(graph)


def program_and_inputs(model: str, options: Mapping[str, Any]) -> tuple[Program, dict[str, Array]]:
    """Return the program, and an array for each of its inputs in the input's type and shape."""
    program = program_of(model, options)
    slots = input_slots(program.graph)
    arrays = _arrays_of(slots, options["arrays"])
    if options["random"] is None and not arrays and slots:
        raise click.UsageError(
            "no inputs: give -i NAME=FILE.npy, -i FILE.npz or --random SEED; the inputs are "
            + ", ".join(map(str, slots))
        )
    for option, flag in (("ranges", "--range"), ("edges", "--edges")):
        if options[option] and options["random"] is None:
            raise click.UsageError(f"{flag} needs --random SEED")
    ranges = parse_ranges(options["ranges"])
    _note_long_run(program.graph, options)
    if options["edges"]:
        refuse_all_given(slots, arrays)
        graph = with_variables(program.graph, variables_of(program.graph, options))
        return program, find_edge_inputs(graph, options["random"], arrays, ranges).arrays
    if options["random"] is not None and slots and not options.get("no_edges"):
        refuse_all_given(slots, arrays, "--random")
    return program, input_arrays(program.graph, arrays, options["random"], ranges)


def refuse_all_given(
    slots: Iterable[Slot], given: Mapping[str, Array], flag: str = "--edges"
) -> None:
    """Raise click.UsageError if no input is left for which an option could choose values."""
    if all(slot.key in given for slot in slots):
        raise click.UsageError(f"{flag} does not apply: -i gives every input")


def _note_long_run(graph: Graph, options: Mapping[str, Any]) -> None:
    """Say that the reference model will take long, and what takes less."""
    if chosen_engine(options["engine"]) != "reference-model":
        return
    seconds = estimate_seconds(graph)
    if seconds > _LONG:
        note(f"a run of the reference model takes about {seconds:.0f} s; --engine numpy takes less")


def parse_ranges(texts: Iterable[str]) -> list[tuple[str, float, float]]:
    """Parse the ranges that --range gives: NAME=LOW:HIGH."""
    rows = []
    for text in texts:
        name, equals, span = text.rpartition("=")
        low, colon, high = span.partition(":")
        try:
            row = name, float(low), float(high)
        except ValueError:
            row = name, 1.0, 0.0
        if not (equals and colon and row[1] <= row[2]):
            raise click.UsageError(f"--range {text}: expected NAME=LOW:HIGH, two numbers")
        rows.append(row)
    return rows


def given_arrays(graph: Graph, options: Mapping[str, Any]) -> dict[str, Array]:
    """Return the arrays that the -i options give, each in its input's type and shape."""
    slots = input_slots(graph)
    arrays = _arrays_of(slots, options["arrays"])
    return match(slots, arrays, complete=False)


def _arrays_of(slots: Iterable[Slot], given: Iterable[str]) -> dict[str, Array]:
    """Read the arrays that the -i options name; data of another shape than an input's is not read."""
    shapes = {slot.key: slot.shape for slot in slots}
    return arrays_from_files(given, list(shapes), shapes)


def arrays_from_files(
    given: Iterable[str], names: Sequence[str], shapes: Mapping[str, Shape] | None = None
) -> dict[str, Array]:
    """Read the arrays that the -i options name, for inputs of these names; `load_npz` checks shapes."""
    arrays: dict[str, Array] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if equals and not os.path.exists(text):
            new = {name: read_npy(copy_standard_input(path), (shapes or {}).get(name))}
        elif (file := copy_standard_input(text)).endswith(".npy"):
            if len(names) != 1:
                raise click.UsageError(
                    f"-i {text}: the model has {len(names)} inputs ({', '.join(names)}); "
                    f"write -i NAME={text}"
                )
            new = {names[0]: read_npy(file, (shapes or {}).get(names[0]))}
        else:
            new = load_npz(file, shapes)
        for key in new:
            if key in arrays:
                raise click.UsageError(f'input "{key}" is given twice')
        arrays.update(new)
    return arrays


def named_engine(options: Mapping[str, Any], graph: Graph | None = None) -> Engine:
    """Return the engine that computes the reference, and say so if it is not the reference model."""
    engine = chosen_engine(options["engine"], graph)
    if engine != "reference-model":
        note(f"engine: {engine}")
    return engine


def run_command(model: str, options: Mapping[str, Any]) -> int:
    taken = user_of(STANDARD_OUTPUT)
    if taken and options["as_json"]:
        raise click.UsageError(f"{taken} and --json cannot both be standard output")
    program, arrays = program_and_inputs(model, options)
    states = variables_of(program.graph, options)
    run_options = RunOptions(
        precise=options["precise"],
        bounds=options["bounds"] is not None,
        level=options["level"],
        timeout=options["timeout"],
        engine=options["engine"],
    )
    with RunProgress("run") as progress:
        watched = replace(run_options, progress=progress.report)
        names = _tensors_outside_regions(program.graph, options["until"])
        if options["until"] and not names:
            result = _run_until(with_variables(program.graph, states), arrays, watched, options)
        else:
            program = Program(extract(program.graph, names)) if names else program
            result = run_program(program, arrays, watched, states)
    if (
        options["save_variables"]
        and not declared_variables(program.graph).keys() <= result.variables.keys()
    ):
        raise fail(
            "unsupported-operator",
            model,
            "control flow uses variables, and one has no initial value: its final state is not known",
        )
    summary: dict[str, Any] = {
        "outputs": described(result.outputs),
        "variables": described(result.variables),
        "seconds": round(result.seconds, 3),
        "engine": chosen_engine(run_options.engine, program.graph),
    }
    for option, content in (
        ("output", result.outputs),
        ("bounds", result.bounds),
        ("save_variables", result.variables),
        ("save_inputs", arrays),
    ):
        if options[option]:
            save_arrays(options[option], content)
    if options["intermediates"]:
        graph = with_variables(program.graph, states)
        with RunProgress("run") as progress:
            watched = replace(run_options, progress=progress.report)
            summary["intermediates"] = _save_intermediates(graph, arrays, watched, options)
    if options["print"]:
        graph = with_variables(program.graph, states)
        tensors = find_tensors(graph, arrays, options["print"], run_options)
        summary["printed"] = _print_tensors(tensors, as_json=options["as_json"])
    _print_summary(summary, as_json=options["as_json"])
    return 0


def _tensors_outside_regions(graph: Graph, patterns: Sequence[str]) -> list[str]:
    """Return the tensors of the main block that match, or [] if a pattern matches none."""
    every = (*graph.main.tensors, *graph.main.shapes)
    names = {pattern: [n for n in every if matches(n, [pattern])] for pattern in patterns}
    return list(dict.fromkeys(itertools.chain(*names.values()))) if all(names.values()) else []


def _run_until(
    graph: Graph, arrays: Mapping[str, Array], run_options: RunOptions, options: Mapping[str, Any]
) -> Result:
    """Run a program until the tensors that --until names are computed, some of them in regions."""
    for option in ("bounds", "save_variables"):
        if options[option]:
            flag = f"--{option.replace('_', '-')}"
            raise click.UsageError(f"{flag} does not apply if --until names a tensor in a region")
    start, patterns = time.monotonic(), options["until"]
    found: dict[str, Array] = {}
    for tensor in find_tensors(graph, arrays, patterns, run_options):
        found |= tensor.arrays
        if found.keys() >= set(patterns):
            break
    return Result(found, seconds=time.monotonic() - start)


def save_arrays(path: str, arrays: Mapping[str, Array]) -> None:
    """Write arrays by name into an `.npz` file, or one into an `.npy` file; "-" is standard output."""
    extension = os.path.splitext(path)[1].lower()
    if extension not in ("", ".npz", ".npy"):
        message = f"arrays are written as .npz or .npy, found {printable(extension)}"
        raise fail("option-conflict", path, message, "name an .npz file")
    if extension != ".npy":
        write_file(path, npz_pieces(arrays), "an .npz file")
    elif len(arrays) == 1:
        replace_file(path, npy_pieces(*arrays.values()))
    else:
        names = ", ".join(map(quoted, arrays)) or "none"
        message = f"an .npy file holds one array, found {len(arrays)}: {names}"
        raise fail("option-conflict", path, message, "name an .npz file")


def _save_intermediates(
    graph: Graph, arrays: Mapping[str, Array], run_options: RunOptions, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Write the tensors that --intermediates selects; return their row of the summary."""
    tensors = iterate_tensors(
        graph,
        arrays,
        options["pattern"] or ("*",),
        run_options,
        batch_bytes=options["batch_mib"] << 20,
        iterations=options["inside"],
    )
    missing = not_collected(graph, options["inside"], run_options)
    path = options["intermediates"]
    if path == STANDARD or path.endswith(".npz"):
        count = len(_save_to_npz(tensors, path, missing))
    else:
        count = len(save_to_folder(tensors, Path(path), missing))
    return {"count": count, "path": path, "not_collected": missing}


def _save_to_npz(
    tensors: Iterator[Intermediate], path: str, missing: list[dict[str, object]]
) -> list[dict[str, Any]]:
    """Write each array by name as it is computed, then `manifest.json`: operators and locations."""
    rows: list[dict[str, Any]] = []

    def arrays() -> Iterator[tuple[str, Array]]:
        for tensor in tensors:
            for key, array in tensor.arrays.items():
                rows.append({"name": key, "operator": tensor.operator, "location": tensor.location})
                yield key, array
        text = json.dumps({"tensors": rows, "not_collected": missing})
        yield "manifest.json", np.frombuffer(text.encode(), np.uint8)

    write_file(path, npz_pieces(arrays()), "an .npz file")
    return rows


def _print_tensors(tensors: Iterable[Intermediate], *, as_json: bool) -> list[dict[str, Any]]:
    """Print the values of tensors as they are computed, or return them for JSON."""
    rows: list[dict[str, Any]] = []
    for tensor in tensors:
        for key, array in tensor.arrays.items():
            plain = array if array.dtype.kind in "biuf" else array.astype(np.float64)
            if as_json:
                values = json_value(plain.reshape(-1).tolist())
                rows.append({"name": key, "operator": tensor.operator, "values": values})
                continue
            say(
                f"{printable(key)}: {array.dtype}{list(array.shape)} by {printable(tensor.operator)}"
            )
            say(np.array2string(plain, threshold=_PRINTED_ELEMENTS))
    return rows


def described(arrays: Mapping[str, Array]) -> list[dict[str, Any]]:
    """Return name, type, shape and range of each array."""
    rows = []
    for name, array in arrays.items():
        row: dict[str, Any] = {"name": name, "dtype": str(array.dtype), "shape": list(array.shape)}
        if array.size:
            wide = array.astype(np.float64) if array.dtype.kind not in "biu" else array
            with np.errstate(invalid="ignore"):
                row["min"], row["max"] = (json_value(end(wide).item()) for end in (np.min, np.max))
        rows.append(row)
    return rows


def _print_summary(summary: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(summary, indent=1))
        return
    for key, label in (("outputs", "output"), ("variables", "variable")):
        for row in summary[key]:
            span = f" {row['min']} .. {row['max']}" if "min" in row else ""
            say(f"{label} {printable(row['name'])}: {row['dtype']}{row['shape']}{span}")
    say(f"engine: {summary['engine']}")
    if "intermediates" in summary:
        count, path = summary["intermediates"]["count"], summary["intermediates"]["path"]
        say(f"{counted(count, 'intermediate')} in {path}")
        for row in summary["intermediates"]["not_collected"]:
            names = [name for tensors in row["tensors"].values() for name in tensors]
            listed = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
            say(f"note: {row['operator']}: {row['reason']}; not collected: {listed or 'nothing'}")


def backend_of(
    graph: Graph, arrays: Mapping[str, Array], options: Mapping[str, Any], text: str | None = None
) -> Backend:
    return open_backend(
        text or options["against"],
        graph,
        arrays,
        original=options["original"],
        python=options["python"],
        timeout=options["timeout"],
        keep=Path(options["keep"]) if options["keep"] else None,
    )


def variables_of(graph: Graph, options: Mapping[str, Any]) -> dict[str, Array]:
    """Return the initial states that --variables gives; data of another shape is not read."""
    if not options.get("variables"):  # `reduce` has no such option
        return {}
    slots = state_slots(graph)
    shapes = {key.removeprefix(STATE_PREFIX): slot.shape for key, slot in slots.items()}
    return load_npz(copy_standard_input(options["variables"]), shapes)


def tolerances_of(options: Mapping[str, Any]) -> Tolerances:
    return Tolerances(
        _tolerances("atol", options["atol"]),
        _tolerances("rtol", options["rtol"]),
        official=options.get("official", False),
        strict=options.get("strict", False),
    )


def _tolerances(option: str, texts: Iterable[str]) -> tuple[tuple[str, float], ...]:
    pairs = []
    for text in texts:
        name, colon, value = text.rpartition(":")
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not number >= 0:
            raise click.UsageError(f"--{option} {text}: expected [NAME:]VALUE, a number from 0 up")
        pairs.append((name if colon else FLOATING_POINT, number))
    return tuple(pairs)
