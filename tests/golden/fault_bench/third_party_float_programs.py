"""Small floating-point programs as networks have them: blocks, attention, recurrent cells, detection."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from golden.fault_bench.fault import TARGET

from tosa_convert.builder import Builder, DTypeName
from tosa_convert.graph import Graph, dtype


def finished(b: Builder) -> Graph:
    """Return the program; each operator has the location `place(its name)`."""
    graph = b.graph()
    for _, block in graph.blocks():
        block.operators[:] = [
            op if op.location == TARGET else replace(op, location=place(op.spec.name))
            for op in block.operators
        ]
    return graph


def place(name: str) -> str:
    """Return the location of the operators of a name."""
    return f'loc("{name}")'


def weights(element: str, seed: int, *shape: int, scale: float = 0.5) -> Any:
    """Return random numbers of an element type."""
    found = np.random.default_rng(seed).normal(size=shape) * scale
    return found.astype(dtype(element).numpy)


def product(b: Builder, element: DTypeName, left: Any, right: Any) -> Any:
    """Return a product of matrices that is added in FP32 and rounded to the element type."""
    found = b.matmul(left, right, dtype="FP32")
    return found if element == "FP32" else b.cast(found, dtype=element)


def softmax(b: Builder, x: Any) -> Any:
    """Return the softmax along the last axis."""
    axis = len(x.shape) - 1
    exponents = b.exp(b.sub(x, b.reduce_max(x, axis=axis)))
    return b.mul(exponents, b.reciprocal(b.reduce_sum(exponents, axis=axis)))


def conv_block(element: DTypeName) -> Graph:
    """Build a strided convolution, a scale for each channel, ReLU6, pooling and a classifier."""
    b = Builder("conv_block")
    x = b.input("x", element, (2, 7, 8, 4))
    y = b.conv2d(
        x,
        weights(element, 1, 8, 3, 3, 4),
        weights(element, 2, 8),
        pad=(1, 1, 0, 1),
        stride=(2, 2),
        acc_type="FP32",
    )
    y = b.add(b.mul(y, weights(element, 3, 1, 1, 1, 8, scale=1.0)), weights(element, 4, 1, 1, 1, 8))
    y = b.clamp(y, min_val=-0.5, max_val=6.0)
    y = b.depthwise_conv2d(
        y,
        weights(element, 5, 3, 3, 8, 2),
        weights(element, 6, 16),
        pad=(1, 1, 2, 2),
        dilation=(1, 2),
        acc_type="FP32",
    )
    b.output(b.max_pool2d(y, kernel=(2, 2), stride=(2, 2)), name="features")
    y = b.avg_pool2d(y, kernel=(3, 3), stride=(1, 1), pad=(1, 1, 1, 1), acc_type="FP32")
    y = b.mul(b.reduce_sum(b.reduce_sum(y, axis=1), axis=2), 1 / 16)
    y = product(b, element, b.reshape(y, (1, 2, 16)), weights(element, 7, 1, 16, 5))
    b.output(b.add(y, weights(element, 8, 1, 1, 5)), name="scores")
    return finished(b)


def attention(element: DTypeName) -> Graph:
    """Build an attention of 6 queries to 7 keys, with a residual."""
    b = Builder("attention")
    q, k, v = (b.input(n, element, (2, count, 8)) for n, count in (("q", 6), ("k", 7), ("v", 7)))
    scores = product(b, element, q, b.transpose(k, perms=(0, 2, 1)))
    share = softmax(b, b.mul(scores, 0.35))
    y = b.add(product(b, element, share, v), q)
    y = product(b, element, y, np.broadcast_to(weights(element, 11, 1, 8, 8), (2, 8, 8)).copy())
    b.output(y, name="y")
    return finished(b)


def lstm(element: DTypeName) -> Graph:
    """Build an LSTM cell whose states are variables."""
    b = Builder("lstm")
    x = b.input("x", element, (1, 2, 6))
    hidden = b.variable("hidden", element, (1, 2, 4), initial=weights(element, 20, 1, 2, 4))
    cell = b.variable("cell", element, (1, 2, 4), initial=weights(element, 21, 1, 2, 4))
    joined = b.concat([x, b.read(hidden)], axis=2)
    gates = b.add(
        product(b, element, joined, weights(element, 22, 1, 10, 16)), weights(element, 23, 1, 1, 16)
    )
    i, f, g, o = (b.slice(gates, (0, 0, 4 * n), (1, 2, 4)) for n in range(4))
    kept = b.mul(b.sigmoid(f), b.read(cell))
    c = b.add(kept, b.mul(b.sigmoid(i), b.tanh(g)))
    b.write(cell, c)
    h = b.mul(b.sigmoid(o), b.tanh(c))
    b.write(hidden, h)
    b.output(b.add(b.read(hidden), b.read(cell)), name="sum")
    b.output(h, name="h")
    return finished(b)


def layer_norm(element: DTypeName) -> Graph:
    """Build a layer norm, GELU by the error function, and a projection."""
    b = Builder("layer_norm")
    x = b.input("x", element, (4, 12))
    mean = b.mul(b.reduce_sum(x, axis=1), 1 / 12)
    centred = b.sub(x, mean)
    variance = b.mul(b.reduce_sum(b.mul(centred, centred), axis=1), 1 / 12)
    y = b.mul(centred, b.rsqrt(b.add(variance, 1e-3)))
    y = b.add(b.mul(y, weights(element, 30, 1, 12, scale=1.0)), weights(element, 31, 1, 12))
    y = b.mul(b.mul(y, 0.5), b.add(b.erf(b.mul(y, 0.7071)), 1.0))
    y = product(b, element, b.reshape(y, (1, 4, 12)), weights(element, 32, 1, 12, 6))
    b.output(y, name="y")
    return finished(b)


def classifier(element: DTypeName) -> Graph:
    """Build a softmax, the best class of each row, and the embedding of that class."""
    b = Builder("classifier")
    x = b.input("x", element, (1, 5, 8))
    logits = product(
        b, element, b.clamp(x, min_val=-8.0, max_val=8.0), weights(element, 40, 1, 8, 9)
    )
    share = softmax(b, logits)
    best = b.argmax(share, axis=2, dtype="INT32")
    b.output(b.gather(weights(element, 41, 1, 9, 4), best), name="embedding")
    b.output(best, name="best")
    b.output(b.reduce_max(share, axis=2), name="share")
    return finished(b)


def detector(element: DTypeName) -> Graph:
    """Build a detection head: scores, the class of each box, and boxes above a threshold."""
    b = Builder("detector")
    x = b.input("scores", element, (2, 6, 5))
    boxes = b.input("boxes", element, (2, 6, 4))
    x = b.clamp(x, min_val=-4.0, max_val=4.0)
    best, top = b.argmax(x, axis=2, dtype="INT32"), b.reduce_max(x, axis=2)
    kept = b.greater_equal(top, 0.5)
    b.output(b.select(kept, boxes, np.zeros((1, 1, 1), dtype(element).numpy)), name="kept")
    b.output(best, name="class")
    first = b.argmax(b.reshape(top, (2, 6)), axis=1, dtype="INT32")
    b.output(b.gather(boxes, b.reshape(first, (2, 1))), name="box")
    b.output(b.reduce_any(b.reshape(kept, (2, 6)), axis=1), name="any")
    b.output(b.logical_not(b.equal(top, b.reduce_max(top, axis=1))), name="others")
    return finished(b)


def parts(element: DTypeName) -> Graph:
    """Build sums over a concatenation of parts of different magnitude."""
    b = Builder("parts")
    x = b.input("x", element, (1, 4, 24))
    small = b.mul(x, 0.001)
    large = b.mul(b.abs(x), 30.0)
    joined = b.concat([large, small, x], axis=2)
    b.output(b.sub(b.reduce_sum(joined, axis=2), b.reduce_sum(large, axis=2)), name="difference")
    b.output(product(b, element, joined, weights(element, 50, 1, 72, 3)), name="product")
    b.output(b.reduce_min(b.reduce_max(joined, axis=2), axis=1), name="limits")
    return finished(b)


def decoder(element: DTypeName) -> Graph:
    """Build an upsampling decoder: resizes, a transposed convolution and a skip connection."""
    b = Builder("decoder")
    x = b.input("x", element, (1, 4, 5, 3))
    skip = b.input("skip", element, (1, 8, 10, 2))
    wide = b.resize(x, (4, 2, 4, 2), (-1, -1), (1, 1), mode="BILINEAR")
    near = b.resize(x, (4, 2, 4, 2), (0, 0), (2, 2), mode="NEAREST")
    y = b.transpose_conv2d(
        x,
        weights(element, 60, 4, 3, 3, 3),
        weights(element, 61, 4),
        stride=(2, 2),
        out_pad=(-1, 0, 0, -1),
        acc_type="FP32",
    )
    y = b.concat([wide, b.add(near, 0.25), skip, y], axis=3)
    weight = weights(element, 62, 3, 3, 3, 12, scale=0.2)
    y = b.conv2d(y, weight, weights(element, 63, 3), pad=(1, 1, 1, 1), acc_type="FP32")
    b.output(b.tanh(y), name="y")
    return finished(b)


def activations(element: DTypeName) -> Graph:
    """Build activations and encodings: SiLU, softplus, powers, sines of positions."""
    b = Builder("activations")
    x = b.input("x", element, (3, 16))
    silu = b.mul(x, b.sigmoid(x))
    softplus = b.log(b.add(b.exp(b.minimum(x, 5.0)), 1.0))
    power = b.pow(b.add(softplus, 0.125), b.const(np.full((1, 1), 1.7, dtype(element).numpy)))
    angle = b.mul(b.cast(np.arange(16, dtype=np.int32).reshape(1, 16), dtype=element), 0.375)
    position = b.add(b.sin(angle), b.cos(b.add(angle, 1.0)))
    y = b.concat([silu, softplus, power, b.add(b.tanh(x), position)], axis=0)
    y = b.maximum(y, b.negate(y))
    b.output(b.reciprocal(b.add(y, 1.0)), name="y")
    b.output(b.erf(x), name="erf")
    return finished(b)


def quantiser(element: DTypeName) -> Graph:
    """Build a quantisation of floating point to INT8, a table, and back."""
    b = Builder("quantiser")
    x = b.input("x", element, (3, 20))
    q = b.cast(b.add(b.mul(x, 16.0), 3.0), dtype="INT8")
    table = np.roll(np.arange(-128, 128), 5).astype(np.int8)
    y = b.cast(b.table(q, table), dtype=element)
    y = b.mul(b.sub(y, 3.0), 0.0625)
    b.output(b.add(y, b.sub(b.ceil(x), b.floor(b.mul(x, 2.0)))), name="y")
    return finished(b)


def newton(element: DTypeName) -> Graph:
    """Build a square root by Newton's iteration in a loop, which a branch scales."""
    b = Builder("newton")
    x = b.input("x", element, (1, 6))
    x = b.add(b.abs(x), 0.5)
    count = b.const(np.zeros((), np.int32))
    half = np.full((1, 1), 0.5, dtype(element).numpy)
    _, _, root, last = b.while_loop(
        [count, x, x, x],
        lambda b, n, a, r, p: b.greater(3, n),
        lambda b, n, a, r, p: (
            b.add(n, 1),
            b.identity(a),
            b.mul(b.add(r, b.mul(a, b.reciprocal(r))), half),
            b.identity(r),
        ),
    )
    step = b.sub(last, root)
    largest = b.reduce_max(b.abs(step), axis=1)
    (y,) = b.cond_if(
        b.reshape(b.greater(largest, 0.5), ()),
        [root, step],
        lambda b, r, s: b.sub(r, b.mul(s, half)),
        lambda b, r, s: b.add(r, s),
    )
    b.output(y, name="y")
    return finished(b)


