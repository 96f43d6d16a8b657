"""The rules of all operators, in families; a family is imported when a program has an operator of it."""

from __future__ import annotations

from functools import cache

from tosa_convert.graph.opset import OperatorSpec
from tosa_convert.rules.families.checks import OperatorRules, Rules


@cache
def rules_of(spec: OperatorSpec) -> OperatorRules:
    return _rules_of_family(spec.family)[spec.name]


def _rules_of_family(family: str) -> Rules:
    match family:
        case "elementwise" | "activation" | "reduction" | "conversion" | "constant":
            from tosa_convert.rules.families.elementwise import RULES
        case "layout" | "gather":
            from tosa_convert.rules.families.movement import RULES
        case "convolution" | "matmul" | "fft":
            from tosa_convert.rules.families.products import RULES
        case "pooling":
            from tosa_convert.rules.families.windows import RULES
        case "resize":
            from tosa_convert.rules.families.resize import RULES
        case "block_layout" | "block_conversion":
            from tosa_convert.rules.families.block_scaled import RULES
        case "control":
            from tosa_convert.rules.families.control_flow import RULES
        case "shape":
            from tosa_convert.rules.families.shapes import RULES
        case _:
            raise LookupError(f"no module has the rules of the family {family!r}")
    return RULES
