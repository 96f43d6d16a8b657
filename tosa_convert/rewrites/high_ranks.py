"""Tensors of more than six dimensions, TOSA's limit, get fewer: neighbours that are alike merge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Final

from tosa_convert.builder.edit import BlockEditor, change_blocks
from tosa_convert.graph.model import DYNAMIC, Block, Graph, Operator
from tosa_convert.graph.opset import CONST, AttributeValue, OperatorSpec, operator
from tosa_convert.rewrites.operator_pass import Recorder
from tosa_convert.rules.operator_view import OperatorView, TypeTable
from tosa_convert.rules.profiles import LEVELS
from tosa_convert.rules.validate import judge_shapes

Shape = tuple[int, ...]
#: A run of neighbouring dimensions: the first one, and the one after the last.
Run = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """An operator with merged dimensions.

    data: positions of the operands whose dimensions merge. operands: their new shapes.
    result: the new shape of the result.
    shapes: position of an operand that is a shape -> its new values.
    attributes: those that change.
    """

    data: tuple[int, ...]
    operands: tuple[Shape, ...]
    result: Shape
    shapes: dict[int, Shape] = field(default_factory=dict)
    attributes: dict[str, AttributeValue] = field(default_factory=dict)


#: The plan for an operator, of the shapes of its operands and of its result, and of the known values
#: of operands that are shapes, by position; None if there is none.
Planner = Callable[[Operator, Sequence[Shape], Shape, dict[int, Shape]], Plan | None]


def merged(shape: Shape, runs: Sequence[Run]) -> Shape:
    """Merge each run of dimensions of a shape into one dimension.

    Example:
        >>> merged((2, 3, 4, 5), [(0, 2), (2, 3), (3, 4)])
        (6, 4, 5)
    """
    return tuple(prod(shape[start:stop]) for start, stop in runs)


def runs_of(alike: Sequence[object], is_neutral: Sequence[bool]) -> list[Run]:
    """Find the longest runs of dimensions that are alike; a neutral one belongs to any run.

    Example:
        >>> runs_of("aabb", [False] * 4)
        [(0, 2), (2, 4)]
        >>> runs_of("abaa", [False, True, False, False])
        [(0, 4)]
    """
    runs: list[Run] = []
    current: object = None
    has_kind = False
    for index, (kind, neutral) in enumerate(zip(alike, is_neutral, strict=True)):
        if runs and (neutral or not has_kind or kind == current):
            runs[-1] = runs[-1][0], index + 1
        else:
            runs.append((index, index + 1))
            has_kind = False
        if not neutral:
            current, has_kind = kind, True
    return runs


def elementwise(*data: int) -> Planner:
    """Merge dimensions in which the same operands are broadcast."""

    def plan(
        op: Operator, operands: Sequence[Shape], result: Shape, shapes: dict[int, Shape]
    ) -> Plan | None:
        chosen = [operands[position] for position in data]
        if any(len(shape) != len(result) for shape in chosen):
            return None
        alike = [tuple(shape[d] == size for shape in chosen) for d, size in enumerate(result)]
        runs = runs_of(alike, [size == 1 for size in result])
        return Plan(data, tuple(merged(shape, runs) for shape in chosen), merged(result, runs))

    return plan


def along_axis(
    op: Operator, operands: Sequence[Shape], result: Shape, shapes: dict[int, Shape]
) -> Plan:
    """Merge the dimensions before the axis, and those after it."""
    axis = op.attributes["axis"]
    assert isinstance(axis, int)
    rank = len(operands[0])
    runs = [run for run in ((0, axis), (axis, axis + 1), (axis + 1, rank)) if run[0] < run[1]]
    # ARGMAX removes the axis.
    kept = runs if len(result) == rank else [(0, axis), (axis, len(result))]
    return Plan(
        tuple(range(len(operands))),
        tuple(merged(shape, runs) for shape in operands),
        merged(result, [run for run in kept if run[0] < run[1]]),
        attributes={"axis": int(axis > 0)},
    )


def pad(
    op: Operator, operands: Sequence[Shape], result: Shape, shapes: dict[int, Shape]
) -> Plan | None:
    """Merge dimensions without padding."""
    padding = shapes.get(1)
    if padding is None:
        return None
    rows = list(zip(padding[::2], padding[1::2], strict=True))
    runs = _apart([row != (0, 0) for row in rows])
    values = tuple(value for start, _ in runs for value in rows[start])
    return Plan((0,), (merged(operands[0], runs),), merged(result, runs), {1: values})


def slice_(
    op: Operator, operands: Sequence[Shape], result: Shape, shapes: dict[int, Shape]
) -> Plan | None:
    """Merge dimensions that are taken whole."""
    start, size = shapes.get(1), shapes.get(2)
    if start is None or size is None:
        return None
    whole = operands[0]
    runs = _apart([taken != given for taken, given in zip(size, whole, strict=True)])
    starts = tuple(start[first] if last - first == 1 else 0 for first, last in runs)
    made = merged(result, runs)
    return Plan((0,), (merged(whole, runs),), made, {1: starts, 2: made})


def tile(
    op: Operator, operands: Sequence[Shape], result: Shape, shapes: dict[int, Shape]
) -> Plan | None:
    """Merge dimensions that are not repeated with the one before, and any with one of size 1."""
    multiples = shapes.get(1)
    if multiples is None:
        return None
    runs: list[Run] = []
    for index, count in enumerate(multiples):
        if runs and (count == 1 or prod(operands[0][slice(*runs[-1])]) == 1):
            runs[-1] = runs[-1][0], index + 1
        else:
            runs.append((index, index + 1))
    values = merged(multiples, runs)
    return Plan((0,), (merged(operands[0], runs),), merged(result, runs), {1: values})


def _apart(is_alone: Sequence[bool]) -> list[Run]:
    """Return runs of dimensions, in which each that is alone has a run of its own."""
    alike = [index if alone else -1 for index, alone in enumerate(is_alone)]
    return runs_of(alike, [False] * len(alike))


def transpose(
    op: Operator, operands: Sequence[Shape], result: Shape, shapes: dict[int, Shape]
) -> Plan | None:
    """Merge dimensions that stay neighbours, and leave out those of size 1."""
    perms = op.attributes["perms"]
    assert isinstance(perms, tuple)
    (shape,) = operands
    moved = [axis for axis in perms if shape[axis] != 1]
    ranks = [sorted(moved).index(axis) for axis in moved]
    groups = _merged_order(ranks)
    sizes = [prod(shape[moved[place]] for place in group) for group in groups]
    sources = sorted(range(len(groups)), key=lambda index: ranks[groups[index][0]])
    places = {group: place for place, group in enumerate(sources)}
    return Plan(
        (0,),
        (tuple(sizes[index] for index in sources) or (1,),),
        tuple(sizes) or (1,),
        attributes={"perms": tuple(places[index] for index in range(len(groups))) or (0,)},
    )


def planner_of(spec: OperatorSpec) -> Planner | None:
    """Return what plans an operator with fewer dimensions; None if nothing does."""
    if spec.elementwise:
        return elementwise(*range(spec.elementwise))
    if any(row.name == "axis" for row in spec.attributes) and not spec.results[0].is_shape:
        return along_axis
    return _PLANNERS.get(spec.name)


_PLANNERS: Final[dict[str, Planner]] = {
    "PAD": pad,
    "SLICE": slice_,
    "TILE": tile,
    "TRANSPOSE": transpose,
}


NAME: Final = "high-ranks"
#: The most dimensions that level 8K allows.
MOST: Final = LEVELS["8K"].rank

_RESHAPE: Final = operator("RESHAPE")
_TRANSPOSE: Final = operator("TRANSPOSE")


def rewrite(graph: Graph, recorder: Recorder) -> Graph:
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
    """Merge neighbouring positions whose targets are neighbours in the same order."""
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
