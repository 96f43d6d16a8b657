"""Compute outputs, and every tensor before them: `run`, `steps` and `iterate_tensors`.

numpy gives tensors one after another. For the reference model, those of a batch become outputs of a
graph of their own, cut at tensors of earlier batches that lie on disk in the model's own form until the
last operator that needs them. So nothing is computed twice, and memory holds one batch (in the child)
and one tensor (here).
"""

from __future__ import annotations

import fnmatch
import itertools
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.errors import TosaConvertError, fail, suggest
from tosa_convert.golden.arrays import (
    SCALE_SUFFIX,
    Array,
    Arrays,
    LazyArrays,
    OutputFolder,
    Slot,
    load_npy,
    npy_pieces,
    save_npy,
    scratch_folder,
    slot_file,
    slots,
)
from tosa_convert.golden.running.programs import (
    AS_IT_IS,
    as_graph,
    input_arrays,
    input_slots,
    load_program,
    reading,
    with_variables,
)
from tosa_convert.golden.running.run_graph import (
    Result,
    compute_steps,
    execute,
    run_graph,
    run_program,
    write_model,
)
from tosa_convert.golden.running.run_options import DEFAULT_RUN, TIMEOUT, Engine, Level, RunOptions
from tosa_convert.graph.derived import (
    computed_tensors,
    extract,
    extract_from,
    extract_region,
    last_uses,
    reachable,
    touches_variables,
    unused_name,
)
from tosa_convert.graph.model import Block, Graph, Operator, Tensor, operator_path, require_graphs
from tosa_convert.graph.opset import CONST, CONST_SHAPE
from tosa_convert.io.keywords import ReadKeywords, takes_keywords
from tosa_convert.io.options import ReadOptions
from tosa_convert.reference.call import Inside, Step

if TYPE_CHECKING:
    from typing_extensions import Unpack

# -- control flow taken apart: the branch that is taken and a loop's iterations, each as a graph ---
# Nothing in a region sees the block around it except through the operator's operands, so a branch
# is a graph whose inputs are known as soon as the operands are. A loop is its condition and its
# body in turn. Variables are the exception: what a region reads from them depends on everything
# that ran before.

#: Iterations of a loop that are run one by one unless the caller says otherwise.
ITERATIONS: Final = 16


@dataclass(frozen=True, slots=True)
class RegionRun:
    """Hold one run of a region.

    label: `then` or `else`; `cond[k]` or `body[k]` for iteration k of a loop. attribute: the operator's
        attribute that names the region.
    """

    label: str
    attribute: str
    graph: Graph
    inputs: dict[str, Array]


def why_not_runnable(graph: Graph, operator: Operator) -> str:
    """Return the reason why an operator's regions cannot be run separately, or ""."""
    if touches_variables(graph, operator):
        return "its regions use variables, whose state is not known there"
    for region in reachable(graph, [operator]):
        if len(region.blocks) != 1:
            return f'region "{region.name}" has {len(region.blocks)} blocks'
        inner = extract_region(graph, region.name)
        try:
            for name in (*inner.main.inputs, *inner.main.outputs):
                slots(inner.main, name)
        except TosaConvertError as error:
            return f'region "{region.name}": {error.findings[0]}'
    return ""


def region_runs(
    graph: Graph,
    index: int,
    values: Arrays,
    iterations: int = ITERATIONS,
    options: RunOptions = DEFAULT_RUN,
) -> Iterator[RegionRun]:
    """Iterate over the runs of regions that make up one run of an operator of the main block.

    There are none if the regions are not runnable. values: the arrays of its operands by key.
    iterations: of a loop, where to stop.
    """
    operator = graph.main.operators[index]
    if why_not_runnable(graph, operator):
        return
    regions = {row.name: str(operator.attributes[row.name]) for row in operator.spec.regions}
    if "then_graph" in regions:
        condition = _values_in_order(graph.main, operator.inputs[:1], values)
        taken = "then" if _is_true(condition[0][0]) else "else"
        state = _values_in_order(graph.main, operator.inputs[1:], values)
        yield _region_run(graph, regions, f"{taken}_graph", taken, state)
        return
    state = _values_in_order(graph.main, operator.inputs, values)
    for count in range(iterations):
        for part in ("cond", "body"):
            region = _region_run(graph, regions, f"{part}_graph", f"{part}[{count}]", state)
            yield region
            outputs = run_graph(region.graph, region.inputs, options)
            results = _values_in_order(region.graph.main, region.graph.main.outputs, outputs)
            if part == "body":
                state = results
            elif not _is_true(results[0][0]):
                return


