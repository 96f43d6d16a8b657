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
_MOVES_BLOCKS: Final = frozenset(("CONCAT", "IDENTITY", "RESHAPE", "RESIZE", "ROW_GATHER"))


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
    """Return the result of an operator with a tensor that holds its scales.

    Args:
        call: the operator; its operands are not used.
        values: its operands.
        function: what it computes of plain tensors.
        scales: the type of the scales of its result; None if that is a plain tensor.
        where: the path of the operator.

    Raises:
        TosaConvertError: "unsupported-operator" for operators whose result TOSA does not define.
    """
    if scales is None:
        pairs = zip(values, call.types, strict=True)
        operands = tuple(_numbers(value, kind, call) for value, kind in pairs)
        # A number of a block has the type of the accumulator.
        element = FP16 if call.attributes.get("acc_type") is FP16 else FP32
        types = tuple(
            Type(element, kind.shape) if isinstance(value, Scaled) else kind
            for value, kind in zip(values, call.types, strict=True)
        )
        return function(replace(call, operands=operands, types=types))
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
    parts = [
        function(
            replace(call, operands=tuple(_part(value, name) for value in values), results=(kind,))
        )
        for name, kind in (("data", target), ("scale", scales))
    ]
    return Scaled(*parts)


def _part(value: Value, name: str) -> Array:
    if not isinstance(value, Scaled):
        return value
    return value.data if name == "data" else value.scale


def _numbers(value: Value, kind: Type, call: Call) -> Array:
    """Return the numbers that a value stands for, as FP32 or FP64."""
    if not isinstance(value, Scaled):
        return value
    wide = np.float32 if call.precision == "own" else np.float64
    return multiply(numbers_of(value.data, kind.dtype, wide), value.scale.astype(wide))
