"""A graph as a diagram: constants folded into their users, regions and scopes as groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from tosa_convert.graph.model import MAX_RANK, ShapeValue, block_path
from tosa_convert.graph.opset import CONST, CONST_SHAPE
from tosa_convert.views.inspection.summary import value_summary
from tosa_convert.views.pictures.box_text import box_lines, short_sizes
from tosa_convert.views.pictures.diagram import Diagram, Group, Item, Node, Value, unique
from tosa_convert.views.pictures.scopes import Path, Scopes, scopes_of

if TYPE_CHECKING:
    from tosa_convert.graph.constant import Constant
    from tosa_convert.graph.model import Block, Graph, Operator, Region, Tensor
    from tosa_convert.graph.opset import OperandSpec

#: Most boxes that are shown at first; those of the outermost group are always shown.
_SHOWN_AT_FIRST: Final = 600
#: A group with more boxes is divided into ranges of so many.
_MOST_ITEMS, _RANGE = 20_000, 1000


def build_diagram(graph: Graph, scopes: Scopes) -> Diagram:
    """Build the diagram of a sound graph."""
    builder = _Builder(graph, scopes)
    builder.build()
    diagram = builder.diagram
    for number in range(len(diagram.groups)):
        _divide(diagram, number)
    diagram.count_operators()
    diagram.open_groups(_SHOWN_AT_FIRST)
    return diagram


class _Builder:
    """Adds regions one after another: the main region, those that its operators run, and so on."""

    def __init__(self, graph: Graph, scopes: Scopes) -> None:
        self.graph = graph
        self.scopes = scopes
        self.regions = {region.name: region for region in graph.regions}
        self.diagram = Diagram()
        #: Regions to add, each with the group that shows it. A region is shown once.
        self.waiting: list[tuple[Region, int]] = []
        self.added: set[str] = set()

    def build(self) -> None:
        main = self.graph.regions[0]
        self._open(main.name, "", None)
        for region in self.graph.regions[1:]:
            self._add_waiting()
            if region.name not in self.added:  # no operator runs it
                self._open(region.name, "", 0)
        self._add_waiting()

    def _open(self, name: str, role: str, parent: int | None) -> None:
        """Add the group of a region. role: what it is for the operator that runs it."""
        self.added.add(name)
        group = self._group(Group(f"{role}: {name}" if role else name, "region", parent))
        self.waiting.append((self.regions[name], group))

    def _add_waiting(self) -> None:
        while self.waiting:
            region, group = self.waiting.pop(0)
            for block in region.blocks:
                self._add_block(region, block, group)

    def _group(self, group: Group) -> int:
        number = len(self.diagram.groups)
        self.diagram.groups.append(group)
        if group.parent is not None:
            self.diagram.groups[group.parent].items.append(~number)
        return number

    def _node(self, node: Node) -> int:
        number = len(self.diagram.nodes)
        self.diagram.nodes.append(node)
        self.diagram.groups[node.group].items.append(number)
        return number

    def _add_block(self, region: Region, block: Block, group: int) -> None:
        where = block_path(region.name, block.name)
        values = _Values(self.diagram, block)
        for name in block.inputs:
            node = Node("input", name, region.name, where, -1, group)
            node.outputs.append(("", values.number(name)))
            node.lines = box_lines(node, self.diagram)
            values.connect(self._node(node), node)
        shown = list(_shown_operators(block))
        paths = scopes_of(block, self.scopes)
        scopes = _ScopeGroups(self, group, [paths[number] for number, _ in shown])
        for number, operator in shown:
            node = Node(
                "operator",
                operator.spec.name,
                region.name,
                where,
                number,
                scopes.group_of(paths[number]),
                operator=operator,
                attributes=block.attribute_texts(operator),
            )
            node.inputs = list(values.slots(operator.inputs, operator.spec.operand))
            node.outputs = list(values.slots(operator.outputs, operator.spec.result))
            added = self._node(node)
            values.connect(added, node)
            node.lines = box_lines(node, self.diagram)
            if operator.spec.regions:
                self._add_regions(operator, added)
        for name in block.outputs:
            node = Node("output", name, region.name, where, -1, group)
            node.inputs.append(("", values.number(name)))
            node.lines = box_lines(node, self.diagram)
            values.connect(self._node(node), node)

    def _add_regions(self, operator: Operator, number: int) -> None:
        node = self.diagram.nodes[number]
        roles = [(row.name, str(operator.attributes[row.name])) for row in operator.spec.regions]
        new = [(role, name) for role, name in roles if name not in self.added]
        if not new:
            return
        items = self.diagram.groups[node.group].items
        own = self._group(Group(operator.spec.name, "operator", node.group, node=number))
        # The group takes the place of the node.
        items.pop()
        items[-1] = ~own
        node.own_group = own
        for role, name in new:
            self._open(name, role.removesuffix("_graph"), own)


def _shown_operators(block: Block) -> Iterator[tuple[int, Operator]]:
    """Iterate over operators that get a box; constants only if they are outputs or have no user."""
    used = {name for operator in block.operators for name in operator.inputs}
    outputs = set(block.outputs)
    for number, operator in enumerate(block.operators):
        if operator.spec in (CONST, CONST_SHAPE):
            if all(name in used and name not in outputs for name in operator.outputs):
                continue
        yield number, operator


class _Values:
    """The values of a block, added to the diagram when they are first mentioned."""

    def __init__(self, diagram: Diagram, block: Block) -> None:
        self.diagram = diagram
        self.block = block
        self.numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        if name not in self.numbers:
            self.numbers[name] = len(self.diagram.values)
            self.diagram.values.append(_value(self.block, name))
        return self.numbers[name]

    def slots(
        self, names: tuple[str, ...], spec_of: Callable[[int, int], OperandSpec]
    ) -> Iterator[tuple[str, int]]:
        for position, name in enumerate(names):
            yield spec_of(position, len(names)).name, self.number(name)

    def connect(self, number: int, node: Node) -> None:
        for value in unique(value for _, value in node.inputs):
            self.diagram.values[value].users.append(number)
        for _, value in node.outputs:
            self.diagram.values[value].producer = number


def _value(block: Block, name: str) -> Value:
    found: Tensor | ShapeValue = block.tensors.get(name) or block.shapes[name]
    summary = value_summary(found)
    if isinstance(found, ShapeValue):
        sizes = found.values() if found.rank <= MAX_RANK else None
        label = f"shape {short_sizes(sizes)}" if sizes is not None else f"shape of {found.rank}"
        return Value(name, str(summary), label, data=found.data)
    scales: Constant | None = None if found.scale is None else found.scale.data
    label = f"{short_sizes(found.shape)} {found.dtype}".strip()
    return Value(name, str(summary), label, data=found.data, scales=scales)


class _ScopeGroups:
    """The groups of the scopes of a block. A scope of one operator or one scope gets no frame."""

    def __init__(self, builder: _Builder, group: int, paths: list[Path]) -> None:
        self.builder = builder
        self.groups: dict[Path, int] = {(): group}
        #: Scope -> what is directly in it: operators as numbers, scopes as paths.
        self.inside: dict[Path, set[int | Path]] = {}
        for number, path in enumerate(paths):
            inner: int | Path = number
            for depth in range(len(path), -1, -1):
                self.inside.setdefault(path[:depth], set()).add(inner)
                inner = path[:depth]

    def group_of(self, path: Path) -> int:
        """Return the group of a scope, which is made when it is first needed."""
        if path not in self.groups:
            outer = path[:-1]
            if len(self.inside[path]) == 1:
                self.groups[path] = self.group_of(outer)
            else:
                while outer and len(self.inside[outer]) == 1:
                    outer = outer[:-1]
                label = "/".join(path[len(outer) :])
                parent = self.group_of(outer)
                self.groups[path] = self.builder._group(Group(label, "scope", parent))
        return self.groups[path]


def _divide(diagram: Diagram, number: int) -> None:
    items = diagram.groups[number].items
    if len(items) <= _MOST_ITEMS:
        return
    parts: list[Item] = []
    for start in range(0, len(items), _RANGE):
        part = items[start : start + _RANGE]
        label = f"{start:,} to {start + len(part) - 1:,}"
        parts.append(~len(diagram.groups))
        for item in part:
            if item >= 0:
                diagram.nodes[item].group = len(diagram.groups)
            else:
                diagram.groups[~item].parent = len(diagram.groups)
        diagram.groups.append(Group(label, "range", number, part))
    diagram.groups[number].items = parts