def _region_run(
    graph: Graph, regions: Mapping[str, str], attribute: str, label: str, state: list[list[Array]]
) -> RegionRun:
    inner = extract_region(graph, regions[attribute])
    inputs: dict[str, Array] = {}
    for name, arrays in zip(inner.main.inputs, state, strict=True):
        for slot, array in zip(slots(inner.main, name), arrays, strict=True):
            inputs[slot.key] = array
    return RegionRun(label, attribute, inner, inputs)


def _values_in_order(
    block: Block, names: tuple[str, ...] | list[str], values: Arrays
) -> list[list[Array]]:
    """Return each tensor's arrays: one, or values and scales; those of constants are their data."""
    return [
        [
            values[slot.key] if slot.key in values else _constant(block, slot)
            for slot in slots(block, name)
        ]
        for name in names
    ]


def _constant(block: Block, slot: Slot) -> Array:
    value = block.tensors.get(slot.tensor) or block.shapes[slot.tensor]
    data = value.data
    if isinstance(value, Tensor) and slot.key != slot.tensor and value.scale is not None:
        data = value.scale.data
    if data is None:
        raise fail("input-mismatch", f'"{slot.key}"', "its value is not known")
    return data.numpy().reshape(slot.shape)


def _is_true(array: Array) -> bool:
    return bool(array.reshape(-1)[0])


#: Bytes of outputs in a batch unless the caller says otherwise.
BATCH_BYTES: Final = 256 << 20
#: Tensors in a batch: for each output that it writes, the model searches a list of all of them.
BATCH_TENSORS: Final = 256
#: Names of tensors in regions that are looked at before a run.
REGION_NAMES: Final = 100_000
_TURN: Final = re.compile(r"\[\d+\]")
#: Characters of a tensor's name that its file's name repeats, and bytes: systems take 255 in all.
_NAME_CHARACTERS: Final = 120
_NAME_BYTES: Final = 200


