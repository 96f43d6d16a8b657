"""Maps TFLite's operators to the rules that lower them; others become CUSTOM."""

from __future__ import annotations

from typing import Final

from tosa_convert.frontends.lowering.scope import Array, NotLowered
from tosa_convert.frontends.lowering.types import carrier
from tosa_convert.frontends.tflite.node import Node, Rule, as_held, element_of
from tosa_convert.frontends.tflite.rules import (
    control_flow,
    elementwise,
    lstm,
    movement,
    normalization,
    products,
    quantised,
    recurrent,
    reductions,
    spectral,
    tables,
    windows,
)

RULES: Final[dict[str, Rule]] = {
    **elementwise.RULES,
    **tables.RULES,
    **quantised.RULES,
    **control_flow.RULES,
    **lstm.RULES,
    **movement.RULES,
    **normalization.RULES,
    **products.RULES,
    **recurrent.RULES,
    **reductions.RULES,
    **spectral.RULES,
    **windows.RULES,
}
OF_SPECTRA: Final = frozenset(("REAL", "IMAG", "COMPLEX_ABS"))
#: Operators of known numbers whose results may be the same for several sizes, and differ for others.
DECIDING: Final = frozenset(
    (
        *("GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "EQUAL", "NOT_EQUAL"),
        *("MAXIMUM", "MINIMUM", "FLOOR_MOD", "SIGN"),
    )
)


#: What the domain of TFLite's operators is called.
_DOMAIN = "TFL"


def custom(n: Node) -> list[Array]:
    """Keep an operator, whose operands have the numbers that they have in TFLite."""
    s = n.scope
    if any(size < 0 for one in n.results for size in one.shape):
        raise NotLowered(
            "the sizes of its results are not known", "make the model with fixed sizes"
        )
    values = [s.whole(n.plain(index)) for index in range(len(n.given)) if n.has(index)]
    types = [(one.dtype if one.dtype == "uint8" else element_of(one), one) for one in n.results]
    made = s.builder.custom(
        values,
        [(carrier(dtype), one.shape) for dtype, one in types],
        operator_name=n.operator.custom,
        domain_name=_DOMAIN,
        implementation_attrs=bytes(n.operator.custom_options),
    )
    arrays = (s.array(value, dtype) for value, (dtype, _) in zip(made, types, strict=True))
    return [as_held(s, a, one) for a, one in zip(arrays, n.results, strict=True)]
