"""Each operator of a program judged by itself, on operands that are not in doubt.

A backend that computes gets golden operands, and its result is judged by the operator's own rule. Of a
backend that only recorded results, the recorded operands are given to the reference model. Operators
whose results are no operands of one another run together: two or three runs judge all of a batch.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.accuracy.comparison import Comparison
from tosa_convert.golden.accuracy.criteria import Tolerances
from tosa_convert.golden.accuracy.verdict import judge, origins
from tosa_convert.golden.arrays.by_name import Array, LazyArrays, scratch_folder, subfolder
from tosa_convert.golden.arrays.npz import SCALE_SUFFIX, slots
from tosa_convert.golden.backends.runners import Runner
from tosa_convert.golden.running.intermediates import BATCH_TENSORS, Batch, batches
from tosa_convert.golden.running.programs import input_slots
from tosa_convert.golden.running.run_graph import run_in_folder
from tosa_convert.golden.running.run_options import RunOptions
from tosa_convert.graph.derived import computed_tensors, extract
from tosa_convert.graph.model import Graph
from tosa_convert.graph.opset import CONST, CONST_SHAPE, VARIABLE_READ, VARIABLE_WRITE
from tosa_convert.qualify.bisection.result import Case

#: Code of the error for a part that the backend does not compute.
REFUSED: Final = "backend-refused"


@dataclass(slots=True)
class Group:
    """Results that one run computes, and the tensors that it is given.

    indices: the operators of each result.
    """

    names: list[str] = field(default_factory=list)
    cuts: dict[str, None] = field(default_factory=dict)
    indices: dict[str, list[int]] = field(default_factory=dict)

    def takes(self, names: Iterable[str], cuts: Container[str]) -> bool:
        """Return whether these results can be computed beside the others."""
        return not any(name in self.cuts for name in names) and not any(
            name in cuts for name in self.names
        )

    def add(self, names: list[str], cuts: Iterable[str], indices: list[int]) -> None:
        """Add results and their operands."""
        self.names += names
        self.cuts.update(dict.fromkeys(cuts))
        self.indices.update(dict.fromkeys(names, indices))


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on the results of a group, what they were computed from, and the results if wrong."""

    group: Group
    comparison: Comparison
    given: Mapping[str, Array]
    actual: Mapping[str, Array] = field(default_factory=dict)


