"""Convolutions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tosa_convert.graph.model import DYNAMIC
from tosa_convert.rules.families.block_scaled import (
    block_size,
    data_shape,
    divides_into_blocks,
    scales_of,
    whole_blocks,
)
from tosa_convert.rules.families.core import (
    Check,
    OperatorRules,
    ResultShape,
    Rules,
    Violation,
    agree,
    known,
    merged,
    rank,
    zero_point,
)
from tosa_convert.rules.families.window import (
    Axis,
    at_least,
    axes,
    length,
    numbers,
    sizes_of,
)
from tosa_convert.rules.operator_view import OperatorView

_PLANE: Final = ("height", "width")
_SPACE: Final = ("depth", "height", "width")
_ZERO_POINTS: Final = (zero_point("input_zp"), zero_point("weight_zp"))


class _Convolution:
    """How an operator names its operands and lays out its weight.

    names: of the axes along which the kernel moves. kernel: the weight's dimension of the first one.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        *,
        kernel: int = 1,
        input_name: str = "input",
        weight_name: str = "weight",
    ) -> None:
        self.names = names
        self.kernel = kernel
        self.input_name = input_name
        self.weight_name = weight_name
        self.rank = len(names) + 2

    @property
    def is_depthwise(self) -> bool:
        """Return whether the weight is [KH, KW, C, M]; else it is [OC, ..., C]."""
        return self.kernel == 0

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Return the names of the result's dimensions."""
        return ("batch", *self.names, "channels")

    def input(self, view: OperatorView) -> tuple[int, ...]:
        """Return the sizes of the input."""
        return sizes_of(view.shape(self.input_name), self.rank)

    def weight(self, view: OperatorView) -> tuple[int, ...]:
        """Return the sizes of the weight."""
        return sizes_of(view.shape(self.weight_name), self.rank)

    def kernel_sizes(self, view: OperatorView) -> tuple[int, ...]:
        return self.weight(view)[self.kernel : self.kernel + len(self.names)]

    def axes(self, view: OperatorView) -> list[Axis]:
        """Return the axes along which the kernel moves."""
        return axes(
            self.names,
            self.input(view)[1:-1],
            self.kernel_sizes(view),
            numbers(view, "stride"),
            numbers(view, "pad"),
            numbers(view, "dilation"),
        )

    def weight_channels(self, view: OperatorView) -> int:
        """Return the number of output channels that the weight has."""
        weight = self.weight(view)
        if not self.is_depthwise:
            return weight[0]
        channels = merged(weight[2], self.input(view)[-1])
        return channels * weight[3] if known(channels) and known(weight[3]) else DYNAMIC

    def channels(self, view: OperatorView) -> Iterator[Violation]:
        """Check that the weight is for as many channels as the input has."""
        dimension = 2 if self.is_depthwise else self.rank - 1
        found, expected = self.weight(view)[dimension], self.input(view)[-1]
        if not agree(found, expected):
            yield Violation(
                "channels",
                f"dimension {dimension} of {self.weight_name} is {found}, "
                f"and {self.input_name} has {expected} channels",
                str(expected),
            )

    def bias_size(self, view: OperatorView) -> Iterator[Violation]:
        """Check that the bias has one element, or one for each output channel."""
        (found,) = sizes_of(view.shape("bias"), 1)
        channels = self.weight_channels(view)
        if found != 1 and not agree(found, channels):
            yield Violation(
                "bias-size",
                f"bias has {found} elements, and {self.weight_name} has {channels} output channels",
                f"{channels} or 1",
            )

    def kernel_positions(self, view: OperatorView) -> Iterator[Violation]:
        """Check that the kernel fits, and that its positions end where the padded input ends."""
        for axis in self.axes(view):
            yield from axis.violations()

    def infer(self, view: OperatorView) -> tuple[ResultShape, ...]:
        """Infer the result's shape."""
        return (self.result(view, [axis.output() for axis in self.axes(view)]),)

    def result(self, view: OperatorView, sizes: list[int]) -> tuple[int, ...]:
        """Return the result's shape with these sizes of its axes."""
        (bias,) = sizes_of(view.shape("bias"), 1)
        channels = merged(self.weight_channels(view), DYNAMIC if bias == 1 else bias)
        return (self.input(view)[0], *sizes, channels)

    def rules(self) -> OperatorRules:
        """Return the row of a convolution whose padding, strides and dilations are attributes."""
        return OperatorRules(
            self.infer,
            self.ranks(),
            (
                *self.shared_checks(),
                at_least("pad", 0),
                at_least("stride", 1),
                at_least("dilation", 1),
                self.kernel_positions,
                *_ZERO_POINTS,
            ),
            self.dimensions,
        )

    def ranks(self) -> tuple[Check, ...]:
        """Return the checks of the ranks of the operands."""
        return (
            rank(self.input_name, self.rank),
            rank(self.weight_name, self.rank),
            rank("bias", 1),
        )

    def shared_checks(self) -> tuple[Check, ...]:
        """Return the conditions of all convolutions."""
        return self.channels, self.bias_size


