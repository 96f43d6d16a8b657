"""Tensors that hold their scales: values are data and scales, as a pair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from tosa_convert.errors import fail
from tosa_convert.graph.dtypes import BLOCK_SCALE, FP16, FP32
from tosa_convert.graph.model import Tensor
from tosa_convert.records import NamedTuple, replace
from tosa_convert.reference.block_scaled import multiply, numbers_of, to_blocks
from tosa_convert.reference.call import Array, Call, Operation, Type

#: After the name of a tensor: the key of its scales.
SCALE_SUFFIX: Final = "/scale"
#: Operators that move whole blocks, so that data and scales move alike.
_MOVES_BLOCKS: Final = frozenset(
    (
        *("CONCAT", "GATHER", "IDENTITY", "RESHAPE", "RESIZE", "REVERSE", "ROW_GATHER", "SCATTER"),
        *("SLICE", "TILE", "TRANSPOSE"),
    )
)


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
    """Return the type of the scales of a tensor that holds them."""
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
    if call.spec.name not in _MOVES_BLOCKS:
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
