"""What the searches of `bisect` have in common: what was found, and how it is described."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tosa_convert.errors import fail
from tosa_convert.golden.arrays.by_name import Array, LazyArrays
from tosa_convert.golden.arrays.npz import slots
from tosa_convert.golden.backends.isolated import with_slot_types
from tosa_convert.golden.backends.runners import Record
from tosa_convert.golden.checking.check import reference_outputs
from tosa_convert.golden.running.programs import input_slots
from tosa_convert.golden.running.run_graph import signature
from tosa_convert.golden.running.run_options import Progress
from tosa_convert.graph.derived import computed_tensors, extract, needed_operators
from tosa_convert.graph.model import Graph, operator_path
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


# -- recognise the results that a backend recorded without names among the tensors of a model ------

#: Elements of an array that its fingerprint holds.
SAMPLE: Final = 2048


def align(
    graph: Graph,
    golden: Iterable[tuple[str, Array]],
    steps: Sequence[Callable[[], Array]],
) -> dict[str, int]:
    """Match unnamed steps with tensors of the graph: same type and shape, in order, nearest in value.

    golden: the tensors with their arrays, one at a time; no array is stored.
    Returns tensor -> index of the step. Steps without a matching tensor are left out.
    """
    order = {name: index for index, (_, name) in enumerate(computed_tensors(graph))}
    fingerprints = [_Fingerprint(read()) for read in steps]
    by_type: dict[Any, list[int]] = {}
    for number, fingerprint in enumerate(fingerprints):
        by_type.setdefault(fingerprint.type, []).append(number)
    distances: list[list[tuple[int, float]]] = [[] for _ in steps]
    names: dict[int, str] = {}
    for name, array in golden:
        if name in order:
            names[order[name]] = name
            fingerprint = _Fingerprint(array)
            for number in by_type.get(fingerprint.type, ()):
                distance = fingerprint.distance(fingerprints[number])
                distances[number].append((order[name], distance))
    matches: dict[str, int] = {}
    position = 0
    for number, row in enumerate(distances):
        best: tuple[float, int] | None = None
        for index, distance in sorted(row):
            # Of equally near tensors the last: what a converter appends to an operator belongs to it.
            if index >= position and (best is None or distance <= best[0]):
                best = (distance, index)
        if best is not None and best[0] <= fingerprints[number].limit:
            matches[names[best[1]]] = number
            position = best[1] + 1
    return matches


class _Fingerprint:
    """The fingerprint of an array, to recognise its tensor: type and shape, a hash, and a sample.

    limit: the largest distance between two arrays of one tensor: a tenth of the array's spread.
    """

    def __init__(self, array: Array) -> None:
        self.type = (str(array.dtype), array.shape)
        flat = np.ascontiguousarray(array).reshape(-1)
        self.hash = hashlib.sha256(flat.view(np.uint8).data).digest()
        if flat.size > SAMPLE:
            # At random: evenly spaced elements might all be of one channel.
            flat = flat[np.random.default_rng(0).integers(0, flat.size, SAMPLE)]
        self.sample = flat.astype(np.float64)
        with np.errstate(all="ignore"):
            self.limit = 0.1 * float(np.std(self.sample)) + 1.0 if flat.size else 1.0

    def distance(self, other: _Fingerprint) -> float:
        """0 for equal arrays only, else about the mean of the absolute differences."""
        if self.hash == other.hash:
            return 0.0
        with np.errstate(all="ignore"):
            mean = float(np.mean(np.abs(self.sample - other.sample)))
        return max(mean, sys.float_info.min)


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
        aligned: dict[str, int] = {}
        self.result.notes += backend.notes
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
