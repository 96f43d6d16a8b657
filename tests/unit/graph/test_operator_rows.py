"""Which row of an operator an operand stands for, where some rows are absent or repeat."""

from __future__ import annotations

import pytest

from tosa_convert.graph import OPERATORS, operator


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


#: Operators on single elements, by the number of operands whose elements meet.
ELEMENTWISE = {
    1: "CLAMP ERF SIGMOID TANH TABLE ABS BITWISE_NOT CEIL CLZ COS EXP FLOOR LOG LOGICAL_NOT NEGATE "
    "RECIPROCAL RSQRT SIN CAST IDENTITY",
    2: "ADD ARITHMETIC_RIGHT_SHIFT BITWISE_AND BITWISE_OR BITWISE_XOR INTDIV LOGICAL_AND "
    "LOGICAL_LEFT_SHIFT LOGICAL_RIGHT_SHIFT LOGICAL_OR LOGICAL_XOR MAXIMUM MINIMUM MUL POW SUB EQUAL "
    "GREATER GREATER_EQUAL",
    3: "SELECT",
}
#: Of these, the ones whose first two operands may change places.
COMMUTES = (
    *(
        "ADD",
        "BITWISE_AND",
        "BITWISE_OR",
        "BITWISE_XOR",
        "LOGICAL_AND",
        "LOGICAL_OR",
        "LOGICAL_XOR",
    ),
    *("MAXIMUM", "MINIMUM", "MUL", "EQUAL"),
)


def test_operators_on_elements_are_known() -> None:
    for count, names in ELEMENTWISE.items():
        assert [row.name for row in OPERATORS if row.elementwise == count] == names.split()
    every = {name for names in ELEMENTWISE.values() for name in names.split()}
    assert {row.name for row in OPERATORS if row.elementwise} == every
    assert [row.name for row in OPERATORS if row.is_step] == ["CEIL", "FLOOR"]
    assert [row.name for row in OPERATORS if row.commutes] == [*COMMUTES]


def test_products_are_known_by_their_dimensions() -> None:
    assert operator("MATMUL").multiply_accumulates == {
        "output": ("N", "I", "J"),
        "a": ("N", "I", "K"),
        "b": (".", "K", "J"),
    }
    assert operator("ADD").multiply_accumulates == {}
