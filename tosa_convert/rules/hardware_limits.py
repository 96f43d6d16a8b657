"""Sizes and strides with which hardware does not run an operator, found by compiling for it.

Vela 5.2.0 compiled each operator for an Ethos-U55 and an Ethos-U65, whose answers were the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from tosa_convert.graph.dtypes import ResizeMode
from tosa_convert.graph.model import DYNAMIC, Block, Operator
from tosa_convert.rules.operator_view import OperatorView
from tosa_convert.rules.values import TypeTable
from tosa_convert.rules.verdict import judge

#: An operator of a block -> what of it the hardware does not run.
Limit = Callable[[Block, Operator], Iterator[str]]
_SUMS: Final = ("CONV2D", "CONV3D", "DEPTHWISE_CONV2D")


def _ethos_u55(block: Block, operator: Operator) -> Iterator[str]:
    limit = _ETHOS_U55.get(operator.spec.name)
    if limit is not None and _is_valid(block, operator):
        yield from limit(block, operator)
    if operator.spec.name in _SUMS and _type(block, operator.outputs[0]) == "INT48":
        users = [user.spec.name for user in block.operators if operator.outputs[0] in user.inputs]
        if users != ["RESCALE"] or operator.outputs[0] in block.outputs:
            yield "to INT48 unless its only use is a RESCALE"


def _is_valid(block: Block, operator: Operator) -> bool:
    """Return whether TOSA allows an operator, and all its sizes are known: else others report it."""
    names = {*operator.inputs, *operator.outputs}
    tensors = {name: value for name, value in block.tensors.items() if name in names}
    shapes = {name: value for name, value in block.shapes.items() if name in names}
    if names - tensors.keys() - shapes.keys():
        return False
    if any(value.shape is None or DYNAMIC in value.shape for value in tensors.values()):
        return False
    # The offset of RESIZE may be -1, which is no unknown size.
    if any(value.data is None for value in shapes.values()):
        return False
    part = replace(block, operators=[operator], tensors=tensors, shapes=shapes)
    types = TypeTable().of_block(part)
    inputs, outputs = (
        tuple(map(types.__getitem__, rows)) for rows in (operator.inputs, operator.outputs)
    )
    return not judge(OperatorView(operator, inputs, outputs, {})).violations


def _argmax(block: Block, operator: Operator) -> Iterator[str]:
    shape = _shape(block, operator.inputs[0])
    if len(shape) > 4 or (len(shape) == 4 and shape[0] > 1):
        yield "of more than 4 dimensions, or of several batches"
    elif _integer(operator, "axis") != len(shape) - 1:
        yield "over another axis than the last"
    elif shape[-1] > 127:
        yield "over more than 127 elements"


def _avg_pool2d(block: Block, operator: Operator) -> Iterator[str]:
    if any(_integers(operator, "pad")) and max(_integers(operator, "kernel")) > 8:
        yield "with padding and a kernel of more than 8"


def _conv3d(block: Block, operator: Operator) -> Iterator[str]:
    if _shape(block, operator.inputs[1])[1] > 1:
        yield "with a weight of more than one in depth"


def _depthwise_conv2d(block: Block, operator: Operator) -> Iterator[str]:
    if max(_integers(operator, "stride")) > 3:
        yield "with a stride of more than 3"


def _rescale(block: Block, operator: Operator) -> Iterator[str]:
    if _type(block, operator.inputs[0]) != "INT48":
        return
    makers = [one.spec.name for one in block.operators if operator.inputs[0] in one.outputs]
    if not set(makers) & set(_SUMS):
        yield "from INT48 unless the operand is the result of a convolution"


def _resize(block: Block, operator: Operator) -> Iterator[str]:
    sizes = _shape(block, operator.inputs[0])
    scale, offset, border = (block.shapes[name].values() or () for name in operator.inputs[1:])
    if scale == (1, 1, 1, 1):
        return
    if operator.attributes["mode"] == ResizeMode.BILINEAR:
        yield "in mode BILINEAR"
    elif sizes[0] > 1:
        yield "of several batches"
    elif not all(
        sizes[1 + axis] == 1
        or _is_upscaling(scale[2 * axis : 2 * axis + 2], offset[axis], border[axis])
        for axis in range(2)
    ):
        yield "unless it is by 2, 4 or 8, with corners or with half pixels aligned"


def _is_upscaling(scale: tuple[int, ...], offset: int, border: int) -> bool:
    """Return whether an axis is enlarged 2, 4 or 8 times in a usual way, or not at all.

    Two ways are usual.
    """
    numerator, denominator = scale
    if numerator == denominator:
        return (offset, border) == (0, 0)
    half = numerator // 2 - 1
    return numerator // denominator in (2, 4, 8) and (denominator, offset, border) in (
        (1, 0, 0),
        (2, -half, half),
    )


def _reverse(block: Block, operator: Operator) -> Iterator[str]:
    shape = _shape(block, operator.inputs[0])
    axis = _integer(operator, "axis")
    is_last = axis == len(shape) - 1
    if shape[axis] == 1 or (is_last and math.prod(shape[:-3]) > 1):
        return
    if is_last:
        yield "over the last axis of one batch"
    elif _type(block, operator.inputs[0]) == "INT32":
        yield "of INT32"


def _transpose_conv2d(block: Block, operator: Operator) -> Iterator[str]:
    stride = _integers(operator, "stride")
    weight, image = (_shape(block, operator.inputs[index])[1:3] for index in (1, 0))
    row, column = (size == 1 and kernel == 1 for size, kernel in zip(image, weight, strict=True))
    if stride not in ((1, 1), (2, 2)) and not (
        (row and stride == (1, 2)) or (column and stride == (2, 1))
    ):
        yield f"with a stride of {stride[0]} by {stride[1]}"


def _type(block: Block, name: str) -> str:
    tensor = block.tensors.get(name)
    return "" if tensor is None else str(tensor.dtype)


def _shape(block: Block, name: str) -> tuple[int, ...]:
    tensor = block.tensors.get(name)
    return (tensor.shape or ()) if tensor is not None else ()


def _integers(operator: Operator, name: str) -> tuple[int, ...]:
    found = operator.attributes[name]
    assert isinstance(found, tuple)
    return found


def _integer(operator: Operator, name: str) -> int:
    found = operator.attributes[name]
    assert isinstance(found, int)
    return found


_ETHOS_U55: Final[dict[str, Limit]] = {
    "ARGMAX": _argmax,
    "AVG_POOL2D": _avg_pool2d,
    "CONV3D": _conv3d,
    "DEPTHWISE_CONV2D": _depthwise_conv2d,
    "RESCALE": _rescale,
    "RESIZE": _resize,
    "REVERSE": _reverse,
    "TRANSPOSE_CONV2D": _transpose_conv2d,
}
#: Hardware -> what it does not run of an operator.
LIMITS: Final[dict[str, Limit]] = {"ethos-u55": _ethos_u55}
