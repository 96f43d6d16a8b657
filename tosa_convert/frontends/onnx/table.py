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
    linear_models,
    microsoft,
    movement,
    optimizers,
    patches,
    pooling,
    products,
    quantized,
    recurrent,
    reductions,
    resize,
    sampling,
    spectral,
    tokens,
    trees,
)

#: Of ONNX's own sets of operators.
RULES: Final[dict[str, Rule]] = {
    **basic.RULES,
    **casts.RULES,
    **control_flow.RULES,
    **elementwise.RULES,
    **indexing.RULES,
    **linear_models.RULES,
    **microsoft.OWN_DOMAIN,
    **movement.RULES,
    **optimizers.RULES,
    **patches.RULES,
    **pooling.RULES,
    **products.RULES,
    **quantized.RULES,
    **recurrent.RULES,
    **reductions.RULES,
    **resize.RULES,
    **sampling.RULES,
    **spectral.RULES,
    **tokens.RULES,
    **trees.RULES,
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
    basic.OWN | control_flow.OWN | indexing.OWN | movement.OWN | products.OWN | quantized.OWN
)
