"""What the searches of `bisect` have in common: what was found, and how it is described."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tosa_convert.errors import fail
from tosa_convert.golden.arrays.by_name import Array, LazyArrays
from tosa_convert.golden.arrays.npz import slots
from tosa_convert.golden.backends.isolated import with_slot_types
from tosa_convert.golden.backends.runners import Record
from tosa_convert.golden.backends.sources import Recorded, same_tensors, tensors_of
from tosa_convert.golden.checking.check import Reference
from tosa_convert.golden.running.programs import input_slots
from tosa_convert.golden.running.run_graph import signature
from tosa_convert.golden.running.run_options import Progress
from tosa_convert.graph.derived import extract, needed_operators
from tosa_convert.graph.model import operator_path
from tosa_convert.qualify.bisection.result import Bisection, Case, Divergence, Kind
from tosa_convert.qualify.bisection.single_operators import Group, Judged, Operators


class Search:
    """A search in one block of operators.

    first: the outputs that were judged, by key.
    """

    def __init__(
        self,
        operators: Operators,
        find_all: bool = False,
        progress: Progress | None = None,
        first: Mapping[str, Array] | None = None,
    ) -> None:
        self.operators, self.graph = operators, operators.graph
        self.find_all, self.progress = find_all, progress
        self.first: Mapping[str, Array] = {} if first is None else first
        self.result = Bisection()

    def add(self, divergence: Divergence) -> None:
        """Add what is wrong."""
        if self.result.first is None:
            self.result.first = divergence
        else:
            self.result.others.append(divergence)

    def named(self) -> set[int]:
        """Return the operators that were found."""
        found = (self.result.first, *self.result.others)
        return {row[0] for part in found if part is not None for row in part.operators}

    def path(self, index: int) -> str:
        """Return how messages name an operator."""
        return operator_path("", index, self.graph.main.operators[index]).strip()

    def divergence(self, indices: Iterable[int], case: Case, kind: Kind) -> Divergence:
        """Describe a divergence: the operators with their paths, locations and signatures."""
        rows = []
        for index in indices:
            op = self.graph.main.operators[index]
            rows.append((index, self.path(index), op.location, signature(self.graph.main, op)))
        return Divergence(tuple(rows), case, kind=kind)

    def wrong_operators(self, judged: Judged) -> dict[int, Judged]:
        """Find the operators of wrong results of a group."""
        keys = [tensor.name for tensor in judged.comparison.failures]
        tensors = map(self.operators.tensor, keys)
        return {self.operators.producers[name]: judged for name in tensors}

    def failing_tensors(self) -> list[str]:
        """List the computed tensors among the wrong outputs."""
        assert self.result.outputs is not None
        tensors = [self.operators.tensor(tensor.name) for tensor in self.result.outputs.failures]
        return [name for name in dict.fromkeys(tensors) if name in self.operators.computed]

    def needed(self, names: list[str]) -> list[int]:
        """List the operators that compute tensors, without constants."""
        return self.operators.without_constants(needed_operators(self.graph, names))

    def note_what_inherits(self) -> None:
        """List the wrong outputs whose operators are neither named nor suspected."""
        if self.result.outputs is None or self.result.first is None:
            return
        if any(part.kind != "by-itself" for part in (self.result.first, *self.result.others)):
            return
        named, producers = self.named(), self.operators.producers
        self.result.inherits = [
            name
            for name in self.failing_tensors()
            if producers[name] not in named
            and self.path(producers[name]) not in self.result.suspects
        ]

    def whole_case(self, actual: Mapping[str, Array]) -> Case:
        """Make a case of the whole program, with its golden outputs and states."""
        assert self.result.outputs is not None
        own = self.operators
        expected = dict(Reference(self.graph, own.inputs, own.options).outputs)
        found = {key: actual[key] for key in actual}
        return Case(self.graph, own.inputs, expected, found, self.result.outputs)

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


# --------------------------------------------------------------------------------------------------
# the search in results that a backend recorded: the operators between recorded tensors are
# judged.


class RecordSearch(Search):
    """Searches recorded results; see `Search`."""

    def search(self, recorded: Mapping[str, Array]) -> None:
        """Judge the operators between recorded tensors."""
        known = {name for name in self.operators.computed if name in recorded}
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
                    self.result.suspects = [self.path(i) for i in sorted(wrong) if i > index]
                    break
            if wrong and not self.find_all:
                break
        outputs = self.result.outputs
        if self.result.first is None and outputs is not None and outputs.failures:
            case = self.whole_case(
                {k: recorded[k] for k in self.graph.main.outputs if k in recorded}
            )
            indices = self.needed(self.failing_tensors())
            if indices:
                self.add(self.divergence(indices, case, "within-rules"))
        self.note_what_inherits()

    def recorded(self, backend: Record) -> LazyArrays:
        """Return the recorded tensors in the tensors' types, where the elements are the same."""
        computed = self.operators.computed
        by_key = {s.key: s for name in computed for s in slots(self.graph.main, name)}
        same: dict[str, Recorded] = {}
        self.result.notes += backend.notes
        if steps := backend.steps():
            own = tensors_of(self.graph, backend.arrays.__getitem__)
            same = {own[k].name: steps[number] for k, number in same_tensors(own, steps).items()}
            self.result.notes.append(
                f"{len(same)} of {len(steps)} results of {backend.name}'s operators were recognised "
                "among the model's tensors"
            )

        def read(key: str) -> Array:
            return backend.arrays[key] if key in backend.arrays else same[key].read()

        keys = [key for key in (*same, *backend.arrays) if key in by_key]
        if not keys:
            raise fail(
                "option-conflict",
                f"--against {backend.name}",
                "it has no tensor of the model",
                "name the arrays as the model's tensors are named; `run --intermediates` lists them",
            )
        return with_slot_types(LazyArrays(keys, read), by_key)
