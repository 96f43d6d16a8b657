"""A program as a diagram: nodes, values between them, groups, and the text of each box."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, get_args

from tosa_convert.graph.model import DYNAMIC, MAX_RANK, ShapeValue, block_path, element_value
from tosa_convert.graph.opset import CONST, CONST_SHAPE
from tosa_convert.views.inspection.summary import value_summary

if TYPE_CHECKING:
    from tosa_convert.graph.constant import Constant
    from tosa_convert.graph.model import Block, Graph, Operator, Region, Tensor
    from tosa_convert.graph.opset import OperandSpec


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
        own = self.nodes[node].own_group
        return node if own is None else ~own

    def parent_of(self, item: Item) -> int | None:
        return self.nodes[item].group if item >= 0 else self.groups[~item].parent

    def chain(self, node: int) -> list[Item]:
        items = [self.item_of(node)]
        while (parent := self.parent_of(items[-1])) is not None:
            items.append(~parent)
        return items

    def connections(self) -> Iterator[tuple[int, End, End, int]]:
        """Return group, start, end and value of each line drawn, in all groups between its two ends."""
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
        for node in self.nodes:
            if node.kind == "operator":
                parent: int | None = node.group
                while parent is not None:
                    self.groups[parent].operators += 1
                    parent = self.groups[parent].parent


# -- the scope of an operator: the folders in names such as `encoder/layer_1/add` ------------------

#: Where scopes are read from; "auto" takes the names or locations that have more of them.
Scopes = Literal["auto", "names", "locations", "none"]
SCOPES: Final[tuple[Scopes, ...]] = get_args(Scopes)

Path = tuple[str, ...]

#: Deepest nesting of scopes that is shown.
_DEPTH: Final = 24
#: Most characters of a name that are looked at.
_CHARACTERS: Final = 2000
#: A name with dots, as torch has them: identifiers and numbers only, so neither 1.5 nor a file name.
_DOTTED: Final = re.compile(r"[A-Za-z_]\w*(\.\w+)+", re.ASCII)
#: A quoted name in a location that is not the name of a file, which a line number follows.
_NAMED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"(?!\s*:\s*\d)')
#: A name that was generated for a value that has none.
_GENERATED: Final = re.compile(r"layer_\d+|TosaOutput_\d+|%?\d+")


def scopes_of(block: Block, source: Scopes) -> list[Path]:
    """Return each operator's scope, outermost folder first; one without a name has its users'."""
    if source == "none":
        return [()] * len(block.operators)
    candidates: list[list[Path | None]] = []
    if source in ("auto", "names"):
        candidates.append([_by_name(operator) for operator in block.operators])
    if source in ("auto", "locations"):
        candidates.append([_by_location(operator) for operator in block.operators])
    best = max(candidates, key=lambda paths: len({path for path in paths if path}))
    paths = _adopted(block, best)
    shown = [path for path, op in zip(paths, block.operators, strict=True) if not _is_constant(op)]
    common = _common(shown)
    return [path[common:] for path in paths]


def scope_of_name(name: str) -> Path:
    """Return the folders of a name, by slashes or dots; a number as in `input.25` is no folder's."""
    name = name[:_CHARACTERS].partition(";")[0]
    if "/" in name:
        parts = name.split("/")
    elif _DOTTED.fullmatch(name):
        parts = name.split(".")
        if parts[-1][0].isdigit():
            parts.pop()
    else:
        return ()
    return tuple(part for part in parts[:-1] if part)[:_DEPTH]


def _by_name(operator: Operator) -> Path | None:
    """Return the scope in an operator's name, or None if it has no name of its own."""
    if _is_constant(operator) or not operator.outputs or _GENERATED.fullmatch(operator.outputs[0]):
        return None
    return scope_of_name(operator.outputs[0])


def _by_location(operator: Operator) -> Path | None:
    match = _NAMED.search(operator.location[:_CHARACTERS])
    return None if match is None else scope_of_name(match[1])


def _adopted(block: Block, paths: Sequence[Path | None]) -> list[Path]:
    """Return the paths, with that of the users for operators without one."""
    found: list[Path] = [() if path is None else path for path in paths]
    #: Value -> the scope that all users so far are in; None if they are in several.
    wanted: dict[str, Path | None] = dict.fromkeys(block.outputs)
    for number in range(len(found) - 1, -1, -1):
        operator = block.operators[number]
        if paths[number] is None:
            scopes = {wanted.get(name, ()) for name in operator.outputs}
            only = scopes.pop() if len(scopes) == 1 else None
            found[number] = only or ()
        for name in operator.inputs:
            wanted[name] = (
                found[number] if wanted.get(name, found[number]) == found[number] else None
            )
    return found


