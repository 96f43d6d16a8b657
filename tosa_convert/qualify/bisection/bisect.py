"""Search, for `bisect`, the operators at which a backend that computes goes wrong.

The program runs as it is first, and is judged as `check` judges it. Then each operator gets golden
operands, and is judged by its own rule. Where the backend refuses it as a part, and where all operators
are right in this way and the program is wrong, it is judged on the operands that the backend had itself.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Container, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.golden.accuracy.comparison import Comparison
from tosa_convert.golden.accuracy.criteria import NO_TOLERANCES, Tolerances
from tosa_convert.golden.arrays import (
    Array,
    Arrays,
    LazyArrays,
    StoredArrays,
    differing_elements,
    scratch_folder,
)
from tosa_convert.golden.backends.isolated import part_of, refuse_reader
from tosa_convert.golden.backends.runners import Backend, Record, Runner, as_backend
from tosa_convert.golden.checking.check import Reference, with_initial_states
from tosa_convert.golden.edges.edge_inputs import chosen_inputs
from tosa_convert.golden.running.programs import (
    AS_IT_IS,
    STATE_PREFIX,
    as_graph,
    input_slots,
    with_final_states,
    writes_variables,
)
from tosa_convert.golden.running.run import (
    BATCH_BYTES,
    ITERATIONS,
    Batch,
    region_runs,
    why_not_runnable,
)
from tosa_convert.golden.running.run_options import TIMEOUT, Engine, Progress, RunOptions
from tosa_convert.graph.derived import computed_tensors, extract, needed_operators
from tosa_convert.graph.model import Graph
from tosa_convert.io.keywords import ReadKeywords, takes_keywords
from tosa_convert.io.options import ReadOptions
from tosa_convert.qualify.bisection.judge_operators import (
    REFUSED,
    Bisection,
    Case,
    Divergence,
    Group,
    Judged,
    Kind,
    Operators,
    RecordSearch,
    Search,
    own_values,
    smallest_group,
)
from tosa_convert.qualify.reduction.cutting import Cut, Shrinker

if TYPE_CHECKING:
    from typing_extensions import Unpack

# -- why a program is wrong as a whole although each of its operators is right by itself -----------
# The program runs again: other results for the same inputs are nondeterminism. Else the smallest
# part that is wrong on golden operands is searched. Its operators run one at a time, each on the
# results of those before. One that breaks its own rule there is wrong by itself. If none does,
# and they are also wrong together, then their errors add up; if they are not, then they are wrong
# only when the backend sees them together: it fuses them, for example.

#: How often a program runs to see whether its results change.
REPEATS: Final = 4
#: Further runs of a program that was right, if there is time: a fault in one of three runs is not seen
#: once in a hundred times.
_RUNS_IF_RIGHT: Final = 11
_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Found:
    """Say why a program is wrong: the kind of fault, the operators, and what shows it."""

    kind: Kind
    indices: list[int]
    case: Case
    note: str = ""


def repeated(
    backend: Runner, graph: Graph, names: list[str], given: Arrays, cuts: list[str]
) -> tuple[dict[str, Array], dict[str, Array], set[str]]:
    """Run REPEATS times; return the first results, the first that differ, and the keys that change."""
    first: dict[str, Array] = {}
    other: dict[str, Array] = {}
    changing: set[str] = set()
    for number in range(REPEATS):
        with scratch_folder() as folder:
            answer = backend.compute(graph, names, given, cuts, folder)
            if number == 0:
                first = {key: answer[key] for key in answer}
                continue
            changed = changed_keys(first, answer)
            if changed and not changing:
                other = {key: answer[key] for key in answer}
            changing |= changed
    return first, other, changing


def changed_keys(one: Arrays, other: Arrays) -> set[str]:
    """Return the keys of arrays that are not equal bit for bit."""
    return {key for key in one if key not in other or not _same(one[key], other[key])}


def _same(one: Array, other: Array) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return not differing_elements(one, other)


class WholeProgram:
    """Search the smallest part of a program that a backend computes wrongly.

    folder: where golden tensors are stored.
    """

    def __init__(self, operators: Operators, backend: Runner, folder: Path) -> None:
        self.operators, self.backend = operators, backend
        self.graph = operators.graph
        self.golden = StoredArrays(folder)
        for batch in operators.golden(operators.computed):
            for key in operators.keys(name for _, name in batch.tensors):
                self.golden.store(key, batch.golden[key])
        self.failing: dict[Cut, Case] = {}

    def explain(
        self, wrong: list[str], outputs: list[str], doubtful: Container[int]
    ) -> Found | None:
        """Find the smallest part that is wrong, and say why."""
        whole: Cut = (tuple(wrong), ())
        shrinker = Shrinker(self.graph, self.fails)
        if not shrinker.fails(whole):
            whole = (tuple(outputs), ())
            if len(outputs) == len(wrong) or not shrinker.fails(whole):
                return None
        best = shrinker.shrink(whole)
        indices = self.operators.without_constants(needed_operators(self.graph, *best))
        case = self.failing[best]
        note = ""
        if len(best[0]) > 1:
            names = ", ".join(best[0])
            note = f"it is wrong only if these outputs are asked for together: {names}"
        elif best == whole and len(indices) > 1:
            note = "it is wrong only in the whole program: every smaller part is right"
        again = self.judged(best)
        if again is not None and again.comparison.ok:
            return Found("nondeterministic", indices, case, note)
        if len({index for index, _ in computed_tensors(case.graph)}) == 1:
            return Found("by-itself", indices, case, note)
        are_right, step = self.in_steps(best)
        if step is not None:
            return Found("by-itself", [step[0]], step[1])
        if are_right is None and any(index in doubtful for index in indices):
            return Found("by-itself", indices, case, note)
        return Found("within-rules" if are_right is False else "in-context", indices, case, note)

    def fails(self, cut: Cut) -> bool:
        """Return whether a part is wrong; one that the backend refuses is not."""
        found = self.judged(cut)
        if found is None or found.comparison.ok:
            return False
        self.failing = {cut: found}
        return True

    def judged(self, cut: Cut) -> Case | None:
        """Run a part on golden operands; None if it is refused. Only a part that is wrong has arrays."""
        part = part_of(self.graph, cut[0], cut[1])
        keys = [slot.key for slot in input_slots(part)]
        given = LazyArrays((*self.operators.inputs, *keys), self.value)
        names = [name for name in cut[0] if name in self.operators.computed]
        expected = LazyArrays(self.operators.keys(names), self.value)
        with scratch_folder() as folder:
            try:
                found = self.backend.compute(self.graph, list(cut[0]), given, list(cut[1]), folder)
            except TosaConvertError as error:
                if error.code != REFUSED:
                    raise
                return None
            comparison = self.operators.judge(part, given, expected, found)
            if comparison.ok:
                return Case(part, {}, {}, {}, comparison)
            inputs = {key: given[key] for key in keys}
            actual = {key: found[key] for key in expected if key in found}
            return Case(part, inputs, dict(expected), actual, comparison)

    def value(self, key: str) -> Array:
        inputs = self.operators.inputs
        return inputs[key] if key in inputs else self.golden[key]

    def in_steps(self, cut: Cut) -> tuple[bool | None, tuple[int, Case] | None]:
        """Run a part's operators one at a time, each on the backend's results of those before.

        Return whether its outputs are right then, None if the backend refuses one of them, and the first
        operator that breaks its own rule on these operands, with its case.
        """
        part = extract(self.graph, *cut)
        given = {slot.key: self.value(slot.key) for slot in input_slots(part)}
        values = dict(given)
        inner = {name for _, name in computed_tensors(part)}
        known = (inner | set(cut[1])) & self.operators.computed
        done: set[int] = set()
        for name in (name for _, name in self.operators.order if name in inner):
            index = self.operators.producers[name]
            if index in done:
                continue
            done.add(index)
            names = [n for n in self.graph.main.operators[index].outputs if n in inner]
            group = Group()
            group.add(names, *self.operators.operands(index, known))
            step = self.operators.alone(self.backend, group, values)
            if step is None:
                return None, None
            if not step.comparison.ok:
                return False, (index, step)
            values |= step.found
        expected = {key: self.value(key) for key in self.operators.keys(cut[0])}
        found = {key: values[key] for key in expected}
        return self.operators.judge(part, given, expected, found).ok, None

    def in_larger_part(self, index: int) -> tuple[list[int], Case] | None:
        """Judge an operator that the backend refuses alone together with more and more before it.

        Return the operators of the first part that the backend computes, and the part as a case.
        """
        names = tuple(self.operators.group_of([index]).names)
        known = set(self.operators.computed)
        cuts, _ = self.operators.operands(index, known)
        levels = 1
        while cuts:
            for _ in range(levels):
                known -= set(cuts)
                cuts, between = self.operators.operands(index, known)
            found = self.judged((names, tuple(cuts)))
            if found is not None:
                return between, found
            levels *= 2
        return None


AFTER_OTHERS: Final = (
    "its results depend on the run before, and are right if that had the same operands"
)


class RunnerSearch(Search):
    """Search on a backend that computes; see `Search`."""

    is_region = False
    #: Operators that no part could judge.
    unjudged: AbstractSet[int] = frozenset()

    def search(self, backend: Runner) -> Bisection:
        """Judge each operator by itself, and explain the outputs if none is wrong."""
        self.judge_operators(backend)
        if self.operators.refused and (self.find_all or self.result.first is None):
            self.judge_refused(backend)
        outputs = self.result.outputs
        if outputs is not None and not outputs.ok:
            if self.result.first is None:
                self.explain_outputs(backend)
            elif self.find_all:
                self.judge_own_values(backend)
        elif self.result.first is None and outputs is not None and not self.is_region:
            self.judge_after_other_runs(backend)
            if self.result.first is None:
                self.judge_further_runs(backend)
        self.note_what_inherits()
        return self.result

    def search_region(self, backend: Runner) -> Bisection:
        """Search a region, whose outputs are not judged yet."""
        self.is_region = True
        if not self.graph.main.outputs:
            return self.search(backend)
        own = self.operators
        tolerances = own.tolerances.restricted_to([*self.graph.main.outputs])
        with scratch_folder() as folder:
            reference = Reference(self.graph, own.inputs, own.options, tolerances)
            self.first, self.result.outputs = reference.run(backend, folder)
            return self.search(backend)

    def judge_operators(self, backend: Runner) -> None:
        for batch in self.operators.golden(self.operators.computed):
            names = [name for _, name in batch.tensors]
            with scratch_folder() as folder:
                wrong: dict[int, Judged] = {}
                for judged in self.operators.judge_runner(backend, batch, names, folder):
                    self.refuse_missing(judged.comparison, backend)
                    self.result.compared += len(judged.comparison.tensors)
                    wrong |= self.wrong_operators(judged)
                for index in sorted(wrong):
                    self.add(self.examined(backend, index, batch, folder, wrong[index]))
                    if not self.find_all:
                        others = sorted(wrong.keys() - self.named())
                        self.result.suspects = list(map(self.path, others))
                        return
            if self.progress is not None:
                self.progress(batch.tensors[-1][0] + 1, len(self.graph.main.operators))

    def refuse_missing(self, comparison: Comparison, backend: Runner) -> None:
        if comparison.missing:
            message = f"it did not return the tensor {comparison.missing[0]!r}"
            raise fail("backend-failed", backend.name, message)

    def examined(
        self, backend: Runner, index: int, batch: Batch, folder: Path, judged: Judged | None
    ) -> Divergence:
        """Describe the divergence of an operator: it runs alone, more than once.

        judged: the group in which it was wrong; None if its results changed from run to run there.
        """
        alone = self.case(backend, self.operators.group_of([index]), batch)
        if alone is not None and not alone[1] and not alone[0].comparison.ok:
            operator = self.graph.main.operators[index]
            inner = self.search_regions(backend, index, batch) if operator.spec.regions else None
            return inner or self.divergence([index], alone[0], "by-itself")
        if judged is not None and (alone is None or not alone[1]):
            found = self.beside_others(
                backend, index, batch, folder, judged.group, is_right_alone=alone is not None
            )
            if found is not None:
                return found
        case = None if alone is None else alone[0]
        if judged is not None and (case is None or case.comparison.ok):
            case = self.seen(index, judged, batch)
        assert case is not None
        return self.divergence([index], case, "nondeterministic")

    def case(self, backend: Runner, group: Group, batch: Batch) -> tuple[Case, set[str]] | None:
        """Run a group more than once; None if the backend refuses it.

        Return it as a case, and the keys of results that change from run to run.
        """
        names, cuts = group.names, list(group.cuts)
        part = extract(self.graph, names, cuts)
        needed = {slot.key: batch.golden[slot.key] for slot in input_slots(part)}
        given = {**self.operators.inputs, **needed}
        try:
            actual, other, changing = repeated(backend, self.graph, names, given, cuts)
        except TosaConvertError as error:
            if error.code != REFUSED:
                raise
            return None
        expected = {key: batch.golden[key] for key in self.operators.keys(names)}
        comparison = self.operators.judge(part, needed, expected, actual)
        if comparison.ok and changing:
            actual = other
            comparison = self.operators.judge(part, needed, expected, actual)
        return Case(part, needed, expected, actual, comparison), changing

    def seen(self, index: int, judged: Judged, batch: Batch) -> Case:
        """Return an operator as a case with the wrong results that it had among others, once."""
        group = self.operators.group_of([index])
        part = extract(self.graph, group.names, list(group.cuts))
        needed = {slot.key: batch.golden[slot.key] for slot in input_slots(part)}
        expected = {key: batch.golden[key] for key in self.operators.keys(group.names)}
        actual = {key: judged.actual[key] for key in expected if key in judged.actual}
        comparison = self.operators.judge(part, needed, expected, actual)
        return Case(part, needed, expected, actual, comparison)

    def beside_others(
        self,
        backend: Runner,
        index: int,
        batch: Batch,
        folder: Path,
        group: Group,
        *,
        is_right_alone: bool,
    ) -> Divergence | None:
        """Describe the divergence of an operator that is wrong only beside others; None if it varies."""

        def is_wrong(group: Group) -> bool:
            try:
                judged = self.operators.run_group(backend, group, batch.golden, folder)
            except TosaConvertError as error:
                if error.code != REFUSED:
                    raise
                return False
            return index in self.wrong_operators(judged)

        if not is_wrong(group):
            return None
        group = smallest_group(self.operators, index, group, is_wrong)
        indices = {i for between in group.indices.values() for i in between}
        found = self.case(backend, group, batch)
        if found is None or found[1] or found[0].comparison.ok or len(indices) < 2:
            return None
        if is_right_alone:
            return self.divergence(sorted(indices), found[0], "in-context")
        note = f"{self.path(index)} was judged beside others: the backend refuses it alone"
        self.result.notes.append(note)
        return self.divergence([index], found[0], "by-itself")

    def search_regions(self, backend: Runner, index: int, batch: Batch) -> Divergence | None:
        """Find the wrong operator inside an operator with regions, each region given golden values."""
        op = self.graph.main.operators[index]
        path = self.path(index)
        reason = why_not_runnable(self.graph, op)
        own = self.operators
        try:
            for region in region_runs(self.graph, index, batch.golden, options=own.options):
                operators = Operators(
                    region.graph, region.inputs, own.tolerances, own.options, own.batch_bytes
                )
                runner = backend.inside(op.outputs[0], region.attribute)
                inner = RunnerSearch(operators).search_region(runner)
                if inner.first is not None:
                    self.result.notes += inner.notes
                    for place, text in inner.refused.items():
                        self.result.refused[f"{path} {region.label} {place}"] = text
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

    def judge_refused(self, backend: Runner) -> None:
        """Judge the operators that the backend refuses alone, in the whole program or larger parts."""
        own = self.operators
        self.result.refused |= {self.path(i): text for i, text in own.refused.items()}
        unjudged = set(own.refused)
        with scratch_folder() as folder:
            groups = [own.group_of([index]) for index in sorted(unjudged)]
            results = {name for group in groups for name in group.names}
            wanted = results.union(*(group.cuts for group in groups))
            recorded = own_values(own, backend, wanted, self.first, folder)
            for batch in own.judge_record(recorded, results):
                for judged in batch:
                    single = {
                        own.producers[n] for n, row in judged.group.indices.items() if row[1:]
                    }
                    self.result.compared += len(judged.comparison.tensors)
                    for index in sorted(self.wrong_operators(judged)):
                        if index not in single:
                            self.add(self.recorded_divergence(judged, index, recorded))
                            if not self.find_all:
                                return
                    unjudged -= {own.producers[name] for name in judged.group.names} - single
            self.judge_in_larger_parts(backend, unjudged, folder)
        self.unjudged = unjudged
        if unjudged:
            some = ", ".join(self.path(index) for index in sorted(unjudged)[:12])
            more = f", and {len(unjudged) - 12} more" if len(unjudged) > 12 else ""
            note = f"not judged by themselves, as every part with them was refused: {some}{more}"
            self.result.notes.append(note)

    def judge_in_larger_parts(self, backend: Runner, unjudged: set[int], folder: Path) -> None:
        """Judge operators in parts that begin earlier; remove them from `unjudged`."""
        search = WholeProgram(self.operators, backend, folder) if unjudged else None
        for index in sorted(unjudged):
            assert search is not None
            found = search.in_larger_part(index)
            if found is None:
                continue
            indices, case = found
            unjudged.discard(index)
            self.result.compared += len(case.comparison.tensors)
            if not case.comparison.ok:
                doubtful = [i for i in indices if i in self.operators.refused]
                self.add(self.divergence(doubtful, case, "by-itself"))
                if not self.find_all:
                    return

    def explain_outputs(self, backend: Runner) -> None:
        """Explain wrong outputs of a program whose operators are all right by themselves."""
        graph, operators = self.graph, self.operators
        assert self.result.outputs is not None
        self.refuse_missing(self.result.outputs, backend)
        names = list(dict.fromkeys(graph.main.outputs))
        later, _, changing = repeated(backend, graph, names, operators.inputs, [])
        if changing:
            self.add(self.changing(backend))
            return
        if changed_keys(self.first, later):
            if self.compared_again(later).ok:
                makers = {operators.producers[name] for name in self.failing_tensors()}
                self.add(self.divergence(sorted(makers), self.whole_case(self.first), "first-run"))
                return
            note = "the first run gave other results than those after it, which are wrong, too"
            self.result.notes.append(note)
        in_whole = self.judge_own_values(backend)
        if self.result.first is not None:
            return
        keys = [tensor.name for tensor in self.result.outputs.failures]
        wrong = self.failing_tensors()
        with scratch_folder() as folder:
            search = WholeProgram(operators, backend, folder)
            found = search.explain(wrong, names, operators.refused) if wrong else None
        if found is not None:
            self.add(self.divergence(found.indices, found.case, found.kind))
            self.result.notes += [found.note] if found.note else []
            return
        states = [key.removeprefix(STATE_PREFIX) for key in keys if key.startswith(STATE_PREFIX)]
        self.add(in_whole or self.as_a_whole(states, later))

    def compared_again(self, answer: Arrays) -> Comparison:
        own = self.operators
        reference = Reference(self.graph, own.inputs, own.options)
        reference.tolerances = own.tolerances.restricted_to([*reference.outputs])
        return reference.judge(answer)

    def judge_own_values(self, backend: Runner) -> Divergence | None:
        """Return the first operator that is wrong on the backend's own operands, and right alone."""
        in_whole = None
        done = self.named()
        with scratch_folder() as folder:
            recorded = own_values(
                self.operators, backend, self.operators.computed, self.first, folder
            )
            for batch in self.operators.judge_record(recorded):
                wrong: dict[int, Judged] = {}
                for judged in batch:
                    wrong |= self.wrong_operators(judged)
                for index in sorted(wrong.keys() - done):
                    found = self.recorded_divergence(wrong[index], index, recorded)
                    if len(found.operators) > 1:
                        continue
                    group = self.operators.group_of([index])
                    case = self.operators.alone(backend, group, found.case.inputs)
                    if case is None or not case.comparison.ok:
                        self.add(self.divergence([index], case or found.case, "by-itself"))
                        if not self.find_all:
                            return None
                    elif in_whole is None:
                        in_whole = self.divergence([index], found.case, "in-context")
        return in_whole

    def changing(self, backend: Runner) -> Divergence:
        """Find the first operator whose results change from run to run, or else the outputs' makers."""
        for batch in self.operators.golden(self.operators.computed):
            for group in self.operators.groups(
                [name for _, name in batch.tensors], self.operators.computed
            ):
                found = self.case(backend, group, batch)
                changed = set() if found is None else found[1]
                indices = {self.operators.producers[self.operators.tensor(key)] for key in changed}
                if found is not None and indices:
                    judged = Judged(group, found[0].comparison, {}, found[0].found)
                    with scratch_folder() as folder:
                        return self.examined(backend, min(indices), batch, folder, judged)
        own = self.operators
        names = self.failing_tensors() or [n for n in self.graph.main.outputs if n in own.producers]
        outputs = {own.producers[name] for name in names}
        return self.divergence(sorted(outputs), self.whole_case(self.first), "nondeterministic")

    def judge_further_runs(self, backend: Runner) -> None:
        """Run a program that was right again, as its results may be right by chance."""
        names = list(dict.fromkeys(self.graph.main.outputs))
        end = time.monotonic() + _SECONDS
        for number in range(2, _RUNS_IF_RIGHT + 2):
            if time.monotonic() > end:
                return
            with scratch_folder() as folder:
                answer = backend.compute(self.graph, names, self.operators.inputs, [], folder)
                changed = changed_keys(self.first, answer)
            if changed:
                text = f"run {number} of the whole program gave other results than the first"
                self.result.notes.append(f"{text}: check --repeat N compares N runs")
                self.add(self.changing(backend))
                return

    def judge_after_other_runs(self, backend: Runner) -> None:
        """Find an operator whose results depend on the operands of the run before."""
        own, names = self.operators, list(dict.fromkeys(self.graph.main.outputs))
        after = self.after_other_operands(backend, Group(names), own.inputs)
        if after is None or not changed_keys(self.first, after):
            return
        for batch in own.golden(own.computed):
            for group in own.groups([name for _, name in batch.tensors], own.computed):
                part = extract(self.graph, group.names, list(group.cuts))
                given = {slot.key: batch.golden[slot.key] for slot in input_slots(part)}
                found = self.after_other_operands(backend, group, {**own.inputs, **given})
                if found is None:
                    continue
                expected = {key: batch.golden[key] for key in own.keys(group.names)}
                judged = Judged(group, own.judge(part, given, expected, found), given, found)
                for index in sorted(self.wrong_operators(judged)):
                    self.result.notes.append(AFTER_OTHERS)
                    case = self.seen(index, judged, batch)
                    self.add(self.divergence([index], case, "nondeterministic"))
                    return

    def after_other_operands(
        self, backend: Runner, group: Group, given: Arrays
    ) -> dict[str, Array] | None:
        """Run a group on other operands, and return what it gives for these ones after that.

        None if the backend refuses it. The first run may fail: the operands are anything.
        """
        names, cuts = group.names, list(group.cuts)
        turned = {key: _turned(array) for key, array in given.items()}
        with contextlib.suppress(TosaConvertError), scratch_folder() as folder:
            backend.compute(self.graph, names, turned, cuts, folder)
        try:
            with scratch_folder() as folder:
                answer = backend.compute(self.graph, names, given, cuts, folder)
                return {key: answer[key] for key in answer}
        except TosaConvertError as error:
            if error.code != REFUSED:
                raise
            return None

    def as_a_whole(self, states: list[str], actual: Arrays) -> Divergence:
        """Describe wrong states whose tensors are right, or outputs that are wrong only all at once."""
        writes = [
            index
            for index, op in enumerate(self.graph.main.operators)
            if writes_variables(self.graph, op, states)
        ]
        case = self.whole_case(actual)
        if states and not self.failing_tensors():
            written = [n for i in writes for n in self.graph.main.operators[i].inputs]
            doubtful = self.unjudged & {*self.needed(written)}
            return self.divergence(sorted({*writes, *doubtful}), case, "by-itself")
        return self.divergence(self.needed(self.failing_tensors()), case, "in-context")


