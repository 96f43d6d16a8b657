"""The bounds, in FP64, of TOSA's accuracy rules, found by runs of the reference model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from tosa_convert.graph.dtypes import FP32, DType
from tosa_convert.graph.opset import table_of
from tosa_convert.reference import convolutions, products, reductions, windows
from tosa_convert.reference.block_scaled import multiply, scaled
from tosa_convert.reference.call import Array, Call, Operation, Type

#: Errors that POW is allowed, in units of the element type: of a logarithm near 0, relative to a
#: logarithm, and of EXP relative to its argument.
_LOG_NEAR_ZERO, _LOG, _EXP = 0.55, 5.5, 2.0
#: The constant error of EXP in POW, in units, for FP32 and for shorter types.
_EXP_CONSTANT, _EXP_OF_SHORT = 3.0, 1.0


def _of_magnitudes(function: Operation, *, with_border: bool = False) -> Callable[[Call], Array]:
    """Return the operation on absolute values that are at least normal numbers."""

    def bound(call: Call) -> Array:
        is_short = call.precision == "own"
        kind = np.float32 if is_short else np.float64
        pairs = zip(call.operands, call.types, strict=True)
        operands = tuple(_magnitude(operand, row.dtype, kind) for operand, row in pairs)
        least = _smallest_normal(call.types[0].dtype) if with_border else 0.0
        results = (Type(FP32, call.result.shape),) if is_short else call.results
        found = replace(call, operands=operands, outside=least, results=results)
        return np.asarray(function(found))

    return bound


def _magnitude(array: Array, element: DType | None, kind: type = np.float64) -> Array:
    """Return the absolute value of floating point, in FP64 or another type."""
    if element is None:
        return array
    size: Array = np.abs(array.astype(kind, copy=False))
    return np.asarray(np.maximum(size, kind(_smallest_normal(element)), out=size))


def _smallest_normal(element: DType | None) -> float:
    if element is None:
        return 0.0
    return float(2.0 ** int(_row_of(element).minexp))


def _of_scaled(function: Operation, *names: str) -> Operation:
    """Return the bound of an operator on block-scaled data, whose numbers are those of FP32."""

    def bound(call: Call) -> Array:
        operands, types = list(call.operands), list(call.types)
        rows = [row.name for row in call.spec.operands]
        for name in names:
            data, scale = rows.index(f"{name}_data"), rows.index(f"{name}_scale")
            operands[data] = scaled(call, name)
            types[data] = Type(FP32, types[data].shape)
            operands[scale] = np.ones(operands[scale].shape)
        return _of_magnitudes(function)(replace(call, operands=tuple(operands), types=tuple(types)))

    return bound


def _of_window(function: Operation, *, with_border: bool = False) -> Operation:
    """Return the bound of a convolution; without local_bound, all elements are the largest."""
    of_magnitudes = _of_magnitudes(function, with_border=with_border)

    def bound(call: Call) -> Array:
        if call.attributes["local_bound"]:
            return of_magnitudes(call)
        image, *others = call.operands
        largest = float(_magnitude(call.raw("input"), call.types[0].dtype).max(initial=0.0))
        whole = replace(call, operands=(np.full(image.shape, largest), *others))
        if not with_border:
            return of_magnitudes(whole)
        weight = _magnitude(call.raw("weight"), call.type_of("weight").dtype)
        sums = weight.sum(axis=tuple(range(1, weight.ndim)))
        found = largest * sums + _magnitude(call.raw("bias"), call.type_of("bias").dtype)
        return np.asarray(np.broadcast_to(found, call.result.shape))

    return bound


def _transposed(call: Call) -> Array:
    """Return the bound of TRANSPOSE_CONV2D; weights are at least normal numbers of the image's type."""
    # `tosa_reference_check_dotproduct` has it for every operator, and the reference model only here.
    image, weight, *others = call.types
    types = (image, Type(image.dtype, weight.shape), *others)
    return np.asarray(_of_window(convolutions.convolve_transposed)(replace(call, types=types)))


