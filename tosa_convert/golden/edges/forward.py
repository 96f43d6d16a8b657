"""One run of a program on numpy, with the values on the way, up to where TOSA leaves a result open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.graph.derived import computed_tensors
from tosa_convert.graph.model import Graph
from tosa_convert.records import dataclass, field
from tosa_convert.reference.call import Step
from tosa_convert.reference.evaluate import Machine

#: Codes of errors that other values avoid.
_OF_VALUES: Final = frozenset(("refmodel-refused", "input-mismatch"))
#: Programs whose tensors have more bytes than this together run without their values being kept.
KEPT_BYTES: Final = 256 << 20


@dataclass(slots=True)
class Run:
    """What a run computed.

    values: the arrays of the main block, by name; only inputs and outputs of a large program.
    error: why it ended early; operator: the one of the main block where it did.
    """

    values: dict[str, Array] = field(default_factory=dict)
    error: TosaConvertError | None = None
    operator: int = -1


def run_forward(
    graph: Graph, inputs: Mapping[str, Array], watch: Callable[[Step], None] | None = None
) -> Run:
    """Run a program on numpy."""
    result = Run(dict(inputs))
    keeps = kept_bytes(graph) <= KEPT_BYTES
    outputs: dict[str, Array] = {}
    result.operator = 0
    try:
        for step in Machine(graph, "own").steps(inputs, outputs):
            if watch is not None:
                watch(step)
            if not step.inside.path:
                result.operator = step.index + 1
                if keeps:
                    result.values |= step.operands | step.results
    except TosaConvertError as error:
        if not {row.code for row in error.findings} <= _OF_VALUES:
            raise
        result.error = error
    result.values |= outputs
    return result


def kept_bytes(graph: Graph) -> int:
    """Return the bytes of all tensors that a program computes."""
    total = 0
    for _, name in computed_tensors(graph):
        tensor = graph.main.tensors[name]
        size = tensor.dtype.element_bytes
        for length in tensor.shape or ():
            size *= max(length, 1)
        total += size
    return total
