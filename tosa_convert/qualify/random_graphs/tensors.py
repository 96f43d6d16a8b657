"""Add operators on whole tensors: layout, reductions, products, windows and block-scaled data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, partial
from typing import Any, Final, NamedTuple

import numpy as np

from tosa_convert.graph.dtypes import BLOCK_SCALED, dtype
from tosa_convert.graph.opset import operator
from tosa_convert.qualify.random_graphs.builder import (
    EVERY_TYPE,
    INT32_BOUND,
    MOST_ELEMENTS,
    NUMBERS,
    SCALED_RULES,
    NoOperandsError,
    RandomBuilder,
    Tensor,
    rule,
)
from tosa_convert.rules.types import Element, TypeRow, rows


@rule("CONCAT")
def _concat(g: RandomBuilder, name: str) -> None:
    t, _ = g.operand(name)
    axis = g.random.randrange(len(t.shape))
    fitting = [o for o in g.tensors if _can_follow(t, o, axis)]
    others = [g.random.choice(fitting) for _ in range(g.random.choice((0, 1, 1, 2, 3)))]
    parts = [t, *others]
    g.emit(name, parts, axis=axis, bound=max(part.bound for part in parts))


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
    t, _ = g.operand(name)
    g.emit(name, t, axis=g.random.randrange(len(t.shape)), bound=t.bound)


@rule("TRANSPOSE")
def _transpose(g: RandomBuilder, name: str) -> None:
    t, _ = g.operand(name)
    perms = list(range(len(t.shape)))
    g.random.shuffle(perms)
    g.emit(name, t, perms=tuple(perms), bound=t.bound)


@rule("RESHAPE")
def _reshape(g: RandomBuilder, name: str) -> None:
    t, _ = g.operand(name)
    g.emit(name, t, g.shape(other_shape(g, t.count)), bound=t.bound)


@rule("TILE")
def _tile(g: RandomBuilder, name: str) -> None:
    t, _ = g.operand(name)
    g.emit(name, t, g.shape([g.random.choice((1, 1, 2)) for _ in t.shape]), bound=t.bound)


@rule("PAD")
def _pad(g: RandomBuilder, name: str) -> None:
    t, _ = g.operand(name)
    pads = g.shape([g.random.randint(0, 2) for _ in range(2 * len(t.shape))])
    fill = None if g.random.random() < 0.4 else g.random_const(t.dtype, (1,), 127)
    g.emit(name, t, pads, fill, bound=max(t.bound, 127))


@rule("SLICE")
def _slice(g: RandomBuilder, name: str) -> None:
    t, _ = g.operand(name)
    start = [g.random.randrange(size) for size in t.shape]
    sizes = [g.random.randint(1, s - a) for s, a in zip(t.shape, start, strict=True)]
    g.emit(name, t, g.shape(start), g.shape(sizes), bound=t.bound)


def other_shape(g: RandomBuilder, count: int) -> tuple[int, ...]:
    """Return sizes with this product."""
    shape = [count]
    for _ in range(g.random.randint(0, 3)):
        last = shape.pop()
        first = g.random.choice([d for d in range(1, last + 1) if last % d == 0])
        shape += [first, last // first]
    return tuple(shape)


#: So many indices that numpy looks at them, and how often GATHER has them.
_MANY: Final = 1200
_OFTEN_MANY: Final = 0.2


@rule("gather")
def _gather(g: RandomBuilder, name: str) -> None:
    t, row = g.operand(name, (3,))
    n, k, c = t.shape
    w = g.random.randint(1, k)
    rows = [g.random.sample(range(k), w) for _ in range(n)]
    many = _MANY // n
    if name == "GATHER" and n * many * c <= MOST_ELEMENTS and g.random.random() < _OFTEN_MANY:
        rows = [g.random.choices(range(k), k=many) for _ in range(n)]
    indices = g.build.const(rows, row.operands[1])
    if name == "GATHER":
        g.emit(name, t, indices, bound=t.bound)
    else:
        source = g.random_const(t.dtype, (n, w, c), 100)
        g.emit(name, t, indices, source, bound=max(t.bound, 100))


@rule("reduction")
def _reduce(g: RandomBuilder, name: str) -> None:
    t, row = g.operand(name, (1, 2, 3, 4), bound=INT32_BOUND // 8)
    axis = g.random.randrange(len(t.shape))
    size = t.shape[axis]
    bound = {"sum": t.bound * size, "position": size}.get(operator(name).traits.response, t.bound)
    if t.dtype == "INT32" and bound > INT32_BOUND:
        raise NoOperandsError
    g.emit(name, t, axis=axis, bound=bound, dtype=row.results[0], **g.keywords(name, t.dtype))


@rule("matmul")
def _matmul(g: RandomBuilder, name: str) -> None:
    t, row = g.operand(name, (2, 3, 4) if g.is_scaled else (3,))
    *batches, _, c = t.shape
    width = g.random.randint(1, 6)
    if g.is_scaled:
        batches = _batches(g, batches)
    shape = (*batches, c, width) if name == "MATMUL" else (*batches, width, c)
    other = g.random_const(str(row.operands[1]), shape, 100)
    g.emit(
        name,
        t,
        other,
        dtype=row.results[0],
        bound=(t.bound + 128) * 228 * c,
        **g.zero_points(row, "a_zp", "b_zp"),
    )


def _batches(g: RandomBuilder, batches: Sequence[int]) -> list[int]:
    """Return batches that are broadcast with some others: fewer, more, or a single one."""
    fewer = batches[g.random.randint(0, len(batches)) :]
    wider = [size if g.random.random() < 0.5 else 1 for size in fewer]
    return wider if g.random.random() < 0.7 else [2, *(1,) * (len(batches) - len(wider)), *wider]


@rule("convolution")
def _convolution(g: RandomBuilder, name: str) -> None:
    rank = 5 if name == "CONV3D" else 4
    t, row = g.operand(name, (rank,), most=3 if rank == 5 else 6)
    c, axes = t.shape[-1], t.shape[1:-1]
    keywords: dict[str, Any] = {}
    if name == "TRANSPOSE_CONV2D":
        kernel = g.sizes(len(axes), 3)
        keywords["out_pad"] = [g.random.randint(1 - kernel[i // 2], 2) for i in range(4)]
        keywords["stride"] = g.sizes(len(axes), 2)
        if any(size < 1 for size in _transposed_sizes(axes, kernel, **keywords)):
            raise NoOperandsError
    else:
        windows = [_window(g, size, 2) for size in axes]
        kernel = tuple(window.kernel for window in windows)
        keywords = _keywords(windows) | {"dilation": [window.dilation for window in windows]}
    out = g.random.randint(1, 4)
    depthwise = name == "DEPTHWISE_CONV2D"
    shape = (*kernel, c, out) if depthwise else (out, *kernel, c)
    channels = c * out if depthwise else out
    g.emit(
        name,
        t,
        g.random_const(str(row.operands[1]), shape, 100),
        g.random_const(str(row.operands[2]), (g.random.choice((1, channels)),), 1000),
        local_bound=g.random.random() < 0.3,
        acc_type=row.attribute,
        dtype=row.results[0],
        bound=(t.bound + 128) * 228 * math.prod(kernel) * c + 1000,
        **g.zero_points(row, "input_zp", "weight_zp"),
        **keywords,
    )


def _transposed_sizes(
    sizes: Sequence[int], kernel: Sequence[int], out_pad: Sequence[int], stride: Sequence[int]
) -> list[int]:
    return [
        (size - 1) * stride[i] + out_pad[2 * i] + out_pad[2 * i + 1] + kernel[i]
        for i, size in enumerate(sizes)
    ]


class _Window(NamedTuple):
    kernel: int
    stride: int
    pad: tuple[int, int]
    dilation: int


def _window(g: RandomBuilder, size: int, most_dilation: int = 1) -> _Window:
    """Return a window whose last position ends where a padded axis ends; it is longer than a padding."""
    kernel, dilation = g.random.randint(1, 3), g.random.randint(1, most_dilation)
    pad = (g.random.randint(0, kernel - 1), g.random.randint(0, kernel - 1))
    rest = size + sum(pad) - (kernel - 1) * dilation - 1
    if rest < 0:
        return _Window(1, 1, (0, 0), 1)
    strides = [stride for stride in (1, 1, 2, 3) if rest % stride == 0]
    return _Window(kernel, g.random.choice(strides), pad, dilation)


def _keywords(windows: Sequence[_Window]) -> dict[str, Any]:
    return {
        "stride": [window.stride for window in windows],
        "pad": [size for window in windows for size in window.pad],
    }


@rule("fft")
def _fft(g: RandomBuilder, name: str) -> None:
    """Add a transform along dimensions whose sizes are powers of two."""
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


@rule("pool")
def _pool(g: RandomBuilder, name: str) -> None:
    t, row = g.operand(name, (4,))
    windows = [_window(g, size) for size in t.shape[1:3]]
    keywords = {"kernel": [window.kernel for window in windows], **_keywords(windows)}
    if name.endswith("ADAPTIVE"):
        keywords = {key: g.shape(sizes) for key, sizes in keywords.items()}
    if name.startswith("AVG"):
        keywords["acc_type"] = row.attribute
        keywords |= g.zero_points(row, "input_zp", "output_zp")
    # The difference of zero points is added.
    g.emit(name, t, bound=t.bound + 256, **keywords, **g.keywords(name, t.dtype))


@rule("RESIZE")
def _resize(g: RandomBuilder, name: str) -> None:
    t, row = g.operand(name, (4,))
    scale, offset, border = [], [], []
    for size in t.shape[1:3]:
        above, below = g.random.choice(_SCALES)
        scale += [above, below]
        offset.append(g.random.randint(-above, above))
        whole = (size - 1) * above - offset[-1]
        border.append(-(whole % below))
        if whole + border[-1] < 0:
            raise NoOperandsError
    mode = row.attribute
    weight = scale[0] * scale[2] if mode == "BILINEAR" else 1
    g.emit(
        name,
        t,
        *map(g.shape, (scale, offset, border)),
        mode=mode,
        dtype=row.results[0],
        bound=t.bound * weight,
    )


_SCALES: Final = ((1, 1), (2, 1), (4, 2), (3, 2), (2, 3), (1, 2), (8, 5))
_BLOCK: Final = 32
_SCALE: Final = "FP8UE8M0"
_DATA: Final = tuple(row.name for row in BLOCK_SCALED)
#: Types of which numbers are cast to blocks, and from them.
_BLOCKED: Final = tuple(
    dict.fromkeys(str(row.operands[0]) for row in rows(operator("CAST_TO_BLOCK_SCALED")))
)
_EXPONENTS: Final = (-3, 3)
Pair = tuple[Any, Any]


def _block_constants(g: RandomBuilder, element_type: str, shape: Sequence[int]) -> Pair:
    scales = (*shape[:-1], shape[-1] // _BLOCK)
    count = math.prod(shape)
    if element_type == "MXINT8":
        data: list[float] = [g.random.randint(-128, 127) for _ in range(count)]
    else:
        data = [g.random.choice(NUMBERS) for _ in range(count)]
    powers = [2.0 ** g.random.randint(*_EXPONENTS) for _ in range(math.prod(scales))]
    return (
        g.build.const(np.array(data).reshape(shape), dtype(element_type)),
        g.build.const(np.array(powers).reshape(scales), _SCALE),
    )


def block_pair(g: RandomBuilder, rank: int) -> Pair:
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
    data, scale = g.emit(name, *operands, **keywords)
    g.scaled.append((data, scale))


@rule("CAST_TO_BLOCK_SCALED")
def _cast_to(g: RandomBuilder, name: str) -> None:
    fitting = [t for t in g.tensors if t.dtype in _BLOCKED and t.shape and not t.shape[-1] % _BLOCK]
    if fitting and g.random.random() < 0.7:
        t = g.random.choice(fitting)
    else:
        sizes = [g.random.randint(1, 3) for _ in range(g.random.choice((0, 1, 1, 2)))]
        t = g.input(g.random.choice(_BLOCKED), (1, *sizes, _BLOCK))
    _emit_pair(g, name, t, dtype=g.random.choice(_DATA))


@rule("CAST_FROM_BLOCK_SCALED")
def _cast_from(g: RandomBuilder, name: str) -> None:
    data, scale = block_pair(g, g.random.randint(1, 4))
    g.emit(name, data, scale, dtype=g.random.choice(_BLOCKED))


@rule("MATMUL_T_BLOCK_SCALED")
def _matmul_of_blocks(g: RandomBuilder, name: str) -> None:
    data, scale = block_pair(g, 3)
    n, _, depth = data.shape
    g.emit(
        name, data, scale, *_block_constants(g, data.dtype.name, (n, g.random.randint(1, 4), depth))
    )


@rule("CONV2D_BLOCK_SCALED")
def _conv2d_of_blocks(g: RandomBuilder, name: str) -> None:
    data, scale = block_pair(g, 4)
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
    """Reshape blocks of 32 for data and scales, blocks of 1 for plain tensors."""
    if g.random.random() < 0.4:
        t, _ = g.operand(name)
        g.emit(name, t, g.shape(other_shape(g, t.count)), bound=t.bound)
        return
    data, scale = block_pair(g, 2)
    blocks = other_shape(g, math.prod(data.shape) // _BLOCK)
    _emit_pair(g, name, data, g.shape((*blocks[:-1], blocks[-1] * _BLOCK)), input_scale=scale)


@rule("row_gather")
def _row_gather(g: RandomBuilder, name: str) -> None:
    if name == "ROW_GATHER" or g.random.random() < 0.4:
        t, row = g.operand(name, (3,))
        indices, count = _rows(g, t.shape)
        g.emit(name, t, g.build.const(indices, row.operands[1]), count, bound=t.bound)
    else:
        data, scale = block_pair(g, 3)
        indices, count = _rows(g, data.shape)
        kinds = [kind for kind in ("INT32", "INT64") if kind in g.target.inputs(EVERY_TYPE)]
        if not kinds:
            raise NoOperandsError
        wanted = g.build.const(indices, g.random.choice(kinds))
        _emit_pair(g, name, data, wanted, count, values_scale=scale)


def _rows(g: RandomBuilder, shape: Sequence[int]) -> tuple[tuple[tuple[int, ...], ...], int]:
    """Return the indices of rows, and how many rows there are at each."""
    n, rows, _ = shape
    count, width = g.random.randint(1, rows), g.random.randint(1, 3)
    indices = [tuple(g.random.randint(0, rows - count) for _ in range(width)) for _ in range(n)]
    return tuple(indices), count


# -- operators on block-scaled tensors, which hold their scales; programs have them only if asked --

_rule = partial(rule, rules=SCALED_RULES)


@cache
def _held_rows(name: str) -> tuple[TypeRow, ...]:
    """Return the rows of an operator that have a block-scaled tensor."""
    return tuple(
        row
        for row in rows(operator(name))
        if any(isinstance(element, tuple) for element in (*row.operands, *row.results))
    )


def _row(g: RandomBuilder, name: str) -> TypeRow:
    known = [row for row in _held_rows(name) if g.target.has_row(row)]
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
    same = [t for t in g.held if (t.dtype, t.shape) == (element[0].name, sizes)]
    if same and g.random.random() < 0.5:
        return g.random.choice(same)
    if g.random.random() < 0.5:
        return g.add(g.build.input(g.name("input"), element[0], sizes, scaled=True), 0)
    data: list[float] = [g.random.choice(NUMBERS) for _ in range(math.prod(sizes))]
    blocks = (*sizes[:-1], sizes[-1] // _BLOCK)
    scales = [2.0 ** g.random.randint(-3, 3) for _ in range(math.prod(blocks))]
    numbers = np.array(data).reshape(sizes)
    return g.build.const(numbers, element[0], scales=np.array(scales).reshape(blocks))


@_rule("IDENTITY", "DIM", "REVERSE", "TRANSPOSE", "TILE", "RESHAPE", "SLICE", "CONCAT")
def _move(g: RandomBuilder, name: str) -> None:
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
def _gather_held(g: RandomBuilder, name: str) -> None:
    row, (n, k, c) = _row(g, name), _sizes(g, 3)
    count = g.random.randint(1, k)
    chosen = [g.random.sample(range(k), count) for _ in range(n)]
    values = _tensor(g, row.operands[0], (n, k, c))
    indices = g.build.const(chosen, dtype(str(row.operands[1])))
    if name == "SCATTER":
        g.emit(name, values, indices, _tensor(g, row.operands[2], (n, count, c)))
    else:
        g.emit(name, values, indices, *[1] * (name == "ROW_GATHER"))


@_rule("RESIZE")
def _resize_held(g: RandomBuilder, name: str) -> None:
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
def _matmul_held(g: RandomBuilder, name: str) -> None:
    row, (*batches, height, depth) = _row(g, name), _sizes(g, g.random.randint(2, 4))
    left = _tensor(g, row.operands[0], (*batches, height, depth))
    right = _tensor(g, row.operands[1], (*_batches(g, batches), g.random.randint(1, 3), depth))
    g.emit(name, left, right, dtype=row.results[0])


@_rule("CONV2D", "CONV3D", "TRANSPOSE_CONV2D")
def _convolution_held(g: RandomBuilder, name: str) -> None:
    row, image = _row(g, name), _sizes(g, 5 if name == "CONV3D" else 4)
    assert row.attribute is not None
    out, kernel = g.random.randint(1, 3), (1,) * (len(image) - 2)
    g.emit(
        name,
        _tensor(g, row.operands[0], image),
        _tensor(g, row.operands[1], (out, *kernel, image[-1])),
        g.random_const(str(row.operands[2]), (out,), 100),
        acc_type=row.attribute[1],
        dtype=row.results[0],
    )
