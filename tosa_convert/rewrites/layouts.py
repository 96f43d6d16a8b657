"""Operators that take any layout are computed in the one that needs the fewest TRANSPOSEs.

Frontends change the layout around each convolution and pool, and back. Between them are operators that
treat all dimensions alike, such as sums, or that name one, such as CONCAT: these can be computed in
either layout. Which of them are is a minimum cut: on the one side those that stay, on the other side
those whose operands and results are stored with permuted dimensions, and a TRANSPOSE for each value that
both sides need. So transposes disappear across branches, residuals and concatenations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.builder.edit import change_blocks
from tosa_convert.graph.from_numpy import constant_of
from tosa_convert.graph.model import DYNAMIC, Block, Graph, Operator
from tosa_convert.graph.opset import CONST, AttributeValue, operator
from tosa_convert.records import replace
from tosa_convert.rewrites.minimum_cut import NEVER, MinimumCut
from tosa_convert.rewrites.report import Recorder

NAME: Final = "layouts"
Order = tuple[int, ...]

_TRANSPOSE: Final = operator("TRANSPOSE")
_RESHAPE: Final = operator("RESHAPE")
#: Operators whose operands beside the first are shapes with an element, or two, for each dimension.
_SHAPED: Final = {"PAD": 2, "SLICE": 1, "TILE": 1}
#: Constants of at most this many bytes are transposed at once.
_SMALL_BYTES: Final = 1 << 16
#: What a TRANSPOSE costs, and one that keeps the order of the elements, which is a RESHAPE.
_COST: Final = 4
_COST_OF_RESHAPE: Final = 1


def rewrite(graph: Graph, recorder: Recorder) -> Graph:
    """Return the graph with fewer transposes; the same object if there is nothing to gain."""
    return change_blocks(graph, lambda where, block: _improved(where, block, recorder))


def _improved(where: str, block: Block, recorder: Recorder) -> Block:
    orders = Counter(_order(op) for op in block.operators if op.spec is _TRANSPOSE)
    for order, _ in orders.most_common():
        if sorted(order) != list(range(len(order))) or list(order) == sorted(order):
            continue  # It is not valid, or has no effect.
        made = _Layouts(block, order).improved(where, recorder)
        if made is not block:  # What is unused now must not count for the next order.
            return made
    return block


def _order(op: Operator) -> Order:
    perms = op.attributes["perms"]
    assert isinstance(perms, tuple)
    return perms


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


class _Layouts:
    """Decides for each operator of a block whether it works on values in their own layout.

    In the other one, they are stored so that a TRANSPOSE with `order` gives what they were.
    """

    def __init__(self, block: Block, order: Order) -> None:
        self.block = block
        self.order = order
        self.back = inverse(order)
        self.producers = {name: op for op in block.operators for name in op.outputs}
        self.cut = MinimumCut()
        #: The result of an operator -> its node.
        self.nodes = {
            op.outputs[0]: self.cut.new_node() for op in block.operators if self._may_choose(op)
        }

    # -- what may be in another layout --------------------------------------------------------------

    def _has_rank(self, name: str) -> bool:
        tensor = self.block.tensors.get(name)
        return (
            tensor is not None
            and tensor.shape is not None
            and len(tensor.shape) == len(self.order)
            and DYNAMIC not in tensor.shape
            and tensor.scale is None
            and not tensor.variable
        )

    def _may_choose(self, op: Operator) -> bool:
        if op.spec is _TRANSPOSE:
            return self._has_rank(op.outputs[0]) and not (self.enters(op) or self.leaves(op))
        return (
            bool(_data(op))
            and all(map(self._has_rank, (*(op.inputs[index] for index in _data(op)), *op.outputs)))
            and all(self._sizes(name) is not None for name in _shapes(op))
        )

    def _sizes(self, name: str) -> Order | None:
        shape = self.block.shapes.get(name)
        return None if shape is None else shape.values()

    def enters(self, op: Operator) -> bool:
        """Return whether the operand is the result in the other layout."""
        return _order(op) == self.order and not self.leaves(op)

    def leaves(self, op: Operator) -> bool:
        """Return whether the result is the operand in the other layout."""
        if _order(op) != self.back:
            return False
        # Where both are the same, one is chosen.
        producer = self.producers.get(op.inputs[0])
        return self.order != self.back or (producer is not None and bool(_data(producer)))

    # -- what it costs ------------------------------------------------------------------------------

    def improved(self, where: str, recorder: Recorder) -> Block:
        """Return the block with fewer transposes, or the given one."""
        if not self.nodes:
            return self.block
        before = self._add_costs()
        if self.cut.solve() >= before:
            return self.block
        right = self.cut.right_side()
        moved = {name for name, node in self.nodes.items() if node in right}
        return _Moving(self, moved, where).run(recorder)

    def _add_costs(self) -> int:
        """Add the edges of all values; return what they cost if all operators stay."""
        users: dict[str, list[tuple[Operator, int]]] = {}
        used = {*self.block.outputs, *(name for op in self.block.operators for name in op.inputs)}
        for op in self.block.operators:
            if op.outputs and used.isdisjoint(op.outputs):
                continue
            for name in dict.fromkeys(op.inputs):
                if self._has_rank(name):
                    users.setdefault(name, []).append((op, self._wanted(op, name)))
        total = 0
        for name in {*users, *self.block.outputs}:
            if not self._has_rank(name):
                continue
            wanted = {node for op, node in users.get(name, ()) if node >= 0}
            if name in self.block.outputs:
                wanted.add(self.cut.LEFT)
            total += self._add_value(name, wanted)
        return total

    def _wanted(self, op: Operator, name: str) -> int:
        """Return the node that decides in which layout an operator takes a value; -1 if any will do."""
        if op.spec is _TRANSPOSE:
            if self.leaves(op):
                return self.cut.RIGHT
            return self.cut.LEFT if self.enters(op) else -1
        if op.spec is _RESHAPE and is_reshape(self._shape(name), self.back):
            return -1  # It merges with the other.
        return self.nodes.get(op.outputs[0], self.cut.LEFT) if op.outputs else self.cut.LEFT

    def _shape(self, name: str) -> Order:
        return self.block.tensors[name].shape or ()

    def _add_value(self, name: str, wanted: set[int]) -> int:
        """Add the edges of a value that is wanted in some layouts; return what it costs now."""
        cut, producer = self.cut, self.producers.get(name)
        given = self.nodes.get(name, cut.LEFT)
        if producer is not None and producer.spec is CONST and self.is_cheap(name):
            return 0
        merges = is_reshape(self._shape(name), self.back)
        if producer is not None:
            if producer.spec is _TRANSPOSE and self.enters(producer):
                given = cut.RIGHT
            elif producer.spec is _RESHAPE and merges:
                return 0
        wanted = wanted - {given}
        if not wanted:
            return 0
        cost = _COST_OF_RESHAPE if merges else _COST
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

    def is_cheap(self, name: str) -> bool:
        """Return whether a constant is transposed without an operator."""
        tensor = self.block.tensors[name]
        return tensor.data is not None and (
            tensor.data.nbytes <= _SMALL_BYTES or is_reshape(self._shape(name), self.back)
        )


def _data(op: Operator) -> range:
    """Return the positions of the operands that may have any layout; none if it is fixed."""
    spec = op.spec
    if op.attributes.get("per_channel"):
        return range(0)
    if spec.elementwise:
        return range(spec.elementwise)
    if spec.name == "CONCAT":
        return range(len(op.inputs))
    is_alike = spec.name.startswith("REDUCE_") or spec.name in (*_SHAPED, "REVERSE", "RESCALE")
    return range(int(is_alike))


def _shapes(op: Operator) -> Sequence[str]:
    """Return the operands that are shapes, with values for each dimension."""
    if op.spec.name not in _SHAPED:
        return ()
    return [name for name, row in zip(op.inputs, op.spec.operands, strict=True) if row.is_shape]


class _Moving:
    """Rewrites a block in which the operators of some values work on the other layout."""

    def __init__(self, layouts: _Layouts, moved: set[str], where: str) -> None:
        self.layouts = layouts
        self.moved = moved
        self.edit = BlockEditor(layouts.block, where)
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
        if op.spec is _TRANSPOSE:
            return not self.layouts.enters(op)
        return bool(op.outputs) and op.outputs[0] in self.moved

    def run(self, recorder: Recorder) -> Block:
        """Return the block."""
        edit, layouts = self.edit, self.layouts
        given = layouts.block.operators
        for index, (op, before) in enumerate(zip(edit.visit(), given, strict=True)):
            is_moved = bool(op.outputs) and op.outputs[0] in self.moved
            if op.spec is _TRANSPOSE:
                self._transpose(op, before.inputs[0], is_moved=is_moved)
            elif is_moved:
                self._move(op, before)
            if is_moved:
                what = f"{op.spec} in the layout of {layouts.order} needs fewer transposes"
                recorder.add(NAME, what, edit.where, index, op)
        return edit.finish()

    def _transpose(self, op: Operator, given: str, *, is_moved: bool) -> None:
        """Replace a TRANSPOSE. given: its operand in the given block."""
        edit, layouts = self.edit, self.layouts
        (source,), (result,) = op.inputs, op.outputs
        order = _order(op)
        if layouts.enters(op):
            self.others[result] = source
            return
        if given in self.others:
            if layouts.leaves(op):
                edit.replace(op, [self.others[given]])
                return
            source, order = self.others[given], tuple(layouts.order[axis] for axis in order)
        elif layouts.leaves(op):
            self.others[given] = result
        if is_moved:
            other = tuple(order[axis] for axis in layouts.back)
            self.others[result] = edit.emit(_TRANSPOSE, [source], {"perms": other})
        if not is_moved or result in self.needed:
            edit.emit(_TRANSPOSE, [source], {"perms": order}, results=op.outputs)
        else:
            edit.remove(op)

    def _move(self, op: Operator, before: Operator) -> None:
        """Add an operator on the other layout and, if its result is needed as it was, a TRANSPOSE.

        before: the operator in the given block.
        """
        edit, layouts = self.edit, self.layouts
        (result,) = op.outputs
        inputs = list(op.inputs)
        for index in _data(op):
            inputs[index] = self._other(inputs[index], before.inputs[index])
        for index, name in enumerate(op.inputs):
            if name in _shapes(op):
                inputs[index] = self._other_sizes(name, _SHAPED[op.spec.name])
        attributes: dict[str, AttributeValue] = dict(op.attributes)
        if isinstance(axis := attributes.get("axis"), int):
            attributes["axis"] = layouts.order[axis]
        tensor = edit.tensors[result]
        shape = tuple((tensor.shape or ())[axis] for axis in layouts.back)
        if result in self.needed:
            made = edit.new_tensor(f"{result}_{op.spec.name.lower()}", tensor.dtype, shape)
        else:
            made, edit.tensors[result] = result, replace(tensor, shape=shape)
        self.others[result] = made
        edit.add(replace(op, inputs=tuple(inputs), outputs=(made,), attributes=attributes))
        if result in self.needed:
            edit.emit(_TRANSPOSE, [made], {"perms": layouts.order}, results=op.outputs)

    def _other(self, name: str, given: str) -> str:
        """Return a value in the other layout. given: its name in the given block."""
        if given not in self.others:
            edit, back = self.edit, self.layouts.back
            data = edit.data_of(name)
            if data is not None and self.layouts.is_cheap(name):
                tensor = edit.tensors[name]
                shape = tensor.shape or ()
                new = tuple(shape[axis] for axis in back)
                if not is_reshape(shape, back):
                    array = data.numpy().reshape(shape).transpose(back)
                    data = constant_of(np.ascontiguousarray(array), data.dtype)
                self.others[given] = edit.constant_of(data, new, name=f"{name}_transposed")
            else:
                self.others[given] = edit.emit(_TRANSPOSE, [name], {"perms": back})
        return self.others[given]

    def _other_sizes(self, name: str, each: int) -> str:
        """Return the shape operand with the values of each dimension in the other layout."""
        values = self.edit.sizes_of(name) or ()
        moved = [
            value for axis in self.layouts.back for value in values[axis * each : (axis + 1) * each]
        ]
        return self.edit.const_shape(moved, name=f"{name}_transposed")
