"""Sums of products: convolutions, matrix products, Fourier transforms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tosa_convert.graph.model import DYNAMIC
from tosa_convert.graph.opset import table_of
from tosa_convert.rules.families.block_scaled import (
    block_size,
    data_shape,
    divides_into_blocks,
    scales_of,
    whole_blocks,
)
from tosa_convert.rules.families.checks import (
    Check,
    OperatorRules,
    ResultShape,
    Rules,
    Violation,
    agree,
    known,
    listing,
    merged,
    of_families,
    rank,
    rank_of_at_least,
    zero_point,
)
from tosa_convert.rules.families.elementwise import broadcast
from tosa_convert.rules.families.windows import Axis, at_least, axes, length, numbers, sizes_of
from tosa_convert.rules.operator_view import OperatorView

_PLANE: Final = ("height", "width")
_SPACE: Final = ("depth", "height", "width")
_CONVOLUTION_ZERO_POINTS: Final = (zero_point("input_zp"), zero_point("weight_zp"))


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
        return sizes_of(view.shape(self.input_name), self.rank)

    def weight(self, view: OperatorView) -> tuple[int, ...]:
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
                *_CONVOLUTION_ZERO_POINTS,
            ),
            self.dimensions,
        )

    def ranks(self) -> tuple[Check, ...]:
        return (
            rank(self.input_name, self.rank),
            rank(self.weight_name, self.rank),
            rank("bias", 1),
        )

    def shared_checks(self) -> tuple[Check, ...]:
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
                *_CONVOLUTION_ZERO_POINTS,
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


_CONVOLUTIONS: Final[Rules] = {
    "CONV2D": _Convolution(_PLANE).rules(),
    "CONV3D": _Convolution(_SPACE).rules(),
    "DEPTHWISE_CONV2D": _Convolution(_PLANE, kernel=0).rules(),
    "TRANSPOSE_CONV2D": _TransposedConvolution(_PLANE).rules(),
    "CONV2D_BLOCK_SCALED": _BlockScaledConvolution().rules(),
}


# -- products of matrices --------------------------------------------------------------------------

_MATMUL_DIMENSIONS: Final = ("batch", "height", "width")


class _Product:
    """How an operator lays out its operands: [*, H, C], and [*, C, W] or the transposed [*, W, C].

    suffix: of the names of both operands. is_transposed: b is transposed. The batches, *, have any rank
    and are broadcast, but for those of block-scaled operands with scales apart: [N], and N or 1.
    """

    def __init__(self, suffix: str, *, is_transposed: bool) -> None:
        self.a, self.b = f"a{suffix}", f"b{suffix}"
        self.is_apart = bool(suffix)
        self.columns, self.channels = (-2, -1) if is_transposed else (-1, -2)

    def sizes(self, view: OperatorView, name: str) -> tuple[int, ...]:
        """Return the sizes of an operand, also those that only its scales have."""
        shape = view.shape(name)
        if name.endswith("_data"):
            scales = view.shape(name.replace("_data", "_scale"))
            shape = data_shape(shape, scales, block_size(view))
        return sizes_of(shape, 3)

    def batches(self, view: OperatorView) -> list[tuple[int, ...]]:
        """Return the sizes of both operands before their matrices, with 1 for what the shorter lacks."""
        own = [self.sizes(view, name)[:-2] for name in (self.a, self.b)]
        rank = max(map(len, own))
        return [(1,) * (rank - len(sizes)) + sizes for sizes in own]

    def batches_broadcast(self, view: OperatorView) -> Iterator[Violation]:
        """Check that batch sizes are equal or 1, aligned on the right."""
        if not self.is_apart and None in (view.shape(self.a), view.shape(self.b)):
            return
        for expected, found in zip(*self.batches(view), strict=True):
            if agree(expected, found) or found == 1 or (expected == 1 and not self.is_apart):
                continue
            yield Violation(
                "batch",
                f"batch size {found} of {self.b}, and {expected} of {self.a}",
                f"{expected} or 1",
            )

    def same_channels(self, view: OperatorView) -> Iterator[Violation]:
        """Check that rows of one operand are as long as columns of the other."""
        one, other = self.sizes(view, self.a), self.sizes(view, self.b)
        if not agree(one[-1], other[self.channels]):
            yield Violation(
                "channels",
                f"dimension {len(other) + self.channels} of {self.b} is {other[self.channels]}, "
                f"and dimension {len(one) - 1} of {self.a} is {one[-1]}",
                str(one[-1]),
            )

    def infer(self, view: OperatorView) -> tuple[ResultShape, ...]:
        if not self.is_apart and None in (view.shape(self.a), view.shape(self.b)):
            return (None,)
        one, other = self.batches(view)
        batches: tuple[int, ...] = broadcast([one, other]) or ()
        if self.is_apart:  # What b has is that of a, or 1.
            batches = one if other == (1,) else (merged(*one, *other),)
        height, width = self.sizes(view, self.a)[-2], self.sizes(view, self.b)[self.columns]
        return ((*batches, height, width),)

    def rules(self, ranks: tuple[Check, ...] = (), checks: tuple[Check, ...] = ()) -> OperatorRules:
        """Return the row of an operator with these conditions of its further operands."""
        own = (
            rank(name, 3) if self.is_apart else rank_of_at_least(name, 2)
            for name in (self.a, self.b)
        )
        return OperatorRules(
            self.infer,
            (*own, *ranks),
            (self.batches_broadcast, self.same_channels, *checks),
            _MATMUL_DIMENSIONS,
        )


_MATMUL_ZERO_POINTS: Final = (zero_point("a_zp"), zero_point("b_zp"))
_SCALES: Final = (
    whole_blocks("a_data"),
    whole_blocks("b_data"),
    scales_of("a_data", "a_scale"),
    scales_of("b_data", "b_scale"),
)

_MATRIX_PRODUCTS: Final[Rules] = {
    "MATMUL": _Product("", is_transposed=False).rules(checks=_MATMUL_ZERO_POINTS),
    "MATMUL_T": _Product("", is_transposed=True).rules(checks=_MATMUL_ZERO_POINTS),
    "MATMUL_T_BLOCK_SCALED": _Product("_data", is_transposed=True).rules(
        (divides_into_blocks, rank("a_scale", 3), rank("b_scale", 3)), _SCALES
    ),
}


# -- fourier transforms ----------------------------------------------------------------------------

_FFT_DIMENSIONS: Final = ("batch", "height", "width")


def _sizes(view: OperatorView) -> tuple[int, ...]:
    """Return the sizes of the input, whose real and imaginary parts have one shape."""
    parts = [sizes_of(view.shape(row.name), 3) for row, _ in view.operands()]
    return tuple(merged(*sizes) for sizes in zip(*parts, strict=True))


def powers_of_two(view: OperatorView) -> Iterator[Violation]:
    """Check that height and width are powers of two."""
    for name, size in zip(_FFT_DIMENSIONS[1:], _sizes(view)[1:], strict=True):
        if known(size) and (size < 1 or size & (size - 1)):
            yield Violation(f"{name}-power-of-two", f"{name} is {size}", "a power of two")


def same_shape(view: OperatorView) -> Iterator[Violation]:
    """Check that the real and the imaginary part have one shape."""
    real, imaginary = view.shape("input_real"), view.shape("input_imag")
    if real is None or imaginary is None or all(map(agree, real, imaginary)):
        return
    yield Violation("input-shapes", f"operands have different shapes: {listing(view)}", "one shape")


def _infer_complex(view: OperatorView) -> tuple[ResultShape, ...]:
    sizes = _sizes(view)
    return sizes, sizes


def _infer_real(view: OperatorView) -> tuple[ResultShape, ...]:
    batch, height, width = _sizes(view)
    sizes = (batch, height, width // 2 + 1 if known(width) else DYNAMIC)
    return sizes, sizes


_FOURIER_TRANSFORMS: Final[Rules] = {
    "FFT2D": OperatorRules(
        _infer_complex,
        (rank("input_real", 3), rank("input_imag", 3)),
        (powers_of_two, same_shape),
        _FFT_DIMENSIONS,
    ),
    "RFFT2D": OperatorRules(
        _infer_real, (rank("input_real", 3),), (powers_of_two,), _FFT_DIMENSIONS
    ),
}


RULES: Final[Rules] = table_of(
    "shape",
    {**_CONVOLUTIONS, **_MATRIX_PRODUCTS, **_FOURIER_TRANSFORMS},
    of_families("convolution", "matmul", "fft"),
)
