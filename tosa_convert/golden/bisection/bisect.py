"""The public function `bisect`: explain why a program is wrong on a backend.

The program runs as it is first, and is judged as `check` judges it. Then each operator is judged by
itself, by its operator's own rule, on operands that are not in doubt (`single_operators`). If all of
them are right and the program is wrong, `whole_program` finds out why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.golden.accuracy.comparison import Comparison
from tosa_convert.golden.accuracy.user_tolerances import NO_TOLERANCES, Tolerances
from tosa_convert.golden.arrays.by_name import Array, LazyArrays
from tosa_convert.golden.arrays.scratch import scratch_folder
from tosa_convert.golden.arrays.slots import slots
from tosa_convert.golden.backends.runners import Backend, Record, Runner, with_slot_types
from tosa_convert.golden.bisection.align_steps import align
from tosa_convert.golden.bisection.cases import Case, Divergence, Kind
from tosa_convert.golden.bisection.single_operators import Group, Judged, Operators, smallest_group
from tosa_convert.golden.bisection.whole_program import WholeProgram, repeated
from tosa_convert.golden.checking.check import as_backend, check_outputs, with_initial_states
from tosa_convert.golden.edges.edge_inputs import chosen_inputs
from tosa_convert.golden.running.control_flow import ITERATIONS, region_runs, why_not_runnable
from tosa_convert.golden.running.explain_failure import signature
from tosa_convert.golden.running.intermediates import BATCH_BYTES, Batch
from tosa_convert.golden.running.programs import AS_IT_IS, as_graph, input_slots
from tosa_convert.golden.running.run_options import TIMEOUT, Engine, RunOptions
from tosa_convert.golden.running.variable_states import (
    STATE_PREFIX,
    with_final_states,
    writes_variables,
)
from tosa_convert.golden.running.work import Progress
from tosa_convert.graph.extract import extract, needed_operators
from tosa_convert.graph.model import counted, operator_path
from tosa_convert.io.options import ReadOptions


@dataclass(slots=True)
class Bisection:
    """The result of a search.

    outputs: the verdict on the program as it is, which `check` gives, too.
    compared: how many tensors were judged, each by itself.
    first: what is wrong first in the order of operators, or None.
    others: further operators that are wrong by themselves, if all were asked for.
    largest_batch: bytes.
    """

    outputs: Comparison | None = None
    compared: int = 0
    first: Divergence | None = None
    others: list[Divergence] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    largest_batch: int = 0

    @property
    def ok(self) -> bool:
        """Return whether something was compared, the outputs agree, and no operator is wrong alone."""
        outputs_ok = self.outputs is None or self.outputs.ok
        return self.compared > 0 and outputs_ok and self.first is None

    def __str__(self) -> str:
        lines = []
        if self.outputs is not None:
            failures = len(self.outputs.failures) + len(self.outputs.missing)
            text = f"{counted(len(self.outputs.tensors), 'output')} compared, {failures} wrong"
            lines.append(text)
        each = "" if self.compared == 1 else ", each by itself"
        lines.append(f"{counted(self.compared, 'tensor')} judged{each}")
        if self.first is not None:
            if self.outputs is not None and self.outputs.ok:
                lines.append("the outputs agree: they do not show what is wrong")
            lines.append(str(self.first))
        elif self.outputs is not None and not self.outputs.ok:
            lines.append("no operator is wrong by itself:")
            lines.append(str(self.outputs))
        lines += [f"also wrong: {other}" for other in self.others]
        lines += [f"note: {note}" for note in self.notes]
        if not self.compared:
            lines.append("FAIL nothing was compared")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the arrays, as JSON values."""
        return {
            "ok": self.ok,
            "outputs": None if self.outputs is None else self.outputs.to_dict(),
            "compared": self.compared,
            "first": None if self.first is None else self.first.to_dict(),
            "others": [other.to_dict() for other in self.others],
            "notes": self.notes,
        }


