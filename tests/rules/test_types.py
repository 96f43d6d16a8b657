"""The rows of element types: what they match, what they need, and why nothing matches."""

from __future__ import annotations

from itertools import product

import pytest

from tosa_convert.graph.dtypes import (
    BLOCK_SCALE,
    BLOCK_SCALED,
    DTYPES,
    dtype,
)
from tosa_convert.graph.opset import OPERATORS, OperatorSpec, operator
from tosa_convert.rules.types import Element, TypeMismatch, forms, mismatch


def types(text: str) -> list[Element]:
    """Return the types of a text such as "INT8 mx:FP8E4M3 shape"."""
    found: list[Element] = []
    for word in text.split():
        name = word.removeprefix("mx:")
        if word == "shape":
            found.append(None)
        else:
            found.append((dtype(name), BLOCK_SCALE) if name != word else dtype(name))
    return found


def wrong(name: str, signature: str, **attributes: object) -> TypeMismatch:
    left, _, right = signature.partition("->")
    found = mismatch(operator(name), types(left), types(right), attributes)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "signature", "rule", "message", "expected"),
    [
        ("ADD", "INT8 INT8 -> INT8", "input1-type", "input1 is INT8", "INT32"),
        ("ADD", "INT32 INT32 -> FP32", "output-type", "output is FP32 with input1 INT32", "INT32"),
        ("ADD", "FP32 INT8 -> FP32", "input2-type", "input2 is INT8 with input1 FP32", "FP32"),
        ("MUL", "INT32 INT32 INT32 -> INT32", "shift-type", "shift is INT32", "INT8"),
        ("CAST", "FP32 -> INT48", "output-type", "output is INT48", "BOOL or INT8"),
        ("EQUAL", "FP32 FP32 -> FP32", "output-type", "output is FP32", "BOOL"),
        (
            "CONCAT",
            "FP32 FP16 -> FP32",
            "input1-list",
            "the operands are FP32, FP16",
            "equal types",
        ),
        ("CONCAT", "-> FP32", "input1-list", "there are no operands", "at least one tensor"),
        ("ABS", "FP32 -> shape", "output-list", "the results are !tosa.shape", "other results"),
        (
            "ABS",
            "FP32 FP32 -> FP32",
            "input1-list",
            "the operands are FP32, FP32",
            "other operands",
        ),
        (  # No single type makes it right: the first that goes with none before it is named.
            "CONV2D",
            "INT8 FP16 INT4 INT8 INT8 -> INT32",
            "weight-type",
            "weight is FP16 with input INT8",
            "INT4 or INT8",
        ),
        ("GATHER", "FP32 INT8 -> FP32", "indices-type", "indices is INT8", "INT32 or INT64"),
    ],
)
def test_a_mismatch_says_which_operand_or_result_is_wrong(
    name: str, signature: str, rule: str, message: str, expected: str
) -> None:
    found = wrong(name, signature)
    assert found.rule == rule
    assert found.message.startswith(message)
    assert found.expected.startswith(expected)


@pytest.mark.parametrize("spec", OPERATORS, ids=lambda spec: spec.name)
def test_a_key_is_found_without_making_the_rows(spec: OperatorSpec) -> None:
    kinds: list[Element | str] = [
        *DTYPES,
        *((kind, BLOCK_SCALE) for kind in BLOCK_SCALED),
        "FP32",
        "FP16",
        "INT8",
    ]
    for form in forms(spec):
        keys = list(form.rows)
        assert all(map(form.has, keys))
        for key in keys[:: max(1, len(keys) // 12)]:
            for position, kind in product(range(len(key)), kinds):
                if isinstance(kind, str) != isinstance(key[position], str):
                    continue
                other = (*key[:position], kind, *key[position + 1 :])
                assert form.has(other) == (other in form.rows), other


def test_convolutions_of_mixed_types_take_the_same_ones() -> None:
    keys = [
        {key for form in forms(operator(name)) for key in form.rows}
        for name in ("CONV2D", "CONV3D", "TRANSPOSE_CONV2D")
    ]
    assert keys[0] == keys[1] == keys[2]
    assert len(keys[0]) > 100
