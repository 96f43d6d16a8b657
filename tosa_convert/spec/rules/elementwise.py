"""Elementwise operators: operands of one rank, sizes that are equal or 1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tosa_convert.graph.model import DYNAMIC
from tosa_convert.spec.operator_view import OperatorView
from tosa_convert.spec.rules.core import (
    OperatorRules,
    ResultShape,
    Rules,
    Violation,
    first_shape,
    known,
    listing,
)
from tosa_convert.spec.values import Shape, TensorType

#: Operands that are not broadcast.
_APART: Final = frozenset({"shift", "input1_zp", "output_zp", "table"})


def broadcast(shapes: list[Shape]) -> Shape:
    """The shape that shapes of one rank broadcast to; None if one of them has no rank.

    Example:
        >>> broadcast([(2, 1), (1, 3)]), broadcast([(2, -1), (1, 1)])
        ((2, 3), (2, -1))
    """
    ranked = [shape for shape in shapes if shape is not None]
    if len(ranked) < len(shapes):
        return None
    return tuple(map(_broadcast_size, zip(*ranked, strict=True)))


def _broadcast_size(sizes: tuple[int, ...]) -> int:
    others = {size for size in sizes if size != DYNAMIC} - {1}
    if others:
        return others.pop()
    return DYNAMIC if DYNAMIC in sizes else 1


def broadcast_operands(view: OperatorView) -> list[TensorType]:
    """The operands that are broadcast together."""
    return [
        value
        for row, value in view.operands()
        if isinstance(value, TensorType) and row.name not in _APART
    ]


def _broadcast_names(view: OperatorView) -> list[str]:
    return [row.name for row, _ in view.operands() if row.name not in _APART]


def operands_have_one_rank(view: OperatorView) -> Iterator[Violation]:
    """The operands that are broadcast have one rank."""
    ranks = {value.rank for value in broadcast_operands(view)} - {None}
    if len(ranks) > 1:
        operands = listing(view, _broadcast_names(view))
        yield Violation("rank", f"operands have different ranks: {operands}", "one rank")


def operands_broadcast(view: OperatorView) -> Iterator[Violation]:
    """Sizes in each dimension are equal or 1."""
    shapes = [value.shape for value in broadcast_operands(view) if value.shape is not None]
    for dimension, sizes in enumerate(zip(*shapes, strict=True)):
        if len({size for size in sizes if known(size)} - {1}) > 1:
            found = " and ".join(str(size) for size in sizes if known(size))
            operands = listing(view, _broadcast_names(view))
            yield Violation(
                "broadcast",
                f"sizes {found} in dimension {dimension}: {operands}",
                "equal sizes, or 1",
            )


def _broadcast_shape(view: OperatorView) -> tuple[ResultShape, ...]:
    return (broadcast([value.shape for value in broadcast_operands(view)]),)


_BROADCAST: Final = OperatorRules(
    _broadcast_shape, (operands_have_one_rank,), (operands_broadcast,)
)
_UNARY: Final = OperatorRules(first_shape)

RULES: Final[Rules] = {
    "ADD": _BROADCAST,
    "ABS": _UNARY,
}
