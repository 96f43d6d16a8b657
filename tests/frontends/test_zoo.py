"""Three networks of the zoo are equal to torch, directly and through ONNX, and over several calls."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frontends.zoo_runs import answer
from networks import FOLDER, TORCH, networks

import tosa_convert as tc

pytestmark = [
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("torch", "tosa_reference_model")),
        reason="torch or tosa-tools is not installed",
    ),
    pytest.mark.filterwarnings("ignore"),
]
needs_onnx = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("onnx", "onnxruntime", "onnxscript")),
    reason="onnx, onnxruntime or onnxscript is not installed",
)


#: What torch counts and computes in 64 bits.
NARROW = ("--narrow", "i64,f64")


@pytest.mark.parametrize(
    ("name", "family"),
    [("mobilenet_v3", "mobile"), ("llama", "attention"), ("streaming_keywords", "speech")],
)
def test_a_network_is_equal_to_torch(tmp_path: Path, name: str, family: str) -> None:
    row = answer(tmp_path, f"{FOLDER / family}.py:make_{name}", "torch", *NARROW)
    assert (row["status"], row["message"]) == ("pass", "")
    assert row["operators"] > 50


@needs_onnx
@pytest.mark.parametrize("name", ["mobilenet_v3", "llama", "dlrm"])
def test_a_network_is_equal_to_onnxruntime(tmp_path: Path, name: str) -> None:
    from write_onnx import write

    (path,) = write(tmp_path, [name])
    row = answer(tmp_path, path, "onnx", *NARROW)
    assert (row["status"], row["message"]) == ("pass", "")


@needs_onnx
def test_a_network_with_states_is_not_exported_to_onnx(tmp_path: Path) -> None:
    from write_onnx import write

    (line,) = write(tmp_path, ["streaming_keywords"])
    assert "ONNX has no state" in line
    assert list(tmp_path.iterdir()) == []


def test_a_stream_of_frames_gives_what_torch_gives_with_its_states() -> None:
    """Eight calls: the first frames have left the buffers by then."""
    torch = importlib.import_module("torch")
    factory = {found: make for _, found, make in networks(TORCH)}["streaming_keywords"]
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
