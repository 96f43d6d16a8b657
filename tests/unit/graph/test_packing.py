"""Elements below 8 bits. The expected bytes come from files that the reference model accepts."""

from __future__ import annotations

import numpy as np
import pytest

from tosa_convert.graph import constant as packing
from tosa_convert.graph.constant import pack, unpack


def test_a_block_ends_on_a_byte_for_every_width() -> None:
    assert packing.BLOCK % 4 == 0


@pytest.mark.parametrize("bits", [3, 5, 8])
def test_other_widths_are_refused(bits: int) -> None:
    with pytest.raises(ValueError, match="are not packed"):
        pack(np.zeros(4, np.uint8), bits)
    with pytest.raises(ValueError, match="are not packed"):
        unpack(np.zeros(4, np.uint8), bits, 4)
