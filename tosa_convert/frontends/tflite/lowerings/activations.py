"""Activations, and pooling with them, which the converter rounds otherwise or leaves out."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.frontends.tflite.lowerings.arithmetic import (
    ACTIVATIONS,
    OFFSETS,
    RANGES,
    multiplier_and_shift,
    rounded,
    single,
)
from tosa_convert.frontends.tflite.lowerings.lowering import (
    Correction,
    Decomposition,
    Given,
    Group,
    OtherFormError,
    between,
    sizes_of,
)
from tosa_convert.frontends.tflite.read import Operator as TfliteOperator
from tosa_convert.frontends.tflite.read import TfliteFile, operator_name
from tosa_convert.records import dataclass, replace

if TYPE_CHECKING:
    from tosa_convert.builder import Builder
    from tosa_convert.builder.values import Value
    from tosa_convert.frontends.tflite.lowerings.writer import Writer
    from tosa_convert.graph.model import Operator
    from tosa_convert.graph.opset import AttributeValue

_LARGEST_FLOAT: Final = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]
#: Operator -> the position of its activation among its options.
_ACTIVATION_FIELD: Final = {
    "ADD": 0,
    "SUB": 0,
    "MUL": 0,
    "FULLY_CONNECTED": 0,
    "CONV_2D": 3,
    "TRANSPOSE_CONV": 3,
    "DEPTHWISE_CONV_2D": 4,
    "AVERAGE_POOL_2D": 5,
    "MAX_POOL_2D": 5,
}
#: Multiplier and shift of a RESCALE that only adds the zero point.
_ONE: Final = (1 << 30, 30)


@dataclass(frozen=True, slots=True)
class Bounds:
    """low, high: the lowest and the highest element of the result.

    Inside of the program unsigned elements are signed, and so much smaller as `OFFSETS` says.
    """

    low: float
    high: float


def activation_bounds(model: TfliteFile, operator: TfliteOperator) -> Bounds | None:
    """Return the bounds of the activation that is part of an operator; None without one."""
    field = _ACTIVATION_FIELD[operator_name(operator.code)]
    low, high = ACTIVATIONS.get(operator.option(field, "b"), (None, None))
    if low is None:
        return None
    result = model.result(operator)
    if result.dtype == "float32":
        return Bounds(low, _LARGEST_FLOAT if high is None else high)
    if result.dtype not in RANGES or not result.scale:
        return None

    def element(number: float) -> int:
        return rounded(single(number / result.scale)) + result.zero_point

    lowest, highest = RANGES[result.dtype]
    less = OFFSETS.get(result.dtype, 0)
    above = highest if high is None else min(highest, element(high))
    return Bounds(max(lowest, element(low)) - less, above - less)


def clamp(write: Writer, bounds: Bounds, value: str, result: str) -> None:
    import numpy as np

    from tosa_convert.graph.constant import ELEMENT_BYTES, constant_of
    from tosa_convert.graph.dtypes import NanPropagationMode

    element = write.tensors[value].dtype
    low, high = (
        bytes(constant_of(np.array([number]), element).buffer).ljust(ELEMENT_BYTES, b"\0")
        for number in (bounds.low, bounds.high)
    )
    attributes: dict[str, AttributeValue] = {
        "min_val": low,
        "max_val": high,
        "nan_mode": NanPropagationMode.PROPAGATE,
    }
    write.emit("CLAMP", [value], attributes, results=[result])


def _find_activation(model: TfliteFile, operator: TfliteOperator) -> Bounds | None:
    is_quantised = model.result(operator).dtype in RANGES
    return activation_bounds(model, operator) if is_quantised else None


def _lower_activation(group: Group, facts: Bounds, write: Writer) -> None:
    """Clamp to the bounds of the operator's own activation, as TFLite rounds them."""
    last = group.making(group.result)
    if last is None:
        raise OtherFormError
    if last.spec.name == "CLAMP":
        write.operators += [one for one in group.operators if one is not last]
        clamp(write, facts, last.inputs[0], group.result)
    else:
        write.operators += group.operators


