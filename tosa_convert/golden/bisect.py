"""Name the first operator that is wrong by itself.

Tensors are compared in topological order. One that differs may only have inherited it, so each
suspect is given operands that are not in doubt: a backend that computes gets the golden ones, and its
result is compared; of a backend that only left results, what it computed from is given to the
reference model, and that result is compared with the backend's. What differs even so is wrong.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tosa_convert import api
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.files import replace_file
from tosa_convert.golden.array_io import SCALE_SUFFIX, Array, Lazy, slots
from tosa_convert.golden.backends import OtherModel, Record, Runner, align, typed
from tosa_convert.golden.check import judges_for, origins
from tosa_convert.golden.compare import Comparison, TensorComparison, Tolerances, compare
from tosa_convert.golden.control_flow import ITERATIONS, hidden, steps
from tosa_convert.golden.explain_failure import signature
from tosa_convert.golden.intermediates import BATCH_BYTES, Batch, batches
from tosa_convert.golden.npz import save_npz
from tosa_convert.golden.runner import TIMEOUT, input_slots, run, session
from tosa_convert.golden.tolerance_rules import EXACT, rules
from tosa_convert.graph.extract import (
    computed_tensors,
    extract,
    extract_from,
    last_uses,
    needed_operators,
)
from tosa_convert.graph.model import Graph, operator_path
from tosa_convert.graph.opset import CONST, CONST_SHAPE


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
    inside: tuple[tuple[str, str], ...] = ()
    """The regions they are in: an output of the operator that runs it, and the attribute for it."""

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
    batch_bytes: bytes of tensors that one run computes. They lie in files: in memory are the inputs,
        one tensor of each side, and what goes into an operator that is looked at alone and comes out.
    Raises TosaConvertError if the reference model or the backend does not run.
    """
    search = _Search(graph, inputs, tolerances or Tolerances(), timeout, batch_bytes)
    return search.record(backend) if isinstance(backend, Record) else search.runner(backend)


