"""Name the first operator that is wrong by itself.

Tensors are compared in topological order. One that differs may only have inherited it, so each
suspect is given operands that are not in doubt: a backend that computes gets the golden ones, and its
result is compared; of a backend that only left results, what it computed from is given to the
reference model, and that result is compared with the backend's. What differs even so is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tosa_convert import api
from tosa_convert.errors import fail
from tosa_convert.files import replace_file
from tosa_convert.graph.extract import computed_tensors, extract, needed_operators
from tosa_convert.graph.model import Graph, operator_path
from tosa_convert.graph.opset import CONST, CONST_SHAPE
from tosa_convert.refmodel.accuracy import EXACT, rules
from tosa_convert.refmodel.arrays import Array, slots
from tosa_convert.refmodel.backends import OtherModel, Record, Runner, align, as_slot
from tosa_convert.refmodel.check import judges_for, origins
from tosa_convert.refmodel.compare import Comparison, TensorComparison, Tolerances, compare
from tosa_convert.refmodel.intermediates import BATCH_BYTES, iterate
from tosa_convert.refmodel.npz import save_npz
from tosa_convert.refmodel.refusal import signature
from tosa_convert.refmodel.runner import TIMEOUT, input_slots, run

#: Tensors that a backend computes in one go.
BATCH: Final = 256


@dataclass(frozen=True, slots=True)
class Case:
    """A sub-graph that shows a difference alone: inputs, the golden outputs, and the others."""

    graph: Graph
    inputs: dict[str, Array]
    expected: dict[str, Array]
    found: dict[str, Array]
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class Divergence:
    """What is wrong by itself: the operators (one, unless the backend told no tensor between them)."""

    operators: tuple[tuple[int, str, str, str], ...]
    """Index, path, location and signature of each."""
    case: Case

    def __str__(self) -> str:
        lines = []
        for _, path, location, text in self.operators:
            place = f" {location}" if location and location != "loc(unknown)" else ""
            lines.append(f"{path}{place} {text}")
        single = "wrong by itself: " if len(lines) == 1 else "wrong between two tensors known:\n  "
        body = "\n  ".join(lines)
        return f"{single}{body}\n{self.case.comparison}"


@dataclass(slots=True)
class Bisection:
    """What was found. `first` is None if nothing is wrong by itself."""

    compared: int = 0
    differing: list[str] = field(default_factory=list)
    inherited: list[str] = field(default_factory=list)
    first: Divergence | None = None
    notes: list[str] = field(default_factory=list)
    largest_batch: int = 0

    @property
    def ok(self) -> bool:
        """Whether something was compared and nothing differed."""
        return self.compared > 0 and not self.differing

    def __str__(self) -> str:
        lines = [f"{self.compared} tensors compared, {len(self.differing)} differ"]
        if self.first is not None:
            lines.append(str(self.first))
        elif self.differing:
            lines.append("none of them is wrong by itself: each inherits what it got")
        if self.inherited:
            lines.append(f"{len(self.inherited)} before it differ but only inherit")
        lines += [f"note: {note}" for note in self.notes]
        if not self.compared:
            lines.append("FAIL nothing was compared")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the arrays, as JSON has it."""
        first = None
        if self.first is not None:
            first = {
                "operators": [
                    {"index": i, "operator": path, "location": location, "signature": text}
                    for i, path, location, text in self.first.operators
                ],
                "comparison": self.first.case.comparison.to_dict(),
            }
        return {
            "ok": self.ok,
            "compared": self.compared,
            "differing": self.differing,
            "inherited": self.inherited,
            "first": first,
            "notes": self.notes,
        }


def bisect(
    graph: Graph,
    backend: Runner | Record,
    inputs: Mapping[str, Array],
    *,
    tolerances: Tolerances | None = None,
    timeout: float = TIMEOUT,
    batch_bytes: int = BATCH_BYTES,
) -> Bisection:
    """Find the first operator of the main block that the backend computes otherwise.

    inputs: an array for each input, as `match` returns them.
    batch_bytes: bytes of tensors held at a time, golden and the backend's together.
    Raises TosaConvertError if the reference model or the backend does not run.
    """
    search = _Search(graph, inputs, tolerances or Tolerances(), timeout)
    if isinstance(backend, Record):
        return search.record(backend, batch_bytes)
    return search.runner(backend, batch_bytes)


