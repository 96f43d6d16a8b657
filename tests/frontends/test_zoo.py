"""Three networks of the zoo are equal to torch, directly and through ONNX, and over several calls."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
from measure_zoo import FILES, measured, networks

import tosa_convert as tc

pytestmark = [
    pytest.mark.skipif(
        any(
            importlib.util.find_spec(name) is None
            for name in ("torch", "torch_mlir", "tosa_reference_model")
        ),
        reason="torch, torch-mlir or tosa-tools is not installed",
    ),
    pytest.mark.filterwarnings("ignore"),
]
needs_onnx = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("onnx", "onnxruntime", "onnxscript")),
    reason="onnx, onnxruntime or onnxscript is not installed",
)


@pytest.mark.parametrize("frontend", ["torch", pytest.param("onnx", marks=needs_onnx)])
@pytest.mark.parametrize("name", ["mobilenet_v3", "llama", "streaming_keywords"])
def test_a_network_is_equal(name: str, frontend: str) -> None:
    factory = {found: make for _, found, make in networks()}[name]
    row = measured(frontend, factory)
    if (name, frontend) == ("streaming_keywords", "onnx"):
        assert row["reason"].startswith("ONNX has no state")
    else:
        assert row["equal"], row


def test_a_stream_of_frames_gives_what_torch_gives_with_its_states() -> None:
    """Eight calls: the first frames have left the buffers by then."""
    torch = importlib.import_module("torch")
    factory = {found: make for _, found, make in networks()}["streaming_keywords"]
    graph = tc.frontends.from_torch(*factory())
    module, (frame,) = factory()
    (name,) = graph.main.inputs
    states: dict[str, Any] = {}
    random = np.random.default_rng(5)
    for _ in range(8):
        values = random.standard_normal(tuple(frame.shape)).astype(np.float32)
        expected = module(torch.from_numpy(values)).detach().numpy()
        result = tc.run(graph, {name: values}, variables=states)
        states = result.variables
        (found,) = result.outputs.values()
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
    buffers = {key: value.detach().numpy() for key, value in module.named_buffers()}
    assert states.keys() == buffers.keys()
    for key, state in states.items():
        np.testing.assert_allclose(state, buffers[key], rtol=1e-5, atol=1e-6)
        assert np.abs(state).max() > 0.01


def test_a_network_that_does_not_lower_has_a_row_with_the_reason() -> None:
    torch = importlib.import_module("torch")

    class Determinant(torch.nn.Module):  # type: ignore[name-defined]
        def forward(self, x: object) -> object:
            return torch.linalg.det(x)

    row = measured("torch", lambda: (Determinant(), (torch.ones(3, 3),)))
    assert (row["exported"], row["lowered"], row["equal"]) == (True, False, False)
    assert "linalg_det" in row["reason"]


def test_the_zoo_has_a_file_for_each_frontend() -> None:
    assert set(FILES) == {"torch", "onnx"}
