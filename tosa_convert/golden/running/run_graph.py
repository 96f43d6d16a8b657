"""Run one graph on the TOSA reference model, with files in a folder, or on numpy."""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tosa_convert import api
from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.golden.arrays import (
    Array,
    Arrays,
    LazyArrays,
    Slot,
    coerce,
    full_disk,
    load_npy,
    missing_input,
    save_npy,
    scratch_folder,
    slot_file,
    slots,
    write_npy,
    write_scratch,
)
from tosa_convert.golden.running import reference_model_process
from tosa_convert.golden.running.programs import (
    Program,
    final_states,
    input_slots,
    inputs_of,
    needs_another_name,
    output_slots,
    unused_variables,
    with_final_states,
    with_name_of_main_block,
    with_variables,
    without_unused_variables,
)
from tosa_convert.golden.running.random_inputs import indexed
from tosa_convert.golden.running.run_options import (
    DEFAULT_RUN,
    RunOptions,
    Work,
    lacking_findings,
)
from tosa_convert.graph.derived import reachable, with_main
from tosa_convert.graph.dtypes import BLOCK_SCALE
from tosa_convert.graph.model import (
    UNLOCATED,
    Block,
    Graph,
    Operator,
    Region,
    Tensor,
    counted,
    operator_path,
)
from tosa_convert.graph.shown import Shown, arrays_text
from tosa_convert.graph.verify import verify
from tosa_convert.graph.versions import V1_1_DRAFT
from tosa_convert.io.files import map_file
from tosa_convert.process.child import Ended, describe_exit, end_if_unwanted
from tosa_convert.process.ending_signals import ended_while_computing
from tosa_convert.remedies import hint_for
from tosa_convert.rules.infer import endless_logarithms
from tosa_convert.rules.validate import Validator

if TYPE_CHECKING:
    from tosa_convert.reference.call import Precision, Step
    from tosa_convert.reference.evaluate import Machine

# -- runs programs in this process, by the definitions of `tosa_convert.reference` -----------------

BOUNDS_PREFIX: Final = "bounds_"


class Computed(NamedTuple):
    """Hold the results of a run by the key of their slot; bounds only if they were asked for."""

    outputs: dict[str, Array]
    bounds: dict[str, Array]
    seconds: float


def compute(graph: Graph, inputs: Arrays, options: RunOptions) -> Computed:
    start = time.monotonic()
    _refuse_exceeded_level(graph, options.level)
    precision: Precision = "wide" if options.precise or options.bounds else "own"
    outputs = _run(graph, inputs, precision, options)
    bounds = _run(graph, inputs, "bounds", options) if options.bounds else {}
    return Computed(outputs, bounds, time.monotonic() - start)


def execute_in_numpy(
    graph: Graph, folder: Path, options: RunOptions, ins: Sequence[str], outs: Sequence[str]
) -> float:
    """Run a program on files as the reference model does; return the seconds it took."""
    block = graph.main
    named = [(slot, folder / file) for slot, file in _files(graph, block.inputs, ins)]
    found = compute(graph, {slot.key: load_npy(path, slot) for slot, path in named}, options)
    for slot, file in _files(graph, block.outputs, outs):
        save_result(folder / file, slot, found.outputs[slot.key])
        if options.bounds:
            save_result(folder / f"{BOUNDS_PREFIX}{file}", slot, found.bounds[slot.key])
    return found.seconds


def _files(graph: Graph, names: Sequence[str], files: Sequence[str]) -> list[tuple[Slot, str]]:
    return [
        (slot, slot_file(file.removesuffix(".npy"), slot))
        for name, file in zip(names, files, strict=True)
        for slot in slots(graph.main, name)
    ]


def save_result(path: Path, slot: Slot, array: Array) -> None:
    """Write an array as the reference model does: in FP64 if it was computed in it."""
    if array.dtype == slot.dtype.numpy:
        save_npy(path, slot, array)
    else:
        write_npy(path, array)


def _run(
    graph: Graph, inputs: Arrays, precision: Precision, options: RunOptions
) -> dict[str, Array]:
    outputs: dict[str, Array] = {}
    for _ in _timed_steps(graph, inputs, precision, options, outputs):
        pass
    if precision != "own":  # Scales are exact, and keep their type while they are computed with.
        scales = [key for key, array in outputs.items() if array.dtype == BLOCK_SCALE.numpy]
        outputs |= {key: outputs[key].astype("float64") for key in scales}
    return outputs


def compute_steps(graph: Graph, inputs: Arrays, options: RunOptions) -> Iterator[Step]:
    """Iterate over the operators of a program as they are computed; see `compute`."""
    _refuse_exceeded_level(graph, options.level)
    return _timed_steps(graph, inputs, "wide" if options.precise else "own", options, {})


