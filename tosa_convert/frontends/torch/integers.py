"""Operators of integers that are written with others, and types of integers that TOSA does not have."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import torch

from tosa_convert.frontends.torch.unlowered_report import Unlowered, locate

#: Types of torch that TOSA does not have.
_ABSENT: Final = frozenset(("uint16", "uint32", "uint64"))


def extreme_without_nan(x: Any, y: Any, *, operator: Any) -> Any:
    """`fmax` and `fmin`: of a number and NaN the number."""
    x, y = torch.broadcast_tensors(x, y)
    if not x.is_floating_point():
        return operator(x, y)
    return torch.where(x != x, y, torch.where(y != y, x, operator(x, y)))


def product_of_matrices(x: Any, y: Any) -> Any:
    """Multiply matrices of integers: TOSA multiplies those of 8 and 16 bits only."""
    if x.is_floating_point() or x.dtype in (torch.int8, torch.uint8, torch.bool):
        return NotImplemented
    products = x.unsqueeze(-1) * y.unsqueeze(-3)
    return products.sum(-2, dtype=x.dtype)


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
