"""Resizing of images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tosa_convert.graph.dtypes import ResizeMode
from tosa_convert.graph.model import DYNAMIC
from tosa_convert.records import NamedTuple
from tosa_convert.rules.families.core import (
    OperatorRules,
    ResultShape,
    Rules,
    Violation,
    known,
    rank,
)
from tosa_convert.rules.families.window import length, sizes_of
from tosa_convert.rules.operator_view import OperatorView
from tosa_convert.rules.resize_axis import LARGEST_NUMERATOR, RATIO, distance
from tosa_convert.rules.values import Size

#: Sizes of images are below this.
_SIZE_BOUND: Final = 1 << 14


class _Axis(NamedTuple):
    """An axis of the image; each number is None or DYNAMIC if it is not known."""

    name: str
    size: Size
    numerator: Size
    denominator: Size
    offset: Size
    border: Size

    def scaled(self) -> int | None:
        """Return the distance from first to last position times the denominator; None if unknown."""
        if (
            self.size is None
            or self.size < 0
            or self.numerator is None
            or self.offset is None
            or self.border is None
        ):
            return None
        return distance(self.size, self.numerator, self.offset, self.border)

    def output(self) -> int | None:
        """Return the size of the result; None if it is unknown."""
        scaled = self.scaled()
        if scaled is None or self.denominator is None or self.denominator < 1:
            return None
        return scaled // self.denominator + 1


def _axes(view: OperatorView) -> tuple[_Axis, ...]:
    _, height, width, _ = sizes_of(view.shape("input"), 4)
    scale, offset, border = (view.sizes(name) for name in ("scale", "offset", "border"))
    return (
        _Axis("height", height, scale[0], scale[1], offset[0], border[0]),
        _Axis("width", width, scale[2], scale[3], offset[1], border[1]),
    )


def axis_conditions(view: OperatorView) -> Iterator[Violation]:
    """Check that scale, offset, border and the sizes that follow are in their ranges."""
    for axis in _axes(view):
        ranges = [*_scale(axis)] or [
            *_in_range("offset", axis, axis.offset, -1, RATIO),
            *_in_range("border", axis, axis.border, -RATIO, 1),
        ]
        yield from ranges or _sizes(axis)


def _scale(axis: _Axis) -> Iterator[Violation]:
    """Check that the scale is positive, not too large, and does not shrink too much."""
    where, numerator, denominator = f"the scale of {axis.name}", axis.numerator, axis.denominator
    if numerator is not None and not 1 <= numerator <= LARGEST_NUMERATOR:
        yield Violation(
            "scale-numerator",
            f"numerator of {where} is {numerator}",
            f"1 to {LARGEST_NUMERATOR}",
        )
    elif denominator is not None and denominator < 1:
        yield Violation(
            "scale-denominator", f"denominator of {where} is {denominator}", "at least 1"
        )
    elif numerator is not None and denominator is not None and denominator >= RATIO * numerator:
        yield Violation(
            "scale-denominator",
            f"denominator of {where} is {denominator}, and its numerator is {numerator}",
            f"at most {RATIO * numerator - 1}",
        )


def _in_range(name: str, axis: _Axis, value: Size, fewest: int, bound: int) -> Iterator[Violation]:
    """Check that a value is at least `fewest` numerators and below `bound` numerators."""
    if value is None or axis.numerator is None:
        return
    lowest, highest = fewest * axis.numerator, bound * axis.numerator - 1
    if not lowest <= value <= highest:
        yield Violation(
            f"{name}-range",
            f"{name} of {axis.name} is {value}, and the numerator of its scale is {axis.numerator}",
            f"{lowest} to {highest}",
        )


def _sizes(axis: _Axis) -> Iterator[Violation]:
    """Sizes are below 16384, and that of the result is a whole number above 0."""
    if known(axis.size) and axis.size is not None and axis.size >= _SIZE_BOUND:
        yield Violation(
            f"input-{axis.name}-range",
            f"{axis.name} of input is {axis.size}",
            f"at most {_SIZE_BOUND - 1}",
        )
        return
    scaled, size = axis.scaled(), axis.output()
    if scaled is None or size is None or axis.denominator is None:
        return
    found = (
        f"({axis.name} of input - 1) * numerator - offset + border is "
        f"({axis.size} - 1) * {axis.numerator} - {axis.offset} + {axis.border} = {scaled}"
    )
    if scaled < 0:
        yield Violation(f"{axis.name}-below-one", found, "at least 0")
    elif scaled % axis.denominator:
        yield Violation(
            f"{axis.name}-not-divisible", found, f"a multiple of the denominator {axis.denominator}"
        )
    elif size >= _SIZE_BOUND:
        yield Violation(
            f"output-{axis.name}-range",
            f"{axis.name} of output is {size}",
            f"at most {_SIZE_BOUND - 1}",
        )


def blocks_are_copied(view: OperatorView) -> Iterator[Violation]:
    """Check that block-scaled tensors are not interpolated: mode is NEAREST."""
    image = view.tensor("input")
    if image.scale is not None and view.attributes["mode"] != ResizeMode.NEAREST:
        yield Violation("mode", f"mode is BILINEAR, and input is {image}", "NEAREST")


def _infer(view: OperatorView) -> tuple[ResultShape, ...]:
    batch, _, _, channels = sizes_of(view.shape("input"), 4)
    sizes = (axis.output() for axis in _axes(view))
    return ((batch, *(DYNAMIC if size is None else size for size in sizes), channels),)


RULES: Final[Rules] = {
    "RESIZE": OperatorRules(
        _infer,
        (rank("input", 4), length("scale", 4), length("offset", 2), length("border", 2)),
        (axis_conditions, blocks_are_copied),
        ("batch", "height", "width", "channels"),
    )
}