def bisect(
    program: Any,
    against: str | Mapping[str, Array] | Backend,
    inputs: Mapping[str, Any] | None = None,
    *,
    random: int | None = None,
    edges: bool = False,
    variables: Mapping[str, Any] | None = None,
    tolerances: Tolerances = NO_TOLERANCES,
    find_all: bool = False,
    timeout: float = TIMEOUT,
    engine: Engine = "auto",
    batch_bytes: int = BATCH_BYTES,
    progress: Progress | None = None,
    read: ReadOptions = AS_IT_IS,
) -> Bisection:
    """Explain what `check` finds: name the operators at which a backend goes wrong, and how.

    Args:
        program: anything that `golden.run` takes.
        against: a backend from `golden.open_backend`, the text that names one, or arrays by tensor.
        inputs: an array for each input, by name, in exactly its element type and shape.
        random: a seed, 0 or more, for inputs that are not given.
        edges: take `golden.edge_inputs` of that seed instead of random ones.
        variables: initial states by name, for both sides; the others start as the program says.
        tolerances: for tensors by name, instead of the rules.
        find_all: go on after the first operator that is wrong by itself, and name all of them.
        timeout: seconds for one run of either.
        engine: what computes the reference; see `RunOptions`.
        batch_bytes: bytes of tensors that one run computes. They are stored in files: only the
            inputs, one tensor of each side, and a wrong operator's values are in memory.
        progress: called with what is done, and all that there is: of each run of the whole program, and
            then of the operators.
        read: how to read a file or module.

    Returns:
        The verdict on the outputs, and the divergence that was found first, if there is one.

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
    arrays = chosen_inputs(graph, inputs, random, edges=edges, variables=variables)
    backend = as_backend(against, graph, arrays, timeout)
    graph, backend = with_initial_states(graph, backend, variables or {})
    options = RunOptions(timeout=timeout, engine=engine)
    operators = Operators(graph, arrays, tolerances, options, batch_bytes)
    states = [STATE_PREFIX + name for name in with_final_states(graph)[1]]
    tolerances.refuse_unmatched([*operators.keys(operators.computed), *states])
    search = _Search(operators, find_all, progress)
    known = operators.computed
    recorded: Mapping[str, Array] = {}
    if isinstance(backend, Record):
        recorded = search.recorded(backend)
        known = {name for name in operators.computed if name in recorded}
    here = tolerances.restricted_to([*graph.main.outputs, *states])
    watched = replace(options, progress=progress)
    search.result.outputs = check_outputs(graph, arrays, backend, here, watched)
    if isinstance(backend, Record):
        search.search_record(recorded, known)
    else:
        search.search_runner(backend)
    search.result.largest_batch = operators.largest_batch
    return search.result


class _Search:
    def __init__(
        self, operators: Operators, find_all: bool = False, progress: Progress | None = None
    ) -> None:
        self.operators, self.graph = operators, operators.graph
        self.find_all, self.progress = find_all, progress
        self.result = Bisection()

    def search_runner(self, backend: Runner, *, with_outputs: bool = False) -> Bisection:
        """Judge each operator by itself on a backend that computes, and then the outputs.

        with_outputs: judge the outputs here; they are not judged yet.
        """
        self.judge_operators(backend)
        if self.result.first is None and with_outputs and self.graph.main.outputs:
            own = self.operators
            names = [*self.graph.main.outputs]
            tolerances = own.tolerances.restricted_to(names)
            self.result.outputs = check_outputs(
                self.graph, own.inputs, backend, tolerances, own.options
            )
        outputs = self.result.outputs
        if self.result.first is None and outputs is not None and not outputs.ok:
            self.explain_outputs(backend)
        return self.result

    def judge_operators(self, backend: Runner) -> None:
        """Judge each operator by itself."""
        for batch in self.operators.golden(self.operators.computed):
            names = [name for _, name in batch.tensors]
            with scratch_folder() as folder:
                wrong: dict[int, Judged] = {}
                for judged in self.operators.judge_runner(backend, batch, names, folder):
                    self.refuse_missing(judged.comparison, backend)
                    self.result.compared += len(judged.comparison.tensors)
                    wrong |= self.wrong_operators(judged)
                for index in sorted(wrong):
                    self.add(self.named(backend, index, batch, folder, wrong[index].group))
                    if not self.find_all:
                        return
            if self.progress is not None:
                self.progress(batch.tensors[-1][0] + 1, len(self.graph.main.operators))

    def wrong_operators(self, judged: Judged) -> dict[int, Judged]:
        """Find the operators of wrong results of a group."""
        keys = [tensor.name for tensor in judged.comparison.failures]
        tensors = map(self.operators.tensor, keys)
        return {self.operators.producers[name]: judged for name in tensors}

    def refuse_missing(self, comparison: Comparison, backend: Runner) -> None:
        if comparison.missing:
            message = f"it did not return the tensor {comparison.missing[0]!r}"
            raise fail("backend-failed", backend.name, message)

    def add(self, divergence: Divergence) -> None:
        """Add what is wrong."""
        if self.result.first is None:
            self.result.first = divergence
        else:
            self.result.others.append(divergence)

    def named(
        self, backend: Runner, index: int, batch: Batch, folder: Path, wrong_in: Group | None
    ) -> Divergence:
        """Describe the divergence of an operator: it runs alone, more than once.

        wrong_in: the group in which it was wrong; None if its results changed from run to run there.
        """
        operator = self.graph.main.operators[index]
        names = [n for n in operator.outputs if n in self.graph.main.tensors]
        group = Group()
        group.add(names, *self.operators.operands(index, self.operators.computed))
        comparison = self.operators.run_group(backend, group, batch.golden, folder).comparison
        case, changing = self.case(backend, group, batch, comparison)
        if not changing and not comparison.ok:
            inner = self.search_regions(backend, index, batch) if operator.spec.regions else None
            return inner or self.divergence([index], case, "by-itself")
        found = None
        if not changing and wrong_in is not None:
            found = self.beside_others(backend, index, batch, folder, wrong_in)
        return found or self.divergence([index], case, "nondeterministic")

    def case(
        self, backend: Runner, group: Group, batch: Batch, comparison: Comparison
    ) -> tuple[Case, set[str]]:
        """Return a group as a case, and the keys of results that change from run to run."""
        names, cuts = group.names, list(group.cuts)
        part = extract(self.graph, names, cuts)
        needed = {slot.key: batch.golden[slot.key] for slot in input_slots(part)}
        given = {**self.operators.inputs, **needed}
        actual, changing = repeated(backend, self.graph, names, given, cuts)
        expected = {key: batch.golden[key] for key in self.operators.keys(names)}
        return Case(part, needed, expected, actual, comparison), changing

    def beside_others(
        self, backend: Runner, index: int, batch: Batch, folder: Path, group: Group
    ) -> Divergence | None:
        """Describe the divergence of an operator that is wrong only beside others; None if it varies."""

        def judged(group: Group) -> Judged:
            return self.operators.run_group(backend, group, batch.golden, folder)

        def is_wrong(group: Group) -> bool:
            return index in self.wrong_operators(judged(group))

        if not is_wrong(group):
            return None
        group = smallest_group(self.operators, index, group, is_wrong)
        indices = {i for between in group.indices.values() for i in between}
        case, changing = self.case(backend, group, batch, judged(group).comparison)
        if changing or len(indices) < 2:
            return None
        return self.divergence(sorted(indices), case, "in-context")

    def search_regions(self, backend: Runner, index: int, batch: Batch) -> Divergence | None:
        """Find the wrong operator inside an operator with regions, each region given golden values."""
        op = self.graph.main.operators[index]
        path = operator_path("", index, op).strip()
        reason = why_not_runnable(self.graph, op)
        own = self.operators
        try:
            for region in region_runs(self.graph, index, batch.golden, options=own.options):
                operators = Operators(
                    region.graph, region.inputs, own.tolerances, own.options, own.batch_bytes
                )
                runner = backend.inside(op.outputs[0], region.attribute)
                inner = _Search(operators).search_runner(runner, with_outputs=True)
                if inner.first is not None:
                    self.result.notes += inner.notes
                    rows = tuple(
                        (i, f"{path} {region.label} {inner_path}", location, text)
                        for i, inner_path, location, text in inner.first.operators
                    )
                    inside = ((op.outputs[0], region.attribute), *inner.first.inside)
                    return Divergence(rows, inner.first.case, inside, inner.first.kind)
        except TosaConvertError as error:
            reason = reason or str(error.findings[0])
        reason = reason or (
            f"no operator of its regions is wrong by itself in {ITERATIONS} iterations"
        )
        self.result.notes.append(f"{path} is named as a whole: {reason}")
        return None

    def divergence(self, indices: Iterable[int], case: Case, kind: Kind) -> Divergence:
        """Describe a divergence: the operators with their paths, locations and signatures."""
        rows = []
        for index in indices:
            op = self.graph.main.operators[index]
            path = operator_path("", index, op).strip()
            rows.append((index, path, op.location, signature(self.graph.main, op)))
        return Divergence(tuple(rows), case, kind=kind)

    def explain_outputs(self, backend: Runner) -> None:
        """Explain wrong outputs of a program whose operators are all right by themselves."""
        graph, operators = self.graph, self.operators
        assert self.result.outputs is not None
        self.refuse_missing(self.result.outputs, backend)
        names = list(dict.fromkeys(graph.main.outputs))
        actual, changing = repeated(backend, graph, names, operators.inputs, [])
        if changing:
            self.add(self.changing(backend, actual))
            return
        keys = [tensor.name for tensor in self.result.outputs.failures]
        wrong = [
            operators.tensor(key) for key in keys if operators.tensor(key) in operators.computed
        ]
        with scratch_folder() as folder:
            search = WholeProgram(operators, backend, folder)
            found = search.explain(list(dict.fromkeys(wrong))) if wrong else None
            if found is not None:
                kind, indices, case = found
                self.add(self.divergence(indices, case, kind))
                return
        states = [key.removeprefix(STATE_PREFIX) for key in keys if key.startswith(STATE_PREFIX)]
        self.add(self.as_a_whole(states, actual))

    def whole_case(self, actual: Mapping[str, Array]) -> Case:
        """Make a case of the whole program, with its golden outputs."""
        assert self.result.outputs is not None
        expected: dict[str, Array] = {}
        outputs = set(self.graph.main.outputs)
        for batch in self.operators.golden(outputs):
            names = [name for _, name in batch.tensors if name in outputs]
            expected |= {key: batch.golden[key] for key in self.operators.keys(names)}
        found = {key: actual[key] for key in actual}
        return Case(self.graph, self.operators.inputs, expected, found, self.result.outputs)

    def changing(self, backend: Runner, actual: Mapping[str, Array]) -> Divergence:
        """Find the first operator whose results change from run to run, or else the outputs' makers."""
        for batch in self.operators.golden(self.operators.computed):
            for group in self.operators.groups(
                [name for _, name in batch.tensors], self.operators.computed
            ):
                part = extract(self.graph, group.names, group.cuts)
                needed = {slot.key: batch.golden[slot.key] for slot in input_slots(part)}
                given = {**self.operators.inputs, **needed}
                _, changed = repeated(backend, self.graph, group.names, given, list(group.cuts))
                indices = {self.operators.producers[self.operators.tensor(key)] for key in changed}
                if indices:
                    with scratch_folder() as folder:
                        return self.named(backend, min(indices), batch, folder, None)
        outputs = [self.operators.producers[name] for name in self.failing_tensors()]
        return self.divergence(sorted(set(outputs)), self.whole_case(actual), "nondeterministic")

    def failing_tensors(self) -> list[str]:
        """List the computed tensors among the wrong outputs."""
        assert self.result.outputs is not None
        tensors = [self.operators.tensor(tensor.name) for tensor in self.result.outputs.failures]
        return [name for name in dict.fromkeys(tensors) if name in self.operators.computed]

    def as_a_whole(self, states: list[str], actual: Mapping[str, Array]) -> Divergence:
        """Wrong states whose tensors are right, or outputs that are wrong only all at once."""
        writes = [
            index
            for index, op in enumerate(self.graph.main.operators)
            if writes_variables(self.graph, op, states)
        ]
        case = self.whole_case(actual)
        if states and not self.failing_tensors():
            return self.divergence(writes, case, "by-itself")
        return self.divergence(self.needed(self.failing_tensors()), case, "in-context")

    def needed(self, names: list[str]) -> list[int]:
        """List the operators that compute tensors, without constants."""
        return self.operators.without_constants(needed_operators(self.graph, names))

    def search_record(self, recorded: Mapping[str, Array], known: set[str]) -> None:
        """Judge the operators between recorded tensors."""
        if known <= set(self.graph.main.outputs):
            self.result.notes.append(
                "only outputs are recorded: to name fewer operators, record tensors between them, "
                "too, or give a backend that can be run"
            )
        for batch in self.operators.judge_record(recorded):
            wrong: dict[int, Judged] = {}
            for judged in batch:
                self.result.compared += len(judged.comparison.tensors)
                wrong |= self.wrong_operators(judged)
            for index in sorted(wrong):
                self.add(self.recorded_divergence(wrong[index], index, recorded))
                if not self.find_all:
                    return
        outputs = self.result.outputs
        if self.result.first is None and outputs is not None and outputs.failures:
            case = self.whole_case(
                {k: recorded[k] for k in self.graph.main.outputs if k in recorded}
            )
            indices = self.needed(self.failing_tensors())
            if indices:
                self.add(self.divergence(indices, case, "within-rules"))

    def recorded_divergence(
        self, judged: Judged, index: int, recorded: Mapping[str, Array]
    ) -> Divergence:
        """Find the operators that compute a wrong result of an operator from recorded tensors."""
        names = [n for n in self.graph.main.operators[index].outputs if n in judged.group.names]
        cuts, indices = self.operators.operands(index, recorded)
        group = Group()
        group.add(names, cuts, indices)
        part = extract(self.graph, names, cuts)
        given = {slot.key: judged.given[slot.key] for slot in input_slots(part)}
        comparison, expected, _ = self.operators.judge_recorded_group(group, recorded)
        actual = {key: recorded[key] for key in expected}
        case = Case(part, given, expected, actual, comparison)
        return self.divergence(indices, case, "by-itself")

    def recorded(self, backend: Record) -> LazyArrays:
        """Return the recorded tensors in the tensors' types, where the elements are the same."""
        computed = self.operators.computed
        by_key = {s.key: s for name in computed for s in slots(self.graph.main, name)}
        aligned: dict[str, int] = {}
        if backend.steps:
            golden = (
                (name, batch.golden[name])
                for batch in self.operators.golden(computed)
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

        keys = [key for key in (*aligned, *backend.arrays) if key in by_key]
        if not keys:
            raise fail(
                "option-conflict",
                f"--against {backend.name}",
                "it has no tensor of the model",
                "name the arrays as the model's tensors are named; `run --intermediates` lists them",
            )
        return with_slot_types(LazyArrays(keys, read), by_key)
