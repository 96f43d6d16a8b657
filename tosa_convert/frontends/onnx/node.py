"""A node of an ONNX model while it is lowered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tosa_convert.frontends.lowering.scope import Array, Data, NotLowered, Scope, whole_data


@dataclass(frozen=True)
class Items:
    """A sequence of ONNX, whose length is known."""

    held: tuple[Item, ...]


@dataclass(frozen=True)
class Maybe:
    """An optional of ONNX, of which is known whether it has a value."""

    held: Item | None


class Stop(Exception):
    """The results of a node are not known, so that what follows cannot be lowered."""


class ByDefinition(Exception):
    """The rule leaves the node to the function by which ONNX defines its operator."""


Item = Array | Items | Maybe
#: What the names of a graph, and of those around it, stand for.
Names = MutableMapping[str, Item]
_KNOWN: Final = "make it a constant"


class Walks(Protocol):
    """What goes through the graphs of a model, as rules see it. remarks: for the user, in order."""

    remarks: dict[str, None]

    def graph(
        self, scope: Scope, graph: Any, given: Sequence[Item], outer: Names | None = None
    ) -> list[Item]: ...

    def node(
        self, scope: Scope, node: Any, given: Sequence[Item | None], names: Names
    ) -> Sequence[Item]: ...

    def constant(self, tensor: Any) -> Array: ...

    def decide(self, operator: str, operands: bytes) -> None:
        """Note that a node compares known numbers."""

    def dtype(self, number: int) -> Any:
        """Return the element type of ONNX's number of it."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node that is lowered.

    scope: the block that gets the operators.
    kind: its operator. name: what the model calls it.
    given: its operands, in the order of the operator's definition; None for one that is left out.
    attributes: what it is given, and the defaults of the operator's definition. Graphs and tensors are
        messages of onnx.
    wanted: for each result, whether it has a name.
    opset: the version of the node's set of operators. since: that in which its definition began.
    walk: what lowers the graph in which it is. names: what the names of that graph stand for.
    """

    scope: Scope
    kind: str
    name: str
    given: Sequence[Item | None]
    attributes: Mapping[str, Any]
    wanted: Sequence[bool]
    opset: int
    since: int
    walk: Walks
    names: Names

    def has(self, index: int) -> bool:
        return index < len(self.given) and self.given[index] is not None

    def array(self, index: int) -> Array:
        item = self.given[index] if index < len(self.given) else None
        if not isinstance(item, Array):
            found = "left out" if item is None else "a sequence or an optional value"
            raise NotLowered(f"operand {index} is {found}, expected a tensor")
        return item

    def optional(self, index: int) -> Array | None:
        return self.array(index) if self.has(index) else None

    @property
    def arrays(self) -> list[Array]:
        return [self.array(index) for index in range(len(self.given))]

    def known(self, index: int) -> Data:
        """Return the elements of an operand that must be a constant."""
        a = self.array(index)
        if a.data is None:
            raise NotLowered(f"operand {index} is computed from the inputs of the model", _KNOWN)
        return whole_data(a)

    def ints(self, index: int) -> list[int]:
        """Return the elements of an operand that must be a constant list of integers."""
        return [int(n) for n in self.known(index).reshape(-1)]

    def number(self, index: int, default: int = 0) -> int:
        """Return the number of an operand that must be a constant."""
        return int(self.known(index).reshape(-1)[0]) if self.has(index) else default

    def get(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    def run(
        self,
        graph: Any,
        given: Sequence[Item],
        scope: Scope | None = None,
        names: Names | None = None,
    ) -> list[Item]:
        """Return the results of a graph among the attributes. scope, names: if not the node's own."""
        outer = self.names if names is None else names
        return self.walk.graph(self.scope if scope is None else scope, graph, given, outer)

    def remark(self, what: str) -> None:
        """Tell the user what of the result is onnxruntime's, where ONNX's definition is another."""
        self.walk.remarks[f"{self.name} ({self.kind}) {what}"] = None

    def axis(self, rank: int, default: int = 0, name: str = "axis") -> int:
        """Return the attribute of an axis, counted from the first."""
        return place(int(self.get(name, default)), rank)


def place(axis: int, rank: int) -> int:
    """Return an axis counted from the first."""
    if not -rank <= axis < max(rank, 1):
        raise NotLowered(f"axis {axis} is not one of {rank}")
    return axis % max(rank, 1)


def names_used(node: Any) -> set[str]:
    """Return the names that a node takes, also those of outer values in its graphs."""
    found = {name for name in node.input if name}
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            found |= outer_names(graph)
    return found


def outer_names(graph: Any) -> set[str]:
    """Return the names that a graph uses of those around it."""
    own = {info.name for info in graph.input} | {tensor.name for tensor in graph.initializer}
    own |= {sparse.values.name for sparse in graph.sparse_initializer}
    own |= {name for node in graph.node for name in node.output}
    used = {name for node in graph.node for name in names_used(node)}
    used |= {info.name for info in graph.output if info.name}
    return used - own


#: A remark on a result.
OTHER_SIZE: Final = "has the size that onnxruntime computes, not what ONNX infers"
#: Lowers a node: returns its results, those at the end may be missing.
Rule = Callable[[Node], Item | Sequence[Item]]


def refused(reason: str, advice: str = "") -> Rule:
    """Return the rule of an operator that does not lower."""

    def rule(n: Node) -> Item:
        raise NotLowered(reason, advice)

    return rule


def plain(function: Callable[..., Array], *attributes: str) -> Rule:
    """Return the rule that gives a function the operands, and these attributes in order."""
    return lambda n: function(n.scope, *n.arrays, *(n.attributes[name] for name in attributes))
