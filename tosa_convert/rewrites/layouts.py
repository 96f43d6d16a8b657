"""Operators that take any layout are computed in the one that needs the fewest changes of layout.

Frontends change the layout around each convolution and pool, and back. Between them are operators that
treat all dimensions alike, such as sums, or that name one, such as CONCAT: these can be computed in
either layout. Which of them are is a minimum cut: on the one side those that stay, on the other side
those whose operands and results are stored in the other layout, and a TRANSPOSE for each value that both
sides need. So transposes disappear across branches, residuals and concatenations. In the same way, a
softmax between two products of matrices is computed without the dimension of size 1 that a batch of one
has, and the RESHAPEs around it disappear.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.builder.edit import change_blocks
from tosa_convert.graph.model import DYNAMIC, Block, Graph, Operator
from tosa_convert.graph.opset import CONST
from tosa_convert.records import replace
from tosa_convert.rewrites.layout_changes import (
    RESHAPE,
    SHAPED,
    LayoutChange,
    Order,
    changes,
    cost_of,
)
from tosa_convert.rewrites.minimum_cut import NEVER, MinimumCut
from tosa_convert.rewrites.report import Recorder

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
            and DYNAMIC not in tensor.shape
            and self.change.fits(tensor.shape)
            and tensor.scale is None
            and not tensor.variable
        )

    def _may_choose(self, op: Operator) -> bool:
        if op.spec is self.change.spec:
            return self._has_rank(op.outputs[0]) and not (self.enters(op) or self.leaves(op))
        data = self.change.data_of(op)
        return (
            bool(data)
            and all(map(self._has_rank, (*(op.inputs[index] for index in data), *op.outputs)))
            and all(
                self.change.may_change(self._sizes(op.inputs[index]), new)
                for index, new in SHAPED.get(op.spec.name, {}).items()
            )
        )

    def _sizes(self, name: str) -> Order | None:
        shape = self.block.shapes.get(name)
        return None if shape is None else shape.values()

    def enters(self, op: Operator) -> bool:
        """Return whether the operand is the result in the other layout."""
        return self.change.enters(op, self.block, self.producers)

    def leaves(self, op: Operator) -> bool:
        """Return whether the result is the operand in the other layout."""
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
        """Return whether a constant changes its layout without an operator."""
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
        """Add an operator on the other layout and, if its result is needed as it was, a change back.

        before: the operator in the given block.
        """
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
