"""Building programs in Python: an operator is a function, and TOSA's rules are applied at each call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tosa_convert.builder.values import DTypeName, Value, Variable, dtype_of

if TYPE_CHECKING:
    from tosa_convert.builder.builder import Builder

__all__ = ["Builder", "DTypeName", "Value", "Variable", "dtype_of"]


def __getattr__(name: str) -> Any:
    # Upgrades of older programs need the editor of blocks, and not the functions of all operators.
    if name != "Builder":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tosa_convert.builder.builder import Builder

    globals()[name] = Builder
    return Builder
