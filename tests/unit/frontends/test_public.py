"""Test what conversions refuse before a framework is asked, and how cases of models are found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from frontends.tflite_models import TensorRow, model
from refusing import refused

import tosa_convert as tc
from tosa_convert.errors import TosaConvertError
from tosa_convert.qualify.suite.model_cases import files_of_model, find_cases

TFLITE = model([TensorRow("x", "float32", (2,))], [], [0], [0])


@pytest.mark.parametrize(
    ("convert", "message"),
    [
        (tc.frontends.from_file, "the input is not a model that a frontend reads"),
        (tc.frontends.from_tflite, "the input is something else, expected"),
        (tc.frontends.from_onnx, "the input is something else, expected"),
        (tc.frontends.from_keras, "the input is something else, expected"),
    ],
)
def test_a_text_is_no_model(
    convert: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "m.txt"
    path.write_text("hello", encoding="utf-8")
    with refused("unrecognised-input", match=message):
        convert(path)


def test_a_model_of_another_framework_is_named(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(TFLITE)
    for convert in (tc.frontends.from_onnx, tc.frontends.from_keras):
        with pytest.raises(TosaConvertError, match="the input is a model for tflite, expected"):
            convert(path)


def test_what_cannot_be_exported_is_no_keras_model() -> None:
    given: Any = 3
    with pytest.raises(TypeError, match=r"found int, expected a keras\.Model or a path"):
        tc.frontends.from_keras(given)


def test_cases_are_found_by_what_is_in_files_and_folders(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "m.tflite").write_bytes(TFLITE)
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "m.tflite").write_bytes(TFLITE)
    (tmp_path / "bad.tflite").write_bytes(b"hello")
    (tmp_path / "bad.py").write_text("def (", encoding="utf-8")
    node = tmp_path / "node" / "test_data_set_0"
    node.mkdir(parents=True)
    (node.parent / "model.onnx").write_bytes(b"")
    saved = tmp_path / "saved"
    saved.mkdir()
    (saved / "saved_model.pb").write_bytes(b"")
    found = find_cases([str(tmp_path)], ["onnx", "tensorflow"])
    assert (found.names, found.left_out) == (["onnx/node", "tensorflow/saved"], {"tflite": 1})
    assert "is not a case: no frontend reads it" in caplog.text
    assert "has no cases" in caplog.text
    with pytest.raises(TosaConvertError, match="nothing"):
        find_cases([str(tmp_path)], ["nothing"])


def test_the_files_of_a_model_are_those_that_decide_it(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    (saved / "variables").mkdir(parents=True)
    for name in ("saved_model.pb", "variables/data"):
        (saved / name).write_bytes(b"")
    listed = files_of_model(str(tmp_path), "tensorflow/saved")
    assert sorted(Path(path).name for path in listed) == ["data", "saved_model.pb"]
    (tmp_path / "m.onnx").write_bytes(b"...weights.bin...sub/more.bin...m.onnx")
    (tmp_path / "sub").mkdir()
    for name in ("weights.bin", "sub/more.bin", "other.bin", "m.npz"):
        (tmp_path / name).write_bytes(b"")
    listed = files_of_model(str(tmp_path), "onnx/m.onnx")
    names = {str(Path(path).relative_to(tmp_path)).replace("\\", "/") for path in listed}
    assert names >= {"m.onnx", "weights.bin", "sub/more.bin"}
    assert "other.bin" not in names
