"""Which kernels of TFLite run a model; `tests/frontends/test_keras_zoo.py` has the numbers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from frontends.tflite_models import OperatorRow, TensorRow, model

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
