"""Operators on block-scaled data: elements in one tensor, a scale for each 32 of them in another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tosa_convert.golden.random_graphs.builder import (
    ELEMENT_TYPES,
    NoOperandsError,
    RandomBuilder,
    Tensor,
    rule,
)
from tosa_convert.golden.random_graphs.data_layout import other_shape
from tosa_convert.graph.dtypes import BLOCK_SCALED

_BLOCK: Final = 32
_SCALE: Final = "FP8UE8M0"
_DATA: Final = tuple(row.name for row in BLOCK_SCALED)
#: Numbers that all of the types can represent, and the exponents of scales.
_NUMBERS: Final = (-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0)
_EXPONENTS: Final = (-3, 3)
Pair = tuple[Any, Any]


def _constants(g: RandomBuilder, element_type: str, shape: Sequence[int]) -> Pair:
    """Constant data and scales."""
    scales = (*shape[:-1], shape[-1] // _BLOCK)
    count = math.prod(shape)
    if element_type == "MXINT8":
        data: list[float] = [g.random.randint(-128, 127) for _ in range(count)]
    else:
        data = [g.random.choice(_NUMBERS) for _ in range(count)]
    powers = [2.0 ** g.random.randint(*_EXPONENTS) for _ in range(math.prod(scales))]
    return (
        g.build.const(np.array(data).reshape(shape), element_type),
        g.build.const(np.array(powers).reshape(scales), _SCALE),
    )


def _pair(g: RandomBuilder, rank: int) -> Pair:
    """Return data and scales of this rank: an existing pair, or new constants."""
    available = [pair for pair in g.scaled if len(pair[0].shape) == rank]
    if available and g.random.random() < 0.8:
        data, scale = g.random.choice(available)
        return data.value, scale.value
    shape = [g.random.randint(1, 3) for _ in range(rank - 1)]
    if rank == 3:
        shape[0] = 1
    return _constants(g, g.random.choice(_DATA), (*shape, _BLOCK * g.random.randint(1, 2)))


def _emit_pair(g: RandomBuilder, name: str, *operands: Any, **keywords: Any) -> None:
    """Append an operator whose results are data and scales."""
    data, scale = g.emit(name, *operands, **keywords)
    g.scaled.append((data, scale))


@rule("CAST_TO_BLOCK_SCALED")
def _cast_to(g: RandomBuilder, name: str) -> None:
    fitting = [
        t for t in g.tensors if t.dtype in ("FP32", "BF16") and t.shape and not t.shape[-1] % _BLOCK
    ]
    if fitting and g.random.random() < 0.7:
        t = g.random.choice(fitting)
    else:
        sizes = [g.random.randint(1, 3) for _ in range(g.random.choice((0, 1, 1, 2)))]
        t = g.input(g.random.choice(("FP32", "BF16")), (1, *sizes, _BLOCK))
    _emit_pair(g, name, t, dtype=g.random.choice(_DATA))


@rule("CAST_FROM_BLOCK_SCALED")
def _cast_from(g: RandomBuilder, name: str) -> None:
    data, scale = _pair(g, g.random.randint(1, 4))
    g.emit(name, data, scale, dtype=g.random.choice(("FP32", "BF16")))


@rule("MATMUL_T_BLOCK_SCALED")
def _matmul_t(g: RandomBuilder, name: str) -> None:
    data, scale = _pair(g, 3)
    n, _, depth = data.shape
    g.emit(name, data, scale, *_constants(g, data.dtype.name, (n, g.random.randint(1, 4), depth)))


@rule("CONV2D_BLOCK_SCALED")
def _conv2d(g: RandomBuilder, name: str) -> None:
    data, scale = _pair(g, 4)
    if data.dtype.name == "MXINT8":
        raise NoOperandsError  # the specification does not define this convolution
    _, height, width, depth = data.shape
    out = g.random.randint(1, 3)
    kernel = (g.random.randint(1, min(2, height)), g.random.randint(1, min(2, width)))
    weight = _constants(g, data.dtype.name, (out, *kernel, depth))
    bias = g.random_const("FP32", (out,), 1)
    pad, ones = g.shape((0, 0, 0, 0)), g.shape((1, 1))
    g.emit(name, data, scale, *weight, bias, pad, ones, g.shape((1, 1)))


@rule("RESHAPE_BLOCK_SCALED")
def _reshape(g: RandomBuilder, name: str) -> None:
    """Blocks of 32 for data and scales, blocks of 1 for plain tensors."""
    if g.random.random() < 0.4:
        t = g.pick(ELEMENT_TYPES)
        g.emit(name, t, g.shape(other_shape(g, t.count)), bound=t.bound)
        return
    data, scale = _pair(g, 2)
    blocks = other_shape(g, math.prod(data.shape) // _BLOCK)
    shape = g.shape((*blocks[:-1], blocks[-1] * _BLOCK))
    _emit_pair(g, name, data, shape, input_scale=scale)


@rule("ROW_GATHER", "ROW_GATHER_BLOCK_SCALED")
def _row_gather(g: RandomBuilder, name: str) -> None:
    if name == "ROW_GATHER" or g.random.random() < 0.4:
        t: Tensor = g.pick(ELEMENT_TYPES, (3,))
        g.emit(name, t, *_rows(g, t.shape), bound=t.bound)
    else:
        data, scale = _pair(g, 3)
        _emit_pair(g, name, data, *_rows(g, data.shape), values_scale=scale)


def _rows(g: RandomBuilder, shape: Sequence[int]) -> tuple[tuple[tuple[int, ...], ...], int]:
    """Return the indices of rows, and how many rows there are at each."""
    n, rows, _ = shape
    count, width = g.random.randint(1, rows), g.random.randint(1, 3)
    indices = [tuple(g.random.randint(0, rows - count) for _ in range(width)) for _ in range(n)]
    return tuple(indices), count
