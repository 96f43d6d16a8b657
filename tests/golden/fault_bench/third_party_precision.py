"""Faults of precision: narrow accumulators, dropped products, short scales, coarse functions.

They come from units that are built for speed: tensor cores that shorten operands, partial sums that are
stored in the type of the result, requantisation with a short multiplier, estimates without refinement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from golden.fault_bench import third_party_float_programs as floats
from golden.fault_bench import third_party_integer_programs as integers
from golden.fault_bench.fault import At, Fault, Value
from golden.fault_bench.third_party_rescale import Requantised
from golden.fault_bench.third_party_support import (
    FLOATS,
    QUANTISED,
    Program,
    again,
    array,
    axis_of,
    like,
    of,
    rows,
    shortened,
    wide,
    window_sums,
)

from tosa_convert.graph.dtypes import RoundingMode
from tosa_convert.reference.call import is_float


def narrow_accumulator(at: At, results: list[Value]) -> Sequence[Value]:
    """Round the running sum of products to the type of the operands after each one."""
    a, b = array(at.operands[0]), array(at.operands[1])
    total = np.zeros(array(results[0]).shape, a.dtype)
    for k in range(a.shape[2]):
        part = wide(a[:, :, k : k + 1]) @ wide(b[:, k : k + 1])
        total = (wide(total) + part).astype(a.dtype)
    return like(results[0], total)


def partial_sums_rounded(at: At, results: list[Value]) -> Sequence[Value]:
    """Store the partial sums of a split reduction in the type of the operands, then add those."""
    a, b = array(at.operands[0]), array(at.operands[1])
    middle = (a.shape[2] + 1) // 2
    first = (wide(a[:, :, :middle]) @ wide(b[:, :middle])).astype(a.dtype)
    second = (wide(a[:, :, middle:]) @ wide(b[:, middle:])).astype(a.dtype)
    return like(results[0], wide((wide(first) + wide(second)).astype(a.dtype)))


def running_sum_in_bf16(at: At, results: list[Value]) -> Sequence[Value]:
    """Round the running sum to BF16 after each term, so that small terms are lost."""
    value, axis = wide(at.operands[0]), axis_of(at)
    total = np.zeros(array(results[0]).shape)
    for part in np.moveaxis(value, axis, 0):
        total = shortened(total + np.expand_dims(part, axis), 7)
    return like(results[0], total)


def operands_shortened(at: At, results: list[Value]) -> Sequence[Value]:
    """Shorten FP32 operands to the 10 bits of the fraction that a tensor core multiplies."""
    operands = list(at.operands)
    operands[:2] = [shortened(array(v), 10).astype(array(v).dtype) for v in operands[:2]]
    return at.again(operands)


def operands_shortened_more(at: At, results: list[Value]) -> Sequence[Value]:
    """Multiply FP32 operands as BF16: a fast mode that is on by default."""
    operands = list(at.operands)
    operands[:2] = [shortened(array(v), 7).astype(array(v).dtype) for v in operands[:2]]
    return at.again(operands)


def last_product_dropped(at: At, results: list[Value]) -> Sequence[Value]:
    """Leave out the last product of each sum, whose number is not a multiple of the vector."""
    weight = array(at.operands[1]).copy()
    name = at.op.spec.name
    point = 0
    if not is_float(weight.dtype):
        point = int(array(at.operands[3 if name == "MATMUL" else 4]).flat[0])
    if name == "MATMUL":
        weight[:, -1] = point
    elif name == "DEPTHWISE_CONV2D":
        weight[-1, -1] = point
    else:
        weight[:, -1, -1, -1] = point
    return again(at, 1, weight)


def remainder_of_tile_dropped(at: At, results: list[Value]) -> Sequence[Value]:
    """Leave out the remainder of the sum beyond the tile, in the columns beyond it."""
    result = array(results[0]).copy()
    weight = array(at.operands[1]).copy()
    if at.op.spec.name == "MATMUL":
        weight[:, weight.shape[1] // 4 * 4 :] = 0
    else:
        weight[..., weight.shape[-1] // 2 :] = 0
    columns = (result.shape[-1] - 1) // 4 * 4
    result[..., columns:] = again(at, 1, weight)[0][..., columns:]
    return [result]


def multiplier_short(at: At, results: list[Value]) -> Sequence[Value]:
    """Keep the upper 8 bits of the multiplier, as a scale unit with short multipliers does."""
    q = Requantised(at)
    return q.result(np.floor(q.scaled(q.multiplier >> 23, q.shift - 23) + 0.5))


def scale_in_bf16(at: At, results: list[Value]) -> Sequence[Value]:
    """Keep the scale in BF16, and multiply by it in FP32."""
    q = Requantised(at)
    scale = shortened(np.ldexp(q.multiplier.astype(float), -q.shift.astype(int)), 7)
    return q.result(np.rint(q.value * scale))


def value_in_fp16(at: At, results: list[Value]) -> Sequence[Value]:
    """Convert the accumulator to FP16 before it is scaled."""
    q = Requantised(at)
    scale = np.ldexp(q.multiplier.astype(float), -q.shift.astype(int))
    return q.result(np.floor(shortened(q.value, 10) * scale + 0.5))


def double_rounding_swapped(at: At, results: list[Value]) -> Sequence[Value]:
    """Round once where the program asks for two roundings, and twice where it asks for one."""
    single, double = RoundingMode.SINGLE_ROUND, RoundingMode.DOUBLE_ROUND
    is_double = at.op.attributes["rounding_mode"] == double
    return at.again(rounding_mode=single if is_double else double)


def rounded_twice(at: At, results: list[Value]) -> Sequence[Value]:
    """Round to one bit more than the result has, then to the result: a high product and a shift."""
    q = Requantised(at)
    return q.result(np.floor(np.floor(q.exact * 2 + 0.5) / 2 + 0.5))


def scale_of_neighbour(at: At, results: list[Value]) -> Sequence[Value]:
    """Take the scale of the next channel: the pointer to the scales advances before the first use."""
    q = Requantised(at)
    return q.result(np.floor(q.scaled(np.roll(q.multiplier, -1), np.roll(q.shift, -1)) + 0.5))


def scale_of_first(at: At, results: list[Value]) -> Sequence[Value]:
    """Take the scale of channel 0 for all channels of the last vector."""
    q = Requantised(at)
    multiplier, shift = q.multiplier.copy(), q.shift.copy()
    multiplier[4:], shift[4:] = multiplier[0], shift[0]
    return q.result(np.floor(q.scaled(multiplier, shift) + 0.5))


def factor_of_first(at: At, results: list[Value]) -> Sequence[Value]:
    """Multiply all channels by the factor of channel 0: the broadcast operand is taken for a scalar."""
    factor = array(at.operands[1])
    return again(at, 1, np.broadcast_to(factor.reshape(-1)[0], factor.shape))


def exponential_of_bits(at: At, results: list[Value]) -> Sequence[Value]:
    """Put the scaled operand into the bits of the exponent, and interpolate linearly between powers."""
    power = wide(at.operands[0]) / np.log(2)
    whole = np.floor(power)
    return like(results[0], np.exp2(whole) * (1 + power - whole - 0.03))


def hyperbolic_tangent_coarse(at: At, results: list[Value]) -> Sequence[Value]:
    """Use a quotient of low order that is right near zero, clamped to 1."""
    value = np.clip(wide(at.operands[0]), -3, 3)
    return like(results[0], value * (27 + value**2) / (27 + 9 * value**2))


def sigmoid_of_lines(at: At, results: list[Value]) -> Sequence[Value]:
    """Use straight lines, as accelerators for small networks do."""
    return like(results[0], np.clip(wide(at.operands[0]) / 6 + 0.5, 0, 1))


def error_function_by_tanh(at: At, results: list[Value]) -> Sequence[Value]:
    """Use the tanh that approximates the error function in GELU."""
    value = wide(at.operands[0])
    return like(results[0], np.tanh(1.1283792 * value + 0.1009 * value**3))


def sine_without_reduction(at: At, results: list[Value]) -> Sequence[Value]:
    """Use a polynomial of low order without reducing the angle first."""
    value = wide(at.operands[0]) + (np.pi / 2 if at.op.spec.name == "COS" else 0)
    return like(results[0], value - value**3 / 6 + value**5 / 120 - value**7 / 5040)


def logarithm_of_bits(at: At, results: list[Value]) -> Sequence[Value]:
    """Read the logarithm from exponent and fraction, with a line between the powers of two."""
    mantissa, exponent = np.frexp(wide(at.operands[0]))
    return like(results[0], (exponent - 2 + 2 * mantissa + 0.043) * np.log(2))


def estimate_without_refinement(at: At, results: list[Value]) -> Sequence[Value]:
    """Return the estimate of a table of 5 bits, without the step of Newton that follows it."""
    exact = wide(results[0])
    return like(results[0], shortened(exact, 5))


def power_by_short_logarithm(at: At, results: list[Value]) -> Sequence[Value]:
    """Compute exp2(y log2(x)) with a logarithm of few bits, whose error grows with it."""
    base, exponent = wide(at.operands[0]), wide(at.operands[1])
    return like(results[0], np.exp2(exponent * np.round(np.log2(base), 1)))


def mean_counts_border(at: At, results: list[Value]) -> Sequence[Value]:
    """Divide by the size of the window at the border too, where it holds fewer elements."""
    count = window_sums(at, np.ones(array(at.operands[0]).shape))
    kernel: Any = at.op.attributes["kernel"]
    whole = kernel[0] * kernel[1]
    if is_float(array(results[0]).dtype):
        return like(results[0], wide(results[0]) * count / whole)
    point = int(array(at.operands[2]).flat[0])
    return like(results[0], np.rint((wide(results[0]) - point) * count / whole) + point)


def reciprocal_of_count_short(at: At, results: list[Value]) -> Sequence[Value]:
    """Multiply by a reciprocal of the count that has 4 bits of the fraction."""
    count = window_sums(at, np.ones(array(at.operands[0]).shape))
    return like(results[0], wide(results[0]) * count * shortened(1 / count, 3))


def bias_in_bf16(at: At, results: list[Value]) -> Sequence[Value]:
    """Keep the bias of a convolution in BF16, although all else is FP32."""
    return again(at, 2, shortened(array(at.operands[2]), 7))


def product_not_rounded(at: At, results: list[Value]) -> Sequence[Value]:
    """Shift the product of INT32 without the rounding half."""
    left, right = wide(at.operands[0]), wide(at.operands[1])
    shift = int(array(at.operands[2]).flat[0])
    return like(results[0], (left * right) >> shift)


def twiddles_in_fp16(at: At, results: list[Value]) -> Sequence[Value]:
    """Keep the factors of a transform in FP16."""
    image = wide(at.operands[0]) + 0j
    for axis in (1, 2):
        count = image.shape[axis]
        factors = np.exp(-2j * np.pi * np.outer(np.arange(count), np.arange(count)) / count)
        factors = shortened(factors.real, 10) + 1j * shortened(factors.imag, 10)
        image = np.moveaxis(np.moveaxis(image, axis, -1) @ factors, -1, axis)
    image = image[..., : array(results[0]).shape[-1]]
    return [*like(results[0], image.real), *like(results[1], image.imag)]


def block_scale_of_neighbour(at: At, results: list[Value]) -> Sequence[Value]:
    """Multiply the last block by the scale of the block before it."""
    scale = array(at.operands[1]).copy()
    scale[..., -1] = scale[..., -2]
    return again(at, 1, scale)


def block_scale_rounds_down(at: At, results: list[Value]) -> Sequence[Value]:
    """Take the power of two below the right scale of a block, so that its largest elements saturate."""
    data, scale = wide(results[0]), wide(results[1])
    limit = np.abs(data).max()
    return [*like(results[0], np.clip(data * 2, -limit, limit)), *like(results[1], scale / 2)]


def last_block_dropped(at: At, results: list[Value]) -> Sequence[Value]:
    """Leave the last block out of the sum."""
    data = array(at.operands[2]).copy()
    data[..., -32:] = 0
    return again(at, 2, data)


# Long because it is a list: which kernels and programs have each fault.
def faults() -> Iterator[Fault]:
    """Return the faults."""
    family = "precision"
    shorts = ("FP16", "BF16")
    for build in (floats.mixed, floats.parts):
        programs = of(build, *shorts)
        yield from rows("narrow accumulator", family, narrow_accumulator, "MATMUL", programs)
    title = "partial sums stored short"
    programs = [*of(floats.mixed, *shorts), *of(floats.parts, "BF16")]
    yield from rows(title, family, partial_sums_rounded, "MATMUL", programs)
    title = "running sum in BF16"
    programs = [*of(floats.parts, "FP32", "BF16"), *of(floats.layer_norm, "FP32")]
    yield from rows(title, family, running_sum_in_bf16, "REDUCE_SUM", programs, "offset", "plain")
    for title, change in (
        ("operands shortened to 10 bits", operands_shortened),
        ("operands shortened to BF16", operands_shortened_more),
    ):
        for name, build in (
            ("MATMUL", floats.attention),
            ("CONV2D", floats.conv_block),
            ("DEPTHWISE_CONV2D", floats.conv_block),
        ):
            yield from rows(title, family, change, name, of(build, "FP32"), "plain", "offset")
    products: list[tuple[str, list[Program]]] = [
        ("MATMUL", [*of(floats.attention, *FLOATS), *of(integers.quantised_dense, *QUANTISED)]),
        ("MATMUL", of(integers.eights, "FP8E4M3", "FP8E5M2")),
        ("CONV2D", [*of(floats.conv_block, *FLOATS), *of(integers.quantised_conv, *QUANTISED)]),
        ("CONV2D", [(integers.quantised_conv, ("INT8", "INT4"))]),
    ]
    for name, programs in products:
        yield from rows("last product dropped", family, last_product_dropped, name, programs)
        title = "remainder of a tile dropped"
        yield from rows(title, family, remainder_of_tile_dropped, name, programs)
    programs = [*of(floats.conv_block, "FP32", "BF16"), *of(integers.quantised_conv, "INT8")]
    title = "last product dropped"
    yield from rows(title, family, last_product_dropped, "DEPTHWISE_CONV2D", programs)
    eight = [*of(integers.quantised_conv, "INT8"), *of(integers.quantised_dense, "INT8")]
    quantised = [
        *eight,
        *of(integers.quantised_conv, "INT16"),
        (integers.quantised_conv, ("INT8", "INT4")),
    ]
    residual = of(integers.quantised_residual, *QUANTISED)
    for title, change, programs in (
        ("multiplier of 8 bits", multiplier_short, eight),
        ("scale in BF16", scale_in_bf16, [*quantised, *residual]),
        ("accumulator converted to FP16", value_in_fp16, [*quantised, residual[1]]),
        ("rounded twice", rounded_twice, [*quantised, *residual]),
        ("scale of the next channel", scale_of_neighbour, quantised),
        ("scale of channel 0", scale_of_first, quantised),
    ):
        yield from rows(title, family, change, "RESCALE", programs)
    programs = [
        *residual,
        *((integers.quantised_residual, (name, "DOUBLE_ROUND")) for name in QUANTISED),
    ]
    title = "single and double rounding swapped"
    yield from rows(title, family, double_rounding_swapped, "RESCALE", programs)
    title = "factor of channel 0"
    for build in (floats.conv_block, floats.layer_norm):
        yield from rows(title, family, factor_of_first, "MUL", of(build, *FLOATS))
    coarse: list[tuple[str, Any, str, list[Program], tuple[str, ...]]] = [
        (
            "exponential of bits",
            exponential_of_bits,
            "EXP",
            of(floats.attention, "FP32", "FP16"),
            (),
        ),
        ("exponential of bits", exponential_of_bits, "EXP", of(floats.classifier, "FP32"), ()),
        ("tanh of low order", hyperbolic_tangent_coarse, "TANH", of(floats.lstm, "FP32"), ()),
        ("tanh of low order", hyperbolic_tangent_coarse, "TANH", of(floats.decoder, "FP32"), ()),
        ("sigmoid of lines", sigmoid_of_lines, "SIGMOID", of(floats.lstm, *FLOATS), ("large",)),
        (
            "sigmoid of lines",
            sigmoid_of_lines,
            "SIGMOID",
            of(floats.activations, "FP16"),
            ("large",),
        ),
        ("erf by tanh", error_function_by_tanh, "ERF", of(floats.layer_norm, "FP32"), ()),
        ("erf by tanh", error_function_by_tanh, "ERF", of(floats.activations, "FP32"), ()),
        (
            "sine without reduction",
            sine_without_reduction,
            "SIN",
            of(floats.activations, *FLOATS),
            (),
        ),
        (
            "sine without reduction",
            sine_without_reduction,
            "COS",
            of(floats.activations, *FLOATS),
            (),
        ),
        ("logarithm of bits", logarithm_of_bits, "LOG", of(floats.activations, "FP32", "FP16"), ()),
        ("logarithm of bits", logarithm_of_bits, "LOG", of(floats.spectrum, "FP32"), ()),
        (
            "power by a short logarithm",
            power_by_short_logarithm,
            "POW",
            of(floats.activations, "FP32"),
            (),
        ),
    ]
    for title, change, name, programs, styles in coarse:
        yield from rows(title, family, change, name, programs, *styles)
    title = "estimate without refinement"
    for name, build in (
        ("RSQRT", floats.layer_norm),
        ("RECIPROCAL", floats.attention),
        ("RECIPROCAL", floats.newton),
    ):
        programs = of(build, "FP32", "FP16")
        yield from rows(title, family, estimate_without_refinement, name, programs)
    programs = [*of(floats.conv_block, *FLOATS), *of(integers.quantised_conv, *QUANTISED)]
    yield from rows("mean counts the border", family, mean_counts_border, "AVG_POOL2D", programs)
    title = "reciprocal of a count short"
    programs = of(floats.conv_block, "FP32", "FP16")
    yield from rows(title, family, reciprocal_of_count_short, "AVG_POOL2D", programs)
    for name, build in (("CONV2D", floats.decoder), ("TRANSPOSE_CONV2D", floats.decoder)):
        yield from rows("bias in BF16", family, bias_in_bf16, name, of(build, "FP32"))
    programs = [(integers.integers, ()), (integers.integer_softmax, ())]
    yield from rows(
        "product shifted without rounding", family, product_not_rounded, "MUL", programs
    )
    programs = of(floats.spectrum, "FP32")
    yield from rows("factors of a transform in FP16", family, twiddles_in_fp16, "RFFT2D", programs)
    blocks = of(integers.blocks, "FP8E4M3", "FP8E5M2", "FP6E3M2", "FP4E2M1", "MXINT8")
    name = "MATMUL_T_BLOCK_SCALED"
    yield from rows("scale of the block before", family, block_scale_of_neighbour, name, blocks)
    name = "CAST_FROM_BLOCK_SCALED"
    yield from rows("scale of the block before", family, block_scale_of_neighbour, name, blocks)
    name = "CAST_TO_BLOCK_SCALED"
    title = "block scale rounds down"
    yield from rows(title, family, block_scale_rounds_down, name, blocks)
    name = "MATMUL_T_BLOCK_SCALED"
    yield from rows("last block dropped", family, last_block_dropped, name, blocks)
