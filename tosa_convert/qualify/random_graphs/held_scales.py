"""Operators on block-scaled tensors, which hold their scales. Programs have them only if asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from tosa_convert.graph.opset import operator
from tosa_convert.qualify.random_graphs.builder import (
    NUMBERS,
    SCALED_RULES,
    NoOperandsError,
    RandomBuilder,
    Rule,
)
from tosa_convert.rules.types import Element, TypeRow, rows

_BLOCK: Final = 32


def _rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a function as the rule of these operators for block-scaled tensors."""

    def register(make: Rule) -> Rule:
        SCALED_RULES.update(dict.fromkeys(names, make))
        return make

    return register


@cache
def _rows(name: str) -> tuple[TypeRow, ...]:
    """Return the rows of an operator that have a block-scaled tensor."""
    return tuple(
        row
        for row in rows(operator(name))
        if any(isinstance(element, tuple) for element in (*row.operands, *row.results))
    )


def _row(g: RandomBuilder, name: str) -> TypeRow:
    known = [row for row in _rows(name) if g.target.has_row(row)]
    if not known:
        raise NoOperandsError
    return g.random.choice(known)


def _sizes(g: RandomBuilder, rank: int) -> tuple[int, ...]:
    """Return random sizes, the last of which is of whole blocks."""
    return (*g.sizes(rank - 1, 3), _BLOCK * g.random.randint(1, 2))


def _tensor(g: RandomBuilder, element: Element | None, shape: Sequence[int]) -> Any:
    """Return a tensor of the block that has this type and shape, a new input, or a constant."""
    assert element is not None
    sizes = tuple(shape)
    if not isinstance(element, tuple):
        if g.random.random() < 0.5:
            return g.random_const(element.name, sizes, 100)
        return g.input(element.name, sizes)
    name = element[0].name
    same = [t for t in g.held if (t.dtype, t.shape) == (name, sizes)]
    if same and g.random.random() < 0.5:
        return g.random.choice(same)
    if g.random.random() < 0.5:
        return g.add(g.build.input(g.name("input"), name, sizes, scaled=True), 0)
    data: list[float] = [g.random.choice(NUMBERS) for _ in range(math.prod(sizes))]
    blocks = (*sizes[:-1], sizes[-1] // _BLOCK)
    scales = [2.0 ** g.random.randint(-3, 3) for _ in range(math.prod(blocks))]
    numbers = np.array(data).reshape(sizes)
    return g.build.const(numbers, name, scales=np.array(scales).reshape(blocks))


@_rule("IDENTITY", "DIM", "REVERSE", "TRANSPOSE", "TILE", "RESHAPE", "SLICE", "CONCAT")
def _move(g: RandomBuilder, name: str) -> None:
    """Whole blocks are moved."""
    element, rank = _row(g, name).operands[0], g.random.randint(2, 4)
    shape = _sizes(g, rank)
    operands = [_tensor(g, element, shape)]
    axis = g.random.randrange(rank)
    keywords: dict[str, Any] = {}
    if name in ("DIM", "REVERSE", "CONCAT"):
        keywords["axis"] = axis
    if name == "CONCAT":
        operands = [[operands[0], _tensor(g, element, shape)]]
    elif name == "TRANSPOSE":
        others = list(range(rank - 1))
        g.random.shuffle(others)
        keywords["perms"] = (*others, rank - 1)
    elif name == "TILE":
        operands.append(g.shape([2 if index == axis else 1 for index in range(rank)]))
    elif name == "RESHAPE":
        operands.append(g.shape((math.prod(shape[:-1]), shape[-1])))
    elif name == "SLICE":
        start = [g.random.randrange(size) for size in shape[:-1]]
        sizes = [size - first for size, first in zip(shape[:-1], start, strict=True)]
        first = _BLOCK * g.random.randrange(shape[-1] // _BLOCK)
        operands += [g.shape((*start, first)), g.shape((*sizes, _BLOCK))]
    g.emit(name, *operands, **keywords)


@_rule("GATHER", "SCATTER", "ROW_GATHER")
def _gather(g: RandomBuilder, name: str) -> None:
    row, (n, k, c) = _row(g, name), _sizes(g, 3)
    count = g.random.randint(1, k)
    chosen = [g.random.sample(range(k), count) for _ in range(n)]
    values = _tensor(g, row.operands[0], (n, k, c))
    indices = g.build.const(chosen, str(row.operands[1]))
    if name == "SCATTER":
        g.emit(name, values, indices, _tensor(g, row.operands[2], (n, count, c)))
    else:
        g.emit(name, values, indices, *[1] * (name == "ROW_GATHER"))


@_rule("RESIZE")
def _resize(g: RandomBuilder, name: str) -> None:
    row = _row(g, name)
    assert row.attribute is not None
    image = _tensor(g, row.operands[0], _sizes(g, 4))
    scale = [size for _ in "yx" for size in (g.random.randint(1, 2), 1)]
    zeros = g.shape((0, 0))
    g.emit(name, image, g.shape(scale), zeros, zeros, mode=row.attribute[1])


@_rule("CAST")
def _cast(g: RandomBuilder, name: str) -> None:
    row = _row(g, name)
    value = _tensor(g, row.operands[0], _sizes(g, g.random.randint(1, 4)))
    element = row.results[0]
    if isinstance(element, tuple):
        g.emit(name, value, dtype=element[0], scaled=True)
    else:
        g.emit(name, value, dtype=element)


@_rule("MATMUL_T")
def _matmul(g: RandomBuilder, name: str) -> None:
    row, (n, height, depth) = _row(g, name), _sizes(g, 3)
    left = _tensor(g, row.operands[0], (n, height, depth))
    right = _tensor(g, row.operands[1], (n, g.random.randint(1, 3), depth))
    g.emit(name, left, right, dtype=row.results[0])


@_rule("CONV2D", "TRANSPOSE_CONV2D")
def _convolution(g: RandomBuilder, name: str) -> None:
    row, image = _row(g, name), _sizes(g, 4)
    assert row.attribute is not None
    out, kernel = g.random.randint(1, 3), (1, 1)
    g.emit(
        name,
        _tensor(g, row.operands[0], image),
        _tensor(g, row.operands[1], (out, *kernel, image[-1])),
        g.random_const(str(row.operands[2]), (out,), 100),
        acc_type=row.attribute[1],
        dtype=row.results[0],
    )
