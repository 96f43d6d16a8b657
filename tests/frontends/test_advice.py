"""What the user is told to do about an operator that does not lower."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tosa_convert.frontends.unlowered import advice


@pytest.mark.parametrize(
    ("operator", "said"),
    [
        ("aten.bernoulli.p", "random numbers"),
        ("onnx.NonZero", "depends on the data"),
        ("aten.fft_rfft", "cosines"),
        ("aten.linalg_det", "outside the network"),
        ("aten.size.int", "--input-shape"),
        ("onnx.Loop", "unroll it"),
        ("onnx.ReverseSequence", "reversed order"),
        ("onnx.SequenceAt", "tensors of numbers only"),
        ("onnx.QLinearConv", "QDQ"),
        ("onnx.MatMulInteger", "QDQ"),
        ("onnx.LSTM", "loop over cells"),
        ("aten.upsample_bicubic2d", "bilinear"),
        ("aten.sort", "does not sort"),
        ("onnx.TopK", "does not sort"),
        ("aten.nll_loss_forward", "the loss"),
        ("aten.tanh_backward", "forward pass"),
        ("aten.something", "--partial"),
    ],
)
def test_each_kind_of_operator_has_its_advice(operator: str, said: str) -> None:
    assert said in advice("torch", operator)


@pytest.mark.parametrize(
    ("operator", "said"),
    [
        ("CUMSUM", "constant axis"),
        ("slice", "computed position"),
        ("DYNAMIC_UPDATE_SLICE", "mask"),
        ("UNIQUE", "--partial"),
    ],
)
def test_operators_of_tflite_have_advice_of_their_own(operator: str, said: str) -> None:
    assert said in advice("tflite", operator)


def test_what_a_framework_knows_comes_first() -> None:
    pytest.importorskip("torch_mlir", reason="torch-mlir is not installed")
    report: Any = importlib.import_module("tosa_convert.frontends.torch.unlowered_report")
    dialect: Any = importlib.import_module("tosa_convert.frontends.torch.dialect")
    (row,) = report.report({dialect.Unlowered("aten.sort", "", "why"): 2})
    assert (row.operator, row.count, row.reason) == ("aten.sort", 2, "why")
    assert row.hint == advice("torch", "aten.sort")
    rows = {dialect.Unlowered(name, "", ""): 1 for name in ("onnx.Relu", "onnx.Loop")}
    found = report.report(rows, lambda name: "export older" if name == "onnx.Relu" else "")
    assert [row.hint.partition(":")[0] for row in found] == [
        "export older",
        "unroll it, or use torch.where",
    ]


def test_an_operator_of_a_young_form_is_to_be_exported_in_an_older_one() -> None:
    route: Any = pytest.importorskip("tosa_convert.frontends.onnx.by_torch_mlir")

    def older(opset: int, operator: str) -> str:
        row = route.Unlowered(operator, "", route.NOT_CONVERTED)
        return str(route._older_form(opset, [row], operator))

    assert "opset 19: export the model with opset 17" in older(19, "onnx.Resize")
    assert older(17, "onnx.Resize") == ""  # That is the older form.
    assert older(21, "onnx.Gelu") == ""  # It has no older form.
    assert older(21, "aten.add") == older(21, "onnx.Unheard") == ""
