"""The work of `check`: one or several sets of inputs, and the report."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from tosa_convert.cli.messages import RunProgress, copy_standard_input, note, say
from tosa_convert.cli.run_model import (
    backend_of,
    given_arrays,
    named_engine,
    parse_ranges,
    program_and_inputs,
    program_of,
    refuse_all_given,
    tolerances_of,
    variables_of,
)
from tosa_convert.errors import TosaConvertError, printable
from tosa_convert.exit_codes import EXIT_WEAK
from tosa_convert.golden.accuracy.comparison import Comparison
from tosa_convert.golden.arrays import Array
from tosa_convert.golden.backends.runners import ORIGINALS, Backend, Record
from tosa_convert.golden.checking.check import (
    WIDENED,
    CheckPlan,
    OpenBackend,
    Reference,
    bisect_command,
    calibration_inputs,
    check_inputs,
    edge_sets,
    refuse_fixed,
    runs_as_json,
    seeded_inputs,
    takes_edge_inputs,
    widened,
    widened_inputs,
    with_initial_states,
)
from tosa_convert.golden.edges.edge_inputs import (
    DEFAULT_INPUTS,
    DEFAULT_SEED,
    EdgeInputs,
    find_edge_inputs,
    seeds_of_sets,
)
from tosa_convert.golden.running.programs import Program, input_slots, with_variables
from tosa_convert.golden.running.programs import variables_of as declared
from tosa_convert.golden.running.run_graph import run_program
from tosa_convert.golden.running.run_options import RunOptions, estimate_seconds
from tosa_convert.graph.model import Graph, counted
from tosa_convert.graph.opset import CONST, CONST_SHAPE
from tosa_convert.io import log
from tosa_convert.process.child import Begin, done_meanwhile

# -- runs with edge inputs, besides those with random ones, and their report -----------------------


def has_edge_run(graph: Graph, options: Mapping[str, Any], against: str) -> bool:
    """Return whether a backend also runs on edge inputs: recordings and frameworks do not."""
    is_random = options["random"] is not None or bool(options.get("seeds"))
    given: Mapping[str, Array] = {}
    if is_random and (options["edges"] or options["no_edges"] or options["arrays"]):
        given = given_arrays(graph, options)
    has_others = any(slot.key not in given for slot in input_slots(graph))
    for option, flag in (("edges", "--edges"), ("no_edges", "--no-edges")):
        if options[option] and not is_random:
            raise click.UsageError(f"{flag} needs --random SEED")
        if options[option] and not has_others:
            raise click.UsageError(f"{flag} does not apply: -i gives every input")
    if options["edges"] or options["no_edges"] or not is_random or not has_others:
        return False
    if options["atol"] or options["rtol"] or options.get("reference"):
        return False
    return takes_edge_inputs(against)


def edge_inputs_of(
    graph: Graph, options: Mapping[str, Any], seed: int, *, is_wanted: bool = False
) -> EdgeInputs | None:
    """Return the edge inputs of a seed; None, with a note, if there are none, unless `is_wanted`."""
    given = given_arrays(graph, options)
    states = with_variables(graph, variables_of(graph, options))
    try:
        return find_edge_inputs(states, seed, given, parse_ranges(options["ranges"]))
    except TosaConvertError as error:
        if is_wanted:
            raise
        note(f"no run with edge inputs: {error.findings[0].message}")
        return None


def say_edges(found: EdgeInputs) -> None:
    """Print which edges are met, and how inputs were repaired."""
    say(f"edges: {found.coverage}")
    for repair in found.repairs:
        say(f"       {printable(repair)}")
    for row in found.coverage.operators:
        say(f"       {printable(str(row))} {printable(row.location)}".rstrip())


def edges_as_dict(found: EdgeInputs) -> dict[str, Any]:
    """Return the coverage, and how inputs were repaired, as JSON values."""
    return {"coverage": found.coverage.to_dict(), "repairs": found.repairs}


#: Options that `bisect` takes, too, and that decide what it finds.
_OF_BISECT: Final = (
    *("arrays", "ranges", "variables", "original", "python", "atol", "rtol", "official"),
    *("custom", "func", "narrow", "input_shapes"),
)
_Item = TypeVar("_Item")
#: A name for each set of inputs, and its arrays.
NamedInputs = Iterator[tuple[str, dict[str, Array]]]
#: ... with how edge inputs were found, and with the states of variables with which a later call begins.
_Set = tuple[str, Mapping[str, Array], EdgeInputs | None, Mapping[str, Array]]
#: Estimated seconds of a run of the reference up to which two may run at once; together they take
#: longer, and twice the memory.
_OVERLAPPING: Final = 5.0
#: Calls of a program with variables: a backend may start from the wrong state, or not write one.
_CALLS: Final = 3


def run_check(model: str, options: Mapping[str, Any]) -> int:
    """Check a model as the options say; returns the exit code."""
    with done_meanwhile() as begin:
        return _check(model, options, begin)


def _check(model: str, options: Mapping[str, Any], begin: Begin) -> int:
    options, by_default = _with_default_inputs(options)
    program_graph, sets = named_inputs(model, {**options, "edges": False})
    with_edges = {text: has_edge_run(program_graph, options, text) for text in options["against"]}
    states = variables_of(program_graph, options)
    narrow = with_variables(program_graph, states)
    graph, states = (widened(narrow), {}) if options["widen"] else (narrow, states)
    plan = _plan(graph, states, options)
    backends = {text if len(options["against"]) > 1 else "": text for text in options["against"]}
    with_calls = {text for text in options["against"] if _has_calls(program_graph, options, text)}
    has_sets = options["seeds"] or options["calibration"] or with_calls or any(with_edges.values())
    is_single = not has_sets and len(backends) == 1
    results: dict[str, Comparison] = {}
    more: dict[str, dict[str, Any]] = {}
    firsts: dict[int, tuple[str, str]] = {}
    codes, shown, settled, taken = set[int](), set[str](), set[str](), Counter[tuple[str, str]]()
    opened: dict[str, Backend] = {}
    every = _with_edges(program_graph, sets, options, has_both=any(with_edges.values()))
    every = chain(every, _later_calls(graph, options, plan) if with_calls else ())
    references = _begun(every, graph, narrow, plan, begin)
    for (name, arrays, edges, later), own, progress in _ahead(references, begin):
        for number, (text, against) in enumerate(backends.items()):
            is_due = edges is None or options["edges"] or with_edges[against]
            if not is_due or (later and against not in with_calls):
                continue
            opener = _opener(own.graph, {**states, **later}, options, against, opened)
            label = " ".join(filter(None, (name if has_sets else "", text and f"against {text}")))
            folder = f"backend-{number}/{name}" if text else name
            with progress:
                found = check_inputs(own, folder, opener, plan)
            notes = [DEFAULT_INPUTS] * (by_default and bool(arrays)) + [WIDENED] * options["widen"]
            results[label] = replace(found, notes=(*found.notes, *notes))
            firsts.setdefault(found.exit_code, (name, against))
            if edges is not None:
                taken.update(edges.taken)
                if options["as_json"]:
                    more[label] = {"edges": edges_as_dict(edges)}
            wide = None
            if found.ok and found.low_precision and not (options["widen"] or options["reference"]):
                wide = _run_widened(own.graph, arrays, options, against, plan)
            if wide is not None:
                more.setdefault(label, {})["widened"] = wide.to_dict()
                codes.add(wide.exit_code)
                if not wide.exit_code:
                    settled.add(label)
            if not options["as_json"] and (
                log.is_verbose() or found.exit_code or (wide is not None and wide.exit_code)
            ):
                shown.add(label)
                _print(label, results[label], wide, edges, is_single=is_single)
    if not options["as_json"]:
        _say_summary(results, shown, settled, taken, is_single=is_single)
    engine = named_engine(options, graph)
    if options["as_json"]:
        say(runs_as_json(results, more, is_single=is_single, engine=engine))
    elif run := firsts.get(1) or firsts.get(EXIT_WEAK):
        _note_next(program_graph, model, run, options, is_weak=1 not in firsts)
    codes |= {result.exit_code for result in results.values()}
    return 1 if 1 in codes else max(codes, default=1)


def _plan(graph: Graph, states: Mapping[str, Any], options: Mapping[str, Any]) -> CheckPlan:
    """Return how each set of inputs is checked."""
    reference = options["reference"]
    return CheckPlan(
        tolerances=tolerances_of(options),
        options=RunOptions(timeout=options["timeout"], engine=options["engine"]),
        repeat=options["repeat"],
        save=Path(options["save"]) if options["save"] else None,
        reference=None if reference is None else _opener(graph, states, options, reference),
    )


def _run_widened(
    graph: Graph,
    arrays: Mapping[str, Array],
    options: Mapping[str, Any],
    text: str,
    plan: CheckPlan,
) -> Comparison | None:
    """Check a program of low precision in FP32; None, with a note, if it or the backend cannot be."""
    rows = [tensor.dtype for _, block in graph.blocks() for tensor in block.tensors.values()]
    if not any(row.is_float and row.name != "FP32" for row in rows):
        return None
    try:
        wide, given = widened(graph), widened_inputs(graph, arrays)
        opener = _opener(wide, {}, {**options, "widen": True}, text)
        with RunProgress("reference in FP32") as progress:
            run = replace(plan.options, progress=progress.report)
            own = Reference(wide, given, run, plan.tolerances)
            found = check_inputs(own, "", opener, replace(plan, repeat=1, save=None))
    except TosaConvertError as error:
        note(f"not checked in FP32: {error.findings[0].message}")
        return None
    return replace(found, notes=(*found.notes, WIDENED))


_SETTLED: Final = (
    "low precision: small faults in FP16, BF16 and FP8 are not seen, and -v says how small; computed in "
    "FP32, both sides agree"
)


def _say_summary(
    results: Mapping[str, Comparison],
    shown: Collection[str],
    settled: Collection[str],
    taken: Mapping[tuple[str, str], int],
    *,
    is_single: bool,
) -> None:
    """Print a line if all runs agree, with the tensor nearest to its bound.

    shown: printed runs. settled: those of low precision that agree in FP32, too.
    """
    runs = results.values()
    text = ""
    if not is_single:
        text = f"{sum(run.ok for run in runs)} of {counted(len(results), 'run')} agree"
        weak = sum(run.weak for run in runs)
        text += f", {weak} of them weakly" if weak else ""
    rows = [(name, row) for name, run in results.items() for row in run.tensors]
    if rows and not shown:
        name, row = max(rows, key=lambda pair: (pair[1].margin or 0.0, pair[1].differing))
        verdict, line = row.line.split(maxsplit=1)
        nearest = f"{text}, nearest to its bound in {printable(name)}: " if text else ""
        others = f"; {counted(len(rows) - 1, 'other tensor')} too" if is_single and rows[1:] else ""
        text = f"{verdict:4} {nearest}{line}{others}"
    if text:
        say(text)
    lines = [
        line
        for name, run in results.items()
        if name not in shown
        for line in ([_SETTLED] if name in settled else _notes(run))
    ]
    for line in dict.fromkeys(lines):
        say(f"note: {line}")
    for path in dict.fromkeys(path for path, _ in taken):
        never = [label for (own, label), count in taken.items() if own == path and not count]
        if never:
            say(f"note: {printable(path)}: never with edge inputs: {', '.join(never)}")


def _notes(result: Comparison) -> Iterator[str]:
    """Iterate over the notes of a run that agrees, but for what the names of runs say."""
    for row in result.tensors:
        if row.note:
            yield f"{printable(row.name)}: {row.note}"
    for name in result.extra:
        yield f"{printable(name)}: only the other side has it; not compared"
    yield from (text for text in result.notes if text != DEFAULT_INPUTS)


def _with_default_inputs(options: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """Return the options with the default seed if nothing says which inputs there are; whether it is."""
    given = any(options[name] for name in ("arrays", "seeds", "calibration"))
    if given or options["random"] is not None:
        return options, False
    return {**options, "random": DEFAULT_SEED}, True


def _note_next(
    graph: Graph, model: str, run: tuple[str, str], options: Mapping[str, Any], *, is_weak: bool
) -> None:
    """Say what tells more about a wrong or weak result of (inputs, backend)."""
    computing = [op for op in graph.main.operators if op.spec not in (CONST, CONST_SHAPE)]
    if options["widen"] or options["reference"] or len(computing) < 2:
        return
    has_more = any(options.get(name) for name in _OF_BISECT)
    command, flag = bisect_command(model, *run), " --all" if is_weak else ""
    aim, verb = "find the operator that is wrong", "names the operator that is wrong"
    if is_weak:
        aim, verb = (
            f"{word} each operator by itself, where less may differ" for word in ("judge", "judges")
        )
        note("weak: faults that are smaller than the bound are not excluded")
    seed = run[0].rpartition("-")[2]
    if is_weak and seed.isdigit() and run[1].partition(":")[0] in ORIGINALS:
        aim, flag = "judge each tensor on the way by those before it", ""
        words = [f"model={run[1]}", f"program={model}", "--random", seed]
        command = printable(shlex.join(["tosa-flatbuffer", "chain", *words]))
    if command:
        more = ", with the other options of this command" if has_more else ""
        note(f"to {aim}: {command}{flag}{more}")
    elif run[0] == "given":
        note(f"tosa-flatbuffer bisect{flag}, with the same options, {verb}")


def _begun(
    every: Iterator[_Set], graph: Graph, narrow: Graph, plan: CheckPlan, begin: Begin
) -> Iterator[tuple[_Set, Reference, RunProgress]]:
    """Iterate over sets of inputs, each with its reference, whose run begins.

    narrow: the program before it was widened, if it was.
    """
    overlaps, before = estimate_seconds(graph) < _OVERLAPPING, None
    for number, item in enumerate(every):
        _, arrays, edges, later = item
        given = arrays if graph is narrow else widened_inputs(narrow, arrays)
        progress = RunProgress("reference")
        options = replace(plan.options, progress=progress.report)
        own = Reference(with_variables(graph, later), given, options, plan.tolerances)
        # The first run says what is refused.
        is_known = number > 0 and graph is narrow and not declared(graph)
        if edges is not None and is_known and options.runs_on_numpy(graph):
            own.outputs = edges.outputs
        elif plan.reference is None:
            if before is not None and not overlaps:
                with suppress(TosaConvertError):
                    _ = before.outputs
            own.begin(begin)
        before = own
        yield item, own, progress


def _ahead(items: Iterator[_Item], begin: Begin) -> Iterator[_Item]:
    """Iterate, and make the next item meanwhile: most of the time is that of other processes."""
    context = click.get_current_context()

    def following() -> _Item | None:
        with context.scope(cleanup=False):
            return next(items, None)

    made = begin(following)
    while (item := made()) is not None:
        made = begin(following)
        yield item


def _with_edges(
    graph: Graph, sets: NamedInputs, options: Mapping[str, Any], *, has_both: bool
) -> Iterator[_Set]:
    """Iterate over random inputs, with the edge inputs of each seed after them or instead."""
    for seed, (name, arrays) in enumerate(sets, options["random"] or 0):
        if not options["edges"]:
            yield name, arrays, None, {}
        if options["edges"] or has_both:
            for own in (seed,) if options["edges"] else seeds_of_sets(graph, seed):
                found = edge_inputs_of(graph, options, own, is_wanted=options["edges"])
                if found is not None:
                    yield f"edges-{own}", found.arrays, found, {}


def _has_calls(graph: Graph, options: Mapping[str, Any], against: str) -> bool:
    """Return whether a backend also runs the calls after the first one, on states that these left."""
    is_random = options["random"] is not None or bool(options["seeds"])
    is_other = options["widen"] or options["reference"] is not None or options["edges"]
    return is_random and not is_other and takes_edge_inputs(against) and bool(declared(graph))


def _later_calls(graph: Graph, options: Mapping[str, Any], plan: CheckPlan) -> Iterator[_Set]:
    """Iterate over random inputs of calls, each with the states that the one before left."""
    given, ranges = given_arrays(graph, options), parse_ranges(options["ranges"])
    calls = seeded_inputs(graph, given, options["random"] or 0, _CALLS, ranges)
    states: dict[str, Array] = {}
    for number, (_, arrays) in enumerate(calls, 1):
        if number > 1:
            yield f"call-{number}", arrays, None, states
        if number < _CALLS:
            result = run_program(Program(with_variables(graph, states)), arrays, plan.options)
            states = dict(result.variables)
            if not states:
                return


def named_inputs(model: str, options: Mapping[str, Any]) -> tuple[Graph, NamedInputs]:
    """Return the program, and the sets of inputs that the options ask for."""
    if not options["seeds"] and not options["calibration"]:
        program, arrays = program_and_inputs(model, options)
        kind = "edges" if options["edges"] else "seed"
        name = "given" if options["random"] is None else f"{kind}-{options['random']}"
        return program.graph, iter([(name, arrays)])
    graph = program_of(model, options).graph
    given = given_arrays(graph, options)
    if options["calibration"]:
        return graph, calibration_inputs(
            graph, Path(copy_standard_input(options["calibration"])), given
        )
    if given:
        refuse_all_given(input_slots(graph), given, "--seeds")
    ranges = parse_ranges(options["ranges"])
    first, count = options["random"] or 0, options["seeds"]
    if options["edges"]:
        graph = with_variables(graph, variables_of(graph, options))
        return graph, edge_sets(graph, given, first, count, ranges)
    return graph, seeded_inputs(graph, given, first, count, ranges)


def _opener(
    graph: Graph,
    states: Mapping[str, Any],
    options: Mapping[str, Any],
    text: str,
    opened: dict[str, Backend] | None = None,
) -> OpenBackend:
    """Return what opens a backend for a set of inputs. opened: those that have read the program."""

    def opener(arrays: Mapping[str, Array]) -> Backend:
        backend = (opened or {}).get(text) or backend_of(graph, arrays, options, text)
        if opened is not None and not isinstance(backend, Record):
            opened[text] = backend
        if options["widen"]:
            refuse_fixed(backend)
        return with_initial_states(graph, backend, states)[1]

    return opener


def _print(
    name: str,
    result: Comparison,
    wide: Comparison | None,
    edges: EdgeInputs | None,
    *,
    is_single: bool,
) -> None:
    """Print all about a run, and about that in FP32."""
    if not is_single:
        say(f"{printable(name)}:")
    say(str(result))
    if wide is not None:
        say(str(wide))
    if edges is not None and log.is_verbose():
        say_edges(edges)
