"""Judge operators by themselves, for the searches of `bisect`, and describe what they find."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from tosa_convert import api
from tosa_convert.custom import has_meaning
from tosa_convert.errors import TosaConvertError, fail, printable
from tosa_convert.golden.accuracy.comparison import Comparison
from tosa_convert.golden.accuracy.criteria import Tolerances
from tosa_convert.golden.accuracy.verdict import origins
from tosa_convert.golden.arrays import (
    SCALE_SUFFIX,
    Array,
    Arrays,
    LazyArrays,
    OutputFolder,
    npz_pieces,
    scratch_folder,
    slots,
    subfolder,
)
from tosa_convert.golden.backends.isolated import OtherModel, with_slot_types
from tosa_convert.golden.backends.recorded_tensors import Recorded, same_tensors, tensors_of
from tosa_convert.golden.backends.runners import Backend, Record, Runner
from tosa_convert.golden.checking.check import Reference
from tosa_convert.golden.running.programs import input_slots
from tosa_convert.golden.running.run import BATCH_TENSORS, Batch, batches
from tosa_convert.golden.running.run_graph import run_in_folder, signature
from tosa_convert.golden.running.run_options import Progress, RunOptions
from tosa_convert.graph.derived import computed_tensors, extract, extract_from, needed_operators
from tosa_convert.graph.model import UNLOCATED, Graph, counted, operator_path
from tosa_convert.graph.opset import CONST, CONST_SHAPE, VARIABLE_READ, VARIABLE_WRITE
from tosa_convert.graph.shown import Shown
from tosa_convert.io.files import PathLike

# -- what `bisect` finds, and a case that shows it -------------------------------------------------


@dataclass(frozen=True, slots=True)
class Case:
    """A sub-graph that reproduces a difference: its inputs, the golden outputs, and the actual ones."""

    graph: Graph
    inputs: dict[str, Array]
    expected: dict[str, Array]
    found: dict[str, Array]
    comparison: Comparison


#: What is wrong with the operators of a divergence, in the order in which it is looked for.
Kind = Literal["by-itself", "nondeterministic", "first-run", "in-context", "within-rules"]

_ONE: Final[dict[Kind, str]] = {
    "by-itself": "its own result is wrong: ",
    "nondeterministic": "it gives different results for the same operands: ",
    "first-run": "its result was wrong in the first run only, and was right in those after it: ",
    "in-context": "it is wrong only in its context: ",
    "within-rules": "it is within its operator's rule, and the network's result is not accurate: ",
}
_SEVERAL: Final[dict[Kind, str]] = {
    "by-itself": "the result of one of these operators is wrong:",
    "nondeterministic": "these operators together give different results for the same operands:",
    "first-run": "these results were wrong in the first run only, and right in those after it:",
    "in-context": "each of these operators is right by itself, and together they are wrong:",
    "within-rules": "each of these operators is within its rule, and together they are not accurate:",
}
#: Operators of a divergence that its text lists.
_LISTED: Final = 12


@dataclass(frozen=True, slots=True)
class Divergence(Shown):
    """The operators at which a backend goes wrong.

    operators: index, path, location and signature of each; several if the backend gave no tensor
        between them, or if only all of them together are wrong.
    kind: "by-itself", "nondeterministic", "first-run" (the operators make outputs that were wrong in
        the first run only), "in-context" (the operators are the smallest part that shows it), or
        "within-rules" (each operator keeps its rule, and the network's error is still larger than
        allowed).
    inside: the regions that they are in: an output of the operator that runs the region, and the
        attribute that names it.
    """

    operators: tuple[tuple[int, str, str, str], ...]
    case: Case
    inside: tuple[tuple[str, str], ...] = ()
    kind: Kind = "by-itself"

    def __str__(self) -> str:
        lines = []
        for _, path, location, text in self.operators[:_LISTED]:
            place = f" {printable(location)}" if location not in UNLOCATED else ""
            lines.append(f"{path}{place} {printable(text)}")
        if len(self.operators) > _LISTED:
            lines.append(f"and {len(self.operators) - _LISTED} more")
        head = _ONE[self.kind] if len(lines) == 1 else f"{_SEVERAL[self.kind]}\n  "
        return head + "\n  ".join(lines) + f"\n{self.case.comparison}"

    def to_dict(self) -> dict[str, object]:
        """Return operators and comparison, as JSON values."""
        return {
            "kind": self.kind,
            "operators": [
                {"index": index, "operator": path, "location": location, "signature": text}
                for index, path, location, text in self.operators
            ],
            "comparison": self.case.comparison.to_dict(),
        }


@dataclass(slots=True)
class Bisection(Shown):
    """The result of a search.

    outputs: the verdict on the program as it is, which `check` gives, too.
    compared: how many tensors were judged, each by itself.
    first: what is wrong first in the order of operators, or None.
    others: further operators that are wrong by themselves, if all were asked for.
    suspects: if not, paths of other operators whose results were wrong in the same runs as the first's.
    inherits: wrong outputs of operators that are right by themselves: the error is from before.
    refused: the backend's reasons by the path of an operator that it does not compute by itself.
    largest_batch: bytes.
    """

    outputs: Comparison | None = None
    compared: int = 0
    first: Divergence | None = None
    others: list[Divergence] = field(default_factory=list)
    suspects: list[str] = field(default_factory=list)
    inherits: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    largest_batch: int = 0

    @property
    def ok(self) -> bool:
        """Return whether something was compared, the outputs agree, and no operator is wrong alone."""
        outputs_ok = self.outputs is None or self.outputs.ok
        return self.compared > 0 and outputs_ok and self.first is None

    def __str__(self) -> str:
        lines = []
        if self.outputs is not None:
            failures = len(self.outputs.failures) + len(self.outputs.missing)
            text = f"{counted(len(self.outputs.tensors), 'output')} compared, {failures} wrong"
            lines.append(text)
        each = "" if self.compared == 1 else ", each by itself"
        if self.refused:
            each = ", by itself where the backend does not refuse that"
        lines.append(f"{counted(self.compared, 'tensor')} judged{each}")
        if self.first is not None:
            if self.outputs is not None and self.outputs.ok:
                lines.append("the outputs agree: they do not show what is wrong")
            lines.append(str(self.first))
        elif self.outputs is not None and not self.outputs.ok:
            lines.append("no operator is wrong by itself:")
            lines.append(str(self.outputs))
        lines += [f"also wrong: {other}" for other in self.others]
        lines += _joined("also wrong, and not examined", self.suspects)
        lines += _joined("wrong because of what is before it", self.inherits)
        refused = list(self.refused.items())
        lines += [f"refused as a part: {path}: {printable(row)}" for path, row in refused[:_LISTED]]
        if len(refused) > _LISTED:
            lines.append(f"refused as a part: {len(refused) - _LISTED} more")
        lines += [f"note: {note}" for note in self.notes]
        if not self.compared:
            lines.append("FAIL nothing was compared")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the arrays, as JSON values."""
        found = {"ok": self.ok, **Shown.to_dict(self)}
        del found["largest_batch"]
        return found


