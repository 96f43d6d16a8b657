"""What decompositions need to know of an operator of a TFLite model."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from tosa_convert.frontends.tflite.file import Operator, Tensor, TfliteFile

Facts = Mapping[str, Any]
#: The facts of an operator; None if it is not decomposed, but left to the converter.
Find = Callable[[TfliteFile, Operator], Facts | None]
#: Codes of activations -> the lowest and the highest number.
_ACTIVATIONS: Final = {
    0: (None, None),
    1: (0.0, None),
    2: (-1.0, 1.0),
    3: (0.0, 6.0),
}


def operands_of(model: TfliteFile, operator: Operator, count: int = 0) -> list[Tensor]:
    """Return the operands of an operator, without those that it leaves out.

    Raises ValueError if there are not `count` of them; 0 is any number.
    """
    found = [model.tensors[one] for one in operator.inputs if one >= 0]
    if count and len(found) != count:
        raise ValueError(f"found {len(found)} operands, expected {count}")
    return found


def result_of(model: TfliteFile, operator: Operator) -> Tensor:
    return model.tensors[operator.outputs[0]]


def integers(tensor: Tensor) -> list[int]:
    """Return the elements of a constant of int32; [] of any other tensor."""
    data = tensor.data
    if tensor.dtype != "int32" or len(data) % 4:
        return []
    return list(struct.unpack(f"<{len(data) // 4}i", data))


def bounds(activation: int) -> tuple[float | None, float | None] | None:
    """Return the lower and the upper bound of an activation; None if it is none that clamps."""
    return _ACTIVATIONS.get(activation)