class _TransposedConvolution(_Convolution):
    """A convolution whose kernel is laid down at every element of the input."""

    def output_size(self, view: OperatorView, index: int) -> int | None:
        """Return the size of the result along an axis; None if it is unknown."""
        size, kernel = self.input(view)[1 + index], self.kernel_sizes(view)[index]
        stride: int = view.attributes["stride"][index]
        before, after = view.attributes["out_pad"][2 * index : 2 * index + 2]
        if not known(size) or not known(kernel) or stride < 1:
            return None
        result: int = (size - 1) * stride + before + after + kernel
        return result

    def out_pad_range(self, view: OperatorView) -> Iterator[Violation]:
        """Check that the padding does not cut off a whole kernel, and that the result is not empty."""
        for index, name in enumerate(self.names):
            kernel, size = self.kernel_sizes(view)[index], self.output_size(view, index)
            before, after = view.attributes["out_pad"][2 * index : 2 * index + 2]
            if known(kernel) and min(before, after) <= -kernel:
                yield Violation(
                    f"out-pad-{name}",
                    f"out_pad of {name} is {before} and {after}, and the kernel is {kernel}",
                    f"at least {1 - kernel}",
                )
            elif size is not None and size < 1:
                yield Violation(
                    f"{name}-below-one",
                    f"with out_pad {before} and {after}, the {name} of output is {size}",
                    "at least 1",
                )

    def infer(self, view: OperatorView) -> tuple[ResultShape, ...]:
        sizes = [self.output_size(view, index) for index in range(len(self.names))]
        return (self.result(view, [DYNAMIC if size is None else size for size in sizes]),)

    def rules(self) -> OperatorRules:
        return OperatorRules(
            self.infer,
            self.ranks(),
            (
                *self.shared_checks(),
                at_least("stride", 1),
                self.out_pad_range,
                *_ZERO_POINTS,
            ),
            self.dimensions,
        )


class _BlockScaledConvolution(_Convolution):
    """A convolution of data and scales, whose padding, strides and dilations are operands."""

    def __init__(self) -> None:
        super().__init__(_PLANE, input_name="input_data", weight_name="weight_data")

    def input(self, view: OperatorView) -> tuple[int, ...]:
        return _with_scales(view, "input")

    def weight(self, view: OperatorView) -> tuple[int, ...]:
        return _with_scales(view, "weight")

    def rules(self) -> OperatorRules:
        return OperatorRules(
            self.infer,
            (
                divides_into_blocks,
                *self.ranks(),
                rank("input_scale", 4),
                rank("weight_scale", 4),
                length("pad", 4),
                length("stride", 2),
                length("dilation", 2),
            ),
            (
                *self.shared_checks(),
                at_least("pad", 0),
                at_least("stride", 1),
                at_least("dilation", 1),
                self.kernel_positions,
                whole_blocks("input_data"),
                whole_blocks("weight_data"),
                scales_of("input_data", "input_scale"),
                scales_of("weight_data", "weight_scale"),
            ),
            self.dimensions,
        )


def _with_scales(view: OperatorView, name: str) -> tuple[int, ...]:
    """Return the sizes of data, also those that only its scales have."""
    data, scales = view.shape(f"{name}_data"), view.shape(f"{name}_scale")
    return sizes_of(data_shape(data, scales, block_size(view)), 4)


RULES: Final[Rules] = {
    "CONV2D": _Convolution(_PLANE).rules(),
    "CONV3D": _Convolution(_SPACE).rules(),
    "DEPTHWISE_CONV2D": _Convolution(_PLANE, kernel=0).rules(),
    "TRANSPOSE_CONV2D": _TransposedConvolution(_PLANE).rules(),
    "CONV2D_BLOCK_SCALED": _BlockScaledConvolution().rules(),
}