class Operators:
    """The operators of a graph's main block, and the values that each takes."""

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
        self.order = computed_tensors(graph)
        self.computed = {name for _, name in self.order}
        operators = graph.main.operators
        self.producers = {name: i for i, op in enumerate(operators) for name in op.outputs}
        self.origins = origins(graph)
        self.largest_batch = 0
        #: Operators that the backend refuses alone -> its reasons.
        self.refused: dict[int, str] = {}
        self._runs = 0

    def golden(self, names: Container[str]) -> Iterator[Batch]:
        """Golden tensors in topological order, up to `batch_bytes` at a time."""
        wanted = [(index, name) for index, name in self.order if name in names]
        for batch in batches(
            self.graph, self.inputs, wanted, self.options, batch_bytes=self.batch_bytes
        ):
            self.largest_batch = max(self.largest_batch, batch.nbytes)
            yield batch

    def keys(self, names: Iterable[str]) -> list[str]:
        """List the keys of the arrays of tensors."""
        return [slot.key for name in names for slot in slots(self.graph.main, name)]

    def tensor(self, key: str) -> str:
        """Return the tensor that an array belongs to."""
        return key if key in self.producers else key.removesuffix(SCALE_SUFFIX)

    def operands(self, index: int, known: Container[str]) -> tuple[list[str], list[int]]:
        """Return the nearest known tensors that an operator depends on, and the operators after them.

        A read of a variable depends on the write before it.
        """
        operators = self.graph.main.operators
        cuts: dict[str, None] = {}
        between = {index}
        pending = [index]
        while pending:
            current = pending.pop(0)
            names = list(operators[current].inputs)
            if operators[current].spec is VARIABLE_READ:
                writes = [
                    op.inputs[0]
                    for op in operators[:current]
                    if op.spec is VARIABLE_WRITE and op.outputs[0] == names[0]
                ]
                names = writes[-1:]
            for name in names:
                producer = self.producers.get(name)
                if producer is None or producer in between:
                    continue
                if name in self.computed and name in known:
                    cuts[name] = None
                else:
                    between.add(producer)
                    pending.append(producer)
        return list(cuts), self.without_constants(between)

    def without_constants(self, indices: Iterable[int]) -> list[int]:
        """Sort indices of operators, and leave out those of constants."""
        operators = self.graph.main.operators
        return [i for i in sorted(indices) if operators[i].spec not in (CONST, CONST_SHAPE)]

    def groups(self, names: list[str], known: Container[str]) -> list[Group]:
        """Group the tensors that can be computed from known ones in one run."""
        result: list[Group] = []
        by_operator: dict[int, list[str]] = {}
        for name in names:
            by_operator.setdefault(self.producers[name], []).append(name)
        for index, own in by_operator.items():
            cuts, indices = self.operands(index, known)
            group = next((g for g in result if g.takes(own, cuts)), None)
            if group is None:
                result.append(group := Group())
            group.add(own, cuts, indices)
        return result

    def group_of(self, indices: Iterable[int], names: Container[str] | None = None) -> Group:
        """Return operators as a group.

        names: the results to compute, if not all.
        """
        group = Group()
        for index in sorted(indices):
            results = self.graph.main.operators[index].outputs
            own = [n for n in results if n in self.computed and (names is None or n in names)]
            group.add(own, *self.operands(index, self.computed))
        return group

    def judge_runner(
        self, backend: Runner, batch: Batch, names: list[str], folder: Path
    ) -> Iterator[Judged]:
        """Judge the operators of a batch's tensors.

        A group that the backend refuses is split; the operators that it refuses alone are in `refused`.
        """
        pending = self.groups(names, self.computed)
        while pending:
            group = pending.pop(0)
            try:
                yield self.run_group(backend, group, batch.golden, folder)
            except TosaConvertError as error:
                if error.code != REFUSED:
                    raise
                indices = list(dict.fromkeys(self.producers[name] for name in group.names))
                middle = len(indices) // 2
                if middle:
                    halves = indices[:middle], indices[middle:]
                    pending[:0] = [self.group_of(half, group.names) for half in halves]
                else:
                    self.refused[indices[0]] = error.findings[0].message

    def run_group(
        self, backend: Runner, group: Group, golden: Mapping[str, Array], folder: Path
    ) -> Judged:
        """Run a group on a backend with golden operands, and judge the results."""
        part = extract(self.graph, group.names, group.cuts)
        given = self._given(part, golden)
        expected = LazyArrays(self.keys(group.names), golden.__getitem__)
        self._runs += 1
        own = subfolder(folder, f"backend{self._runs}")
        actual = backend.compute(self.graph, group.names, given, list(group.cuts), own)
        comparison = self.judge(part, given, expected, actual)
        if comparison.ok:
            shutil.rmtree(own)
            return Judged(group, comparison, given)
        return Judged(group, comparison, given, actual)

    def alone(self, backend: Runner, group: Group, values: Mapping[str, Array]) -> Case | None:
        """Run a group on a backend and the reference on the same operands; None if it is refused."""
        cuts = list(group.cuts)
        part = extract(self.graph, group.names, cuts)
        given = {**self.inputs, **values}
        keys = self.keys(group.names)
        with scratch_folder() as folder:
            try:
                own = subfolder(folder, "backend")
                answer = backend.compute(self.graph, group.names, given, cuts, own)
            except TosaConvertError as error:
                if error.code != REFUSED:
                    raise
                return None
            found = {key: answer[key] for key in keys if key in answer}
            golden = run_in_folder(subfolder(folder, "reference"), part, given, self.options)
            expected = {key: golden[key] for key in keys}
        needed = {slot.key: given[slot.key] for slot in input_slots(part)}
        return Case(part, needed, expected, found, self.judge(part, needed, expected, found))

    def of_whole(self, backend: Runner, names: list[str], folder: Path) -> Mapping[str, Array]:
        """Run the whole program on a backend, with these tensors as outputs."""
        return backend.compute(self.graph, names, self.inputs, [], folder)

    def _given(self, part: Graph, values: Mapping[str, Array]) -> LazyArrays:
        """Return all inputs of the graph, and the tensors that became inputs."""
        needed = {slot.key for slot in input_slots(part)}
        return LazyArrays(
            (*self.inputs, *needed),
            lambda key: self.inputs[key] if key in self.inputs else values[key],
        )

    def judge(
        self,
        part: Graph,
        given: Mapping[str, Array],
        expected: Mapping[str, Array],
        actual: Mapping[str, Array],
    ) -> Comparison:
        """Compare by the operators' rules; leave out tensors that were not requested."""
        wanted = LazyArrays((key for key in actual if key in expected), actual.__getitem__)
        return judge(
            part,
            given,
            expected,
            wanted,
            tolerances=self.tolerances,
            options=self.options,
            at=self.origins,
        )

    def judge_record(
        self, recorded: Mapping[str, Array], names: Container[str] | None = None
    ) -> Iterator[list[Judged]]:
        """Judge the operators between recorded tensors, batch by batch.

        names: the tensors to judge, if not all of them.
        """
        wanted = recorded if names is None else names
        own = [name for _, name in self.order if name in recorded and name in wanted]
        for batch in self.split(own):
            result = []
            for group in self.groups(batch, recorded):
                comparison, _, given = self.judge_recorded_group(group, recorded, keep=False)
                result.append(Judged(group, comparison, given))
            yield result

    def judge_recorded_group(
        self, group: Group, recorded: Mapping[str, Array], *, keep: bool = True
    ) -> tuple[Comparison, dict[str, Array], LazyArrays]:
        """Judge recorded results. Return the verdict, what the reference computes, and the inputs.

        keep: return the reference's arrays, which are in memory then.
        """
        part = extract(self.graph, group.names, group.cuts)
        given = self._given(part, recorded)
        with scratch_folder() as folder:
            golden = run_in_folder(folder, part, given, self.options)
            keys = [key for key in self.keys(group.names) if key in recorded]
            expected = LazyArrays(keys, golden.__getitem__)
            comparison = self.judge(part, given, expected, recorded)
            return comparison, dict(expected) if keep else {}, given

    def split(self, names: list[str]) -> Iterator[list[str]]:
        """Split the tensors into batches of at most `batch_bytes`, where single ones allow it."""
        batch: list[str] = []
        nbytes = 0
        for name in names:
            own = sum(slot.nbytes for slot in slots(self.graph.main, name))
            if batch and (nbytes + own > self.batch_bytes or len(batch) >= BATCH_TENSORS):
                self.largest_batch = max(self.largest_batch, nbytes)
                yield batch
                batch, nbytes = [], 0
            batch.append(name)
            nbytes += own
        if batch:
            self.largest_batch = max(self.largest_batch, nbytes)
            yield batch