def _timed_steps(
    graph: Graph,
    inputs: Arrays,
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
            end_if_unwanted()
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
    if level == "none":
        return
    from tosa_convert.rules.public import find_violations

    found = [row for row in find_violations(graph, level=level) if row.code == "outside-level"]
    if found:
        raise TosaConvertError(found)


# -- why the reference model refused a graph: operator, rule and shapes instead of its log ---------
# On stderr the model prints the check that failed (a condition of its source), a sentence, and
# sometimes the node's number and type. Otherwise a second run with its trace on names the node.

_CHECK: Final = re.compile(
    r"(?:REQUIRE|ERROR_IF|LEVEL_CHECK|SUBGRAPH_ERROR_IF|GRAPH_ERROR_IF)\(\) fails AT "
    r"(?P<file>[^\s:]*/)?(?P<name>[\w.]+):(?P<line>\d+) (?P<function>[^\n]*?): \((?P<rule>.*)\)$",
    re.MULTILINE,
)
_NODE: Final = re.compile(r"^Node type: (?P<type>\w+) ID: (?P<id>\d+)", re.MULTILINE)
_FATAL: Final = re.compile(r"^(?:FATAL ERROR|WARNING) AT .*?:\n(?P<text>.*)$", re.MULTILINE)
_TRACE: Final = re.compile(
    r"Evaluating node_(?P<id>\d+),\s*(?P<type>\w+), output tensor=(?P<output>.*)$", re.MULTILINE
)
_CREATE: Final = re.compile(r"Creating operator id_(?P<id>\d+),\s*(?P<type>\w+),", re.MULTILINE)
_LACKING: Final = re.compile(
    r"could not allocate op\s+(?P<what>\w+ .*?)(?:SubgraphTraverser|$)", re.M
)
_TENSOR: Final = re.compile(r"[Tt]ensor (?P<name>\S+) ")

#: The rule of an index: it lies within the dimension that it selects from.
_INDEX_RULE: Final = re.compile(r"k >= 0 && k < K")

#: Exit code of the program if the specification leaves the result unpredictable.
UNPREDICTABLE: Final = 1
#: Path of a block, the block, and an operator of it with its index.
_Place = tuple[str, Block, int, Operator]


def is_nameless(ended: Ended) -> bool:
    """Return whether the model refused the graph without naming the operator where it stopped."""
    return "validateGraph()" in ended.stderr and not _NODE.search(ended.stderr)


def explain(graph: Graph, ended: Ended, trace: str, index: int | None = None) -> Finding:
    """Return the refusal as a finding: operator, rule, shapes, and the model's own sentence."""
    text = ended.stderr
    check = _CHECK.search(text)
    if index is not None:
        path, block = next(graph.blocks())
        refused: _Place | None = (path, block, index, block.operators[index])
    else:
        refused = _refused_operator(graph, text, trace)
    where, shapes = "", ""
    if refused is not None:
        path, block, index, operator = refused
        where = operator_path(path, index, operator)
        if operator.location not in UNLOCATED:
            where = f"{operator.location}: {where}"
        shapes = f"; {signature(block, operator)}"
    sentence = _sentence(text, check)
    lacking = _LACKING.search(text)
    if lacking is not None:
        return Finding(
            "refmodel-refused",
            where,
            f"the reference model has no {lacking['what']}{shapes}",
            _remedy(refused)
            or "numpy computes it where TOSA defines it for these element types: --engine numpy",
        )
    if is_nameless(ended):
        return Finding(
            "refmodel-refused",
            where,
            "the reference model refuses it: shapes, element types or attributes do not fit one "
            f"another{shapes}",
            "it does not name the rule; see the operator's rules in the TOSA specification",
        )
    if check is not None:
        verdict = (
            "for this data the specification leaves the result unpredictable"
            if ended.code == UNPREDICTABLE
            else "the reference model refuses it"
        )
        message = f"{verdict}: {sentence or 'no reason given'}{shapes}"
        rule = f"{_rule(check)} ({check['name']}:{check['line']}){_index_hint(refused, check)}"
        remedy = hint_for("refmodel-refused", "", message)
        return Finding("refmodel-refused", where, message, "; ".join(filter(None, (rule, remedy))))
    if sentence:
        return Finding(
            "refmodel-refused", where, f"the reference model refuses it: {sentence}{shapes}"
        )
    tail = " / ".join(line for line in text.strip().splitlines()[-3:] if line.strip())
    return Finding(
        "refmodel-failed",
        where,
        f"the reference model ended with {describe_exit(ended.code)}: {tail or 'no message'}{shapes}",
    )


def _remedy(refused: _Place | None) -> str:
    """Return what repairs an operator that TOSA forbids, or ""."""
    if refused is None:
        return ""
    path, block, index, _ = refused
    findings = Validator(Graph(V1_1_DRAFT, [])).block(path, block)
    place = operator_path(path, index, block.operators[index])
    return next((row.hint for row in findings if row.where.endswith(place) and row.hint), "")


def _rule(check: re.Match[str]) -> str:
    forbidden = "ERROR_IF" in check[0]
    if check["rule"] == "true":
        return "rule"
    return f"rule: not {check['rule']}" if forbidden else f"rule: {check['rule']}"


def _index_hint(refused: _Place | None, check: re.Match[str]) -> str:
    """Return which indices an operator takes, and the inputs they come from, if one is out of range."""
    if refused is None or not _INDEX_RULE.search(check["rule"]):
        return ""
    _, block, _, operator = refused
    index = indexed(block, operator.spec, operator.inputs)
    if index is None:
        return ""
    text = f'; "{index.tensor}" has {counted(index.rows, "row")}: indices are 0 to {index.rows - 1}'
    given = [
        shlex.join(["--range", f"{name}=0:{index.rows - 1}"])
        for name in inputs_of(block, [operator.inputs[index.position]])
        if name in block.tensors and block.tensors[name].dtype.name.startswith("INT")
    ]
    return f"{text}; for random inputs: {' '.join(given)}" if given else text


def signature(block: Block, operator: Operator) -> str:
    """Return an operator's operands and results with their types and shapes, and its attributes."""
    count = len(operator.inputs)
    rows = [operator.spec.operand(i, count).name for i in range(count)]
    operands = ", ".join(
        f"{row} {_type(block, name)}" for row, name in zip(rows, operator.inputs, strict=True)
    )
    results = ", ".join(_type(block, name) for name in operator.outputs)
    attributes = ", ".join(
        f"{key}={list(value) if isinstance(value, tuple) else getattr(value, 'name', value)}"
        for key, value in operator.attributes.items()
        if not isinstance(value, bytes)
    )
    return f"({operands}) -> {results}" + (f" {{{attributes}}}" if attributes else "")


def _type(block: Block, name: str) -> str:
    value = block.tensors.get(name) or block.shapes.get(name)
    if value is None:
        return f'"{name}"'
    if isinstance(value, Tensor):
        shape = "unranked" if value.shape is None else list(value.shape)
        return f'"{name}" {value.dtype}{shape}'
    sizes = value.values()
    return f'"{name}" SHAPE{list(sizes) if sizes is not None else f"<{value.rank}>"}'


def _sentence(text: str, check: re.Match[str] | None) -> str:
    """Return the model's own words: the line after the failed check, or the first error."""
    if check is not None:
        rest = text[check.end() :].lstrip("\n").splitlines()
        line = rest[0].strip() if rest else ""
        stops = ("Node type:", "Graph result:", "WARNING AT", "FATAL")
        return "" if line.startswith(stops) else line
    fatal = _FATAL.search(text)
    return fatal["text"].strip() if fatal is not None else ""


def _refused_operator(graph: Graph, text: str, trace: str) -> _Place | None:
    """Find the operator that was refused, as far as the model's messages and its trace name it."""
    places = [
        (path, block, index, op)
        for path, block in graph.blocks()
        for index, op in enumerate(block.operators)
    ]

    def numbered(match: re.Match[str]) -> list[_Place]:
        """Return the operators with the number and type of a message; at most one in each block."""
        number, name = int(match["id"]), match["type"]
        return [p for p in places if p[2] == number and p[3].spec.encoded_as == name]

    node = _NODE.search(text)
    if node is not None and len(named := numbered(node)) == 1:
        return named[0]
    evaluated = list(_TRACE.finditer(trace))
    if evaluated:
        last = evaluated[-1]
        outputs = [name.strip() for name in last["output"].split(",")]
        for place in places:
            op = place[3]
            if op.spec.encoded_as == last["type"] and op.outputs and op.outputs[0] in outputs:
                return place
        if named := numbered(last):
            return named[0]
    # The model creates the operators of a block in order, and stops at one that it does not have.
    created = list(_CREATE.finditer(trace)) if _LACKING.search(text) else []
    if created and (named := numbered(created[-1])):
        return named[0]
    for match in _TENSOR.finditer(text):
        for place in places:
            if match["name"] in place[3].outputs:
                return place
    return None


#: The exit code of the model if a file would exceed the process's limit on file sizes.
_FILE_TOO_LARGE: Final = -getattr(signal, "SIGXFSZ", 0) or None


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
    inputs: Arrays,
    options: RunOptions = DEFAULT_RUN,
    variables: Mapping[str, Any] | None = None,
) -> Result:
    """Run a program, without intermediates.

    inputs: as `input_arrays` returns them. variables: initial states by name.
    A flatbuffer that needs no change is run as it is, not as this package would write it.
    """
    graph, given = program.graph, variables or {}
    runnable, states = with_final_states(with_variables(graph, given))
    written = [name for name in states.values() if name not in graph.main.outputs]
    if written:
        outputs = [*runnable.main.outputs, *dict.fromkeys(written)]
        runnable = with_main(runnable, replace(runnable.main, outputs=outputs))
    found = _computed(program, runnable, inputs, options)
    own = {slot.key for slot in output_slots(graph)}
    return Result(
        {key: array for key, array in found.outputs.items() if key in own},
        final_states(graph, states, found.outputs, given),
        {key: array for key, array in found.bounds.items() if key in own},
        seconds=found.seconds,
    )


