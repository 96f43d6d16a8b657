"""The rules of operators on shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tosa_convert.graph import Constant, Operator, dtype, operator
from tosa_convert.rules.families.checks import ResultShape
from tosa_convert.rules.operator_view import OperatorView, ShapeType, TensorType, ValueType
from tosa_convert.rules.validate import Verdict, judge

Sizes = tuple[int | None, ...]


def sizes(*values: int | None) -> ShapeType:
    return ShapeType(len(values), values)


def position(value: int | None, shape: tuple[int, ...] | None = (1,)) -> TensorType:
    """Return an operand such as `start`; None if it is not constant."""
    row = dtype("INT32")
    data = None if value is None else Constant(row, 1, np.array([value], "<i4").tobytes())
    return TensorType(row, shape, None, data)


def verdict(
    name: str, *inputs: ValueType, outputs: tuple[ValueType, ...] = (), **attributes: Any
) -> Verdict:
    made = Operator(operator(name), (), (), attributes)
    return judge(OperatorView(made, inputs, outputs))


def rules(
    name: str, *inputs: ValueType, outputs: tuple[ValueType, ...] = (), **attributes: Any
) -> list[str]:
    found = verdict(name, *inputs, outputs=outputs, **attributes)
    return [violation.rule for violation in found.violations]


def result(name: str, *inputs: ValueType, **attributes: Any) -> ResultShape:
    found = verdict(name, *inputs, **attributes)
    assert found.results is not None, found.violations
    return found.results[0]


@pytest.mark.parametrize("name", ["ADD_SHAPE", "MIN_SHAPE", "DIV_CEIL_SHAPE"])
def test_shapes_of_different_ranks_are_refused(name: str) -> None:
    assert rules(name, sizes(1, 2), sizes(1)) == ["rank"]
    assert rules(name, sizes(), sizes()) == []


@pytest.mark.parametrize("name", ["MOD_SHAPE", "DIV_CEIL_SHAPE", "DIV_FLOOR_SHAPE"])
def test_a_division_by_zero_is_refused(name: str) -> None:
    assert rules(name, sizes(4, None), sizes(2, 0)) == ["divisor"]
    assert rules(name, sizes(4, 3), sizes(2, None)) == []


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("ADD_SHAPE", 1 << 62, 1 << 62),
        ("SUB_SHAPE", -(1 << 62), (1 << 62) + 1),
        ("MUL_SHAPE", 1 << 40, 1 << 40),
    ],
)
def test_values_of_more_than_64_bits_are_refused(name: str, one: int, other: int) -> None:
    assert rules(name, sizes(one), sizes(other)) == ["range"]
    assert rules(name, sizes(1, None), sizes(None, other)) == []


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("EXP2_SHAPE", -1, "exponent"),
        ("EXP2_SHAPE", 63, "exponent"),
        ("EXP2_SHAPE", 1 << 62, "exponent"),
        ("LOG2_CEIL_SHAPE", 0, "value"),
        ("LOG2_FLOOR_SHAPE", -4, "value"),
    ],
)
def test_exponents_and_logarithms_outside_their_range_are_refused(
    name: str, value: int, rule: str
) -> None:
    assert rules(name, sizes(1, value)) == [rule]


def test_concatenating_nothing_or_a_shape_of_rank_0_is_refused() -> None:
    assert rules("CONCAT_SHAPE") == ["input-list"]
    assert rules("CONCAT_SHAPE", sizes(3), sizes()) == ["input-rank"]


@pytest.mark.parametrize(
    ("start", "size", "rule"),
    [
        (position(-1), position(1), "start"),
        (position(0), position(0), "size"),
        (position(None), position(-2), "size"),
        (position(2), position(2), "bounds"),
        (position(3), position(None), "bounds"),
        (position(None), position(4), "bounds"),
        (position(0, (2,)), position(1), "start-shape"),
        (position(0), position(1, ()), "size-shape"),
    ],
)
def test_a_slice_outside_the_shape_is_refused(
    start: TensorType, size: TensorType, rule: str
) -> None:
    assert rules("SLICE_SHAPE", sizes(5, 6, 7), start, size) == [rule]


def test_a_slice_of_a_shape_is_computed_as_far_as_it_is_known() -> None:
    shape = sizes(5, None, 7)
    assert result("SLICE_SHAPE", shape, position(1), position(2)) == (None, 7)
    assert result("SLICE_SHAPE", shape, position(None), position(2)) == (None, None)
    assert result("SLICE_SHAPE", shape, position(1), position(None)) is None
    assert rules("SLICE_SHAPE", sizes(), position(0), position(1)) == ["input-rank"]


@pytest.mark.parametrize(
    ("one", "other", "broadcast", "expected"),
    [
        ((1, 3), (2, 3), True, []),
        ((2, 3), (1, 3), True, []),
        ((2, 3), (1, 3), False, ["equal"]),
        ((2, 3), (4, 3), True, ["equal"]),
        ((None, 3), (4, 3), False, []),
        ((3,), (3, 3), True, ["rank"]),
    ],
)
def test_an_assertion_that_cannot_hold_is_refused(
    one: Sizes, other: Sizes, broadcast: bool, expected: list[str]
) -> None:
    found = rules("ASSERT_EQUAL_SHAPE", sizes(*one), sizes(*other), allow_broadcast=broadcast)
    assert found == expected
