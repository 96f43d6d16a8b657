"""Simplify what fails: smaller sizes, attributes without effect, and constants of one value.

Sizes change where they are given, which is in inputs, constants and shapes, and all others follow by the
rules of TOSA, which also decide whether the candidate is a program at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.golden.arrays import Array, slots
from tosa_convert.graph.constant import Constant, constant_of
from tosa_convert.graph.dtypes import INT64
from tosa_convert.graph.model import DYNAMIC, Block, Graph, Region, Tensor
from tosa_convert.graph.opset import AttributeValue
from tosa_convert.graph.static_shapes import make_placeholders_static
from tosa_convert.rules.infer import infer
from tosa_convert.rules.public import find_violations

#: Attribute -> the value of each of its elements that has no effect.
_SIMPLE: Final = {"pad": 0, "out_pad": 0, "stride": 1, "dilation": 1, "kernel": 1}
_ROUNDS: Final = 4


@dataclass(frozen=True, slots=True)
class Candidate:
    """Hold a program, and an array for each input by key; None if the program runs without."""

    graph: Graph
    arrays: dict[str, Array] | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    """Hold where a program gives a size: a block's tensor, or the value of a shape."""

    block: int
    name: str
    axis: int


class Simplifier:
    """Simplify one program; `fails` is asked only about programs of TOSA."""

    def __init__(self, best: Candidate, fails: Callable[[Candidate], bool]) -> None:
        self.best, self.fails = best, fails

    def simplify(self) -> Candidate:
        """Simplify until nothing changes, at most a few rounds."""
        for _ in range(_ROUNDS):
            before = self.best
            self.sizes()
            self.attributes()
            self.data()
            if self.best is before:
                break
        return self.best

    def accepts(self, candidate: Candidate | None) -> bool:
        """Take a candidate if it is a program and fails."""
        if candidate is None or find_violations(candidate.graph):
            return False
        if not self.fails(candidate):
            return False
        self.best = candidate
        return True

    # -- sizes -----------------------------------------------------------------------------------

    def sizes(self) -> None:
        """Make sizes smaller: all that are equal at once first, then one at a time."""
        for size in sorted(set(self._places().values()), reverse=True):
            places = [place for place, own in self._places().items() if own == size]
            self._smaller(places, size)
        for place in self._places():
            size = self._places().get(place, 1)
            if size > 1:
                self._smaller([place], size)

    def _smaller(self, places: list[_Place], size: int) -> None:
        """Make sizes 1, or else half as large as long as that fails, too."""
        if self.accepts(self._resized(dict.fromkeys(places, 1))):
            return
        while size > 3:
            size = -(-size // 2)
            if not self.accepts(self._resized(dict.fromkeys(places, size))):
                return

    def _places(self) -> dict[_Place, int]:
        """Return the sizes above 1 that the program gives."""
        places = {}
        for number, (_, block) in enumerate(self.best.graph.blocks()):
            for name, tensor in block.tensors.items():
                if _gives_its_shape(block, tensor, is_main=number == 0):
                    for axis, size in enumerate(tensor.shape or ()):
                        places[_Place(number, name, axis)] = size
            for name, shape in block.shapes.items():
                for axis, size in enumerate(shape.values() or ()):
                    places[_Place(number, name, axis)] = size
        return {place: size for place, size in places.items() if size > 1}

    def _resized(self, sizes: Mapping[_Place, int]) -> Candidate | None:
        """Return the program with other sizes; None if nothing follows from them."""
        for with_rest in (False, True):
            try:
                return self._with_sizes(sizes, with_rest=with_rest)
            except TosaConvertError:
                continue
        return None

    def _with_sizes(self, sizes: Mapping[_Place, int], *, with_rest: bool) -> Candidate:
        """Return the program with other sizes.

        with_rest: the largest size of each RESHAPE's shape becomes what its elements leave.
        """
        blocks = []
        for number, (_, block) in enumerate(self.best.graph.blocks()):
            own = {p: size for p, size in sizes.items() if p.block == number}
            blocks.append(_resized_block(block, own, is_main=number == 0, with_rest=with_rest))
        graph = _of_blocks(self.best.graph, blocks)
        shapes = {n: graph.main.tensors[n].shape or () for n in graph.main.inputs}
        graph = infer(graph, shapes)
        if with_rest:
            make_placeholders_static(graph)
        if _has_open_sizes(graph) and not _has_open_sizes(self.best.graph):
            raise fail("unsupported-shape", "sizes", "they do not follow from those that are given")
        return Candidate(graph, self._cut_arrays(graph))

    def _cut_arrays(self, graph: Graph) -> dict[str, Array] | None:
        """Return the arrays as far as the inputs of a program reach."""
        if self.best.arrays is None:
            return None
        wanted = [slot for name in graph.main.inputs for slot in slots(graph.main, name)]
        return {slot.key: _cut(self.best.arrays[slot.key], slot.shape) for slot in wanted}

    # -- attributes ------------------------------------------------------------------------------

    def attributes(self) -> None:
        """Set attributes to values that have no effect, one at a time."""
        for number, (_, block) in enumerate(self.best.graph.blocks()):
            for index, op in enumerate(block.operators):
                for name, value in op.attributes.items():
                    simple = _simple(name, value)
                    if simple is not None and simple != value:
                        self.accepts(self._with_attribute(number, index, name, simple))

    def _with_attribute(
        self, number: int, index: int, name: str, value: AttributeValue
    ) -> Candidate | None:
        blocks = [block for _, block in self.best.graph.blocks()]
        operators = list(blocks[number].operators)
        op = operators[index]
        operators[index] = replace(op, attributes={**op.attributes, name: value})
        blocks[number] = replace(blocks[number], operators=operators)
        changed = replace(self.best, graph=_of_blocks(self.best.graph, blocks))
        return Simplifier(changed, self.fails)._resized({})

    # -- data ------------------------------------------------------------------------------------

    def data(self) -> None:
        """Set constants and inputs to zeros, or else to one value: all at once, then one at a time."""
        for make in (_zeros, _splat):
            names = list(self._constants())
            if len(names) > 1:
                self.accepts(self._with_data(dict.fromkeys(names, make)))
            for name in names:
                self.accepts(self._with_data({name: make}))
            for key in self.best.arrays or ():
                self.accepts(self._with_array(key, make))

    def _constants(self) -> Iterator[tuple[int, str]]:
        """Iterate over the constants, as the block's number and the name."""
        for number, (_, block) in enumerate(self.best.graph.blocks()):
            for name, tensor in block.tensors.items():
                if tensor.data is not None and tensor.scale is None:
                    yield number, name

    def _with_data(
        self, made: Mapping[tuple[int, str], Callable[[Array], Array]]
    ) -> Candidate | None:
        """Return the program with other constants; None if they have these values already."""
        blocks = [block for _, block in self.best.graph.blocks()]
        is_new = False
        for (number, name), make in made.items():
            tensor = blocks[number].tensors[name]
            assert tensor.data is not None
            data = constant_of(make(tensor.data.numpy()), tensor.dtype)
            is_new |= not data.same_bits(tensor.data)
            tensors = blocks[number].tensors | {name: replace(tensor, data=data)}
            blocks[number] = replace(blocks[number], tensors=tensors)
        if not is_new:
            return None
        return replace(self.best, graph=_of_blocks(self.best.graph, blocks))

    def _with_array(self, key: str, make: Callable[[Array], Array]) -> Candidate | None:
        """Return the same program with another input; None if it is like that already."""
        assert self.best.arrays is not None
        array = self.best.arrays[key]
        made = make(array)
        if made.tobytes() == array.tobytes():
            return None
        return replace(self.best, arrays={**self.best.arrays, key: made})


def _zeros(array: Array) -> Array:
    return np.zeros(array.shape, array.dtype)


def _splat(array: Array) -> Array:
    first = array.reshape(-1)[:1]
    return (
        np.broadcast_to(first, (array.size,)).reshape(array.shape).copy() if array.size else array
    )


def _simple(name: str, value: AttributeValue) -> AttributeValue | None:
    """Return the value of an attribute that has no effect, or None."""
    if name in _SIMPLE and isinstance(value, tuple):
        return tuple(_SIMPLE[name] for _ in value)
    return False if value is True else None


def _gives_its_shape(block: Block, tensor: Tensor, *, is_main: bool) -> bool:
    """Return whether a tensor's shape does not follow from others, and can change."""
    is_input = is_main and tensor.name in block.inputs
    return (is_input or tensor.data is not None or tensor.variable) and tensor.scale is None


def _resized_block(
    block: Block, sizes: Mapping[_Place, int], *, is_main: bool, with_rest: bool
) -> Block:
    """Return a block with other sizes, and open ones where they follow from others."""
    by_name: dict[str, dict[int, int]] = {}
    for place, size in sizes.items():
        by_name.setdefault(place.name, {})[place.axis] = size
    tensors = {}
    for name, tensor in block.tensors.items():
        own = by_name.get(name, {})
        shape = tensor.shape
        if shape is None:
            tensors[name] = tensor
        elif _gives_its_shape(block, tensor, is_main=is_main):
            new = tuple(own.get(axis, size) for axis, size in enumerate(shape))
            tensors[name] = replace(tensor, shape=new, data=_cut_data(tensor, new))
        elif tensor.scale is not None and (
            (is_main and name in block.inputs) or tensor.data is not None
        ):
            tensors[name] = tensor
        else:
            tensors[name] = replace(tensor, shape=(DYNAMIC,) * len(shape))
    reshaped = {op.inputs[1] for op in block.operators if op.spec.name == "RESHAPE"}
    shapes = {}
    for name, value in block.shapes.items():
        values = value.values()
        if values is not None:
            new = tuple(by_name.get(name, {}).get(axis, size) for axis, size in enumerate(values))
            if with_rest and name in reshaped and new:
                largest = new.index(max(new))
                new = tuple(-1 if axis == largest else size for axis, size in enumerate(new))
            value = replace(value, data=Constant(INT64, len(new), np.array(new, "<i8").tobytes()))
        shapes[name] = value
    operators = [replace(op) for op in block.operators]
    return replace(block, tensors=tensors, shapes=shapes, operators=operators)


def _cut_data(tensor: Tensor, shape: tuple[int, ...]) -> Constant | None:
    """Return a tensor's data as far as a shape reaches."""
    if tensor.data is None or tensor.shape == shape:
        return tensor.data
    array = tensor.data.numpy().reshape(tensor.shape or ())
    return constant_of(np.ascontiguousarray(_cut(array, shape)), tensor.dtype)


def _cut(array: Array, shape: tuple[int, ...]) -> Array:
    cut: Any = array[tuple(slice(size) for size in shape)]
    return np.ascontiguousarray(cut).reshape(shape)


def _has_open_sizes(graph: Graph) -> bool:
    rows = (row for _, block in graph.blocks() for row in block.tensors.values())
    return any(DYNAMIC in (row.shape or ()) for row in rows)


def _of_blocks(graph: Graph, blocks: list[Block]) -> Graph:
    """Return the graph with other blocks, in the order of `Graph.blocks`."""
    rest = iter(blocks)
    regions = [Region(row.name, [next(rest) for _ in row.blocks]) for row in graph.regions]
    return replace(graph, regions=regions)


def weight(graph: Graph) -> int:
    """Count the elements of a program's inputs, constants and results."""
    return sum(
        tensor.element_count() or 0
        for _, block in graph.blocks()
        for tensor in block.tensors.values()
    )
