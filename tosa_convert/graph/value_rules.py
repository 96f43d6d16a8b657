"""The rules for a single tensor or shape value: name, sizes, data and scales."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import BLOCK_SCALE, BLOCK_SCALED, INT64
from tosa_convert.graph.model import (
    DYNAMIC,
    INT32_MAX,
    MAX_RANK,
    MAX_UNKNOWN_SIZES,
    BlockScale,
    ShapeValue,
    Tensor,
)

INT4_MINUS_8: Final = (
    "an INT4 element is -8; INT4 in TOSA goes from -7 to 7, and readers corrupt -8"
)
INT4_HINT: Final = "requantise the weight to -7..7"
DATA_LENGTH_HINT: Final = "constant data needs a static shape and one element for each place in it"

#: The code of a finding, what is wrong, and what to do or "".
Problem = tuple[str, str, str]


def tensor_problems(key: str, tensor: Tensor) -> Iterator[Problem]:
    """Iterate over the rules that a tensor of the name `key` breaks."""
    if tensor.name != key:
        yield "malformed-tensor", f'its name is "{tensor.name}"', ""
    shape = tensor.shape or ()
    if len(shape) > MAX_RANK:
        message = f"the shape has {len(shape)} dimensions, expected at most {MAX_RANK}"
        yield (
            "unsupported-shape",
            message,
            "merge dimensions with a RESHAPE where the model is built",
        )
        # Counting the elements of such a shape could take forever.
        return
    for size in shape:
        if not DYNAMIC <= size <= INT32_MAX:
            hint = f"a dimension is {DYNAMIC} (dynamic) or 0 to {INT32_MAX}"
            yield "unsupported-shape", f"dimension {size} in shape {list(shape)}", hint
            break
    if tensor.variable_name and not tensor.variable:
        message = f'it has the variable name "{tensor.variable_name}" but is not a variable'
        yield "malformed-tensor", message, ""
    if tensor.scale is not None:
        yield from _scale_problems(tensor, tensor.scale)
    if tensor.data is not None:
        yield from _data_problems(tensor, tensor.data)


def _scale_problems(tensor: Tensor, scale: BlockScale) -> Iterator[Problem]:
    block, data, count = int(scale.shape), scale.data, tensor.element_count()
    last = tensor.shape[-1] if tensor.shape else 0
    if not tensor.shape or (last != DYNAMIC and (last % block or last == 0)):
        message = f"shape {tensor.shape} cannot be divided into blocks of {block}"
        yield "malformed-tensor", message, f"the last dimension must be a multiple of {block}"
    elif tensor.dtype not in BLOCK_SCALED or scale.dtype is not BLOCK_SCALE:
        types = ", ".join(map(str, BLOCK_SCALED))
        hint = f"block-scaled tensors are {types} with scales of {BLOCK_SCALE}"
        yield "malformed-tensor", f"block-scaled {tensor.dtype} with scales of {scale.dtype}", hint
    elif data is not None and (
        count is None or data.count * block != count or data.dtype is not scale.dtype
    ):
        found = f"{data.count} scales of {data.dtype}"
        message = f"{found} for shape {tensor.shape} in blocks of {block} of {scale.dtype}"
        yield "data-length", message, ""


def _data_problems(tensor: Tensor, data: Constant) -> Iterator[Problem]:
    if tensor.element_count() != data.count:
        shape = "unranked" if tensor.shape is None else list(tensor.shape)
        yield "data-length", f"{data.count} elements of data for shape {shape}", DATA_LENGTH_HINT
    if data.dtype is not tensor.dtype:
        yield "malformed-tensor", f"{data.dtype} data in a tensor of {tensor.dtype}", ""
    elif data.holds_int4_minus_8():
        yield "int4-minus-8", INT4_MINUS_8, INT4_HINT


def shape_problems(key: str, shape: ShapeValue) -> Iterator[Problem]:
    """Iterate over the rules that a shape value of the name `key` breaks."""
    rank, data = shape.rank, shape.data
    if shape.name != key:
        yield "malformed-tensor", f'its name is "{shape.name}"', ""
    if not 0 <= rank <= INT32_MAX:
        yield "malformed-tensor", f"rank {rank}, expected 0 to {INT32_MAX}", ""
    elif data is None and rank > MAX_UNKNOWN_SIZES:
        # Rules count sizes, and nothing in the file backs these.
        message = f"{rank} sizes that are not known, expected at most {MAX_UNKNOWN_SIZES}"
        yield "unsupported-shape", message, ""
    elif data is not None and data.count != rank:
        yield "data-length", f"{data.count} sizes in a shape of rank {rank}", ""
    elif data is not None and data.dtype is not INT64:
        yield "malformed-tensor", f"{data.dtype} data in a shape, expected INT64", ""
