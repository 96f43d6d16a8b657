"""Why a program is wrong as a whole although each of its operators is right by itself.

The program runs again: other results for the same inputs are nondeterminism. Else the smallest part
that is wrong on golden operands is searched. If its operators, run one at a time, each on the results
of those before, are also wrong together, then their errors add up; if not, then they are wrong only
when the backend sees them together: it fuses them, for example.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from tosa_convert.golden.accuracy.comparison import Comparison
from tosa_convert.golden.accuracy.verdict import judge
from tosa_convert.golden.arrays.by_name import Array, LazyArrays, differing_elements
from tosa_convert.golden.arrays.scratch import scratch_folder, write_npy
from tosa_convert.golden.arrays.slots import Slot, slots
from tosa_convert.golden.backends.runners import Runner
from tosa_convert.golden.bisection.cases import Case, Kind
from tosa_convert.golden.bisection.single_operators import Operators
from tosa_convert.golden.reduction.shrinking import Cut, Shrinker
from tosa_convert.golden.running.programs import input_slots
from tosa_convert.golden.running.run_graph import run_in_folder
from tosa_convert.graph.extract import computed_tensors, extract, needed_operators
from tosa_convert.graph.model import Graph

#: How often a program runs to see whether its results change.
REPEATS: Final = 4


def repeated(
    backend: Runner, graph: Graph, names: list[str], given: Mapping[str, Array], cuts: list[str]
) -> tuple[dict[str, Array], set[str]]:
    """Run REPEATS times on the same inputs.

    Return the first results, and the keys of those that change.
    """
    first: dict[str, Array] = {}
    changing: set[str] = set()
    for number in range(REPEATS):
        with scratch_folder() as folder:
            answer = backend.compute(graph, names, given, cuts, folder)
            if number == 0:
                first = {key: answer[key] for key in answer}
                continue
            changing |= {key for key in first if not _same(first[key], answer[key])}
    return first, changing


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

    def explain(self, outputs: list[str]) -> tuple[Kind, list[int], Case] | None:
        """Return the kind of fault of wrong outputs, the operators, and a case; None if all is right."""
        whole: Cut = (tuple(outputs), ())
        shrinker = Shrinker(self.graph, lambda cut: self.comparison(cut) is not None)
        if not shrinker.fails(whole):
            return None
        best = shrinker.shrink(whole)
        case = self.case(best)
        indices = self.operators.without_constants(needed_operators(self.graph, *best))
        if len({index for index, _ in computed_tensors(case.graph)}) == 1:
            return "by-itself", indices, case
        kind: Kind = "in-context" if self.is_right_in_steps(best) else "within-rules"
        return kind, indices, case

    def comparison(self, cut: Cut) -> Comparison | None:
        """Judge a part; return None if it is right."""
        result = self._run(cut, self.backend_outputs)[2]
        return None if result.ok else result

    def case(self, cut: Cut) -> Case:
        """Make a case of a part with its arrays."""
        expected, actual, comparison = self._run(cut, self.backend_outputs)
        part = extract(self.graph, *cut)
        given = {slot.key: self.value(slot.key) for slot in input_slots(part)}
        return Case(part, given, expected, actual, comparison)

    def value(self, key: str) -> Array:
        """Return the golden array of a tensor or input."""
        inputs = self.operators.inputs
        return inputs[key] if key in inputs else self.golden[key]

    def backend_outputs(self, cut: Cut) -> dict[str, Array]:
        """Run a part on the backend, once."""
        part = extract(self.graph, *cut)
        keys = [slot.key for slot in input_slots(part)]
        given = LazyArrays((*self.operators.inputs, *keys), self.value)
        with scratch_folder() as folder:
            answer = self.backend.compute(self.graph, list(cut[0]), given, list(cut[1]), folder)
            return {key: answer[key] for key in self.operators.keys(cut[0]) if key in answer}

    def is_right_in_steps(self, cut: Cut) -> bool:
        """Return whether a part is right if its operators run one at a time, on the backend's values."""
        return self._run(cut, self._in_steps)[2].ok

    def _in_steps(self, cut: Cut) -> dict[str, Array]:
        part = extract(self.graph, *cut)
        values: dict[str, Array] = {slot.key: self.value(slot.key) for slot in input_slots(part)}
        inner = {name for _, name in computed_tensors(part)}
        known = inner | set(cut[1])
        done: set[int] = set()
        for name in (name for _, name in self.operators.order if name in inner):
            index = self.operators.producers[name]
            if index in done:
                continue
            done.add(index)
            names = [n for n in self.graph.main.operators[index].outputs if n in inner]
            cuts, _ = self.operators.operands(index, known)
            given = {**self.operators.inputs, **values}
            with scratch_folder() as folder:
                answer = self.backend.compute(self.graph, names, given, cuts, folder)
                values |= {key: answer[key] for key in self.operators.keys(names)}
        return {key: values[key] for key in self.operators.keys(cut[0])}

    def _run(
        self, cut: Cut, compute: Callable[[Cut], dict[str, Array]]
    ) -> tuple[dict[str, Array], dict[str, Array], Comparison]:
        """Return a part's golden outputs, its outputs by `compute`, and the verdict."""
        part = extract(self.graph, *cut)
        keys = [slot.key for slot in input_slots(part)]
        given = LazyArrays(keys, self.value)
        with scratch_folder() as folder:
            golden = run_in_folder(folder, part, given, self.operators.options)
            expected = {key: golden[key] for key in golden}
            actual = compute(cut)
            comparison = judge(
                part,
                given,
                expected,
                actual,
                tolerances=self.operators.tolerances,
                options=self.operators.options,
                at=self.operators.origins,
            )
        return expected, actual, comparison