def smallest_group(
    operators: Operators, index: int, group: Group, is_wrong: Callable[[Group], bool]
) -> Group:
    """Leave out operators of a group as long as one of them is wrong beside the others."""
    others = list(dict.fromkeys(operators.producers[name] for name in group.names))
    others.remove(index)
    size = len(others)
    while size:
        for start in reversed(range(0, len(others), size)):
            rest = others[:start] + others[start + size :]
            smaller = operators.group_of([index, *rest], group.names)
            if is_wrong(smaller):
                others, group = rest, smaller
        size //= 2
    return group


# -- the intermediate results that a backend gives when it runs the whole program ------------------
# They are asked for as further outputs. A backend that refuses some of them is asked for the
# others.

#: Runs of the whole program that may be refused before no more results are asked for.
REFUSALS: Final = 24


def own_values(
    operators: Operators,
    backend: Runner,
    wanted: Container[str],
    first: Mapping[str, Array],
    folder: Path,
) -> LazyArrays:
    """Run a program with its intermediate results as further outputs."""
    outputs = list(dict.fromkeys(operators.graph.main.outputs))
    names = [name for _, name in operators.order if name in wanted and name not in outputs]
    pending = list(operators.split(names)) or [[]]
    found: dict[str, Mapping[str, Array]] = {}
    runs = refusals = 0
    while pending and refusals < REFUSALS:
        asked, runs = pending.pop(0), runs + 1
        own = subfolder(folder, f"own{runs}")
        try:
            answer = operators.of_whole(backend, [*outputs, *asked], own)
        except TosaConvertError as error:
            if error.code not in (REFUSED, "backend-failed"):
                raise
            refusals += 1
            middle = len(asked) // 2
            if middle:
                pending += asked[:middle], asked[middle:]
            continue
        for key in operators.keys(n for n in (*outputs, *asked) if n in operators.computed):
            if key in answer:
                found.setdefault(key, answer)
    if not found:
        keys = operators.keys(name for name in outputs if name in operators.computed)
        found = {key: first for key in keys if key in first}
    return LazyArrays(found, lambda key: found[key][key])
