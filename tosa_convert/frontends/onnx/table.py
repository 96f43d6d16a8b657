"""The table of ONNX's operators: name -> the rule that lowers it. No two sets of operators share one."""

from __future__ import annotations

from typing import Final

from tosa_convert.frontends.onnx.node import Rule
from tosa_convert.frontends.onnx.rules import (
    basic,
    casts,
    control_flow,
    elementwise,
    indexing,
    movement,
    pooling,
    products,
    reductions,
)

#: Of ONNX's own sets of operators.
RULES: Final[dict[str, Rule]] = {
    **basic.RULES,
    **casts.RULES,
    **control_flow.RULES,
    **elementwise.RULES,
    **indexing.RULES,
    **movement.RULES,
    **pooling.RULES,
    **products.RULES,
    **reductions.RULES,
}
#: Of com.microsoft.
MICROSOFT: Final[dict[str, Rule]] = {}
#: Rules that take known operands themselves: they move elements without a copy, or keep what is
#: quantised. Other operators of known operands are computed by onnx.
OWN: Final[frozenset[str]] = (
    basic.OWN | control_flow.OWN | indexing.OWN | movement.OWN | products.OWN
)
