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
        ("onnx.Scan", "unroll it"),
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
        ("onnx.Loop", "constant count"),
        ("onnx.If", "choose with Where"),
        ("onnx.ZipMap", "'zipmap': False"),
        ("onnx.NonZero", "depends on the data"),
        ("com.microsoft.Attention", "ORT_ENABLE_BASIC"),
        ("an input", "tensors of numbers"),
    ],
)
def test_operators_of_onnx_have_advice_of_their_own(operator: str, said: str) -> None:
    assert said in advice("onnx", operator)
    assert "torch" not in advice("onnx", operator)


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
