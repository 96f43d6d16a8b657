"""The rules of RESIZE."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tosa_convert.graph.dtypes import ResizeMode
from tosa_convert.graph.model import DYNAMIC
from tosa_convert.graph.opset import table_of
from tosa_convert.rules.families.checks import (
    OperatorRules,
    ResultShape,
    Rules,
    Violation,
    known,
    of_families,
    rank,
)
from tosa_convert.rules.families.windows import length, sizes_of
from tosa_convert.rules.operator_view import OperatorView, Size

# -- positions of RESIZE along an axis: element i is at (i * denominator + offset) / numerator -----
# Source: RESIZE in the TOSA specification, with the scale numerator / denominator.

LARGEST_NUMERATOR: Final = 1 << 11
#: A denominator, an offset and a border are below so many numerators, or above so many negative ones.
RATIO: Final = 16


def distance(size: int, numerator: int, offset: int, border: int) -> int:
    """Return the distance from the first to the last position, in elements times the numerator.

    Example:
        >>> distance(4, 2, 0, 1)
        7
    """
    return (size - 1) * numerator - offset + border


class ResizeAxis(NamedTuple):
    """What RESIZE has for an axis: the scale as a fraction, offset and border."""

    numerator: int
    denominator: int
    offset: int
    border: int

    @classmethod
    def between(
        cls, size: int, result: int, numerator: int, denominator: int, offset: int
    ) -> ResizeAxis:
        """Return the numbers with the border that gives a result of a size.

        Example:
            >>> ResizeAxis.between(4, 8, 2, 1, 0)
            ResizeAxis(numerator=2, denominator=1, offset=0, border=1)
        """
        border = (result - 1) * denominator - distance(size, numerator, offset, 0)
        return cls(numerator, denominator, offset, border)

    def is_allowed(self) -> bool:
        most = RATIO * self.numerator
        return (
            self.numerator <= LARGEST_NUMERATOR
            and 0 < self.denominator < most
            and -self.numerator <= self.offset < most
            and -most <= self.border < self.numerator
        )


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


def _resized_axes(view: OperatorView) -> tuple[_Axis, ...]:
    _, height, width, _ = sizes_of(view.shape("input"), 4)
    scale, offset, border = (view.sizes(name) for name in ("scale", "offset", "border"))
    return (
        _Axis("height", height, scale[0], scale[1], offset[0], border[0]),
        _Axis("width", width, scale[2], scale[3], offset[1], border[1]),
    )


def axis_conditions(view: OperatorView) -> Iterator[Violation]:
    """Check that scale, offset, border and the sizes that follow are in their ranges."""
    for axis in _resized_axes(view):
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
    """Check that sizes are below 16384, and that of the result is a whole number above 0."""
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


def _infer_resized(view: OperatorView) -> tuple[ResultShape, ...]:
    batch, _, _, channels = sizes_of(view.shape("input"), 4)
    sizes = (axis.output() for axis in _resized_axes(view))
    return ((batch, *(DYNAMIC if size is None else size for size in sizes), channels),)


_RULES: Final[Rules] = {
    "RESIZE": OperatorRules(
        _infer_resized,
        (rank("input", 4), length("scale", 4), length("offset", 2), length("border", 2)),
        (axis_conditions, blocks_are_copied),
        ("batch", "height", "width", "channels"),
    )
}


RULES: Final[Rules] = table_of("shape", _RULES, of_families("resize"))
