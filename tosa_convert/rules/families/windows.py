"""Windows that move over an image, and pooling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tosa_convert.graph.model import DYNAMIC
from tosa_convert.graph.opset import table_of
from tosa_convert.rules.families.checks import (
    Check,
    OperatorRules,
    ResultShape,
    Rules,
    Violation,
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


RULES: Final[Rules] = table_of("shape", _POOLING, of_families("pooling"))
