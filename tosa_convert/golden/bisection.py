"""The public function `bisect`: name the first operator whose own result is wrong.

Tensors are compared in topological order. A tensor that differs may have inherited the difference from
its operands, so its operator runs again. A backend that computes gets the golden operands, and its
result is compared with the golden one. For a backend that only recorded results, the reference model
gets the recorded operands, and its result is compared with the recorded one. If the results still
differ, the operator is wrong.
"""

from __future__ import annotations

import shutil
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.golden.align_steps import align
from tosa_convert.golden.array_io import SCALE_SUFFIX, slots
from tosa_convert.golden.arrays import Array, LazyArrays
from tosa_convert.golden.backends import Backend, Record, Runner, with_slot_types
from tosa_convert.golden.cases import Case, Divergence
from tosa_convert.golden.checking import as_backend, origins, tolerance_checks
from tosa_convert.golden.comparison import NO_TOLERANCES, TensorComparison, Tolerances, compare
from tosa_convert.golden.control_flow import ITERATIONS, region_runs, why_not_runnable
from tosa_convert.golden.explain_failure import signature
from tosa_convert.golden.intermediates import BATCH_BYTES, Batch, batches
from tosa_convert.golden.operator_rules import rules
from tosa_convert.golden.programs import AS_IT_IS, as_graph, input_arrays, input_slots
from tosa_convert.golden.reference_model import TIMEOUT, RunOptions, run_graph
from tosa_convert.golden.scratch import scratch_folder
from tosa_convert.golden.tolerance_rules import EXACT
from tosa_convert.graph.extract import (
    computed_tensors,
    extract,
    last_uses,
    needed_operators,
)
from tosa_convert.graph.model import Graph, counted, operator_path
from tosa_convert.graph.opset import CONST, CONST_SHAPE
from tosa_convert.options import ReadOptions