def layout(element: DTypeName) -> Graph:
    """Build changes of layout: window partition, padding, tiles and a reversed sequence."""
    b = Builder("layout")
    x = b.input("x", element, (2, 4, 6, 3))
    y = b.reshape(x, (2, 2, 2, 18))
    y = b.transpose(y, perms=(0, 2, 3, 1))
    y = b.reshape(
        b.transpose(b.slice(y, (0, 0, 1, 0), (2, 2, 16, 2)), perms=(3, 0, 1, 2)), (2, 4, 16)
    )
    y = b.reverse(b.concat([y, b.reverse(y, axis=2)], axis=1), axis=1)
    constant = np.ones((), dtype(element).numpy)
    y = b.pad(y, (0, 0, 2, 0, 2, 1), b.reshape(constant, (1,)))
    index = np.array([[9, 0, 3, 3], [8, 1, 0, 9]], np.int32)
    y = b.gather(y, index)
    rows = b.slice(y, (0, 1, 2), (2, 3, 16))
    y = b.scatter(rows, np.array([[2, 0], [0, 1]], np.int32), b.slice(y, (0, 0, 0), (2, 2, 16)))
    b.output(b.tile(y, (1, 2, 1)), name="y")
    return finished(b)


def spectrum(element: DTypeName) -> Graph:
    """Build the power spectrum of a windowed frame, and its inverse."""
    b = Builder("spectrum")
    x = b.input("x", element, (1, 4, 8))
    real, imag = b.rfft2d(x)
    b.output(b.log(b.add(b.add(b.mul(real, real), b.mul(imag, imag)), 1.0)), name="power")
    both = b.fft2d(b.mul(x, 0.5), x, inverse=True)
    b.output(b.add(both[0], b.mul(both[1], 0.25)), name="inverse")
    return finished(b)


