"""Edits that keep the meaning of a program and change its structure.

A shape is computed in place of written, constants become inputs that have their values, an operator
moves into a branch that is always taken, and padding moves out of its operator.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.running.programs import input_slots
from tosa_convert.graph.derived import unused_name
from tosa_convert.graph.model import Block, Graph, Operator, Region
from tosa_convert.graph.opset import CONST, CONST_SHAPE, operator
from tosa_convert.graph.versions import lowest_version
from tosa_convert.qualify.campaign.detours import is_usual, with_block
from tosa_convert.records import replace

#: A changed program, what was done, and the arrays of inputs that it has in addition.
Changed = tuple[Graph, str, Mapping[str, Array]]
#: Constants that become inputs, at most.
_MOST_FREED: Final = 3
#: Elements of a result that the branch not taken has as ones, at most.
_MOST_ONES: Final = 4096
_COND_IF: Final = operator("COND_IF")
_VARIABLES: Final = frozenset(map(operator, ("VARIABLE", "VARIABLE_READ", "VARIABLE_WRITE")))
#: Convolutions with the attribute `pad`, whose padding adds nothing: exact for integers.
_PADDED: Final = frozenset(map(operator, ("CONV2D", "CONV3D", "DEPTHWISE_CONV2D")))


# -- shapes ----------------------------------------------------------------------------------------


def _added(edit: BlockEditor, sizes: tuple[int, ...], choose: random.Random) -> str:
    part = tuple(choose.randrange(size + 1) for size in sizes)
    rest = tuple(size - one for size, one in zip(sizes, part, strict=True))
    return edit.emit("ADD_SHAPE", [edit.const_shape(part), edit.const_shape(rest)])


def _multiplied(edit: BlockEditor, sizes: tuple[int, ...], choose: random.Random) -> str:
    factor = tuple(choose.choice([n for n in range(1, 9) if size % n == 0]) for size in sizes)
    rest = tuple(size // one for size, one in zip(sizes, factor, strict=True))
    return edit.emit("MUL_SHAPE", [edit.const_shape(factor), edit.const_shape(rest)])


def _joined(edit: BlockEditor, sizes: tuple[int, ...], choose: random.Random) -> str:
    cut = choose.randrange(1, len(sizes))  # ValueError for a single size
    return edit.emit("CONCAT_SHAPE", [edit.const_shape(sizes[:cut]), edit.const_shape(sizes[cut:])])


def _cut(edit: BlockEditor, sizes: tuple[int, ...], choose: random.Random) -> str:
    before, after = (choose.randrange(3) for _ in "ba")
    longer = (*range(2, 2 + before), *sizes, *range(5, 5 + after))
    places = [edit.constant([place], "INT32") for place in (before, len(sizes))]
    return edit.emit("SLICE_SHAPE", [edit.const_shape(longer), *places])


def _measured(edit: BlockEditor, sizes: tuple[int, ...], choose: random.Random) -> str:
    """Add the size of a tensor, and subtract it again."""
    usual = [name for name in edit.source.inputs if is_usual(edit.tensors.get(name))]
    measured = [name for name in usual if edit.tensors[name].shape]
    size = edit.emit("DIM", [choose.choice(measured)], {"axis": 0})  # IndexError if there is none
    every = edit.emit("CONCAT_SHAPE", [size] * len(sizes))
    more = edit.emit("ADD_SHAPE", [edit.const_shape(sizes), every])
    return edit.emit("SUB_SHAPE", [more, every])


#: Ways to compute a shape that is a constant, by what they do.
SHAPES: Final[Mapping[str, Callable[[BlockEditor, tuple[int, ...], random.Random], str]]] = {
    "added": _added,
    "multiplied": _multiplied,
    "joined": _joined,
    "cut": _cut,
    "measured": _measured,
}


def with_computed_shape(graph: Graph, choose: random.Random) -> Changed | None:
    """Return the program in which a shape that an operator takes is computed, not a constant."""
    block = graph.main
    places = [
        (index, position)
        for index, op in enumerate(block.operators)
        for position, name in enumerate(op.inputs)
        if name in block.shapes and block.shapes[name].values()
    ]
    if not places:
        return None
    place, position = choose.choice(places)
    way = choose.choice(list(SHAPES))
    edit = BlockEditor(block)
    try:
        for index, op in enumerate(edit.visit()):
            if index == place:
                sizes = block.shapes[op.inputs[position]].values() or ()
                made = SHAPES[way](edit, sizes, choose)
                inputs = (*op.inputs[:position], made, *op.inputs[position + 1 :])
                edit.add(replace(op, inputs=inputs))
                edit.remove(op)
    except (TosaConvertError, ValueError, IndexError):
        return None  # a negative size, a single one, or no tensor to measure
    changed = with_block(graph, block, edit.finish())
    # The operators on shapes are of TOSA 1.1.
    return replace(changed, version=lowest_version(changed)), f"shape {way}", {}


# -- constants -------------------------------------------------------------------------------------


def with_free_constants(
    graph: Graph, choose: random.Random, most: int = _MOST_FREED
) -> Changed | None:
    """Return the program in which constants are inputs, with their values: `most` of them or fewer."""
    block = graph.main
    constants = {
        op.outputs[0]: block.tensors[op.outputs[0]] for op in block.operators if op.spec is CONST
    }
    names = [
        name
        for name, tensor in constants.items()
        if is_usual(tensor) and tensor.scale is None and name not in block.outputs
    ]
    if not names:
        return None
    free = sorted(choose.sample(names, min(len(names), choose.randint(1, most))))
    tensors = {
        name: replace(tensor, data=None) if name in free else tensor
        for name, tensor in block.tensors.items()
    }
    operators = [op for op in block.operators if op.spec is not CONST or op.outputs[0] not in free]
    made = replace(block, inputs=[*block.inputs, *free], operators=operators, tensors=tensors)
    changed = with_block(graph, block, made)
    shapes = {slot.key: slot.shape for slot in input_slots(changed)}
    arrays: dict[str, Array] = {}
    for name in free:
        data = constants[name].data
        assert data is not None
        arrays[name] = data.numpy().reshape(shapes[name])
    return changed, f"constants {', '.join(free)} as inputs", arrays


# -- regions ---------------------------------------------------------------------------------------


def with_branch(graph: Graph, choose: random.Random) -> Changed | None:
    """Return the program in which a branch that is always taken has an operator.

    The other branch has ones.
    """
    block = graph.main
    makers = {name: op for op in block.operators for name in op.outputs}
    places = [index for index, op in enumerate(block.operators) if _can_move(block, op, makers)]
    if not places:
        return None
    place = choose.choice(places)
    op = block.operators[place]
    names = {region.name for region in graph.regions}
    regions = []
    for kind in ("then", "else"):
        name = unused_name(f"{graph.regions[0].name}_{kind}", names)
        names.add(name)
        make = _taken if kind == "then" else _ones
        regions.append(Region(name, [make(name, block, op, makers)]))
    edit = BlockEditor(block)
    for index, current in enumerate(edit.visit()):
        if index == place:
            condition = edit.constant(True if choose.random() < 0.5 else [True], "BOOL")
            inputs = (condition, *_passed(current, makers))
            chosen = dict(zip(("then_graph", "else_graph"), names_of(regions), strict=True))
            edit.add(Operator(_COND_IF, inputs, current.outputs, dict(chosen), current.location))
            edit.remove(current)
    changed = with_block(graph, block, edit.finish())
    grown = Graph(changed.version, [*changed.regions, *regions], changed.producer, changed.target)
    return grown, f"{op.spec.name} in a branch", {}


def names_of(regions: list[Region]) -> list[str]:
    return [region.name for region in regions]


def _can_move(block: Block, op: Operator, makers: Mapping[str, Operator]) -> bool:
    """Return whether a region can hold an operator: all that it takes are tensors, or constants."""
    if op.spec in (CONST, CONST_SHAPE) or op.spec.regions or op.spec in _VARIABLES:
        return False
    passed = _passed(op, makers)
    if any(name in block.shapes or block.tensors[name].variable for name in passed):
        return False
    results = [block.tensors.get(name) for name in op.outputs]
    return all(
        is_usual(one) and one is not None and one.scale is None and _size(one.shape) <= _MOST_ONES
        for one in results
    ) and bool(results)


def _is_constant(op: Operator | None) -> bool:
    return op is not None and op.spec in (CONST, CONST_SHAPE)


def _size(shape: tuple[int, ...] | None) -> int:
    return math.prod(shape or ())


def _passed(op: Operator, makers: Mapping[str, Operator]) -> list[str]:
    """Return the operands that are not constants, each once."""
    return [name for name in dict.fromkeys(op.inputs) if not _is_constant(makers.get(name))]


def _taken(name: str, block: Block, op: Operator, makers: Mapping[str, Operator]) -> Block:
    """Return a block that has an operator and the constants that it takes."""
    passed = _passed(op, makers)
    fixed = [makers[one] for one in dict.fromkeys(op.inputs) if one not in passed]
    used = {*op.inputs, *op.outputs}
    return Block(
        f"{name}_bb0",
        inputs=passed,
        outputs=list(op.outputs),
        operators=[*fixed, op],
        tensors={one: tensor for one, tensor in block.tensors.items() if one in used},
        shapes={one: shape for one, shape in block.shapes.items() if one in used},
    )


def _ones(name: str, block: Block, op: Operator, makers: Mapping[str, Operator]) -> Block:
    """Return a block that returns ones of the results' types."""
    passed = _passed(op, makers)
    given = {one: block.tensors[one] for one in passed}
    edit = BlockEditor(Block(f"{name}_bb0", inputs=passed, tensors=given))
    outputs = []
    for one in op.outputs:
        tensor = block.tensors[one]
        ones = np.ones(tensor.shape or (), np.int8)
        outputs.append(edit.constant(ones, tensor.dtype, name=one))
    return replace(edit.finish(), outputs=outputs)