@dataclass(frozen=True, slots=True)
class _Rescaled:
    """sizes: multiplier and shift of each RESCALE."""

    sizes: tuple[tuple[int, int], ...]


def _find_relu(model: TfliteFile, operator: TfliteOperator) -> _Rescaled | None:
    given, result = model.tensors[operator.inputs[0]], model.result(operator)
    if result.dtype not in RANGES or not given.scale or given.scale == result.scale:
        return None
    sizes = multiplier_and_shift(single(given.scale / result.scale), 1.0)
    return None if sizes is None else _Rescaled((sizes,))


def _lower_relu(group: Group, facts: _Rescaled, write: Writer) -> None:
    """Rescale by the quotient of the scales in FP32, rounding twice.

    TFLite makes its multiplier of it.
    """
    rescale = group.the("RESCALE")
    corrected = _with_multiplier(rescale, facts.sizes[0], write)
    write.operators += [corrected if one is rescale else one for one in group.operators]


@dataclass(frozen=True, slots=True)
class _Slopes:
    """zero_point: of the operand. sizes: multiplier and shift above and below it.

    is_falling: whether the slope below it is negative.
    """

    zero_point: int
    result_zero_point: int
    sizes: tuple[tuple[int, int], tuple[int, int]]
    is_falling: bool


def _find_leaky_relu(model: TfliteFile, operator: TfliteOperator) -> _Slopes | None:
    given, result = model.tensors[operator.inputs[0]], model.result(operator)
    slope = 0.0 if operator.options is None else operator.options.real(0)
    if result.dtype not in RANGES or not given.scale or not result.scale:
        return None
    scales = given.scale, single(given.scale * abs(slope))
    above, below = (multiplier_and_shift(single(one / result.scale), 1.0) for one in scales)
    if above is None:
        return None
    less = OFFSETS.get(result.dtype, 0)
    zero_points = given.zero_point - less, result.zero_point - less
    # A slope that no shift has makes 0 of every number.
    return _Slopes(*zero_points, (above, below or (0, _ONE[1])), slope < 0)


def _lower_leaky_relu(group: Group, facts: _Slopes, write: Writer) -> None:
    """Choose one of two products by the sign of the number, each with TFLite's multiplier."""
    from tosa_convert.graph.dtypes import RoundingMode

    wide = write.emit("CAST", [group.only_input("RESCALE")], dtype="INT32")
    number = write.by("SUB", wide, facts.zero_point)
    zero = write.values([0], "INT32")
    products = []
    for multiplier, shift in facts.sizes:
        scale = write.values([multiplier], "INT32"), write.values([shift], "INT8")
        attributes = {"scale32": True, "rounding_mode": RoundingMode.DOUBLE_ROUND}
        attributes |= dict.fromkeys(("per_channel", "input_unsigned", "output_unsigned"), False)
        operands = [number, *scale, zero, zero]
        products.append(write.emit("RESCALE", operands, attributes, dtype="INT32"))
    above, below = products
    if facts.is_falling:
        below = write.emit("SUB", [write.number(0, below), below])
    is_negative = write.emit("GREATER", [write.number(0, number), number])
    chosen = write.emit("SELECT", [is_negative, below, above])
    moved = write.by("ADD", chosen, facts.result_zero_point)
    low, high = (-128, 127) if write.tensors[group.result].dtype.name == "INT8" else RANGES["int16"]
    write.emit("CAST", [write.between(moved, low, high)], results=[group.result])


def _with_multiplier(rescale: Operator, sizes: Sequence[int], write: Writer) -> Operator:
    """Return a RESCALE with another multiplier and another shift, rounded twice."""
    multiplier, shift = sizes
    scales = (
        write.values([multiplier], "INT32"),
        write.values([shift], "INT8"),
    )
    if not rescale.attributes["scale32"] or rescale.attributes["per_channel"]:
        raise OtherFormError
    inputs = (rescale.inputs[0], *scales, *rescale.inputs[3:])
    return write.rounding(rescale, "DOUBLE_ROUND", inputs)