@dataclass(frozen=True, slots=True)
class Intermediate:
    """A tensor's arrays (values, and scales if it is block-scaled) and the operator that made it.

    name: inside a region, the region's label comes first, as in `y/body[2]/t`.
    """

    name: str
    arrays: dict[str, Array]
    index: int
    operator: str
    location: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Hold tensors that were computed in one run, as (operator's index, name).

    golden: their arrays by key, those of the graph's inputs, and of all earlier tensors that these
        tensors' operators take; read on demand, and only until the next batch is asked for.
    """

    tensors: list[tuple[int, str]]
    golden: LazyArrays
    nbytes: int


def select(graph: Graph, patterns: Sequence[str] = ("*",)) -> list[tuple[int, str]]:
    """Return the computed tensors that match a pattern, with their operators' indices, in order."""
    return _Selection(graph, patterns).main


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a pattern is the name or matches it; brackets may stand for themselves."""
    return any(
        fnmatch.fnmatchcase(name, text)
        for pattern in patterns
        for text in (pattern, pattern.replace("[", "[[]"))
    )


def tensors_in_runs(graph: Graph) -> list[tuple[int, str]]:
    """Return the tensors of regions by names such as `y/body[0]/t`, of loops the first iteration.

    Each comes with the index of the main block's operator. Regions inside of regions can have more names
    than memory holds: at most REGION_NAMES are returned.
    """
    regions = {region.name: region.blocks[0] for region in graph.regions if region.blocks}

    def names_in(index: int, op: Operator, place: Inside) -> Iterator[str]:
        for row in op.spec.regions:
            label = row.name.removesuffix("_graph")
            label += "[0]" if op.spec.name == "WHILE_LOOP" else ""
            inner, block = place.enter(index, op, label), regions[str(op.attributes[row.name])]
            for number, operator in enumerate(block.operators):
                yield from (inner.prefix + name for name in _results(block, operator))
                yield from names_in(number, operator, inner)

    rows = (
        (index, name)
        for index, op in enumerate(graph.main.operators)
        for name in names_in(index, op, Inside())
    )
    return list(itertools.islice(rows, REGION_NAMES))


def _results(block: Block, operator: Operator) -> list[str]:
    """Return the tensors that an operator computes, as `computed_tensors` counts them."""
    if operator.spec in (CONST, CONST_SHAPE):
        return []
    names = [name for name in operator.outputs if name in block.tensors]
    return [name for name in names if not block.tensors[name].variable]


class _Selection:
    """Select the tensors of a program that match a pattern.

    main: those of the main block that have to be computed, with their operators' indices. entered:
        operators of the main block in whose regions a tensor is selected.
    """

    def __init__(
        self,
        graph: Graph,
        patterns: Sequence[str],
        iterations: int = 0,
        *,
        with_whole_regions: bool = True,
    ) -> None:
        """Raise TosaConvertError("undefined-name") for a pattern that nothing matches.

        with_whole_regions: a pattern that matches a result selects all that its operator's regions
            compute.
        """
        computed = computed_tensors(graph)
        inner = tensors_in_runs(graph) if iterations else []
        self.patterns = patterns
        self.matching = {name for _, name in computed if matches(name, patterns)}
        first = [_TURN.sub("[0]", pattern) for pattern in patterns]
        whole = {index for index, name in computed if name in self.matching and with_whole_regions}
        self.entered = {index for index, name in inner if index in whole or matches(name, first)}
        self.main = [
            (index, name)
            for index, name in computed
            if name in self.matching or index in self.entered
        ]
        self._whole = whole
        names = [name for _, name in (*computed, *inner)]
        for pattern, at_first in zip(patterns, first, strict=True):
            if len(inner) < REGION_NAMES and not any(
                matches(n, (pattern, at_first)) for n in names
            ):
                raise fail(
                    "undefined-name",
                    f"pattern {pattern!r}",
                    f"none of the {len(names)} computed tensors matches it",
                    suggest(pattern, names),
                )

    def has_inner(self, index: int, name: str) -> bool:
        return index in self._whole or matches(name, self.patterns)


def iterate_tensors(
    graph: Graph,
    inputs: Mapping[str, Array],
    patterns: Sequence[str] = ("*",),
    options: RunOptions = DEFAULT_RUN,
    *,
    batch_bytes: int = BATCH_BYTES,
    iterations: int = 0,
) -> Iterator[Intermediate]:
    """Iterate over the selected tensors of the main block, in the order in which they are computed.

    numpy computes one operator after another, and drops each value after its last use. The reference
    model computes as many tensors in a run as `batch_bytes` holds.

    Args:
        graph: the program.
        inputs: an array for each input, in its type and shape.
        patterns: of names, such as `layer_1*`.
        options: how the program runs; `bounds` is not used.
        batch_bytes: bytes of tensors that one run of the reference model computes.
        iterations: if not 0, before the results of an operator with regions come tensors of the branch
            that is taken, or of the loop's first iterations, this many: all of them if a pattern matches
            a result, else those that one matches, such as `y/body[0]/t`. `not_collected` says where that
            is not possible.

    Raises:
        TosaConvertError: `undefined-name` for a pattern that nothing matches; else as `golden.run`.

    Example:
        >>> from tosa_convert import golden
        >>> graph = golden.generate(seed=2, operators=3, kinds=["ABS"])
        >>> inputs = golden.input_arrays(graph, None, random=1)
        >>> [tensor.operator for tensor in golden.iterate_tensors(graph, inputs)]
        ['operator #0 ABS', 'operator #1 ABS', 'operator #2 ABS']
    """
    require_graphs(graph)
    selection = _Selection(graph, patterns, iterations)
    yield from _iterate(graph, inputs, selection, options, batch_bytes, iterations)


def find_tensors(
    graph: Graph, inputs: Arrays, patterns: Sequence[str], options: RunOptions
) -> Iterator[Intermediate]:
    """Iterate over the tensors that match a pattern, in regions, too, of all iterations of loops."""
    require_graphs(graph)
    selection = _Selection(graph, patterns, sys.maxsize, with_whole_regions=False)
    missing = set(patterns)
    for tensor in _iterate(graph, inputs, selection, options, BATCH_BYTES, sys.maxsize):
        missing -= {pattern for pattern in missing if matches(tensor.name, [pattern])}
        yield tensor
    if missing:
        hint = (
            "the other branch ran, the loop ended before, or only --engine numpy runs such a region"
        )
        name = min(missing)
        raise fail("undefined-name", f"pattern {name!r}", "nothing that ran matches it", hint)


def _iterate(
    graph: Graph,
    inputs: Arrays,
    selection: _Selection,
    options: RunOptions,
    batch_bytes: int,
    iterations: int,
) -> Iterator[Intermediate]:
    if options.runs_on_numpy(graph):
        yield from _by_steps(graph, inputs, selection, options, iterations)
        return
    block = graph.main
    expanded: set[int] = set()
    for batch in batches(graph, inputs, selection.main, options, batch_bytes=batch_bytes):
        for index, name in batch.tensors:
            op = block.operators[index]
            if index in selection.entered - expanded and not options.precise:
                expanded.add(index)
                operands = _operands(graph, index, batch.golden, options)
                for tensor in _inside(graph, index, operands, options, batch_bytes, iterations):
                    if selection.has_inner(index, tensor.name):
                        yield tensor
            if name in selection.matching:
                arrays = {slot.key: batch.golden[slot.key] for slot in slots(block, name)}
                path = operator_path("", index, op).strip()
                yield Intermediate(name, arrays, index, path, op.location)


def _by_steps(
    graph: Graph, inputs: Arrays, selection: _Selection, options: RunOptions, iterations: int
) -> Iterator[Intermediate]:
    """Iterate over tensors while numpy computes the program, up to the last one."""
    index = 0  # of the main block's operator; what its regions compute comes before its results
    last = max((index for index, _ in selection.main), default=-1)
    for step in compute_steps(graph, inputs, options):
        inside = step.inside
        is_inner = bool(inside.path)
        if is_inner and (
            index not in selection.entered or max(inside.turns, default=0) >= iterations
        ):
            continue
        for name in _results(step.block, step.operator):
            key = inside.prefix + name
            if selection.has_inner(index, key) if is_inner else name in selection.matching:
                path = operator_path(inside.path, step.index, step.operator).strip()
                keys = [k for k in (name, name + SCALE_SUFFIX) if k in step.results]
                arrays = {inside.prefix + k: step.results[k] for k in keys}
                yield Intermediate(key, arrays, index, path, step.operator.location)
        if not is_inner:
            index = step.index + 1
            if step.index >= last:
                return
        del step  # nothing else may hold its values


def _inside(
    graph: Graph,
    index: int,
    operands: Arrays,
    options: RunOptions,
    batch_bytes: int,
    iterations: int,
) -> Iterator[Intermediate]:
    """Iterate over the tensors that the reference model computes in the regions of an operator."""
    op = graph.main.operators[index]
    for region in region_runs(graph, index, operands, iterations, options):
        place = Inside().enter(index, op, region.label)
        if not computed_tensors(region.graph):
            continue
        tensors = iterate_tensors(
            region.graph,
            region.inputs,
            options=options,
            batch_bytes=batch_bytes,
            iterations=iterations,
        )
        for tensor in tensors:
            arrays = {place.prefix + key: array for key, array in tensor.arrays.items()}
            path = f"{place.path} {tensor.operator}"
            yield Intermediate(place.prefix + tensor.name, arrays, index, path, tensor.location)


def _operands(graph: Graph, index: int, values: Arrays, options: RunOptions) -> Arrays:
    """Return values for an operator's operands, where the patterns left some out."""
    block = graph.main
    names = {name for _, name in computed_tensors(graph)}
    missing = [
        name
        for name in dict.fromkeys(block.operators[index].inputs)
        if name in names and any(slot.key not in values for slot in slots(block, name))
    ]
    if not missing:
        return values
    part = extract(graph, missing)
    given = {slot.key: values[slot.key] for slot in input_slots(part)}
    return {**values, **run_graph(part, given, options)}


def batches(
    graph: Graph,
    inputs: Arrays,
    wanted: list[tuple[int, str]],
    options: RunOptions = DEFAULT_RUN,
    *,
    batch_bytes: int = BATCH_BYTES,
) -> Iterator[Batch]:
    """Iterate over the wanted tensors, as `select` returns them, computed `batch_bytes` at a time."""
    block = graph.main
    last_use = last_uses(block)
    with scratch_folder() as folder:
        stems: dict[str, str] = {}  # tensor -> its file's stem, for tensors that can be cut at
        for name in block.inputs:
            stem = f"t{len(stems)}"
            for slot in slots(block, name):
                save_npy(folder / slot_file(stem, slot), slot, inputs[slot.key])
            stems[name] = stem
        count = len(stems)
        for batch, nbytes in _split(graph, wanted, batch_bytes):
            names = [name for _, name in batch]
            # In precise mode values are not in the tensors' own types and cannot be fed back.
            cuts = [] if options.precise else [name for name in stems if name not in block.inputs]
            part = extract_from(graph, names, cuts)
            outs = [f"t{count + i}" for i in range(len(names))]
            count += len(names)
            if not options.uses_numpy:
                write_model(part, folder)
            execute(
                part,
                folder,
                options,
                ins=[f"{stems[name]}.npy" for name in part.main.inputs],
                outs=[f"{stem}.npy" for stem in outs],
            )
            stems.update(zip(names, outs, strict=True))
            yield Batch(batch, _golden_arrays(graph, folder, stems, inputs), nbytes)
            done = batch[-1][0]
            for name in [n for n in stems if last_use.get(n, -1) <= done and n not in block.inputs]:
                for slot in slots(block, name):
                    (folder / slot_file(stems[name], slot)).unlink()
                del stems[name]


def _golden_arrays(graph: Graph, folder: Path, stems: dict[str, str], inputs: Arrays) -> LazyArrays:
    files = {
        slot.key: (slot, folder / slot_file(stem, slot))
        for name, stem in stems.items()
        if name not in graph.main.inputs
        for slot in slots(graph.main, name)
    }

    def read(key: str) -> Array:
        if key in inputs:
            return inputs[key]
        slot, path = files[key]
        return load_npy(path, slot)

    return LazyArrays((*inputs, *files), read)


def _split(
    graph: Graph, wanted: list[tuple[int, str]], limit: int
) -> Iterator[tuple[list[tuple[int, str]], int]]:
    """Split the tensors into groups of at most `limit` bytes, where single tensors allow it."""
    batch: list[tuple[int, str]] = []
    size = 0
    for index, name in wanted:
        nbytes = sum(slot.nbytes for slot in slots(graph.main, name))
        is_full = size + nbytes > limit or len(batch) >= BATCH_TENSORS
        if batch and is_full and batch[-1][0] != index:  # an operator's results stay together
            yield batch, size
            batch, size = [], 0
        batch.append((index, name))
        size += nbytes
    if batch:
        yield batch, size


def safe_file_name(name: str, taken: set[str]) -> str:
    """Return a file name for a tensor's array: its own name where that is safe, made unique."""
    safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in name).strip(".") or "tensor"
    safe = safe[:_NAME_CHARACTERS].encode()[:_NAME_BYTES].decode(errors="ignore")
    unused = unused_name(safe, taken, separator=".", fold=str.lower)
    taken.add(unused.lower())
    return unused


