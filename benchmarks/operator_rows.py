"""Make the rows of `operators.py`: large tensors for each operator and element type."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

#: How many times as fast as the reference model: convolutions and products, and everything else.
PRODUCTS, OTHERS = 15.0, 3.0

#: Shapes of at least 1 MB: of images of convolutions, and of other images; the same with elements of 1
#: byte; of matrices.
IMAGE, POOLED = (1, 64, 64, 64), (1, 128, 128, 64)
BYTES = (1, 128, 128, 64)
LARGE: Final = (1, 256, 256, 32)

#: Builds the operator of a Builder and its inputs.
Make = Callable[..., Any]


class Row(NamedTuple):
    """Describe an operator to measure.

    inputs: the element type and the shape of each.
    limit: how many times as fast as the reference model it is to be; None for a figure alone.
    """

    operator: str
    about: str
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    make: Make
    limit: float | None = OTHERS

    @property
    def name(self) -> str:
        """Return the name by which --only chooses it."""
        return f"{self.operator} {self.about}"


def weight(dtype: str, *shape: int) -> Any:
    """Return random weights: integers of the whole range but its least, floating point around 0."""
    draw = np.random.default_rng(0)
    if dtype.startswith("INT"):
        return draw.integers(-127, 128, shape).astype(np.int8)
    return draw.normal(0, 0.1, shape).astype(np.float32)


def _convolutions() -> Iterator[Row]:
    for dtype in ("FP32", "INT8", "INT16", "FP16", "BF16"):
        yield from _products_of(dtype, PRODUCTS if dtype in ("FP32", "INT8") else None)


def _products_of(dtype: str, limit: float | None) -> Iterator[Row]:
    of_weight = "INT8" if dtype == "INT16" else dtype
    of_bias = {"INT8": "INT32", "INT16": "INT48"}.get(dtype, "FP32")
    points = (3, 0) if dtype == "INT8" else (None, None)
    image = ((dtype, BYTES if dtype == "INT8" else IMAGE),)
    options: Any = {} if of_weight == "INT8" else {"acc_type": "FP32", "dtype": dtype}

    def operands(b: Any, *shape: int, count: int = 0) -> tuple[Any, ...]:
        kind = of_bias if of_weight == "INT8" else dtype
        bias = np.zeros(count or shape[0], np.int64 if of_weight == "INT8" else np.float32)
        return b.const(weight(of_weight, *shape), of_weight), b.const(bias, kind), *points

    def window(size: int, stride: int) -> dict[str, Any]:
        pad = (size // 2,) * 4 if stride == 1 else (0, size // 2, 0, size // 2)
        return {"pad": pad, "stride": (stride, stride), **options}

    for size, stride in ((3, 1), (3, 2), (1, 1)):
        about = f"{dtype} {size}x{size}" + (" stride 2" if stride == 2 else "")

        def conv(b: Any, x: Any, size: int = size, stride: int = stride) -> Any:
            return b.conv2d(x, *operands(b, 64, size, size, 64), **window(size, stride))

        yield Row("CONV2D", about, image, conv, limit)

    def volume(b: Any, x: Any) -> Any:
        return b.conv3d(x, *operands(b, 16, 3, 3, 3, 16), pad=(1,) * 6, **options)

    yield Row("CONV3D", f"{dtype} 3x3x3", ((dtype, (1, 16, 64, 64, 16)),), volume, limit)
    for size, stride in ((3, 1), (3, 2), (5, 1)):
        about = f"{dtype} {size}x{size}" + (" stride 2" if stride == 2 else "")

        def depthwise(b: Any, x: Any, size: int = size, stride: int = stride) -> Any:
            channels = x.shape[-1]
            given = operands(b, size, size, channels, 1, count=channels)
            return b.depthwise_conv2d(x, *given, **window(size, stride))

        yield Row("DEPTHWISE_CONV2D", about, ((dtype, BYTES),), depthwise, limit)

    def transposed(b: Any, x: Any) -> Any:
        return b.transpose_conv2d(x, *operands(b, 16, 4, 4, 64), stride=(2, 2), **options)

    yield Row("TRANSPOSE_CONV2D", f"{dtype} 4x4 stride 2", image, transposed, limit)
    kind = {} if of_weight == "INT8" else {"dtype": "FP32"}
    for about, left, right in (
        ("1024x512x512", (1, 1024, 512), (1, 512, 512)),
        ("12 of 384x64x384", (12, 384, 64), (12, 64, 384)),
        ("8x2048x1024", (1, 8, 2048), (1, 2048, 1024)),
    ):
        product: Make = lambda b, x, y: b.matmul(x, y, *points, **kind)  # noqa: E731
        yield Row("MATMUL", f"{dtype} {about}", ((dtype, left), (dtype, right)), product, limit)


def _elementwise() -> Iterator[Row]:
    def plain(name: str, kinds: str, count: int) -> Iterator[Row]:
        for dtype in kinds.split():
            make = lambda b, *values, f=name: getattr(b, f.lower())(*values)  # noqa: E731
            yield Row(name, dtype, ((dtype, LARGE),) * count, make)

    floats = "FP32 FP16 BF16"
    for name in ("ADD", "SUB"):
        yield from plain(name, "FP32 INT32 FP16 BF16", 2)
    for name in ("MAXIMUM", "MINIMUM", "EQUAL", "GREATER", "GREATER_EQUAL"):
        yield from plain(name, "FP32 INT32 FP16", 2)
    yield from plain("MUL", "FP32 INT8 INT16 INT32 FP16 BF16", 2)
    shifted = lambda b, x, y: b.mul(x, y, shift=7)  # noqa: E731
    yield Row("MUL", "INT32 shift 7", (("INT32", LARGE),) * 2, shifted)
    yield from plain("INTDIV", "INT32", 2)
    yield from plain("POW", floats, 2)
    for name in ("BITWISE_AND", "BITWISE_OR", "BITWISE_XOR"):
        yield from plain(name, "INT8 INT32", 2)
    for name in ("LOGICAL_LEFT_SHIFT", "LOGICAL_RIGHT_SHIFT"):
        yield from plain(name, "INT8 INT32", 2)
    for dtype in ("INT8", "INT32"):
        make: Make = lambda b, x, y: b.arithmetic_right_shift(x, y, round=True)  # noqa: E731
        yield Row("ARITHMETIC_RIGHT_SHIFT", dtype, ((dtype, LARGE),) * 2, make)
    for name in ("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_XOR"):
        yield from plain(name, "BOOL", 2)
    yield from plain("ABS", "FP32 INT32 FP16", 1)
    yield from plain("NEGATE", "FP32 INT8 INT32", 1)
    yield from plain("BITWISE_NOT", "INT8 INT32", 1)
    yield from plain("CLZ", "INT32", 1)
    yield from plain("LOGICAL_NOT", "BOOL", 1)
    for name in ("CEIL", "FLOOR", "RECIPROCAL", "RSQRT", "EXP", "LOG", "SIN", "COS"):
        yield from plain(name, floats, 1)
    for name in ("ERF", "SIGMOID", "TANH"):
        yield from plain(name, floats, 1)
    row = (1, 1, 1, LARGE[-1])
    for dtype in ("FP32", "INT32"):
        added: Make = lambda b, x, y: b.add(x, y)  # noqa: E731
        yield Row("ADD", f"{dtype} broadcast", ((dtype, LARGE), (dtype, row)), added)
    for dtype, low, high in (("FP32", 0.0, 0.5), ("INT8", -20, 90), ("INT16", 0, 9)):
        make = lambda b, x, low=low, high=high: b.clamp(x, min_val=low, max_val=high)  # noqa: E731
        yield Row("CLAMP", dtype, ((dtype, LARGE),), make)
    for dtype in ("FP32", "INT8", "INT32"):
        chosen = (("BOOL", LARGE), (dtype, LARGE), (dtype, LARGE))
        yield Row("SELECT", dtype, chosen, lambda b, c, x, y: b.select(c, x, y))


def _reductions() -> Iterator[Row]:
    for name, kinds in (
        ("REDUCE_SUM", "FP32 INT32 FP16"),
        ("REDUCE_MAX", "FP32 INT8 INT32"),
        ("REDUCE_MIN", "FP32 INT8"),
        ("REDUCE_PRODUCT", "FP32"),
        ("REDUCE_ALL", "BOOL"),
        ("REDUCE_ANY", "BOOL"),
        ("ARGMAX", "FP32 INT8"),
    ):
        for dtype in kinds.split():
            for axis in (1, 3):

                def make(b: Any, x: Any, name: str = name, axis: int = axis) -> Any:
                    kind = {"dtype": "INT32"} if name == "ARGMAX" else {}
                    return getattr(b, name.lower())(x, axis=axis, **kind)

                yield Row(name, f"{dtype} axis {axis}", ((dtype, LARGE),), make)
    # The time of the reference model grows with the square of the pixels.
    images = ("FP32", (256, 32, 32))
    both: Make = lambda b, x, y: b.fft2d(x, y)[0]  # noqa: E731
    yield Row("FFT2D", "FP32 256 of 32x32", (images, images), both)
    yield Row("RFFT2D", "FP32 256 of 32x32", (images,), lambda b, x: b.rfft2d(x)[0])


def _windows() -> Iterator[Row]:
    for dtype in ("FP32", "INT8", "INT16", "FP16"):
        for size, stride in ((2, 2), (3, 1)):
            about = f"{dtype} {size}x{size} stride {stride}"
            options = {
                "kernel": (size, size),
                "stride": (stride, stride),
                "pad": (size // 2,) * 4 if stride == 1 else (0, 0, 0, 0),
            }
            largest: Make = lambda b, x, o=options: b.max_pool2d(x, **o)  # noqa: E731
            wide = {"acc_type": "FP32"} if dtype == "FP16" else {}
            mean: Make = lambda b, x, o={**options, **wide}: b.avg_pool2d(x, **o)  # noqa: E731
            yield Row("MAX_POOL2D", about, ((dtype, POOLED),), largest)
            yield Row("AVG_POOL2D", about, ((dtype, POOLED),), mean)
    for dtype, result in (("FP32", "FP32"), ("INT8", "INT32"), ("FP16", "FP16")):
        for mode in ("NEAREST", "BILINEAR"):
            shown = result if mode == "BILINEAR" else dtype

            def resize(b: Any, x: Any, mode: str = mode, dtype: str = shown) -> Any:
                scales = (4, 2, 4, 2)
                return b.resize(x, scales, (0, 0), (2, 2), mode=mode, dtype=dtype)

            yield Row("RESIZE", f"{dtype} {mode}", ((dtype, POOLED),), resize)


def _conversions() -> Iterator[Row]:
    for pair in (
        *("FP32 INT8", "FP32 INT32", "FP32 FP16", "FP32 BF16", "FP16 FP32", "BF16 FP32"),
        *("INT8 FP32", "INT32 FP32", "INT32 INT8", "INT8 INT32", "INT32 INT16", "BOOL INT8"),
        *("INT8 BOOL", "FP32 FP8E4M3", "FP8E4M3 FP32"),
    ):
        source, target = pair.split()
        cast: Make = lambda b, x, t=target: b.cast(x, dtype=t)  # noqa: E731
        yield Row("CAST", f"{source} to {target}", ((source, LARGE),), cast)
    for pair in ("INT8 INT8", "INT32 INT8", "INT8 INT32", "INT16 INT16", "INT32 INT16"):
        source, target = pair.split()
        for channels in (False, True):

            def rescale(b: Any, x: Any, target: str = target, channels: bool = channels) -> Any:
                count = x.shape[-1] if channels else 1
                return b.rescale(
                    x,
                    b.const(np.full(count, 1 << 30, np.int32)),
                    b.const(np.full(count, 38, np.int8)),
                    rounding_mode="SINGLE_ROUND",
                    per_channel=channels,
                    dtype=target,
                )

            about = f"{source} to {target}" + (" per channel" if channels else "")
            yield Row("RESCALE", about, ((source, LARGE),), rescale)
    doubled = lambda b, x: b.rescale(  # noqa: E731
        x,
        b.const(np.array([1 << 30], np.int32)),
        b.const(np.array([38], np.int8)),
        rounding_mode="DOUBLE_ROUND",
        dtype="INT8",
    )
    yield Row("RESCALE", "INT32 to INT8 double round", (("INT32", LARGE),), doubled)
    entries = {"INT8": np.arange(-128, 128).astype(np.int8)}
    entries["INT16"] = np.linspace(-30000, 30000, 513).astype(np.int16)
    for dtype, table in entries.items():
        make: Make = lambda b, x, t=table: b.table(x, b.const(t))  # noqa: E731
        yield Row("TABLE", dtype, ((dtype, LARGE),), make)


def _movement() -> Iterator[Row]:
    rows, channels = 4096, 512
    for dtype in ("FP32", "INT8"):
        one, two = ((dtype, LARGE),), ((dtype, LARGE),) * 2
        yield Row("CONCAT", f"{dtype} axis 1", two, lambda b, x, y: b.concat([x, y], axis=1))
        yield Row("CONCAT", f"{dtype} axis 3", two, lambda b, x, y: b.concat([x, y], axis=3))
        yield Row("PAD", dtype, one, lambda b, x: b.pad(x, (0, 0, 1, 1, 1, 1, 0, 0)))
        yield Row("SLICE", dtype, one, lambda b, x: b.slice(x, (0, 8, 8, 8), (1, 240, 240, 16)))
        yield Row("TILE", dtype, one, lambda b, x: b.tile(x, (1, 2, 1, 2)))
        for perms in ((0, 3, 1, 2), (0, 2, 1, 3)):
            turned: Make = lambda b, x, p=perms: b.transpose(x, perms=p)  # noqa: E731
            yield Row("TRANSPOSE", f"{dtype} {perms}", one, turned)
        for axis in (1, 3):
            reverse: Make = lambda b, x, axis=axis: b.reverse(x, axis=axis)  # noqa: E731
            yield Row("REVERSE", f"{dtype} axis {axis}", one, reverse)
        yield Row("RESHAPE", dtype, one, lambda b, x: b.reshape(x, (256, 256, 32)))
        yield Row("IDENTITY", dtype, one, lambda b, x: b.identity(x))
        values = (dtype, (1, rows, channels))
        indices = np.random.default_rng(0).permutation(rows).astype(np.int32)[None]
        gather: Make = lambda b, x, i=indices: b.gather(x, b.const(i))  # noqa: E731
        scatter: Make = lambda b, x, y, i=indices: b.scatter(x, b.const(i), y)  # noqa: E731
        yield Row("GATHER", dtype, (values,), gather)
        yield Row("SCATTER", dtype, (values, values), scatter)


def rows() -> list[Row]:
    """Return all rows, products first."""
    families = (_convolutions, _elementwise, _windows, _conversions, _reductions, _movement)
    return [row for family in families for row in family()]
