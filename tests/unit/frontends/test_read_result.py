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


@pytest.mark.parametrize(("kernel", "messages"), [(2, 2), (1, 1)])
def test_sizes_that_do_not_fit_an_open_program_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kernel: int, messages: int
) -> None:
    program = f"""
    func.func @main(%arg0: tensor<?x?x?x3xf32>) -> tensor<?x?x?x3xf32> {{
      %0 = tosa.max_pool2d %arg0 {{kernel = array<i64: {kernel}, {kernel}>,
        pad = array<i64: 0, 0, 0, 0>, stride = array<i64: {kernel}, {kernel}>}}
        : (tensor<?x?x?x3xf32>) -> tensor<?x?x?x3xf32>
      return %0 : tensor<?x?x?x3xf32>
    }}"""
    (tmp_path / PROGRAM_FILE).write_text(program, encoding="utf-8")
    values = Value(name="x", dtype="float32", shape=(-1, -1, -1, 3))
    interface = Interface(inputs=[values], outputs=[values])
    finish(Request(frontend="onnx", source="net.onnx"), interface, tmp_path, ReadOptions())
    assert len(caplog.messages) == messages
    assert ("with x=3x97x97x3" in caplog.messages[-1]) == (messages == 2)