@dataclass(slots=True)
class Bisection:
    """The result of a search.

    compared: how many tensors. differing: those that differ, by name, up to the end of the search.
    inherited: those of them whose operators compute correctly from correct operands.
    first: None if no operator's own result is wrong. largest_batch: bytes.
    """

    compared: int = 0
    differing: list[str] = field(default_factory=list)
    inherited: list[str] = field(default_factory=list)
    first: Divergence | None = None
    notes: list[str] = field(default_factory=list)
    largest_batch: int = 0

    @property
    def ok(self) -> bool:
        """Whether something was compared and nothing differed."""
        return self.compared > 0 and not self.differing

    def __str__(self) -> str:
        count, verb = len(self.differing), "differs" if len(self.differing) == 1 else "differ"
        lines = [f"{counted(self.compared, 'tensor')} compared, {count} {verb}"]
        if self.first is not None:
            lines.append(str(self.first))
        elif self.differing:
            lines.append(
                "each of them only inherits its difference: no operator's own result is wrong"
            )
        if self.inherited:
            before = counted(len(self.inherited), "tensor")
            lines.append(f"before it, {before} only inherited a difference")
        lines += [f"note: {note}" for note in self.notes]
        if not self.compared:
            lines.append("FAIL nothing was compared")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the arrays, as JSON values."""
        return {
            "ok": self.ok,
            "compared": self.compared,
            "differing": self.differing,
            "inherited": self.inherited,
            "first": None if self.first is None else self.first.to_dict(),
            "notes": self.notes,
        }


def bisect(
    program: Any,
    against: str | Mapping[str, Array] | Backend,
    inputs: Mapping[str, Any] | None = None,
    *,
    random: int | None = None,
    tolerances: Tolerances = NO_TOLERANCES,
    timeout: float = TIMEOUT,
    batch_bytes: int = BATCH_BYTES,
    read: ReadOptions = AS_IT_IS,
) -> Bisection:
    """Find the first operator of the main block whose own result is wrong on a backend.

    Args:
        program: anything that `golden.run` takes.
        against: a backend from `golden.open_backend`, the text that names one, or arrays by tensor.
        inputs: an array for each input, by name, in exactly its element type and shape.
        random: a seed, 0 or more, for inputs that are not given.
        tolerances: for tensors by name, instead of the rules.
        timeout: seconds for one run of either.
        batch_bytes: bytes of tensors that one run computes. They are stored in files: only the
            inputs, one tensor of each side, and a suspect operator's values are in memory.
        read: how to read a file or module.

    Returns:
        The divergence that was found first, if there is one, and how many tensors were compared.

    Raises:
        TosaConvertError: as `golden.check`; `option-conflict` if recorded results have no tensor of
            the model.

    Example:
        >>> from tosa_convert import golden
        >>> graph = golden.generate(seed=2, operators=3, kinds=["ABS"])
        >>> right = golden.run(graph, random=1, intermediates="*").intermediates
        >>> golden.bisect(graph, right, random=1).ok
        True
        >>> name = graph.main.operators[1].outputs[0]
        >>> wrong = {**right, name: right[name] + 1}
        >>> golden.bisect(graph, wrong, random=1).first.operators[0][1]
        'operator #1 ABS'
    """
    graph = as_graph(program, read)
    arrays = input_arrays(graph, inputs, random)
    backend = as_backend(against, graph, arrays, timeout)
    search = _Search(graph, arrays, tolerances, RunOptions(timeout=timeout), batch_bytes)
    if isinstance(backend, Record):
        return search.search_record(backend)
    return search.search_runner(backend)


class _Search:
    def __init__(
        self,
        graph: Graph,
        inputs: Mapping[str, Array],
        tolerances: Tolerances,
        options: RunOptions,
        batch_bytes: int,
    ) -> None:
        self.graph, self.inputs, self.batch_bytes = graph, dict(inputs), batch_bytes
        self.tolerances, self.options = tolerances, options
        self.result = Bisection()
        self.origins = origins(graph)
        self.rules = rules(graph)
        block = graph.main
        self.producers = {name: i for i, op in enumerate(block.operators) for name in op.outputs}
        self.order = computed_tensors(graph)
        self.computed = {name for _, name in self.order}

    def batches(self, names: Container[str]) -> Iterator[Batch]:
        """Golden tensors in topological order, up to `batch_bytes` at a time."""
        wanted = [(index, name) for index, name in self.order if name in names]
        for batch in batches(
            self.graph, self.inputs, wanted, self.options, batch_bytes=self.batch_bytes
        ):
            self.result.largest_batch = max(self.result.largest_batch, batch.nbytes)
            yield batch

    def keys(self, batch: Batch) -> list[str]:
        """The arrays of a batch's tensors."""
        block = self.graph.main
        return [slot.key for _, name in batch.tensors for slot in slots(block, name)]

    def tensor(self, key: str) -> str:
        """The tensor that an array belongs to."""
        return key if key in self.producers else key.removesuffix(SCALE_SUFFIX)

    def suspects(self, batch: Batch, actual: Mapping[str, Array]) -> list[TensorComparison]:
        """The differing tensors among those both sides have, in order.

        The rules of inexact operators are applied only when a suspect is computed again.
        """
        keys = [key for key in self.keys(batch) if key in actual]
        checks, _ = tolerance_checks(
            self.graph,
            [key for key in keys if self.rules.get(self.tensor(key)) == EXACT],
            self.inputs,
            self.tolerances,
            self.rules,
            options=self.options,
        )
        result = compare(
            LazyArrays(keys, batch.golden.__getitem__),
            actual,
            tolerances=self.tolerances,
            checks=checks,
            origins=self.origins,
        )
        self.result.compared += len(result.tensors)
        self.result.differing += [tensor.name for tensor in result.failures]
        return result.failures

    def search_runner(self, backend: Runner) -> Bisection:
        """Search with a backend that computes."""
        earlier = _EarlierResults(self.graph)
        with scratch_folder() as folder:
            for number, batch in enumerate(self.batches(self.computed)):
                batch_folder = folder / str(number)
                batch_folder.mkdir()
                actual = self.computed_by(backend, batch, earlier, batch_folder)
                for suspect in self.suspects(batch, actual):
                    index = self.producers[self.tensor(suspect.name)]
                    case = self.run_alone(backend, index, batch)
                    if not case.comparison.ok:
                        inner = self.search_regions(backend, index, batch)
                        self.result.first = inner or self.divergence([index], case)
                        return self.result
                    self.result.inherited.append(suspect.name)
                earlier.add(actual, batch_folder)
                earlier.remove_unused(batch.tensors[-1][0])
        return self.result

    def computed_by(
        self, backend: Runner, batch: Batch, earlier: _EarlierResults, folder: Path
    ) -> LazyArrays:
        """The backend's tensors of a batch, computed from its own results of earlier batches."""
        names = [name for _, name in batch.tensors]
        inputs = earlier.with_inputs(self.inputs)
        answer = backend.compute(self.graph, names, inputs, earlier.tensors(), folder)
        keys = self.keys(batch)
        if missing := [key for key in keys if key not in answer]:
            message = f"it did not return the tensor {missing[0]!r}"
            raise fail("backend-failed", backend.name, message)
        return LazyArrays(keys, answer.__getitem__)  # without tensors that were not asked for

    def run_alone(self, backend: Runner, index: int, batch: Batch) -> Case:
        """One operator on the backend, with golden operands."""
        operator = self.graph.main.operators[index]
        names = [n for n in operator.outputs if n in self.graph.main.tensors]
        cuts = self.operands(index)
        part = extract(self.graph, names, cuts)
        needed = {slot.key: batch.golden[slot.key] for slot in input_slots(part)}
        expected = run_graph(part, needed, self.options)
        given = LazyArrays(
            (*self.inputs, *needed), lambda key: (needed if key in needed else self.inputs)[key]
        )
        with scratch_folder() as folder:
            actual = dict(backend.compute(self.graph, names, given, cuts, folder))
        return self.case(part, needed, expected, actual)

    def search_regions(self, backend: Runner, index: int, batch: Batch) -> Divergence | None:
        """The wrong operator inside an operator with regions, each region given golden values."""
        op = self.graph.main.operators[index]
        if not op.spec.regions:
            return None
        path = operator_path("", index, op).strip()
        reason = why_not_runnable(self.graph, op)
        try:
            for region in region_runs(self.graph, index, batch.golden, options=self.options):
                inner = _Search(
                    region.graph, region.inputs, self.tolerances, self.options, self.batch_bytes
                ).search_runner(backend.inside(op.outputs[0], region.attribute))
                if inner.first is not None:
                    self.result.notes += inner.notes
                    operators = tuple(
                        (i, f"{path} {region.label} {inner_path}", location, text)
                        for i, inner_path, location, text in inner.first.operators
                    )
                    inside = ((op.outputs[0], region.attribute), *inner.first.inside)
                    return Divergence(operators, inner.first.case, inside)
        except TosaConvertError as error:
            reason = reason or str(error.findings[0])
        reason = reason or (
            f"no operator of its regions is wrong by itself in {ITERATIONS} iterations"
        )
        self.result.notes.append(f"{path} is named as a whole: {reason}")
        return None

    def case(
        self,
        part: Graph,
        given: dict[str, Array],
        expected: dict[str, Array],
        actual: dict[str, Array],
    ) -> Case:
        """The comparison by the rules of the operators: their operands are not in doubt."""
        checks, notes = tolerance_checks(
            part, list(expected), given, self.tolerances, options=self.options
        )
        comparison = compare(
            expected,
            actual,
            tolerances=self.tolerances,
            checks=checks,
            origins=self.origins,
            notes=notes,
        )
        return Case(part, given, expected, actual, comparison)

    def operands(self, index: int) -> list[str]:
        """The computed tensors that an operator takes, directly or through shapes."""
        block = self.graph.main
        operands: list[str] = []
        pending = list(block.operators[index].inputs)
        while pending:
            name = pending.pop(0)
            if name in self.computed:
                operands.append(name)
            elif name in block.shapes and name in self.producers:
                pending += block.operators[self.producers[name]].inputs
        return list(dict.fromkeys(operands))

    def divergence(self, indices: list[int], case: Case) -> Divergence:
        """The operators with their paths, locations and signatures."""
        rows = []
        for index in indices:
            op = self.graph.main.operators[index]
            path = operator_path("", index, op).strip()
            rows.append((index, path, op.location, signature(self.graph.main, op)))
        return Divergence(tuple(rows), case)

    def search_record(self, backend: Record) -> Bisection:
        """Search in recorded results."""
        recorded = self.recorded(backend)
        names = {name for name in self.computed if name in recorded}
        if not names:
            raise fail(
                "option-conflict",
                f"--against {backend.name}",
                "it has no tensor of the model",
                "name the arrays as the model's tensors are named; `run --intermediates` lists them",
            )
        if names <= set(self.graph.main.outputs):
            self.result.notes.append(
                "only outputs are recorded: recorded intermediates would narrow the search"
            )
        for batch in self.batches(names):
            for suspect in self.suspects(batch, recorded):
                indices, case = self.between(self.tensor(suspect.name), recorded)
                if not case.comparison.ok:
                    self.result.first = self.divergence(indices, case)
                    return self.result
                self.result.inherited.append(suspect.name)
        return self.result

    def recorded(self, backend: Record) -> LazyArrays:
        """The recorded tensors of the model, in the tensors' types where the elements are the same."""
        by_key = {s.key: s for name in self.computed for s in slots(self.graph.main, name)}
        aligned: dict[str, int] = {}
        if backend.steps:
            golden = (
                (name, batch.golden[name])
                for batch in self.batches(self.computed)
                for _, name in batch.tensors
            )
            aligned = align(self.graph, golden, backend.steps)
            self.result.notes.append(
                f"{len(aligned)} of {len(backend.steps)} results of {backend.name}'s operators were "
                "recognised among the model's tensors"
            )

        def read(key: str) -> Array:
            if key in backend.arrays:
                return backend.arrays[key]
            return backend.steps[aligned[key]]()

        keys = (key for key in (*aligned, *backend.arrays) if key in by_key)
        return with_slot_types(LazyArrays(keys, read), by_key)

    def between(self, name: str, recorded: Mapping[str, Array]) -> tuple[list[int], Case]:
        """The operators that compute a tensor from the nearest recorded ones, run on those."""
        block = self.graph.main
        cuts: list[str] = []
        pending = list(block.operators[self.producers[name]].inputs)
        seen: set[str] = set()
        while pending:
            operand = pending.pop()
            if operand in seen:
                continue
            seen.add(operand)
            if operand in self.computed and operand in recorded:
                cuts.append(operand)
            elif operand in self.producers:
                pending += block.operators[self.producers[operand]].inputs
        part = extract(self.graph, [name], cuts)
        given = {
            slot.key: (recorded if slot.key in recorded else self.inputs)[slot.key]
            for slot in input_slots(part)
        }
        expected = run_graph(part, given, self.options)
        actual = {key: recorded[key] for key in expected if key in recorded}
        indices = sorted(
            i
            for i in needed_operators(self.graph, [name], cuts)
            if block.operators[i].spec is not CONST and block.operators[i].spec is not CONST_SHAPE
        )
        return indices, self.case(part, given, expected, actual)


