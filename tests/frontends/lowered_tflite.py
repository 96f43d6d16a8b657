"""TFLite models as programs of TOSA, for tests that need the reference model."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from frontends.tflite_models import model
from frontends.tflite_operators.programs import Program, Value
from frontends.tflite_operators.values import Array, Result
from frontends.tflite_operators.write import write

import tosa_convert as tc

#: The marks of tests that convert a TFLite model and run the program.
NEEDS_TFLITE: Final = [
    pytest.mark.skipif(
        importlib.util.find_spec(name) is None, reason=f"{distribution} is not installed"
    )
    for name, distribution in (("tosa_reference_model", "tosa-tools"),)
]


def lowered(folder: Path, *parts: Any, **options: Any) -> tc.Graph:
    """Return the valid program of a model that `tflite_models.model` makes, in a folder."""
    path = folder / "m.tflite"
    path.write_bytes(model(*parts, **options))
    graph = tc.frontends.from_tflite(path)
    assert tc.validate(graph) == []
    return graph


def run_program(
    folder: Path, program: Program, values: Sequence[Value], *rows: Result, **options: Any
) -> Array:
    """Return the only result of a program of one operator, on the program's inputs."""
    program.returns(program.apply(program.operator, values, *rows, **options))
    graph = tc.frontends.from_tflite(write(program, folder))
    assert tc.validate(graph) == []
    signed = {
        name: array.view(f"i{array.itemsize}") if array.dtype.kind == "u" else array
        for name, array in program.arrays.items()
    }
    (array,) = tc.run(graph, signed).outputs.values()
    return np.asarray(array)