def not_collected(
    graph: Graph, iterations: int = 0, options: RunOptions = DEFAULT_RUN
) -> list[dict[str, object]]:
    """Return a row, with the reason, for each operator whose regions `iterate_tensors` leaves out."""
    rows: list[dict[str, object]] = []
    for index, op in enumerate(graph.main.operators):
        if not op.spec.regions:
            continue
        reason = "" if options.uses_numpy else why_not_runnable(graph, op)
        if options.precise and not options.uses_numpy:
            reason = "a run of the reference model in FP64 cannot be cut at a region"
        if not iterations:
            reason = reason or "regions were not asked for"
        elif op.spec.name == "WHILE_LOOP":
            reason = reason or f"the loop's first {iterations} iterations at most"
        if reason:
            rows.append(
                {
                    "operator": operator_path("", index, op).strip(),
                    "location": op.location,
                    "reason": reason,
                    "tensors": {
                        own.name: [n for _, n in computed_tensors(extract_region(graph, own.name))]
                        for own in reachable(graph, [op])
                    },
                }
            )
    return rows


def save_to_folder(
    tensors: Iterator[Intermediate], folder: Path, missing: Sequence[Mapping[str, object]] = ()
) -> list[dict[str, object]]:
    """Write each array as an `.npy` and `manifest.json` with operators and locations."""
    rows: list[dict[str, object]] = []
    taken: set[str] = set()
    with OutputFolder(folder) as target:
        for tensor in tensors:
            for key, array in tensor.arrays.items():
                file = safe_file_name(key, taken) + ".npy"
                target.write(file, npy_pieces(array))
                rows.append(
                    {
                        "name": key,
                        "file": file,
                        "dtype": str(array.dtype),
                        "shape": list(array.shape),
                        "operator": tensor.operator,
                        "location": tensor.location,
                    }
                )
        manifest = {"tensors": rows, "not_collected": list(missing)}
        target.write("manifest.json", [json.dumps(manifest, indent=1).encode() + b"\n"])
    return rows


