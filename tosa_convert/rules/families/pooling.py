"""Pooling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tosa_convert.rules.families.core import (
    Check,
    OperatorRules,
    ResultShape,
    Rules,
    Violation,
    rank,
)
from tosa_convert.rules.families.window import Axis, at_least, axes, length, numbers, sizes_of
from tosa_convert.rules.families.zero_points import zero_point
from tosa_convert.rules.operator_view import OperatorView

_NAMES: Final = ("height", "width")
_DIMENSIONS: Final = ("batch", *_NAMES, "channels")


def _axes(view: OperatorView) -> list[Axis]:
    return axes(
        _NAMES,
        sizes_of(view.shape("input"), 4)[1:-1],
        numbers(view, "kernel"),
        numbers(view, "stride"),
        numbers(view, "pad"),
        (1, 1),
    )


def _largest_pad(axis: Axis) -> int:
    return max((pad for pad in (axis.before, axis.after) if pad is not None), default=0)


def positions(view: OperatorView) -> Iterator[Violation]:
    """No position of the kernel has padding only, and the last one ends where the input ends."""
    for axis in _axes(view):
        if axis.kernel is not None and 1 <= axis.kernel <= _largest_pad(axis):
            yield Violation(
                f"pad-{axis.name}",
                f"pad of {axis.name} is {_largest_pad(axis)}, and the kernel is {axis.kernel}",
                f"at most {axis.kernel - 1}",
            )
        else:
            yield from axis.violations()


def _infer(view: OperatorView) -> tuple[ResultShape, ...]:
    batch, _, _, channels = sizes_of(view.shape("input"), 4)
    return ((batch, *(axis.output() for axis in _axes(view)), channels),)


_CHECKS: Final[tuple[Check, ...]] = (
    at_least("kernel", 1),
    at_least("stride", 1),
    at_least("pad", 0),
    positions,
)
_ZERO_POINTS: Final = (zero_point("input_zp"), zero_point("output_zp"))
_RANKS: Final[tuple[Check, ...]] = (rank("input", 4),)
_ADAPTIVE_RANKS: Final = (*_RANKS, length("kernel", 2), length("stride", 2), length("pad", 4))

RULES: Final[Rules] = {
    "AVG_POOL2D": OperatorRules(_infer, _RANKS, (*_CHECKS, *_ZERO_POINTS), _DIMENSIONS),
    "MAX_POOL2D": OperatorRules(_infer, _RANKS, _CHECKS, _DIMENSIONS),
    "AVG_POOL2D_ADAPTIVE": OperatorRules(
        _infer, _ADAPTIVE_RANKS, (*_CHECKS, *_ZERO_POINTS), _DIMENSIONS
    ),
    "MAX_POOL2D_ADAPTIVE": OperatorRules(_infer, _ADAPTIVE_RANKS, _CHECKS, _DIMENSIONS),
}
