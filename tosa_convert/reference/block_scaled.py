"""Block-scaled (MX) data: consecutive elements share a scale, which is a power of two."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from tosa_convert.errors import fail
from tosa_convert.graph.dtypes import BLOCK_SCALE, FP16, FP32, DType
from tosa_convert.graph.model import Tensor
from tosa_convert.reference.call import Array, Call, Operation, Type
from tosa_convert.reference.parts import EACH, PART, slices

#: An MXINT8 element is a number of 64ths.
_MXINT8_UNIT: Final = 64
#: The greatest number of an MXINT8 element, in units.
_MXINT8_MOST: Final = 127
#: The exponents of FP8UE8M0.
_LEAST_SCALE, _GREATEST_SCALE = -127, 127


def scaled(call: Call, name: str, place: Any = ...) -> Array:
    """Return the numbers that the operands NAME_data and NAME_scale stand for, in FP32 or wider."""
    data, scale = call.raw(f"{name}_data")[place], call.raw(f"{name}_scale")[place]
    wide = np.float32 if call.precision == "own" else np.float64
    return multiply(numbers_of(data, call.type_of(f"{name}_data").dtype, wide), scale.astype(wide))


def numbers_of(data: Array, element: DType | None, wide: type = np.float64) -> Array:
    """Return elements as numbers; those of MXINT8 are codes in INT8, or numbers already."""
    numbers: Array = data.astype(wide, order="C")
    if element is not None and element.name == "MXINT8" and data.dtype.kind == "i":
        numbers /= _MXINT8_UNIT
    return numbers


def multiply(numbers: Array, scale: Array) -> Array:
    """Multiply numbers, in the order of memory, by the scale of their block; return them."""
    blocks = numbers.reshape(*scale.shape, -1)
    blocks *= scale[..., None]
    return numbers


def cast_from(call: Call) -> Array:
    """Return the numbers that block-scaled data stand for."""
    return scaled(call, "input")


def cast_to(call: Call) -> tuple[Array, Array]:
    """Return data and scales.

    The scale of a block is the least power of two by which its largest absolute value can be divided
    so that it rounds to a number of the element type, within the exponents of FP8UE8M0. Elements are
    divided by it and rounded to nearest, ties to even. A block with NaN or infinity has the scale NaN;
    its elements are NaN, or the greatest power of two of a type without NaN, or 127 of MXINT8.
    """
    data, scales = call.results
    assert data.dtype is not None
    is_wide = call.precision != "own"
    return to_blocks(call.value("input_data"), data.dtype, scales.shape, is_wide=is_wide)


def to_blocks(
    numbers: Array, element: DType, shape: tuple[int, ...], *, is_wide: bool = False
) -> tuple[Array, Array]:
    """Return data and scales for numbers; is_wide: quotients in FP64, neither rounded nor saturated."""
    kind = np.float64 if is_wide else element.numpy
    blocks = numbers.reshape(*shape, -1)
    data, scales = np.empty(blocks.shape, kind), np.empty(shape, np.float64)
    size = min(PART, max(numbers.nbytes, PART) // EACH) // max(1, blocks.shape[-1])
    for part in slices(shape, max(1, size)):
        data[part], scales[part] = _to_blocks(blocks[part], element, is_wide=is_wide)
    return data.reshape(numbers.shape), scales


def _to_blocks(numbers: Array, element: DType, *, is_wide: bool) -> tuple[Array, Array]:
    """Return the data and the scale of each block, which is the last axis; see `to_blocks`."""
    most, limit = _greatest(element)
    blocks = numbers.astype(np.float64)
    largest = np.max(np.abs(blocks), axis=-1)
    mantissa, exponent = np.frexp(np.where(np.isfinite(largest), largest, 1.0) / limit)
    least = np.where(largest == 0, _LEAST_SCALE, exponent - (mantissa == 0.5))
    power = np.ldexp(1.0, np.clip(least, _LEAST_SCALE, _GREATEST_SCALE))
    blocks /= power[..., None]
    is_finite = np.isfinite(largest)[..., None]
    scale = np.where(is_finite[..., 0], power, np.nan)
    if is_wide:
        return np.where(is_finite, blocks, np.nan), scale
    np.clip(blocks, -most, most, out=blocks)
    if not element.is_float:
        units = np.rint(np.nan_to_num(blocks) * _MXINT8_UNIT)
        return np.where(is_finite, units, _MXINT8_MOST), scale
    other = math.nan if element.bits == 8 else 2.0 ** math.floor(math.log2(most))
    return np.where(is_finite, blocks, other), scale


def _greatest(element: DType) -> tuple[float, float]:
    """Return the greatest number of a type, and the greatest FP64 number that rounds to it."""
    if not element.is_float:
        most, unit = _MXINT8_MOST / _MXINT8_UNIT, 1 / _MXINT8_UNIT
    else:
        import ml_dtypes

        finfo: Any = ml_dtypes.finfo
        row = finfo(element.numpy)
        most = float(row.max)
        unit = float(row.eps) * 2.0 ** math.floor(math.log2(most))
    halfway = most + unit / 2
    is_even = (most / unit) % 2 == 0
    return most, halfway if is_even else math.nextafter(halfway, 0)


def reshape(call: Call) -> tuple[Array, ...]:
    """Return data, and scales if there are any, in the shapes of the results."""
    names = [name for name in ("input", "input_scale") if call.has(name)]
    rows = zip(names, call.results, strict=True)
    return tuple(call.raw(name).reshape(target.shape) for name, target in rows)


OPERATIONS: Final[dict[str, Operation]] = {
    "CAST_FROM_BLOCK_SCALED": cast_from,
    "CAST_TO_BLOCK_SCALED": cast_to,
    "RESHAPE_BLOCK_SCALED": reshape,
}


# -- tensors that hold their scales: values are data and scales, as a pair -------------------------

#: After the name of a tensor: the key of its scales.
SCALE_SUFFIX: Final = "/scale"


class Scaled(NamedTuple):
    """The value of a tensor that holds its scales."""

    data: Array
    scale: Array


#: The value of any tensor or shape.
Value: TypeAlias = Array | Scaled


def by_key(name: str, value: Value) -> dict[str, Array]:
    """Return the arrays of a value: under its name, and the scales under "NAME/scale"."""
    if isinstance(value, Scaled):
        return {name: value.data, name + SCALE_SUFFIX: value.scale}
    return {name: value}


def plain(value: Value) -> Array:
    """Return the data of a value."""
    return value.data if isinstance(value, Scaled) else value


def scales_type(tensor: Tensor) -> Type:
    assert tensor.scale is not None
    shape = tuple(tensor.shape or ())
    return Type(BLOCK_SCALE, (*shape[:-1], shape[-1] // int(tensor.scale.shape)))


def compute_scaled(
    call: Call, values: Sequence[Value], function: Operation, scales: Type | None, where: str
) -> Any:
    """Return the result of an operator with a tensor that holds its scales."""
    if scales is None:
        return function(with_numbers(call, values))
    (target,) = call.results
    if call.spec.name == "CAST":
        assert target.dtype is not None
        numbers = _numbers(values[0], call.types[0], call)
        is_wide = call.precision != "own"
        blocks = to_blocks(call.widened(numbers), target.dtype, scales.shape, is_wide=is_wide)
        return Scaled(*blocks)
    # Those that move whole blocks move data and scales alike.
    if call.spec.accuracy != "operand" and call.spec.name != "RESIZE":
        message = f"{call.spec.name} of tensors that hold their scales is not defined"
        raise fail("unsupported-operator", where, message)
    data = tuple(map(plain, values))
    scale = tuple(value.scale if isinstance(value, Scaled) else value for value in values)
    if call.spec.name == "SLICE":
        block = target.shape[-1] // scales.shape[-1]
        whole, start, _ = scale
        scale = (whole, np.append(start[:-1], start[-1] // block), np.array(scales.shape))
    return Scaled(
        function(replace(call, operands=data, results=(target,))),
        function(replace(call, operands=scale, results=(scales,))),
    )


def with_numbers(call: Call, values: Sequence[Value]) -> Call:
    """Return a call with the numbers that the values of its operands stand for."""
    pairs = zip(values, call.types, strict=True)
    operands = tuple(_numbers(value, kind, call) for value, kind in pairs)
    # A number of a block has the type of the accumulator.
    element = FP16 if call.attributes.get("acc_type") is FP16 else FP32
    types = tuple(
        Type(element, kind.shape) if isinstance(value, Scaled) else kind
        for value, kind in zip(values, call.types, strict=True)
    )
    return replace(call, operands=operands, types=types)


def _numbers(value: Value, kind: Type, call: Call) -> Array:
    """Return the numbers that a value stands for, as FP32 or FP64."""
    if not isinstance(value, Scaled):
        return value
    wide = np.float32 if call.precision == "own" else np.float64
    return multiply(numbers_of(value.data, kind.dtype, wide), value.scale.astype(wide))
