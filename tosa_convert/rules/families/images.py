"""Windows that move over an image, pooling, and resizing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tosa_convert.graph.dtypes import ResizeMode
from tosa_convert.graph.model import DYNAMIC
from tosa_convert.graph.opset import table_of
from tosa_convert.rules.families.checks import (
    Check,
    OperatorRules,
    ResultShape,
    Rules,
    Violation,
    known,
    of_families,
    rank,
    says,
    zero_point,
)
from tosa_convert.rules.operator_view import OperatorView, Shape, Size


class Axis(NamedTuple):
    """An axis along which a kernel moves; each number is None or DYNAMIC if it is not known.

    name: "depth", "height" or "width". size: that of the input.
    before, after: the padding on both sides.
    """

    name: str
    size: Size
    kernel: Size
    stride: Size
    before: Size
    after: Size
    dilation: Size = 1

    def covered(self) -> int | None:
        """Return how many elements the dilated kernel covers; None if unknown or not valid."""
        if self.kernel is None or self.dilation is None or min(self.kernel, self.dilation) < 1:
            return None
        return (self.kernel - 1) * self.dilation + 1

    def padded(self) -> int | None:
        """Return the size of the padded input; None if unknown or not valid."""
        if self.size is None or self.before is None or self.after is None:
            return None
        if min(self.size, self.before, self.after) < 0:
            return None
        return self.size + self.before + self.after

    def output(self) -> int:
        """Return the number of positions of the kernel; DYNAMIC if it is unknown."""
        covered, padded = self.covered(), self.padded()
        if covered is None or padded is None or self.stride is None or self.stride < 1:
            return DYNAMIC
        return (padded - covered) // self.stride + 1

    def violations(self) -> Iterator[Violation]:
        """Check that the kernel fits into the padded input. Its last position ends where that ends."""
        covered, padded = self.covered(), self.padded()
        if covered is None or padded is None:
            return
        rest = padded - covered
        found = f"{self.name} {self.size} with padding {self.before} and {self.after} is {padded}"
        if rest < 0:
            yield Violation(
                f"{self.name}-below-kernel",
                f"{found}, and the kernel covers {covered}",
                f"at least {covered}",
            )
        elif self.stride is not None and self.stride > 1 and rest % self.stride:
            yield Violation(
                f"{self.name}-not-divisible",
                f"{found}; without the {covered} that the kernel covers it is {rest}",
                f"a multiple of the stride {self.stride}",
            )


def axes(
    names: tuple[str, ...],
    sizes: tuple[Size, ...],
    kernel: tuple[Size, ...],
    stride: tuple[Size, ...],
    pad: tuple[Size, ...],
    dilation: tuple[Size, ...],
) -> list[Axis]:
    """Return the axes of an operator; `pad` has two values for each."""
    return [
        Axis(name, sizes[i], kernel[i], stride[i], pad[2 * i], pad[2 * i + 1], dilation[i])
        for i, name in enumerate(names)
    ]


def sizes_of(shape: Shape, rank: int) -> tuple[int, ...]:
    """Return the sizes of a tensor that has this rank, all DYNAMIC if its rank is unknown.

    Example:
        >>> sizes_of(None, 2)
        (-1, -1)
    """
    return (DYNAMIC,) * rank if shape is None else shape


def numbers(view: OperatorView, name: str) -> tuple[Size, ...]:
    """Return the values of an attribute, or of the !tosa.shape operand of this name; None if unknown."""
    if name in view.attributes:
        values: tuple[int, ...] = view.attributes[name]
        return values
    return view.sizes(name)


def at_least(name: str, fewest: int) -> Check:
    rule = "negative" if fewest == 0 else "below-one"

    @says(f"Check that the values of {name} are at least {fewest}.")
    def check(view: OperatorView) -> Iterator[Violation]:
        values = numbers(view, name)
        if any(value is not None and value < fewest for value in values):
            yield Violation(
                f"{name}-{rule}", f"{name} is {_listed(values)}", f"values of at least {fewest}"
            )

    return check


def length(name: str, expected: int) -> Check:
    @says(f"Check that {name} has {expected} values.")
    def check(view: OperatorView) -> Iterator[Violation]:
        values = view.sizes(name)
        if len(values) != expected:
            yield Violation(
                f"{name}-length", f"{name} has {len(values)} values", f"{expected} values"
            )

    return check


def _listed(values: tuple[Size, ...]) -> str:
    return f"[{', '.join('?' if value is None else str(value) for value in values[:6])}]"


_NAMES: Final = ("height", "width")
_DIMENSIONS: Final = ("batch", *_NAMES, "channels")


def _pooled_axes(view: OperatorView) -> list[Axis]:
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
    """Check that no position of the kernel has padding only, and that the last ends with the input."""
    for axis in _pooled_axes(view):
        if axis.kernel is not None and 1 <= axis.kernel <= _largest_pad(axis):
            yield Violation(
                f"pad-{axis.name}",
                f"pad of {axis.name} is {_largest_pad(axis)}, and the kernel is {axis.kernel}",
                f"at most {axis.kernel - 1}",
            )
        else:
            yield from axis.violations()


def _infer_pooled(view: OperatorView) -> tuple[ResultShape, ...]:
    batch, _, _, channels = sizes_of(view.shape("input"), 4)
    return ((batch, *(axis.output() for axis in _pooled_axes(view)), channels),)


_CHECKS: Final[tuple[Check, ...]] = (
    at_least("kernel", 1),
    at_least("stride", 1),
    at_least("pad", 0),
    positions,
)
_ZERO_POINTS: Final = (zero_point("input_zp"), zero_point("output_zp"))
_RANKS: Final[tuple[Check, ...]] = (rank("input", 4),)
_ADAPTIVE_RANKS: Final = (*_RANKS, length("kernel", 2), length("stride", 2), length("pad", 4))

_POOLING: Final[Rules] = {
    "AVG_POOL2D": OperatorRules(_infer_pooled, _RANKS, (*_CHECKS, *_ZERO_POINTS), _DIMENSIONS),
    "MAX_POOL2D": OperatorRules(_infer_pooled, _RANKS, _CHECKS, _DIMENSIONS),
    "AVG_POOL2D_ADAPTIVE": OperatorRules(
        _infer_pooled, _ADAPTIVE_RANKS, (*_CHECKS, *_ZERO_POINTS), _DIMENSIONS
    ),
    "MAX_POOL2D_ADAPTIVE": OperatorRules(_infer_pooled, _ADAPTIVE_RANKS, _CHECKS, _DIMENSIONS),
}


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


# -- resizing of images ----------------------------------------------------------------------------

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


_RESIZE: Final[Rules] = {
    "RESIZE": OperatorRules(
        _infer_resized,
        (rank("input", 4), length("scale", 4), length("offset", 2), length("border", 2)),
        (axis_conditions, blocks_are_copied),
        ("batch", "height", "width", "channels"),
    )
}


RULES: Final[Rules] = table_of("shape", {**_POOLING, **_RESIZE}, of_families("pooling", "resize"))
