"""Calls of the builder with arguments that make no sense: each error says which one, and what fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tosa_convert as tc
from tosa_convert.builder import Builder, Value
from tosa_convert.builder.edit import BlockEditor
from tosa_convert.graph import Graph, Operator
from tosa_convert.graph.versions import V1_1_DRAFT


def floats(b: Builder) -> Value:
    return b.input("x", "fp32", (2, 3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda b: b.input("", "fp32", (2,)),
            "found '' .*expected a name of at least one character",
        ),
        (lambda b: b.input(3, "fp32", (2,)), r"found 3 \(int\), expected a string"),
        (lambda b: b.variable("", "fp32", (2,)), "expected a name"),
        (lambda b: b.read("state"), "found 'state', expected a variable, as variable"),
        (lambda b: b.output(floats(b), name=("y", "z")), "found 2 names, expected 1"),
        (lambda b: b.argmax(floats(b), axis=True), r"found True \(bool\), expected an integer"),
        (lambda b: b.argmax(floats(b), axis="x" * 999), r"x\.\.\. \(str\), expected an integer"),
        (lambda b: b.clamp(floats(b), min_val=[0, 1], max_val=6), "expected one number"),
        (lambda b: b.cast(floats(b), dtype=["int8", "int16"]), "expected at most 1 element types"),
        (lambda b: b.const_shape([1]).dtype, "is a shape, not a tensor"),
        (lambda b: b.const_shape([1]).shape, "is a shape, not a tensor"),
        (lambda b: floats(b).sizes, "is a tensor, not a shape"),
        (
            lambda b: b.custom(
                [floats(b)],
                [("fp32", (2,))],
                operator_name="a",
                domain_name="b",
                implementation_attrs="c",
            ),
            "implementation_attrs: found 'c' .*expected bytes",
        ),
        (
            lambda b: b.cond_if(b.const(True), [floats(b)], "then", lambda inner, x: x),
            "found 'then' .*expected a function",
        ),
    ],
)
def test_an_argument_of_another_kind_is_refused(
    call: Callable[[Any], object], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        call(Builder())


@pytest.mark.parametrize("given", ["fp33", np.complex64, np.dtype("U3"), object()])
def test_an_element_type_that_tosa_does_not_have_is_refused(given: Any) -> None:
    with pytest.raises(tc.TosaConvertError, match="TOSA does not have the element type"):
        Builder().input("x", given, (2,))


def test_shapes_go_into_regions_and_out_of_them() -> None:
    b = Builder("net")
    x, flag = b.input("x", "fp32", (4,)), b.input("flag", "bool", ())
    sizes = b.const_shape([2, 2])
    one, size = b.cond_if(
        flag, [x, sizes], lambda inner, x, s: (x, s), lambda inner, x, s: (inner.abs(x), s)
    )
    assert (one.shape, size.sizes) == ((4,), (None, None))


ADD = Builder("net")
ADD.output(ADD.add(floats(ADD), 1.0), name="y")


def visited(rule: Callable[[Operator, BlockEditor], object]) -> Graph:
    return tc.edit.rewrite(
        ADD.graph(version=V1_1_DRAFT),
        lambda op, edit: rule(op, edit) if op.spec.name == "ADD" else None,
    )


@pytest.mark.parametrize(
    ("rule", "error", "message"),
    [
        (lambda op, edit: edit.replace(op, []), TypeError, "found 0 values, expected 1"),
        (
            lambda op, edit: edit.emit("CUSTOM", op.inputs),
            TypeError,
            "do not follow: pass results=",
        ),
        (lambda op, edit: edit.emit("ADDD", op.inputs), tc.TosaConvertError, "did you mean ADD"),
        (
            lambda op, edit: edit.replace(op, [edit.const_shape([2, 3])]),
            tc.TosaConvertError,
            "and replaces FP32",
        ),
        (lambda op, edit: edit.replace(op, ["nothing"]), tc.TosaConvertError, "no value .*nothing"),
        (
            lambda op, edit: edit.replace(op, [edit.emit("CAST", op.inputs[:1], dtype="int8")]),
            tc.TosaConvertError,
            "emit a CAST or a RESHAPE",
        ),
    ],
)
def test_an_edit_that_does_not_fit_is_refused(
    rule: Callable[[Operator, BlockEditor], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        visited(rule)


def test_an_operator_of_shapes_may_be_emitted() -> None:
    def rule(op: Operator, edit: BlockEditor) -> None:
        sizes = edit.emit("CONCAT_SHAPE", [edit.const_shape([2]), edit.const_shape([3])])
        edit.replace(op, [edit.emit("RESHAPE", [op.inputs[0], sizes])])

    made = visited(rule)
    assert [op.spec.name for op in made.main.operators if "CONST" not in op.spec.name] == [
        "CONCAT_SHAPE",
        "RESHAPE",
    ]
    assert tc.validate(made) == []
