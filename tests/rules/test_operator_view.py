"""Operators with the types of their operands by name."""

from __future__ import annotations

import pytest
from rules.operator_examples import view

from tosa_convert.graph.opset import OPERATORS, OperatorSpec


@pytest.mark.parametrize("spec", OPERATORS, ids=str)
def test_all_operands_have_the_rows(spec: OperatorSpec) -> None:
    values = {row.name: "SHAPE[1]" if row.is_shape else "FP32[1]" for row in spec.operands}
    count = len(spec.operands)
    expected = [spec.operand(index, count) for index in range(count)]
    assert [row for row, _ in view(spec.name, values).operands()] == expected
