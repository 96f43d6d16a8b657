"""Which lowerings of TFLite's converter are corrected: those that give other numbers than TFLite.

By experiment, with the programs of tests/frontends/tflite_operators. TFLite's numbers are those of its
reference kernels.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from tosa_convert.frontends.process.interface import Correction
from tosa_convert.frontends.tflite.file import (
    Operator,
    Tensor,
    TfliteFile,
    expected_form,
)
from tosa_convert.frontends.tflite.names import operator_name
from tosa_convert.frontends.tflite.numbers import multiplier_and_shift, rounded, single
from tosa_convert.frontends.tflite.placeholders import abs_table
from tosa_convert.frontends.tflite.sigmoid import SIGMOID

#: Elements of a constant that are handed over to be lowered again.
_MOST_ELEMENTS: Final = 4096
_LARGEST_FLOAT: Final = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]
#: Activation that is part of an operator -> its lowest and highest number.
_ACTIVATIONS: Final = {1: (0.0, math.inf), 2: (-1.0, 1.0), 3: (0.0, 6.0)}
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
_POOLS: Final = ("AVERAGE_POOL_2D", "MAX_POOL_2D")
_QUANTISED: Final = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767)}
_UNSIGNED: Final = {"uint8": 128, "uint16": 32768}
#: Fractions of positions in TFLite's kernel of RESIZE_BILINEAR for integers.
_FRACTIONS: Final = 1 << 10
#: TOSA's limits of RESIZE: the largest scale, and offsets and borders in scales.
_LARGEST_SCALE: Final = 1 << 11
_MOST_SCALES: Final = 16
#: Of TFLite's kernels of LOGISTIC and TANH for int16: the bits of fractions of their inputs, the largest
#: multiplier, and how close the logarithm of a scale is to an integer that is a power of 2.
_SIGMOID_BITS: Final = 12
_LARGEST_MULTIPLIER: Final = 32767
_POWER_OF_TWO: Final = 1e-3


def corrections(model: TfliteFile) -> Iterator[Correction]:
    """Find the corrections of the program of a model."""
    for operator in model.operators:
        name = operator_name(operator.code)
        if operator.outputs:
            with expected_form(model, operator.index, name):
                yield from _OF_OPERATOR.get(name, _by_activation)(model, operator)


def _result(model: TfliteFile, operator: Operator) -> Tensor:
    return model.tensors[operator.outputs[0]]


def _bounds(model: TfliteFile, operator: Operator) -> list[float]:
    """Return the lowest and the highest element of the result by its activation; [] without one.

    Inside of the program unsigned elements are signed, 128 smaller.
    """
    field = _ACTIVATION_FIELD.get(operator_name(operator.code))
    if field is None or operator.options is None:
        return []
    limits = _ACTIVATIONS.get(operator.options.number(field, "b"))
    result = _result(model, operator)
    if limits is None:
        return []
    if result.dtype == "float32":
        return [limits[0], min(limits[1], _LARGEST_FLOAT)]
    if result.dtype not in _QUANTISED or not result.scale:
        return []
    lowest, highest = _QUANTISED[result.dtype]
    low = max(lowest, rounded(single(limits[0] / result.scale)) + result.zero_point)
    high = highest
    if limits[1] < math.inf:
        high = min(highest, rounded(single(limits[1] / result.scale)) + result.zero_point)
    less = _UNSIGNED.get(result.dtype, 0)
    return [low - less, high - less]


def _by_activation(model: TfliteFile, operator: Operator) -> Iterator[Correction]:
    result = _result(model, operator)
    if result.dtype in _QUANTISED and (bounds := _bounds(model, operator)):
        yield Correction(kind="activation", name=result.name, bounds=bounds)


def _fully_connected(model: TfliteFile, operator: Operator) -> Iterator[Correction]:
    result = _result(model, operator)
    if result.dtype in ("int8", "uint8"):
        yield Correction(kind="round-once", name=result.name)
    given, weights = (model.tensors[one] for one in operator.inputs[:2])
    if result.dtype == "int16" and (sizes := _row_multipliers(given, weights, result)):
        yield Correction(kind="accumulated", name=result.name, sizes=sizes)
    yield from _by_activation(model, operator)


def _row_multipliers(given: Tensor, weights: Tensor, result: Tensor) -> list[int]:
    """Return the multipliers of a product's rows, then their shifts; [] if TOSA does not have them."""
    products = [given.scale * scale for scale in weights.scales]
    if len(products) == 1:
        products = [single(products[0])]
    rows = [multiplier_and_shift(product, result.scale) for product in products]
    return [row[part] for part in (0, 1) for row in rows] if all(rows) else []


