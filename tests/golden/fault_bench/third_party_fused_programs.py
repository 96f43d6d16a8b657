"""Small programs of what compilers fuse, rewrite and split: residual blocks, views, rotations."""

from __future__ import annotations

from typing import Any

import numpy as np
from golden.fault_bench.third_party_float_programs import finished, product, weights
from golden.fault_bench.third_party_support import limits

from tosa_convert.builder import Builder, DTypeName
from tosa_convert.graph import Graph, dtype


def residual(element: DTypeName) -> Graph:
    """Build a residual block of two convolutions, with a strided projection beside them."""
    b = Builder("residual")
    x = b.input("x", element, (2, 7, 7, 4))

    def convolution(x: Any, seed: int, size: int, stride: int) -> Any:
        weight, bias = weights(element, seed, 4, size, size, 4), weights(element, seed + 1, 4)
        pad, steps = (size // 2,) * 4, (stride, stride)
        return b.conv2d(x, weight, bias, pad=pad, stride=steps, acc_type="FP32")

    y = b.mul(convolution(x, 100, 3, 1), weights(element, 102, 1, 1, 1, 4, scale=1.0))
    y = b.clamp(b.add(y, weights(element, 103, 1, 1, 1, 4)), min_val=0.0, max_val=6.0)
    y = b.add(convolution(y, 104, 3, 2), convolution(x, 106, 1, 2))
    b.output(b.clamp(y, min_val=0.0, max_val=6.0), name="y")
    return finished(b)


def padded(element: DTypeName) -> Graph:
    """Build paddings on their own before poolings and before a convolution."""
    b = Builder("padded")
    x = b.input("x", element, (1, 5, 6, 3))
    y = b.pad(x, (0, 0, 1, 0, 0, 1, 0, 0), np.zeros(1, dtype(element).numpy))
    b.output(b.max_pool2d(y, kernel=(2, 2), stride=(1, 1)), name="greatest")
    b.output(b.avg_pool2d(y, kernel=(2, 2), stride=(1, 1), acc_type="FP32"), name="mean")
    y = b.pad(x, (0, 0, 1, 1, 1, 1, 0, 0), np.full(1, -1, dtype(element).numpy))
    y = b.conv2d(y, weights(element, 110, 4, 3, 3, 3), weights(element, 111, 4), acc_type="FP32")
    b.output(y, name="y")
    return finished(b)


def views(element: DTypeName) -> Graph:
    """Build depth to space, and transposes before one another, a sum and a concatenation."""
    b = Builder("views")
    x, square = b.input("x", element, (1, 4, 4, 8)), b.input("square", element, (1, 4, 4, 4))
    y = b.transpose(b.reshape(x, (1, 4, 4, 2, 2, 2)), perms=(0, 1, 3, 2, 4, 5))
    b.output(b.reshape(y, (1, 8, 8, 2)), name="image")
    y = b.transpose(b.transpose(square, perms=(0, 3, 1, 2)), perms=(0, 2, 1, 3))
    b.output(y, name="turned")
    b.output(b.reduce_sum(b.transpose(b.abs(y), perms=(0, 2, 3, 1)), axis=3), name="sums")
    sides = [b.transpose(v, perms=(0, 2, 1, 3)) for v in (square, b.mul(square, 0.5))]
    b.output(b.concat(sides, axis=1), name="both")
    return finished(b)


def rotary(element: DTypeName) -> Graph:
    """Build scores of queries whose positions are rotated, from operands that are packed together."""
    b = Builder("rotary")
    packed = b.concat([b.input(name, element, (1, 4, 8)) for name in ("q", "k")], axis=1)
    q, k = (b.slice(packed, (0, start, 0), (1, 4, 8)) for start in (0, 4))
    first, second = (b.slice(q, (0, 0, start), (1, 4, 4)) for start in (0, 4))
    angle = np.arange(4)[:, None] * 0.5 ** np.tile(np.arange(4), 2)
    turn, side = (f(angle)[None].astype(dtype(element).numpy) for f in (np.cos, np.sin))
    q = b.add(b.mul(q, turn), b.mul(b.concat([b.negate(second), first], axis=2), side))
    b.output(product(b, element, q, b.transpose(k, perms=(0, 2, 1))), name="scores")
    return finished(b)


def rounded(element: DTypeName) -> Graph:
    """Build roundings by a conversion and by a large constant, and two limits one after the other."""
    b = Builder("rounded")
    x = b.input("x", element, (4, 12))
    large = 1.5 * 2.0 ** int(limits(dtype(element).numpy).nmant)
    coarse = b.cast(b.cast(b.mul(x, 8.0), dtype="INT8"), dtype=element)
    b.output(b.mul(coarse, 0.125), name="coarse")
    b.output(b.sub(b.add(b.mul(x, 4.0), large), large), name="whole")
    positive = b.clamp(b.add(x, 1.0), min_val=0.0, max_val=1e4)
    b.output(b.mul(x, b.clamp(positive, min_val=-1e4, max_val=2.0)), name="gated")
    b.output(b.reciprocal(b.rsqrt(positive)), name="root")
    return finished(b)


def costs(element: DTypeName) -> Graph:
    """Build a loss that weighs both signs of a difference, its least of each row, and a product."""
    b = Builder("costs")
    x, y = (b.input(name, element, (2, 6, 5)) for name in ("x", "y"))
    d = b.add(b.mul(b.maximum(b.sub(x, y), 0.0), 2.0), b.maximum(b.sub(y, x), 0.0))
    b.output(d, name="loss")
    b.output(b.reduce_max(b.mul(d, -0.5), axis=2), name="gain")
    b.output(b.reduce_product(b.add(x, 0.5), axis=2), name="product")
    return finished(b)


def volume(element: DTypeName) -> Graph:
    """Build a convolution over the frames of a film, and the sum of the frames."""
    b = Builder("volume")
    x = b.input("x", element, (1, 5, 4, 4, 2))
    weight, bias = weights(element, 120, 3, 3, 2, 2, 2), weights(element, 121, 3)
    y = b.conv3d(x, weight, bias, pad=(1, 1, 0, 1, 0, 1), stride=(2, 1, 1), acc_type="FP32")
    b.output(b.reduce_sum(b.clamp(y, min_val=-2.0, max_val=6.0), axis=1), name="y")
    return finished(b)


def ignoring_nan(element: DTypeName) -> Graph:
    """Build maxima that pass over NaN."""
    b = Builder("ignoring_nan")
    x = b.input("x", element, (1, 5, 5, 6))
    b.output(b.maximum(x, 0.25, nan_mode="IGNORE"), name="positive")
    b.output(b.reduce_max(x, axis=3, nan_mode="IGNORE"), name="most")
    y = b.max_pool2d(x, kernel=(2, 2), stride=(1, 1), nan_mode="IGNORE")
    b.output(b.clamp(y, min_val=-2.0, max_val=2.0, nan_mode="IGNORE"), name="pooled")
    return finished(b)


def upsampled(element: DTypeName) -> Graph:
    """Build a bilinear resize by 7/3 whose corners are aligned."""
    b = Builder("upsampled")
    x = b.input("x", element, (1, 4, 4, 2))
    y = b.resize(x, (7, 3, 7, 3), (0, 0), (0, 0), mode="BILINEAR")
    b.output(b.mul(y, 0.5), name="y")
    return finished(b)


def two_tables() -> Graph:
    """Build two activations by tables that begin with the same entries."""
    b = Builder("two_tables")
    x = b.input("x", "INT8", (2, 30))
    codes = np.arange(-128, 128)
    steep, flat = (np.clip(codes * k, -90, 90).astype(np.int8) for k in (2, 1))
    y = b.add(b.cast(b.table(x, steep), dtype="INT32"), b.cast(b.table(x, flat), dtype="INT32"))
    b.output(y, name="y")
    return finished(b)
