"""What the searches of `bisect` have in common: what was found, and how it is described."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.checking.check import reference_outputs
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
        expected = reference_outputs(self.graph, own.inputs, own.options)
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
