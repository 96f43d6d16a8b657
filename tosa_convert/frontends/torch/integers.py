"""Operators of integers that torch-mlir does not lower, or takes for those of signed numbers.

torch-mlir and TOSA's operators have unsigned 8-bit numbers as signed ones of the same bits. Conversions
are repaired, and some operators computed in a wider type. Others for which the sign matters are refused:
their numbers would be wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import torch
from torch._decomp import decomposition_table

from tosa_convert.frontends.torch.unlowered_report import Unlowered, locate

_PRIMS: Final[Any] = torch.ops.prims
_ATEN: Final[Any] = torch.ops.aten
#: Operators that move elements, or whose low 8 bits do not depend on the sign of their operands.
_SIGN_DOES_NOT_MATTER: Final = frozenset(
    (
        *("view", "_unsafe_view", "reshape", "permute", "transpose", "t", "unsqueeze"),
        *("squeeze", "expand", "slice", "select", "cat", "stack", "split", "split_with_sizes"),
        *("clone", "alias", "copy", "constant_pad_nd", "index", "index_select", "gather"),
        *("scatter", "index_put", "flip", "repeat", "where", "eq", "ne", "bitwise_and"),
        *("bitwise_or", "bitwise_xor", "bitwise_not", "convert_element_type", "add", "sub"),
        *("mul", "embedding", "roll", "full_like", "zeros_like", "ones_like", "detach"),
        *("lift_fresh_copy", "_assert_tensor_metadata", "_to_copy", "broadcast_in_dim"),
        *("unbind", "slice_scatter", "select_scatter"),
    )
)
_WIDE: Final = torch.int32
_FP32: Final = torch.float32
_FP8: Final = (torch.float8_e4m3fn, torch.float8_e5m2)
#: Whether this torch makes the largest E4M3 of what does not fit; others make NaN.
_SATURATES: Final = bool(torch.tensor(1e3).to(torch.float8_e4m3fn).to(_FP32) == 448)
#: Types of torch that neither TOSA nor torch-mlir has, or that torch-mlir takes for signed ones.
_ABSENT: Final = frozenset(("uint16", "uint32", "uint64"))


def by_signed_numbers(operator: Any, *, keeps_type: bool) -> Callable[..., Any]:
    """Return an operator of uint8 in the wider type, in which unsigned numbers are positive.

    keeps_type: its result has the operands' type.
    """

    def decomposed(x: Any, *others: Any, **keywords: Any) -> Any:
        if not _is_unsigned(x):
            return NotImplemented
        wide = [_wide(one) for one in others]
        result = operator(_wide(x), *wide, **keywords)
        return result.to(torch.uint8) if keeps_type else result

    return decomposed


def clamp(x: Any, low: Any = None, high: Any = None) -> Any:
    """Clamp uint8 to numbers, of which torch takes the low 8 bits."""
    if not _is_unsigned(x):
        return NotImplemented
    bounds = [bound & 255 if isinstance(bound, int) else bound for bound in (low, high)]
    return torch.clamp(_wide(x), *bounds).to(torch.result_type(x, 0 if low is None else low))


def _is_unsigned(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype == torch.uint8


def _wide(value: Any) -> Any:
    return value.to(_WIDE) if _is_unsigned(value) else value


def extreme_without_nan(x: Any, y: Any, *, operator: Any) -> Any:
    """`fmax` and `fmin`: of a number and NaN the number."""
    x, y = torch.broadcast_tensors(x, y)
    if not x.is_floating_point():
        return operator(x, y)
    return torch.where(x != x, y, torch.where(y != y, x, operator(x, y)))


def shift(x: Any, count: Any, *, operator: Any) -> Any:
    """`<<` and `>>`, in 32 bits for those of fewer."""
    kind = torch.result_type(x, count)
    wide = _WIDE if kind.itemsize < _WIDE.itemsize else kind
    if kind.is_floating_point or kind is torch.bool or not torch.is_tensor(x):
        return NotImplemented
    if not torch.is_tensor(count):
        if not 0 <= count < 8 * kind.itemsize:
            return NotImplemented
        count = torch.full([1] * x.dim(), count, dtype=wide, device=x.device)
    return operator(x.to(wide), count.to(wide)).to(kind)


def product_of_matrices(x: Any, y: Any) -> Any:
    """Multiply matrices of integers: TOSA multiplies those of 8 and 16 bits only."""
    if x.is_floating_point() or x.dtype in (torch.int8, torch.uint8, torch.bool):
        return NotImplemented
    products = x.unsqueeze(-1) * y.unsqueeze(-3)
    return products.sum(-2, dtype=x.dtype)


def convert(x: Any, *, dtype: Any = None, **keywords: Any) -> Any:
    """`aten._to_copy`: from uint8 by way of its low 8 bits, to uint8 by way of the signed number.

    FP8 has conversions from and to other types of floating point only.
    """
    if dtype is not None and x.dtype != dtype:
        if dtype in _FP8:
            number = x if x.is_floating_point() and x.dtype not in _FP8 else convert(x, dtype=_FP32)
            if dtype is torch.float8_e4m3fn and _SATURATES:
                number = torch.clamp(number, -448.0, 448.0)
            return _PRIMS.convert_element_type(number, dtype)
        if x.dtype in _FP8 and (not dtype.is_floating_point or dtype == torch.float64):
            return convert(_convert(x, _FP32), dtype=dtype)
        if x.dtype == torch.uint8:
            return _convert(_PRIMS.convert_element_type(x, torch.int32) & 255, dtype)
        if dtype == torch.uint8:
            low = _convert(x, torch.int32) & 255
            signed = torch.where(low > 127, low - 256, low)
            return _PRIMS.convert_element_type(signed, torch.uint8)
    return decomposition_table[_ATEN._to_copy.default](x, dtype=dtype, **keywords)


def _convert(x: Any, dtype: Any) -> Any:
    return x if x.dtype == dtype else _PRIMS.convert_element_type(x, dtype)


def absent_types(program: Any) -> dict[Unlowered, int]:
    """Count the inputs and operators of a program that have or make integers that TOSA does not have."""
    found: Counter[Unlowered] = Counter()
    for node in program.graph.nodes:
        kind = str(getattr(node.meta.get("val"), "dtype", "")).removeprefix("torch.")
        if kind in _ABSENT and node.op in ("call_function", "placeholder"):
            name = str(node.target) if node.op == "call_function" else f"the input {node.name}"
            reason = f"TOSA has no {kind}; compute in int32 or int64, and convert outside"
            found[Unlowered(name, locate(node), reason)] += 1
    return found


def wrong_operators(program: Any) -> dict[Unlowered, int]:
    """Count the operators of a decomposed program that would take unsigned numbers for signed ones."""
    reason = "torch-mlir takes uint8 for signed numbers; convert the tensor first"
    return Counter(
        Unlowered(str(node.target), locate(node), reason)
        for node in program.graph.nodes
        if node.op == "call_function"
        and any(_is_unsigned(one.meta.get("val")) for one in node.all_input_nodes)
        and (getattr(node.target, "_opname", None) or str(node.target).split(".")[1])
        not in _SIGN_DOES_NOT_MATTER
    )
