"""The table of ONNX's operators: name -> the rule that lowers it. No two sets of operators share one."""

from __future__ import annotations

from typing import Final

from tosa_convert.frontends.onnx.node import Rule
from tosa_convert.frontends.onnx.rules import (
    casts,
    classical,
    control_flow,
    elementwise,
    indexing,
    microsoft,
    movement,
    optimizers,
    products,
    quantized,
    recurrent,
    reductions,
    resize,
    sampling,
    windows,
)

_MODULES: Final = (
    *(casts, classical, control_flow, elementwise, indexing, movement, optimizers, products),
    *(quantized, recurrent, reductions, resize, sampling, windows),
)
#: Of ONNX's own sets of operators.
RULES: Final[dict[str, Rule]] = {
    **{kind: rule for module in _MODULES for kind, rule in module.RULES.items()},
    **microsoft.OWN_DOMAIN,
    **{
        kind: quantized.with_dequantised_weights(products.RULES[kind])
        for kind in quantized.PRODUCTS
    },
}
#: Of com.microsoft.
MICROSOFT: Final[dict[str, Rule]] = microsoft.RULES
#: Rules that take known operands themselves: they move elements without a copy, or keep what is
#: quantised. Other operators of known operands are computed by onnx.
OWN: Final[frozenset[str]] = (
    control_flow.OWN | indexing.OWN | movement.OWN | products.OWN | quantized.OWN
)