@dataclass(frozen=True, slots=True)
class _Window:
    """strides, kernel: of height and width. pads: before and after each. bounds: of the activation."""

    strides: list[int]
    kernel: list[int]
    pads: list[int]
    bounds: tuple[float | None, float | None]


def _find_root_of_mean_square(model: TfliteFile, operator: TfliteOperator) -> _Window | None:
    (x,), result = model.operands(operator), model.result(operator)
    limits = ACTIVATIONS.get(operator.option(5, "b"))
    if x.dtype != "float32" or limits is None:
        return None
    strides, kernel = ([operator.option(place) for place in pair] for pair in ((2, 1), (4, 3)))
    is_same = operator.option(0, "b") == 0
    pads: list[int] = []
    for axis in (0, 1):
        reach = (result.shape[1 + axis] - 1) * strides[axis] + kernel[axis] - x.shape[1 + axis]
        before = max(0, reach) // 2 if is_same else 0
        pads += [before, reach - before]
    return _Window(strides, kernel, pads, limits)


def _lower_root_of_mean_square(b: Builder, given: Given, facts: _Window) -> list[Value]:
    """Compute the square root of the average of squares."""
    x = given.operands[0]
    shape = list(sizes_of(x))
    for axis in (1, 2):  # AVG_POOL2D has no negative padding.
        shape[axis] += min(0, facts.pads[2 * axis - 1])
    if shape != list(sizes_of(x)):
        x = b.slice(x, [0] * 4, shape)
    pads = [max(0, pad) for pad in facts.pads]
    mean = b.avg_pool2d(b.mul(x, x), kernel=facts.kernel, stride=facts.strides, pad=pads)
    return [between(b, b.reciprocal(b.rsqrt(mean)), facts.bounds)]


@dataclass(frozen=True, slots=True)
class _Pool:
    """bounds: of the activation. is_unsigned: of an average."""

    bounds: Bounds | None
    is_unsigned: bool


def _find_pool(model: TfliteFile, operator: TfliteOperator) -> _Pool | None:
    bounds = activation_bounds(model, operator)
    is_average = operator_name(operator.code) == "AVERAGE_POOL_2D"
    is_unsigned = is_average and model.result(operator).dtype == "uint8"
    return _Pool(bounds, is_unsigned) if bounds or is_unsigned else None


def _lower_pool(group: Group, facts: _Pool, write: Writer) -> None:
    """Add the activation that the converter leaves out, and round halves up for unsigned numbers."""
    value = write.like(group.result) if facts.bounds else group.result
    for one in group.returning(value):
        if one.spec.name == "AVG_POOL2D" and facts.is_unsigned:
            zero = write.values([-128], "INT8")
            one = replace(one, inputs=(one.inputs[0], zero, zero))
        write.operators.append(one)
    if facts.bounds:
        clamp(write, facts.bounds, value, group.result)


DECOMPOSITIONS: Final[dict[str, Decomposition[Any]]] = {
    "L2_POOL_2D": Decomposition(_find_root_of_mean_square, _lower_root_of_mean_square),
}

CORRECTIONS: Final[tuple[Correction[Any], ...]] = (
    Correction(
        "the pooling operator",
        "the converter leaves its activation out, and rounds averages of unsigned numbers otherwise",
        _find_pool,
        _lower_pool,
        names=("AVERAGE_POOL_2D", "MAX_POOL_2D"),
    ),
    # Of any operator but the pooling ones, whose activation the converter leaves out.
    Correction(
        "the activation of the operator",
        "the converter rounds its bounds otherwise",
        _find_activation,
        _lower_activation,
        names=tuple(name for name in _ACTIVATION_FIELD if not name.endswith("POOL_2D")),
    ),
    Correction(
        "RELU",
        "the converter divides the scales in another precision",
        _find_relu,
        _lower_relu,
        names=("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1"),
    ),
    Correction(
        "LEAKY_RELU",
        "the converter takes the larger of two products, with multipliers of another precision",
        _find_leaky_relu,
        _lower_leaky_relu,
    ),
)
