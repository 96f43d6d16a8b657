"""Modules of the torch dialect that torch-mlir wrote compute what torch and onnxruntime computed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from frontends.torch_modules.write_modules import FOLDER, arguments

import tosa_convert as tc
from tosa_convert.cli.main import run, verb
from tosa_convert.errors import TosaConvertError

pytest.importorskip("torch_mlir", reason="torch-mlir is not installed")
pytest.importorskip("torch", reason="torch is not installed")

#: File -> the results that the framework computed.
RESULTS = {"raw.mlir": "torch.npy", "backend.mlirbc": "torch.npy", "onnx.mlir": "onnx.npy"}
HEAD = "func.func @main(%x: !torch.vtensor<[?,3],f32>) -> !torch.vtensor<[?,3],f32> {\n"
END = "  return %r : !torch.vtensor<[?,3],f32>\n}\n"
KIND = "!torch.vtensor<[?,3],f32>"
RELU = f"{HEAD}  %r = torch.aten.relu %x : {KIND} -> {KIND}\n{END}"
FIXED = f"""{HEAD}  %one = torch.constant.int 1
  %c = torch.vtensor.literal(dense<1.0> : tensor<7x3xf32>) : !torch.vtensor<[7,3],f32>
  %r = torch.aten.add.Tensor %x, %c, %one :
      {KIND}, !torch.vtensor<[7,3],f32>, !torch.int -> {KIND}
{END}"""
UNLOWERED = f"""{HEAD}  %none = torch.constant.none
  %u = torch.operator "torch.mine.half"(%x) : ({KIND}) -> {KIND}
  %v = torch.aten.rand_like %u, %none, %none, %none, %none, %none :
      {KIND}, !torch.none, !torch.none, !torch.none, !torch.none, !torch.none -> {KIND}
  %r = torch.aten.mul.Tensor %u, %v : {KIND}, {KIND} -> {KIND}
{END}"""
UNSIGNED = """func.func @main(%x: !torch.vtensor<[3],ui8>) -> !torch.vtensor<[3],f32> {
  %none = torch.constant.none
  %no = torch.constant.bool false
  %kind = torch.constant.int 6
  %r = torch.aten.to.dtype %x, %kind, %no, %no, %none :
      !torch.vtensor<[3],ui8>, !torch.int, !torch.bool, !torch.bool, !torch.none ->
      !torch.vtensor<[3],f32>
  return %r : !torch.vtensor<[3],f32>
}
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("m.mlir")


def findings(module: Path, text: str, **options: object) -> list[tuple[str, str, str]]:
    module.write_text(text, encoding="utf-8")
    with pytest.raises(TosaConvertError) as caught:
        tc.frontends.from_file(module, **options)  # type: ignore[arg-type]
    return [(row.code, row.where, row.message) for row in caught.value.findings]


@pytest.mark.slow
@pytest.mark.parametrize("name", RESULTS)
def test_a_module_computes_what_its_framework_computed(name: str) -> None:
    graph = tc.frontends.from_file(FOLDER / name)
    assert tc.validate(graph) == []
    inputs = dict(zip(graph.main.inputs, arguments(), strict=True))
    (found,) = tc.golden.run(graph, inputs, engine="numpy").outputs.values()
    np.testing.assert_allclose(found, np.load(FOLDER / RESULTS[name]), rtol=1e-4, atol=1e-5)
    assert name == "backend.mlirbc" or any(name in row.location for row in graph.main.operators)


@pytest.mark.slow
def test_unknown_sizes_are_set_for_arguments(module: Path) -> None:
    module.write_text(RELU, encoding="utf-8")
    graph = tc.frontends.from_file(module, input_shapes={"arg0": (2, 3)})
    assert [graph.main.tensors[name].shape for name in graph.main.outputs] == [(2, 3)]
    (row,) = findings(module, FIXED)
    assert "torch.export fixes a size" in row[2]
    (row,) = findings(module, RELU, input_shapes={"y": (2, 3)})
    assert row[:2] == ("unknown-argument", "--input-shape y")
    (row,) = findings(module, RELU, input_shapes={"arg0": (2,)})
    assert row[:2] == ("option-conflict", "--input-shape arg0")


@pytest.mark.slow
def test_every_operator_that_does_not_lower_is_listed_with_its_line(module: Path) -> None:
    rows = findings(module, UNLOWERED)
    assert [row[:2] for row in rows] == [
        ("not-lowered", "m.mlir: line 3"),
        ("not-lowered", "m.mlir: line 4"),
    ]
    assert "mine.half" in rows[0][2]
    assert "random numbers" in rows[1][2]


@pytest.mark.slow
def test_unsigned_integers_keep_their_numbers(module: Path) -> None:
    module.write_text(UNSIGNED, encoding="utf-8")
    graph = tc.frontends.from_file(module)
    given = {"arg0": np.array([0, 127, 255], np.uint8).view(np.int8)}
    (found,) = tc.golden.run(graph, given, engine="numpy").outputs.values()
    assert found.tolist() == [0, 127, 255]


@pytest.mark.slow
def test_what_torch_does_not_have_is_left_to_the_caller(module: Path) -> None:
    module.write_text(UNLOWERED.replace("[?,3]", "[2,3]").replace("rand_like", "zeros_like"))
    assert run(verb("convert"), [str(module), "-o", "m.tosa", "--partial"]) == 0
    rows = json.loads(Path("m.json").read_text(encoding="utf-8"))
    assert [step.get("operator", "program") for step in rows["steps"]] == ["mine.half", "program"]


@pytest.mark.slow
def test_damaged_text_and_the_choice_of_a_function(module: Path) -> None:
    (row,) = findings(module, RELU.replace("aten.relu", "aten.no_such_operator"))
    assert row[0] == "malformed-mlir"
    assert "no_such_operator" in row[2]
    (row,) = findings(module, f'util.global private @w = "x"\n{RELU}')
    assert (row[0], "the dialect util" in row[2]) == ("not-lowered", True)
    two = RELU + RELU.replace("@main", "@other")
    (row,) = findings(module, two.replace("@main", "@first"))
    assert row[0] == "ambiguous-function"
    (row,) = findings(module, two, func="third")
    assert row[0] == "unknown-function"
    assert len(tc.frontends.from_file(module, func="other").main.operators) > 0


@pytest.mark.slow
def test_check_compares_with_iree(module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("iree.runtime", reason="IREE's runtime is not installed")
    module.write_text(RELU, encoding="utf-8")
    words = [str(module), "-o", "m.tosa", "--input-shape", "arg0=2x3", "--check"]
    assert run(verb("convert"), words) == 0
    assert "all 6 elements equal" in capsys.readouterr().out


def test_a_program_of_tosa_with_attributes_of_torch_is_a_program() -> None:
    text = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> attributes {torch.assume_strict} {
  %0 = tosa.abs %x : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""
    assert len(tc.load(text.encode()).main.operators) == 1
    with pytest.raises(TosaConvertError, match="a module of the torch dialect"):
        tc.load(RELU.encode())
