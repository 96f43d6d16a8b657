"""The rules of all operators, in families; a family is imported when a program has an operator of it."""

from __future__ import annotations

from functools import cache

from tosa_convert.graph.opset import OperatorSpec
from tosa_convert.rules.families.core import OperatorRules, Rules


@cache
def rules_of(spec: OperatorSpec) -> OperatorRules:
    return _rules_of_family(spec.family)[spec.name]


def _rules_of_family(family: str) -> Rules:
    match family:
        case "elementwise" | "activation" | "reduction":
            from tosa_convert.rules.families.elementwise import RULES
        case "layout":
            from tosa_convert.rules.families.movement import RULES
        case "gather":
            from tosa_convert.rules.families.movement import RULES
        case "conversion":
            from tosa_convert.rules.families.elementwise import RULES
        case "convolution":
            from tosa_convert.rules.families.products import RULES
        case "pooling":
            from tosa_convert.rules.families.images import RULES
        case "matmul":
            from tosa_convert.rules.families.products import RULES
        case "fft":
            from tosa_convert.rules.families.products import RULES
        case "resize":
            from tosa_convert.rules.families.images import RULES
        case "block_layout" | "block_conversion":
            from tosa_convert.rules.families.block_scaled import RULES
        case "constant":
            from tosa_convert.rules.families.elementwise import RULES
        case "control":
            from tosa_convert.rules.families.control_flow import RULES
        case _:  # "shape"
            from tosa_convert.rules.families.shapes import RULES
    return RULES
