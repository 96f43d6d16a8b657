"""The search in results that a backend recorded: the operators between recorded tensors are judged."""

from __future__ import annotations

from collections.abc import Mapping

from tosa_convert.errors import fail
from tosa_convert.golden.arrays.by_name import Array, LazyArrays
from tosa_convert.golden.arrays.npz import slots
from tosa_convert.golden.backends.isolated import with_slot_types
from tosa_convert.golden.backends.runners import Record
from tosa_convert.qualify.bisection.align_steps import align
from tosa_convert.qualify.bisection.search import Search
from tosa_convert.qualify.bisection.single_operators import Judged


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
