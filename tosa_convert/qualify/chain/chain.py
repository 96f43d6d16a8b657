"""Run a model's forms, from the float model to the device, and find where an error comes in: `chain`."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from tosa_convert.errors import TosaConvertError, fail, printable
from tosa_convert.frontends.table import frontend, recognize
from tosa_convert.golden.accuracy.comparison import TensorComparison, compare_tensor
from tosa_convert.golden.accuracy.criteria import NO_TOLERANCES, Tolerances
from tosa_convert.golden.arrays import (
    Array,
    Arrays,
    LazyArrays,
    StoredArrays,
    match,
    scratch_folder,
    subfolder,
    write_scratch,
)
from tosa_convert.golden.backends.process import KeptWorkers, Machine, run_worker
from tosa_convert.golden.backends.recorded_tensors import (
    Recorded,
    Source,
    recorded,
    recovered,
    steps_of_model,
    tensors_of,
    with_results,
)
from tosa_convert.golden.backends.runners import (
    WITH_STATES,
    Backend,
    Record,
    as_backend,
    backend_on,
)
from tosa_convert.golden.checking.check import Reference, backend_outputs
from tosa_convert.golden.running.programs import (
    AS_IT_IS,
    Program,
    as_graph,
    input_arrays,
    input_slots,
    output_slots,
    variables_of,
    with_variables,
)
from tosa_convert.golden.running.run import iterate_tensors
from tosa_convert.golden.running.run_graph import run_program
from tosa_convert.golden.running.run_options import TIMEOUT, Engine, RunOptions
from tosa_convert.graph.dtypes import INT8, INT16
from tosa_convert.graph.model import UNLOCATED, Graph, counted
from tosa_convert.graph.shown import Shown, json_value, table
from tosa_convert.io.formats import EXTENSIONS
from tosa_convert.io.options import ReadOptions
from tosa_convert.qualify.bisection.bisect import bisect
from tosa_convert.qualify.bisection.judge_operators import Bisection
from tosa_convert.qualify.chain.matched import Cell, Row, Table
from tosa_convert.qualify.chain.quantised import judge_models

#: The shares of the samples of a data set whose errors are stated.
QUANTILES: Final = (0.5, 0.9, 1.0)
#: The numbers of a cell, and the heads of their columns.
_NUMBERS: Final = {"first": "from first", "before": "from before", "share": "of bound", "snr": "dB"}


@dataclass(frozen=True, slots=True)
class Link:
    """Hold a step from one source to the next, and whether the step explains its error.

    tensor: the first one whose error is larger; "" if none is. operators: what may be at fault, as
        `bisect` names it. reason: why. run: the sample or the call.
    """

    before: str
    after: str
    ok: bool
    tensor: str = ""
    operators: tuple[str, ...] = ()
    reason: str = ""
    run: str = ""
    detail: Bisection | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        head = f"{printable(self.before)} -> {printable(self.after)}: "
        if self.ok:
            return f"ok   {head}{self.reason}"
        where = f"{self.run}: " if self.run else ""
        text = f"FAIL {head}{where}{printable(self.tensor)}: {self.reason}"
        return text + "".join(f"\n       {printable(row)}" for row in self.operators)


@dataclass(frozen=True, slots=True)
class Chain(Shown):
    """The sources of a chain, compared tensor by tensor, in the order of operators."""

    sources: tuple[str, ...]
    rows: tuple[Row, ...]
    links: tuple[Link, ...]
    notes: tuple[str, ...] = ()
    perplexity: Mapping[str, float] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Return whether something was compared, and each link explains its error."""
        return bool(self.rows) and all(link.ok for link in self.links)

    @property
    def first(self) -> Link | None:
        """Return the first link whose error is larger than its step explains."""
        return next((link for link in self.links if not link.ok), None)

    def __str__(self) -> str:
        later = self.sources[1:]
        head = ["tensor", "operator", *(f"{s}: {t}" for s in later for t in _NUMBERS.values())]
        rows = []
        for row in self.rows:
            cells = [row.cells.get(source) for source in later]
            texts = [cell.text(n) if cell else "" for cell in cells for n in _NUMBERS]
            rows.append([printable(row.name), row.operator.removeprefix("operator "), *texts])
        lines = table(head, rows) if rows else ["FAIL nothing was compared"]
        lines += ["", *map(str, self.links), *(f"note: {n}" for n in self.notes)]
        if self.perplexity:
            values = (f"{printable(name)} {value:.5g}" for name, value in self.perplexity.items())
            lines.append(f"perplexity: {', '.join(values)}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the arrays, as JSON values."""
        names = ("before", "after", "ok", "tensor", "operators", "reason", "run")
        found = {"ok": self.ok, **Shown.to_dict(self)}
        found["chain"] = found.pop("rows")
        links = [{name: json_value(getattr(link, name)) for name in names} for link in self.links]
        return {**found, "links": links}


def link_of_bisection(
    before: str, after: str, found: Bisection, run: str, *, may_add_up: bool
) -> Link:
    """Return the verdict that `bisect` has on a link, where errors of right operators may add up."""
    outputs = found.outputs
    adds_up = found.first is not None and found.first.kind == "within-rules"
    if found.ok or (may_add_up and adds_up):
        text = f"{counted(found.compared, 'tensor')} judged, each by itself"
        return Link(before, after, True, reason=text, run=run, detail=found)
    if found.first is None:
        failures = [] if outputs is None else [row.name for row in outputs.failures]
        missing = () if outputs is None else outputs.missing
        name = next(iter((*failures, *missing)), "")
        reason = "more than honest implementations differ" if name else "nothing was compared"
        return Link(before, after, not name, name, (), reason, run, detail=found)
    wrong = [row.name for row in found.first.case.comparison.failures]
    operators = [
        f"{path} {place if place not in UNLOCATED else ''}".rstrip()
        for _, path, place, _ in found.first.operators
    ]
    reason = {"within-rules": "the errors of these operators add up"}.get(
        found.first.kind, "it does not follow from what is before it"
    )
    return Link(
        before, after, False, (wrong or [""])[0], tuple(operators), reason, run, detail=found
    )


def of_samples(chains: Sequence[Chain]) -> Chain:
    """Join the chains of several samples: of each tensor the worst, and quantiles."""
    first = chains[0]
    if len(chains) == 1:
        return first
    rows = []
    for row in first.rows:
        others = [one for c in chains for one in c.rows if one.name == row.name]
        cells = {
            source: cell
            and _worst([own for one in others if (own := one.cells.get(source)) is not None])
            for source, cell in row.cells.items()
        }
        rows.append(Row(row.name, row.operator, row.location, row.shape, cells))
    note = f"the numbers are those of the worst of {len(chains)} samples"
    return Chain(first.sources, tuple(rows), _first_failures(chains), (note,))


def _first_failures(chains: Sequence[Chain]) -> tuple[Link, ...]:
    rows = zip(*(one.links for one in chains), strict=True)
    return tuple(next((link for link in row if not link.ok), row[0]) for row in rows)


def _worst(cells: Sequence[Cell]) -> Cell:
    sizes = sorted(cell.before for cell in cells)
    places = [min(len(sizes) - 1, math.ceil(q * len(sizes)) - 1) for q in QUANTILES]
    shares = [cell.share for cell in cells if cell.share is not None]
    return Cell(
        max(cell.first for cell in cells),
        sizes[-1],
        min(cell.snr for cell in cells),
        max(shares, default=None),
        tuple(sizes[place] for place in places),
    )


def in_a_row(chains: Sequence[Chain]) -> Chain:
    """Join the chains of calls in a row: the tensors of one after those of another."""
    first = chains[0]
    rows = (
        replace(row, name=f"{row.name} (call {k})")
        for k, one in enumerate(chains)
        for row in one.rows
    )
    return Chain(first.sources, tuple(rows), _first_failures(chains))


#: How far an integer that a framework quantised may be from the program's: both round.
_STEPS: Final = 1.0
#: What runs the models of frameworks that may be sources.
_SOFTWARE: Final = ("torch", "onnxruntime", "tflite", "jax")


def chain(
    sources: Mapping[str, Any],
    inputs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    *,
    random: int | None = None,
    calls: bool = False,
    perplexity: str = "",
    tolerances: Tolerances = NO_TOLERANCES,
    timeout: float = TIMEOUT,
    engine: Engine = "auto",
    python: str = "",
    read: ReadOptions = AS_IT_IS,
) -> Chain:
    """Run a model's forms, from the float model to the device, and find where an error comes in.

    Each source runs once on the same inputs. Tensors that several of them have are compared, and each
    link is judged by the error that honest implementations have there: between models of a framework by
    the scales of what is quantised before the tensor, elsewhere as `check` and `bisect` judge.

    Args:
        sources: a source by the name that the table gives it, in order: a model that a frontend
            recognises, such as `model.py:make`; a program as `golden.run` takes it; what `check` takes
            as `against`, which runs the program before it; arrays by tensor; or a source that has run.
        inputs: an array for each input of the programs, by name; several such, for several samples.
        random: a seed, 0 or more, for inputs that are not given.
        calls: the samples are calls in a row: variables of programs, and buffers of modules of torch,
            keep their states.
        perplexity: the input with the tokens of a text, of which the first output predicts the next.
        tolerances: for tensors by name, instead of the rules.
        timeout: seconds for one run.
        engine: what computes the programs; see `RunOptions`.
        python: the Python that has the frameworks' packages; by default this one.
        read: how to read programs.

    Returns:
        The table, and the verdict on each link.

    Raises:
        TosaConvertError: as `golden.check`; `option-conflict` for fewer than two sources, and for one
            that needs a program before it.

    Example:
        >>> from tosa_convert import golden
        >>> graph = golden.generate(seed=2, operators=3, kinds=["ABS"])
        >>> right = golden.run(graph, random=1, intermediates="*").intermediates
        >>> name = graph.main.operators[1].outputs[0]
        >>> wrong = {**right, name: right[name] + 1}
        >>> found = golden.chain({"tosa": graph, "device": wrong}, random=1)
        >>> found.first.after, found.first.operators[0][:15]
        ('device', 'operator #1 ABS')
    """
    if len(sources) < 2:
        raise fail("option-conflict", "chain", "found fewer than two sources", "give NAME=SOURCE")
    machine = Machine(python or sys.executable, timeout, KeptWorkers())
    options = RunOptions(timeout=timeout, engine=engine)
    opened = [_opened(name, source, read) for name, source in sources.items()]
    graph = next((one.graph for one in opened if one.graph is not None), None)
    given = inputs if isinstance(inputs, Sequence) else [inputs or {}]
    if calls:
        opened = [_run_in_a_row(one, given, machine) for one in opened]
    found: list[Chain] = []
    text = _Text(perplexity, calls)
    for number, arrays in enumerate(given):
        own = dict(arrays)
        if graph is not None and set(arrays) != {*graph.main.inputs}:
            own = input_arrays(graph, arrays, random)
        run = f"{'call' if calls else 'sample'} {number}" if len(given) > 1 else ""
        with scratch_folder() as folder:
            work = _Work(own, options, machine, tolerances, folder, run, number)
            found.append(work.chain(opened, text))
            if calls:
                states = work.states
                opened = [replace(one, states=states.get(one.name, {})) for one in opened]
    joined = in_a_row(found) if calls else of_samples(found)
    values = text.perplexity()
    without = [one.name for one in opened if perplexity and one.name not in values]
    notes = [f"{name}: no perplexity: it has no logits for each of the tokens" for name in without]
    return replace(joined, perplexity=values, notes=(*joined.notes, *notes))


@dataclass(frozen=True, slots=True)
class _Opened:
    """Hold a source before it runs.

    graph: of a program. software: what runs a framework's model. states: with which it begins. calls:
        the results and the steps of a framework's model in each of several calls in a row.
    """

    name: str
    source: Any
    graph: Graph | None = None
    software: str = ""
    states: Arrays = field(default_factory=dict)
    calls: Sequence[tuple[list[Array], list[Recorded]]] = ()


@dataclass(slots=True)
class _Text:
    """Hold the tokens of a text, and what each source says of the next one.

    name: the input with the tokens; "" without perplexity. in_a_row: all calls are of one text. logits:
        by source, a row for each token.
    """

    name: str
    in_a_row: bool
    tokens: list[Array] = field(default_factory=list)
    logits: dict[str, list[Array]] = field(default_factory=dict)

    def add(self, inputs: Arrays, table: Table) -> None:
        """Keep the tokens of a call, and the first result of each source for them."""
        if not self.name:
            return
        array = np.asarray(inputs.get(self.name))
        if array.dtype.kind not in "iu":
            found = f"it has {array.dtype}" if self.name in inputs else f"found {', '.join(inputs)}"
            message = f"expected an input {self.name!r} of integers, {found}"
            raise fail("option-conflict", "perplexity", message, "name the input with the tokens")
        self.tokens.append(array.reshape(-1))
        key = table.program.main.outputs[0] if table.program is not None else "output 0"
        for source in table.sources:
            row = next((row for row in source.tensors if row.name == key and row.has_numbers), None)
            if row is not None and row.shape[-1:] and math.prod(row.shape[:-1]) == array.size:
                rows = row.numbers().reshape(array.size, row.shape[-1])
                self.logits.setdefault(source.name, []).append(rows)

    def perplexity(self) -> dict[str, float]:
        """Return by source the exponential of the mean surprise at a token, in nats."""
        found = {}
        for name, rows in self.logits.items():
            is_whole = len(rows) == len(self.tokens)
            texts = list(zip(self.tokens, rows, strict=True)) if is_whole else []
            if self.in_a_row and texts:
                texts = [(np.concatenate(self.tokens), np.concatenate(rows))]
            sure = [_log_probabilities(row[:-1], tokens[1:]) for tokens, row in texts]
            if sum(map(len, sure)):
                found[name] = float(np.exp(-np.concatenate(sure).mean()))
        if self.name and not found:
            message = f"the first output has no logits for each of two or more {self.name}"
            raise fail("option-conflict", "perplexity", message, "name the input with the tokens")
        return found


def _log_probabilities(logits: Array, tokens: Array) -> Array:
    """Return how probable each token is. logits: a row of the vocabulary for each token."""
    if not 0 <= tokens.min(initial=0) <= tokens.max(initial=0) < logits.shape[1]:
        message = f"found the token {tokens.max()}, expected less than {logits.shape[1]}"
        raise fail("option-conflict", "perplexity", message, "give tokens of the vocabulary")
    rows = logits - logits.max(axis=1, keepdims=True)
    found: Array = rows[np.arange(len(rows)), tokens] - np.log(np.exp(rows).sum(axis=1))
    return found


def _run_in_a_row(one: _Opened, calls: Sequence[Arrays], machine: Machine) -> _Opened:
    """Run a framework's model that keeps states; others take each call by itself."""
    if one.software not in WITH_STATES:
        return one
    with scratch_folder() as folder:
        write_scratch(folder / "watched", [b""])
        write_scratch(
            folder / "calls.json", [json.dumps({"calls": len(calls), "states": []}).encode()]
        )
        given = [array for inputs in calls for array in inputs.values()]
        outputs, steps = run_worker(machine, one.software, str(one.source), given, folder)
        results = [np.array(read()) for read in outputs]
        # Only torch has the steps of each call.
        arrays = [np.array(read()) for read in steps] if one.software == "torch" else []
        made = steps_of_model(folder, [partial(np.asarray, array) for array in arrays])
    parts = [len(rows) // len(calls) for rows in (results, made)]
    found = [
        (results[k * parts[0] : (k + 1) * parts[0]], made[k * parts[1] : (k + 1) * parts[1]])
        for k in range(len(calls))
    ]
    return replace(one, calls=found)


def _opened(name: str, source: Any, read: ReadOptions) -> _Opened:
    if isinstance(source, Source):
        return _Opened(name, source, source.graph)
    if isinstance(source, str) and (model := recognize(source)) is not None:
        software = frontend(model.frontend).runtime
        if model.library or software not in _SOFTWARE:
            message = f"models for {model.frontend} cannot be run here"
            raise fail("option-conflict", source, message, "convert it, and give the program")
        path = f"{model.path}:{model.member}" if model.member else model.path
        return _Opened(name, path, software=software)
    is_path = isinstance(source, (str, os.PathLike))
    is_backend = isinstance(source, (Mapping, Record)) or hasattr(source, "compute")
    if is_path and not (os.path.isfile(source) and str(source).endswith(tuple(EXTENSIONS))):
        is_backend = True
    return _Opened(name, source, None if is_backend else as_graph(source, read))


@dataclass(slots=True)
class _Work:
    """Run the sources on one sample, and judge the links.

    given: the inputs as the last program takes them. states: of programs after the run. number: of the
        sample.
    """

    inputs: dict[str, Array]
    options: RunOptions
    machine: Machine
    tolerances: Tolerances
    folder: Path
    run: str
    number: int = 0
    states: dict[str, Arrays] = field(default_factory=dict)
    given: Arrays = field(default_factory=dict)

    def chain(self, opened: Sequence[_Opened], text: _Text) -> Chain:
        """Run all sources, match their tensors, and judge the links."""
        names = [one.name for one in opened]
        programs = [one.graph and with_variables(one.graph, one.states) for one in opened]
        links: list[Link] = []
        shares: dict[str, Mapping[str, float | None]] = {}
        table = Table()
        for number, one in enumerate(opened):
            graph, backend = programs[number], None
            folder = subfolder(self.folder, f"source{number}")
            if graph is not None:
                self.given = _as_integers(graph, self.inputs, table)
                source = self._of_program(one.name, graph, folder)
            elif isinstance(one.source, Source):
                source = replace(one.source, name=one.name)
            elif one.software:
                after = next(filter(None, programs[number:]), None)
                source = self._of_model(one, after or table.program, folder)
            else:
                source, backend = self._of_backend(one, table.program, folder)
            table.add(source)
            if number:
                states = {} if graph is None else opened[number - 1].states
                shares[one.name], link = self._link(table, backend, states)
                links.append(link)
        text.add(self.inputs, table)
        shown = [replace(link, tensor=table.name_of(link.after, link.tensor)) for link in links]
        return Chain(tuple(names), tuple(table.rows(shares)), tuple(shown))

    def _of_program(self, name: str, graph: Graph, folder: Path) -> Source:
        stored = StoredArrays(folder)
        for tensor in iterate_tensors(graph, self.given, ("*",), self.options):
            for key, array in tensor.arrays.items():
                stored.store(key, array)
        if variables_of(graph):
            self.states[name] = run_program(Program(graph), self.given, self.options).variables
        return Source(name, tuple(tensors_of(graph, stored.__getitem__)), graph)

    def _of_model(self, one: _Opened, names: Graph | None, folder: Path) -> Source:
        """Run a framework's model. Its results have the names of the program that is made of it."""
        if one.calls:
            results, made = one.calls[self.number]
            outputs: list[Callable[..., Array]] = [partial(np.asarray, array) for array in results]
        else:
            write_scratch(folder / "watched", [b""])
            given = [*self.inputs.values()]
            outputs, steps = run_worker(self.machine, one.software, one.source, given, folder)
            made = steps_of_model(folder, steps)
        keys = [slot.key for slot in output_slots(names)] if names is not None else []
        if len(keys) != len(outputs):
            keys = [f"output {number}" for number in range(len(outputs))]
        pairs = zip(keys, outputs, strict=True)
        found = [_before_dequantised(recorded(*pair), made, names) for pair in pairs]
        return Source(one.name, with_results(made, found))

    def _of_backend(
        self, one: _Opened, program: Graph | None, folder: Path
    ) -> tuple[Source, Backend]:
        """Run a backend on the program before it, or read the results that it recorded."""
        if program is None:
            message = "there is no program before it for it to run"
            hint = "name a program before it, such as tosa=m.tosa"
            raise fail("option-conflict", f"{one.name}={one.source}", message, hint)
        if isinstance(one.source, str):
            backend: Backend = backend_on(self.machine, one.source, program, self.given)
        else:
            backend = as_backend(one.source, program, self.given, self.options.timeout)
        arrays: Arrays
        if isinstance(backend, Record):
            arrays = backend.arrays
        else:
            arrays = backend_outputs(program, self.given, backend, folder)
        order = [name for op in program.main.operators for name in op.outputs if name in arrays]
        tensors = [recorded(key, partial(arrays.__getitem__, key)) for key in order]
        return Source(one.name, tuple(tensors)), backend

    def _link(
        self, table: Table, backend: Backend | None, states: Arrays
    ) -> tuple[Mapping[str, float | None], Link]:
        """Judge the last link; return shares of what is allowed, by tensor, and the verdict.

        states: with which the source before the last one began; the program is judged with them.
        """
        before, after = table.sources[-2:]
        names = before.name, after.name
        if table.program is None:
            shares, largest, wrong = judge_models(table, before, after)
            errors = f"errors of at most {100 * largest:.2g} % of the values"
            text = f"{counted(len(shares), 'tensor')}, {errors}, within the noise of quantisation"
            reason, run = (wrong.reason, self.run) if wrong else (text, "")
            return shares, Link(*names, not wrong, (wrong and wrong.tensor) or "", (), reason, run)
        graph = _with_states(table.program, states)
        own = next(one for one in reversed(table.sources) if one.graph is not None)
        other = before if own is after else after
        if own is after:
            table.part(after, recovered(after.tensors, table.errors_of(before, after)))
        arrays = table.arrays_of(other, own)
        if backend is not None and not isinstance(backend, Record):
            link = self._bisected(names, graph, backend, self.tolerances)
            outputs = link.detail and link.detail.outputs
            return {row.name: _share(row) for row in outputs.tensors} if outputs else {}, link
        kinds = {key: graph.main.tensors[key].dtype for key in arrays}
        is_model = other.graph is None and backend is None
        quantised = [key for key, kind in kinds.items() if is_model and kind in (INT8, INT16)]
        steps = tuple((key, _STEPS) for key in quantised)
        tolerances = replace(self.tolerances, atol=(*steps, *self.tolerances.atol))
        shares = self._shares(graph, own, arrays, tolerances)
        # Where both round to integers, steps of all operators add up.
        record, may_add_up = Record(other.name, arrays), bool(quantised)
        return shares, self._bisected(names, graph, record, tolerances, may_add_up=may_add_up)

    def _bisected(
        self,
        names: tuple[str, str],
        graph: Graph,
        backend: Backend,
        tolerances: Tolerances,
        *,
        may_add_up: bool = False,
    ) -> Link:
        limit, engine = self.options.timeout, self.options.engine
        try:
            found = bisect(
                graph, backend, self.given, tolerances=tolerances, timeout=limit, engine=engine
            )
        except TosaConvertError as error:
            if error.code != "option-conflict":
                raise
            return Link(*names, ok=True, reason=f"not judged: {error.findings[0].message}")
        return link_of_bisection(*names, found, self.run, may_add_up=may_add_up)

    def _shares(
        self, graph: Graph, own: Source, arrays: Arrays, tolerances: Tolerances
    ) -> dict[str, float | None]:
        """Return how much of the error of honest implementations the tensors of a program have."""
        rows = {row.name: row for row in own.tensors if row.name in arrays}
        golden = LazyArrays(rows, lambda key: rows[key].read())
        folder = subfolder(self.folder, f"link{len(list(self.folder.iterdir()))}")
        reference = Reference(graph, self.given, self.options, tolerances)
        shares: dict[str, float | None] = {}
        for key, criterion in reference.criteria(golden, folder)[0].items():
            if criterion.network is not None:  # The verdict is that of `bisect`.
                criterion = replace(criterion, network=replace(criterion.network, more=None))
            shares[key] = _share(compare_tensor(key, golden[key], arrays[key], criterion))
        return shares


def _share(row: TensorComparison) -> float | None:
    """Return the error of a tensor as a share of what it may be; None of integers, which have steps."""
    return 0.0 if not row.differing else row.margin


def _with_states(graph: Graph, states: Arrays) -> Graph:
    """Return a program that begins with the states of another one, as far as it has these variables."""
    own = {name: row.shape for name, row in variables_of(graph).items()}
    return with_variables(graph, {k: row for k, row in states.items() if own.get(k) == row.shape})


def _as_integers(graph: Graph, inputs: Arrays, table: Table) -> dict[str, Array]:
    """Return the inputs of a program. Numbers of integers are as a model before it quantised them."""
    found = {}
    for slot in input_slots(graph):
        array = np.asarray(inputs.get(slot.key, ()))
        if array.dtype.kind == "f" and not slot.dtype.is_float:
            rows = (row for one in table.sources for row in one.tensors if row.scale is not None)
            same = (row for row in rows if row.shape == array.shape)
            near = [row.read() for row in same if _stands_for(row, array)]
            array = near[0] if near else array
        found[slot.key] = array
    return match(input_slots(graph), {**inputs, **found})


def _before_dequantised(
    result: Recorded, steps: Sequence[Recorded], names: Graph | None
) -> Recorded:
    """Return the integers that a model dequantises last, where the program's result is them."""
    kind = names.main.tensors.get(result.name) if names is not None else None
    if kind is None or kind.dtype.is_float or not result.is_float:
        return result
    same = (row for row in steps if row.scale is not None and row.shape == result.shape)
    near = [row for row in same if _stands_for(row, result.read())]
    return near[-1]._replace(name=result.name) if near else result


def _stands_for(row: Recorded, array: Array) -> bool:
    """Return whether half of the integers of a tensor stand for the numbers of an array."""
    assert row.scale is not None
    return 2 * np.count_nonzero(np.abs(row.numbers() - array) <= row.scale[0]) > array.size
