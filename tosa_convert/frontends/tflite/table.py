"""The table of TFLite's operators: name -> the rule that lowers it."""

from __future__ import annotations

from typing import Final

from tosa_convert.frontends.tflite.node import Rule
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
