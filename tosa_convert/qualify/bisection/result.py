"""What `bisect` finds: the operators at which a backend goes wrong, and the part that shows it."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from tosa_convert import api
from tosa_convert.custom import has_meaning
from tosa_convert.errors import printable
from tosa_convert.golden.accuracy.comparison import Comparison
from tosa_convert.golden.arrays.by_name import Array, OutputFolder
from tosa_convert.golden.arrays.npz import npz_pieces
from tosa_convert.golden.backends.isolated import OtherModel
from tosa_convert.golden.backends.runners import Backend, Record
from tosa_convert.graph.derived import extract_from
from tosa_convert.graph.model import UNLOCATED, Graph, counted
from tosa_convert.graph.shown import Shown
from tosa_convert.io.files import PathLike


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
        return {
            "ok": self.ok,
            "outputs": None if self.outputs is None else self.outputs.to_dict(),
            "compared": self.compared,
            "first": None if self.first is None else self.first.to_dict(),
            "others": [other.to_dict() for other in self.others],
            "suspects": self.suspects,
            "inherits": self.inherits,
            "refused": self.refused,
            "notes": self.notes,
        }


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
