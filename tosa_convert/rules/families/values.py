"""Constants, copies, variables and operators of other domains."""

from __future__ import annotations

from typing import Final

from tosa_convert.rules.families.core import OperatorRules, ResultShape, Rules, first_shape
from tosa_convert.rules.operator_view import OperatorView


def _unknown_results(view: OperatorView) -> tuple[ResultShape, ...]:
    """Results whose shapes do not follow from operands."""
    return (None,) * len(view.operator.outputs)


def _declared(view: OperatorView) -> tuple[ResultShape, ...]:
    """Infer nothing for a result that has the shape that it is declared with."""
    return (None,)


def _no_result(view: OperatorView) -> tuple[ResultShape, ...]:
    return ()


RULES: Final[Rules] = {
    # `verify` compares the data of a constant with its declared shape.
    "CONST": OperatorRules(_declared),
    "CUSTOM": OperatorRules(_unknown_results),
    "IDENTITY": OperatorRules(first_shape),
    # A variable is declared by its tensor: `verify` refuses this operator in a graph.
    "VARIABLE": OperatorRules(_no_result),
    "VARIABLE_READ": OperatorRules(first_shape),
    "VARIABLE_WRITE": OperatorRules(first_shape),
}