def _computed(program: Program, runnable: Graph, inputs: Arrays, options: RunOptions) -> Computed:
    graph = program.graph
    endless = endless_logarithms(graph)
    if endless:
        raise TosaConvertError(endless)
    ins, outs = input_slots(graph), output_slots(runnable)
    if options.runs_on_numpy(graph):
        return compute(runnable, inputs, options)
    with scratch_folder() as folder:
        for slot in ins:
            save_npy(folder / file_name(ins, slot), slot, inputs[slot.key])
        unchanged = runnable is graph and not (unused_variables(graph) or needs_another_name(graph))
        if unchanged and program.flatbuffer is not None:
            try:
                (folder / "model.tosa").symlink_to(program.flatbuffer.resolve())
            except OSError:  # where links are not available
                write_scratch(folder / "model.tosa", [map_file(program.flatbuffer)])
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


def run_graph(graph: Graph, inputs: Arrays, options: RunOptions = DEFAULT_RUN) -> dict[str, Array]:
    """Compute the outputs of a graph whose inputs are given as `input_arrays` returns them."""
    return run_program(Program(graph), inputs, options).outputs


def run_in_folder(
    folder: Path, graph: Graph, inputs: Arrays, options: RunOptions = DEFAULT_RUN
) -> LazyArrays:
    """Run a graph in an empty folder; return its outputs, read from there on demand."""
    ins, outs = input_slots(graph), output_slots(graph)
    missing = [missing_input(slot) for slot in ins if slot.key not in inputs]
    if missing:
        raise TosaConvertError(missing)
    needless = [folder / "model.tosa"]
    for slot in ins:
        needless.append(folder / file_name(ins, slot))
        save_npy(needless[-1], slot, coerce(slot, inputs[slot.key]))
    if not options.runs_on_numpy(graph):
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


