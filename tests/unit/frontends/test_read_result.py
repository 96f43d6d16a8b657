"""Test that a converter's program is read with the names of the model."""

from __future__ import annotations

from pathlib import Path

import pytest

from tosa_convert.frontends.process.request import PROGRAM_FILE, Interface, Request, Value
from tosa_convert.frontends.read_result import finish
from tosa_convert.io.options import ReadOptions

PROGRAM = """
func.func @main(%arg0: tensor<4xi64>) -> tensor<4xi64> {
  %0 = tosa.abs %arg0 : (tensor<4xi64>) -> tensor<4xi64> loc("net.py":7:3)
  %1 = tosa.abs %0 : (tensor<4xi64>) -> tensor<4xi64> loc("net.py":7:3)
  %2 = tosa.abs %1 : (tensor<4xi64>) -> tensor<4xi64> loc("bias"("net.tflite":0:0))
  %3 = tosa.abs %2 : (tensor<4xi64>) -> tensor<4xi64> loc(unknown)
  %4 = tosa.abs %3 : (tensor<4xi64>) -> tensor<4xi64>
  return %4 : tensor<4xi64>
}
"""


def test_narrowed_values_are_named_as_in_the_model(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / PROGRAM_FILE).write_text(PROGRAM, encoding="utf-8")
    ids, scores = (Value(name=name, dtype="int64", shape=(4,)) for name in ("ids", "scores"))
    interface = Interface(inputs=[ids], outputs=[scores])
    request = Request(frontend="torch", source="net.py")
    graph = finish(request, interface, tmp_path, ReadOptions(narrow=("i64",)))
    assert (graph.main.inputs, graph.main.outputs) == (["ids"], ["scores"])
    assert caplog.messages == [
        "narrowed i64 to i32 in 6 tensors: ids, net.py:7, bias, scores, and 1 without a name"
    ]
