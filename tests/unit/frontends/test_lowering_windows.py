"""Pools and convolutions of any layout against sums over windows in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from frontends.lowered_arrays import F32, names, program, results

from tosa_convert.frontends.lowering import movement, products, windows
from tosa_convert.frontends.lowering.arithmetic import divided
from tosa_convert.frontends.lowering.products import Window
from tosa_convert.frontends.lowering.scope import constant

RNG = np.random.default_rng(5)
IMAGE = RNG.normal(size=(2, 3, 8, 9)).astype(F32)
LAST = np.ascontiguousarray(IMAGE.transpose(0, 2, 3, 1))
LINE = RNG.normal(size=(2, 3, 10)).astype(F32)
VOLUME = RNG.normal(size=(1, 2, 4, 6, 5)).astype(F32)
NO = (0, 0)
VIEW: Any = np.lib.stride_tricks.sliding_window_view


def pooled(
    x: Any,
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    function: Callable[..., Any],
    border: float,
) -> Any:
    """Reduce the windows of an array by a function of numpy."""
    x = np.pad(x.astype(np.float64), padding, constant_values=border)
    spans = [(size - 1) * gap + 1 for size, gap in zip(window, dilation, strict=True)]
    shown = VIEW(x, spans)
    shown = shown[tuple(slice(None, None, step) for step in strides)]
    shown = shown[(..., *(slice(None, None, gap) for gap in dilation))]
    return function(shown, tuple(range(x.ndim, 2 * x.ndim)))


#: An array, the window, its strides, the padding and the dilation, and the operators for a maximum.
WINDOWS: dict[str, tuple[Any, Any, Any, Any, Any, dict[str, int]]] = {
    "channels first": (
        IMAGE,
        *((1, 1, 3, 2), (1, 1, 2, 1), (NO, NO, (1, 1), (0, 1)), (1,) * 4),
        {"TRANSPOSE": 2, "MAX_POOL2D": 1},
    ),
    "channels last": (
        LAST,
        *((1, 2, 2, 1), (1, 2, 2, 1), (NO,) * 4, (1,) * 4),
        {"SLICE": 1, "MAX_POOL2D": 1},
    ),
    "a line": (
        LINE,
        *((1, 1, 3), (1, 1, 3), (NO,) * 3, (1,) * 3),
        {"SLICE": 1, "RESHAPE": 2, "MAX_POOL2D": 1},
    ),
    "a volume": (
        VOLUME,
        *((1, 1, 2, 3, 2), (1, 1, 2, 1, 1), (NO, NO, NO, (1, 1), NO), (1,) * 5),
        {"RESHAPE": 3, "MAX_POOL2D": 2},
    ),
    "gaps": (
        IMAGE,
        *((1, 1, 2, 2), (1, 1, 1, 1), (NO,) * 4, (1, 1, 2, 3)),
        {"SLICE": 4, "MAXIMUM": 2},
    ),
    "strides alone": (
        LAST,
        *((1, 1, 1, 1), (1, 2, 2, 1), (NO,) * 4, (1,) * 4),
        {"SLICE": 1, "MAX_POOL2D": 1},
    ),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_have_their_extremes_sums_and_means(name: str) -> None:
    x, window, strides, padding, dilation, operators = WINDOWS[name]
    shape = window, strides, padding, (1,) * x.ndim, dilation

    def greatest(s: Any, a: Any) -> Any:
        return windows.windowed(s, a, *shape, "max")

    def mean(s: Any, a: Any) -> Any:
        count = constant(np.full((1,) * x.ndim, np.prod(window), F32))
        return divided(s, windows.windowed(s, a, *shape, "add"), count)

    def own_mean(s: Any, a: Any) -> Any:
        return windows.averaged(s, a, window, strides, [NO] * x.ndim, padding, dilation)

    judge = x, window, strides, padding, dilation
    np.testing.assert_array_equal(results(greatest, x)[0], pooled(*judge, np.max, -np.inf))
    assert names(program(greatest, x)) == operators
    np.testing.assert_allclose(results(mean, x)[0], pooled(*judge, np.mean, 0), atol=1e-6)
    inside = np.where(
        np.isnan(pooled(*judge, np.nanmean, np.nan)), 0, pooled(*judge, np.nanmean, np.nan)
    )
    np.testing.assert_allclose(results(own_mean, x)[0], inside, atol=1e-6)


def test_a_mean_that_counts_zeros_is_one_pool() -> None:
    zeros, window, strides = (NO, (1, 1), (1, 1), NO), (1, 3, 3, 1), (1, 2, 2, 1)

    def mean(s: Any, a: Any) -> Any:
        return windows.averaged(s, a, window, strides, zeros, [NO] * 4)

    want = pooled(LAST, window, strides, zeros, (1,) * 4, np.mean, 0)
    np.testing.assert_allclose(results(mean, LAST)[0], want, atol=1e-6)
    assert names(program(mean, LAST))["AVG_POOL2D"] == 1
    assert "MUL" not in names(program(mean, LAST))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_bytes_have_pools(dtype: Any) -> None:
    x = RNG.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (1, 4, 4, 2)).astype(dtype)

    def greatest(s: Any, a: Any) -> Any:
        ones = (1,) * 4
        return windows.windowed(s, a, (1, 3, 3, 1), ones, (NO, (1, 1), NO, NO), ones, ones, "max")

    want = pooled(x, (1, 3, 3, 1), (1,) * 4, (NO, (1, 1), NO, NO), (1,) * 4, np.max, -np.inf)
    np.testing.assert_array_equal(results(greatest, x)[0].view(dtype), want)
    assert names(program(greatest, x))["MAX_POOL2D"] == 1


# -- convolutions --------------------------------------------------------------------------------


def convolved(
    x: Any,
    w: Any,
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    groups: int,
) -> Any:
    """Convolve an array with its channels second."""
    x = np.pad(x.astype(np.float64), [NO, NO, *padding])
    count = x.ndim - 2
    spans = [(size - 1) * gap + 1 for size, gap in zip(w.shape[2:], dilation, strict=True)]
    shown = VIEW(x, spans, tuple(range(2, x.ndim)))
    shown = shown[(slice(None), slice(None), *(slice(None, None, step) for step in strides))]
    shown = shown[(..., *(slice(None, None, gap) for gap in dilation))]
    sums = "bcxyzhwd"[: 2 + count] + "hwd"[:count]
    parts = [
        np.einsum(f"{sums},oc{'hwd'[:count]}->bo{'xyz'[:count]}", part, own)
        for part, own in zip(np.split(shown, groups, 1), np.split(w, groups), strict=True)
    ]
    return np.concatenate(parts, 1)


#: The input, the filters' shape, strides, padding, dilation and groups, and the operators.
CONVOLUTIONS: dict[str, tuple[Any, Any, Any, Any, Any, int, dict[str, int]]] = {
    "an image": (
        IMAGE,
        *((4, 3, 3, 2), (2, 1), ((1, 1), (0, 1)), (1, 1), 1),
        {"TRANSPOSE": 2, "CONV2D": 1},
    ),
    "a line": (
        LINE,
        *((4, 3, 3), (1,), ((2, 0),), (1,), 1),
        {"TRANSPOSE": 2, "RESHAPE": 2, "CONV2D": 1},
    ),
    "a volume": (
        VOLUME,
        *((3, 2, 2, 2, 2), (1, 1, 1), ((1, 0), NO, NO), (1, 1, 1), 1),
        {"TRANSPOSE": 2, "CONV3D": 1},
    ),
    "each channel": (
        IMAGE,
        *((6, 1, 3, 3), (1, 1), ((1, 1), (1, 1)), (2, 1), 3),
        {"TRANSPOSE": 2, "DEPTHWISE_CONV2D": 1},
    ),
    "two groups": (
        np.concatenate([IMAGE, IMAGE[:, :1]], 1),
        *((4, 2, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 2),
        {"TRANSPOSE": 2, "SLICE": 2, "CONV2D": 2, "CONCAT": 1},
    ),
    "four groups": (
        np.concatenate([IMAGE, IMAGE, IMAGE[:, :2]], 1),
        *((12, 2, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 4),
        {"TRANSPOSE": 2, "DEPTHWISE_CONV2D": 1, "RESHAPE": 2, "REDUCE_SUM": 1},
    ),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_has_its_sums(name: str) -> None:
    x, shape, strides, padding, dilation, groups, operators = CONVOLUTIONS[name]
    w = RNG.normal(size=shape).astype(F32)
    bias = RNG.normal(size=shape[0]).astype(F32)
    order = tuple(range(x.ndim))

    def convolution(s: Any, a: Any, weight: Any = None, shift: Any = None) -> Any:
        weight, shift = weight or constant(w), shift or constant(bias)
        window = Window(strides, padding, (1,) * len(strides), dilation)
        return products.conv_general_dilated(
            s, a, weight, window, (order, order, order), F32, groups, bias=shift
        )

    want = convolved(x, w, strides, padding, dilation, groups)
    want = want + bias.reshape(-1, *(1,) * len(strides))
    np.testing.assert_allclose(results(convolution, x)[0], want, atol=1e-4)
    assert names(program(convolution, x)) == operators
    np.testing.assert_allclose(results(convolution, x, w, bias)[0], want, atol=1e-4)


def test_products_of_constants_are_constants() -> None:
    a, b = RNG.normal(size=(2, 3, 4)).astype(F32), RNG.normal(size=(2, 4, 5)).astype(F32)

    def product(s: Any, x: Any) -> Any:
        made = products.product(s, constant(a), constant(b), F32)
        assert made.is_constant
        return movement.concatenate(s, [made, x], 0)

    np.testing.assert_allclose(results(product, a @ b)[0][:2], a @ b, rtol=1e-5)
