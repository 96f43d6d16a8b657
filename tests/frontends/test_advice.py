"""What the user is told to do about an operator that does not lower."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tosa_convert.frontends.unlowered import advice, grouped, unlowered


def test_what_is_known_of_one_operator_comes_first() -> None:
    rows = [unlowered("aten.sort", "", "why") for _ in range(2)]
    rows.append(unlowered("aten.relu", "", "", "export older"))
    first, second = grouped(rows, "torch")
    assert (first.operator, first.count, first.reason) == ("aten.sort", 2, "why")
    assert first.hint == advice("torch", "aten.sort")
    assert second.hint == "export older"


def test_equal_refusals_of_onnx_are_one_row_with_the_first_place() -> None:
    pytest.importorskip("onnx", reason="onnx is not installed")
    convert: Any = importlib.import_module("tosa_convert.frontends.onnx.convert")
    problems = [
        unlowered("onnx.Unique", "a", ""),
        unlowered("onnx.Cast", "b", "TOSA does not have the element type float64", "cast"),
        unlowered("onnx.Unique", "c", ""),
        unlowered("onnx.Unique", "d", "it cannot be cut out: why", "do not"),
    ]
    rows = convert.report(problems)
    assert [(row.operator, row.where, row.count) for row in rows] == [
        *(("onnx.Unique", "a", 2), ("onnx.Cast", "b", 1), ("onnx.Unique", "d", 1))
    ]
    hints = [advice("onnx", "onnx.Unique"), "to compute in FP32: --narrow f64", "do not"]
    assert [row.hint for row in rows] == hints
