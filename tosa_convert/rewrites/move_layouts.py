"""Operators of any layout are computed in that of fewest changes of layout, by a minimum cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from tosa_convert.builder.edit import BlockEditor, change_blocks
from tosa_convert.graph.constant import Constant, constant_of
from tosa_convert.graph.model import DYNAMIC, Block, Graph, Operator
from tosa_convert.graph.opset import CONST, AttributeValue, operator
from tosa_convert.rewrites.operator_pass import Recorder

# -- other layouts: permuted dimensions, or one of size 1 more or less -----------------------------

Order = tuple[int, ...]

TRANSPOSE: Final = operator("TRANSPOSE")
RESHAPE: Final = operator("RESHAPE")
#: Marks a dimension of size 1 that only the other layout has.
NEW: Final = -1
#: The most dimensions of a tensor that gets one more: those that level 8K allows.
_MOST_DIMENSIONS: Final = 6
#: Constants of at most this many bytes are transposed at once.
_SMALL_BYTES: Final = 1 << 16
#: What a TRANSPOSE costs, and a RESHAPE.
_COST: Final = 4
_COST_OF_RESHAPE: Final = 1
#: Operators that take shapes, with values for each dimension -> these values of a new one, by operand.
SHAPED: Final[dict[str, dict[int, Order]]] = {
    "PAD": {1: (0, 0)},
    "SLICE": {1: (0,), 2: (1,)},
    "TILE": {1: (1,)},
}


class LayoutChange:
    """Changes tensors of one rank from their own layout to another one.

    Args:
        axes: The own dimension that each dimension of the other layout is, or NEW.
        rank: How many own dimensions there are. One that `axes` does not have has size 1.

    Attributes:
        spec: The operator that makes the change: TRANSPOSE, or RESHAPE if the number of dimensions
            changes.

    Example:
        >>> last = LayoutChange((0, 2, 3, 1), 4)
        >>> last.spec.name, last.other((1, 3, 8, 9)), last.merges((1, 1, 8, 9))
        ('TRANSPOSE', (1, 8, 9, 3), True)
        >>> heads = LayoutChange((1, 2, 3), 4)
        >>> heads.spec.name, heads.other((1, 4, 16, 8)), heads.fits((2, 4, 16, 8))
        ('RESHAPE', (4, 16, 8), False)
    """

    def __init__(self, axes: Order, rank: int) -> None:
        self.axes = axes
        self.rank = rank
        self.spec = TRANSPOSE if sorted(axes) == list(range(rank)) else RESHAPE
        self._dropped = [axis for axis in range(rank) if axis not in axes]

    @property
    def gain(self) -> str:
        if self.spec is TRANSPOSE:
            return f"in the layout of {self.order} needs fewer transposes"
        number = "less" if self._dropped else "more"
        return f"of one dimension of size 1 {number} needs fewer RESHAPEs"

    @property
    def verb(self) -> str:
        """Return what became of a constant, for its name."""
        return "transposed" if self.spec is TRANSPOSE else "reshaped"

    @property
    def order(self) -> Order:
        """Return the permutation that takes the other layout back, if it has as many dimensions."""
        return inverse(self.axes)

    # -- tensors ------------------------------------------------------------------------------------

    def fits(self, shape: Sequence[int]) -> bool:
        """Return whether a tensor of this shape can have the other layout."""
        return len(shape) == self.rank and all(shape[axis] == 1 for axis in self._dropped)

    def other(self, shape: Sequence[int]) -> Order:
        return tuple([1 if axis == NEW else shape[axis] for axis in self.axes])

    def merges(self, shape: Sequence[int]) -> bool:
        """Return whether the change is a TRANSPOSE that a RESHAPE does, too."""
        return self.spec is TRANSPOSE and is_reshape(shape, self.axes)

    def cost(self, shape: Sequence[int]) -> int:
        return _COST_OF_RESHAPE if self.spec is RESHAPE or self.merges(shape) else _COST

    def is_free(self, data: Constant, shape: Sequence[int]) -> bool:
        """Return whether a constant changes without an operator, also if something needs both."""
        return data.nbytes <= _SMALL_BYTES or self.merges(shape)

    def constant(self, data: Constant, shape: Sequence[int]) -> Constant:
        if self.spec is RESHAPE or self.merges(shape):
            return data
        array = data.numpy().reshape(shape).transpose(self.axes)
        return constant_of(np.ascontiguousarray(array), data.dtype)

    # -- operators that work in either layout -------------------------------------------------------

    def data_of(self, op: Operator) -> range:
        """Return the positions of the operands that may have either layout; none if it is fixed."""
        if not self.axes and not op.spec.elementwise:
            return range(0)  # TOSA has no other operators on scalars.
        if op.spec is TRANSPOSE and self.spec is RESHAPE:
            perms = order_of(op)
            is_kept = is_order(perms, self.rank) and all(
                perms[axis] == axis for axis in self._dropped
            )
            return range(int(is_kept))
        axis = op.attributes.get("axis")
        if axis is not None and (axis not in range(self.rank) or axis in self._dropped):
            return range(0)
        return data_of(op)

    def may_change(self, values: Sequence[int] | None, new: Order) -> bool:
        """Return whether a shape operand has values for all dimensions, `new` where one goes."""
        each = len(new)
        return (
            values is not None
            and len(values) == each * self.rank
            and all(tuple(values[axis * each :][:each]) == new for axis in self._dropped)
        )

    def attributes(self, op: Operator) -> dict[str, AttributeValue]:
        made: dict[str, AttributeValue] = dict(op.attributes)
        axis, perms = made.get("axis"), made.get("perms")
        if isinstance(axis, int):
            made["axis"] = self.axes.index(axis)
        if isinstance(perms, tuple):
            made["perms"] = tuple(
                [self.axes.index(NEW if own == NEW else perms[own]) for own in self.axes]
            )
        return made

    def sizes(self, values: Sequence[int], new: Order) -> Order:
        """Return a shape operand in the other layout. new: its values for a new dimension."""
        each = len(new)
        rows = [
            new if axis == NEW else values[axis * each : (axis + 1) * each] for axis in self.axes
        ]
        return tuple([value for row in rows for value in row])

    # -- operators that change the layout -----------------------------------------------------------

    def enters(self, op: Operator, block: Block, producers: Mapping[str, Operator]) -> bool:
        """Return whether the operand is the result in the other layout."""
        if self.spec is TRANSPOSE:
            return order_of(op) == self.order and not self.leaves(op, block, producers)
        return self._changes(op.outputs[0], op.inputs[0], block)

    def leaves(self, op: Operator, block: Block, producers: Mapping[str, Operator]) -> bool:
        """Return whether the result is the operand in the other layout."""
        if self.spec is RESHAPE:
            return self._changes(op.inputs[0], op.outputs[0], block)
        if order_of(op) != self.axes:
            return False
        # Where both are the same, one is chosen.
        producer = producers.get(op.inputs[0])
        return self.order != self.axes or (producer is not None and bool(data_of(producer)))

    def _changes(self, own: str, other: str, block: Block) -> bool:
        """Return whether one value is another one in the other layout, by their shapes."""
        one, two = block.tensors[own], block.tensors[other]
        if one.shape is None or DYNAMIC in one.shape or not self.fits(one.shape):
            return False
        return one.dtype is two.dtype and self.other(one.shape) == two.shape

    def emit_change(
        self, edit: BlockEditor, name: str, results: Sequence[str] | None = None
    ) -> str:
        """Emit what takes a tensor to the other layout, or back if `results` names its own one."""
        if self.spec is TRANSPOSE:
            perms = self.axes if results is None else self.order
            return edit.emit(TRANSPOSE, [name], {"perms": perms}, results=results)
        own = edit.tensors[results[0] if results else name].shape or ()
        return _emit_reshape(edit, name, own if results else self.other(own), results)

    def emit_composed(
        self,
        edit: BlockEditor,
        op: Operator,
        source: str,
        *,
        is_other: bool,
        results: Sequence[str] | None,
    ) -> str:
        """Emit what takes the result of the change `op` to the layout of `results`; None: the other one.

        source: the operand, in the other layout if `is_other`.
        """
        if self.spec is RESHAPE:
            own = edit.tensors[op.outputs[0]].shape or ()
            return _emit_reshape(edit, source, own if results else self.other(own), results)
        perms = order_of(op)
        if is_other:
            perms = tuple([self.order[axis] for axis in perms])
        if results is None:
            perms = tuple([perms[axis] for axis in self.axes])
        return edit.emit(TRANSPOSE, [source], {"perms": perms}, results=results)


def _emit_reshape(
    edit: BlockEditor, source: str, shape: Order, results: Sequence[str] | None
) -> str:
    if results is None:
        wanted = f"{edit.stem}_reshape" if edit.stem else "reshape"
        results = [edit.new_tensor(wanted, edit.tensors[source].dtype, shape)]
    return edit.emit(RESHAPE, [source, edit.const_shape(shape)], results=results)


def cost_of(block: Block) -> int:
    """Return what used changes of layout cost; two RESHAPEs in a row count once if nothing taps them."""
    total = 0
    #: A value that is used -> whether only RESHAPEs take it.
    merges = dict.fromkeys(block.outputs, False)
    for op in reversed(block.operators):
        if op.outputs and merges.keys().isdisjoint(op.outputs):
            continue
        is_free = op.spec is RESHAPE
        if op.spec in (TRANSPOSE, RESHAPE):
            given, made = (block.tensors[name].shape for name in (op.inputs[0], op.outputs[0]))
            if op.spec is TRANSPOSE and given is not None:
                is_free = is_reshape(given, order_of(op))
            if not is_free:
                total += _COST
            elif not merges[op.outputs[0]] and given != made:
                total += _COST_OF_RESHAPE
        for name in op.inputs:
            merges[name] = merges.get(name, True) and is_free
    return total


def changes(block: Block) -> Iterator[LayoutChange]:
    """Iterate over the changes that could save operators of a block, the most frequent first."""
    found: Counter[tuple[Order, int]] = Counter()
    for op in block.operators:
        if op.spec is TRANSPOSE:
            perms, given = order_of(op), block.tensors[op.inputs[0]].shape
            if not is_order(perms, len(perms if given is None else given)):
                return  # What the program means is not known.
            if list(perms) != sorted(perms):  # It has an effect.
                found[inverse(perms), len(perms)] += 1
        elif op.spec is RESHAPE:
            one, other = (block.tensors[name].shape for name in (op.inputs[0], op.outputs[0]))
            if one is not None and other is not None and DYNAMIC not in (*one, *other):
                found.update(_of_reshape(*sorted((one, other), key=len)))
    for (axes, rank), count in found.most_common():
        # A RESHAPE needs another one to meet.
        if len(axes) == rank or count > 1:
            yield LayoutChange(axes, rank)


def _of_reshape(small: Order, large: Order) -> Iterator[tuple[Order, int]]:
    """Iterate over the changes of a RESHAPE between two shapes, of which one has a dimension more."""
    if len(large) != len(small) + 1:
        return
    rank = len(small)
    for new, size in enumerate(large):
        if size == 1 and large[:new] + large[new + 1 :] == small:
            yield tuple([axis for axis in range(rank + 1) if axis != new]), rank + 1
            if len(large) <= _MOST_DIMENSIONS:
                yield (*range(new), NEW, *range(new, rank)), rank


def data_of(op: Operator) -> range:
    """Return the positions of the operands whose dimensions an operator treats alike, or names."""
    spec = op.spec
    if op.attributes.get("per_channel"):
        return range(0)
    if spec.elementwise:
        return range(spec.elementwise)
    if spec.name == "CONCAT":
        return range(len(op.inputs))
    is_alike = spec.name.startswith("REDUCE_") or spec.name in (*SHAPED, "REVERSE", "RESCALE")
    return range(int(is_alike))


def order_of(op: Operator) -> Order:
    """Return the permutation of a TRANSPOSE."""
    perms = op.attributes["perms"]
    assert isinstance(perms, tuple)
    return perms


def is_order(perms: Order, rank: int) -> bool:
    """Return whether a TRANSPOSE with these indices is valid for tensors of a rank."""
    return sorted(perms) == list(range(rank))


def inverse(order: Order) -> Order:
    """Return the permutation that takes another one back.

    Example:
        >>> inverse((0, 3, 1, 2))
        (0, 2, 3, 1)
    """
    return tuple(order.index(axis) for axis in range(len(order)))


def is_reshape(shape: Sequence[int], order: Order) -> bool:
    """Return whether a TRANSPOSE of a tensor moves only dimensions of size 1.

    Example:
        >>> is_reshape((1, 8, 1, 1), (0, 2, 3, 1)), is_reshape((1, 8, 2, 1), (0, 2, 3, 1))
        (True, False)
    """
    moved = [axis for axis in order if shape[axis] != 1]
    return moved == sorted(moved)


# -- the cheapest split of a graph's nodes in two, by its edges across -----------------------------

#: The cost of an edge that no cut crosses.
NEVER: Final = 1 << 40


class MinimumCut:
    """A directed graph whose nodes are numbers: those of `new_node`, `LEFT` and `RIGHT`."""

    LEFT: Final = 0
    RIGHT: Final = 1

    def __init__(self) -> None:
        self._edges_of: list[list[int]] = [[], []]
        #: By edge: where it leads, and what may still flow. The opposite of edge e is e ^ 1.
        self._ends: list[int] = []
        self._left: list[int] = []
        self._distances: list[int] = []

    def new_node(self) -> int:
        self._edges_of.append([])
        return len(self._edges_of) - 1

    def add_edge(self, start: int, end: int, cost: int) -> None:
        """Add an edge that costs something if its start is on the left side and its end on the right."""
        number = len(self._ends)
        self._edges_of[start].append(number)
        self._edges_of[end].append(number + 1)
        self._ends += (end, start)
        self._left += (cost, 0)

    def solve(self) -> int:
        """Find the cheapest cut, as the largest flow (Dinic's algorithm); return its cost.

        It is searched from the right: few values are wanted there, and most are near the left.
        """
        total = 0
        while True:
            self._distances = distances = self._from_the_right()
            if distances[self.LEFT] < 0:
                return total
            total += self._blocking_flow(distances)

    def right_side(self) -> set[int]:
        """Return the nodes that every cheapest cut has on the right side, after `solve`."""
        return {node for node, distance in enumerate(self._distances) if distance >= 0}

    def _from_the_right(self) -> list[int]:
        """Return distances to the right over edges that are not full; -1 beyond that of the left."""
        edges_of, ends, left = self._edges_of, self._ends, self._left
        distances = [-1] * len(edges_of)
        distances[self.RIGHT] = 0
        reached = [self.RIGHT]
        for node in reached:
            for edge in edges_of[node]:
                end = ends[edge]
                if distances[end] < 0 and left[edge ^ 1]:
                    distances[end] = distances[node] + 1
                    if end == self.LEFT:
                        return distances
                    reached.append(end)
        return distances

    def _blocking_flow(self, distances: list[int]) -> int:
        """Fill shortest paths until none is left; return how much flows through them."""
        edges_of, ends, left = self._edges_of, self._ends, self._left
        total = 0
        following = [0] * len(distances)
        path: list[int] = []
        node = self.RIGHT
        while True:
            if node == self.LEFT:
                amount = min(left[edge ^ 1] for edge in path)
                for edge in path:
                    left[edge ^ 1] -= amount
                    left[edge] += amount
                total += amount
                path.clear()
                node = self.RIGHT
                continue
            edges = edges_of[node]
            while following[node] < len(edges):
                edge = edges[following[node]]
                if left[edge ^ 1] and distances[ends[edge]] == distances[node] + 1:
                    break
                following[node] += 1
            else:
                if not path:
                    return total
                node = ends[path.pop() ^ 1]
                following[node] += 1
                continue
            path.append(edge)
            node = ends[edge]


NAME: Final = "layouts"


def rewrite(graph: Graph, recorder: Recorder) -> Graph:
    """Return the graph with fewer changes of layout; the same object if there is nothing to gain."""
    return change_blocks(graph, lambda where, block: _improved(where, block, recorder))


def _improved(where: str, block: Block, recorder: Recorder) -> Block:
    before = None
    for change in changes(block):
        moving = _Layouts(block, change).improved(where)
        if moving is None:
            continue
        made = moving.run()
        # Each change counts a RESHAPE beside it as free. Two of them must not undo one another.
        before = cost_of(block) if before is None else before
        if cost_of(made) < before:  # What is unused now must not count for the next change.
            for index, op in moving.moved_operators:
                recorder.add(NAME, f"{op.spec} {change.gain}", where, index, op)
            return made
    return block


class _Layouts:
    """Decides for each operator of a block whether it works on values in their own layout.

    In the other one, they are stored as `change` makes them.
    """

    def __init__(self, block: Block, change: LayoutChange) -> None:
        self.block = block
        self.change = change
        self.producers = {name: op for op in block.operators for name in op.outputs}
        self.cut = MinimumCut()
        #: The tensors that may be in the other layout.
        self.fitting = {
            name
            for name, tensor in block.tensors.items()
            if tensor.shape is not None
            and change.fits(tensor.shape)
            and DYNAMIC not in tensor.shape
            and tensor.scale is None
            and not tensor.variable
        }
        #: The result of an operator -> its node.
        self.nodes = {
            op.outputs[0]: self.cut.new_node() for op in block.operators if self._may_choose(op)
        }

    # -- what may be in another layout --------------------------------------------------------------

    def _may_choose(self, op: Operator) -> bool:
        if op.spec is self.change.spec:
            return op.outputs[0] in self.fitting and not (self.enters(op) or self.leaves(op))
        data = self.change.data_of(op)
        return (
            bool(data)
            and self.fitting.issuperset((*(op.inputs[index] for index in data), *op.outputs))
            and all(
                self.change.may_change(self._sizes(op.inputs[index]), new)
                for index, new in SHAPED.get(op.spec.name, {}).items()
            )
        )

    def _sizes(self, name: str) -> Order | None:
        shape = self.block.shapes.get(name)
        return None if shape is None else shape.values()

    def enters(self, op: Operator) -> bool:
        return self.change.enters(op, self.block, self.producers)

    def leaves(self, op: Operator) -> bool:
        return self.change.leaves(op, self.block, self.producers)

    # -- what it costs ------------------------------------------------------------------------------

    def improved(self, where: str) -> _Moving | None:
        """Return what moves operators to the other layout; None if that saves nothing."""
        if not self.nodes:
            return None
        before = self._add_costs()
        if self.cut.solve() >= before:
            return None
        right = self.cut.right_side()
        moved = {name for name, node in self.nodes.items() if node in right}
        return _Moving(self, moved, where)

    def _add_costs(self) -> int:
        """Add the edges of all values; return what they cost if all operators stay."""
        users: dict[str, list[tuple[Operator, int]]] = {}
        used = {*self.block.outputs, *(name for op in self.block.operators for name in op.inputs)}
        for op in self.block.operators:
            if op.outputs and used.isdisjoint(op.outputs):
                continue
            for name in dict.fromkeys(op.inputs):
                if name in self.fitting:
                    users.setdefault(name, []).append((op, self._wanted(op, name)))
        total = 0
        for name in {*users, *self.block.outputs}:
            if name not in self.fitting:
                continue
            wanted = {node for op, node in users.get(name, ()) if node >= 0}
            if name in self.block.outputs:
                wanted.add(self.cut.LEFT)
            total += self._add_value(name, wanted)
        return total

    def _wanted(self, op: Operator, name: str) -> int:
        """Return the node that decides in which layout an operator takes a value; -1 if any will do."""
        if op.spec is self.change.spec:
            if self.leaves(op):
                return self.cut.RIGHT
            return self.cut.LEFT if self.enters(op) else -1
        if op.spec is RESHAPE and self.change.merges(self._shape(name)):
            return -1  # It merges with the other.
        return self.nodes.get(op.outputs[0], self.cut.LEFT) if op.outputs else self.cut.LEFT

    def _shape(self, name: str) -> Order:
        return self.block.tensors[name].shape or ()

    def _add_value(self, name: str, wanted: set[int]) -> int:
        """Add the edges of a value that is wanted in some layouts; return what it costs now."""
        cut, change, producer = self.cut, self.change, self.producers.get(name)
        given = self.nodes.get(name, cut.LEFT)
        shape = self._shape(name)
        if producer is not None:
            if producer.spec is CONST:
                if self.is_free(name):
                    return 0
                if change.spec is RESHAPE:
                    given = cut.new_node()
            elif producer.spec is change.spec and self.enters(producer):
                given = cut.RIGHT
            elif producer.spec is RESHAPE and change.merges(shape):
                return 0
        wanted = wanted - {given}
        if not wanted:
            return 0
        cost = change.cost(shape)
        if given != cut.RIGHT:
            other = cut.new_node()
            cut.add_edge(given, other, cost)
            for node in wanted - {cut.LEFT}:
                cut.add_edge(other, node, NEVER)
        if given != cut.LEFT:
            same = cut.new_node()
            cut.add_edge(same, given, cost)
            for node in wanted - {cut.RIGHT}:
                cut.add_edge(node, same, NEVER)
        return cost if cut.RIGHT in (given, *wanted) else 0

    def is_free(self, name: str) -> bool:
        data = self.block.tensors[name].data
        return data is not None and self.change.is_free(data, self._shape(name))


class _Moving:
    """Rewrites a block in which the operators of some values work on the other layout."""

    def __init__(self, layouts: _Layouts, moved: set[str], where: str) -> None:
        self.layouts = layouts
        self.moved = moved
        self.edit = BlockEditor(layouts.block, where)
        #: The operators that work on the other layout, with their positions in the given block.
        self.moved_operators: list[tuple[int, Operator]] = []
        #: A value of the given block -> it in the other layout. Its own name may stand for that by now.
        self.others: dict[str, str] = {}
        users: dict[str, list[Operator]] = {}
        for op in layouts.block.operators:
            for name in op.inputs:
                users.setdefault(name, []).append(op)
        #: Values of moved operators that something takes in their own layout.
        self.needed = {
            name
            for name in moved
            if name in layouts.block.outputs or not all(map(self._takes_other, users.get(name, ())))
        }

    def _takes_other(self, op: Operator) -> bool:
        if op.spec is self.layouts.change.spec:
            return not self.layouts.enters(op)
        return bool(op.outputs) and op.outputs[0] in self.moved

    def run(self) -> Block:
        edit, layouts = self.edit, self.layouts
        given = layouts.block.operators
        for index, (op, before) in enumerate(zip(edit.visit(), given, strict=True)):
            is_moved = bool(op.outputs) and op.outputs[0] in self.moved
            if op.spec is layouts.change.spec:
                self._change(op, before, is_moved=is_moved)
            elif is_moved:
                self._move(op, before)
            if is_moved:
                self.moved_operators.append((index, op))
        return edit.finish()

    def _change(self, op: Operator, before: Operator, *, is_moved: bool) -> None:
        """Replace a change of layout. before: the operator in the given block."""
        edit, layouts = self.edit, self.layouts
        (source, *_), (result,), given = op.inputs, op.outputs, before.inputs[0]
        if layouts.enters(before):
            self.others[result] = source
            return
        is_other = given in self.others
        if is_other:
            if layouts.leaves(before):
                edit.replace(op, [self.others[given]])
                return
            source = self.others[given]
        elif layouts.leaves(before):
            self.others[given] = result
        if not (is_moved or is_other):
            return
        emit = partial(layouts.change.emit_composed, edit, op, source, is_other=is_other)
        if is_moved:
            self.others[result] = emit(results=None)
        if not is_moved or result in self.needed:
            emit(results=op.outputs)
        else:
            edit.remove(op)

    def _move(self, op: Operator, before: Operator) -> None:
        """Add `before` on the other layout and, if its result is needed as it was, a change back."""
        edit, change = self.edit, self.layouts.change
        (result,) = op.outputs
        inputs = list(op.inputs)
        for index in change.data_of(op):
            inputs[index] = self._other(inputs[index], before.inputs[index])
        for index, new in SHAPED.get(op.spec.name, {}).items():
            inputs[index] = self._other_sizes(op.inputs[index], new)
        attributes = change.attributes(op)
        tensor = edit.tensors[result]
        shape = change.other(tensor.shape or ())
        if result in self.needed:
            made = edit.new_tensor(f"{result}_{op.spec.name.lower()}", tensor.dtype, shape)
        else:
            made, edit.tensors[result] = result, replace(tensor, shape=shape)
        self.others[result] = made
        edit.add(replace(op, inputs=tuple(inputs), outputs=(made,), attributes=attributes))
        if result in self.needed:
            change.emit_change(edit, made, results=op.outputs)

    def _other(self, name: str, given: str) -> str:
        """Return a value in the other layout. given: its name in the given block."""
        if given not in self.others:
            edit, change = self.edit, self.layouts.change
            data = edit.data_of(name)
            if data is not None and self.layouts.is_free(name):
                shape = edit.tensors[name].shape or ()
                self.others[given] = edit.constant_of(
                    change.constant(data, shape), change.other(shape), name=f"{name}_{change.verb}"
                )
            else:
                self.others[given] = change.emit_change(edit, name)
        return self.others[given]

    def _other_sizes(self, name: str, new: Order) -> str:
        """Return a shape operand with values for the dimensions of the other layout."""
        values = self.layouts.change.sizes(self.edit.sizes_of(name) or (), new)
        return self.edit.const_shape(values, name=f"{name}_{self.layouts.change.verb}")
