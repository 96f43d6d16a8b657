"""Keras networks of the zoo as TFLite models: equal to TFLite's kernels, quantised ones bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from frontends.zoo_runs import answer

for package in ("keras", "tensorflow", "ai_edge_litert"):
    pytest.importorskip(package, reason=f"{package} is not installed")

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("zoo")


def answers(folder: Path, name: str, form: str) -> dict[str, Any]:
    """Return what the suite says of a network."""
    from write_tflite import write

    (path,) = write(folder, [name], [form])
    return answer(folder, path, "tflite")


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("ds_cnn", "float"),
        ("dlrm", "float"),  # Tokens are in range by the inputs beside the model.
        ("mobilenet_v3", "int8"),
        ("transformer", "int8"),
        ("srcnn", "int8"),  # RESIZE_BILINEAR, which rounds halves away from zero.
        ("siamese", "int8"),  # ABS, at which the converter ends.
        ("convnext", "int8"),  # QUANTIZE without a zero point.
        ("resnet_basic", "int16"),  # SOFTMAX, whose sums wrap around in the converter's program.
        ("autoencoder", "int8"),  # TILE, whose reference kernel is registered for older versions.
    ],
)
def test_a_network_is_equal(folder: Path, name: str, form: str) -> None:
    row = answers(folder, name, form)
    assert (row["status"], row["message"]) == ("pass", "")
    assert row["largest_error"] == 0 or form == "float"


def test_scales_that_tflite_ignores_are_not_ignored(folder: Path) -> None:
    """docs/zoo.md: TFLite reverses bytes, and the scales of the result are others."""
    row = answers(folder, "crnn", "int8")
    assert row["status"] == "wrong"


def test_what_tflite_does_not_quantize_has_its_reason(folder: Path) -> None:
    from write_tflite import write

    (line,) = write(folder, ["espcn"], ["int16"])
    assert "DEPTH_TO_SPACE" in line
