"""The rules for a single tensor or shape value: name, sizes, data and scales."""

from __future__ import annotations

from tosa_convert.errors import Findings
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

INT4_MINUS_8 = "an INT4 element is -8; INT4 in TOSA goes from -7 to 7, and readers corrupt -8"
INT4_HINT = "requantise the weight to -7..7"
DATA_LENGTH_HINT = "constant data needs a static shape and one element for each place in it"


def check_tensor(findings: Findings, where: str, key: str, tensor: Tensor) -> None:
    """Add a finding for each rule that a tensor of the name `key` breaks."""
    if tensor.name != key:
        findings.add("malformed-tensor", where, f'its name is "{tensor.name}"')
    rank = len(tensor.shape or ())
    if rank > MAX_RANK:
        findings.add(
            "unsupported-shape",
            where,
            f"the shape has {rank} dimensions, expected at most {MAX_RANK}",
            "merge dimensions with a RESHAPE where the model is built",
        )
        # Counting the elements of such a shape could take forever.
        return
    _check_sizes(findings, where, tensor.shape or ())
    if tensor.variable_name and not tensor.variable:
        findings.add(
            "malformed-tensor",
            where,
            f'it has the variable name "{tensor.variable_name}" but is not a variable',
        )
    if tensor.scale is not None:
        _check_scale(findings, where, tensor, tensor.scale)
    if tensor.data is not None:
        _check_data(findings, where, tensor, tensor.data)


def _check_sizes(findings: Findings, where: str, shape: tuple[int, ...]) -> None:
    for size in shape:
        if not DYNAMIC <= size <= INT32_MAX:
            findings.add(
                "unsupported-shape",
                where,
                f"dimension {size} in shape {list(shape)}",
                f"a dimension is {DYNAMIC} (dynamic) or 0 to {INT32_MAX}",
            )
            return


def _check_scale(findings: Findings, where: str, tensor: Tensor, scale: BlockScale) -> None:
    block = int(scale.shape)
    last = tensor.shape[-1] if tensor.shape else 0
    count = tensor.element_count()
    if not tensor.shape or (last != DYNAMIC and (last % block or last == 0)):
        findings.add(
            "malformed-tensor",
            where,
            f"shape {tensor.shape} cannot be divided into blocks of {block}",
            f"the last dimension must be a multiple of {block}",
        )
    elif tensor.dtype not in BLOCK_SCALED or scale.dtype is not BLOCK_SCALE:
        findings.add(
            "malformed-tensor",
            where,
            f"block-scaled {tensor.dtype} with scales of {scale.dtype}",
            f"block-scaled tensors are {', '.join(map(str, BLOCK_SCALED))} with scales of "
            f"{BLOCK_SCALE}",
        )
    elif scale.data is not None and (
        count is None or scale.data.count * block != count or scale.data.dtype is not scale.dtype
    ):
        findings.add(
            "data-length",
            where,
            f"{scale.data.count} scales of {scale.data.dtype} for shape {tensor.shape} in "
            f"blocks of {block} of {scale.dtype}",
        )


def _check_data(findings: Findings, where: str, tensor: Tensor, data: Constant) -> None:
    if tensor.element_count() != data.count:
        shape = "unranked" if tensor.shape is None else list(tensor.shape)
        findings.add(
            "data-length",
            where,
            f"{data.count} elements of data for shape {shape}",
            DATA_LENGTH_HINT,
        )
    if data.dtype is not tensor.dtype:
        findings.add("malformed-tensor", where, f"{data.dtype} data in a tensor of {tensor.dtype}")
    elif data.holds_int4_minus_8():
        findings.add("int4-minus-8", where, INT4_MINUS_8, INT4_HINT)


def check_shape_value(findings: Findings, where: str, key: str, shape: ShapeValue) -> None:
    """Add a finding for each rule that a shape value of the name `key` breaks."""
    if shape.name != key:
        findings.add("malformed-tensor", where, f'its name is "{shape.name}"')
    if not 0 <= shape.rank <= INT32_MAX:
        findings.add("malformed-tensor", where, f"rank {shape.rank}, expected 0 to {INT32_MAX}")
    elif shape.data is None and shape.rank > MAX_UNKNOWN_SIZES:
        # Rules count sizes, and nothing in the file backs these.
        message = f"{shape.rank} sizes that are not known, expected at most {MAX_UNKNOWN_SIZES}"
        findings.add("unsupported-shape", where, message)
    elif shape.data is not None and shape.data.count != shape.rank:
        findings.add(
            "data-length", where, f"{shape.data.count} sizes in a shape of rank {shape.rank}"
        )
    elif shape.data is not None and shape.data.dtype is not INT64:
        findings.add(
            "malformed-tensor", where, f"{shape.data.dtype} data in a shape, expected INT64"
        )
