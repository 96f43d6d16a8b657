"""The public functions: their arguments, their results, and what they refuse."""

from __future__ import annotations

import gc
import io
from pathlib import Path
from typing import Any

import pytest
from unit.building import encode, example, graph, op, tensor

import tosa_convert as tc
from tosa_convert.formats.bindings.packages import Bindings

TEXT = """func.func @f(%a: tensor<2xf32> {tosa.tensor_name = "x"}) -> tensor<2xf32> {
  %0 = tosa.exp %a : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @declared(tensor<2xf32>)
"""


@pytest.mark.parametrize("source", [None, 7, io.StringIO(""), ["m.tosa"], {}])
def test_a_source_that_is_neither_a_path_nor_bytes_is_a_type_error(source: Any) -> None:
    with pytest.raises(TypeError):
        tc.load(source)


def test_module_operation_and_function_are_the_same_to_export(parse: Any) -> None:
    module = parse(TEXT)
    function = next(iter(module.body.operations))
    expected = tc.export_tosa_func_to_flatbuffer(module)
    for thing in (module.operation, function, function.operation):
        assert tc.export_tosa_func_to_flatbuffer(thing) == expected
    assert tc.export_tosa_func_to_flatbuffer(module, func="f") == expected
    assert tc.export_tosa_func_to_flatbuffer(function, func="f") == expected


@pytest.mark.parametrize(
    "what", ["context", "module", "location", "type", "body", "insertion point"]
)
def test_importing_builds_in_the_bindings_of_whatever_is_given(
    bindings: Bindings, what: str
) -> None:
    ir = bindings.ir
    context = bindings.new_context()
    module = ir.Module.parse(TEXT, context)
    given = {
        "context": context,
        "module": module,
        "location": module.operation.location,
        "type": ir.F32Type.get(context),
        "body": module.body,
        "insertion point": ir.InsertionPoint(module.body),
    }[what]
    made = tc.import_tosa_func_from_flatbuffer(encode(example()), context=given)
    assert isinstance(made, ir.Module)
    assert made.context == context
    assert made.operation.verify()


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_left_as_it_was(tmp_path: Path, enabled: bool) -> None:
    try:
        (gc.enable if enabled else gc.disable)()
        tc.load(encode(example()))
        tc.save(example(), tmp_path / "m.tosa")
        with pytest.raises(tc.TosaConvertError):
            tc.load(b"\x10\0\0\0TOSA")
        assert gc.isenabled() == enabled
    finally:
        gc.enable()


def test_a_custom_operator_that_mlir_cannot_represent_is_refused_with_its_location(
    torch_mlir: Any,
) -> None:
    made = graph(
        "x", "y", [tensor("x"), tensor("y", "INT8")], [op("EXP", "x", "y", 'loc("f.py":3:4)')]
    )
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.import_tosa_func_from_flatbuffer(encode(made), validate=False)
    (finding,) = caught.value.findings
    assert (finding.code, finding.where) == ("malformed-mlir", "f.py:3:4")
