"""TFLite models as programs of TOSA, for tests that need the converter and the reference model."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any, Final

import pytest
from frontends.tflite_models import model

import tosa_convert as tc

#: The marks of tests that convert a TFLite model and run the program.
NEEDS_TFLITE: Final = [
    pytest.mark.skipif(
        importlib.util.find_spec(name) is None, reason=f"{distribution} is not installed"
    )
    for name, distribution in (
        ("tosa_converter_for_tflite", "tosa-converter-for-tflite"),
        ("tosa_reference_model", "tosa-tools"),
    )
]


def lowered(folder: Path, *parts: Any, **options: Any) -> tc.Graph:
    """The valid program of a model that is written into a folder, as `tflite_models.model` makes it."""
    path = folder / "m.tflite"
    path.write_bytes(model(*parts, **options))
    graph = tc.frontends.from_tflite(path)
    assert tc.validate(graph) == []
    return graph
