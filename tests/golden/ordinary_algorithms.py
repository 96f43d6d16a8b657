"""Programs as ordinary libraries compute them: other algorithms than sums of products in some order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from tosa_convert.builder import Builder
from tosa_convert.golden.arrays import Array
from tosa_convert.graph import Graph

Product = Callable[[Array, Array], Array]
#: Returns the outputs of a program for its inputs.
Answer = Callable[[Mapping[str, Array]], dict[str, Array]]
#: Its stub of numpy 2.1 takes one axis.
_windows: Any = np.lib.stride_tricks.sliding_window_view
_DRAW = np.random.default_rng(11)
_KERNEL: Final = _DRAW.normal(0, 0.2, (2, 8, 3, 3, 8)).astype(np.float32)
_WEIGHT: Final = _DRAW.normal(0, 0.1, (2, 64, 64)).astype(np.float32)


# -- products of matrices ------------------------------------------------------------------------------


def in_tiles(size: int) -> Product:
    """Return a product whose terms are added in tiles."""

    def multiply(a: Array, b: Array) -> Array:
        total: Array = a[:, :size] @ b[:size]
        for k in range(size, a.shape[1], size):
            total = total + a[:, k : k + size] @ b[k : k + size]
        return total

    return multiply


def _upper(array: Array, bits: int = 13) -> Array:
    """Return numbers with the fraction of TF32."""
    codes = array.view(np.uint32)
    half = np.uint32(1 << (bits - 1))
    return ((codes + half) & np.uint32(0xFFFFFFFF << bits & 0xFFFFFFFF)).view(np.float32)


def split(a: Array, b: Array) -> Array:
    """Return the sum of three products of numbers with the fraction of TF32."""
    upper_a, upper_b = _upper(a), _upper(b)
    lower_a, lower_b = _upper(a - upper_a), _upper(b - upper_b)
    found: Array = lower_a @ upper_b + upper_a @ lower_b + upper_a @ upper_b
    return found


def fused(a: Array, b: Array) -> Array:
    """Return sums to which each product is added before it is rounded."""
    total = np.zeros((len(a), b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        total = (total + a[:, k, None].astype(np.float64) * b[k]).astype(np.float32)
    return total


def strassen(a: Array, b: Array) -> Array:
    """Return the product by seven products of halves, as long as they are not small."""
    if len(a) < 32 or a.shape[1] % 2 or len(a) % 2 or b.shape[1] % 2:
        return np.asarray(a @ b)
    (p, q), (r, s) = (np.split(half, 2, 1) for half in np.split(a, 2))
    (t, u), (v, w) = (np.split(half, 2, 1) for half in np.split(b, 2))
    m = [
        strassen(p + s, t + w), strassen(r + s, t), strassen(p, u - w), strassen(s, v - t),
        strassen(p + q, w), strassen(r - p, t + u), strassen(q - s, v + w),
    ]  # fmt: skip
    upper = m[0] + m[3] - m[4] + m[6], m[2] + m[4]
    return np.block([[*upper], [m[1] + m[3], m[0] - m[1] + m[2] + m[5]]])


# -- convolutions of 3 x 3 -----------------------------------------------------------------------------


def by_products(multiply: Product) -> Product:
    """Return a convolution by one product of the windows as rows."""

    def convolve(image: Array, weight: Array) -> Array:
        padded = np.pad(image, ((0, 0), (1, 1), (1, 1), (0, 0)))
        windows = _windows(padded, (3, 3), axis=(1, 2))
        rows = np.moveaxis(windows, 3, -1).reshape(-1, weight[0].size)
        found = multiply(np.ascontiguousarray(rows), weight.reshape(len(weight), -1).T.copy())
        return found.reshape(*image.shape[:3], len(weight))

    return convolve


#: Size of tiles -> the matrices of Winograd's algorithm for data, weights and results.
_WINOGRAD: Final[dict[int, tuple[Any, Any, Any]]] = {
    2: (
        [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]],
        [[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]],
        [[1, 1, 1, 0], [0, 1, -1, -1]],
    ),
    4: (
        [
            [4, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0], [0, 4, -4, -1, 1, 0],
            [0, -2, -1, 2, 1, 0], [0, 2, -1, -2, 1, 0], [0, 4, 0, -5, 0, 1],
        ],
        [
            [1 / 4, 0, 0], [-1 / 6, -1 / 6, -1 / 6], [-1 / 6, 1 / 6, -1 / 6],
            [1 / 24, 1 / 12, 1 / 6], [1 / 24, -1 / 12, 1 / 6], [0, 0, 1],
        ],
        [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]],
    ),
}  # fmt: skip


def winograd(size: int) -> Product:
    """Return Winograd's convolution with tiles of a size."""
    data, weights, results = (np.array(m, np.float32) for m in _WINOGRAD[size])

    def convolve(image: Array, weight: Array) -> Array:
        padded = np.pad(image, ((0, 0), (1, 1), (1, 1), (0, 0)))
        tiles = _windows(padded, (size + 2,) * 2, axis=(1, 2))
        tiles = tiles[:, ::size, ::size]
        u = np.einsum("ij,ojkc,lk->oilc", weights, weight, weights)
        v = np.einsum("ij,nyxcjk,lk->nyxilc", data, tiles, data)
        found = np.einsum("ai,nyxilc,oilc,bl->nyaxbo", results, v, u, results, optimize=True)
        shape = *image.shape[:3], len(weight)
        return np.asarray(found, np.float32).reshape(shape)

    return convolve


