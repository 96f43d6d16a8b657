"""Unsigned 8-bit tensors: torch-mlir and TOSA's operators have the same bits as signed numbers.

Conversions are repaired. Operators for which the sign matters are refused: their numbers would be
wrong.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch._decomp import decomposition_table

from tosa_convert.frontends.torch.dialect import Unlowered
from tosa_convert.frontends.torch.unlowered_report import locate

_PRIMS: Final[Any] = torch.ops.prims
_ATEN: Final[Any] = torch.ops.aten
#: Operators that move elements, or whose low 8 bits do not depend on the sign of their operands.
_SIGN_DOES_NOT_MATTER: Final = frozenset(
    [
        "view",
        "_unsafe_view",
        "reshape",
        "permute",
        "transpose",
        "t",
        "unsqueeze",
        "squeeze",
        "expand",
        "slice",
        "select",
        "cat",
        "stack",
        "split",
        "split_with_sizes",
        "clone",
        "alias",
        "copy",
        "constant_pad_nd",
        "index",
        "index_select",
        "gather",
        "scatter",
        "index_put",
        "flip",
        "repeat",
        "where",
        "eq",
        "ne",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "bitwise_not",
        "convert_element_type",
        "add",
        "sub",
        "mul",
        "embedding",
        "roll",
        "full_like",
        "zeros_like",
        "ones_like",
        "detach",
        "lift_fresh_copy",
        "_assert_tensor_metadata",
        "_to_copy",
        "broadcast_in_dim",
        "unbind",
        "slice_scatter",
        "select_scatter",
    ]
)


def convert(x: Any, *, dtype: Any = None, **keywords: Any) -> Any:
    """`aten._to_copy`: from uint8 by way of its low 8 bits, to uint8 by way of the signed number."""
    if dtype is not None and x.dtype != dtype:
        if x.dtype == torch.uint8:
            return _convert(_PRIMS.convert_element_type(x, torch.int32) & 255, dtype)
        if dtype == torch.uint8:
            number = _convert(x, torch.int32)
            signed = ((number + 128) & 255) - 128
            return _PRIMS.convert_element_type(signed, torch.uint8)
    return decomposition_table[_ATEN._to_copy.default](x, dtype=dtype, **keywords)


def _convert(x: Any, dtype: Any) -> Any:
    return x if x.dtype == dtype else _PRIMS.convert_element_type(x, dtype)


def wrong_operators(program: Any) -> dict[Unlowered, int]:
    """Count the operators of a decomposed program that would take unsigned numbers for signed ones."""
    found: dict[Unlowered, int] = {}
    for node in program.graph.nodes:
        if node.op != "call_function" or not _takes_unsigned(node):
            continue
        name = getattr(node.target, "_opname", None) or str(node.target).split(".")[1]
        if name not in _SIGN_DOES_NOT_MATTER:
            row = Unlowered(
                str(node.target),
                locate(node),
                "torch-mlir takes uint8 for signed numbers; convert the tensor first",
            )
            found[row] = found.get(row, 0) + 1
    return found


def _takes_unsigned(node: Any) -> bool:
    values = [argument.meta.get("val") for argument in node.all_input_nodes]
    return any(isinstance(v, torch.Tensor) and v.dtype == torch.uint8 for v in values)