class _Search:
    def __init__(
        self,
        graph: Graph,
        inputs: Mapping[str, Array],
        tolerances: Tolerances,
        timeout: float,
        limit: int,
    ) -> None:
        self.graph, self.inputs, self.limit = graph, dict(inputs), limit
        self.tolerances, self.timeout = tolerances, timeout
        self.result = Bisection()
        self.origins = origins(graph)
        self.rules = rules(graph)
        block = graph.main
        self.producers = {name: i for i, op in enumerate(block.operators) for name in op.outputs}
        self.order = computed_tensors(graph)
        self.computed = {name for _, name in self.order}

    def batches(self, names: Container[str]) -> Iterator[Batch]:
        """Golden tensors in topological order, up to the limit at a time."""
        wanted = [(index, name) for index, name in self.order if name in names]
        for batch in batches(
            self.graph, self.inputs, wanted, timeout=self.timeout, batch_bytes=self.limit
        ):
            self.result.largest_batch = max(self.result.largest_batch, batch.nbytes)
            yield batch

    def keys(self, batch: Batch) -> list[str]:
        """The arrays of a batch's tensors."""
        block = self.graph.main
        return [slot.key for _, name in batch.tensors for slot in slots(block, name)]

    def tensor(self, key: str) -> str:
        """The tensor that an array belongs to."""
        return key if key in self.producers else key.removesuffix(SCALE_SUFFIX)

    def compare(self, batch: Batch, found: Mapping[str, Array]) -> list[TensorComparison]:
        """The differing tensors among those both sides have, in order."""
        keys = [key for key in self.keys(batch) if key in found]
        # What the rules of single operators judge is looked at below; here is only suspicion.
        judges, _ = judges_for(
            self.graph,
            [key for key in keys if self.rules.get(self.tensor(key)) == EXACT],
            self.inputs,
            self.tolerances,
            self.rules,
        )
        result = compare(
            Lazy(keys, batch.golden.__getitem__),
            found,
            tolerances=self.tolerances,
            judges=judges,
            origins=self.origins,
        )
        self.result.compared += len(result.tensors)
        self.result.differing += [tensor.name for tensor in result.failures]
        return result.failures

    def runner(self, backend: Runner) -> Bisection:
        """For backends that compute."""
        own = _Own(self.graph)
        with session() as folder:
            for number, batch in enumerate(self.batches(self.computed)):
                place = folder / str(number)
                place.mkdir()
                names = [name for _, name in batch.tensors]
                answer = backend.compute(
                    self.graph, names, own.and_inputs(self.inputs), own.tensors(), place
                )
                keys = self.keys(batch)
                if missing := [key for key in keys if key not in answer]:
                    raise fail(
                        "backend-failed",
                        backend.name,
                        f"it gave no {missing[0]!r} although asked for it",
                    )
                found = Lazy(keys, answer.__getitem__)  # and nothing it was not asked for
                for suspect in self.compare(batch, found):
                    index = self.producers[self.tensor(suspect.name)]
                    case = self.alone(backend, index, batch)
                    if not case.comparison.ok:
                        self.result.first = self.descend(backend, index, batch) or self.divergence(
                            [index], case
                        )
                        return self.result
                    self.result.inherited.append(suspect.name)
                own.add(found, place)
                own.forget(batch.tensors[-1][0])
        return self.result

    def alone(self, backend: Runner, index: int, batch: Batch) -> Case:
        """One operator on the backend, with golden operands."""
        operator = self.graph.main.operators[index]
        names = [n for n in operator.outputs if n in self.graph.main.tensors]
        cuts = self.operands(index)
        part = extract(self.graph, names, cuts)
        needed = {slot.key: batch.golden[slot.key] for slot in input_slots(part)}
        expected = run(part, needed, timeout=self.timeout).outputs
        given = Lazy(
            (*self.inputs, *needed), lambda key: (needed if key in needed else self.inputs)[key]
        )
        with session() as folder:
            found = dict(backend.compute(self.graph, names, given, cuts, folder))
        return self.case(part, needed, expected, found)

    def descend(self, backend: Runner, index: int, batch: Batch) -> Divergence | None:
        """What is wrong inside of an operator with regions, each region given golden values."""
        op = self.graph.main.operators[index]
        if not op.spec.regions:
            return None
        path = operator_path("", index, op).strip()
        reason = hidden(self.graph, op)[0]
        try:
            for step in steps(self.graph, index, batch.golden, timeout=self.timeout):
                inner = _Search(
                    step.graph, step.inputs, self.tolerances, self.timeout, self.limit
                ).runner(backend.inside(op.outputs[0], step.attribute))
                if inner.first is not None:
                    self.result.notes += inner.notes
                    rows = tuple(
                        (i, f"{path} {step.label} {inner_path}", location, text)
                        for i, inner_path, location, text in inner.first.operators
                    )
                    way = ((op.outputs[0], step.attribute), *inner.first.inside)
                    return Divergence(rows, inner.first.case, way)
        except TosaConvertError as error:
            reason = reason or str(error.findings[0])
        self.result.notes.append(
            f"{path} is named as a whole: "
            + (
                reason
                or f"no operator of its regions is wrong by itself in {ITERATIONS} iterations"
            )
        )
        return None

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

    def divergence(self, indices: list[int], case: Case) -> Divergence:
        rows = []
        for index in indices:
            op = self.graph.main.operators[index]
            path = operator_path("", index, op).strip()
            rows.append((index, path, op.location, signature(self.graph.main, op)))
        return Divergence(tuple(rows), case)

    def record(self, backend: Record) -> Bisection:
        """For backends that left results."""
        recorded = self.recorded(backend)
        names = {name for name in self.computed if name in recorded}
        if not names:
            raise fail(
                "option-conflict",
                f"--against {backend.name}",
                "it has no tensor of the model",
                "results must be named as the model's tensors are: see extract and run",
            )
        if names <= set(self.graph.main.outputs):
            self.result.notes.append(
                "only outputs are recorded; intermediates would narrow it down"
            )
        for batch in self.batches(names):
            for suspect in self.compare(batch, recorded):
                indices, case = self.between(self.tensor(suspect.name), recorded)
                if not case.comparison.ok:
                    self.result.first = self.divergence(indices, case)
                    return self.result
                self.result.inherited.append(suspect.name)
        return self.result

    def recorded(self, backend: Record) -> Lazy:
        """What was left, by tensor, in the tensors' types where they are only spelt otherwise."""
        known = {s.key: s for name in self.computed for s in slots(self.graph.main, name)}
        aligned: dict[str, int] = {}
        if backend.steps:
            golden = (
                (name, batch.golden[name])
                for batch in self.batches(self.computed)
                for _, name in batch.tensors
            )
            aligned = align(self.graph, golden, backend.steps)
            self.result.notes.append(
                f"{len(aligned)} of {len(backend.steps)} results of {backend.name}'s operators were "
                "found again among the model's tensors"
            )

        def read(key: str) -> Array:
            if key in backend.arrays:
                return backend.arrays[key]
            return backend.steps[aligned[key]]()

        keys = (key for key in (*aligned, *backend.arrays) if key in known)
        return typed(Lazy(keys, read), known)

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
        given = {
            slot.key: (recorded if slot.key in recorded else self.inputs)[slot.key]
            for slot in input_slots(part)
        }
        expected = run(part, given, timeout=self.timeout).outputs
        found = {key: recorded[key] for key in expected if key in recorded}
        indices = sorted(
            i
            for i in needed_operators(self.graph, [name], cuts)
            if block.operators[i].spec is not CONST and block.operators[i].spec is not CONST_SHAPE
        )
        return indices, self.case(part, given, expected, found)


class _Own:
    """The backend's own results that later operators take: they are not computed a second time."""

    def __init__(self, graph: Graph) -> None:
        self.last_use = last_uses(graph.main)
        self.kept: list[tuple[Mapping[str, Array], Path]] = []

    def tensors(self) -> list[str]:
        """The names of what there is."""
        return [name for found, _ in self.kept for name in found if not name.endswith(SCALE_SUFFIX)]

    def and_inputs(self, inputs: Mapping[str, Array]) -> Lazy:
        """What there is and the graph's inputs, by key."""
        places: dict[str, Mapping[str, Array]] = dict.fromkeys(inputs, inputs)
        places.update((key, found) for found, _ in self.kept for key in found)
        return Lazy(places, lambda key: places[key][key])

    def add(self, found: Mapping[str, Array], folder: Path) -> None:
        """Keep results that read from a folder."""
        self.kept.append((found, folder))

    def forget(self, done: int) -> None:
        """Remove the folders of which no operator behind `done` takes a tensor."""
        still = []
        for found, folder in self.kept:
            if any(self.last_use.get(name, -1) > done for name in found):
                still.append((found, folder))
            else:
                shutil.rmtree(folder, ignore_errors=True)
        self.kept = still


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
    inside = backend
    for output, attribute in divergence.inside:
        inside = inside if isinstance(inside, Record) else inside.inside(output, attribute)
    if isinstance(inside, OtherModel):
        cuts = [n for n in case.graph.main.inputs if n not in inside.graph.main.inputs]
        other = extract_from(inside.graph, case.graph.main.outputs, cuts)
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