# -- the public functions `run` and `steps` --------------------------------------------------------


@takes_keywords(ReadKeywords)
def run(
    program: Any,
    inputs: Mapping[str, Any] | None = None,
    options: RunOptions = DEFAULT_RUN,
    *,
    variables: Mapping[str, Any] | None = None,
    intermediates: str | Sequence[str] | None = None,
    random: int | None = None,
    precise: bool = False,
    bounds: bool = False,
    level: Level = "none",
    timeout: float = TIMEOUT,
    engine: Engine = "auto",
    read: ReadOptions = AS_IT_IS,
    **reading_options: Unpack[ReadKeywords],
) -> Result:
    """Run a program on the TOSA reference model, or on numpy.

    Further keywords are those of `tosa_convert.load`: how a file or module is read, such as
    `func="main"`, or `input_shapes={"x": (1, 4)}` for arguments with dynamic dimensions.

    Args:
        program: a Graph, a module of any MLIR bindings, bytes, or a path to anything that
            `tosa_convert.load` reads.
        inputs: an array for each input, by name, in exactly its element type and shape. A
            block-scaled input `x` takes two arrays, `x` and `x/scale`.
        options: the options of the run as a value, in place of the following five keywords.
        variables: initial states by name; the others start as the program says.
        intermediates: a pattern such as `"*"`, or several such as `["layer_1*"]`, for tensors of
            the main block that the result holds as well.
        random: a seed, 0 or more, for inputs that are not given.
        precise: compute floating point in FP64.
        bounds: compute the tensors that TOSA's accuracy rules are made from, too.
        level: "none" or "8k", the limits on sizes that are checked.
        timeout: seconds for one run.
        engine: what computes the answer: "reference-model", "numpy", or "auto", as the options say, and
            otherwise the reference model if it is installed, else numpy.
        read: how to read a file or module, as a value.

    Returns:
        The outputs, the state of variables, and what else the options ask for, as numpy arrays.

    Raises:
        TosaConvertError: `input-mismatch` before anything runs, `unsupported-shape` for a shape
            that is not static, `refmodel-refused` naming the operator, the rule and the shapes,
            `refmodel-failed`, `refmodel-timeout`, `missing-refmodel`, `undefined-name` for a
            pattern that nothing matches, `option-conflict` for an engine other than that of the
            options, `file-error` if the temporary folder cannot be written.

    Example:
        >>> from tosa_convert import golden
        >>> graph = golden.generate(seed=2, operators=3, kinds=["ABS"])
        >>> result = golden.run(graph, random=1)
        >>> sorted(result.outputs) == sorted(graph.main.outputs)
        True
    """
    flat = {"precise": precise, "bounds": bounds, "level": level, "timeout": timeout}
    options = options.with_keywords(engine=engine, **flat)
    loaded = load_program(program, reading(read, reading_options))
    arrays = input_arrays(loaded.graph, inputs, random)
    collected: dict[str, Array] = {}
    if intermediates is not None:
        patterns = [intermediates] if isinstance(intermediates, str) else list(intermediates)
        graph = with_variables(loaded.graph, variables or {})
        for tensor in iterate_tensors(graph, arrays, patterns, options):
            collected.update(tensor.arrays)
    return replace(run_program(loaded, arrays, options, variables), intermediates=collected)


