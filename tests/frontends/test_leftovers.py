"""Operations that a converter left in its program."""

from __future__ import annotations

from pathlib import Path

import pytest

import tosa_convert as tc
from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.frontends.process.request import PROGRAM_FILE, Interface, Request
from tosa_convert.frontends.read_result import finish
from tosa_convert.io.options import ReadOptions

PROGRAM = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %none = "OPERATION"() : () -> tensor<2xf32>
  return %x : tensor<2xf32>
}
"""


@pytest.mark.parametrize(
    ("operation", "code"), [("tfl.sort", "not-lowered"), ("tfl.no_value", "foreign-operator")]
)
def test_what_stays_is_named_whether_it_is_an_operator_of_the_model_or_not(
    operation: str, code: str, tmp_path: Path, torch_mlir: Bindings
) -> None:
    context = torch_mlir.ir.Context()
    context.allow_unregistered_dialects = True
    module = torch_mlir.ir.Module.parse(PROGRAM.replace("OPERATION", operation), context)
    with (tmp_path / PROGRAM_FILE).open("wb") as file:
        module.operation.write_bytecode(file)
    request = Request(frontend="tflite", source=str(tmp_path / "m.tflite"))
    with pytest.raises(tc.TosaConvertError) as caught:
        finish(request, Interface(), tmp_path, ReadOptions())
    assert {finding.code for finding in caught.value.findings} == {code}
    assert operation.partition(".")[2] in str(caught.value).lower()