def by_fourier(image: Array, weight: Array) -> Array:
    """Return the convolution by transforms, in FP32 but for numpy's transform itself."""
    shape = image.shape[1] + 2, image.shape[2] + 2
    spectrum = np.fft.rfft2(np.moveaxis(image, -1, 1), shape).astype(np.complex64)
    kernel = np.fft.rfft2(np.moveaxis(weight[:, ::-1, ::-1], -1, 1), shape).astype(np.complex64)
    products = np.einsum("ncyx,ocyx->noyx", spectrum, kernel)
    found = np.fft.irfft2(products, shape)[:, :, 1:-1, 1:-1]
    return np.moveaxis(found, 1, -1).astype(np.float32)


# -- programs ------------------------------------------------------------------------------------------


def layers() -> Graph:
    """Return two convolutions, each with a CLAMP."""
    b = Builder()
    value = b.input("x", "fp32", (1, 16, 16, 8))
    for kernel in _KERNEL:
        bias = b.const(np.zeros(8, np.float32))
        sizes: Any = {"pad": (1,) * 4, "stride": (1, 1), "dilation": (1, 1)}
        value = b.conv2d(value, b.const(kernel), bias, **sizes)
        value = b.clamp(value, min_val=0.0, max_val=6.0)
    b.output(value, name="y")
    return b.graph()


def layers_by(convolve: Product) -> Answer:
    """Return what computes them."""

    def answer(inputs: Mapping[str, Array]) -> dict[str, Array]:
        value = inputs["x"]
        for kernel in _KERNEL:
            value = np.clip(convolve(value, kernel), 0, 6).astype(np.float32)
        return {"y": value}

    return answer


def perceptron() -> Graph:
    """Return two products of matrices with TANH."""
    b = Builder()
    value = b.input("x", "fp32", (1, 64, 64))
    for weight in _WEIGHT:
        value = b.tanh(b.matmul(value, b.const(weight[None])))
    b.output(value, name="y")
    return b.graph()


def perceptron_by(multiply: Product) -> Answer:
    """Return what computes it."""

    def answer(inputs: Mapping[str, Array]) -> dict[str, Array]:
        value = inputs["x"][0]
        for weight in _WEIGHT:
            value = np.tanh(multiply(value, weight))
        return {"y": value[None].astype(np.float32)}

    return answer


def attention() -> Graph:
    """Return the attention of one head."""
    b = Builder()
    q, k, v = (b.input(name, "fp32", (1, 32, 16)) for name in "qkv")
    scores = b.mul(b.matmul_t(q, k), 0.25)
    powers = b.exp(b.sub(scores, b.reduce_max(scores, axis=2)))
    shares = b.mul(powers, b.reciprocal(b.reduce_sum(powers, axis=2)))
    b.output(b.matmul(shares, v), name="y")
    return b.graph()


def flash(inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return attention in blocks of keys, whose greatest score and sum are corrected on the way."""
    q, k, v = (inputs[name][0] for name in "qkv")
    greatest = np.full((len(q), 1), -np.inf, np.float32)
    total, found = np.zeros((len(q), 1), np.float32), np.zeros_like(v)
    for start in range(0, len(k), 8):
        scores = q @ k[start : start + 8].T * np.float32(0.25)
        new = np.maximum(greatest, scores.max(axis=1, keepdims=True))
        powers, past = np.exp(scores - new), np.exp(greatest - new)
        total = total * past + powers.sum(axis=1, keepdims=True)
        found = found * past + powers @ v[start : start + 8]
        greatest = new
    return {"y": (found / total)[None]}


def normalised() -> Graph:
    """Return a layer norm."""
    b = Builder()
    x = b.input("x", "fp32", (16, 64))
    centred = b.sub(x, b.mul(b.reduce_sum(x, axis=1), 1 / 64))
    variance = b.mul(b.reduce_sum(b.mul(centred, centred), axis=1), 1 / 64)
    b.output(b.mul(centred, b.rsqrt(b.add(variance, 1e-5))), name="y")
    return b.graph()


def welford(inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return it with mean and variance from one pass."""
    x = inputs["x"]
    mean, square = np.zeros((len(x), 1), np.float32), np.zeros((len(x), 1), np.float32)
    for number in range(x.shape[1]):
        value = x[:, number : number + 1]
        step = value - mean
        mean = mean + step / np.float32(number + 1)
        square = square + step * (value - mean)
    variance = square / np.float32(x.shape[1])
    return {"y": ((x - mean) / np.sqrt(variance + np.float32(1e-5))).astype(np.float32)}


PRODUCTS: Final[dict[str, Product]] = {
    "tiles of 4": in_tiles(4),
    "tiles of 16": in_tiles(16),
    "three products of TF32": split,
    "fused": fused,
    "Strassen": strassen,
}


def algorithms() -> Iterator[tuple[str, Callable[[], Graph], Answer]]:
    """Iterate over the name of an algorithm, a program, and what computes it by it."""
    for name, multiply in PRODUCTS.items():
        yield f"{name}, matrices", perceptron, perceptron_by(multiply)
        yield f"{name}, windows", layers, layers_by(by_products(multiply))
    for size in _WINOGRAD:
        yield f"Winograd's of {size} x {size}", layers, layers_by(winograd(size))
    yield "Fourier", layers, layers_by(by_fourier)
    yield "flash attention", attention, flash
    yield "Welford's variance", normalised, welford
