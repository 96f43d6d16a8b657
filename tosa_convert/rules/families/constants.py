"""Constants: only the data of a result says what its type is, and `verify` compares the two."""

from __future__ import annotations

from typing import Final

from tosa_convert.rules.families.core import OperatorRules, ResultShape, Rules
from tosa_convert.rules.operator_view import OperatorView
from tosa_convert.rules.values import ShapeType


def _declared(view: OperatorView) -> tuple[ResultShape, ...]:
    """Return the sizes of a !tosa.shape as declared; a tensor has any shape that it is declared with."""
    sizes = [value.sizes if isinstance(value, ShapeType) else None for value in view.outputs]
    return tuple(sizes) or (None,)


RULES: Final[Rules] = {
    "CONST": OperatorRules(_declared),
    "CONST_SHAPE": OperatorRules(_declared),
}
