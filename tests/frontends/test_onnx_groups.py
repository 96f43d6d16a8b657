"""Convolutions of ONNX of many groups: few operators for any number of groups, and the same numbers."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frontends.onnx_models import node, saved

import tosa_convert as tc

pytestmark = pytest.mark.skipif(
    any(
        importlib.util.find_spec(name) is None
        for name in ("onnx", "onnxruntime", "tosa_reference_model")
    ),
    reason="onnx, onnxruntime or tosa-tools is not installed",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "sizes", "weight", "bias", "most", "attributes"),
    [
        ("Conv", [1, 128, 9, 9], (128, 4, 3, 3), (), 6, {"group": 32, "pads": [1] * 4}),
        (
            "Conv",
            [2, 128, 9, 8],
            (64, 4, 3, 3),
            (64,),
            8,
            {"group": 32, "pads": [1, 0, 1, 1], "strides": [2, 2]},
        ),
        ("Conv", [2, 16, 14], (32, 2, 3), (32,), 11, {"group": 8}),
        ("Conv", [1, 16, 5, 5, 5], (16, 2, 3, 3, 3), (16,), 19, {"group": 8}),
        ("Conv", [1, 320, 24, 24], (320, 64, 3, 3), (), 14, {"group": 5}),
        (
            "ConvTranspose",
            [1, 16, 5, 5],
            (16, 3, 3, 3),
            (24,),
            11,
            {"group": 8, "strides": [2, 2], "pads": [1] * 4, "output_padding": [1, 1]},
        ),
        ("ConvTranspose", [1, 16, 5], (16, 1, 1), (), 14, {"group": 8, "strides": [3]}),
    ],
)
def test_groups_are_equal_to_onnxruntime(
    tmp_path: Path,
    kind: str,
    sizes: list[int | str],
    weight: tuple[int, ...],
    bias: tuple[int, ...],
    most: int,
    attributes: dict[str, Any],
) -> None:
    import onnxruntime

    numbers = np.random.default_rng(0)
    weights = {"w": numbers.standard_normal(weight).astype(np.float32)}
    if bias:
        weights["b"] = numbers.standard_normal(bias).astype(np.float32)
    nodes = [node(kind, ["x", *weights], ["y"], **attributes)]
    path = saved(tmp_path / "m.onnx", nodes, {"x": (np.float32, sizes)}, ["y"], weights)
    graph = tc.frontends.from_file(path)
    assert sum(bool(op.inputs) for op in graph.main.operators) <= most
    assert tc.validate(graph) == []
    x = numbers.standard_normal([int(size) for size in sizes]).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
    found = tc.run(graph, {"x": x}).outputs["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("outputs", "most"), [(["y"], 3), (["y", "c"], 5)])
def test_statistics_become_the_weights_of_a_convolution_that_nothing_else_uses(
    tmp_path: Path, outputs: list[str], most: int
) -> None:
    import onnxruntime

    rng = np.random.default_rng(0)
    weights = {
        name: rng.uniform(0.5, 2, shape).astype(np.float32)
        for name, shape in (
            ("w", (6, 4, 3, 3)),
            *((key, (6,)) for key in ("b", "s", "o", "m", "v")),
        )
    }
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], pads=[1] * 4),
        node("BatchNormalization", ["c", "s", "o", "m", "v"], ["y"]),
    ]
    path = saved(tmp_path / "m.onnx", nodes, {"x": (np.float32, [1, 4, 7, 7])}, outputs, weights)
    graph = tc.frontends.from_onnx(path)
    assert sum(bool(op.inputs) for op in graph.main.operators) == most
    x = rng.normal(size=(1, 4, 7, 7)).astype(np.float32)
    expected = onnxruntime.InferenceSession(path).run(None, {"x": x})
    for want, got in zip(expected, tc.run(graph, {"x": x}).outputs.values(), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
