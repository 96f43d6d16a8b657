"""Operators on block-scaled data: elements in one tensor, a scale for each 32 of them in another."""

from __future__ import annotations

import math
from typing import Final

from tosa_convert.golden.random_graphs.builder import (
    ELEMENT_TYPES,
    MOST_ELEMENTS,
    GraphBuilder,
    Value,
    rule,
)
from tosa_convert.golden.random_graphs.data_layout import other_shape
from tosa_convert.graph.dtypes import BLOCK_SCALED, BlockSize

_BLOCK: Final = 32
_SCALE: Final = "FP8UE8M0"
_DATA: Final = tuple(row.name for row in BLOCK_SCALED)
#: Numbers that all of the types can represent, and codes of scales from 1/8 to 8.
_NUMBERS: Final = (-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0)
_SCALES: Final = (124, 130)
Pair = tuple[Value, Value]


def _constants(builder: GraphBuilder, element_type: str, shape: tuple[int, ...]) -> Pair:
    """Constant data and scales."""
    scales = (*shape[:-1], shape[-1] // _BLOCK)
    if element_type == "MXINT8":
        data: list[float] = [builder.random.randrange(256) for _ in range(math.prod(shape))]
    else:
        data = [builder.random.choice(_NUMBERS) for _ in range(math.prod(shape))]
    codes = [builder.random.randint(*_SCALES) for _ in range(math.prod(scales))]
    return (
        Value(builder.const(element_type, data, shape), element_type, shape, 0),
        Value(builder.const(_SCALE, codes, scales), _SCALE, scales, 0),
    )


def _pair(builder: GraphBuilder, rank: int) -> Pair:
    """Data and scales of this rank: an existing pair, or new constants."""
    available = [pair for pair in builder.scaled if len(pair[0].shape) == rank]
    if available and builder.random.random() < 0.8:
        return builder.random.choice(available)
    shape = [builder.random.randint(1, 3) for _ in range(rank - 1)]
    if rank == 3:
        shape[0] = 1
    return _constants(
        builder, builder.random.choice(_DATA), (*shape, _BLOCK * builder.random.randint(1, 2))
    )


@rule("CAST_TO_BLOCK_SCALED")
def _cast_to(builder: GraphBuilder, name: str) -> bool:
    fitting = [
        v
        for v in builder.values
        if v.dtype in ("FP32", "BF16") and v.shape and not v.shape[-1] % _BLOCK
    ]
    if fitting and builder.random.random() < 0.7:
        v = builder.random.choice(fitting)
    else:
        rank = builder.random.choice((2, 3, 3, 4))
        shape = (*(builder.random.randint(1, 3) for _ in range(rank - 1)), _BLOCK)
        v = builder.input(builder.random.choice(("FP32", "BF16")), (1, *shape[1:]))
    scales = (*v.shape[:-1], v.shape[-1] // _BLOCK)
    element_type = builder.random.choice(_DATA)
    builder.emit(
        name,
        [v.name],
        [(element_type, v.shape), (_SCALE, scales)],
        block_size=BlockSize.BLOCK_SIZE_32,
    )
    builder.scaled.append((builder.values[-2], builder.values[-1]))
    return True


@rule("CAST_FROM_BLOCK_SCALED")
def _cast_from(builder: GraphBuilder, name: str) -> bool:
    data, scale = _pair(builder, builder.random.randint(1, 4))
    result = (builder.random.choice(("FP32", "BF16")), data.shape)
    return builder.emit(name, [data.name, scale.name], [result], block_size=BlockSize.BLOCK_SIZE_32)


@rule("MATMUL_T_BLOCK_SCALED")
def _matmul_t(builder: GraphBuilder, name: str) -> bool:
    data, scale = _pair(builder, 3)
    n, rows, depth = data.shape
    width = builder.random.randint(1, 4)
    other, other_scale = _constants(builder, data.dtype, (n, width, depth))
    return builder.emit(
        name,
        [data.name, scale.name, other.name, other_scale.name],
        [("FP32", (n, rows, width))],
        block_size=BlockSize.BLOCK_SIZE_32,
    )


@rule("CONV2D_BLOCK_SCALED")
def _conv2d(builder: GraphBuilder, name: str) -> bool:
    data, scale = _pair(builder, 4)
    if data.dtype == "MXINT8":
        return False  # the specification does not define this convolution
    n, height, width, depth = data.shape
    out = builder.random.randint(1, 3)
    kernel = (builder.random.randint(1, min(2, height)), builder.random.randint(1, min(2, width)))
    weight, weight_scale = _constants(builder, data.dtype, (out, *kernel, depth))
    operands = [data.name, scale.name, weight.name, weight_scale.name]
    operands += [
        builder.random_const("FP32", (out,), 1),
        builder.shape((0, 0, 0, 0)),
        builder.shape((1, 1)),
    ]
    shape = (n, height - kernel[0] + 1, width - kernel[1] + 1, out)
    size = BlockSize.BLOCK_SIZE_32
    return builder.emit(
        name, [*operands, builder.shape((1, 1))], [("FP32", shape)], block_size=size
    )


@rule("RESHAPE_BLOCK_SCALED", "ROW_GATHER_BLOCK_SCALED")
def _move(builder: GraphBuilder, name: str) -> bool:
    """Blocks of 32 for data and scales, blocks of 1 for plain tensors."""
    gather = name == "ROW_GATHER_BLOCK_SCALED"
    plain = (
        builder.pick(ELEMENT_TYPES, (3,) if gather else (1, 2, 3, 4))
        if builder.random.random() < 0.4
        else None
    )
    data, scale = (plain, None) if plain is not None else _pair(builder, 3 if gather else 2)
    if gather:
        shape, operands = row_gather(builder, data)
    else:
        depth = 1 if scale is None else _BLOCK
        last = other_shape(builder, data.count // depth)
        shape = (*last[:-1], last[-1] * depth)
        operands = [builder.shape(shape)]
    if math.prod(shape) > MOST_ELEMENTS:
        return False
    if scale is None:
        size = BlockSize.BLOCK_SIZE_1
        return builder.emit(
            name, [data.name, *operands], [(data.dtype, shape)], data.bound, block_size=size
        )
    scales = (*shape[:-1], shape[-1] // _BLOCK)
    results = [(data.dtype, shape), (_SCALE, scales)]
    size = BlockSize.BLOCK_SIZE_32
    builder.emit(name, [data.name, scale.name, *operands], results, block_size=size)
    builder.scaled.append((builder.values[-2], builder.values[-1]))
    return True


@rule("ROW_GATHER")
def _row_gather(builder: GraphBuilder, name: str) -> bool:
    v = builder.pick(ELEMENT_TYPES, (3,))
    if v is None:
        return False
    shape, operands = row_gather(builder, v)
    return builder.emit(name, [v.name, *operands], [(v.dtype, shape)], v.bound)


def row_gather(builder: GraphBuilder, v: Value) -> tuple[tuple[int, ...], list[str]]:
    """The result's shape, and the operands for the indices and for the count of rows at each."""
    n, rows, depth = v.shape
    count, width = builder.random.randint(1, rows), builder.random.randint(1, 3)
    indices = [builder.random.randint(0, rows - count) for _ in range(n * width)]
    operands = [builder.const("INT32", indices, (n, width)), builder.const("INT32", [count], (1,))]
    return (n, width * count, depth), operands