def _joined(head: str, texts: list[str]) -> list[str]:
    """Return a line with the first texts, and how many more there are; no line without texts."""
    if not texts:
        return []
    more = f", and {len(texts) - _LISTED} more" if len(texts) > _LISTED else ""
    return [f"{head}: {', '.join(map(printable, texts[:_LISTED]))}{more}"]


# -- saves a divergence as a separate case: a folder with the part of the model and its arrays -----


def save_case(divergence: Divergence, folder: PathLike, backend: Backend) -> list[str]:
    """Write a divergence as a folder that shows it without the rest of the model.

    The folder gets `case.tosa`, `inputs.npz`, `expected.npz`, `found.npz` and `case.json`; if the
    backend is another version of the model, also its part (`found.tosa`).

    Args:
        divergence: what `bisect` found: `Bisection.first`.
        folder: the folder to write, which is replaced as a whole.
        backend: the backend that was searched.

    Returns:
        Commands that repeat the comparison in the folder.

    Raises:
        TosaConvertError: `file-error`; no file of this call is left then.
    """
    if not isinstance(divergence, Divergence):
        raise TypeError(f"found {type(divergence).__name__}, expected a Divergence of bisect")
    case = divergence.case
    with OutputFolder(folder) as target:
        target.write("case.tosa", api.encode(api.stamp(case.graph)))
        target.write("inputs.npz", npz_pieces(case.inputs))
        target.write("expected.npz", npz_pieces(case.expected))
        target.write("found.npz", npz_pieces(case.found))
        against = "found.npz"
        innermost = backend
        for output, attribute in divergence.inside:
            if not isinstance(innermost, Record):
                innermost = innermost.inside(output, attribute)
        if isinstance(innermost, OtherModel):
            own_inputs = innermost.graph.main.inputs
            cuts = [name for name in case.graph.main.inputs if name not in own_inputs]
            part = extract_from(innermost.graph, case.graph.main.outputs, cuts)
            target.write("found.tosa", api.encode(api.stamp(part)))
            against = "found.tosa"
        elif not isinstance(backend, Record):
            against = shlex.quote(backend.text)
        known = " --custom FILE.py" if has_meaning(case.graph) else ""
        commands = [
            f"tosa-flatbuffer run case.tosa -i inputs.npz -o answer.npz{known}",
            f"tosa-flatbuffer check case.tosa -i inputs.npz --against {against}{known}",
        ]
        description = {**divergence.to_dict(), "commands": commands}
        target.write("case.json", [json.dumps(description, indent=1).encode() + b"\n"])
    return commands


