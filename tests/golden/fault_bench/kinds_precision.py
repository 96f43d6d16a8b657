"""Faults of precision: types that are too short, products that are missing, scales that are off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np
from golden.fault_bench.fault import At, Change, Fault, Value, at_target, faulty
from golden.fault_bench.programs import (
    FLOATS,
    finished,
    fused,
    in_type,
    instead,
    of_operands,
    place,
    wide,
)
from golden.fault_bench.programs import rows as _rows

from tosa_convert.builder import Builder, DTypeName
from tosa_convert.graph import Graph
from tosa_convert.reference.call import Array

rows = partial(_rows, family="precision")
BOTH: Final = ("", "behind")
#: Element types of products, and of their sums if there is a choice.
SUMS: Final = {"FP16": "fp16", "FP8E4M3": "fp32", "FP8E5M2": "fp32"}
PRODUCTS: Final[tuple[DTypeName, ...]] = (
    "FP32",
    "FP16",
    "BF16",
    "INT8",
    "INT16",
    "FP8E4M3",
    "FP8E5M2",
)


def _numbers(*shape: int) -> Array:
    """Return numbers from -1 to 1 in a fixed, irregular order."""
    size = int(np.prod(shape))
    found: Array = (np.arange(size) * 37 % 101 / 50 - 1).reshape(shape)
    return found


def _weights(b: Any, dtype: str, *shape: int) -> Any:
    scale = {"INT8": 120, "INT16": 3000, "INT4": 7}.get(dtype, 1.0)
    values = _numbers(*shape) * scale
    return b.const(np.rint(values) if scale != 1.0 else values, dtype.lower())


def matmul(b: Any, x: Any) -> Any:
    """Return a product of matrices."""
    weights = _weights(b, x.dtype.name, 1, int(x.shape[2]), 4)
    return b.matmul(x, weights, dtype=SUMS.get(x.dtype.name))


def convolve(b: Any, x: Any) -> Any:
    """Return a convolution with a bias."""
    name = x.dtype.name
    weight = _weights(b, "INT8" if name == "INT16" else name, 4, 2, 2, 3)
    bias = [5, -3, 70, 9] if name.startswith("INT") else [0.5, -0.25, 1.0, 0.125]
    kind = None if name.startswith(("INT", "FP8")) else name
    return b.conv2d(x, weight, bias, acc_type=_accumulator(name), dtype=kind)


def _accumulator(dtype: str) -> DTypeName | None:
    """Return the type in which floating point is added where there is a choice."""
    return "fp16" if dtype.startswith("FP8") else "fp32" if dtype in FLOATS else None


def _shorter(dtype: str, *positions: int) -> Change:
    """Return a change: operands lose what a shorter type does not hold."""
    return of_operands(
        lambda *operands: [
            in_type(wide(x), dtype).astype(x.dtype) if i in positions else x
            for i, x in enumerate(operands)
        ]
    )


def _tf32(*operands: Any) -> list[Any]:
    masked = [(x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in operands[:2]]
    return [*masked, *operands[2:]]


def products() -> Iterator[Fault]:
    """Sums of products."""
    for kind, change in (
        ("factors of FP32 are rounded to BF16", _shorter("BF16", 0, 1)),
        ("factors of FP32 are rounded to FP16", _shorter("FP16", 0, 1)),
        ("factors of FP32 have 10 bits of fraction", of_operands(_tf32)),
    ):
        for make, shape, name in (
            (matmul, (1, 4, 8), "MATMUL"),
            (convolve, (1, 4, 4, 3), "CONV2D"),
            (_depthwise, (1, 4, 4, 3), "DEPTHWISE_CONV2D"),
        ):
            yield from rows(
                kind, make=make, change=change, dtypes=("FP32",), shape=shape, variant=name
            )
    for dtype in PRODUCTS:
        yield from rows(
            "last product of a sum is missing",
            make=matmul,
            change=of_operands(lambda x, w, *zp: [_without_last(x, zp), w, *zp]),
            dtypes=(dtype,),
            shape=(1, 4, 8),
            befores=BOTH if dtype in (*FLOATS, "INT8") else ("",),
        )
    yield from rows(
        "last channel of a convolution is missing",
        make=convolve,
        change=of_operands(lambda x, w, *more: [x, _without_last(w, ()), *more]),
        dtypes=(*FLOATS, "INT8", "INT16", "FP8E4M3"),
        shape=(1, 4, 4, 3),
    )
    yield from rows(
        "bias is not added",
        make=convolve,
        change=of_operands(lambda x, w, bias, *zp: [x, w, bias * bias.dtype.type(0), *zp]),
        dtypes=(*FLOATS, "INT8", "INT16"),
        shape=(1, 4, 4, 3),
    )
    yield from rows(
        "bias is that of the next channel",
        make=convolve,
        change=of_operands(lambda x, w, bias, *zp: [x, w, np.roll(bias, 1), *zp]),
        dtypes=(*FLOATS, "INT8"),
        shape=(1, 4, 4, 3),
    )


def _without_last(array: Any, zero_points: Any) -> Any:
    changed = array.copy()
    changed[..., -1] = np.asarray(zero_points[0]).reshape(-1)[0] if zero_points else 0
    return changed


def _depthwise(b: Any, x: Any) -> Any:
    return b.depthwise_conv2d(x, _weights(b, x.dtype.name, 2, 2, 3, 2), 0.5)


def _summed_in(dtype: str) -> Callable[..., Any]:
    """Return a product of matrices whose sums are rounded after each addition."""

    def compute(r: Array, x: Array, w: Array, *zp: Array) -> Array:
        total = np.zeros(r.shape)
        for k in range(x.shape[2]):
            total = in_type(total + in_type(x[:, :, k, None] * w[:, None, k], dtype), dtype)
        return total

    return compute


def accumulators() -> Iterator[Fault]:
    """Accumulators that are too narrow."""
    for source, inside, size in (("FP32", "FP16", 8), ("FP32", "BF16", 8), ("BF16", "BF16", 8)):
        yield from rows(
            "products are added in a type that is too short",
            make=matmul,
            change=instead(_summed_in(inside)),
            dtypes=(source,),
            shape=(1, 4, size),
            variant=f"in {inside}",
        )
    for source, bits in (("INT8", 16), ("INT16", 32)):
        half = 2 ** (bits - 1)
        for kind, limit in (
            ("accumulator of integers wraps around", lambda r, h=half: (r + h) % (2 * h) - h),
            ("accumulator of integers saturates", lambda r, h=half: np.clip(r, -h, h - 1)),
        ):
            yield from rows(
                kind,
                make=_large_matmul,
                change=instead(lambda r, *operands, f=limit: f(r)),
                dtypes=(source,),
                shape=(1, 8, 24),
            )
    yield from rows(
        "a sum is kept in its own type",
        make=_sum_of_sizes,
        change=instead(lambda r, x: _running_sum(x)),
        dtypes=("BF16",),
        shape=(2, 900, 3),
    )
    yield from rows(
        "an average is added in FP16",
        make=lambda b, x: b.avg_pool2d(x, kernel=(3, 3), stride=(1, 1), acc_type="fp32"),
        change=of_operands(lambda x, *zp: [in_type(wide(x), "FP16").astype(x.dtype), *zp]),
        dtypes=("FP32",),
        shape=(1, 5, 5, 3),
    )
    yield from rows(
        "an average counts what is outside of the image",
        make=lambda b, x: b.avg_pool2d(
            x, kernel=(3, 3), pad=(1, 1, 1, 1), acc_type=_accumulator(x.dtype.name)
        ),
        change=instead(_count_outside),
        dtypes=(*FLOATS, "INT8", "INT16"),
        shape=(1, 5, 5, 3),
    )


def _sum_of_sizes(b: Any, x: Any) -> Any:
    with at_target(b, ""):
        x = b.abs(x)
    return b.reduce_sum(x, axis=1)


def _large_matmul(b: Any, x: Any) -> Any:
    most = 127 if x.dtype.name == "INT8" else 32767
    return b.matmul(x, b.const(np.full((1, 24, 4), most), x.dtype.name.lower()))


def _running_sum(x: Array) -> Any:
    total = np.zeros((x.shape[0], 1, *x.shape[2:]))
    for k in range(x.shape[1]):
        total = in_type(total + x[:, k : k + 1], "BF16")
    return total


def _count_outside(r: Array, x: Array, *zp: Array) -> Any:
    rows_, columns = (np.array([2, *[3] * (n - 2), 2]) for n in x.shape[1:3])
    share = (rows_[:, None] * columns / 9)[None, :, :, None]
    found = r * share
    return np.rint(found) if r.dtype.kind == "i" else found


def scales() -> Iterator[Fault]:
    """Factors that are off."""
    for dtype in FLOATS:
        one = partial(rows, dtypes=(dtype,), befores=BOTH)
        yield from one(
            "scale of a product is 1 % off",
            make=lambda b, x: b.mul(x, 0.125),
            change=instead(lambda r, *operands: r * 1.01),
        )
        yield from one(
            "sum of products is 1 % off",
            make=_small_matmul,
            change=instead(lambda r, *operands: r * 1.01),
            shape=(1, 4, 2),
        )
        yield from one(
            "sum is 1 % off",
            make=lambda b, x: b.add(x, 2.0),
            change=instead(lambda r, *operands: r * 1.01),
        )
    for target, shift in (("int8", 37), ("int16", 31)):
        yield from rows(
            "multiplier of a rescale is 1 % off",
            make=partial(_rescale, target, shift),
            change=of_operands(lambda v, m, *more: [v, (m * 1.01).astype(m.dtype), *more]),
            dtypes=("INT32",),
            target=target.upper(),
            befores=BOTH,
        )
        yield from rows(
            "multipliers of a rescale are those of the next channel",
            make=partial(_rescale, target, shift, channels=8),
            change=of_operands(lambda v, m, *more: [v, np.roll(m, 1), *more]),
            dtypes=("INT32",),
            target=target.upper(),
        )
    yield from rows(
        "multiplier of a rescale has 16 bits",
        make=partial(_rescale, "int16", 31),
        change=of_operands(lambda v, m, *more: [v, (m >> 16) << 16, *more]),
        dtypes=("INT32",),
        target="INT16",
        shape=(8, 32),
    )
    yield from rows(
        "zero point of the input is not subtracted",
        make=lambda b, x: b.rescale(x, 1 << 30, 30, 7, -3, dtype="int8"),
        change=of_operands(lambda v, m, s, i, o: [v, m, s, i * 0, o]),
        dtypes=("INT8",),
        befores=BOTH,
    )
    yield from rows(
        "zero point of the output is not added",
        make=lambda b, x: b.rescale(x, 1 << 30, 30, 7, -3, dtype="int8"),
        change=of_operands(lambda v, m, s, i, o: [v, m, s, i, o * 0]),
        dtypes=("INT8",),
        befores=BOTH,
    )


def _small_matmul(b: Any, x: Any) -> Any:
    weights = np.abs(_numbers(1, 2, 4)).astype(x.dtype.numpy)
    return b.matmul(x, weights, dtype=SUMS.get(x.dtype.name))


def _rescale(target: str, shift: int, b: Any, x: Any, channels: int = 0) -> Any:
    multiplier = 1400000001
    if not channels:
        return b.rescale(x, multiplier, shift, dtype=target)
    multipliers = [multiplier - 50_000_000 * n for n in range(channels)]
    return b.rescale(x, multipliers, [shift] * channels, per_channel=True, dtype=target)


def _series(x: Array, *factors: float) -> Array:
    return sum((f * x**n for n, f in enumerate(factors)), np.zeros_like(x))


#: Function -> an approximation that kernels use, and the element types for which it is too coarse.
APPROXIMATIONS: Final[dict[str, tuple[str, Callable[[Array], Any], tuple[str, ...]]]] = {
    "reciprocal": ("an estimate of 12 bits", lambda x: 1 / in_type(x, "FP16"), ("FP32",)),
    "rsqrt": (
        "one step of Newton",
        lambda x: (y := x**-0.5 * 1.03) * (1.5 - 0.5 * x * y * y),
        ("FP32", "FP16"),
    ),
    "exp": (
        "a line between powers of 2",
        lambda x: np.exp2(np.floor(x / np.log(2))) * (1 + (x / np.log(2)) % 1),
        FLOATS,
    ),
    "log": ("a short series", lambda x: np.log(x) * (1 + 0.05 * (x % 1)), FLOATS),
    "tanh": ("a quotient of polynomials", lambda x: x * (27 + x * x) / (27 + 9 * x * x), ("FP32",)),
    "sigmoid": ("straight lines", lambda x: np.clip(x / 6 + 0.5, 0, 1), FLOATS),
    "erf": ("a hyperbolic tangent", lambda x: np.tanh(1.128 * x + 0.1 * x**3), ("FP32",)),
    "sin": ("three terms", lambda x: _series(x, 0, 1, 0, -1 / 6, 0, 1 / 160), ("FP32",)),
    "cos": ("three terms", lambda x: _series(x, 1, 0, -1 / 2, 0, 1 / 32), ("FP32",)),
}


def functions() -> Iterator[Fault]:
    """Iterate over functions that are approximated."""
    for function, (how, compute, dtypes) in APPROXIMATIONS.items():
        yield from rows(
            "a function is approximated",
            make=lambda b, x, f=function: getattr(b, f)(x),  # type: ignore[misc]
            change=instead(lambda r, x, c=compute: c(x)),
            dtypes=dtypes,
            variant=f"{function} by {how}",
        )
    yield from rows(
        "power is computed in FP16",
        make=lambda b, x: b.pow(x, 2.5),
        change=instead(lambda r, x, y: np.exp(in_type(y * in_type(np.log(x), "FP16"), "FP16"))),
        dtypes=("FP32",),
    )
    for source, target, inside in (("INT32", "fp32", "FP16"), ("INT16", "fp32", "BF16")):
        yield from rows(
            "integers become floating point through a shorter type",
            make=lambda b, x, t=target: b.cast(x, dtype=t),  # type: ignore[misc]
            change=instead(lambda r, x, i=inside: in_type(x, i)),
            dtypes=(source,),
            befores=BOTH,
        )


def product_and_sum(dtype: DTypeName) -> Graph:
    """Return a program that adds to a product."""
    b = Builder("product_and_sum")
    x, y = b.input("x", dtype, (4, 8)), b.input("y", dtype, (4, 8))
    with at_target(b, place("product")):
        p = b.mul(b.negate(x), 0.7)
    with at_target(b, place("sum")):
        s = b.add(p, y)
    b.output(finished(b, s), name="r")
    return b.graph()


def variance(dtype: DTypeName) -> Graph:
    """Return a program that computes the variance of rows with a large mean."""
    b = Builder("variance")
    x = b.add(b.input("x", dtype, (4, 16)), {"FP32": 500.0, "FP16": 8.0, "BF16": 4.0}[dtype])
    mean = b.mul(b.reduce_sum(x, axis=1), 1 / 16)
    with at_target(b, place("difference")):
        d = b.sub(x, mean)
    with at_target(b, place("square")):
        d = b.mul(d, d)
    with at_target(b, place("sum")):
        d = b.reduce_sum(d, axis=1)
    b.output(b.mul(d, 1 / 16), name="y")
    return b.graph()


def _sum_of_bf16(at: At, results: list[Value]) -> list[Value]:
    product = at.producer(0)
    assert product is not None
    x, factor = (in_type(wide(value), "BF16") for value in product.operands[:2])
    found = in_type(x * factor, "BF16") + wide(at.operands[1])
    return [found.astype(np.asarray(results[0]).dtype)]


def _squares_less_square(at: At, results: list[Value]) -> list[Value]:
    square = at.producer(0)
    difference = square.producer(0) if square else None
    assert difference is not None
    x, mean = (np.asarray(value) for value in difference.operands)
    kind = x.dtype
    squares = (x * x).astype(kind)
    total = squares.astype(np.float32).sum(axis=1, keepdims=True).astype(kind)
    return [(total - (mean * mean).astype(kind) * np.float32(16).astype(kind)).astype(kind)]


def fusions() -> Iterator[Fault]:
    """Iterate over operators that are right alone, and lose precision where they are fused."""
    both = (place("product"), place("sum"))
    for dtype in ("FP32", "FP16"):
        yield Fault(
            kind="fused product and sum are computed in BF16",
            family="precision",
            dtype=dtype,
            program=partial(product_and_sum, dtype),
            backend=fused(_sum_of_bf16, *both),
            location=both,
        )
    places = (place("difference"), place("square"), place("sum"))
    for dtype in FLOATS:
        yield Fault(
            kind="variance is a difference of large numbers",
            family="precision",
            dtype=dtype,
            program=partial(variance, dtype),
            backend=fused(_squares_less_square, *places),
            location=places,
        )


def block_products(dtype: DTypeName) -> Graph:
    """Return a product of block-scaled matrices, the first of which is made when the program runs."""
    b = Builder("block_products")
    x = b.input("x", "FP32", (1, 4, 64))
    x = b.mul(x, np.repeat(np.array([1, 8], np.float32), 32).reshape(1, 1, 64))
    with at_target(b, place("cast")):
        data, scale = b.cast_to_block_scaled(x, dtype=[dtype, "fp8ue8m0"])
    weight = b.const(_numbers(1, 4, 64), dtype)
    scales_ = b.const(np.array([[[2, 1], [1, 0.5], [4, 1], [1, 2]]]), "fp8ue8m0")
    with at_target(b):
        y = b.matmul_t_block_scaled(data, scale, weight, scales_)
    b.output(b.negate(y), name="y")
    return b.graph()


def given_blocks(dtype: DTypeName) -> Graph:
    """Return a product of block-scaled matrices, the first of which is given."""
    b = Builder("given_blocks")
    data = b.input("x", dtype, (1, 4, 64))
    scale = b.input("s", "fp8ue8m0", (1, 4, 2))
    weight = b.const(_numbers(1, 4, 64), dtype)
    scales_ = b.const(np.array([[[2, 1], [1, 0.5], [4, 1], [1, 2]]]), "fp8ue8m0")
    with at_target(b):
        y = b.matmul_t_block_scaled(data, scale, weight, scales_)
    b.output(b.negate(y), name="y")
    return b.graph()


def _of_next_block(x: Any, xs: Any, w: Any, ws: Any) -> list[Any]:
    return [x, xs, w, np.roll(ws, 1, axis=-1)]


def _doubled(at: At, results: list[Value]) -> list[Value]:
    data, scale = (np.asarray(result) for result in results)
    return [data, (scale.view(np.uint8) + 1).view(scale.dtype)]


def _one_scale(at: At, results: list[Value]) -> list[Value]:
    data, scale = (np.asarray(result) for result in results)
    return [data, np.broadcast_to(scale[..., :1], scale.shape).copy()]


def block_scaled() -> Iterator[Fault]:
    """Faults of block-scaled data."""
    for dtype in ("FP8E4M3", "FP8E5M2", "FP6E2M3", "FP6E3M2", "FP4E2M1"):
        for kind, change, where in (
            ("scales are those of the next block", of_operands(_of_next_block), place("target")),
            (
                "last product of a block is missing",
                of_operands(lambda x, xs, *w: [_without_last(x, ()), xs, *w]),
                place("target"),
            ),
            ("scales of blocks are doubled", _doubled, place("cast")),
            ("all blocks of a row have the first scale", _one_scale, place("cast")),
        ):
            # A cast may round by a unit or two, which hides a product in many.
            program = given_blocks if kind.startswith("last product") else block_products
            yield Fault(
                kind=kind,
                family="precision",
                dtype="MX",
                program=partial(program, dtype),
                backend=faulty(change, where),
                location=where,
                variant=dtype,
            )


def short_network(dtype: DTypeName) -> Graph:
    """Return a product of matrices in FP32, stored short, and a bias of 0.03."""
    b = Builder("program")
    x = b.input("x", dtype, (1, 128, 128))
    weights = np.random.default_rng(0).normal(size=(1, 128, 128)) * 0.1
    with at_target(b):
        y = b.matmul(x, b.const(weights, dtype), dtype="fp32")
    y = b.cast(y, dtype=dtype)
    with at_target(b, place("bias")):
        y = b.add(y, 0.03)
    b.output(b.clamp(y, min_val=0.0, max_val=6.0), name="y")
    return b.graph()


def leaning() -> Iterator[Fault]:
    """Small errors that have one sign, or grow with the numbers."""
    for dtype in ("FP16", "BF16"):
        for kind, change, location in (
            ("products are 1 % too large", instead(lambda r, *_: r * 1.01), place("target")),
            ("half of a bias", instead(lambda r, x, z: x + z / 2), place("bias")),
        ):
            yield Fault(
                kind=kind,
                family="precision",
                dtype=dtype,
                program=partial(short_network, dtype),
                backend=faulty(change, location),
                location=location,
            )


def extremes() -> Iterator[Fault]:
    """Accumulators that only the largest sums overflow: of 576 products of INT8."""
    for bits in (21, 22, 23):
        half = 1 << (bits - 1)
        yield from rows(
            "accumulator that only the largest sums overflow",
            make=_long_sums,
            change=instead(lambda r, *_, h=half: (r + h) % (2 * h) - h),
            dtypes=["INT8"],
            shape=(1, 6, 6, 64),
            variant=f"{bits} bits",
        )


def _long_sums(b: Any, x: Any) -> Any:
    weight = np.random.default_rng(3).integers(-127, 128, (8, 3, 3, 64))
    sizes: Any = {"pad": (1,) * 4, "stride": (1, 1), "dilation": (1, 1)}
    return b.conv2d(x, b.const(weight, "int8"), b.const([0] * 8, "int32"), **sizes)


def faults() -> Iterator[Fault]:
    """Iterate over the faults of this file."""
    groups = (products, accumulators, scales, functions, fusions, block_scaled, leaning, extremes)
    for group in groups:
        yield from group()
