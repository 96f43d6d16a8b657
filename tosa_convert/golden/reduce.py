"""Shrink a model while a command keeps failing on it.

A candidate is a sub-graph: some values are its outputs, some became its inputs. Both ends move: first
the outputs towards the inputs, then the inputs towards the outputs, then single operands become
inputs. What was tried is kept in the work folder, so an interrupted reduction goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tosa_convert import api
from tosa_convert.child_process import run_child
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.files import replace_file
from tosa_convert.golden.array_io import Array, slots
from tosa_convert.golden.intermediates import iterate
from tosa_convert.golden.npz import save_npz
from tosa_convert.golden.runner import TIMEOUT, input_slots, write_scratch
from tosa_convert.graph.extract import computed_tensors, extract
from tosa_convert.graph.model import Graph

#: Names of outputs and of values that became inputs.
Cut = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Reduction:
    """The smallest failing sub-graph found. tried: commands run; known: answers kept from before."""

    graph: Graph
    cut: Cut
    operators: int
    tried: int
    known: int


class Reducer:
    """One reduction.

    command: a command line; `{model}` and `{inputs}` stand for the candidate's files, and the model
        goes behind it if neither is there. Any exit code but 0 means that it still fails.
    inputs: arrays for the graph's inputs; values that become inputs get those the reference model
        computes from them. None if the command needs none.
    folder: where candidates and answers are kept.
    """

    def __init__(
        self,
        graph: Graph,
        command: str,
        folder: Path,
        inputs: Mapping[str, Array] | None = None,
        *,
        timeout: float = TIMEOUT,
        progress: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.graph, self.folder, self.timeout = graph, folder, timeout
        self.inputs = None if inputs is None else dict(inputs)
        self.progress = progress
        self.words = shlex.split(command)
        if not self.words or shutil.which(self.words[0]) is None:
            raise fail("missing-backend", f"--check {command}", "there is no such command")
        self.tried = self.known = 0
        folder.mkdir(parents=True, exist_ok=True)
        self.answers: dict[str, bool] = {}
        identity = hashlib.sha256(b"".join(api.encode(graph)))
        identity.update(command.encode())
        for key, array in sorted((self.inputs or {}).items()):
            identity.update(key.encode() + array.tobytes())
        self.identity = identity.hexdigest()
        state = folder / "state.json"
        if state.exists():
            kept = json.loads(state.read_text())
            if kept.get("identity") != self.identity:
                raise fail(
                    "option-conflict",
                    str(folder),
                    "it belongs to another reduction (model, inputs or command differ)",
                    "choose another --work folder, or remove this one",
                )
            self.answers = kept["answers"]

    def run(self) -> Reduction:
        """Reduce until nothing more can go.

        Raises TosaConvertError("option-conflict") if the command does not fail on the whole model.
        """
        block = self.graph.main
        best: Cut = (tuple(dict.fromkeys(block.outputs)), ())
        if not self.fails(best):
            raise fail(
                "option-conflict",
                " ".join(self.words),
                "it exits with 0 on the whole model; there is nothing to reduce",
            )
        changed = True
        while changed:
            before = best
            best = self.fewer_outputs(best)
            best = self.earlier_output(best)
            best = self.later_inputs(best)
            changed = best != before
        part = self.cut(best)
        replace_file(self.folder / "reduced.tosa", api.encode(api.stamp(part)))
        if self.inputs is not None:
            save_npz(self.folder / "inputs.npz", self.values(part))
        return Reduction(part, best, _size(part), self.tried, self.known)

    def fewer_outputs(self, best: Cut) -> Cut:
        """Leave outputs out, one at a time, and the inputs only they needed."""
        outputs, cuts = best
        for name in outputs if len(outputs) > 1 else ():
            rest = tuple(other for other in best[0] if other != name)
            if rest and self.fails(candidate := self.normal((rest, cuts))):
                best = candidate
        return best

    def earlier_output(self, best: Cut) -> Cut:
        """Take one computed value as the only output: by halves first, then one by one."""
        part = self.cut(best)
        names = [name for _, name in computed_tensors(part)]
        low, high = 0, len(names) - 1
        while low < high:
            middle = (low + high) // 2
            candidate = self.normal(((names[middle],), best[1]))
            if self.fails(candidate):
                best, high = candidate, middle
            else:
                low = middle + 1
        if len(best[0]) > 1:
            for name in names:
                if self.fails(candidate := self.normal(((name,), best[1]))):
                    return candidate
        return best

    def later_inputs(self, best: Cut) -> Cut:
        """Make computed values inputs: by halves along the order first, then one by one."""
        part = self.cut(best)
        names = [name for _, name in computed_tensors(part) if name not in best[0]]
        low, high = 0, len(names)
        while low < high:
            middle = (low + high + 1) // 2
            candidate = self.normal((best[0], (*best[1], *names[:middle])))
            if self.fails(candidate):
                best, low = candidate, middle
            else:
                high = middle - 1
        for name in reversed(names[low:]):
            candidate = self.normal((best[0], (*best[1], name)))
            if candidate != best and self.smaller(candidate, best) and self.fails(candidate):
                best = candidate
        return best

    def smaller(self, one: Cut, other: Cut) -> bool:
        return _size(self.cut(one)) < _size(self.cut(other))

    def normal(self, cut: Cut) -> Cut:
        """The same sub-graph without inputs that nothing needs."""
        outputs, cuts = cut
        wanted = [name for name in dict.fromkeys(cuts) if name not in outputs]
        while True:
            try:
                extract(self.graph, outputs, wanted)
                return outputs, tuple(wanted)
            except TosaConvertError as error:
                if error.code != "option-conflict":
                    raise
                unneeded = {
                    finding.message.partition('"')[2].rpartition('"')[0]
                    for finding in error.findings
                }
                if not unneeded & set(wanted):
                    raise
                wanted = [name for name in wanted if name not in unneeded]

    def cut(self, cut: Cut) -> Graph:
        return extract(self.graph, cut[0], cut[1])

    def fails(self, cut: Cut) -> bool:
        """Whether the command fails on a candidate; asked once for each."""
        key = hashlib.sha256(json.dumps(cut).encode()).hexdigest()
        if key in self.answers:
            self.known += 1
            return self.answers[key]
        part = self.cut(cut)
        model, data = self.folder / "candidate.tosa", self.folder / "candidate.npz"
        write_scratch(model, api.encode(api.stamp(part)))
        if self.inputs is not None:
            save_npz(data, self.values(part))
        places = {"{model}": str(model.resolve()), "{inputs}": str(data.resolve())}
        words = list(self.words)
        if not any(mark in word for word in words for mark in places):
            words.append("{model}")
        for mark, path in places.items():
            words = [word.replace(mark, path) for word in words]
        # A command that does not end counts as one that fails.
        code = run_child(words, timeout=self.timeout).code
        self.tried += 1
        self.answers[key] = code != 0
        state = {"identity": self.identity, "answers": self.answers}
        replace_file(self.folder / "state.json", [json.dumps(state).encode()])
        if code:
            replace_file(self.folder / "reduced.tosa", api.encode(api.stamp(part)))
        self.progress(f"{_size(part)} operators: {'fails' if code else 'passes'}")
        return code != 0

    def values(self, part: Graph) -> dict[str, Array]:
        """Arrays for a candidate's inputs; computed ones are worked out once and kept."""
        assert self.inputs is not None
        values: dict[str, Array] = {}
        for slot in input_slots(part):
            if slot.key in self.inputs:
                values[slot.key] = self.inputs[slot.key]
            else:
                values[slot.key] = self.golden()[slot.key]
        return values

    def golden(self) -> dict[str, Array]:
        """Every computed tensor as a mapped file in the work folder."""
        if not hasattr(self, "_golden"):
            store = self.folder / "golden"
            store.mkdir(exist_ok=True)
            self._golden: dict[str, Array] = {}
            for item in iterate(self.graph, self.inputs or {}, timeout=self.timeout):
                for slot in slots(self.graph.main, item.name):
                    path = store / f"{len(self._golden)}.npy"
                    array = np.ascontiguousarray(item.arrays[slot.key])
                    np.save(path, array.view(np.uint8).reshape(-1) if array.size else array)
                    mapped = np.load(path, mmap_mode="r" if array.size else None)
                    self._golden[slot.key] = mapped.view(array.dtype).reshape(array.shape)
        return self._golden


def _size(graph: Graph) -> int:
    """Operators that are no constants."""
    return len({index for index, _ in computed_tensors(graph)})