def _common(paths: Sequence[Path]) -> int:
    common = 0
    while paths and all(len(path) > common and path[common] == paths[0][common] for path in paths):
        common += 1
    return common


def _is_constant(operator: Operator) -> bool:
    return operator.spec in (CONST, CONST_SHAPE)


# -- the lines of a box, and its size: what an operator is, without looking it up ------------------

#: Most lines below the title, and most characters of a line.
_LINES, CHARACTERS = 4, 30
#: Pixels: a character of the monospaced font, a line, and the space around the text.
CHARACTER: Final = 7
LINE: Final = 15
_SIDE, _TOP = 12, 7
_NARROWEST: Final = 84
#: Attributes with these values are what one expects, and are only in the panel.
_EXPECTED: Final = {"False", "True", "0"}
#: Operands that are small numbers in nearly every network.
_PARAMETERS: Final = ("_zp", "shift", "multiplier")


def box_lines(node: Node, diagram: Diagram) -> list[str]:
    if node.operator is None:
        (slot,) = node.inputs or node.outputs
        return [diagram.values[slot[1]].label]
    lines = [*_constants(node, diagram), *_attributes(node)]
    return [clipped(line) for line in lines[:_LINES]]


def _constants(node: Node, diagram: Diagram) -> Iterator[str]:
    """Iterate over constant operands: weights by their sizes, single elements by their values."""
    for slot, number in node.inputs:
        value = diagram.values[number]
        if value.producer is not None or value.data is None:
            continue
        number_text = single_number(value)
        if slot.endswith(_PARAMETERS) and number_text in ("0", "0.0", None):
            continue
        text = value.label.removeprefix("shape ") if number_text is None else number_text
        yield f"{slot} {text}"


def _attributes(node: Node) -> Iterator[str]:
    assert node.operator is not None
    plain = {
        row.name
        for row in node.operator.spec.attributes
        if row.kind not in ("dtype", "enum", "region")
    }
    for name, text in node.attributes:
        numbers = set(text.strip("[]").split(", "))
        if name in plain and text not in _EXPECTED and not numbers <= {"0"}:
            if not (name in ("stride", "dilation") and numbers == {"1"}):
                yield f"{name} {text}"


def single_number(value: Value) -> str | None:
    """Return the value of a constant of one element, or None if it has several."""
    if value.data is None or value.data.count != 1 or value.scales is not None:
        return None
    raw = bytes(value.data.elements()[0].tobytes())
    number = element_value(raw, value.data.dtype)
    return f"{number:.6g}" if isinstance(number, float) else str(number)


def short_sizes(sizes: Sequence[int] | None) -> str:
    """Return sizes as in "1×28×28", "scalar" for rank 0.

    Example:
        >>> short_sizes((1, -1)), short_sizes(()), short_sizes(None)
        ('1×?', 'scalar', 'unranked')
    """
    if sizes is None:
        return "unranked"
    if not sizes:
        return "scalar"
    shown = ["?" if size == DYNAMIC else str(size) for size in sizes[:MAX_RANK]]
    return "×".join(shown) + ("×..." if len(sizes) > MAX_RANK else "")


def clipped(text: str) -> str:
    """Return a text for a line of a box: without its middle if it is long, and printable."""
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:1000])
    if len(plain) <= CHARACTERS and len(text) <= 1000:
        return plain
    half = CHARACTERS // 2
    return f"{plain[: half - 1]}\N{HORIZONTAL ELLIPSIS}{plain[-half:]}"


def group_lines(group: Group) -> list[str]:
    noun = "operator" if group.operators == 1 else "operators"
    return [clipped(group.label), f"{group.operators:,} {noun}"]


def box_size(lines: Sequence[str]) -> tuple[int, int]:
    """Return the width and height of a box with these lines, in pixels."""
    longest = max(sum(map(_columns, line)) for line in lines)
    return max(_NARROWEST, longest * CHARACTER + 2 * _SIDE), len(lines) * LINE + 2 * _TOP


def group_size(group: Group) -> tuple[int, int]:
    """Return the width and height of a closed group, with room for the sign that opens it."""
    width, height = box_size(group_lines(group))
    return width + 2 * CHARACTER, height


def _columns(character: str) -> int:
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


# -- A graph as a diagram: constants folded into their users, regions and scopes as groups ---------

#: Most boxes that are shown at first; those of the outermost group are always shown.
_SHOWN_AT_FIRST: Final = 600
#: A group with more boxes is divided into ranges of so many.
_MOST_ITEMS, _RANGE = 20_000, 1000


def build_diagram(graph: Graph, scopes: Scopes) -> Diagram:
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
        for value in dict.fromkeys(value for _, value in node.inputs):
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