@takes_keywords(ReadKeywords)
def steps(
    program: Any,
    inputs: Mapping[str, Any] | None = None,
    options: RunOptions = DEFAULT_RUN,
    *,
    variables: Mapping[str, Any] | None = None,
    random: int | None = None,
    precise: bool = False,
    level: Level = "none",
    timeout: float = TIMEOUT,
    read: ReadOptions = AS_IT_IS,
    **reading_options: Unpack[ReadKeywords],
) -> Iterator[Step]:
    """Run a program on numpy, and stop after each operator, also inside of regions.

    The operators are those that run, in their order: the branch that is taken, every iteration of a
    loop. Constants are not among them. A value is dropped after its last use, so keep the arrays that
    you need, not the steps.

    Further keywords are those of `tosa_convert.load`: how a file or module is read.

    Args:
        program: anything that `golden.run` takes.
        inputs: an array for each input, by name, in exactly its element type and shape.
        options: `precise`, `level`, `timeout` and `progress` apply; time between steps does not count.
        variables: initial states by name; the others start as the program says.
        random: a seed, 0 or more, for inputs that are not given.
        precise: compute floating point in FP64.
        level: "none" or "8k", the limits on sizes that are checked.
        timeout: seconds for the run.
        read: how to read a file or module, as a value.

    Returns:
        An iterator. Each step has the `operator`, and its `operands` and `results` as arrays by name.

    Raises:
        TosaConvertError: as `golden.run`; `option-conflict` for the engine "reference-model".

    Example:
        >>> from tosa_convert import golden
        >>> graph = golden.generate(seed=2, operators=3, kinds=["ABS"])
        >>> for step in golden.steps(graph, random=1):
        ...     (result,) = step.results.values()
        ...     print(step.operator.spec.name, len(step.operands), bool((result >= 0).all()))
        ABS 1 True
        ABS 1 True
        ABS 1 True
    """
    options = options.with_keywords(precise=precise, level=level, timeout=timeout)
    if options.engine == "reference-model":
        raise fail("option-conflict", "engine", "the reference model does not stop at operators")
    graph = with_variables(as_graph(program, read, reading_options), variables or {})
    for step in compute_steps(graph, input_arrays(graph, inputs, random), options):
        if step.operator.spec not in (CONST, CONST_SHAPE):
            yield step
