"""Tensors of more than six dimensions get fewer: neighbouring dimensions that nothing tells apart merge.

TOSA's level 8K has tensors of at most six dimensions. Frontends go beyond it where they take windows or
channels apart: a RESHAPE to seven dimensions, a TRANSPOSE, a RESHAPE back. Each operator treats some
neighbouring dimensions alike, so that it can be computed with fewer; RESHAPEs lead from the dimensions
that one operator has to those of the next. Inputs and results of a block keep their shapes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Final

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.builder.edit import change_blocks
from tosa_convert.graph.model import DYNAMIC, Block, Graph, Operator
from tosa_convert.graph.opset import CONST, operator
from tosa_convert.rewrites.merged_dimensions import Plan, Shape, planner_of
from tosa_convert.rewrites.report import Recorder
from tosa_convert.rules.levels import LEVELS
from tosa_convert.rules.operator_view import OperatorView
from tosa_convert.rules.values import TypeTable
from tosa_convert.rules.verdict import judge_shapes

NAME: Final = "high-ranks"
#: The most dimensions that level 8K allows.
MOST: Final = LEVELS["8K"].rank

_RESHAPE: Final = operator("RESHAPE")
_TRANSPOSE: Final = operator("TRANSPOSE")


def rewrite(graph: Graph, recorder: Recorder) -> Graph:
    """Return the graph with fewer dimensions wherever that is possible."""
    return change_blocks(graph, lambda where, block: _lowered(where, block, recorder))


def _lowered(where: str, block: Block, recorder: Recorder) -> Block:
    high = {
        name
        for name, tensor in block.tensors.items()
        if tensor.shape is not None and len(tensor.shape) > MOST
    }
    if not high:
        return block
    plans = dict(_plans(block, high))
    free = _free(block, high, plans)
    if not free:
        return block
    return _Lowering(block, where, free, plans).run(recorder)


def _plans(block: Block, high: set[str]) -> Iterator[tuple[int, Plan | None]]:
    """Find how each operator on such tensors can be computed otherwise; None for RESHAPE and CONST."""
    types = TypeTable().of_block(block)
    for index, op in enumerate(block.operators):
        if high.isdisjoint((*op.inputs, *op.outputs)):
            continue
        if op.spec is CONST or op.spec is _RESHAPE:
            yield index, None
            continue
        planner = planner_of(op.spec)
        inputs, outputs = (
            tuple(types[name] for name in names) for names in (op.inputs, op.outputs)
        )
        if planner is None or judge_shapes(OperatorView(op, inputs, outputs)).violations:
            continue
        tensors = [
            block.tensors[name] for name in (*op.inputs, *op.outputs) if name in block.tensors
        ]
        if any(tensor.shape is None or DYNAMIC in tensor.shape for tensor in tensors):
            continue
        shapes = {
            position: block.shapes[name].values() or ()
            for position, name in enumerate(op.inputs)
            if name in block.shapes and block.shapes[name].data is not None
        }
        operands = [tensor.shape or () for tensor in tensors[: -len(op.outputs)]]
        plan = planner(op, operands, tensors[-1].shape or (), shapes)
        if plan is not None and (op.spec is _TRANSPOSE or _is_low(plan)):
            yield index, plan


def _is_low(plan: Plan) -> bool:
    return all(len(shape) <= MOST for shape in (*plan.operands, plan.result))


def _free(block: Block, high: set[str], plans: dict[int, Plan | None]) -> set[str]:
    """Return the tensors whose operators can all be computed with fewer dimensions."""
    ends = {*block.inputs, *block.outputs}
    free = {
        name
        for name in high
        if name not in ends
        and not block.tensors[name].variable
        and block.tensors[name].scale is None
        and block.tensors[name].element_count() is not None
    }
    size = -1
    while len(free) != size:
        size = len(free)
        for index, op in enumerate(block.operators):
            concerned = high.intersection((*op.inputs, *op.outputs))
            if concerned and (index not in plans or not concerned <= free):
                free -= concerned
    return free


class _Lowering:
    """Replaces the operators on some tensors of a block by operators with fewer dimensions."""

    def __init__(
        self, block: Block, where: str, free: set[str], plans: dict[int, Plan | None]
    ) -> None:
        self.free = free
        self.plans = plans
        self.edit = BlockEditor(block, where)
        #: A tensor and a shape -> the tensor with these elements and that shape.
        self.views: dict[tuple[str, Shape], str] = {}

    def run(self, recorder: Recorder) -> Block:
        """Return the block with fewer dimensions."""
        edit, tensors = self.edit, self.edit.source.tensors
        for index, op in enumerate(edit.visit()):
            high = self.free.intersection((*op.inputs, *op.outputs))
            if not high:
                continue
            before = max(len(tensors[name].shape or ()) for name in high)
            plan = self.plans[index]
            if op.spec is CONST:
                self.declare(op.outputs[0], _six(tensors[op.outputs[0]].shape or ()))
            elif op.spec is _RESHAPE:
                self.reshape(op)
            elif plan is not None and op.spec is _TRANSPOSE:
                self.transpose(op, plan)
            elif plan is not None:
                self.apply(op, plan)
            what = f"{op.spec} of rank {before} has at most {MOST}"
            recorder.add(NAME, what, edit.where, index, op)
        return edit.finish()

    def declare(self, name: str, shape: Shape) -> None:
        """Give a tensor fewer dimensions."""
        self.edit.tensors[name] = replace(self.edit.tensors[name], shape=shape)

    def view(self, name: str, shape: Shape) -> str:
        """Return the name of a tensor with the elements of another, and a shape."""
        tensor = self.edit.tensors[name]
        if tensor.shape == shape:
            return name
        key = name, shape
        if key not in self.views:
            made = self.edit.new_tensor(f"{name}_merged", tensor.dtype, shape)
            self.views[key] = made
            self.add_reshape(name, made, shape)
        return self.views[key]

    def add_reshape(self, source: str, target: str, shape: Shape) -> None:
        sizes = self.edit.const_shape(shape, name=f"{target}_shape")
        self.edit.emit(_RESHAPE, [source, sizes], results=[target])

    def reshape(self, op: Operator) -> None:
        (result,) = op.outputs
        if result in self.free:
            shape = _six(self.edit.source.tensors[result].shape or ())
            self.declare(result, shape)
            self.add_reshape(op.inputs[0], result, shape)

    def apply(self, op: Operator, plan: Plan) -> None:
        """Add an operator with merged dimensions."""
        inputs = list(op.inputs)
        for position, shape in zip(plan.data, plan.operands, strict=True):
            inputs[position] = self.view(inputs[position], shape)
        for position, values in plan.shapes.items():
            name = f"{op.outputs[0]}_{op.spec.operands[position].name}"
            inputs[position] = self.edit.const_shape(values, name=name)
        attributes = {**op.attributes, **plan.attributes}
        made = replace(op, inputs=tuple(inputs), attributes=attributes)
        self.finish(made, plan.result)

    def finish(self, made: Operator, shape: Shape) -> None:
        """Add an operator whose result has merged dimensions; its shape stays where that is declared."""
        (result,) = made.outputs
        declared = self.edit.tensors[result]
        if result in self.free:
            self.declare(result, shape)
            self.edit.add(made)
        elif declared.shape == shape:
            self.edit.add(made)
        else:
            between = self.edit.new_tensor(f"{result}_merged", declared.dtype, shape)
            self.edit.add(replace(made, outputs=(between,)))
            self.add_reshape(between, result, declared.shape or ())

    def transpose(self, op: Operator, plan: Plan) -> None:
        """Add a TRANSPOSE, or several that move a dimension each until few enough are apart."""
        perms = plan.attributes["perms"]
        assert isinstance(perms, tuple)
        order, sizes = list(range(len(perms))), list(plan.operands[0])
        value = op.inputs[0]
        shape: Shape
        for place, wanted in enumerate(perms):
            rest = _merged_order([perms.index(group) for group in order])
            if len(rest) <= MOST:
                break
            at = order.index(wanted)
            if at == place:
                continue
            before, between, after = sizes[:place], sizes[place:at], sizes[at + 1 :]
            shape = prod(before), prod(between), sizes[at], prod(after)
            source = self.view(value, shape)
            value = self.edit.new_tensor(
                f"{op.outputs[0]}_transpose",
                self.edit.tensors[source].dtype,
                (shape[0], shape[2], shape[1], shape[3]),
            )
            self.edit.emit(_TRANSPOSE, [source], {"perms": (0, 2, 1, 3)}, results=[value])
            order.insert(place, order.pop(at))
            sizes.insert(place, sizes.pop(at))
        groups = _merged_order([perms.index(group) for group in order])
        shape = tuple(prod(sizes[i] for i in group) for group in groups)
        ranks = sorted(range(len(groups)), key=lambda i: perms.index(order[groups[i][0]]))
        made = replace(op, inputs=(self.view(value, shape),), attributes={"perms": tuple(ranks)})
        self.finish(made, tuple(shape[i] for i in ranks))


def _merged_order(targets: list[int]) -> list[list[int]]:
    """Neighbouring positions whose targets are neighbours in the same order, together."""
    groups: list[list[int]] = []
    for position, target in enumerate(targets):
        if groups and target == targets[groups[-1][-1]] + 1:
            groups[-1].append(position)
        else:
            groups.append([position])
    return groups


def _six(shape: Shape) -> Shape:
    """Return a shape whose first dimensions are merged into one, so that there are few enough."""
    extra = len(shape) - MOST + 1
    return (prod(shape[:extra]), *shape[extra:]) if extra > 1 else shape
