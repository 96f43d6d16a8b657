"""The rules of operators on shapes."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tosa_convert.graph import Constant, Operator, dtype, operator
from tosa_convert.reference.call import Call
from tosa_convert.reference.movement import OPERATIONS
from tosa_convert.rules.families.core import ResultShape
from tosa_convert.rules.families.shapes import ARITHMETIC
from tosa_convert.rules.validate import Verdict, judge
from tosa_convert.rules.values import OperatorView, ShapeType, TensorType, ValueType

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


@pytest.mark.parametrize(
    ("name", "one", "other", "expected"),
    [
        ("ADD_SHAPE", (2, None), (3, 4), (5, None)),
        ("SUB_SHAPE", (2, 7), (3, 4), (-1, 3)),
        ("MUL_SHAPE", (2, 7), (3, 4), (6, 28)),
        ("MAX_SHAPE", (2, 7), (3, -4), (3, 7)),
        ("MIN_SHAPE", (2, 7), (3, -4), (2, -4)),
        ("MOD_SHAPE", (7, 8), (4, 4), (3, 0)),
        ("DIV_CEIL_SHAPE", (7, 8), (4, 4), (2, 2)),
        ("DIV_FLOOR_SHAPE", (7, 8), (4, 4), (1, 2)),
        # MLIR does not say what a division of negative numbers is.
        ("DIV_FLOOR_SHAPE", (-7, 7, -7, 7), (2, -2, -2, 2), (None, None, None, 3)),
        ("DIV_CEIL_SHAPE", (-7, 7, -7, 7), (2, -2, -2, 2), (None, None, None, 4)),
        ("MOD_SHAPE", (-7, 7, -7, 7), (4, -4, -4, 4), (None, None, None, 3)),
    ],
)
def test_two_shapes_are_computed_as_far_as_they_are_known(
    name: str, one: Sizes, other: Sizes, expected: Sizes
) -> None:
    assert result(name, sizes(*one), sizes(*other)) == expected


@pytest.mark.parametrize("name", sorted(ARITHMETIC))
def test_the_reference_computes_sizes_as_the_rules_do(name: str) -> None:
    negative = name not in ("DIV_CEIL_SHAPE", "DIV_FLOOR_SHAPE", "MOD_SHAPE")
    values = [value for value in range(-9 if negative else 1, 10) if value]
    left, right = np.array(list(product(values, values)), np.int64).T
    found = OPERATIONS[name](cast(Call, SimpleNamespace(operands=(left, right))))
    expected = list(map(ARITHMETIC[name], left.tolist(), right.tolist()))
    assert np.asarray(found).tolist() == expected


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("EXP2_SHAPE", (0, 3, 62, None), (1, 8, 1 << 62, None)),
        ("LOG2_CEIL_SHAPE", (1, 5, 8, (1 << 62) - 1, None), (0, 3, 3, 62, None)),
        ("LOG2_FLOOR_SHAPE", (1, 5, 8, (1 << 62) - 1, None), (0, 2, 3, 61, None)),
    ],
)
def test_one_shape_is_computed_as_far_as_it_is_known(
    name: str, given: Sizes, expected: Sizes
) -> None:
    assert result(name, sizes(*given)) == expected


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


def test_shapes_are_concatenated() -> None:
    assert result("CONCAT_SHAPE", sizes(3), sizes(None, 4)) == (3, None, 4)


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


def test_the_dimension_of_a_tensor_is_its_size_if_that_is_known() -> None:
    tensor = TensorType(dtype("FP32"), (4, -1))
    assert result("DIM", tensor, axis=0) == (4,)
    assert result("DIM", tensor, axis=1) == (None,)
    assert result("DIM", TensorType(dtype("FP32"), None), axis=9) == (None,)


def test_an_axis_that_the_tensor_does_not_have_is_refused() -> None:
    tensor = TensorType(dtype("FP32"), (4, -1))
    assert rules("DIM", tensor, axis=2) == ["axis"]
    assert rules("DIM", tensor, axis=-1) == ["axis"]
    assert rules("DIM", TensorType(dtype("FP32"), None), axis=-1) == ["axis"]
    assert rules("DIM", TensorType(dtype("FP32"), ()), axis=0) == ["input1-rank"]


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


def test_a_declared_result_of_another_rank_or_value_is_refused() -> None:
    operands = sizes(1, 2), sizes(3, 4)
    assert rules("ADD_SHAPE", *operands, outputs=(sizes(None, None, None),)) == ["output-rank"]
    assert rules("ADD_SHAPE", *operands, outputs=(sizes(4, 7),)) == ["output-shape"]
    assert rules("ADD_SHAPE", *operands, outputs=(sizes(4, None),)) == []


def test_a_constant_shape_is_what_it_declares() -> None:
    assert result("CONST_SHAPE") is None
    assert verdict("CONST_SHAPE", outputs=(sizes(4, 7),)) == Verdict((), ((4, 7),))
