"""Statistics of constants, compared with numpy on all elements at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from tosa_convert.graph import Constant, dtype
from tosa_convert.graph.constant import BLOCK
from tosa_convert.graph.dtypes import DType
from tosa_convert.views.inspection.value_statistics import (
    Statistics,
    statistics,
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


def test_without_finite_elements_there_is_no_range() -> None:
    for name, count, data in [("FP32", 0, b""), ("FP32", 1, b"\0\0\xc0\x7f"), ("BF16", 0, b"")]:
        found = statistics(Constant(dtype(name), count, data))
        assert (found.least, found.greatest, found.mean, found.histogram) == (None, None, None, ())