def merges(element: DTypeName) -> Graph:
    """Build an addition along each of two axes of one size, as of a bias and of a position."""
    b = Builder("merges")
    x = b.input("x", element, (2, 5, 5))
    rows = b.input("rows", element, (1, 5, 1))
    y = b.add(x, rows)
    y = b.mul(y, weights(element, 70, 1, 1, 5, scale=1.0))
    y = b.select(b.greater(y, rows), y, b.mul(y, 0.1))
    kept = b.clamp(y, min_val=-0.5, max_val=0.5)
    b.output(b.add(b.sub(y, kept), b.minimum(y, rows)), name="y")
    return finished(b)


def clipping(element: DTypeName) -> Graph:
    """Build a clipping to limits that are data, a gate, and the extremes of each row."""
    b = Builder("clipping")
    x, low, high = (b.input(name, element, (1, 6, 5)) for name in ("x", "low", "high"))
    y = b.minimum(b.maximum(x, low), b.mul(high, 1.5))
    b.output(b.clamp(y, min_val=-1.5, max_val=1.5), name="y")
    b.output(b.select(b.greater(x, low), b.mul(high, 2.0), 0.25), name="gate")
    b.output(b.sub(b.reduce_max(y, axis=2), b.reduce_min(b.mul(x, 0.5), axis=2)), name="range")
    return finished(b)


