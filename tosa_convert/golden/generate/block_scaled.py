"""Operators on block-scaled data: elements in one tensor, a scale for each 32 of them in another."""

from __future__ import annotations

import math
from typing import Final

from tosa_convert.golden.generate.builder import KINDS, MOST_ELEMENTS, Maker, Value, rule
from tosa_convert.golden.generate.data_layout import other_shape
from tosa_convert.graph.dtypes import BLOCK_SCALED, BlockSize

_BLOCK: Final = 32
_SCALE: Final = "FP8UE8M0"
_DATA: Final = tuple(row.name for row in BLOCK_SCALED)
#: Numbers that all of the types have, and codes of scales from 1/8 to 8.
_NUMBERS: Final = (-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0)
_SCALES: Final = (124, 130)
Pair = tuple[Value, Value]


def _constants(m: Maker, kind: str, shape: tuple[int, ...]) -> Pair:
    """Constant data and scales."""
    scales = (*shape[:-1], shape[-1] // _BLOCK)
    if kind == "MXINT8":
        data: list[float] = [m.random.randrange(256) for _ in range(math.prod(shape))]
    else:
        data = [m.random.choice(_NUMBERS) for _ in range(math.prod(shape))]
    codes = [m.random.randint(*_SCALES) for _ in range(math.prod(scales))]
    return (
        Value(m.const(kind, data, shape), kind, shape, 0),
        Value(m.const(_SCALE, codes, scales), _SCALE, scales, 0),
    )


def _pair(m: Maker, rank: int) -> Pair:
    """Data and scales of this rank: some there are, or constants."""
    known = [pair for pair in m.scaled if len(pair[0].shape) == rank]
    if known and m.random.random() < 0.8:
        return m.random.choice(known)
    shape = [m.random.randint(1, 3) for _ in range(rank - 1)]
    if rank == 3:
        shape[0] = 1
    return _constants(m, m.random.choice(_DATA), (*shape, _BLOCK * m.random.randint(1, 2)))


@rule("CAST_TO_BLOCK_SCALED")
def _cast_to(m: Maker, name: str) -> bool:
    fitting = [
        v for v in m.values if v.dtype in ("FP32", "BF16") and v.shape and not v.shape[-1] % _BLOCK
    ]
    if fitting and m.random.random() < 0.7:
        v = m.random.choice(fitting)
    else:
        rank = m.random.choice((2, 3, 3, 4))
        shape = (*(m.random.randint(1, 3) for _ in range(rank - 1)), _BLOCK)
        v = m.input(m.random.choice(("FP32", "BF16")), (1, *shape[1:]))
    scales = (*v.shape[:-1], v.shape[-1] // _BLOCK)
    kind = m.random.choice(_DATA)
    m.emit(name, [v.name], [(kind, v.shape), (_SCALE, scales)], block_size=BlockSize.BLOCK_SIZE_32)
    m.scaled.append((m.values[-2], m.values[-1]))
    return True


@rule("CAST_FROM_BLOCK_SCALED")
def _cast_from(m: Maker, name: str) -> bool:
    data, scale = _pair(m, m.random.randint(1, 4))
    result = (m.random.choice(("FP32", "BF16")), data.shape)
    return m.emit(name, [data.name, scale.name], [result], block_size=BlockSize.BLOCK_SIZE_32)


@rule("MATMUL_T_BLOCK_SCALED")
def _matmul_t(m: Maker, name: str) -> bool:
    data, scale = _pair(m, 3)
    n, rows, depth = data.shape
    width = m.random.randint(1, 4)
    other, other_scale = _constants(m, data.dtype, (n, width, depth))
    return m.emit(
        name,
        [data.name, scale.name, other.name, other_scale.name],
        [("FP32", (n, rows, width))],
        block_size=BlockSize.BLOCK_SIZE_32,
    )


@rule("CONV2D_BLOCK_SCALED")
def _conv2d(m: Maker, name: str) -> bool:
    data, scale = _pair(m, 4)
    if data.dtype == "MXINT8":
        return False  # the specification has no such convolution
    n, height, width, depth = data.shape
    out = m.random.randint(1, 3)
    kernel = (m.random.randint(1, min(2, height)), m.random.randint(1, min(2, width)))
    weight, weight_scale = _constants(m, data.dtype, (out, *kernel, depth))
    operands = [data.name, scale.name, weight.name, weight_scale.name]
    operands += [m.random_const("FP32", (out,), 1), m.shape((0, 0, 0, 0)), m.shape((1, 1))]
    shape = (n, height - kernel[0] + 1, width - kernel[1] + 1, out)
    size = BlockSize.BLOCK_SIZE_32
    return m.emit(name, [*operands, m.shape((1, 1))], [("FP32", shape)], block_size=size)


@rule("RESHAPE_BLOCK_SCALED", "ROW_GATHER_BLOCK_SCALED")
def _move(m: Maker, name: str) -> bool:
    """With blocks of 32 for data and scales; with blocks of 1 for plain tensors."""
    gather = name == "ROW_GATHER_BLOCK_SCALED"
    plain = m.pick(KINDS, (3,) if gather else (1, 2, 3, 4)) if m.random.random() < 0.4 else None
    data, scale = (plain, None) if plain is not None else _pair(m, 3 if gather else 2)
    if gather:
        shape, operands = row_gather(m, data)
    else:
        depth = 1 if scale is None else _BLOCK
        last = other_shape(m, data.count // depth)
        shape = (*last[:-1], last[-1] * depth)
        operands = [m.shape(shape)]
    if math.prod(shape) > MOST_ELEMENTS:
        return False
    if scale is None:
        size = BlockSize.BLOCK_SIZE_1
        return m.emit(
            name, [data.name, *operands], [(data.dtype, shape)], data.bound, block_size=size
        )
    scales = (*shape[:-1], shape[-1] // _BLOCK)
    results = [(data.dtype, shape), (_SCALE, scales)]
    size = BlockSize.BLOCK_SIZE_32
    m.emit(name, [data.name, scale.name, *operands], results, block_size=size)
    m.scaled.append((m.values[-2], m.values[-1]))
    return True


@rule("ROW_GATHER")
def _row_gather(m: Maker, name: str) -> bool:
    v = m.pick(KINDS, (3,))
    if v is None:
        return False
    shape, operands = row_gather(m, v)
    return m.emit(name, [v.name, *operands], [(v.dtype, shape)], v.bound)


def row_gather(m: Maker, v: Value) -> tuple[tuple[int, ...], list[str]]:
    """The result's shape, and the indices and the count of rows that are gathered at each."""
    n, rows, depth = v.shape
    count, width = m.random.randint(1, rows), m.random.randint(1, 3)
    indices = [m.random.randint(0, rows - count) for _ in range(n * width)]
    operands = [m.const("INT32", indices, (n, width)), m.const("INT32", [count], (1,))]
    return (n, width * count, depth), operands
