"""Unknown sizes: those that stay after inference and why, and those that a version does not have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tosa_convert.errors import Finding
from tosa_convert.graph.dtypes import V1_1
from tosa_convert.graph.model import DYNAMIC, Block, Graph, Tensor, counted, operator_path, quoted
from tosa_convert.graph.static_shapes import is_open
from tosa_convert.records import dataclass, field

if TYPE_CHECKING:
    from tosa_convert.graph.model import Version

#: Most names that one line lists.
_NAMED = 4


@dataclass(slots=True)
class Cause:
    """Why sizes stay unknown.

    reason: the argument or operator with which the unknown sizes begin.
    tensors: the names of the tensors that stay dynamic because of it. outputs: those of them that are
        results of the program, with their open dimensions.
    """

    reason: str
    tensors: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        hidden = len(self.tensors) - _NAMED
        names = ", ".join(map(quoted, self.tensors[:_NAMED]))
        more = f" and {hidden} more" if hidden > 0 else ""
        verb = "stays" if len(self.tensors) == 1 else "stay"
        count = counted(len(self.tensors), "tensor")
        text = f"{self.reason}; {count} {verb} dynamic: {names}{more}"
        return text + (f"; of the results: {', '.join(self.outputs)}" if self.outputs else "")


def causes(graph: Graph) -> list[Cause]:
    """Return the causes of unknown sizes, in the order of the program, each with all that it affects.

    A tensor whose sizes have several causes is listed with the first one.
    """
    return [cause for where, block in graph.blocks() for cause in _causes_in(where, block)]


def version_findings(graph: Graph, version: Version) -> Iterator[Finding]:
    """Yield a finding for each tensor with unknown sizes if the version has only static shapes.

    Source: MLIR refuses them for TOSA 1.0, at level 8K.
    """
    if (version.major, version.minor) >= V1_1:
        return
    for where, block in graph.blocks():
        for name, tensor in block.tensors.items():
            if is_open(tensor):
                yield Finding(
                    "version-too-low",
                    f"{where} tensor {quoted(name)}",
                    f"unknown sizes need TOSA {V1_1[0]}.{V1_1[1]}; {version} does not have them",
                )


def _causes_in(where: str, block: Block) -> list[Cause]:
    found: list[Cause] = []
    cause_of: dict[str, Cause] = {}

    def add(name: str, cause: Cause) -> None:
        cause_of[name] = cause
        cause.tensors.append(name)
        if name in block.outputs:
            cause.outputs.append(f"{quoted(name)} in {_dimensions(block.tensors[name])}")

    open_tensors = {name for name, tensor in block.tensors.items() if is_open(tensor)}
    for name in block.inputs:
        if name in open_tensors:
            tensor = block.tensors[name]
            found.append(
                Cause(f"{where} input {quoted(name)} has no size in {_dimensions(tensor)}")
            )
            add(name, found[-1])
    for index, operator in enumerate(block.operators):
        results = [name for name in operator.outputs if name in open_tensors]
        if not results:
            continue
        source = next((cause_of[name] for name in operator.inputs if name in cause_of), None)
        if source is None:
            path = operator_path(where, index, operator)
            source = Cause(f"{path}: the sizes of its result do not follow from its operands")
            found.append(source)
        for name in results:
            add(name, source)
    return found


def _dimensions(tensor: Tensor) -> str:
    if tensor.shape is None:
        return "any dimension, because its rank is unknown"
    positions = [str(index) for index, size in enumerate(tensor.shape) if size == DYNAMIC]
    return f"dimension{'s' if len(positions) > 1 else ''} {' and '.join(positions)}"
