"""Resizing by torch: one RESIZE, or a product for each axis, with the numbers of torch."""

from __future__ import annotations

import importlib.util
from typing import Any, Final

import numpy as np
import pytest

import tosa_convert as tc

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        any(
            importlib.util.find_spec(name) is None
            for name in ("torch", "torch_mlir", "tosa_reference_model")
        ),
        reason="torch, torch-mlir or tosa-tools is not installed",
    ),
]


#: Mode, options, and the most operators that such a resize takes.
CASES: Final[list[tuple[str, dict[str, Any], int]]] = [
    ("nearest", {"scale_factor": 2.0}, 3),
    ("nearest", {"size": (15, 7)}, 3),
    ("nearest", {"scale_factor": 1.5}, 30),
    ("nearest", {"size": (3, 14)}, 30),
    ("bilinear", {"scale_factor": 2.0}, 3),
    ("bilinear", {"size": (9, 13), "align_corners": True}, 3),
    ("bilinear", {"size": (9, 13)}, 3),
    ("bilinear", {"scale_factor": 1.5}, 99),
    ("bilinear", {"size": (3, 4)}, 99),
    ("bicubic", {"scale_factor": 2.0}, 10),
    ("bicubic", {"scale_factor": 1.7}, 10),
    ("bicubic", {"size": (9, 40), "align_corners": True}, 10),
]


def test_few_operators_give_the_numbers_of_torch() -> None:
    """All in one program, since an export of each would take most of a minute."""
    import torch

    class Resize(torch.nn.Module):
        def forward(self, *inputs: Any) -> Any:
            rows = zip(inputs, CASES, strict=True)
            interpolate = torch.nn.functional.interpolate
            return tuple(interpolate(x, mode=mode, **options) for x, (mode, options, _) in rows)

    torch.manual_seed(0)
    inputs = [torch.randn(2, 3, 5, 7) for _ in CASES]
    graph = tc.frontends.from_torch(Resize(), inputs)
    assert tc.validate(graph) == []
    feed = {name: x.numpy() for name, x in zip(graph.main.inputs, inputs, strict=True)}
    found = tc.run(graph, feed).outputs
    expected = Resize()(*inputs)
    for case, name, given, right in zip(
        CASES, graph.main.inputs, found.values(), expected, strict=True
    ):
        np.testing.assert_allclose(given, right.numpy(), rtol=1e-5, atol=2e-6, err_msg=str(case))
        assert _count_behind(graph.main, name) <= case[2], case


def _count_behind(block: Any, name: str) -> int:
    """Count the operators that depend on a tensor."""
    reached = {name}
    count = 0
    for op in block.operators:
        if reached & set(op.inputs):
            reached |= set(op.outputs)
            count += 1
    return count
