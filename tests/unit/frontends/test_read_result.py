"""Test that a converter's program is read with the names of the model."""

from __future__ import annotations

from pathlib import Path

import pytest

from tosa_convert.frontends.process.request import PROGRAM_FILE, Interface, Request, Value
from tosa_convert.frontends.read_result import finish
from tosa_convert.io.options import ReadOptions
from tosa_convert.rules.public import needs

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


def test_what_needs_tosa_1_1_is_said_with_the_option_that_avoids_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = PROGRAM.replace("tensor<4xi64>", "tensor<?x4xi64>")
    (tmp_path / PROGRAM_FILE).write_text(text, encoding="utf-8")
    ids, scores = (Value(name=name, dtype="int64", shape=(-1, 4)) for name in ("ids", "scores"))
    interface = Interface(inputs=[ids], outputs=[scores])
    graph = finish(Request(frontend="torch", source="net.py"), interface, tmp_path, ReadOptions())
    assert needs(graph).version == "1.1"
    assert caplog.messages == [
        "the input ids has sizes that are not fixed: ?x4; "
        "set them when you convert: --input-shape ids=1x4",
        "6 tensors of INT64 need EXT-INT64 of TOSA 1.1: ids, net.py:7, bias, scores, and 1 without a "
        "name; to compute in 32 bits instead: --narrow i64",
    ]


def test_open_sizes_that_the_converter_describes_are_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = PROGRAM.replace("tensor<4xi64>", "tensor<?xi32>")
    (tmp_path / PROGRAM_FILE).write_text(text, encoding="utf-8")
    values = [Value(name=name, dtype="int32", shape=(-1,)) for name in ("ids", "scores")]
    remark = "the input ids has sizes that are not fixed: rows; rows is at least 2"
    interface = Interface(inputs=values[:1], outputs=values[1:], remarks=[remark])
    finish(Request(frontend="torch", source="net.py"), interface, tmp_path, ReadOptions())
    assert caplog.messages == [remark]
