"""Which edges of its operators a program meets with some inputs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tosa_convert.golden.edges.elements import Elements, has_elements
from tosa_convert.golden.edges.forward import run_forward
from tosa_convert.golden.edges.operator_edges import edges_of
from tosa_convert.golden.edges.wishes import element_wishes, row_wishes
from tosa_convert.golden.running.programs import AS_IT_IS, as_graph, input_arrays
from tosa_convert.golden.running.variable_states import with_variables
from tosa_convert.graph.model import Block, Operator, counted, operator_path
from tosa_convert.graph.shown import Shown
from tosa_convert.io.options import ReadKeywords, ReadOptions, takes_keywords
from tosa_convert.records import dataclass, field
from tosa_convert.reference.call import Call, Step

if TYPE_CHECKING:
    from typing_extensions import Unpack
from tosa_convert.reference.evaluate import OPERATIONS, call_of


@dataclass(frozen=True, slots=True)
class OperatorEdges(Shown):
    """The edges of one operator.

    operator: its path, such as `operator #12 RESCALE`; inside of a loop that of all iterations.
    location: where it comes from.
    met: edge -> how many elements are there. missed: edges that other values of its operands would meet.
    """

    operator: str
    location: str
    met: dict[str, int]
    missed: tuple[str, ...]

    def __str__(self) -> str:
        met = ", ".join(f"{label} {count}" for label, count in self.met.items()) or "none"
        missed = f"; never: {', '.join(self.missed)}" if self.missed else ""
        return f"{self.operator}: {met}{missed}"


@dataclass(frozen=True, slots=True)
class EdgeCoverage(Shown):
    """The edges that a program's operators meet with one set of inputs, or with several."""

    operators: tuple[OperatorEdges, ...] = ()

    @property
    def met(self) -> int:
        """Return the number of edges that are met."""
        return sum(len(row.met) for row in self.operators)

    @property
    def existing(self) -> int:
        """Return the number of edges that there are."""
        return self.met + sum(len(row.missed) for row in self.operators)

    def joined(self, other: EdgeCoverage) -> EdgeCoverage:
        """Return what both meet together, of the same program."""
        rows = {row.operator: row for row in self.operators}
        for row in other.operators:
            before = rows.get(row.operator)
            if before is not None:
                met = dict(Counter(before.met) + Counter(row.met))
                both = dict.fromkeys((*before.missed, *row.missed))
                missed = tuple(label for label in both if label not in met)
                row = OperatorEdges(row.operator, row.location, met, missed)
            rows[row.operator] = row
        return EdgeCoverage(tuple(rows.values()))

    def __str__(self) -> str:
        count = counted(len(self.operators), "operator")
        return f"{self.met} of {self.existing} edges of {count} are met"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        rows = [
            {"operator": r.operator, "location": r.location, "met": r.met, "missed": [*r.missed]}
            for r in self.operators
        ]
        return {"met": self.met, "existing": self.existing, "operators": rows}


@takes_keywords(ReadKeywords)
def edge_coverage(
    program: Any,
    inputs: Mapping[str, Any] | None = None,
    *,
    random: int | None = None,
    variables: Mapping[str, Any] | None = None,
    read: ReadOptions = AS_IT_IS,
    **options: Unpack[ReadKeywords],
) -> EdgeCoverage:
    """Return which edges of its operators a program meets; it runs on numpy.

    An edge is a kind of value at which implementations err: a tie of RESCALE, a bound of CLAMP, equal
    operands of GREATER. An operator has an edge if some values of its operands meet it, whether or not
    the operators before it can compute them.

    Args:
        program: anything that `golden.run` takes.
        inputs: an array for each input, by name.
        random: a seed, 0 or more, for inputs that are not given.
        variables: initial states by name; the others start as the program says.
        read: how to read a file or module, as a value.
        options: how to read it, as keywords: those of `tosa_convert.load`.

    Raises:
        TosaConvertError: as `golden.run`.

    Example:
        >>> from tosa_convert import golden
        >>> graph = golden.generate(seed=2, operators=3, kinds=["ABS"])
        >>> few = golden.edge_coverage(graph, random=1)
        >>> many = golden.edge_coverage(graph, golden.edge_inputs(graph, seed=1))
        >>> few.existing == many.existing and few.met < many.met
        True
    """
    graph = with_variables(as_graph(program, read, options), variables or {})
    watch = CoverageWatch()
    run = run_forward(graph, input_arrays(graph, inputs, random), watch)
    if run.error is not None:
        raise run.error
    return watch.coverage()