# -- each operator judged by itself, on operands that are not in doubt -----------------------------

REFUSED: Final = "backend-refused"


@dataclass(slots=True)
class Group:
    """Hold results that one run computes, the operators of each, and the tensors that it is given."""

    names: list[str] = field(default_factory=list)
    cuts: dict[str, None] = field(default_factory=dict)
    indices: dict[str, list[int]] = field(default_factory=dict)

    def takes(self, names: Iterable[str], cuts: Container[str]) -> bool:
        """Return whether these results can be computed beside the others."""
        return not any(name in self.cuts for name in names) and not any(
            name in cuts for name in self.names
        )

    def add(self, names: list[str], cuts: Iterable[str], indices: list[int]) -> None:
        self.names += names
        self.cuts.update(dict.fromkeys(cuts))
        self.indices.update(dict.fromkeys(names, indices))


@dataclass(frozen=True, slots=True)
class Judged:
    """Hold the verdict on a group, what its results were computed from, and the results if wrong."""

    group: Group
    comparison: Comparison
    given: Arrays
    actual: Arrays = field(default_factory=dict)


class Operators:
    """Judge the operators of a graph's main block on the values that each takes."""

    def __init__(
        self,
        graph: Graph,
        inputs: Arrays,
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
        """Iterate over golden tensors in topological order, up to `batch_bytes` at a time."""
        wanted = [(index, name) for index, name in self.order if name in names]
        for batch in batches(
            self.graph, self.inputs, wanted, self.options, batch_bytes=self.batch_bytes
        ):
            self.largest_batch = max(self.largest_batch, batch.nbytes)
            yield batch

    def keys(self, names: Iterable[str]) -> list[str]:
        return [slot.key for name in names for slot in slots(self.graph.main, name)]

    def tensor(self, key: str) -> str:
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

    def run_group(self, backend: Runner, group: Group, golden: Arrays, folder: Path) -> Judged:
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

    def alone(self, backend: Runner, group: Group, values: Arrays) -> Case | None:
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

    def _given(self, part: Graph, values: Arrays) -> LazyArrays:
        """Return all inputs of the graph, and the tensors that became inputs."""
        needed = {slot.key for slot in input_slots(part)}
        return LazyArrays(
            (*self.inputs, *needed),
            lambda key: self.inputs[key] if key in self.inputs else values[key],
        )

    def judge(self, part: Graph, given: Arrays, expected: Arrays, actual: Arrays) -> Comparison:
        """Compare by the operators' rules; leave out tensors that were not requested."""
        wanted = LazyArrays((key for key in actual if key in expected), actual.__getitem__)
        reference = Reference(part, given, self.options, self.tolerances, self.origins)
        return reference.compare(expected, wanted)

    def judge_record(
        self, recorded: Arrays, names: Container[str] | None = None
    ) -> Iterator[list[Judged]]:
        wanted = recorded if names is None else names
        own = [name for _, name in self.order if name in recorded and name in wanted]
        for batch in self.split(own):
            result = []
            for group in self.groups(batch, recorded):
                comparison, _, given = self.judge_recorded_group(group, recorded, keep=False)
                result.append(Judged(group, comparison, given))
            yield result

    def judge_recorded_group(
        self, group: Group, recorded: Arrays, *, keep: bool = True
    ) -> tuple[Comparison, dict[str, Array], LazyArrays]:
        """Judge recorded results. Return the verdict, what the reference computes, and the inputs."""
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
    operators: Operators, backend: Runner, wanted: Container[str], first: Arrays, folder: Path
) -> LazyArrays:
    outputs = list(dict.fromkeys(operators.graph.main.outputs))
    names = [name for _, name in operators.order if name in wanted and name not in outputs]
    pending = list(operators.split(names)) or [[]]
    found: dict[str, Arrays] = {}
    runs = refusals = 0
    while pending and refusals < REFUSALS:
        asked, runs = pending.pop(0), runs + 1
        own = subfolder(folder, f"own{runs}")
        try:
            answer = backend.compute(operators.graph, [*outputs, *asked], operators.inputs, [], own)
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