def _sigmoid(model: TfliteFile, operator: Operator) -> Iterator[Correction]:
    """LOGISTIC and TANH of int16, with the multiplier and the shift of their inputs."""
    given, result = model.tensors[operator.inputs[0]], _result(model, operator)
    if result.dtype != "int16" or not given.scale:
        return
    name = operator_name(operator.code)
    exact = math.log2(given.scale)
    left = round(exact) + _SIGMOID_BITS
    if abs(exact - round(exact)) < _POWER_OF_TWO and left in (0, int(name == "TANH")):
        sizes = [3 << left, 0]
    else:
        multiplier, shift = given.scale * 3 * (1 << _SIGMOID_BITS), 0
        while multiplier <= _LARGEST_MULTIPLIER / 2 and shift <= 30:
            multiplier, shift = multiplier * 2, shift + 1
        sizes = [int(multiplier), shift]
    if sizes[0] <= _LARGEST_MULTIPLIER and sizes[1] <= 30:
        kind = f"{name.lower()}-int16"
        yield Correction(kind=kind, name=result.name, sizes=sizes, table=list(SIGMOID))


def _exponential(model: TfliteFile, operator: Operator) -> Iterator[Correction]:
    result = _result(model, operator)
    if result.dtype == "int16":
        yield Correction(kind="table-int16", name=result.name)


def _relu(model: TfliteFile, operator: Operator) -> Iterator[Correction]:
    given, result = model.tensors[operator.inputs[0]], _result(model, operator)
    if result.dtype in _QUANTISED and given.scale and given.scale != result.scale:
        sizes = multiplier_and_shift(single(given.scale / result.scale), 1.0)
        if sizes:
            yield Correction(kind="rescaled", name=result.name, sizes=sizes)


def _leaky_relu(model: TfliteFile, operator: Operator) -> Iterator[Correction]:
    given, result = model.tensors[operator.inputs[0]], _result(model, operator)
    slope = 0.0 if operator.options is None else operator.options.real(0)
    if result.dtype not in _QUANTISED or not given.scale or not result.scale or not 0 < slope <= 1:
        return
    scales = given.scale, single(given.scale * slope)
    rows = [multiplier_and_shift(single(scale / result.scale), 1.0) for scale in scales]
    if all(rows):
        sizes = [number for row in rows for number in row]
        yield Correction(kind="rescaled-twice", name=result.name, sizes=sizes)


def _pool(model: TfliteFile, operator: Operator) -> Iterator[Correction]:
    result, bounds = _result(model, operator), _bounds(model, operator)
    is_average = operator_name(operator.code) == "AVERAGE_POOL_2D"
    is_unsigned = is_average and result.dtype == "uint8"
    if bounds or is_unsigned:
        yield Correction(kind="pool", name=result.name, bounds=bounds, is_unsigned=is_unsigned)


def _floor_mod(model: TfliteFile, operator: Operator) -> Iterator[Correction]:
    divisor = _elements(model, operator, 1)
    yield Correction(kind="floor-mod", name=_result(model, operator).name, divisor=divisor)


def _gelu(model: TfliteFile, operator: Operator) -> Iterator[Correction]:
    if operator.options is not None and operator.options.number(0, "b"):
        return
    table = _gelu_table(model, operator)
    kind = "exact-gelu-table" if table else "exact-gelu"
    yield Correction(kind=kind, name=_result(model, operator).name, table=table)


def _gelu_table(model: TfliteFile, operator: Operator) -> list[int]:
    """Compute GELU for the elements -128 to 127 of int8, as TFLite's kernel rounds the values.

    Those of uint8 are 128 smaller inside of the program.
    """
    given, result = (model.tensors[one] for one in (operator.inputs[0], operator.outputs[0]))
    if {given.dtype, result.dtype} not in ({"int8"}, {"uint8"}) or not given.scale * result.scale:
        return []
    less = _UNSIGNED.get(given.dtype, 0)
    values = []
    for element in range(-128, 128):
        x = given.scale * (element - (given.zero_point - less))
        scaled = x * 0.5 * (1 + math.erf(x * math.sqrt(0.5))) / result.scale
        values.append(max(-128, min(127, rounded(scaled) + result.zero_point - less)))
    return values


def _abs(model: TfliteFile, operator: Operator) -> Iterator[Correction]:
    if table := abs_table(model, operator):
        yield Correction(kind="abs-table", name=_result(model, operator).name, table=table)


def _cast(model: TfliteFile, operator: Operator) -> Iterator[Correction]:
    given, result = model.tensors[operator.inputs[0]], _result(model, operator)
    if given.dtype.startswith("float") and result.dtype in ("int8", "uint8", "int16", "int32"):
        is_unsigned = result.dtype == "uint8"
        yield Correction(kind="truncated", name=result.name, is_unsigned=is_unsigned)


def _quantize(model: TfliteFile, operator: Operator) -> Iterator[Correction]:
    given, result = model.tensors[operator.inputs[0]], _result(model, operator)
    if given.dtype == "float32" and result.dtype in ("int8", "uint8"):
        less = _UNSIGNED.get(result.dtype, 0)
        bounds: list[float] = [number - less for number in _QUANTISED[result.dtype]]
        yield Correction(kind="saturated", name=result.name, bounds=bounds)


