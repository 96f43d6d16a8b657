"""Selected and interpolated elements, samples of images and Fourier transforms, by numpy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from frontends.lowered_arrays import F32, known, names, program, results

from tosa_convert.frontends.lowering import image_sampling, resize, spectral
from tosa_convert.frontends.lowering.scope import constant

RNG = np.random.default_rng(7)
X = RNG.normal(size=(2, 3, 4, 6)).astype(F32)
TWICE, THRICE = (np.arange(n * k) // k for n, k in ((4, 2), (6, 3)))
SOME, EVERY_OTHER = np.array([5, 0, 0, 3]), np.array([0, 2, 4])
M, N = RNG.normal(size=(5, 4)), RNG.normal(size=(3, 6))


def taken(x: Any, indices: dict[int, Any]) -> Any:
    for axis, index in indices.items():
        x = x.take(index, axis)
    return x


def of_selected(indices: dict[int, Any], x: Any = X) -> tuple[Any, Any, Any]:
    return partial(resize.selected, indices=indices), x, taken(x, indices)


def enlarged(s: Any, x: Any) -> Any:
    axes = [resize.linear_axis(4, 8, False), resize.linear_axis(6, 11, True)]
    return resize.resized(s, x, axes, "BILINEAR")


def linear_weights(positions: Any, size: int) -> Any:
    """Return the weights of neighbours that are repeated beyond the border."""
    kept = np.clip(positions, 0, size - 1)
    return np.maximum(1 - np.abs(kept[:, None] - np.arange(size)), 0)


ROWS_2, COLUMNS_2 = (np.arange(8) + 0.5) / 2 - 0.5, np.arange(11) * 5 / 10
ENLARGED = linear_weights(ROWS_2, 4) @ X @ linear_weights(COLUMNS_2, 6).T
#: A function, its operand, what it returns, and the operators of its program.
ROWS: dict[str, tuple[Callable[..., Any], Any, Any, dict[str, int]]] = {
    "an image": (*of_selected({2: TWICE, 3: THRICE}), {"TRANSPOSE": 2, "RESIZE": 1}),
    "its columns": (*of_selected({3: THRICE}), {"TRANSPOSE": 2, "RESIZE": 1}),
    "bytes": (
        *of_selected({2: TWICE}, (X * 9).astype(np.uint8)),
        {"TRANSPOSE": 2, "RESIZE": 1},
    ),
    "integers": (*of_selected({2: TWICE}, (X * 9).astype(np.int32)), {"RESHAPE": 2, "TILE": 1}),
    "a volume": (*of_selected({0: np.arange(6) // 2}, X[0]), {"RESHAPE": 2, "TILE": 1}),
    "half an image": (
        *of_selected({2: np.arange(2) * 2 + 1, 3: np.array([0, 2, 4])}),
        {"TRANSPOSE": 2, "RESIZE": 1},
    ),
    "some of both": (
        *of_selected({2: np.array([3, 3, 0]), 3: SOME}),
        {"RESHAPE": 2, "GATHER": 1},
    ),
    "some": (*of_selected({3: SOME}), {"RESHAPE": 2, "GATHER": 1}),
    "every other": (*of_selected({1: EVERY_OTHER}, X[0, 0]), {"RESHAPE": 2, "SLICE": 1}),
    "nothing else": (*of_selected({2: np.arange(4)}), {"IDENTITY": 1}),
    "interpolated": (enlarged, X, ENLARGED, {"TRANSPOSE": 2, "RESIZE": 1}),
    "products": (
        partial(resize.multiplied, matrices={2: M, 3: N}),
        X,
        M @ X @ N.T,
        {"TRANSPOSE": 2, "MATMUL": 2, "RESHAPE": 4},
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_elements_are_selected_or_weighted(name: str) -> None:
    function, x, want, operators = ROWS[name]
    (found,) = results(function, x)
    np.testing.assert_allclose(found.view(x.dtype), want, rtol=1e-5, atol=1e-5)
    assert names(program(function, x)) == operators


@pytest.mark.parametrize("indices", [{2: TWICE, 3: SOME}, {0: np.array([1]), 3: EVERY_OTHER}])
def test_known_elements_are_selected_at_once(indices: dict[int, Any]) -> None:
    found = known(partial(resize.selected, indices=indices), X)
    np.testing.assert_array_equal(found, taken(X, indices))


@pytest.mark.parametrize(
    ("kernel", "reach", "factor", "exclude", "want"),
    [
        (resize.linear, 1, 1.0, False, [[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 0, 1]]),
        (resize.linear, 1, 0.5, False, [[6, 2, 0, 0], [4, 3, 1, 0], [0, 0, 2, 6]]),
        (resize.linear, 1, 0.5, True, [[2, 1, 0, 0], [3, 3, 1, 0], [0, 0, 1, 2]]),
        (resize.cubic(-0.5), 2, 1.0, False, [[1, 0, 0, 0], [8, 9, -1, 0], [0, 0, 0, 1]]),
        (resize.cubic(-0.5), 2, 1.0, True, [[1, 0, 0, 0], [9, 9, -1, 0], [0, 0, 0, 1]]),
    ],
)
def test_weights_are_those_of_neighbours(
    kernel: Any, reach: int, factor: float, exclude: bool, want: Any
) -> None:
    found = resize.weights(np.array([0, 0.5, 3.0]), 4, kernel, reach, factor, exclude)
    shares = np.array(want, float)
    np.testing.assert_allclose(found, shares / shares.sum(1, keepdims=True), atol=1e-12)


# -- samples ---------------------------------------------------------------------------------------

GRID = RNG.uniform(-1.3, 1.3, size=(2, 5, 7, 2)).astype(F32)


def sampled(x: Any, grid: Any, padding: str, is_nearest: bool = False) -> Any:
    """Sample with aligned ends, in float64: the definition, pixel by pixel."""
    batch, channels, height, width = x.shape
    made = np.zeros((batch, channels, *grid.shape[1:3]))
    for b, i, j in np.ndindex(*grid.shape[:3]):
        at = [(grid[b, i, j, 1 - k] + 1.0) * (n - 1) / 2 for k, n in enumerate((height, width))]
        if padding == "border":
            at = [np.clip(p, 0, n - 1) for p, n in zip(at, (height, width), strict=True)]
        if padding == "reflection":
            spans = [2.0 * (n - 1) for n in (height, width)]
            at = [min(abs(p) % m, m - abs(p) % m) for p, m in zip(at, spans, strict=True)]
        if is_nearest:
            at = [np.rint(p) for p in at]
        for row in range(height):
            for column in range(width):
                weight = max(1 - abs(at[0] - row), 0) * max(1 - abs(at[1] - column), 0)
                made[b, :, i, j] += weight * x[b, :, row, column]
    return made


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_an_image_is_sampled(padding: str, mode: str) -> None:
    function = partial(image_sampling.grid_sample, mode=mode, padding=padding, is_aligned=True)
    (found,) = results(function, X, GRID)
    want = sampled(X.astype(float), GRID.astype(float), padding, mode == "nearest")
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)


def test_four_neighbours_have_the_weights_of_a_cubic() -> None:
    grid = RNG.uniform(-0.9, 0.9, size=(2, 1, 9, 2)).astype(F32)
    function = partial(image_sampling.grid_sample, mode="cubic", padding="border", is_aligned=True)
    (found,) = results(function, X, grid)
    for image, points, got in zip(X, grid[:, 0], found[:, :, 0], strict=True):
        rows, columns = (
            resize.weights((points[:, k] + 1) * (n - 1) / 2, n, resize.cubic(-0.75), 2)
            for k, n in ((1, 4), (0, 6))
        )
        want = np.einsum("pr,crk,pk->cp", rows, image, columns)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("is_aligned", [False, True])
def test_a_grid_that_changes_nothing_samples_the_image(is_aligned: bool) -> None:
    theta = constant(np.eye(2, 3, dtype=F32)[None].repeat(2, 0))

    def same(s: Any, x: Any) -> Any:
        grid = image_sampling.affine_grid(s, theta, (4, 6), is_aligned)
        return image_sampling.grid_sample(s, x, grid, is_aligned=is_aligned)

    np.testing.assert_allclose(results(same, X)[0], X, rtol=1e-5, atol=1e-5)


def test_a_region_of_whole_pixels_has_their_means() -> None:
    regions, batches = np.array([[0, 0, 4, 4], [2, 0, 6, 4]], F32), np.array([1, 0], np.int32)
    axes = image_sampling.Region(4, 2, 2), image_sampling.Region(6, 2, 2)
    (found,) = results(partial(image_sampling.roi_align, axes=axes), X, regions, batches)
    for row, part in zip(found, (X[1, :, :, :4], X[0, :, :, 2:]), strict=True):
        want = part.reshape(3, 2, 2, 2, 2).mean((2, 4))
        np.testing.assert_allclose(row, want, rtol=1e-5, atol=1e-6)


# -- transforms ------------------------------------------------------------------------------------

SIGNAL = RNG.normal(size=(2, 8, 3, 1)).astype(F32)
PAIRS = RNG.normal(size=(2, 5, 3, 2)).astype(F32)
COMPLEX = PAIRS[..., 0] + 1j * PAIRS[..., 1]


def pairs(x: Any) -> Any:
    return np.stack([x.real, x.imag], -1)


#: The arguments of a transform, its operand, and what it returns.
TRANSFORMS: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "real": ({}, SIGNAL, pairs(np.fft.fft(SIGNAL[..., 0], axis=1))),
    "complex": ({}, PAIRS, pairs(np.fft.fft(COMPLEX, axis=1))),
    "inverse": ({"is_inverse": True}, PAIRS, pairs(np.fft.ifft(COMPLEX, axis=1))),
    "half": ({"is_onesided": True}, SIGNAL, pairs(np.fft.rfft(SIGNAL[..., 0], axis=1))),
    "cut": ({"length": 4}, PAIRS, pairs(np.fft.fft(COMPLEX, 4, axis=1))),
    "padded": ({"length": 9}, PAIRS, pairs(np.fft.fft(COMPLEX, 9, axis=1))),
    "from half": (
        {"is_inverse": True, "is_onesided": True},
        PAIRS,
        np.fft.irfft(COMPLEX, axis=1)[..., None],
    ),
    "from half of an odd length": (
        {"is_inverse": True, "is_onesided": True, "length": 9},
        PAIRS,
        np.fft.irfft(COMPLEX, 9, axis=1)[..., None],
    ),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_transform_is_a_product(name: str) -> None:
    given, x, want = TRANSFORMS[name]
    function = partial(spectral.dft, axis=1, **given)
    (found,) = results(function, x)
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)
    assert names(program(function, x))["MATMUL"] == 1


@pytest.mark.parametrize(("step", "is_known"), [(2, True), (2, False), (4, True)])
def test_frames_are_windowed_and_transformed(step: int, is_known: bool) -> None:
    signal, window = RNG.normal(size=(2, 10)).astype(F32), np.hanning(4).astype(F32)

    def lowered(s: Any, x: Any, given: Any) -> Any:
        return spectral.stft(s, x, constant(window) if is_known else given, step, 4)

    (found,) = results(lowered, signal, window)
    starts = range(0, 10 - 4 + 1, step)
    frames = np.stack([signal[:, at : at + 4] * window for at in starts], 1)
    np.testing.assert_allclose(found, pairs(np.fft.rfft(frames)), rtol=1e-4, atol=1e-5)