@dataclass(slots=True)
class CoverageWatch:
    """Counts the edges of each operator that runs.

    known: edge that operators have, by path; those of further runs are the same.
    """

    known: dict[str, list[str]] = field(default_factory=dict)
    met: dict[str, Counter[str]] = field(default_factory=dict)
    _locations: dict[str, str] = field(default_factory=dict)
    _changing: dict[int, set[str]] = field(default_factory=dict)

    def __call__(self, step: Step) -> None:
        """Count the edges that an operator met."""
        operator, block = step.operator, step.block
        if id(block) not in self._changing:
            self._changing[id(block)] = changing_names(block)
        positions = changing_positions(operator, self._changing[id(block)])
        if not positions or not has_edges(block, operator):
            return
        operands = [step.operands[name] for name in operator.inputs]
        call = call_of(block, operator, operands, "own")
        path = f"{step.inside.path} {operator_path('', step.index, operator).strip()}".strip()
        path = re.sub(r"(cond|body)\[\d+\]", r"\1", path)
        counts = self.met.setdefault(path, Counter())
        self._locations[path] = operator.location
        with np.errstate(all="ignore"):
            for label, mask in edges_of(call, step.results[operator.outputs[0]], positions):
                if count := int(np.count_nonzero(mask)):
                    counts[label] += count
        if path not in self.known:
            self.known[path] = edge_labels(operator, call, positions)

    def coverage(self) -> EdgeCoverage:
        """Return what was counted."""
        rows = []
        for path, counts in self.met.items():
            known = dict.fromkeys((*self.known.get(path, ()), *counts))
            met = {label: counts[label] for label in known if counts[label]}
            missed = tuple(label for label in known if label not in met)
            rows.append(OperatorEdges(path, self._locations[path], met, missed))
        return EdgeCoverage(tuple(row for row in rows if row.met or row.missed))


def has_edges(block: Block, operator: Operator) -> bool:
    """Return whether an operator computes something of elements that are not block-scaled."""
    names = (*operator.inputs, *operator.outputs)
    tensors = [block.tensors[name] for name in names if name in block.tensors]
    return (
        operator.spec.name in OPERATIONS
        and operator.outputs[:1] != ()
        and operator.outputs[0] in block.tensors
        and all(tensor.scale is None for tensor in tensors)
    )


def edge_labels(operator: Operator, call: Call, positions: list[int]) -> list[str]:
    """Return the edges that an operator has."""
    generator = np.random.default_rng(0)
    found: dict[str, None] = {}
    with np.errstate(all="ignore"):
        if has_elements(operator):
            elements = Elements(call)
            for position in positions:
                if position < elements.count:
                    wishes = element_wishes(elements, position, generator)
                    found |= dict.fromkeys(wish.label for wish in wishes)
        elif operator.spec.accuracy != "operand" and 0 in positions:
            found |= dict.fromkeys(wish.label for wish in row_wishes(call, generator))
    return list(found)


def changing_names(block: Block) -> set[str]:
    """Return the values of a block that depend on its inputs."""
    found = set(block.inputs)
    for operator in block.operators:
        if not found.isdisjoint(operator.inputs):
            found.update(operator.outputs)
    return found


def changing_positions(operator: Operator, changing: set[str]) -> list[int]:
    """Return the operands of an operator that depend on inputs and are not shapes or constants."""
    count = len(operator.inputs)
    rows = [operator.spec.operand(position, count) for position in range(count)]
    return [
        position
        for position, (name, row) in enumerate(zip(operator.inputs, rows, strict=True))
        if name in changing and not row.is_shape and not row.is_constant
    ]