class _EarlierResults:
    """The backend's results of earlier batches that later operators take, so nothing runs twice."""

    def __init__(self, graph: Graph) -> None:
        self.last_use = last_uses(graph.main)
        self.batches: list[tuple[Mapping[str, Array], Path]] = []

    def tensors(self) -> list[str]:
        """The tensors that are available."""
        return [
            name for arrays, _ in self.batches for name in arrays if not name.endswith(SCALE_SUFFIX)
        ]

    def with_inputs(self, inputs: Mapping[str, Array]) -> LazyArrays:
        """The available arrays and the graph's inputs, by key."""
        sources: dict[str, Mapping[str, Array]] = dict.fromkeys(inputs, inputs)
        sources.update((key, arrays) for arrays, _ in self.batches for key in arrays)
        return LazyArrays(sources, lambda key: sources[key][key])

    def add(self, arrays: Mapping[str, Array], folder: Path) -> None:
        """Add results that are read from a folder."""
        self.batches.append((arrays, folder))

    def remove_unused(self, done: int) -> None:
        """Remove the folders of which no operator after `done` takes a tensor."""
        used = []
        for arrays, folder in self.batches:
            if any(self.last_use.get(name, -1) > done for name in arrays):
                used.append((arrays, folder))
            else:
                shutil.rmtree(folder, ignore_errors=True)
        self.batches = used
