"""Edit a program and keep its meaning: detours of values, and other structures."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tosa_convert.builder.edit import BlockEditor
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.arrays import Array, Arrays
from tosa_convert.golden.running.programs import input_slots
from tosa_convert.graph.derived import unused_name
from tosa_convert.graph.dtypes import RoundingMode
from tosa_convert.graph.model import DYNAMIC, Block, Graph, Operator, Region, Tensor
from tosa_convert.graph.opset import CONST, CONST_SHAPE, AttributeValue, operator
from tosa_convert.graph.versions import lowest_version

_LARGEST_RANK: Final = 6


@dataclass(frozen=True, slots=True)
class Detour:
    """Say where a detour is emitted: the editor, the value, and what chooses among several ways."""

    edit: BlockEditor
    value: str
    choose: random.Random

    @property
    def shape(self) -> tuple[int, ...]:
        shape = self.edit.tensors[self.value].shape
        assert shape is not None, self.value
        return shape

    def axis(self) -> int:
        """Return an axis. Raises IndexError for a scalar."""
        return self.choose.choice(range(len(self.shape)))


def _transposed_twice(at: Detour) -> str:
    order = list(range(len(at.shape)))
    at.choose.shuffle(order)
    once = at.edit.emit("TRANSPOSE", [at.value], {"perms": tuple(order)})
    back = tuple(int(axis) for axis in np.argsort(order))
    return at.edit.emit("TRANSPOSE", [once], {"perms": back})


def _reshaped_twice(at: Detour) -> str:
    count, rank = math.prod(at.shape), at.choose.randrange(1, _LARGEST_RANK + 1)
    sizes = [1] * rank
    sizes[at.choose.randrange(rank)] = count
    flat = at.edit.emit("RESHAPE", [at.value, at.edit.const_shape(tuple(sizes))])
    return at.edit.emit("RESHAPE", [flat, at.edit.const_shape(at.shape)])


def _reversed_twice(at: Detour) -> str:
    axis = at.axis()
    once = at.edit.emit("REVERSE", [at.value], {"axis": axis})
    return at.edit.emit("REVERSE", [once], {"axis": axis})


def _slice(at: Detour, value: str, start: tuple[int, ...], size: tuple[int, ...]) -> str:
    return at.edit.emit("SLICE", [value, at.edit.const_shape(start), at.edit.const_shape(size)])


def _with_axis(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _split_and_joined(at: Detour) -> str:
    axis = at.axis()
    cut = at.choose.randrange(1, at.shape[axis])  # ValueError for a size of 1
    zeros = (0,) * len(at.shape)
    first = _slice(at, at.value, zeros, _with_axis(at.shape, axis, cut))
    rest = _with_axis(at.shape, axis, at.shape[axis] - cut)
    second = _slice(at, at.value, _with_axis(zeros, axis, cut), rest)
    return at.edit.emit("CONCAT", [first, second], {"axis": axis})


def _joined_and_split(at: Detour) -> str:
    axis = at.axis()
    twice = at.edit.emit("CONCAT", [at.value, at.value], {"axis": axis})
    start = _with_axis((0,) * len(at.shape), axis, at.choose.choice((0, at.shape[axis])))
    return _slice(at, twice, start, at.shape)


def _padded_and_cut(at: Detour) -> str:
    before = tuple(at.choose.randrange(3) for _ in at.shape)
    padding = tuple(size for first in before for size in (first, at.choose.randrange(2)))
    filler = at.edit.constant([1], at.edit.tensors[at.value].dtype)
    padded = at.edit.emit("PAD", [at.value, at.edit.const_shape(padding), filler])
    return _slice(at, padded, before, at.shape)


def _tiled_and_cut(at: Detour) -> str:
    axis = at.axis()
    many = _with_axis((1,) * len(at.shape), axis, 2)
    tiled = at.edit.emit("TILE", [at.value, at.edit.const_shape(many)])
    start = _with_axis((0,) * len(at.shape), axis, at.choose.choice((0, at.shape[axis])))
    return _slice(at, tiled, start, at.shape)


def _selected(at: Detour) -> str:
    condition = at.edit.constant(np.ones((1,) * len(at.shape), np.bool_), "BOOL")
    return at.edit.emit("SELECT", [condition, at.value, at.value])


def _inverted_twice(at: Detour) -> str:
    kind = "LOGICAL_NOT" if at.edit.tensors[at.value].dtype.name == "BOOL" else "BITWISE_NOT"
    return at.edit.emit(kind, [at.edit.emit(kind, [at.value])])


def _rescaled_by_one(at: Detour) -> str:
    edit, element = at.edit, at.edit.tensors[at.value].dtype
    multiplier = edit.constant([1 << 30], "INT32")
    shift = edit.constant([30], "INT8")
    zeros = [edit.constant([0], element)] * 2
    attributes: dict[str, AttributeValue] = {
        "scale32": True,
        "rounding_mode": RoundingMode.SINGLE_ROUND,
        "per_channel": False,
        "input_unsigned": False,
        "output_unsigned": False,
    }
    return edit.emit("RESCALE", [at.value, multiplier, shift, *zeros], attributes, dtype=element)


def _plus_nothing(at: Detour) -> str:
    element = at.edit.tensors[at.value].dtype
    if element.name != "INT32":
        raise ValueError("only INT32 is added without rounding and without signs of zeros")
    nothing = at.edit.constant(np.zeros((1,) * len(at.shape), np.int32), element)
    return at.edit.emit("ADD", [at.value, nothing])


DETOURS: Final[Mapping[str, Callable[[Detour], str]]] = {
    "transposed twice": _transposed_twice,
    "reshaped twice": _reshaped_twice,
    "reversed twice": _reversed_twice,
    "split and joined": _split_and_joined,
    "joined and split": _joined_and_split,
    "padded and cut": _padded_and_cut,
    "tiled and cut": _tiled_and_cut,
    "copied": lambda at: at.edit.emit("IDENTITY", [at.value]),
    "an extreme of itself": lambda at: at.edit.emit(
        at.choose.choice(("MAXIMUM", "MINIMUM")), [at.value, at.value]
    ),
    "selected": _selected,
    "inverted twice": _inverted_twice,
    "rescaled by one": _rescaled_by_one,
    "plus nothing": _plus_nothing,
}


def _candidates(block: Block) -> list[tuple[int, int]]:
    """Return the operators, and which of their operands may take a detour: no constants."""
    fixed = {name for op in block.operators if _is_constant(op) for name in op.outputs}
    return [
        (index, position)
        for index, op in enumerate(block.operators)
        for position, name in enumerate(op.inputs)
        if name not in fixed and is_usual(block.tensors.get(name))
    ]


def is_usual(tensor: Tensor | None) -> bool:
    """Return whether a value is a tensor of known sizes, none of them 0, and no variable."""
    if tensor is None or tensor.shape is None or DYNAMIC in tensor.shape:
        return False
    return not tensor.variable and math.prod(tensor.shape) > 0


def with_detour(graph: Graph, choose: random.Random) -> tuple[Graph, str] | None:
    """Return the program in which an operand of an operator takes a detour, and what it does.

    The operator may be inside of a region. None if no operand can take the detour that was chosen.
    """
    block = choose.choice([block for _, block in graph.blocks()])
    places = _candidates(block)
    if not places:
        return None
    name, detour = choose.choice(list(DETOURS.items()))
    for place, position in choose.sample(places, min(len(places), 4)):
        edit = BlockEditor(block)
        try:
            for index, op in enumerate(edit.visit()):
                if index == place:
                    _use(edit, op, position, detour(Detour(edit, op.inputs[position], choose)))
        except (TosaConvertError, ValueError, IndexError):
            continue  # the type or the shape does not allow it
        return with_block(graph, block, edit.finish()), name
    return None


def _use(edit: BlockEditor, op: Operator, position: int, value: str) -> None:
    inputs = list(op.inputs)
    inputs[position] = value
    edit.add(replace(op, inputs=tuple(inputs)))
    edit.remove(op)


def with_block(graph: Graph, old: Block, new: Block) -> Graph:
    regions = [
        Region(region.name, [new if block is old else block for block in region.blocks])
        for region in graph.regions
    ]
    return Graph(graph.version, regions, graph.producer, graph.target)


def exchanged(graph: Graph, choose: random.Random) -> tuple[Graph, str] | None:
    """Return the program with the operands of an operator exchanged, if their order does not count."""
    block = graph.main
    found = [i for i, op in enumerate(block.operators) if op.spec.commutes]
    if not found:
        return None
    index = choose.choice(found)
    op = block.operators[index]
    first, second, *rest = op.inputs
    operators = list(block.operators)
    operators[index] = replace(op, inputs=(second, first, *rest))
    return with_block(graph, block, replace(block, operators=operators)), "operands exchanged"


def with_fixed_inputs(
    graph: Graph, arrays: Arrays, choose: random.Random
) -> tuple[Graph, str] | None:
    """Return the program in which some inputs, or all, are constants that have their values."""
    block = graph.main
    is_scaled = {name for name, tensor in block.tensors.items() if tensor.scale is not None}
    free = {*arrays} - {*block.outputs} - is_scaled
    names = [name for name in block.inputs if name in free]
    fixed = [name for name in names if choose.random() < 0.7]
    edit = BlockEditor(block)
    try:
        for name in fixed:
            edit.same[name] = edit.constant(arrays[name], block.tensors[name].dtype)
    except (TosaConvertError, TypeError, ValueError):
        return None
    if not fixed:
        return None
    for _ in edit.visit():
        pass
    done = edit.finish()
    kept = [name for name in done.inputs if name not in fixed]
    tensors = {name: tensor for name, tensor in done.tensors.items() if name not in fixed}
    changed = replace(done, inputs=kept, tensors=tensors)
    return with_block(graph, block, changed), f"constant {', '.join(fixed)}"


# -- edits that keep the meaning of a program and change its structure -----------------------------
# A shape is computed in place of written, constants become inputs that have their values, an
# operator moves into a branch that is always taken, and padding moves out of its operator.

#: A changed program, what was done, and the arrays of inputs that it has in addition.
Changed = tuple[Graph, str, Arrays]
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
                _use(edit, op, position, SHAPES[way](edit, sizes, choose))
    except (TosaConvertError, ValueError, IndexError):
        return None  # a negative size, a single one, or no tensor to measure
    changed = with_block(graph, block, edit.finish())
    # The operators on shapes are of TOSA 1.1.
    return replace(changed, version=lowest_version(changed)), f"shape {way}", {}


# -- constants -------------------------------------------------------------------------------------


def with_free_constants(graph: Graph, choose: random.Random) -> Changed | None:
    """Return the program in which constants are inputs, with their values."""
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
    free = sorted(choose.sample(names, min(len(names), choose.randint(1, _MOST_FREED))))
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
    """Return the program in which a branch that is always taken has an operator."""
    block = graph.main
    makers = {name: op for op in block.operators for name in op.outputs}
    places = [index for index, op in enumerate(block.operators) if _can_move(block, op, makers)]
    if not places:
        return None
    place = choose.choice(places)
    op = block.operators[place]
    names = {region.name for region in graph.regions}
    regions = []
    for kind, make in (("then", _taken), ("else", _ones)):
        name = unused_name(f"{graph.regions[0].name}_{kind}", names)
        names.add(name)
        regions.append(Region(name, [make(name, block, op, makers)]))
    edit = BlockEditor(block)
    for index, current in enumerate(edit.visit()):
        if index == place:
            condition = edit.constant(True if choose.random() < 0.5 else [True], "BOOL")
            inputs = (condition, *_passed(current, makers))
            then, other = regions
            chosen: dict[str, AttributeValue] = {"then_graph": then.name, "else_graph": other.name}
            edit.add(Operator(_COND_IF, inputs, current.outputs, chosen, current.location))
            edit.remove(current)
    changed = with_block(graph, block, edit.finish())
    grown = Graph(changed.version, [*changed.regions, *regions], changed.producer, changed.target)
    return grown, f"{op.spec.name} in a branch", {}


def _can_move(block: Block, op: Operator, makers: Mapping[str, Operator]) -> bool:
    """Return whether a region can hold an operator: all that it takes are tensors, or constants."""
    if _is_constant(op) or op.spec.regions or op.spec in _VARIABLES:
        return False
    if any(name in block.shapes or block.tensors[name].variable for name in _passed(op, makers)):
        return False
    results = [block.tensors.get(name) for name in op.outputs]
    return bool(results) and all(
        is_usual(one)
        and one is not None
        and one.scale is None
        and math.prod(one.shape or ()) <= _MOST_ONES
        for one in results
    )


def _is_constant(op: Operator | None) -> bool:
    return op is not None and op.spec in (CONST, CONST_SHAPE)


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
                padded = edit.emit("PAD", [value, edit.const_shape((0, 0, *pads, 0, 0)), zero])
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


RESTRUCTURES: Final[tuple[Callable[[Graph, random.Random], Changed | None], ...]] = (
    with_computed_shape,
    with_free_constants,
    with_branch,
    with_padding_outside,
)
