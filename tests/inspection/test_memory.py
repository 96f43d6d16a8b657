"""The peak of activations, compared with tables of what is in use at each operator."""

from __future__ import annotations

from unit.building import tensor

from tosa_convert.graph import Tensor, dtype
from tosa_convert.graph.dtypes import BLOCK_SCALE, BlockShape
from tosa_convert.graph.model import BlockScale
from tosa_convert.rules.costs import Amount
from tosa_convert.views.inspection.summary import tensor_bytes


def test_elements_below_a_byte_share_bytes_and_scales_are_counted() -> None:
    assert tensor_bytes(tensor("x", "INT4", (3, 3))) == Amount(5)
    scaled = tensor("x", "FP8E4M3", (2, 64))
    scaled.scale = BlockScale(BLOCK_SCALE, BlockShape.BLOCK_SHAPE_32)
    assert tensor_bytes(scaled) == Amount(128 + 4)
    assert tensor_bytes(Tensor("x", dtype("FP32"), None)) == Amount(0, exact=False)