# -- a search, and the one in results that a backend recorded --------------------------------------


class Search:
    """Search in one block of operators. first: the outputs that were judged, by key."""

    def __init__(
        self,
        operators: Operators,
        find_all: bool = False,
        progress: Progress | None = None,
        first: Arrays | None = None,
    ) -> None:
        self.operators, self.graph = operators, operators.graph
        self.find_all, self.progress = find_all, progress
        self.first: Arrays = {} if first is None else first
        self.result = Bisection()

    def add(self, divergence: Divergence) -> None:
        if self.result.first is None:
            self.result.first = divergence
        else:
            self.result.others.append(divergence)

    def named(self) -> set[int]:
        found = (self.result.first, *self.result.others)
        return {row[0] for part in found if part is not None for row in part.operators}

    def path(self, index: int) -> str:
        return operator_path("", index, self.graph.main.operators[index]).strip()

    def divergence(self, indices: Iterable[int], case: Case, kind: Kind) -> Divergence:
        rows = []
        for index in indices:
            op = self.graph.main.operators[index]
            rows.append((index, self.path(index), op.location, signature(self.graph.main, op)))
        return Divergence(tuple(rows), case, kind=kind)

    def wrong_operators(self, judged: Judged) -> dict[int, Judged]:
        keys = [tensor.name for tensor in judged.comparison.failures]
        return {self.operators.producers[name]: judged for name in map(self.operators.tensor, keys)}

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

    def whole_case(self, actual: Arrays) -> Case:
        """Make a case of the whole program, with its golden outputs and states."""
        assert self.result.outputs is not None
        own = self.operators
        expected = dict(Reference(self.graph, own.inputs, own.options).outputs)
        found = {key: actual[key] for key in actual}
        return Case(self.graph, own.inputs, expected, found, self.result.outputs)

    def recorded_divergence(self, judged: Judged, index: int, recorded: Arrays) -> Divergence:
        """Find the operators that compute a wrong result of an operator from recorded tensors."""
        names = [n for n in self.graph.main.operators[index].outputs if n in judged.group.names]
        cuts, indices = self.operators.operands(index, recorded)
        group = Group()
        group.add(names, cuts, indices)
        part = extract(self.graph, names, cuts)
        given = {slot.key: judged.given[slot.key] for slot in input_slots(part)}
        comparison, expected, _ = self.operators.judge_recorded_group(group, recorded)
        case = Case(part, given, expected, {key: recorded[key] for key in expected}, comparison)
        return self.divergence(indices, case, "by-itself")


# -- results that a backend recorded: the operators between recorded tensors are judged ------------


class RecordSearch(Search):
    """Search recorded results; see `Search`."""

    def search(self, recorded: Arrays) -> None:
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
        same: dict[str, Recorded] = {}
        self.result.notes += backend.notes
        if steps := backend.steps():
            own = tensors_of(self.graph, backend.arrays.__getitem__)
            same = {own[k].name: steps[number] for k, number in same_tensors(own, steps).items()}
            self.result.notes.append(
                f"{len(same)} of {len(steps)} results of {backend.name}'s operators were recognised "
                "among the model's tensors"
            )

        def read(key: str) -> Array:
            return backend.arrays[key] if key in backend.arrays else same[key].read()

        keys = [key for key in (*same, *backend.arrays) if key in by_key]
        if not keys:
            raise fail(
                "option-conflict",
                f"--against {backend.name}",
                "it has no tensor of the model",
                "name the arrays as the model's tensors are named; `run --intermediates` lists them",
            )
        return with_slot_types(LazyArrays(keys, read), by_key)
