"""Reductions along an axis."""

from __future__ import annotations

from typing import Final

from tosa_convert.rules.families.core import (
    OperatorRules,
    ResultShape,
    Rules,
    axis_of,
    family_rules,
    rank_between,
)
from tosa_convert.rules.operator_view import OperatorView


def _without_axis(view: OperatorView) -> tuple[ResultShape, ...]:
    shape, axis = view.shape("input"), view.attributes["axis"]
    return (None if shape is None else shape[:axis] + shape[axis + 1 :],)


def _one_at_axis(view: OperatorView) -> tuple[ResultShape, ...]:
    shape, axis = view.shape("input"), view.attributes["axis"]
    return (None if shape is None else (*shape[:axis], 1, *shape[axis + 1 :]),)


_RANKS: Final = (rank_between("input", 1),)
_CHECKS: Final = (axis_of("input"),)

RULES: Final[Rules] = {
    **family_rules(OperatorRules(_one_at_axis, _RANKS, _CHECKS), "reduction"),
    "ARGMAX": OperatorRules(_without_axis, _RANKS, _CHECKS),
}
