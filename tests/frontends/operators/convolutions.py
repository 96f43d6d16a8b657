"""Convolutions, products of matrices, pooling and resizing of torch."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from programs import Program, floats, ints, of, unit
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional


def _unpooled(x: torch.Tensor) -> torch.Tensor:
    return functional.max_unpool2d(*functional.max_pool2d(x, 2, return_indices=True), 2)


make_conv1d = partial(of, nn.Conv1d(3, 4, 3), floats(1, 3, 8))
make_conv2d = partial(of, nn.Conv2d(3, 4, 3), floats(1, 3, 8, 8))
make_conv2d_padded = partial(of, nn.Conv2d(3, 4, 3, padding=1), floats(1, 3, 8, 8))
make_conv2d_same = partial(of, nn.Conv2d(3, 4, 4, padding="same"), floats(1, 3, 8, 8))
make_conv2d_strided = partial(of, nn.Conv2d(3, 4, 3, stride=2, padding=1), floats(1, 3, 8, 8))
make_conv2d_dilated = partial(of, nn.Conv2d(3, 4, 3, dilation=2), floats(1, 3, 8, 8))
make_conv2d_groups = partial(of, nn.Conv2d(4, 6, 3, groups=2), floats(1, 4, 6, 6))
make_conv2d_many_groups = partial(
    of, nn.Conv2d(32, 64, 3, padding=1, groups=16), floats(1, 32, 6, 6)
)


def make_conv2d_many_groups_normalised() -> Program:
    layers = nn.Conv2d(32, 32, 3, stride=2, groups=8, bias=False), nn.BatchNorm2d(32), nn.ReLU()
    return of(nn.Sequential(*layers).eval(), floats(2, 32, 7, 7))


make_conv2d_large_groups = partial(of, nn.Conv2d(320, 320, 3, groups=5), floats(1, 320, 24, 24))
make_conv1d_many_groups = partial(of, nn.Conv1d(16, 32, 3, groups=8), floats(1, 16, 9))
make_conv3d_groups = partial(of, nn.Conv3d(4, 6, 2, groups=2), floats(1, 4, 4, 4, 4))
make_conv3d_many_groups = partial(
    of, nn.Conv3d(16, 16, 3, stride=2, padding=1, groups=8), floats(1, 16, 5, 5, 5)
)
make_conv3d_depthwise = partial(
    of, nn.Conv3d(8, 8, (3, 1, 1), padding=(1, 0, 0), groups=8), floats(2, 8, 5, 4, 4)
)


def make_conv_transpose1d_many_groups() -> Program:
    layer = nn.ConvTranspose1d(16, 8, 3, stride=3, padding=2, groups=8, dilation=2)
    return of(layer, floats(1, 16, 6))


def make_conv_transpose2d_many_groups() -> Program:
    layer = nn.ConvTranspose2d(16, 24, 3, stride=2, padding=1, output_padding=1, groups=8)
    return of(layer, floats(1, 16, 5, 5))


make_conv_transpose2d_depthwise = partial(
    of, nn.ConvTranspose2d(16, 16, 4, 2, 1, groups=16, bias=False), floats(1, 16, 5, 5)
)
make_conv_transpose3d_many_groups = partial(
    of, nn.ConvTranspose3d(16, 8, 2, stride=2, groups=8), floats(1, 16, 3, 3, 3)
)
make_conv2d_depthwise = partial(of, nn.Conv2d(4, 4, 3, groups=4), floats(1, 4, 6, 6))
make_conv2d_depth_multiplier = partial(
    of, nn.Conv2d(4, 8, 3, groups=4, bias=False), floats(1, 4, 6, 6)
)
make_conv2d_reflect = partial(
    of, nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), floats(1, 3, 6, 6)
)
make_conv2d_circular = partial(
    of, nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"), floats(1, 3, 6, 6)
)
make_conv3d = partial(of, nn.Conv3d(2, 3, 2), floats(1, 2, 4, 4, 4))
make_conv_transpose1d = partial(of, nn.ConvTranspose1d(3, 2, 3, stride=2), floats(1, 3, 5))
make_conv_transpose2d = partial(of, nn.ConvTranspose2d(3, 2, 3), floats(1, 3, 4, 4))
make_conv_transpose2d_strided = partial(
    of, nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1, output_padding=1), floats(1, 3, 4, 4)
)
make_conv_transpose2d_groups = partial(
    of, nn.ConvTranspose2d(4, 2, 3, groups=2), floats(1, 4, 4, 4)
)
make_conv_transpose2d_dilated = partial(
    of, nn.ConvTranspose2d(3, 2, 3, dilation=2), floats(1, 3, 4, 4)
)
make_conv_transpose3d = partial(of, nn.ConvTranspose3d(2, 2, 2), floats(1, 2, 3, 3, 3))
make_linear = partial(of, nn.Linear(4, 3), floats(2, 4))
make_linear_three_axes = partial(of, nn.Linear(4, 3, bias=False), floats(2, 5, 4))
make_bilinear = partial(of, nn.Bilinear(3, 4, 2), floats(2, 3), floats(2, 4, seed=1))
make_matmul = partial(of, torch.matmul, floats(2, 3), floats(3, 4, seed=1))
make_matmul_broadcast = partial(of, torch.matmul, floats(2, 1, 2, 3), floats(4, 3, 2, seed=1))
make_matmul_vector = partial(of, torch.matmul, floats(2, 3), floats(3, seed=1))
make_bmm = partial(of, torch.bmm, floats(2, 3, 4), floats(2, 4, 2, seed=1))
make_addmm = partial(of, torch.addmm, floats(2), floats(3, 4), floats(4, 2, seed=1))
make_baddbmm = partial(of, torch.baddbmm, floats(2, 3, 2), floats(2, 3, 4), floats(2, 4, 2, seed=1))
make_dot = partial(of, torch.dot, floats(4), floats(4, seed=1))
make_outer = partial(of, torch.outer, floats(3), floats(4, seed=1))
make_einsum = partial(
    of, lambda x, y: torch.einsum("bij,bkj->bik", x, y), floats(2, 3, 4), floats(2, 5, 4, seed=1)
)
make_einsum_trace = partial(of, lambda x: torch.einsum("bii->b", x), floats(2, 3, 3))
make_tensordot = partial(
    of, lambda x, y: torch.tensordot(x, y, dims=2), floats(2, 3, 4), floats(3, 4, 5, seed=1)
)
make_max_pool1d = partial(of, nn.MaxPool1d(2), floats(1, 2, 8))
make_max_pool2d = partial(of, nn.MaxPool2d(2), floats(1, 2, 6, 6))
make_max_pool2d_padded = partial(of, nn.MaxPool2d(3, 2, padding=1), floats(1, 2, 7, 7))
make_max_pool2d_ceil = partial(of, nn.MaxPool2d(2, ceil_mode=True), floats(1, 2, 5, 5))
make_max_pool2d_ceil_short = partial(
    of, nn.MaxPool2d(3, stride=2, ceil_mode=True), floats(1, 2, 2, 7) - 2
)
make_max_pool2d_dilated_ceil = partial(
    of, nn.MaxPool2d(3, stride=2, padding=1, dilation=2, ceil_mode=True), floats(1, 2, 8, 9)
)
make_max_pool2d_dilated = partial(of, nn.MaxPool2d(2, stride=1, dilation=2), floats(1, 2, 6, 6))
make_max_pool2d_indices = partial(of, nn.MaxPool2d(2, return_indices=True), floats(1, 2, 4, 4))
make_max_pool3d = partial(of, nn.MaxPool3d(2), floats(1, 2, 4, 4, 4))
make_avg_pool1d = partial(of, nn.AvgPool1d(2), floats(1, 2, 8))
make_avg_pool2d = partial(of, nn.AvgPool2d(2), floats(1, 2, 6, 6))
make_avg_pool2d_padded = partial(of, nn.AvgPool2d(3, 2, padding=1), floats(1, 2, 7, 7))
make_avg_pool2d_without_padding = partial(
    of, nn.AvgPool2d(3, 2, padding=1, count_include_pad=False), floats(1, 2, 7, 7)
)
make_avg_pool2d_ceil = partial(of, nn.AvgPool2d(2, ceil_mode=True), floats(1, 2, 5, 5))
make_avg_pool3d = partial(of, nn.AvgPool3d(2), floats(1, 2, 4, 4, 4))
make_adaptive_avg_pool1d = partial(of, nn.AdaptiveAvgPool1d(3), floats(1, 2, 6))
make_adaptive_avg_pool2d = partial(of, nn.AdaptiveAvgPool2d(1), floats(1, 2, 6, 6))
make_adaptive_avg_pool2d_uneven = partial(of, nn.AdaptiveAvgPool2d(3), floats(1, 2, 7, 7))
make_adaptive_max_pool2d = partial(of, nn.AdaptiveMaxPool2d(2), floats(1, 2, 6, 6))
make_lp_pool2d = partial(of, nn.LPPool2d(2, 2), floats(1, 2, 6, 6))
make_max_unpool2d = partial(
    of,
    lambda x: functional.max_unpool2d(*functional.max_pool2d(x, 2, return_indices=True), 2),
    floats(1, 2, 4, 4),
)
make_interpolate_nearest = partial(
    of, lambda x: functional.interpolate(x, scale_factor=2), floats(1, 2, 3, 3)
)
make_interpolate_bilinear = partial(
    of, lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear"), floats(1, 2, 3, 3)
)
make_interpolate_bilinear_corners = partial(
    of,
    lambda x: functional.interpolate(x, size=(5, 7), mode="bilinear", align_corners=True),
    floats(1, 2, 3, 3),
)
make_interpolate_bicubic = partial(
    of, lambda x: functional.interpolate(x, scale_factor=2, mode="bicubic"), floats(1, 2, 4, 4)
)
make_interpolate_linear = partial(
    of, lambda x: functional.interpolate(x, scale_factor=2, mode="linear"), floats(1, 2, 4)
)
make_interpolate_area = partial(
    of, lambda x: functional.interpolate(x, size=(2, 2), mode="area"), floats(1, 2, 4, 4)
)
make_grid_sample = partial(
    of,
    lambda x, g: functional.grid_sample(x, g, align_corners=False),
    floats(1, 2, 4, 4),
    unit(1, 3, 3, 2) * 2 - 1,
)
make_unfold_windows = partial(of, nn.Unfold(2), floats(1, 2, 4, 4))
make_fold_windows = partial(of, nn.Fold((4, 4), 2, stride=2), floats(1, 8, 4))
make_pixel_shuffle = partial(of, nn.PixelShuffle(2), floats(1, 8, 3, 3))
make_pixel_unshuffle = partial(of, nn.PixelUnshuffle(2), floats(1, 2, 4, 4))
make_channel_shuffle = partial(of, nn.ChannelShuffle(2), floats(1, 4, 3, 3))
make_adaptive_avg_pool3d_uneven = partial(
    of, nn.AdaptiveAvgPool3d((1, 3, 2)), floats(1, 2, 7, 5, 4)
)
make_adaptive_max_pool1d_uneven = partial(of, nn.AdaptiveMaxPool1d(3), floats(1, 2, 7))
make_adaptive_max_pool2d_uneven = partial(of, nn.AdaptiveMaxPool2d((3, 5)), floats(1, 2, 7, 9))


def make_adaptive_max_pool2d_indices() -> Program:
    pool = nn.AdaptiveMaxPool2d((3, 2), return_indices=True)
    return of(lambda x: pool(x), floats(1, 2, 7, 4))


make_avg_pool3d_large = partial(of, nn.AvgPool3d((2, 7, 8), stride=1), floats(1, 2, 2, 8, 8))


def make_avg_pool3d_without_padding() -> Program:
    layer = nn.AvgPool3d(3, stride=2, padding=1, count_include_pad=False)
    return of(layer, floats(1, 2, 7, 5, 4))


make_avg_pool2d_int64 = partial(of, nn.AvgPool2d(2), ints(1, 2, 4, 4))


def _resized(mode: str, **options: Any) -> Program:
    def resized(x: torch.Tensor) -> torch.Tensor:
        return functional.interpolate(x, mode=mode, antialias=True, **options)

    return of(resized, floats(1, 2, 9, 10))


make_interpolate_bicubic_antialias = partial(_resized, "bicubic", size=(5, 12))
make_interpolate_bilinear_antialias = partial(_resized, "bilinear", size=(4, 7))
make_interpolate_bicubic_antialias_corners = partial(
    _resized, "bicubic", size=(5, 7), align_corners=True
)


def _gradients(groups: int, stride: int, padding: int, dilation: int) -> Program:
    sizes = [stride] * 2, [padding] * 2, [dilation] * 2

    def compute(grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> tuple[Any, ...]:
        made: tuple[Any, ...] = torch.ops.aten.convolution_backward(
            grad, x, weight, [6], *sizes, False, [0, 0], groups, [True, True, True]
        )
        return made

    x, weight = floats(2, 4, 10, 9), floats(6, 4 // groups, 3, 3, seed=1)
    grad = functional.conv2d(x, weight, None, *sizes, groups)
    return of(compute, floats(*grad.shape, seed=2), x, weight)


make_gradients = partial(_gradients, 1, 1, 0, 1)
make_gradients_stride = partial(_gradients, 1, 2, 1, 1)
make_gradients_groups = partial(_gradients, 2, 1, 1, 2)


def make_training_step() -> Program:
    """Take a step down the gradient of a small network's loss; return its weights and the loss."""

    def loss(weights: list[torch.Tensor], x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        y = torch.relu(functional.conv2d(x, weights[0], weights[1], stride=2, padding=1))
        y = torch.relu(functional.conv2d(y, weights[2], groups=2)).mean((2, 3))
        return functional.cross_entropy(functional.linear(y, weights[3]), target)

    def step(*given: torch.Tensor) -> list[torch.Tensor]:
        *weights, x, target = given
        gradients, found = torch.func.grad_and_value(loss)(weights, x, target)
        return [found, *(w - 0.1 * g for w, g in zip(weights, gradients, strict=True))]

    shapes = (4, 1, 3, 3), (4,), (8, 2, 3, 3), (3, 8), (2, 1, 9, 9)
    given = [floats(*shape, seed=seed) for seed, shape in enumerate(shapes)]
    arguments = (*given, torch.tensor([0, 2]))
    return make_fx(step)(*arguments), arguments


def make_avg_pool3d_ceil() -> Program:
    layer = nn.AvgPool3d(3, stride=2, padding=1, ceil_mode=True)
    return of(layer, floats(1, 2, 7, 6, 4))


def make_avg_pool3d_ceil_without_padding() -> Program:
    layer = nn.AvgPool3d(3, stride=2, padding=1, ceil_mode=True, count_include_pad=False)
    return of(layer, floats(1, 2, 7, 6, 4))


make_avg_pool3d_of_one_axis = partial(
    of, nn.AvgPool3d((3, 1, 1), stride=(2, 1, 1)), floats(2, 7, 3, 4)
)
make_avg_pool2d_divisor = partial(
    of, nn.AvgPool2d(3, stride=2, ceil_mode=True, divisor_override=5), floats(1, 2, 6, 7)
)
make_avg_pool2d_ceil_int64 = partial(
    of, nn.AvgPool2d(3, stride=2, padding=1, ceil_mode=True), ints(1, 2, 4, 5)
)


def make_adaptive_max_pool3d_indices() -> Program:
    pool = nn.AdaptiveMaxPool3d((2, 3, 1), return_indices=True)
    return of(lambda x: pool(x), floats(1, 2, 3, 5, 4))


make_pad_reflect_3d = partial(of, nn.ReflectionPad3d((1, 2, 0, 1, 1, 0)), floats(1, 2, 3, 4, 5))