# -- padding ---------------------------------------------------------------------------------------


def with_padding_outside(graph: Graph, choose: random.Random) -> Changed | None:
    """Return the program in which a PAD, with the zero point, does what a convolution padded.

    Of integers only: infinity times the zeros that PAD adds would be NaN.
    """
    block = graph.main
    places = [
        index
        for index, op in enumerate(block.operators)
        if op.spec in _PADDED
        and any(_numbers(op, "pad"))
        and not block.tensors[op.inputs[0]].dtype.is_float
    ]
    if not places:
        return None
    place = choose.choice(places)
    edit = BlockEditor(block)
    try:
        for index, op in enumerate(edit.visit()):
            if index == place:
                value, zero = op.inputs[0], op.inputs[3]
                pads = _numbers(op, "pad")
                sizes = edit.const_shape((0, 0, *pads, 0, 0))
                padded = edit.emit("PAD", [value, sizes, zero])
                attributes = {**op.attributes, "pad": (0,) * len(pads)}
                inputs = (padded, *op.inputs[1:])
                edit.add(replace(op, inputs=inputs, attributes=attributes))
                edit.remove(op)
    except TosaConvertError:
        return None  # PAD does not take the type
    return with_block(graph, block, edit.finish()), f"padding before {op.spec.name}", {}


def _numbers(op: Operator, name: str) -> tuple[int, ...]:
    value = op.attributes[name]
    assert isinstance(value, tuple)
    return tuple(int(one) for one in value)


#: The edits of this file.
RESTRUCTURES: Final[tuple[Callable[[Graph, random.Random], Changed | None], ...]] = (
    with_computed_shape,
    with_free_constants,
    with_branch,
    with_padding_outside,
)
