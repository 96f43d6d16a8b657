"""Operators on whole tensors: layout, reductions, products, windows and block-scaled data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tosa_convert.golden.random_graphs.builder import (
    ELEMENT_TYPES,
    FLOATS,
    INT32_BOUND,
    INTEGERS,
    NoOperandsError,
    RandomBuilder,
    Tensor,
    rule,
    types_of,
)
from tosa_convert.graph.dtypes import BLOCK_SCALED
from tosa_convert.graph.opset import OPERATORS


@rule("CONCAT")
def _concat(g: RandomBuilder, name: str) -> None:
    t = g.pick(ELEMENT_TYPES)
    axis = g.random.randrange(len(t.shape))
    other = g.random.choice([o for o in g.tensors if _can_follow(t, o, axis)])
    g.emit(name, [t, other], axis=axis, bound=max(t.bound, other.bound))


def _can_follow(t: Tensor, other: Tensor, axis: int) -> bool:
    """Return whether tensors differ at most in their size along an axis."""
    without = t.shape[:axis] + t.shape[axis + 1 :]
    return (
        other.dtype == t.dtype
        and len(other.shape) == len(t.shape)
        and other.shape[:axis] + other.shape[axis + 1 :] == without
    )


@rule("REVERSE")
def _reverse(g: RandomBuilder, name: str) -> None:
    t = g.pick(ELEMENT_TYPES)
    g.emit(name, t, axis=g.random.randrange(len(t.shape)), bound=t.bound)


@rule("TRANSPOSE")
def _transpose(g: RandomBuilder, name: str) -> None:
    t = g.pick(ELEMENT_TYPES)
    perms = list(range(len(t.shape)))
    g.random.shuffle(perms)
    g.emit(name, t, perms=tuple(perms), bound=t.bound)


@rule("RESHAPE")
def _reshape(g: RandomBuilder, name: str) -> None:
    t = g.pick(ELEMENT_TYPES)
    g.emit(name, t, g.shape(other_shape(g, t.count)), bound=t.bound)


@rule("TILE")
def _tile(g: RandomBuilder, name: str) -> None:
    t = g.pick(ELEMENT_TYPES)
    multiples = g.shape([g.random.choice((1, 1, 2)) for _ in t.shape])
    g.emit(name, t, multiples, bound=t.bound)


@rule("PAD")
def _pad(g: RandomBuilder, name: str) -> None:
    t = g.pick(ELEMENT_TYPES)
    pads = g.shape([g.random.randint(0, 2) for _ in range(2 * len(t.shape))])
    g.emit(name, t, pads, bound=t.bound)


@rule("SLICE")
def _slice(g: RandomBuilder, name: str) -> None:
    t = g.pick(ELEMENT_TYPES)
    start = [g.random.randrange(size) for size in t.shape]
    sizes = [g.random.randint(1, s - a) for s, a in zip(t.shape, start, strict=True)]
    g.emit(name, t, g.shape(start), g.shape(sizes), bound=t.bound)


def other_shape(g: RandomBuilder, count: int) -> tuple[int, ...]:
    """Sizes with this product."""
    shape = [count]
    for _ in range(g.random.randint(0, 3)):
        last = shape.pop()
        first = g.random.choice([d for d in range(1, last + 1) if last % d == 0])
        shape += [first, last // first]
    return tuple(shape)


@rule("GATHER", "SCATTER")
def _gather(g: RandomBuilder, name: str) -> None:
    t = g.pick((*FLOATS, *INTEGERS), (3,))
    n, k, c = t.shape
    w = g.random.randint(1, k)
    indices = tuple(tuple(g.random.sample(range(k), w)) for _ in range(n))
    if name == "GATHER":
        g.emit(name, t, indices, bound=t.bound)
    else:
        source = g.random_const(t.dtype, (n, w, c), 100)
        g.emit(name, t, indices, source, bound=max(t.bound, 100))


@rule(*(row.name for row in OPERATORS if row.family == "reduction"))
def _reduce(g: RandomBuilder, name: str) -> None:
    types = (*FLOATS, "INT8") if name == "ARGMAX" else types_of(name)
    t = g.pick(types, (2, 3, 4), bound=INT32_BOUND // 8)
    axis = g.random.randrange(len(t.shape))
    size = t.shape[axis]
    bound = {"REDUCE_SUM": t.bound * size, "ARGMAX": size}.get(name, t.bound)
    if bound > INT32_BOUND:
        raise NoOperandsError
    keywords: dict[str, Any] = {"dtype": "INT32"} if name == "ARGMAX" else {}
    g.emit(name, t, axis=axis, bound=bound, **keywords)


@rule("MATMUL", "MATMUL_T")
def _matmul(g: RandomBuilder, name: str) -> None:
    t = g.pick(("FP32", "FP16", "INT8"), (3,))
    n, _, c = t.shape
    width = g.random.randint(1, 6)
    other = g.random_const(t.dtype, (n, c, width) if name == "MATMUL" else (n, width, c), 100)
    result = "INT32" if t.dtype == "INT8" else t.dtype
    g.emit(name, t, other, dtype=result, bound=128 * 100 * c)


@rule("CONV2D", "DEPTHWISE_CONV2D", "TRANSPOSE_CONV2D")
def _conv2d(g: RandomBuilder, name: str) -> None:
    t = g.pick(("FP32", "INT8"), (4,))
    _, height, width, c = t.shape
    kernel = (min(g.random.randint(1, 3), height), min(g.random.randint(1, 3), width))
    out = g.random.randint(1, 4)
    depthwise = name == "DEPTHWISE_CONV2D"
    shape = (*kernel, c, out) if depthwise else (out, *kernel, c)
    bias = (c * out if depthwise else out,)
    keywords = {} if name == "TRANSPOSE_CONV2D" else {"pad": (0, kernel[0] - 1, 0, kernel[1] - 1)}
    g.emit(
        name,
        t,
        g.random_const(t.dtype, shape, 100),
        g.random_const(_accumulator(t.dtype), bias, 1000),
        bound=128 * 100 * math.prod(kernel) * c + 1000,
        **keywords,
    )


@rule("CONV3D")
def _conv3d(g: RandomBuilder, name: str) -> None:
    fitting = [t for t in g.tensors if t.dtype in ("FP32", "INT8") and len(t.shape) == 5]
    if fitting and g.random.random() < 0.8:
        t = g.recent(fitting)
    else:
        shape = tuple(g.random.randint(1, 3) for _ in range(5))
        t = g.input(g.random.choice(("FP32", "INT8")), shape)
    kernel = [g.random.randint(1, min(2, size)) for size in t.shape[1:4]]
    out, c = g.random.randint(1, 3), t.shape[4]
    g.emit(
        name,
        t,
        g.random_const(t.dtype, (out, *kernel, c), 100),
        g.random_const(_accumulator(t.dtype), (out,), 1000),
        local_bound=g.random.random() < 0.5,
        bound=128 * 100 * math.prod(kernel) * c + 1000,
    )


def _accumulator(element_type: str) -> str:
    return "INT32" if element_type == "INT8" else "FP32"


@rule("FFT2D", "RFFT2D")
def _fft(g: RandomBuilder, name: str) -> None:
    """Along dimensions whose sizes are powers of two."""
    fitting = [
        t
        for t in g.tensors
        if t.dtype == "FP32"
        and len(t.shape) == 3
        and t.shape[2] > 1
        and all(size & (size - 1) == 0 for size in t.shape[1:])
    ]
    if fitting and g.random.random() < 0.7:
        t = g.random.choice(fitting)
    else:
        sizes = [g.random.choice((2, 4, 8)) for _ in "hw"]
        t = g.input("FP32", (g.random.randint(1, 2), *sizes))
    local = g.random.random() < 0.5
    if name == "RFFT2D":
        g.emit(name, t, local_bound=local)
        return
    other, _ = g.broadcast_operand(t)
    if other.shape != t.shape:
        other = g.random_const("FP32", t.shape, 1)
    g.emit(name, t, other, inverse=g.random.random() < 0.5, local_bound=local)


@rule("AVG_POOL2D", "MAX_POOL2D", "AVG_POOL2D_ADAPTIVE", "MAX_POOL2D_ADAPTIVE")
def _pool(g: RandomBuilder, name: str) -> None:
    t = g.pick(("FP32", "FP16", "INT8"), (4,))
    kernel: Any = (min(2, t.shape[1]), min(2, t.shape[2]))
    keywords: dict[str, Any] = {}
    if name.startswith("AVG"):
        keywords["acc_type"] = _accumulator(t.dtype)
    if name.endswith("ADAPTIVE"):
        kernel = g.shape(kernel)
        keywords |= {"stride": g.shape((1, 1)), "pad": g.shape((0, 0, 0, 0))}
    g.emit(name, t, kernel=kernel, bound=t.bound, **keywords)


@rule("RESIZE")
def _resize(g: RandomBuilder, name: str) -> None:
    t = g.pick(("FP32", "FP16", "INT8"), (4,))
    zero = g.shape((0, 0))
    g.emit(name, t, g.shape((2, 1, 2, 1)), zero, zero, mode="NEAREST", bound=t.bound)


_BLOCK: Final = 32
_SCALE: Final = "FP8UE8M0"
_DATA: Final = tuple(row.name for row in BLOCK_SCALED)
#: Numbers that all of the types can represent, and the exponents of scales.
_NUMBERS: Final = (-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0)
_EXPONENTS: Final = (-3, 3)
Pair = tuple[Any, Any]


def _block_constants(g: RandomBuilder, element_type: str, shape: Sequence[int]) -> Pair:
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


def _block_pair(g: RandomBuilder, rank: int) -> Pair:
    """Return data and scales of this rank: an existing pair, or new constants."""
    available = [pair for pair in g.scaled if len(pair[0].shape) == rank]
    if available and g.random.random() < 0.8:
        data, scale = g.random.choice(available)
        return data.value, scale.value
    shape = [g.random.randint(1, 3) for _ in range(rank - 1)]
    if rank == 3:
        shape[0] = 1
    return _block_constants(g, g.random.choice(_DATA), (*shape, _BLOCK * g.random.randint(1, 2)))


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
    data, scale = _block_pair(g, g.random.randint(1, 4))
    g.emit(name, data, scale, dtype=g.random.choice(("FP32", "BF16")))


@rule("MATMUL_T_BLOCK_SCALED")
def _matmul_of_blocks(g: RandomBuilder, name: str) -> None:
    data, scale = _block_pair(g, 3)
    n, _, depth = data.shape
    g.emit(
        name, data, scale, *_block_constants(g, data.dtype.name, (n, g.random.randint(1, 4), depth))
    )


@rule("CONV2D_BLOCK_SCALED")
def _conv2d_of_blocks(g: RandomBuilder, name: str) -> None:
    data, scale = _block_pair(g, 4)
    if data.dtype.name == "MXINT8":
        raise NoOperandsError  # the specification does not define this convolution
    _, height, width, depth = data.shape
    out = g.random.randint(1, 3)
    kernel = (g.random.randint(1, min(2, height)), g.random.randint(1, min(2, width)))
    weight = _block_constants(g, data.dtype.name, (out, *kernel, depth))
    bias = g.random_const("FP32", (out,), 1)
    pad, ones = g.shape((0, 0, 0, 0)), g.shape((1, 1))
    g.emit(name, data, scale, *weight, bias, pad, ones, g.shape((1, 1)))


@rule("RESHAPE_BLOCK_SCALED")
def _reshape_blocks(g: RandomBuilder, name: str) -> None:
    """Blocks of 32 for data and scales, blocks of 1 for plain tensors."""
    if g.random.random() < 0.4:
        t = g.pick(ELEMENT_TYPES)
        g.emit(name, t, g.shape(other_shape(g, t.count)), bound=t.bound)
        return
    data, scale = _block_pair(g, 2)
    blocks = other_shape(g, math.prod(data.shape) // _BLOCK)
    shape = g.shape((*blocks[:-1], blocks[-1] * _BLOCK))
    _emit_pair(g, name, data, shape, input_scale=scale)


@rule("ROW_GATHER", "ROW_GATHER_BLOCK_SCALED")
def _row_gather(g: RandomBuilder, name: str) -> None:
    if name == "ROW_GATHER" or g.random.random() < 0.4:
        t: Tensor = g.pick(ELEMENT_TYPES, (3,))
        g.emit(name, t, *_rows(g, t.shape), bound=t.bound)
    else:
        data, scale = _block_pair(g, 3)
        _emit_pair(g, name, data, *_rows(g, data.shape), values_scale=scale)


def _rows(g: RandomBuilder, shape: Sequence[int]) -> tuple[tuple[tuple[int, ...], ...], int]:
    """Return the indices of rows, and how many rows there are at each."""
    n, rows, _ = shape
    count, width = g.random.randint(1, rows), g.random.randint(1, 3)
    indices = [tuple(g.random.randint(0, rows - count) for _ in range(width)) for _ in range(n)]
    return tuple(indices), count
