"""What a picture shows: nodes, the values between them, and the groups that they are in.

A diagram knows neither coordinates nor a format of pictures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, Literal

from tosa_convert.records import dataclass, field

if TYPE_CHECKING:
    from tosa_convert.graph.constant import Constant
    from tosa_convert.graph.model import Operator

#: The ends of a route that leaves its group: the value comes from, or goes to, somewhere outside.
ENTRY: Final = "entry"
EXIT: Final = "exit"

#: A node by its number, or a group by the complement of its number (`~group`).
Item = int
End = Item | Literal["entry", "exit"]


@dataclass(slots=True, eq=False)
class Value:
    """A tensor or shape of a block.

    type: such as "INT8 [1, 3]". label: its sizes for a line of a box, such as "1×3".
    producer: a node; None for a constant that is folded into its users.
    users: nodes, each once.
    data, scales: of a constant.
    """

    name: str
    type: str
    label: str
    producer: int | None = None
    users: list[int] = field(default_factory=list)
    data: Constant | None = None
    scales: Constant | None = None


@dataclass(slots=True, eq=False)
class Node:
    """A box: an operator, or an input or output of a block.

    kind: "operator", "input" or "output". title: the operator's name, or the value's.
    lines: further lines of the box. inputs, outputs: slots, such as "weight", and values.
    region, path, number: where it is; the number is that of the operator in its block.
    group: the group that it is in. own_group: the group that shows the regions that it runs.
    """

    kind: Literal["operator", "input", "output"]
    title: str
    region: str
    path: str
    number: int
    group: int
    lines: list[str] = field(default_factory=list)
    inputs: list[tuple[str, int]] = field(default_factory=list)
    outputs: list[tuple[str, int]] = field(default_factory=list)
    attributes: list[tuple[str, str]] = field(default_factory=list)
    operator: Operator | None = None
    own_group: int | None = None


@dataclass(slots=True, eq=False)
class Group:
    """Nodes and groups that are drawn in one frame, and can be collapsed to one box.

    kind: "region", "scope" (a common prefix of names), "operator" (the regions that one operator
        runs), or "range" (a part of a very long list of operators).
    items: in topological order, as far as there is one.
    node: the operator of a group of that kind.
    operators: how many are inside, at any depth. is_open: whether it is shown expanded at first.
    """

    label: str
    kind: Literal["region", "scope", "operator", "range"]
    parent: int | None
    items: list[Item] = field(default_factory=list)
    node: int | None = None
    operators: int = 0
    is_open: bool = False


@dataclass(slots=True)
class Diagram:
    """A program as nodes and groups; groups[0] is the whole."""

    nodes: list[Node] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)

    def item_of(self, node: int) -> Item:
        """Return the item that stands for a node in its group."""
        own = self.nodes[node].own_group
        return node if own is None else ~own

    def parent_of(self, item: Item) -> int | None:
        """Return the group that an item is in, or None for the whole."""
        return self.nodes[item].group if item >= 0 else self.groups[~item].parent

    def chain(self, node: int) -> list[Item]:
        """Return the item of a node, the group that it is in as an item, and so on up to the whole."""
        items = [self.item_of(node)]
        while (parent := self.parent_of(items[-1])) is not None:
            items.append(~parent)
        return items

    def connections(self) -> Iterator[tuple[int, End, End, int]]:
        """Return the group, start, end and value of each line that has to be drawn within that group.

        A value whose user is in another group leaves the groups of its producer and enters those of
        its user; in the group that both are in, the line connects the two items.
        """
        for number, value in enumerate(self.values):
            if value.producer is None:
                continue
            source = self.chain(value.producer)
            for user in value.users:
                yield from self._connection(source, self.chain(user), number)

    def _connection(
        self, source: list[Item], target: list[Item], value: int
    ) -> Iterator[tuple[int, End, End, int]]:
        common = 1
        while common < min(len(source), len(target)) and source[-common - 1] == target[-common - 1]:
            common += 1
        source, target = source[: len(source) - common], target[: len(target) - common]
        if not source or not target:
            return  # an operator does not use what is computed inside it, nor the other way
        for item in source[:-1]:
            yield self._group(item), item, EXIT, value
        yield self._group(source[-1]), source[-1], target[-1], value
        for item in target[:-1]:
            yield self._group(item), ENTRY, item, value

    def _group(self, item: Item) -> int:
        parent = self.parent_of(item)
        assert parent is not None
        return parent

    def open_groups(self, most: int) -> None:
        """Open groups from the outside in, as long as at most so many boxes are shown."""
        shown = 0
        waiting = [0]
        while waiting:
            inner: list[int] = []
            for number in waiting:
                group = self.groups[number]
                if number and shown + len(group.items) > most:
                    continue
                group.is_open = True
                shown += len(group.items)
                inner += [~item for item in group.items if item < 0]
            waiting = inner

    def count_operators(self) -> None:
        """Count the operators inside each group."""
        for node in self.nodes:
            if node.kind == "operator":
                parent: int | None = node.group
                while parent is not None:
                    self.groups[parent].operators += 1
                    parent = self.groups[parent].parent


def unique(items: Iterable[int]) -> list[int]:
    """Return the items without repetitions, in their order."""
    return list(dict.fromkeys(items))