class _Search:
    def __init__(
        self, graph: Graph, inputs: Mapping[str, Array], tolerances: Tolerances, timeout: float
    ) -> None:
        self.graph, self.inputs = graph, dict(inputs)
        self.tolerances, self.timeout = tolerances, timeout
        self.result = Bisection()
        self.origins = origins(graph)
        self.rules = rules(graph)
        block = graph.main
        self.producers = {name: i for i, op in enumerate(block.operators) for name in op.outputs}
        self.computed = {name for _, name in computed_tensors(graph)}

    def batches(self, limit: int, patterns: list[str]) -> Iterator[dict[str, Array]]:
        """Golden tensors in topological order, up to `limit` bytes at a time."""
        batch: dict[str, Array] = {}
        size = count = 0
        items = iterate(self.graph, self.inputs, patterns, timeout=self.timeout, batch_bytes=limit)
        for item in items:
            nbytes = sum(array.nbytes for array in item.arrays.values())
            if batch and (size + nbytes > limit or count >= BATCH):
                yield batch
                batch, size, count = {}, 0, 0
            batch.update(item.arrays)
            size, count = size + nbytes, count + 1
            self.result.largest_batch = max(self.result.largest_batch, size)
        if batch:
            yield batch

    def compare(
        self, golden: Mapping[str, Array], found: Mapping[str, Array]
    ) -> list[TensorComparison]:
        """The differing tensors among those both sides have, in order."""
        both = {key: array for key, array in golden.items() if key in found}
        judges, _ = judges_for(
            self.graph,
            [key for key in both if self.rules.get(key) == EXACT],
            self.inputs,
            self.tolerances,
            self.rules,
        )
        result = compare(
            both, found, tolerances=self.tolerances, judges=judges, origins=self.origins
        )
        self.result.compared += len(result.tensors)
        self.result.differing += [tensor.name for tensor in result.failures]
        return result.failures

    def runner(self, backend: Runner, limit: int) -> Bisection:
        """For backends that compute."""
        # Half for the golden tensors, half for the backend's; both go before the next batch comes.
        for golden in self.batches(limit // 2, ["*"]):
            names = [name for name in golden if name in self.computed]
            found = backend.compute(self.graph, names, self.inputs, [])
            # What the rules of single operators judge is looked at below; here is only suspicion.
            missing = [name for name in names if name not in found]
            if missing:
                raise fail(
                    "backend-failed",
                    backend.name,
                    f"it gave no {missing[0]!r} although asked for it",
                )
            suspects = self.compare(golden, found)
            golden.clear()
            found.clear()
            for suspect in suspects:
                index = self.producers[suspect.name.removesuffix("/scale")]
                case = self.alone(backend, index)
                if not case.comparison.ok:
                    self.result.first = self.divergence([index], case)
                    return self.result
                self.result.inherited.append(suspect.name)
        return self.result

    def alone(self, backend: Runner, index: int) -> Case:
        """One operator on the backend, with golden operands."""
        operator = self.graph.main.operators[index]
        names = [n for n in operator.outputs if n in self.graph.main.tensors]
        cuts = self.operands(index)
        part = extract(self.graph, names, cuts)
        given = self.golden_values(cuts)
        needed = {s.key: given[s.key] for s in input_slots(part)}
        expected = run(part, needed, timeout=self.timeout).outputs
        found = backend.compute(self.graph, names, given, cuts)
        return self.case(part, needed, expected, found)

    def case(
        self,
        part: Graph,
        given: dict[str, Array],
        expected: dict[str, Array],
        found: dict[str, Array],
    ) -> Case:
        """Judge by the rules of the operators themselves: their operands are not in doubt."""
        judges, notes = judges_for(
            part, list(expected), given, self.tolerances, timeout=self.timeout
        )
        comparison = compare(
            expected,
            found,
            tolerances=self.tolerances,
            judges=judges,
            origins=self.origins,
            notes=notes,
        )
        return Case(part, given, expected, found, comparison)

    def operands(self, index: int) -> list[str]:
        """The computed tensors that an operator takes, directly or through shapes."""
        block = self.graph.main
        found: list[str] = []
        pending = list(block.operators[index].inputs)
        while pending:
            name = pending.pop(0)
            if name in self.computed:
                found.append(name)
            elif name in block.shapes and name in self.producers:
                pending += block.operators[self.producers[name]].inputs
        return list(dict.fromkeys(found))

    def golden_values(self, names: list[str]) -> dict[str, Array]:
        """The graph's inputs and the golden values of computed tensors."""
        if not names:
            return dict(self.inputs)
        part = extract(self.graph, names)
        needed = {s.key: self.inputs[s.key] for s in input_slots(part)}
        return {**self.inputs, **run(part, needed, timeout=self.timeout).outputs}

    def divergence(self, indices: list[int], case: Case) -> Divergence:
        rows = []
        for index in indices:
            op = self.graph.main.operators[index]
            path = operator_path("", index, op).strip()
            rows.append((index, path, op.location, signature(self.graph.main, op)))
        return Divergence(tuple(rows), case)

    def record(self, backend: Record, limit: int) -> Bisection:
        """For backends that left results."""
        recorded = self.recorded(backend)
        names = [name for _, name in computed_tensors(self.graph) if name in recorded]
        if not names:
            raise fail(
                "option-conflict",
                f"--against {backend.name}",
                "it has no tensor of the model",
                "results must be named as the model's tensors are: see extract and run",
            )
        if set(names) <= set(self.graph.main.outputs):
            self.result.notes.append(
                "only outputs are recorded; intermediates would narrow it down"
            )
        for golden in self.batches(limit, [_literally(name) for name in names]):
            suspects = self.compare(golden, recorded)
            golden.clear()
            for suspect in suspects:
                name = suspect.name.removesuffix("/scale")
                indices, case = self.between(name, recorded)
                if not case.comparison.ok:
                    self.result.first = self.divergence(indices, case)
                    return self.result
                self.result.inherited.append(suspect.name)
        return self.result

    def recorded(self, backend: Record) -> dict[str, Array]:
        """What was left, by tensor, in the tensors' types where they are only spelt otherwise."""
        arrays = dict(backend.arrays)
        if backend.steps:
            golden: dict[str, Array] = {}
            for batch in self.batches(1 << 62, ["*"]):
                golden.update(batch)  # all at once: an aligned tensor may be anywhere
            aligned = align(self.graph, golden, backend.steps)
            self.result.notes.append(
                f"{len(aligned)} of {len(backend.steps)} results of {backend.name}'s operators were "
                "found again among the model's tensors"
            )
            arrays = {**dict(aligned), **arrays}
        known = {s.key: s for name in self.computed for s in slots(self.graph.main, name)}
        return {k: as_slot(known[k], v) for k, v in arrays.items() if k in known}

    def between(self, name: str, recorded: Mapping[str, Array]) -> tuple[list[int], Case]:
        """What computes a tensor from the nearest recorded ones, given their recorded values."""
        block = self.graph.main
        cuts: list[str] = []
        pending = list(block.operators[self.producers[name]].inputs)
        seen: set[str] = set()
        while pending:
            operand = pending.pop()
            if operand in seen:
                continue
            seen.add(operand)
            if operand in self.computed and operand in recorded:
                cuts.append(operand)
            elif operand in self.producers:
                pending += block.operators[self.producers[operand]].inputs
        part = extract(self.graph, [name], cuts)
        values = {**self.inputs, **recorded}
        given = {s.key: values[s.key] for s in input_slots(part)}
        expected = run(part, given, timeout=self.timeout).outputs
        found = {key: recorded[key] for key in expected if key in recorded}
        indices = sorted(
            i
            for i in needed_operators(self.graph, [name], cuts)
            if block.operators[i].spec is not CONST and block.operators[i].spec is not CONST_SHAPE
        )
        return indices, self.case(part, given, expected, found)


def _literally(name: str) -> str:
    """A pattern that matches this name only."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


def save_case(divergence: Divergence, folder: Path, backend: Runner | Record) -> list[str]:
    """Write `case.tosa`, `inputs.npz`, `expected.npz`, `found.npz` and `case.json`; the commands.

    For another version of the model its part is written as well (`found.tosa`).
    """
    case = divergence.case
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / "case.tosa", api.encode(api.stamp(case.graph)))
    save_npz(folder / "inputs.npz", case.inputs)
    save_npz(folder / "expected.npz", case.expected)
    save_npz(folder / "found.npz", case.found)
    against = "found.npz"
    if isinstance(backend, OtherModel):
        cuts = [n for n in case.graph.main.inputs if n not in backend.graph.main.inputs]
        other = extract(backend.graph, case.graph.main.outputs, cuts)
        replace_file(folder / "found.tosa", api.encode(api.stamp(other)))
        against = "found.tosa"
    elif not isinstance(backend, Record):
        against = backend.name
    commands = [
        "tosa-flatbuffer run case.tosa -i inputs.npz -o answer.npz",
        f"tosa-flatbuffer check case.tosa -i inputs.npz --against {against}",
    ]
    description = {
        "operators": [
            {"operator": path, "location": location, "signature": text}
            for _, path, location, text in divergence.operators
        ],
        "comparison": case.comparison.to_dict(),
        "commands": commands,
    }
    replace_file(folder / "case.json", [json.dumps(description, indent=1).encode() + b"\n"])
    return commands
