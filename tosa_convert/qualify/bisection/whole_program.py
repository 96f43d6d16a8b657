"""Why a program is wrong as a whole although each of its operators is right by itself.

The program runs again: other results for the same inputs are nondeterminism. Else the smallest part
that is wrong on golden operands is searched. Its operators run one at a time, each on the results of
those before. One that breaks its own rule there is wrong by itself. If none does, and they are also
wrong together, then their errors add up; if they are not, then they are wrong only when the backend
sees them together: it fuses them, for example.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.arrays.by_name import (
    Array,
    LazyArrays,
    differing_elements,
    scratch_folder,
    write_npy,
)
from tosa_convert.golden.arrays.npz import Slot, slots
from tosa_convert.golden.backends.isolated import part_of
from tosa_convert.golden.backends.runners import Runner
from tosa_convert.golden.running.programs import input_slots
from tosa_convert.graph.derived import computed_tensors, extract, needed_operators
from tosa_convert.graph.model import Graph
from tosa_convert.qualify.bisection.result import Case, Kind
from tosa_convert.qualify.bisection.single_operators import REFUSED, Group, Operators
from tosa_convert.qualify.reduction.shrinking import Cut, Shrinker
from tosa_convert.records import dataclass

#: How often a program runs to see whether its results change.
REPEATS: Final = 4


@dataclass(frozen=True, slots=True)
class Found:
    """Why a program is wrong: the kind of fault, the operators, and what shows it."""

    kind: Kind
    indices: list[int]
    case: Case
    note: str = ""


def repeated(
    backend: Runner, graph: Graph, names: list[str], given: Mapping[str, Array], cuts: list[str]
) -> tuple[dict[str, Array], dict[str, Array], set[str]]:
    """Run REPEATS times on the same inputs.

    Return the first results, the first ones that differ from them, and the keys of those that change.
    """
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


def changed_keys(one: Mapping[str, Array], other: Mapping[str, Array]) -> set[str]:
    """Return the keys of arrays that are not equal bit for bit."""
    return {key for key in one if key not in other or not _same(one[key], other[key])}


def _same(one: Array, other: Array) -> bool:
    """Return whether two arrays are equal bit for bit."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return not differing_elements(one, other)


class WholeProgram:
    """Searches the smallest part of a program that a backend computes wrongly.

    folder: where golden tensors are stored.
    """

    def __init__(self, operators: Operators, backend: Runner, folder: Path) -> None:
        self.operators, self.backend = operators, backend
        self.graph = operators.graph
        self.golden = self._store(folder)
        self.failing: dict[Cut, Case] = {}

    def _store(self, folder: Path) -> LazyArrays:
        """Store every computed tensor in a file."""
        files: dict[str, Path] = {}
        for batch in self.operators.golden(self.operators.computed):
            for key in self.operators.keys(name for _, name in batch.tensors):
                files[key] = folder / f"golden{len(files)}.npy"
                array = np.ascontiguousarray(batch.golden[key])
                write_npy(files[key], array.reshape(-1).view(np.uint8))
        by_key: dict[str, Slot] = {
            slot.key: slot
            for name in self.operators.computed
            for slot in slots(self.graph.main, name)
        }

        def read(key: str) -> Array:
            slot = by_key[key]
            data: Array = np.load(files[key])
            return data.view(slot.dtype.numpy).reshape(slot.shape)

        return LazyArrays(files, read)

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
        """Run a part on golden operands; None if the backend refuses it.

        Only a part that is wrong has arrays.
        """
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
        """Return the golden array of a tensor or input."""
        inputs = self.operators.inputs
        return inputs[key] if key in inputs else self.golden[key]

    def in_steps(self, cut: Cut) -> tuple[bool | None, tuple[int, Case] | None]:
        """Run a part's operators one at a time, each on the backend's results of those before.

        Return whether its outputs are right then, None if the backend refuses one of them, and the
        first operator that breaks its own rule on these operands, with its case.
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