def _transform(call: Call) -> tuple[Array, Array]:
    """Return the sums of absolute terms of FFT2D (angles of axes reduced) or RFFT2D (of their sum)."""
    least = _smallest_normal(call.types[0].dtype)
    parts = [_magnitude(operand, FP32) for operand in call.operands]
    if not call.attributes["local_bound"]:
        parts = [np.full_like(part, part.max(initial=0.0)) for part in parts]
    _, height, width = parts[0].shape
    columns = call.result.shape[-1]
    real, imaginary = np.empty(call.result.shape), np.empty(call.result.shape)
    y, x = np.arange(height)[:, None], np.arange(width)
    for row in range(height):
        for column in range(columns):
            if len(parts) > 1:
                turns = y * row % height / height + x * column % width / width
            else:
                turns = (
                    (y * row * width + x * column * height) % (height * width) / (height * width)
                )
            cosine = np.maximum(np.abs(np.cos(2 * np.pi * turns)), least)
            sine = np.maximum(np.abs(np.sin(2 * np.pi * turns)), least)
            if len(parts) == 1:
                sine = np.where(2 * turns % 1 == 0, least, sine)
            pairs = ((real, (cosine, sine)), (imaginary, (sine, cosine)))
            for target, factors in pairs:
                terms = [part * factor for part, factor in zip(parts, factors, strict=False)]
                target[:, row, column] = np.sum(terms, axis=(0, 2, 3))
    return real, imaginary


def _pow(call: Call) -> Array:
    """Return the error of exp(y log(x)) in which the logarithm and EXP have their allowed errors."""
    element = call.types[0].dtype
    assert element is not None
    unit = 2.0 ** -int(_row_of(element).nmant)
    base, exponent = call.value("input1"), call.value("input2")
    logarithm, power = np.log(base), np.power(base, exponent)
    of_log = np.abs(exponent) * np.maximum(_LOG * np.abs(logarithm), _LOG_NEAR_ZERO) * unit
    argument = exponent * logarithm + of_log
    of_exp = (
        (_EXP_CONSTANT if element is FP32 else _EXP_OF_SHORT) + _EXP * np.abs(argument)
    ) * unit
    error = power * np.expm1(of_log) + np.maximum(power, _smallest_normal(element)) * of_exp
    return np.where(exponent == 0, 0.0, error)


def _row_of(element: DType) -> Any:
    from ml_dtypes import finfo

    find: Any = finfo
    row: Any = find(element.numpy)
    return row


def _scales(call: Call) -> Array:
    scale = call.raw("input_scale")
    ones = np.ones(call.raw("input_data").shape)
    return multiply(ones, scale.astype(np.float64))


def _of_values(function: Callable[[Array], Array], name: str = "input1") -> Operation:
    return lambda call: function(call.value(name))


#: Operator -> its bound. "SIN" has its operand.
_OWN: Final[dict[str, Operation]] = {
    "AVG_POOL2D": _of_magnitudes(windows.pool_average),
    "AVG_POOL2D_ADAPTIVE": _of_magnitudes(windows.pool_average),
    "CAST_FROM_BLOCK_SCALED": _scales,
    "CONV2D": _of_window(convolutions.convolve, with_border=True),
    "CONV2D_BLOCK_SCALED": _of_scaled(convolutions.convolve_block_scaled, "input", "weight"),
    "CONV3D": _of_window(convolutions.convolve),
    "COS": _of_values(lambda value: 1 + np.abs(value)),
    "DEPTHWISE_CONV2D": _of_window(convolutions.convolve_depthwise),
    "EXP": _of_values(lambda value: 2 * np.abs(value)),
    "FFT2D": _transform,
    "LOG": _of_values(lambda value: np.full(value.shape, 5.0)),
    "MATMUL": _of_magnitudes(products.multiply_matrices),
    "MATMUL_T": _of_magnitudes(products.multiply_by_transposed),
    "MATMUL_T_BLOCK_SCALED": _of_scaled(products.multiply_block_scaled, "a", "b"),
    "POW": _pow,
    "REDUCE_SUM": _of_magnitudes(reductions.OPERATIONS["REDUCE_SUM"]),
    "RFFT2D": _transform,
    "SIGMOID": _of_values(lambda value: 2 * (1 + np.abs(value)), "input"),
    "SIN": lambda call: call.value("input1"),
    "TANH": _of_values(lambda value: 8 * np.abs(value), "input"),
    "TRANSPOSE_CONV2D": _transposed,
}
BOUNDS: Final = table_of("bound", _OWN)
