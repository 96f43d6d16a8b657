"""Edits that keep the meaning of a program: a value takes a detour, and comes back as it was.

Every detour only moves elements or leaves their bits alone, so a consumer must compute the same. Each is
a function of a table: it emits operators with a `BlockEditor` and returns the equal value. The rules of
TOSA refuse one that the element type does not allow.
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
from tosa_convert.graph.dtypes import RoundingMode
from tosa_convert.graph.model import DYNAMIC, Block, Graph, Operator, Region, Tensor
from tosa_convert.graph.opset import CONST, CONST_SHAPE, AttributeValue
from tosa_convert.records import dataclass, replace

_LARGEST_RANK: Final = 6


@dataclass(frozen=True, slots=True)
class Detour:
    """Where a detour is emitted: the editor, the value, and what chooses among several ways."""

    edit: BlockEditor
    value: str
    choose: random.Random

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the value."""
        shape = self.edit.tensors[self.value].shape
        assert shape is not None, self.value
        return shape

    def axis(self) -> int:
        """Return an axis. Raises IndexError for a scalar."""
        return self.choose.choice(range(len(self.shape)))

    def sizes(self, sizes: tuple[int, ...]) -> str:
        """Return a constant shape."""
        return self.edit.const_shape(sizes)


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
    flat = at.edit.emit("RESHAPE", [at.value, at.sizes(tuple(sizes))])
    return at.edit.emit("RESHAPE", [flat, at.sizes(at.shape)])


def _reversed_twice(at: Detour) -> str:
    axis = at.axis()
    once = at.edit.emit("REVERSE", [at.value], {"axis": axis})
    return at.edit.emit("REVERSE", [once], {"axis": axis})


def _slice(at: Detour, value: str, start: tuple[int, ...], size: tuple[int, ...]) -> str:
    return at.edit.emit("SLICE", [value, at.sizes(start), at.sizes(size)])


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
    element = at.edit.tensors[at.value].dtype
    filler = at.edit.constant([1], element)
    padded = at.edit.emit("PAD", [at.value, at.sizes(padding), filler])
    return _slice(at, padded, before, at.shape)


def _tiled_and_cut(at: Detour) -> str:
    axis = at.axis()
    many = _with_axis((1,) * len(at.shape), axis, 2)
    tiled = at.edit.emit("TILE", [at.value, at.sizes(many)])
    start = _with_axis((0,) * len(at.shape), axis, at.choose.choice((0, at.shape[axis])))
    return _slice(at, tiled, start, at.shape)


def _copied(at: Detour) -> str:
    return at.edit.emit("IDENTITY", [at.value])


def _extreme_of_itself(at: Detour) -> str:
    return at.edit.emit(at.choose.choice(("MAXIMUM", "MINIMUM")), [at.value, at.value])


def _selected(at: Detour) -> str:
    condition = at.edit.constant(np.ones((1,) * len(at.shape), np.bool_), "BOOL")
    return at.edit.emit("SELECT", [condition, at.value, at.value])


def _inverted_twice(at: Detour) -> str:
    is_bool = at.edit.tensors[at.value].dtype.name == "BOOL"
    kind = "LOGICAL_NOT" if is_bool else "BITWISE_NOT"
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


#: The detours by what they do.
DETOURS: Final[Mapping[str, Callable[[Detour], str]]] = {
    "transposed twice": _transposed_twice,
    "reshaped twice": _reshaped_twice,
    "reversed twice": _reversed_twice,
    "split and joined": _split_and_joined,
    "joined and split": _joined_and_split,
    "padded and cut": _padded_and_cut,
    "tiled and cut": _tiled_and_cut,
    "copied": _copied,
    "an extreme of itself": _extreme_of_itself,
    "selected": _selected,
    "inverted twice": _inverted_twice,
    "rescaled by one": _rescaled_by_one,
    "plus nothing": _plus_nothing,
}


def _candidates(block: Block) -> list[tuple[int, int]]:
    """Return the operators, and which of their operands may take a detour: no constants."""
    fixed = {
        name for op in block.operators if op.spec in (CONST, CONST_SHAPE) for name in op.outputs
    }
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
                    value = detour(Detour(edit, op.inputs[position], choose))
                    _use(edit, op, position, value)
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
    """Return a program with another block in the place of one."""
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
    graph: Graph, arrays: Mapping[str, Array], choose: random.Random
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
