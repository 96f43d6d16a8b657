"""Saves a divergence as a separate case: a folder with the part of the model and its arrays."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Final, Literal

from tosa_convert import api
from tosa_convert.errors import printable
from tosa_convert.golden.accuracy.comparison import Comparison
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.arrays.npz import npz_pieces
from tosa_convert.golden.arrays.scratch import OutputFolder
from tosa_convert.golden.backends.other_model import OtherModel
from tosa_convert.golden.backends.runners import Backend, Record
from tosa_convert.graph.extract import extract_from
from tosa_convert.graph.locations import UNLOCATED
from tosa_convert.graph.model import Graph
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
Kind = Literal["by-itself", "nondeterministic", "in-context", "within-rules"]

_ONE: Final[dict[Kind, str]] = {
    "by-itself": "its own result is wrong: ",
    "nondeterministic": "it gives different results for the same operands: ",
    "in-context": "it is wrong only in its context: ",
    "within-rules": "it is within its operator's rule, and the network's result is not accurate: ",
}
_SEVERAL: Final[dict[Kind, str]] = {
    "by-itself": "the result of one of these operators is wrong:",
    "nondeterministic": "these operators together give different results for the same operands:",
    "in-context": "each of these operators is right by itself, and together they are wrong:",
    "within-rules": "each of these operators is within its rule, and together they are not accurate:",
}
#: Operators of a divergence that its text lists.
_LISTED: Final = 12


@dataclass(frozen=True, slots=True)
class Divergence:
    """The operators at which a backend goes wrong.

    operators: index, path, location and signature of each; several if the backend gave no tensor
        between them, or if only all of them together are wrong.
    kind: "by-itself", "nondeterministic", "in-context" (the operators are the smallest part that
        shows it), or "within-rules" (each operator keeps its rule, and the network's error is still
        larger than allowed).
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
        """Operators and comparison, as JSON values."""
        return {
            "kind": self.kind,
            "operators": [
                {"index": index, "operator": path, "location": location, "signature": text}
                for index, path, location, text in self.operators
            ],
            "comparison": self.case.comparison.to_dict(),
        }


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
        commands = [
            "tosa-flatbuffer run case.tosa -i inputs.npz -o answer.npz",
            f"tosa-flatbuffer check case.tosa -i inputs.npz --against {against}",
        ]
        description = {**divergence.to_dict(), "commands": commands}
        target.write("case.json", [json.dumps(description, indent=1).encode() + b"\n"])
    return commands