def _turned(array: Array) -> Array:
    """Return an array with its elements in the opposite order, or zeros if that is the same."""
    turned = np.ascontiguousarray(array.reshape(-1)[::-1]).reshape(array.shape)
    return turned if turned.tobytes() != array.tobytes() else np.zeros_like(array)


# -- the public function ---------------------------------------------------------------------------


@takes_keywords(ReadKeywords)
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
    **options: Unpack[ReadKeywords],
) -> Bisection:
    """Explain what `check` finds: name the operators at which a backend goes wrong, and how.

    Further keywords are those of `tosa_convert.load`: how a file or module is read.

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
        read: how to read a file or module, as a value.

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
    graph = as_graph(program, read, options)
    arrays = chosen_inputs(graph, inputs, random, edges=edges, variables=variables)
    backend = as_backend(against, graph, arrays, timeout)
    graph, backend = with_initial_states(graph, backend, variables or {})
    run_options = RunOptions(timeout=timeout, engine=engine)
    operators = Operators(graph, arrays, tolerances, run_options, batch_bytes)
    states = [STATE_PREFIX + name for name in with_final_states(graph)[1]]
    tolerances.refuse_unmatched([*operators.keys(operators.computed), *states])
    here = tolerances.restricted_to([*graph.main.outputs, *states])
    reference = Reference(graph, arrays, replace(run_options, progress=progress), here)
    search: RecordSearch | RunnerSearch
    if isinstance(backend, Record):
        search = RecordSearch(operators, find_all, progress)
        recorded = search.recorded(backend)
        search.result.outputs = reference.check(backend)
        search.search(recorded)
    else:
        with scratch_folder() as folder:
            first, outputs = reference.run(backend, folder)
            refuse_reader(backend)
            search = RunnerSearch(operators, find_all, progress, first)
            search.result.outputs = outputs
            search.search(backend)
    search.result.largest_batch = operators.largest_batch
    return search.result
