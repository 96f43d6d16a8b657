"""Statistics of constants, compared with numpy on all elements at once."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from tosa_convert.graph import Constant, dtype
from tosa_convert.graph.constant import BLOCK
from tosa_convert.graph.dtypes import DTYPES, DType
from tosa_convert.views.inspection.statistics import (
    BINS,
    FEW,
    Statistics,
    statistics,
    statistics_of,
)


def random_constant(row: DType, count: int, seed: int = 0) -> Constant:
    """Return a constant of random bits, packed as in a file."""
    rng = np.random.default_rng(seed)
    if row.name == "BOOL":
        return Constant(row, count, rng.integers(0, 2, count, np.uint8))
    return Constant(row, count, rng.bytes(row.wire_bytes(count)))


def wide(constant: Constant) -> npt.NDArray[np.float64]:
    with np.errstate(invalid="ignore"):  # some NaNs give a warning
        return constant.numpy().astype(np.float64)


@pytest.mark.parametrize("row", DTYPES, ids=str)
def test_every_type_has_the_statistics_that_numpy_computes(row: DType) -> None:
    constant = random_constant(row, 5000)
    found, numbers = statistics(constant), wide(constant)
    finite = numbers[np.isfinite(numbers)]
    assert found.count == 5000
    assert (found.least, found.greatest) == (finite.min(), finite.max())
    assert found.mean == pytest.approx(finite.mean(), rel=1e-9, abs=1e-12)
    assert found.zeros == (numbers == 0).sum()
    assert found.nans == np.isnan(numbers).sum()
    assert found.infinities == np.isinf(numbers).sum()
    assert sum(found.histogram) == len(finite)
    assert len(found.histogram) == BINS
    few = np.unique(finite, return_counts=True)
    expected = zip(*(part.tolist() for part in few), strict=True)
    assert list(found.values) == (list(expected) if len(few[0]) <= FEW else [])


@pytest.mark.parametrize("name", ["INT8", "INT16", "INT32", "FP32"])
def test_the_histogram_is_that_of_numpy(name: str) -> None:
    # Whole numbers, of which none is near an edge between two bins.
    numbers = (np.arange(3000) % 32) * 4
    stored = numbers.astype(dtype(name).numpy)
    found = statistics(Constant(dtype(name), len(numbers), stored.tobytes()))
    expected, _ = np.histogram(numbers, BINS, (0, 124))
    assert list(found.histogram) == expected.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["INT4", "FP6E2M3", "BOOL", "BF16", "INT48", "FP32"])
def test_elements_of_several_blocks_are_all_counted(name: str) -> None:
    row, count = dtype(name), 2 * BLOCK + 5
    constant = random_constant(row, count, seed=1)
    found, numbers = statistics(constant), wide(constant)
    assert found.zeros == (numbers == 0).sum()
    assert found.count == count
    finite = numbers[np.isfinite(numbers)]
    assert found.mean == pytest.approx(finite.mean(), rel=1e-9, abs=1e-9)
    assert sum(found.histogram) == len(finite)


def test_a_splat_is_not_expanded() -> None:
    splat = Constant(dtype("FP32"), 10**12, np.float32(1.5).tobytes(), splat=True)
    assert statistics(splat) == Statistics(10**12, 1.5, 1.5, 1.5, 0, 0, 0, ((1.5, 10**12),), ())


def test_what_is_not_finite_is_counted_apart() -> None:
    values = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 3.0], "<f4")
    found = statistics(Constant(dtype("FP32"), 6, values.tobytes()))
    assert (found.nans, found.infinities, found.zeros) == (1, 2, 2)
    assert (found.least, found.greatest, found.mean) == (0.0, 3.0, 1.0)
    assert found.values == ((0.0, 2), (3.0, 1))


def test_without_finite_elements_there_is_no_range() -> None:
    for name, count, data in [("FP32", 0, b""), ("FP32", 1, b"\0\0\xc0\x7f"), ("BF16", 0, b"")]:
        found = statistics(Constant(dtype(name), count, data))
        assert (found.least, found.greatest, found.mean, found.histogram) == (None, None, None, ())


def test_the_largest_numbers_do_not_overflow() -> None:
    greatest = float(np.finfo(np.float64).max)
    found = statistics_of(lambda: iter([np.array([-greatest, greatest])]))
    assert (found.least, found.greatest) == (-greatest, greatest)
    assert found.histogram[0] == found.histogram[-1] == 1
    integers = np.array([-(2**63), 2**63 - 1], "<i8")
    constant = Constant(dtype("INT64"), 2, integers.tobytes())
    assert (statistics(constant).least, statistics(constant).greatest) == (-(2**63), 2**63 - 1)


def test_values_that_appear_late_are_noticed() -> None:
    numbers = np.zeros(BLOCK + 10, "<f4")
    numbers[-9:] = range(1, 10)
    found = statistics(Constant(dtype("FP32"), len(numbers), numbers.tobytes()))
    assert found.values == ()
    numbers[-9:] = 7
    found = statistics(Constant(dtype("FP32"), len(numbers), numbers.tobytes()))
    assert found.values == ((0.0, BLOCK + 1), (7.0, 9))


def test_the_mean_of_many_equal_numbers_is_exact() -> None:
    found = statistics(Constant(dtype("BF16"), 1000, np.full(1000, 0x3DCD, "<u2").tobytes()))
    assert found.mean is not None
    assert math.isclose(found.mean, 0.10009765625, rel_tol=1e-15)
