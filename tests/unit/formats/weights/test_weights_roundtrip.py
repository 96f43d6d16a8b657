"""Constants go into a folder of .npy files and come back bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.weights_folder import (
    flat,
    one,
)

from tosa_convert.formats.weights.read import read
from tosa_convert.formats.weights.write import write
from tosa_convert.graph import Constant, dtype


@pytest.mark.parametrize("kind", ["INT4", "FP4E2M1", "FP6E2M3", "FP6E3M2"])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 9])
def test_odd_counts_of_packed_elements_come_back(kind: str, count: int, folder: Path) -> None:
    row = dtype(kind)
    made = one(kind, (count,), bytes(row.wire_bytes(count)))
    elements = bytes(i % 7 + 1 for i in range(count))
    made.main.tensors["w"].data = Constant(row, count, elements, unpacked=True)
    assert flat(read(write(made, folder), folder)) == flat(made)
