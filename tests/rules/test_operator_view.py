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


def test_an_operand_is_found_by_its_name() -> None:
    example = {
        "values": "FP32[1,2,3]",
        "indices": "INT32[1,4]",
        "row_count": "INT32[1]=2",
        "block_size": 1,
    }
    gather = view("ROW_GATHER_BLOCK_SCALED", example)
    assert [row.name for row, _ in gather.operands()] == ["values", "indices", "row_count"]
    assert gather.shape("indices") == (1, 4)
    assert gather.splat("row_count") == 2
    assert not gather.has("values_scale")
    assert list(gather.results()) == []
