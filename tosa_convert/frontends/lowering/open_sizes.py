"""Programs whose inputs have sizes that are not fixed: what two programs of fixed sizes share.

A model is lowered twice, with other sizes for what is open. Where the two programs differ in a size
only, that size is open in the program. Where they differ in anything else, the program depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count, pairwise
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from tosa_convert.frontends.lowering.scope import NotLowered
from tosa_convert.graph.constant import Constant, constant_of
from tosa_convert.graph.model import DYNAMIC, Block, Graph, Operator, Region, ShapeValue, Tensor
from tosa_convert.graph.opset import CONST_SHAPE

#: Two sizes for each open one: of the first dimension of an input, which is mostly a batch, and of
#: others, which strides of networks divide.
_BATCHES: Final = ((3, 5), (7, 11), (13, 17), (19, 23))
_OTHERS: Final = ((96, 160), (64, 224), (128, 192), (32, 288))
_FEW: Final = "it has more open sizes than two programs of fixed sizes tell apart"
_FIX: Final = "set them: --input-shape NAME=1x3x16x16"
#: Sizes of a range that are tried.
_MOST_TRIED: Final = 64

#: A block of one program, that of the other, and an operator of the first.
_User: TypeAlias = "tuple[Block, Block, Operator]"


def trial_sizes(
    dimensions: Sequence[tuple[Hashable, bool]],
    bounds: Mapping[Any, tuple[int, int | None]] = MappingProxyType({}),
) -> dict[Hashable, tuple[int, int]]:
    """Return two sizes for each symbol of an open dimension.

    dimensions: the symbols, and whether each is the first dimension of its input.
    bounds: the least and the greatest size of a symbol; None for no greatest.

    Example:
        >>> trial_sizes([("N", True), ("T", False), ("N", True)])
        {'N': (3, 5), 'T': (96, 160)}
        >>> trial_sizes([("T", False), ("H", False)], {"T": (2, 64), "H": (200, 300)})
        {'T': (32, 64), 'H': (224, 256)}
    """
    found: dict[Hashable, tuple[int, int]] = {}
    for symbol, is_first in dimensions:
        if symbol in found:
            continue
        least, most = bounds.get(symbol, (1, None))
        pairs = [*(_BATCHES if is_first else _OTHERS), *(_within(least, most) if most else ())]
        taken = {size for pair in found.values() for size in pair}
        for pair in pairs:
            is_within = least <= min(pair) and (most is None or max(pair) <= most)
            if is_within and taken.isdisjoint(pair):
                found[symbol] = pair
                break
        else:
            raise NotLowered(_FEW, _FIX)
    return found


def _within(least: int, most: int) -> Iterator[tuple[int, int]]:
    """Iterate over pairs of sizes in a range, those that strides divide first."""
    for step in (32, 8, 2, 1):
        sizes = range(-(-max(least, 2) // step) * step, most + 1, step)
        yield from pairwise(sizes[:_MOST_TRIED])


def lowered_openly(lower: Callable[[int], Graph | None]) -> Graph | None:
    """Return a model's program with open sizes, or None. lower: with the trial sizes 0 or 1."""
    one = lower(0)
    if one is None:
        return None
    other = lower(1)
    return None if other is None else merged(one, other)


def merged(one: Graph, other: Graph) -> Graph:
    """Return what two programs share, DYNAMIC where sizes differ; raise NotLowered if more differs."""
    if len(one.regions) != len(other.regions):
        raise differs("its regions")
    regions = []
    for first, second in zip(one.regions, other.regions, strict=True):
        if len(first.blocks) != len(second.blocks):
            raise differs("its blocks")
        blocks = [_block(a, b) for a, b in zip(first.blocks, second.blocks, strict=True)]
        regions.append(Region(first.name, blocks))
    return Graph(one.version, regions, one.producer)


def differs(what: str) -> NotLowered:
    """Return the refusal of a program that depends on sizes that are not fixed."""
    reason = f"the program depends on sizes that are not fixed: {what}"
    return NotLowered(reason, _FIX)


class Decision(NamedTuple):
    """Hold what a node did with known numbers: its operator, its place, and its operands."""

    operator: str
    where: str
    operands: bytes


