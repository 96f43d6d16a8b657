from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.accuracy.comparison import Comparison, TensorComparison, compare
from tosa_convert.golden.accuracy.criteria import ToleranceCheck, Tolerances
from tosa_convert.golden.accuracy.error_bounds import Rule
from tosa_convert.golden.running.random_inputs import draw
from tosa_convert.graph import dtype
from tosa_convert.graph.dtypes import DTYPES, DType


def one(expected: Any, actual: Any, **more: Any) -> tuple[TensorComparison, Comparison]:
    result = compare({"t": np.asarray(expected)}, {"t": np.asarray(actual)}, **more)
    return result.tensors[0], result


def test_comparing_nothing_is_a_failure() -> None:
    assert not compare({}, {}).ok
    assert not compare({"a": np.zeros(1)}, {"b": np.zeros(1)}).ok
    assert not one(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32))[1].ok
    assert "nothing was compared" in str(compare({}, {}))


def test_different_shapes_and_types_fail_and_are_not_broadcast() -> None:
    tensor, _ = one(np.zeros((2, 1), np.int8), np.zeros((2,), np.int8))
    assert "expected shape [2, 1], found [2]" in tensor.problem
    tensor, _ = one(np.zeros(2, np.float32), np.zeros(2, np.int32))
    assert (tensor.ok, tensor.problem) == (False, "expected float32, found int32")


def test_int64_differences_that_a_double_cannot_represent_are_found() -> None:
    tensor, result = one(np.array([2**62], np.int64), np.array([2**62 + 1], np.int64))
    assert not result.ok
    assert tensor.needed_atol == 1.0


def test_an_inexact_rescale_may_be_off_by_one() -> None:
    checks = {"t": ToleranceCheck(Rule("steps", 1.0), dtype("INT8"))}
    assert one(np.array([5], np.int8), np.array([6], np.int8), checks=checks)[1].ok
    assert not one(np.array([5], np.int8), np.array([7], np.int8), checks=checks)[1].ok


@pytest.mark.parametrize("row", DTYPES, ids=str)
def test_every_element_type_is_compared(row: DType) -> None:
    expected = draw(np.random.default_rng(5), row, (64,))
    assert one(expected, expected.copy())[1].ok
    codes = expected.copy().view(f"u{expected.dtype.itemsize}")
    codes[:1] ^= 1  # of a slice: numpy 1 makes a signed number of a 64-bit element
    tensor, result = one(expected, codes.view(expected.dtype))
    assert tensor.differing == 1
    if expected.dtype.kind in "biu" or "int" in expected.dtype.name:
        assert not result.ok


def test_a_tolerance_without_a_name_is_for_floating_point() -> None:
    every = Tolerances(atol=(("", 1.0),))
    assert one(np.array([1], np.float32), np.array([1.9], np.float32), tolerances=every)[1].ok
    assert not one(np.array([True]), np.array([False]), tolerances=every)[1].ok
    assert not one(np.array([1], np.int8), np.array([2], np.int8), tolerances=every)[1].ok
    assert one(
        np.array([1], np.int8), np.array([2], np.int8), tolerances=Tolerances(atol=(("*", 1.0),))
    )[1].ok


def test_a_pattern_that_matches_nothing_is_refused() -> None:
    with pytest.raises(TosaConvertError, match="matches it") as caught:
        Tolerances(atol=(("logit", 1.0), ("lo*", 1.0))).refuse_unmatched(["logits"])
    assert caught.value.code == "option-conflict"
    assert len(caught.value.findings) == 1


def test_a_bool_has_the_bytes_0_and_1() -> None:
    wrong = np.array([1, 2, 0], np.uint8).view(np.bool_)
    tensor, result = one(np.array([True, True, False]), wrong)
    assert not result.ok
    assert "found 2" in tensor.problem


def test_integers_of_another_type_are_compared_if_their_values_fit() -> None:
    tensor, result = one(np.array([1, 2], np.int8), np.array([1, 2], np.uint8))
    assert result.ok
    assert tensor.note == "expected int8, found uint8; its values were converted"
    tensor, result = one(np.array([1, -1], np.int8), np.array([1, 255], np.uint8))
    assert (result.ok, tensor.problem) == (
        False,
        "expected int8, found uint8 with values from 1 to 255",
    )
    assert one(np.array([1, 2], np.int32), np.array([1, 2], np.int64))[1].ok
    assert not one(np.array([1, 2], np.int32), np.array([1, 2 + 2**32], np.int64))[1].ok
    assert one(np.array([True]), np.array([1], np.uint8))[1].ok
    assert one(np.array([0.1], np.float32), np.array([0.1], np.float64))[1].ok
    assert not one(np.array([0.5], np.float32), np.array([0.5], np.float16))[1].ok
    # Of as many bits, but not with the same numbers.
    assert not one(np.array([0.5], ml_dtypes.bfloat16), np.array([0.5], np.float16))[1].ok


def test_a_golden_answer_that_says_little_is_noted() -> None:
    nan = np.full(3, np.nan, np.float32)
    assert "is NaN" in one(nan, nan.copy())[0].note
    assert "is 127" in str(one(np.full(3, 127, np.int8), np.full(3, 127, np.int8))[1])
    assert one(np.array([1, 2], np.float32), np.array([1, 2], np.float32))[0].note == ""
