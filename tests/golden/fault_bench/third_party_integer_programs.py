"""Small integer programs: quantised networks, tables, indices, masks, loops and caches."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from golden.fault_bench.third_party_float_programs import finished, weights

from tosa_convert.builder import Builder, DTypeName
from tosa_convert.graph import Graph, dtype

#: The zero point of activations: INT8 alone has one.
_POINT: Final = {"INT8": -7, "INT16": 0}
#: The shift that brings accumulators back to the element type, with a multiplier of 2^30.
_SHIFT: Final = {"INT8": 36, "INT16": 38}


def whole(element: str, seed: int, *shape: int, low: int = -99, high: int = 100) -> Any:
    """Return random integers of an element type."""
    found = np.random.default_rng(seed).integers(low, high, shape)
    return found.astype(dtype(element).numpy)


def _narrowed(b: Builder, y: Any, element: DTypeName, seed: int, more: int = 0) -> Any:
    """Return accumulators rescaled with a multiplier and a shift for each channel."""
    count = y.shape[-1]
    is_wide = element == "INT16"
    random = np.random.default_rng(seed)
    # Half of the multipliers are powers of two, which give ties.
    multiplier = np.where(
        np.arange(count) % 2, 1 << 14, random.integers(1 << 14, (1 << 15) - 1, count)
    )
    shift = np.full(count, _SHIFT[element] - 16 + more) + np.arange(count) % 2
    if not is_wide:
        multiplier = multiplier << 16
        shift = shift + 16
    kind = np.int16 if is_wide else np.int32
    return b.rescale(
        y,
        multiplier.astype(kind),
        shift.astype(np.int8),
        output_zp=_POINT[element],
        scale32=not is_wide,
        per_channel=True,
        dtype=element,
    )


def quantised_conv(element: DTypeName, weight: str = "INT8") -> Graph:
    """Build a quantised convolution, a depthwise one, pooling, and a classifier with its class."""
    b = Builder("quantised_conv")
    point = _POINT[element]
    x = b.input("x", element, (2, 5, 6, 4))
    bias: DTypeName = "INT48" if element == "INT16" else "INT32"

    def constant(seed: int, *shape: int) -> Any:
        limit = 7 if weight == "INT4" else 127
        found = np.random.default_rng(seed).normal(size=shape) * limit * 0.8
        return np.clip(np.rint(found), -limit, limit).astype(dtype(weight).numpy)

    def offsets(seed: int, count: int) -> Any:
        found = whole("INT32", seed, count, low=-3000, high=3000)
        return b.const(found.astype(np.int64), dtype=bias) if bias == "INT48" else found

    y = b.conv2d(
        x, constant(1, 6, 3, 3, 4), offsets(2, 6), input_zp=point, pad=(1, 1, 1, 0), stride=(1, 1)
    )
    extra = -2 if weight == "INT4" else 0
    y = _narrowed(b, y, element, 3, extra)
    y = b.clamp(y, min_val=point, max_val=dtype_limit(element) - 20)
    y = b.depthwise_conv2d(
        y, constant(4, 3, 3, 6, 1), offsets(5, 6), input_zp=point, pad=(0, 1, 1, 0)
    )
    y = _narrowed(b, y, element, 6, extra - 1 if weight == "INT4" else extra)
    y = b.max_pool2d(y, kernel=(2, 2), stride=(1, 1), pad=(0, 1, 0, 0))
    y = b.avg_pool2d(y, input_zp=point, output_zp=point, kernel=(2, 2), pad=(1, 0, 0, 1))
    b.output(y, name="features")
    flat = b.reshape(y, (2, 72))
    b.output(b.argmax(flat, axis=1, dtype="INT32"), name="best")
    return finished(b)


def dtype_limit(element: str) -> int:
    """Return the greatest integer of an element type."""
    return (1 << (dtype(element).bits - 1)) - 1


def quantised_dense(element: DTypeName) -> Graph:
    """Build two quantised matrix products with a negation between them."""
    b = Builder("quantised_dense")
    point = _POINT[element]
    x = b.input("x", element, (2, 8, 18))
    second = b.input("second", element, (2, 6, 5))
    y = b.matmul(x, b.input("first", element, (2, 18, 6)), a_zp=point)
    y = _narrowed(b, y, element, 11, 1 if element == "INT8" else 8)
    y = b.negate(y, input1_zp=point, output_zp=point) if element == "INT8" else y
    y = b.matmul(y, second, a_zp=point)
    b.output(_narrowed(b, y, element, 12, 2 if element == "INT8" else 8), name="y")
    return finished(b)


def quantised_residual(element: DTypeName, rounding: str = "SINGLE_ROUND") -> Graph:
    """Build a residual block: two branches are brought to one scale in INT32, added and rescaled."""
    b = Builder("quantised_residual")
    point = _POINT[element]
    x, y = (b.input(name, element, (1, 3, 4, 6)) for name in ("a", "b"))
    left = b.rescale(x, 1 << 30, 24, input_zp=point, rounding_mode=rounding, dtype="INT32")
    right = b.rescale(y, 1717986918, 25, input_zp=point, rounding_mode=rounding, dtype="INT32")
    total = b.add(left, right)
    total = b.rescale(total, 1 << 30, 36, output_zp=point, rounding_mode=rounding, dtype=element)
    total = b.clamp(total, min_val=point, max_val=dtype_limit(element))
    low = b.rescale(total, 1 << 30, 32, input_zp=point, rounding_mode=rounding, dtype="INT32")
    low = b.sub(low, b.reduce_max(low, axis=3))
    b.output(b.add(low, b.reduce_sum(low, axis=3)), name="centred")
    b.output(total, name="y")
    return finished(b)


def unsigned_chain() -> Graph:
    """Build the passage of UINT8 images through INT8, and back."""
    b = Builder("unsigned_chain")
    x = b.input("x", "INT8", (1, 4, 4, 3))
    y = b.rescale(x, 1 << 30, 30, input_zp=-128, input_unsigned=True, dtype="INT8")
    y = b.max_pool2d(y, kernel=(2, 2), stride=(1, 1))
    y = b.rescale(y, 1 << 30, 30, output_zp=-128, output_unsigned=True, dtype="INT8")
    b.output(y, name="y")
    return finished(b)


def tables(element: DTypeName) -> Graph:
    """Build a quantised activation by a table, between rescales."""
    b = Builder("tables")
    x = b.input("x", element, (4, 24))
    if element == "INT8":
        table = np.rint(127 * np.tanh(np.arange(-128, 128) / 90)).astype(np.int8)
        y = b.table(x, table)
        b.output(b.add(b.cast(y, dtype="INT32"), b.cast(x, dtype="INT32")), name="y")
    else:
        table = np.rint(32767 * np.tanh(np.arange(-256, 257) / 90)).astype(np.int16)
        y = b.table(x, table)
        b.output(b.rescale(y, 1 << 30, 37, dtype="INT16"), name="y")
    return finished(b)


def integer_softmax() -> Graph:
    """Build the reciprocal and the shifts of an integer softmax, as converters of networks do."""
    b = Builder("integer_softmax")
    x = b.input("x", "INT32", (3, 8))
    x = b.minimum(b.maximum(x, -(1 << 26)), 1 << 26)
    y = b.sub(x, b.reduce_max(x, axis=1))
    powers = b.arithmetic_right_shift(y, 3, round=True)
    total = b.reduce_sum(b.abs(powers), axis=1)
    room = b.clz(total)
    shifted = b.logical_left_shift(total, b.maximum(b.sub(room, 2), 0))
    scaled = b.mul(powers, b.add(shifted, 1), 31)
    rest = b.intdiv(b.sub(scaled, 7), b.add(b.bitwise_and(total, 15), 2))
    b.output(b.arithmetic_right_shift(rest, b.minimum(room, 2), round=False), name="y")
    b.output(b.logical_right_shift(b.bitwise_not(scaled), b.sub(room, room)), name="bits")
    return finished(b)


def shifts(element: DTypeName) -> Graph:
    """Build shifts whose amounts are data, from 0 to the greatest."""
    b = Builder("shifts")
    x = b.input("x", element, (2, 24))
    most = dtype(element).bits - 1
    amount = b.const(np.resize(np.arange(most + 1), (1, 24)).astype(dtype(element).numpy))
    y = b.bitwise_xor(
        b.arithmetic_right_shift(x, amount, round=True), b.logical_left_shift(x, amount)
    )
    z = b.bitwise_xor(b.logical_right_shift(x, amount), b.bitwise_not(y))
    b.output(b.bitwise_or(z, b.arithmetic_right_shift(y, 1, round=False)), name="y")
    return finished(b)


def integers() -> Graph:
    """Build arithmetic of INT32: a fixed-point product, a division, comparisons and a conversion."""
    b = Builder("integers")
    x, y = (b.input(name, "INT32", (4, 9)) for name in ("a", "b"))
    left, right = (b.arithmetic_right_shift(v, 8, round=False) for v in (x, y))
    z = b.mul(left, right, 16)
    q = b.intdiv(b.maximum(x, -(1 << 30)), b.add(b.bitwise_and(y, 63), 3))
    same = b.equal(x, b.bitwise_and(x, -2))
    kept = b.logical_or(b.greater(q, z), b.logical_and(same, b.greater_equal(y, x)))
    b.output(b.select(kept, q, z), name="y")
    b.output(b.cast(b.bitwise_and(x, (1 << 24) - 1), dtype="FP32"), name="number")
    b.output(b.cast(q, dtype="INT8"), name="low")
    return finished(b)


def masks() -> Graph:
    """Build a mask of an attention: which keys are valid, and which rows have any."""
    b = Builder("masks")
    valid = b.input("valid", "BOOL", (3, 5))
    length = b.input("length", "INT32", (3, 1))
    causal = b.greater_equal(length, np.arange(5, dtype=np.int32).reshape(1, 5))
    both = b.logical_and(valid, causal)
    rows = b.reduce_any(both, axis=1)
    y = b.logical_xor(both, b.logical_not(rows))
    b.output(
        b.concat([y, b.logical_or(b.reverse(both, axis=1), b.reduce_all(causal, axis=1))], axis=0),
        name="y",
    )
    b.output(b.reduce_sum(b.cast(b.cast(both, dtype="INT8"), dtype="INT32"), axis=1), name="count")
    return finished(b)


def counter(element: DTypeName = "INT32") -> Graph:
    """Build a loop that doubles until a bound, and a branch on its result."""
    b = Builder("counter")
    x = b.input("x", element, (1, 4))
    x = b.bitwise_and(x, 63)
    zero = b.const(np.zeros((), np.int32))
    _, total, previous = b.while_loop(
        [zero, x, x],
        lambda b, n, t, p: b.greater(3, n),
        lambda b, n, t, p: (b.add(n, 1), b.add(t, p), b.identity(t)),
    )
    (y,) = b.cond_if(
        b.reshape(b.greater(b.reduce_sum(total, axis=1), 350), ()),
        [total, previous],
        lambda b, t, p: b.sub(t, p),
        lambda b, t, p: b.add(b.mul(t, 2), p),
    )
    b.output(y, name="y")
    return finished(b)


def cache(element: DTypeName) -> Graph:
    """Build a cache of keys that a step shifts and appends to, with a counter."""
    b = Builder("cache")
    x = b.input("x", element, (1, 1, 4))
    start = (
        whole(element, 81, 1, 5, 4) if element.startswith("INT") else weights(element, 81, 1, 5, 4)
    )
    keys = b.variable("keys", element, (1, 5, 4), initial=start)
    steps = b.variable("steps", "INT32", (1,), initial=3)
    old = b.read(keys)
    new = b.concat([b.slice(old, (0, 1, 0), (1, 4, 4)), x], axis=1)
    b.write(keys, new)
    b.write(steps, b.add(b.read(steps), 1))
    b.output(b.concat([b.read(keys), b.reverse(old, axis=1)], axis=1), name="window")
    b.output(b.identity(b.read(steps)), name="count")
    return finished(b)


def eights(element: DTypeName) -> Graph:
    """Build a product of FP8 operands, which are quantised from FP32 and laid out anew."""
    b = Builder("eights")
    x = b.input("x", "FP32", (1, 4, 21))
    y = b.cast(b.mul(x, 8.0), dtype=element)
    y = b.concat([y, b.reverse(y, axis=2)], axis=1)
    weight = weights(element, 90, 1, 21, 6, scale=2.0)
    z = b.cast(b.matmul(y, weight, dtype="FP16"), dtype="FP32")
    b.output(b.mul(z, 0.125), name="y")
    best = b.argmax(y, axis=2, dtype="INT32")
    b.output(best, name="best")
    b.output(b.cast(b.gather(y, np.array([[7, 0, 3]], np.int32)), dtype="FP16"), name="rows")
    return finished(b)


def blocks(element: DTypeName) -> Graph:
    """Build a product of block-scaled operands, and a round trip of the activations."""
    b = Builder("blocks")
    x = b.input("x", "FP32", (1, 3, 96))
    data, scale = b.cast_to_block_scaled(x, dtype=[element, "FP8UE8M0"])
    weight = np.random.default_rng(95).normal(size=(1, 5, 96)) * np.exp2(np.arange(96) // 32 - 1)
    w_data, w_scale = b.cast_to_block_scaled(weight.astype(np.float32), dtype=[element, "FP8UE8M0"])
    y = b.matmul_t_block_scaled(data, scale, w_data, w_scale)
    b.output(y, name="y")
    b.output(b.mul(b.cast_from_block_scaled(data, scale, dtype="FP32"), 0.5), name="back")
    return finished(b)


def normalised() -> Graph:
    """Build the exponents and the mantissas of integers, as converters do for a reciprocal."""
    b = Builder("normalised")
    x = b.abs(b.maximum(b.input("x", "INT32", (3, 8)), -((1 << 31) - 1)))
    zeros = b.clz(x)
    mantissa = b.logical_left_shift(x, b.minimum(zeros, 31))
    b.output(b.arithmetic_right_shift(mantissa, 7, round=True), name="mantissa")
    b.output(b.sub(31, zeros), name="exponent")
    return finished(b)
