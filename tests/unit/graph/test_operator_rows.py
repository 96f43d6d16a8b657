"""Which row of an operator an operand stands for, where some rows are absent or repeat."""

from __future__ import annotations

import pytest

from tosa_convert.graph import operator


@pytest.mark.parametrize(
    ("name", "count", "expected"),
    [
        ("CONCAT", 0, []),
        ("CONCAT", 3, ["input1", "input1", "input1"]),
        ("COND_IF", 1, ["condition"]),
        ("COND_IF", 2, ["condition", "input_list"]),
        ("COND_IF", 4, ["condition", "input_list", "input_list", "input_list"]),
        ("RESHAPE_BLOCK_SCALED", 2, ["input", "new_value_shape"]),
        ("RESHAPE_BLOCK_SCALED", 3, ["input", "input_scale", "new_value_shape"]),
        ("ADD", 2, ["input1", "input2"]),
    ],
)
def test_an_operand_has_the_row_of_its_position(name: str, count: int, expected: list[str]) -> None:
    spec = operator(name)
    assert [spec.operand(index, count).name for index in range(count)] == expected


@pytest.mark.parametrize(("name", "count"), [("ADD", 2), ("COND_IF", 1), ("CONCAT", 0)])
def test_an_operand_that_there_is_not_has_no_row(name: str, count: int) -> None:
    with pytest.raises(IndexError):
        operator(name).operand(count, count)
