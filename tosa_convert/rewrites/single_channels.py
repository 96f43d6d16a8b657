"""Joined convolutions of single channels, as TensorFlow writes them, become one DEPTHWISE_CONV2D."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tosa_convert.builder.edit import BlockEditor
from tosa_convert.graph.constant import constant_of
from tosa_convert.graph.model import DYNAMIC, Operator
from tosa_convert.graph.opset import operator

Array = npt.NDArray[Any]

_CONV2D, _DEPTHWISE, _SLICE = map(operator, ("CONV2D", "DEPTHWISE_CONV2D", "SLICE"))
OPERATORS: Final = (operator("CONCAT"),)
#: The axis of channels of an image.
_CHANNELS: Final = 3


def rewrite(op: Operator, edit: BlockEditor) -> str | None:
    """Put one convolution in place of those of single channels that a CONCAT joins, or return None."""
    convolutions = [edit.producers.get(name) for name in op.inputs]
    first = convolutions[0] if len(convolutions) > 1 else None
    if first is None or op.attributes["axis"] != _CHANNELS:
        return None
    image, weights, biases = "", [], []
    for channel, (name, one) in enumerate(zip(op.inputs, convolutions, strict=True)):
        if one is None or one.spec is not _CONV2D or edit.uses[name] != 1:
            return None
        source = _image_of(one, channel, len(convolutions), edit)
        weight, bias = _array(one.inputs[1], edit), _array(one.inputs[2], edit)
        if source is None or source != (image or source) or weight is None or bias is None:
            return None
        if weight.ndim != 4 or bias.ndim != 1 or bias.size not in (1, len(weight)):
            return None
        if not _is_alike(one, first, edit):
            return None
        image = source
        weights.append(weight)
        biases.append(np.broadcast_to(bias, weight.shape[0]))
    if len({weight.shape for weight in weights}) != 1:
        return None
    made = []
    for name, array in (
        # From [channel, result, height, width, 1] to [height, width, channel, result].
        ("weight", np.stack(weights)[..., 0].transpose(2, 3, 0, 1)),
        ("bias", np.concatenate(biases)),
    ):
        element = edit.tensors[first.inputs[1 if name == "weight" else 2]].dtype
        data = constant_of(np.ascontiguousarray(array), element)
        made.append(edit.constant_of(data, array.shape, name=f"{op.outputs[0]}_{name}"))
    operands = [image, *made, *first.inputs[3:]]
    edit.emit(_DEPTHWISE, operands, first.attributes, results=op.outputs)
    return "CONCAT of CONV2D of single channels became a DEPTHWISE_CONV2D"


def _image_of(one: Operator, channel: int, count: int, edit: BlockEditor) -> str | None:
    """Return the tensor of which a convolution takes this channel, of so many; else None."""
    cut = edit.producers.get(one.inputs[0])
    if cut is None or cut.spec is not _SLICE:
        return None
    shape = edit.tensors[cut.inputs[0]].shape
    if shape is None or len(shape) != 4 or DYNAMIC in shape or shape[_CHANNELS] != count:
        return None
    starts, sizes = (edit.sizes_of(name) for name in cut.inputs[1:])
    is_channel = starts == (0, 0, 0, channel) and sizes == (*shape[:_CHANNELS], 1)
    return cut.inputs[0] if is_channel else None


def _is_alike(one: Operator, other: Operator, edit: BlockEditor) -> bool:
    """Return whether convolutions have the same attributes, zero points and element types."""
    return one.attributes == other.attributes and all(
        edit.tensors[name].dtype is edit.tensors[twin].dtype
        and (
            place < 3
            or (edit.bits_of(name) is not None and edit.bits_of(name) == edit.bits_of(twin))
        )
        for place, (name, twin) in enumerate(zip(one.inputs, other.inputs, strict=True))
    )


def _array(name: str, edit: BlockEditor) -> Array | None:
    """Return the elements of a constant, or of a part of one, in their shape; else None."""
    data, shape = edit.data_of(name), edit.tensors[name].shape
    if data is not None and shape is not None:
        return data.numpy().reshape(shape)
    cut = edit.producers.get(name)
    if cut is None or cut.spec is not _SLICE or edit.data_of(cut.inputs[0]) is None:
        return None
    whole = _array(cut.inputs[0], edit)
    starts, sizes = (edit.sizes_of(one) for one in cut.inputs[1:])
    if whole is None or starts is None or sizes is None or sizes != shape:
        return None
    places = zip(starts, sizes, strict=True)
    part: Array = whole[tuple(slice(start, start + size) for start, size in places)]
    return part if part.shape == shape else None