def _exclusive_or(model: TfliteFile, operator: Operator) -> Iterator[Correction]:
    result = _result(model, operator)
    if result.dtype in _UNSIGNED:
        yield Correction(kind="unsigned-bits", name=result.name)


def _scatter(model: TfliteFile, operator: Operator) -> Iterator[Correction]:
    result = _result(model, operator)
    if result.dtype == "uint8":
        yield Correction(kind="unsigned-zeros", name=result.name)


def _softmax(model: TfliteFile, operator: Operator) -> Iterator[Correction]:
    result = _result(model, operator)
    if result.dtype == "int16":
        bounds: list[float] = [-32768, 32767]
        yield Correction(kind="saturated-difference", name=result.name, bounds=bounds)


def _resize(model: TfliteFile, operator: Operator) -> Iterator[Correction]:
    """Positions as TFLite rounds them: down for the nearest neighbour, to fractions for integers."""
    given, result = model.tensors[operator.inputs[0]], _result(model, operator)
    options = operator.options
    aligned, half = (
        options is not None and bool(options.number(field, "b"))
        for field in _RESIZE_FIELDS[operator_name(operator.code)]
    )
    pairs = list(zip(given.shape[1:3], result.shape[1:3], strict=True))
    if len(given.shape) != 4 or min(*given.shape, *result.shape) < 1:
        return
    if operator_name(operator.code) == "RESIZE_NEAREST_NEIGHBOR":
        if aligned or half:
            return
        axes = [_rounded_down(*pair) for pair in pairs]
    elif result.dtype in ("int8", "int16"):
        axes = [_in_fractions(*pair, aligned=aligned, half=half) for pair in pairs]
    else:
        return
    if all(map(_is_allowed, axes)):
        sizes = [number for axis in axes for number in axis[:2]]
        sizes += [axis[2] for axis in axes] + [axis[3] for axis in axes]
        yield Correction(kind="resized", name=result.name, sizes=sizes)


#: Operator -> the positions of align_corners and half_pixel_centers among its options.
_RESIZE_FIELDS: Final = {"RESIZE_BILINEAR": (2, 3), "RESIZE_NEAREST_NEIGHBOR": (0, 1)}
#: Numerator and denominator of a scale, offset and border, as RESIZE has them for an axis.
_Axis = tuple[int, int, int, int]


def _rounded_down(given: int, result: int) -> _Axis:
    """Map each output position to the input position at or below it; RESIZE takes the nearest."""
    shared = math.gcd(given, result)
    numerator, denominator = 2 * result // shared, 2 * given // shared
    return _with_border(given, result, numerator, denominator, -numerator // 2)


def _in_fractions(given: int, result: int, *, aligned: bool, half: bool) -> _Axis:
    """Steps that are rounded to fractions, as TFLite does for integers."""
    if aligned and result > 1:
        step = (_FRACTIONS * (given - 1) + (result - 1) // 2) // (result - 1)
    else:
        step = (_FRACTIONS * given + result // 2) // result
    offset = step // 2 - _FRACTIONS // 2 if half else 0
    return _with_border(given, result, _FRACTIONS, step, offset)


def _with_border(given: int, result: int, numerator: int, denominator: int, offset: int) -> _Axis:
    border = (result - 1) * denominator - (given - 1) * numerator + offset
    return numerator, denominator, offset, border


def _is_allowed(axis: _Axis) -> bool:
    numerator, denominator, offset, border = axis
    most = _MOST_SCALES * numerator
    return (
        numerator <= _LARGEST_SCALE
        and 0 < denominator < most
        and -numerator <= offset < most
        and -most <= border < numerator
    )


def _elements(model: TfliteFile, operator: Operator, position: int) -> list[float]:
    """Return the elements of a constant operand.

    [] if it is not one, or has another type or many elements.
    """
    if len(operator.inputs) <= position:
        return []
    tensor = model.tensors[operator.inputs[position]]
    form = {"float32": "f", "int32": "i"}.get(tensor.dtype)
    if form is None or len(tensor.data) > 4 * _MOST_ELEMENTS:
        return []
    return [float(value) for value in struct.unpack(f"<{len(tensor.data) // 4}{form}", tensor.data)]


_OF_OPERATOR: Final[Mapping[str, Callable[[TfliteFile, Operator], Iterator[Correction]]]] = {
    "FULLY_CONNECTED": _fully_connected,
    **dict.fromkeys(_POOLS, _pool),
    **dict.fromkeys(("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1"), _relu),
    "LEAKY_RELU": _leaky_relu,
    **dict.fromkeys(("LOGISTIC", "TANH"), _sigmoid),
    "EXP": _exponential,
    "FLOOR_MOD": _floor_mod,
    "GELU": _gelu,
    "ABS": _abs,
    "CAST": _cast,
    "QUANTIZE": _quantize,
    "BITWISE_XOR": _exclusive_or,
    "SCATTER_ND": _scatter,
    "SOFTMAX": _softmax,
    **dict.fromkeys(_RESIZE_FIELDS, _resize),
}
