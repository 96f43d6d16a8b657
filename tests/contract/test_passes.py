"""Serialising in an MLIR pass: it leaves the IR unchanged and reports failures as MLIR does."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest

import tosa_convert as tc
from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.formats.bindings.passes import add_tosa_serialize, add_tosa_serialize_json

#: Not TOSA: two operators and an element type that a file cannot express.
BAD = """
func.func @f(%x: tensor<2xf64>) -> tensor<2xf64> {
  %0 = arith.addf %x, %x : tensor<2xf64>
  %1 = arith.mulf %0, %0 : tensor<2xf64>
  return %1 : tensor<2xf64>
}
"""
#: canonicalize removes the reshape to the same shape.
REDUNDANT = """
func.func @f(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "tosa.const_shape"() <{values = dense<[2, 3]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %1 = "tosa.reshape"(%x, %0) : (tensor<2x3xf32>, !tosa.shape<2>) -> tensor<2x3xf32>
  %2 = "tosa.abs"(%1) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %2 : tensor<2x3xf32>
}
"""


def manager(bindings: Bindings, anchor: str = "builtin.module") -> Any:
    """Return a new pass manager of the bindings; needs a context."""
    return importlib.import_module(f"{bindings.package}.passmanager").PassManager(anchor)


def text(module: Any) -> str:
    return str(module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True))


@pytest.mark.parametrize("anchor", ["builtin.module", "any"])
def test_the_pass_writes_what_export_writes_and_changes_nothing(
    anchor: str, bindings: Bindings, example: Path, tmp_path: Path
) -> None:
    with bindings.new_context():
        module = bindings.ir.Module.parseFile(str(example))
        before = text(module)
        passes = manager(bindings, anchor)
        add_tosa_serialize(passes, tmp_path / "m.tosa")
        add_tosa_serialize_json(passes, tmp_path / "m.json")
        passes.run(module.operation)
        assert text(module) == before
        assert module.operation.verify()
    assert (tmp_path / "m.tosa").read_bytes() == tc.export_tosa_func_to_flatbuffer(module)
    tosa, json = tc.load(tmp_path / "m.tosa"), tc.load(tmp_path / "m.json")
    assert tc.compare(tosa, json, locations=True, version=True) is None


EXPORT_OPTIONS = [
    name
    for name, parameter in inspect.signature(tc.export_tosa_func_to_flatbuffer).parameters.items()
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY
]


@pytest.mark.parametrize("option", EXPORT_OPTIONS)
def test_every_option_of_export_but_the_format_is_accepted(
    bindings: Bindings, tmp_path: Path, option: str
) -> None:
    with bindings.new_context():
        add: Any
        for add in (add_tosa_serialize, add_tosa_serialize_json):
            if option == "to":
                with pytest.raises(TypeError, match="to"):
                    add(manager(bindings), tmp_path / "m.tosa", to="tosa")
            else:
                # Only names are checked here; values are checked when the pass runs.
                add(manager(bindings), tmp_path / "m.tosa", **{option: None})


def test_a_pass_gives_its_bytes_to_a_function_and_can_fail_again(bindings: Bindings) -> None:
    written: list[bytes] = []
    with bindings.new_context():
        good, bad = map(bindings.ir.Module.parse, (REDUNDANT, BAD))
        passes = manager(bindings)
        add_tosa_serialize(passes, written.append)
        for _ in range(20):
            with pytest.raises(bindings.ir.MLIRError, match="foreign-operator"):
                passes.run(bad.operation)
        passes.run(good.operation)
        assert written == [tc.export_tosa_func_to_flatbuffer(good)]


def test_an_invalid_operator_is_named_at_its_location(bindings: Bindings) -> None:
    wrong = """func.func @f(%x: tensor<2xi8>) -> tensor<2xi8> {
      %0 = "tosa.abs"(%x) : (tensor<2xi8>) -> tensor<2xi8> loc("/a/b/net.py":7:1)
      %1 = "tosa.abs"(%0) : (tensor<2xi8>) -> tensor<2xi8> loc("mine")
      return %1 : tensor<2xi8>
    }"""
    with bindings.new_context():
        module = bindings.ir.Module.parse(wrong)
        passes = manager(bindings)
        add_tosa_serialize(passes, lambda data: None)
        with pytest.raises(bindings.ir.MLIRError) as caught:
            passes.run(module.operation)
        found = [str(row.location) for row in caught.value.error_diagnostics]
    assert found == ['loc("/a/b/net.py":7:1)', 'loc("mine")']


def test_a_folder_that_does_not_exist_fails_the_pass(bindings: Bindings, tmp_path: Path) -> None:
    with bindings.new_context():
        module = bindings.ir.Module.parse(REDUNDANT)
        passes = manager(bindings)
        add_tosa_serialize(passes, tmp_path / "no" / "m.tosa")
        with pytest.raises(bindings.ir.MLIRError, match="file-error"):
            passes.run(module.operation)


def test_the_pass_also_runs_on_a_single_function(bindings: Bindings, tmp_path: Path) -> None:
    with bindings.new_context():
        module = bindings.ir.Module.parse(REDUNDANT)
        passes = manager(bindings, "func.func")
        add_tosa_serialize(passes, tmp_path / "m.tosa")
        passes.run(next(iter(module.body.operations)).operation)
    assert tc.load(tmp_path / "m.tosa").regions[0].name == "f"