def refuse_other_decisions(one: Sequence[Decision], other: Sequence[Decision], verb: str) -> None:
    """Refuse decisions about sizes that are not fixed, as trials show: the program would hold them."""
    if one != other:
        rows = zip(one, other, strict=False)
        row = next((first for first, second in rows if first != second), None)
        raise differs(f"{row.operator} ({row.where}) {verb} a size" if row else "its branches")


def _block(one: Block, other: Block) -> Block:
    signatures = [
        (own.inputs, own.outputs, own.tensors.keys(), own.shapes.keys(), len(own.operators))
        for own in (one, other)
    ]
    if signatures[0] != signatures[1]:
        raise differs("its operators")
    for first, second in zip(one.operators, other.operators, strict=True):
        _refuse_different(first, second)
    tensors = {name: _tensor(own, other.tensors[name]) for name, own in one.tensors.items()}
    users: dict[str, list[_User]] = {}
    for op in one.operators:
        for name in op.inputs:
            if name in one.shapes:
                users.setdefault(name, []).append((one, other, op))
    shapes = {
        name: _shape(own, other.shapes[name], users.get(name, ()))
        for name, own in one.shapes.items()
    }
    return replace(one, tensors=tensors, shapes=shapes)


def _refuse_different(one: Operator, other: Operator) -> None:
    if (one.spec, one.inputs, one.outputs) != (other.spec, other.inputs, other.outputs):
        raise differs(f"{one.spec.name} or {other.spec.name} {one.location}")
    if one.spec is not CONST_SHAPE and one.attributes != other.attributes:
        raise differs(f"attributes of {one.spec.name} {one.location}")


def _tensor(one: Tensor, other: Tensor) -> Tensor:
    shapes = one.shape or (), other.shape or ()
    if one.dtype is not other.dtype or len(shapes[0]) != len(shapes[1]):
        raise differs(f'the tensor "{one.name}"')
    shape = tuple(a if a == b else DYNAMIC for a, b in zip(*shapes, strict=True))
    if one.data is not None or other.data is not None:
        if shape != shapes[0] or not _are_same(one.data, other.data):
            raise differs(f'the constant "{one.name}"')
        return one
    return replace(one, shape=shape)


def _shape(one: ShapeValue, other: ShapeValue, users: Sequence[_User]) -> ShapeValue:
    sizes, others = one.values(), other.values()
    if sizes == others:
        return one
    if sizes is None or others is None or one.data is None or len(sizes) != len(others):
        raise differs(f'the sizes "{one.name}"')
    axes = [axis for axis, size in enumerate(sizes) if size != others[axis]]
    for first, second, op in users:
        if one.name in op.inputs and not _takes_open(first, second, op, one.name, axes):
            raise differs(f"the sizes {list(sizes)} of {op.spec.name} {op.location}")
    found = [DYNAMIC if axis in axes else size for axis, size in enumerate(sizes)]
    return replace(one, data=constant_of(np.array(found), one.data.dtype))


def _takes_open(one: Block, other: Block, op: Operator, name: str, axes: Sequence[int]) -> bool:
    """Return whether an operator computes the open ones among the sizes that it takes."""
    if op.spec.name == "RESHAPE":
        return len(axes) == 1
    if op.spec.name != "SLICE" or op.inputs[2] != name:
        return False
    # To the end: what remains.
    for own in (one, other):
        whole = own.tensors[op.inputs[0]].shape
        starts, sizes = (own.shapes[part].values() for part in op.inputs[1:])
        if whole is None or starts is None or sizes is None:
            return False
        if any(starts[axis] + sizes[axis] != whole[axis] for axis in axes):
            return False
    return True


def _are_same(one: Constant | None, other: Constant | None) -> bool:
    if one is None or other is None:
        return False
    if (one.dtype, one.count, one.splat) != (other.dtype, other.count, other.splat):
        return False
    first, second = memoryview(one.buffer), memoryview(other.buffer)
    return one.buffer is other.buffer or first == second


def open_dimensions(shapes: Sequence[Sequence[Any]]) -> Iterator[tuple[int, int, Hashable, bool]]:
    """Iterate over the open dimensions of inputs: the input, the axis, its symbol, whether it is first.

    shapes: of each input; a number is a size, a text the symbol of an open one, None one of its own.
    """
    unnamed = count()
    for number, shape in enumerate(shapes):
        for axis, size in enumerate(shape):
            if not isinstance(size, int):
                symbol = ("", next(unnamed)) if size is None else size
                yield number, axis, symbol, axis == 0
