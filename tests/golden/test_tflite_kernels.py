"""Which kernels of TFLite run a model; `tests/frontends/test_keras_zoo.py` has the numbers."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from frontends.tflite_models import OperatorRow, TensorRow, model

from tosa_convert.golden.backends.process import Machine, run_worker
from tosa_convert.golden.backends.worker import _tflite_interpreter
from tosa_convert.io.flatbuffer_tables import root_table

ROWS = [TensorRow(name, "int8", (2, 2), scales=(0.5,), zero_points=(0,)) for name in "xyz"]
OPERATORS = [OperatorRow("RELU", (0,), (1,), version=3), OperatorRow("ABS", (1,), (2,))]


def versions(data: bytes) -> list[int]:
    return [row.number(2, "i", 1) for row in root_table(data).tables(1)]


def software(newest: int) -> Any:
    """Has reference kernels for operators up to a version; it answers with what it is called with."""

    def interpreter(path: str = "", **options: Any) -> Any:
        data = options.get("model_content")
        if data is not None and max(versions(data)) > newest:
            found = max(versions(data))
            raise ValueError(f"Didn't find op for builtin opcode 'RELU' version '{found}'.")
        return path if data is None else versions(data)

    kinds = SimpleNamespace(BUILTIN_REF=0, BUILTIN_WITHOUT_DEFAULT_DELEGATES=1)
    return SimpleNamespace(OpResolverType=kinds, Interpreter=interpreter)


@pytest.mark.parametrize(("newest", "expected"), [(3, [1, 3]), (2, [1, 2]), (1, [1, 1])])
def test_reference_kernels_of_older_versions_run(
    tmp_path: Any, newest: int, expected: list[int]
) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(model(ROWS, OPERATORS, [0], [2]))
    assert sorted(_tflite_interpreter(software(newest), str(path))) == expected


def test_other_kernels_run_if_there_is_no_reference_kernel(tmp_path: Any) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(model(ROWS, OPERATORS, [0], [2]))
    assert _tflite_interpreter(software(0), str(path)) == str(path)


#: Software whose reference kernels fail an assertion, and whose other kernels negate.
SOFTWARE = """
import os
import numpy as np

class OpResolverType:
    BUILTIN_REF, BUILTIN_WITHOUT_DEFAULT_DELEGATES = range(2)

class Interpreter:
    def __init__(self, *_, experimental_op_resolver_type, **__):
        self.is_reference = experimental_op_resolver_type == OpResolverType.BUILTIN_REF

    def get_input_details(self):
        return [{"name": "x", "index": 0, "shape": (2, 2), "dtype": "int8"}]

    get_tensor_details = get_input_details

    def get_output_details(self):
        return [{"index": 1}]

    def _get_ops_details(self):
        return []

    def allocate_tensors(self):
        pass

    def set_tensor(self, index, array):
        self.array = array

    def get_tensor(self, index):
        return -self.array

    def invoke(self):
        if self.is_reference:
            os.abort()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signal of an abort")
def test_other_kernels_run_if_the_reference_kernels_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    package, folder = tmp_path / "ai_edge_litert", tmp_path / "run"
    package.mkdir()
    folder.mkdir()
    (package / "__init__.py").touch()
    (package / "interpreter.py").write_text(SOFTWARE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    path = tmp_path / "m.tflite"
    path.write_bytes(model(ROWS, OPERATORS, [0], [2]))
    x = np.array([[1, 2], [3, 4]], np.int8)
    outputs, steps = run_worker(Machine(sys.executable, 60), "tflite", str(path), [x], folder)
    assert [read().tolist() for read in outputs] == [(-x).tolist()]
    assert not steps
    (warning,) = caplog.messages
    assert warning.startswith("tflite: reference kernels failed (it ended with SIGABRT")