def write_model(graph: Graph, folder: Path) -> None:
    """Write the graph as `model.tosa`, in the form that the reference model runs."""
    (folder / "model.tosa").unlink(missing_ok=True)  # it may be a link to the user's own file
    findings = verify(graph)
    if findings:
        raise TosaConvertError(findings)
    runnable = with_name_of_main_block(without_unused_variables(graph))
    write_scratch(folder / "model.tosa", api.encode(runnable))


def execute(
    graph: Graph,
    folder: Path,
    options: RunOptions = DEFAULT_RUN,
    *,
    ins: list[str] | None = None,
    outs: list[str] | None = None,
) -> float:
    """Run `model.tosa` on `in<k>.npy` into `out<k>.npy`, all in `folder`; return seconds.

    numpy runs the graph, and needs no `model.tosa`. ins, outs: other file names for the graph's inputs
    and outputs, in order.
    """
    block = graph.main
    unique = list(dict.fromkeys(block.outputs))
    outs = outs or [f"out{unique.index(name)}.npy" for name in block.outputs]
    ins = ins or [f"in{i}.npy" for i in range(len(block.inputs))]
    if options.runs_on_numpy(graph):
        return execute_in_numpy(graph, folder, options, ins, outs)
    if lacking := [*lacking_findings(graph)]:
        raise TosaConvertError(lacking)
    reference_model_process.write_description(folder, block, ins, outs, with_bounds=options.bounds)
    is_precise = options.precise or options.bounds
    command = reference_model_process.command_of(graph, options.level, is_precise=is_precise)
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
    raise TosaConvertError(explain(graph, ended, _trace(folder, command, options.timeout)))


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
        files = [f"part{i}.npy" for i in range(len(outputs))]
        reference_model_process.write_description(folder, block, ins, files)
        return is_nameless(
            reference_model_process.run([*command, "--validate_only=1"], folder, timeout)
        )

    low, high = 1, len(main.operators)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_refused(middle) else (middle + 1, high)
    return low - 1 if is_refused(low) else None
