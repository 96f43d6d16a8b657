"""Resizing and padding by torch take few operators, with the numbers of torch."""

from __future__ import annotations

import importlib.util
from typing import Any, Final

import numpy as np
import pytest

import tosa_convert as tc

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("torch", "tosa_reference_model")),
        reason="torch or tosa-tools is not installed",
    ),
]


#: Mode, options, and the most operators that such a resize or padding takes.
CASES: Final[list[tuple[str, dict[str, Any], int]]] = [
    ("nearest", {"scale_factor": 2.0}, 3),
    ("nearest", {"size": (15, 7)}, 3),
    ("nearest", {"scale_factor": 1.5}, 3),
    ("nearest", {"size": (3, 14)}, 3),
    ("bilinear", {"scale_factor": 2.0}, 3),
    ("bilinear", {"size": (9, 13), "align_corners": True}, 3),
    ("bilinear", {"size": (9, 13)}, 3),
    ("bilinear", {"scale_factor": 1.5}, 8),
    ("bilinear", {"size": (3, 4)}, 8),
    ("bicubic", {"scale_factor": 2.0}, 8),
    ("bicubic", {"scale_factor": 1.7}, 8),
    ("bicubic", {"size": (9, 40), "align_corners": True}, 8),
    ("circular", {"pad": (2, 1, 0, 3)}, 3),
    ("reflect", {"pad": (2, 1, 0, 3)}, 3),
    ("reflect", {"pad": (0, 1, 0, 0)}, 3),
    ("replicate", {"pad": (2, 1, 0, 3)}, 3),
]


def test_few_operators_give_the_numbers_of_torch() -> None:
    """All in one program, since an export of each would take most of a minute."""
    import torch

    def _of(x: Any, mode: str, options: dict[str, Any]) -> Any:
        functions = torch.nn.functional
        function = functions.pad if "pad" in options else functions.interpolate
        return function(x, mode=mode, **options)

    class Resize(torch.nn.Module):
        def forward(self, *inputs: Any) -> Any:
            rows = zip(inputs, CASES, strict=True)
            return tuple(_of(x, mode, options) for x, (mode, options, _) in rows)

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


def test_one_pixel_is_repeated_by_a_resize() -> None:
    """Resize an image of one pixel, as DeepLab does after its global pool."""
    import torch

    graph = tc.frontends.from_torch(
        torch.nn.UpsamplingBilinear2d(size=(4, 5)), [torch.randn(1, 3, 1, 1)]
    )
    assert [one.spec.name for one in graph.main.operators] == ["CONST_SHAPE", "TILE"]


def _count_behind(block: Any, name: str) -> int:
    """Count the operators that depend on a tensor."""
    reached = {name}
    count = 0
    for op in block.operators:
        if reached & set(op.inputs):
            reached |= set(op.outputs)
            count += 1
    return count
