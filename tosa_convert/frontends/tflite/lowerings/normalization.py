"""Operators that divide by a norm or a sum of the elements, and are not lowered or wrongly.

L2_NORMALIZATION has the integers of TFLite's kernel, which multiplies by the inverse root of a sum of
squares, and finds it by five of Newton's steps in fixed point. LOG_SOFTMAX has FP32: by experiment,
TFLite's kernel rounds the exact function. A result in the middle of two steps can be the other one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tosa_convert.frontends.tflite.lowerings.arithmetic import OFFSETS, RANGES
from tosa_convert.frontends.tflite.lowerings.lowering import (
    Correction,
    Decomposition,
    Given,
    Group,
    OtherFormError,
    around,
)
from tosa_convert.frontends.tflite.read import Operator, TfliteFile
from tosa_convert.records import dataclass, replace

if TYPE_CHECKING:
    from tosa_convert.builder import Builder
    from tosa_convert.builder.values import Value
    from tosa_convert.frontends.tflite.lowerings.writer import Writer

#: Squares of numbers of 9 bits whose sum has 29 bits.
_MOST_SQUARES: Final = 8192
#: Numbers of 3 bits before the point.
_ONE: Final = 1 << 28
_THREE_HALVES: Final = 3 << 27
#: Numbers of no bits before the point: the root of 1/2, and the largest one.
_HALF_ROOT: Final = 1518500250
_LARGEST: Final = (1 << 31) - 1
_STEPS: Final = 5
#: By how many bits a number of 9 bits before the point is shifted to have 3.
_CUBE_SHIFT: Final = 6
_PRODUCT_SHIFT: Final = 3
#: As many exponentials of 0 have a sum by which SOFTMAX of 8 bits divides with a shift of 32 bits.
_MOST_EXPONENTIALS: Final = 512
_MOST_SHIFT: Final = 31
#: The scale that the kernels of LOG_SOFTMAX want, and its steps to 1.
_LOG_SCALE: Final = 16 / 256
_LOG_STEPS: Final = 16.0
#: The largest matrix of channels by channels that sums near ones.
_MOST_CHANNELS: Final = 2048


def _find_softmax(model: TfliteFile, operator: Operator) -> float | None:
    """Find SOFTMAX of floating point with a factor."""
    model.operands(operator, 1)
    beta = 0.0 if operator.options is None else operator.options.real(0)
    is_float = model.result(operator).dtype == "float32"
    return beta if is_float and beta not in (0.0, 1.0) else None


def _lower_softmax(b: Builder, given: Given, beta: float) -> list[Value]:
    """Compute the softmax of a multiple of the elements."""
    x = given.operands[0]
    axis = len(given.shape) - 1
    distance = b.sub(x, b.reduce_max(x, axis=axis))
    powers = b.exp(b.mul(distance, beta))
    return [b.mul(powers, b.reciprocal(b.reduce_sum(powers, axis=axis)))]


def _find_normalization(model: TfliteFile, operator: Operator) -> int | None:
    """Find the zero point of operands of 8 bits."""
    (x,), result = model.operands(operator, 1), model.result(operator)
    if x.dtype != result.dtype or x.dtype not in ("int8", "uint8") or operator.option(0, "b"):
        return None
    less = OFFSETS.get(x.dtype, 0)
    # Of more, the sum of squares may have more than 29 bits.
    if x.shape[-1] > _MOST_SQUARES or result.zero_point != less:
        return None
    return x.zero_point - less


def _lower_normalization(b: Builder, given: Given, zero_point: int) -> list[Value]:
    import numpy as np

    axis = len(given.shape) - 1
    is_unsigned = given.dtype == "uint8"
    x = given.operands[0]
    if is_unsigned:
        x = b.bitwise_xor(x, -128)
    numbers = b.sub(b.cast(x, dtype="int32"), zero_point)
    root, shift = inverse_root(b, b.reduce_sum(b.mul(numbers, numbers), axis=axis))
    # The result has 7 bits after the point. The kernels shift by them before, or together with the root.
    if is_unsigned:
        left, right = b.const(np.full((1,) * len(given.shape), 7, np.int32)), shift
    else:
        left, right = b.maximum(b.sub(7, shift), 0), b.maximum(b.sub(shift, 7), 0)
    found = high_product(b, b.logical_left_shift(numbers, left), root)
    # Halves are rounded away from zero.
    size = b.abs(found)
    lower = b.arithmetic_right_shift(size, b.maximum(b.sub(right, 1), 0), round=False)
    rounded = b.arithmetic_right_shift(lower, b.minimum(right, 1), round=True)
    signed = b.select(b.greater(0, found), b.sub(0, rounded), rounded)
    result = b.cast(b.minimum(b.maximum(signed, -128), 127), dtype="int8")
    return [b.bitwise_xor(result, -128) if is_unsigned else result]


def _find_log_softmax(model: TfliteFile, operator: Operator) -> float | None:
    """Find LOG_SOFTMAX of 8 bits, whose result always has the same scale."""
    (x,), result = model.operands(operator, 1), model.result(operator)
    zero = {"int8": 127, "uint8": 255}.get(result.dtype)
    if x.dtype != result.dtype or zero is None or not x.scale:
        return None
    if result.zero_point != zero or result.scale != _LOG_SCALE:
        return None
    return x.scale


def _lower_log_softmax(b: Builder, given: Given, scale: float) -> list[Value]:
    axis = len(given.shape) - 1
    is_unsigned = given.dtype == "uint8"
    x = b.bitwise_xor(given.operands[0], -128) if is_unsigned else given.operands[0]
    wide = b.cast(x, dtype="int32")
    steps = b.cast(b.sub(wide, b.reduce_max(wide, axis=axis)), dtype="fp32")
    distance = b.mul(steps, scale)
    total = b.log(b.reduce_sum(b.exp(distance), axis=axis))
    # CAST rounds to the nearest, of halves to the even one, as the kernel does.
    rounded = b.cast(b.mul(b.sub(distance, total), _LOG_STEPS), dtype="int32")
    result = b.cast(b.maximum(b.add(rounded, 127), -128), dtype="int8")
    return [b.bitwise_xor(result, -128) if is_unsigned else result]


def inverse_root(b: Builder, total: Value) -> tuple[Value, Value]:
    """Return 1 / sqrt(total) as a multiplier, and how far its product is to be shifted to the right.

    The total has at most 29 bits.
    """
    import numpy as np

    # It is shifted by pairs of bits until it has 28 or 29 bits.
    zeros = b.clz(total)
    pairs = b.sub(b.arithmetic_right_shift(b.sub(zeros, 1), 1, round=False), 1)
    shift = b.sub(11, pairs)
    scaled = b.logical_left_shift(total, b.add(pairs, pairs))
    number = b.arithmetic_right_shift(scaled, 1, round=False)
    half = b.arithmetic_right_shift(number, 1, round=True)
    x = b.const(np.full((1,) * len(total.shape or ()), _ONE, np.int32))
    for _ in range(_STEPS):
        cube = high_product(b, high_product(b, x, x), x)
        is_large = b.greater(cube, _LARGEST >> _CUBE_SHIFT)
        cube = b.select(is_large, _LARGEST, b.logical_left_shift(cube, _CUBE_SHIFT))
        rest = b.sub(high_product(b, x, _THREE_HALVES), high_product(b, half, cube))
        x = b.logical_left_shift(rest, _PRODUCT_SHIFT)
    root = high_product(b, x, _HALF_ROOT)
    none = b.maximum(b.sub(0, shift), 0)
    root, shift = b.logical_left_shift(root, none), b.maximum(shift, 0)
    is_tiny = b.greater(2, total)
    return b.select(is_tiny, _LARGEST, root), b.select(is_tiny, 0, shift)


def high_product(b: Builder, x: Value, y: Value | int) -> Value:
    """Return the upper half of a product, rounded."""
    return b.mul(x, y, 31)


@dataclass(frozen=True, slots=True)
class _Response:
    """radius: how far near channels are. bias, alpha, beta: as in TFLite."""

    radius: int
    bias: float
    alpha: float
    beta: float


def _find_local_response(model: TfliteFile, operator: Operator) -> _Response | None:
    model.operands(operator, 1)
    result, options = model.result(operator), operator.options
    if options is None or result.dtype != "float32" or result.shape[-1] > _MOST_CHANNELS:
        return None
    return _Response(options.number(0, "i"), *(options.real(place) for place in (1, 2, 3)))


def _lower_local_response(b: Builder, given: Given, facts: _Response) -> list[Value]:
    """X / (bias + alpha * sum of squares of near channels) ** beta; the sum is a product with a band."""
    import numpy as np

    x = given.operands[0]
    before, size, _ = around(x, len(given.shape) - 1)
    places = np.arange(size)
    band = np.abs(places[:, None] - places[None]) <= facts.radius
    flat = b.reshape(x, (1, before, size))
    squares = b.matmul(b.mul(flat, flat), b.const(band[None].astype(np.float32)))
    base = b.add(b.mul(squares, facts.alpha), facts.bias)
    factor = b.reciprocal(b.pow(base, facts.beta))
    return [b.reshape(b.mul(flat, factor), given.shape)]


def _find_saturated_difference(model: TfliteFile, operator: Operator) -> bool:
    return model.result(operator).dtype == "int16"


def _lower_saturated_difference(group: Group, facts: bool, write: Writer) -> None:
    """Bound the distance to the largest element, which SOFTMAX of int16 looks up in a table."""
    casts = [
        (one, before)
        for one in group.operators
        if one.spec.name == "CAST" and (before := group.making(one.inputs[0])) is not None
    ]
    found = [one for one, before in casts if before.spec.name == "ADD"]
    if len(found) != 1 or write.tensors[found[0].inputs[0]].dtype.name != "INT32":
        raise OtherFormError
    for one in group.operators:
        if one is found[0]:
            (value,) = one.inputs
            one = replace(one, inputs=(write.between(value, *RANGES["int16"]),))
        write.operators.append(one)


def _find_large_shift(model: TfliteFile, operator: Operator) -> bool:
    x, result = model.operands(operator, 1)[0], model.result(operator)
    return result.dtype in ("int8", "uint8") and x.shape[-1:] >= (_MOST_EXPONENTIALS,)


def _lower_large_shift(group: Group, facts: bool, write: Writer) -> None:
    """Keep the last shift of SOFTMAX below 32 bits: from there on, every element is 0."""
    shifts = [one for one in group.operators if one.spec.name == "ARITHMETIC_RIGHT_SHIFT"]
    last = shifts[-1] if shifts else None
    product = last and group.making(last.inputs[0])
    bits = last and group.making(last.inputs[1])
    if not (last and product and bits and (product.spec.name, bits.spec.name) == ("MUL", "SUB")):
        raise OtherFormError
    (amount,), (element, inverse, *rest) = bits.outputs, product.inputs
    for one in group.operators:
        if one is product:
            continue
        if one is last:
            limit = write.number(_MOST_SHIFT, amount)
            is_large = write.emit("GREATER", [amount, limit])
            none = write.emit("SELECT", [is_large, write.number(0, inverse), inverse])
            write.operators.append(replace(product, inputs=(element, none, *rest)))
            bounded = write.emit("MINIMUM", [amount, limit])
            one = replace(last, inputs=(last.inputs[0], bounded))
        write.operators.append(one)


DECOMPOSITIONS: Final[dict[str, Decomposition[Any]]] = {
    "SOFTMAX": Decomposition(_find_softmax, _lower_softmax),
    "LOG_SOFTMAX": Decomposition(_find_log_softmax, _lower_log_softmax),
    "L2_NORMALIZATION": Decomposition(_find_normalization, _lower_normalization),
    "LOCAL_RESPONSE_NORMALIZATION": Decomposition(_find_local_response, _lower_local_response),
}
CORRECTIONS: Final[tuple[Correction[Any], ...]] = (
    Correction(
        "SOFTMAX of int16",
        "the distance to the largest element wraps around",
        _find_saturated_difference,
        _lower_saturated_difference,
        names=("SOFTMAX",),
    ),
    Correction(
        "SOFTMAX of many elements in 8 bits",
        "sums of 512 and more shift by 32 bits and more, which TOSA does not define",
        _find_large_shift,
        _lower_large_shift,
        names=("SOFTMAX",),
    ),
)
