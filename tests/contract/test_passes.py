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


def test_the_pass_may_be_anywhere_in_a_pipeline_and_exports_the_ir_at_that_point(
    bindings: Bindings, tmp_path: Path
) -> None:
    with bindings.new_context():
        module = bindings.ir.Module.parse(REDUNDANT)
        passes = manager(bindings)
        add_tosa_serialize(passes, tmp_path / "before.tosa")
        passes.add("canonicalize")
        add_tosa_serialize(passes, tmp_path / "after.tosa", tosa_version="1.1")
        passes.add("cse")
        passes.run(module.operation)
    operators = {
        name: [op.spec.name for op in tc.load(tmp_path / f"{name}.tosa").main.operators]
        for name in ("before", "after")
    }
    assert operators == {"before": ["CONST_SHAPE", "RESHAPE", "ABS"], "after": ["ABS"]}
    assert str(tc.load(tmp_path / "after.tosa").version) == "1.1.0 draft"


def test_a_backend_may_follow_the_pass(torch_mlir: Bindings, example: Path, tmp_path: Path) -> None:
    with torch_mlir.new_context():
        module = torch_mlir.ir.Module.parseFile(str(example))
        expected = tc.export_tosa_func_to_flatbuffer(module)
        passes = manager(torch_mlir)
        passes.add("func.func(tosa-infer-shapes)")
        add_tosa_serialize(passes, tmp_path / "m.tosa", tosa_version="1.0", verify=True)
        passes.add("func.func(tosa-to-linalg-named)")
        passes.add("func.func(tosa-to-arith,tosa-to-linalg)")
        passes.run(module.operation)
        assert "linalg.conv_2d" in text(module)
    assert (tmp_path / "m.tosa").read_bytes() == expected


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


def test_the_pass_has_the_options_of_export(bindings: Bindings, tmp_path: Path) -> None:
    narrow = "func.func @g(%x: tensor<2xi64>) -> tensor<2xi64> { return %x : tensor<2xi64> }"
    with bindings.new_context():
        module = bindings.ir.Module.parse(REDUNDANT + narrow)
        passes = manager(bindings)
        add_tosa_serialize(passes, tmp_path / "m.tosa", func="g", narrow=["i64"], weights="npy")
        passes.run(module.operation)
    graph = tc.load(tmp_path / "m.tosa")
    assert [tensor.dtype.name for tensor in graph.main.tensors.values()] == ["INT32"]


@pytest.mark.parametrize("add", [add_tosa_serialize, add_tosa_serialize_json])
def test_a_failure_fails_the_pass_with_every_finding_and_leaves_no_file(
    add: Any, bindings: Bindings, tmp_path: Path
) -> None:
    with bindings.new_context():
        module = bindings.ir.Module.parse(BAD)
        before = text(module)
        ran: list[str] = []
        passes = manager(bindings)
        add(passes, tmp_path / "m.out")
        passes.add(lambda operation, _: ran.append(operation.name))
        with pytest.raises(bindings.ir.MLIRError) as caught:
            passes.run(module.operation)
        assert text(module) == before
    said = str(caught.value)
    assert "tosa-serialize" in said
    assert "'arith.addf' is not a TOSA operator" in said
    assert "'arith.mulf' is not a TOSA operator" in said
    assert "--narrow f64" in said
    assert "[foreign-operator]" in said
    assert ran == []
    assert list(tmp_path.iterdir()) == []
    cause = caught.value.__cause__
    assert isinstance(cause, tc.TosaConvertError)
    assert {finding.code for finding in cause.findings} >= {"foreign-operator"}
    places = {str(row.location) for row in caught.value.error_diagnostics}
    assert {'loc("-":3:8)', 'loc("-":4:8)'} <= places


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


def test_the_old_file_is_unchanged_if_the_pass_fails(bindings: Bindings, tmp_path: Path) -> None:
    old = tmp_path / "m.tosa"
    old.write_bytes(b"old")
    with bindings.new_context():
        module = bindings.ir.Module.parse(BAD)
        passes = manager(bindings)
        add_tosa_serialize(passes, old)
        with pytest.raises(bindings.ir.MLIRError):
            passes.run(module.operation)
    assert old.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["m.tosa"]


def test_a_folder_that_does_not_exist_fails_the_pass(bindings: Bindings, tmp_path: Path) -> None:
    with bindings.new_context():
        module = bindings.ir.Module.parse(REDUNDANT)
        passes = manager(bindings)
        add_tosa_serialize(passes, tmp_path / "no" / "m.tosa")
        with pytest.raises(bindings.ir.MLIRError, match="file-error"):
            passes.run(module.operation)


def test_a_wrong_option_is_an_error_of_the_caller_and_not_of_the_module(
    bindings: Bindings, tmp_path: Path
) -> None:
    with bindings.new_context():
        module = bindings.ir.Module.parse(REDUNDANT)
        passes = manager(bindings)
        with pytest.raises(TypeError, match="colour"):
            add_tosa_serialize(passes, tmp_path / "m.tosa", colour="red")  # type: ignore[call-arg]
        passes.run(module.operation)  # the pass was not added
    assert list(tmp_path.iterdir()) == []


def test_the_pass_also_runs_on_a_single_function(bindings: Bindings, tmp_path: Path) -> None:
    with bindings.new_context():
        module = bindings.ir.Module.parse(REDUNDANT)
        passes = manager(bindings, "func.func")
        add_tosa_serialize(passes, tmp_path / "m.tosa")
        passes.run(next(iter(module.body.operations)).operation)
    assert tc.load(tmp_path / "m.tosa").regions[0].name == "f"