def signed_zeros(element: DTypeName) -> Graph:
    """Build a gate of reciprocals, in which -0 comes from a product."""
    b = Builder("signed_zeros")
    x = b.input("x", element, (3, 12))
    y = b.clamp(b.reciprocal(b.mul(x, 0.5)), min_val=-9.0, max_val=9.0)
    b.output(b.add(y, b.reduce_sum(b.abs(x), axis=1)), name="y")
    return finished(b)


def counted(element: DTypeName) -> Graph:
    """Build a quantisation whose integers are added."""
    b = Builder("counted")
    x = b.input("x", element, (4, 6))
    y = b.cast(b.mul(b.clamp(x, min_val=-3.0, max_val=3.0), 4.0), dtype="INT16")
    b.output(b.reduce_sum(b.cast(y, dtype="INT32"), axis=1), name="y")
    return finished(b)


def mixed(element: DTypeName) -> Graph:
    """Build a dense layer of mixed precision, whose sums and bias are FP32."""
    b = Builder("mixed")
    x = b.input("x", element, (1, 3, 64))
    y = b.matmul(x, weights(element, 75, 1, 64, 5), dtype="FP32")
    y = b.add(y, weights("FP32", 76, 1, 1, 5))
    b.output(b.sub(y, b.reduce_max(y, axis=2)), name="y")
    return finished(b)
