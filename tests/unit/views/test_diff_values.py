"""Differences of rare values: block-scaled, large and alike at first, or undefined."""

from __future__ import annotations

import copy
from itertools import pairwise

import numpy as np
import pytest
from unit.building import block, branching, counting, example, graph, op, tensor
from unit.graph.test_compare import renamed
from unit.views.test_diff import texts

import tosa_convert as tc
from tosa_convert.graph import Constant, Graph, dtype, operator
from tosa_convert.graph.dtypes import BlockShape
from tosa_convert.graph.model import BlockScale
from tosa_convert.views.inspection.listing import constant_rows, operator_rows
from tosa_convert.views.structural_diff.text import TextForm, as_text


def scaled(scales: bytes = b"\x7f\x80", kind: str = "FP8UE8M0") -> Graph:
    """Return a constant of two blocks, or without scales if there are none."""
    values = tensor("y", "FP8E4M3", (1, 64), b"\x38" * 64)
    if scales:
        data = Constant(dtype(kind), len(scales), scales)
        values.scale = BlockScale(dtype(kind), BlockShape.BLOCK_SHAPE_32, data)
    return graph("", "y", [values], [op("CONST", "", "y")])


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (scaled(), []),
        (scaled(b"\x7f\x81"), ["data of the scales: [1.0, 2.0] -> [1.0, 4.0]"]),
        (
            scaled(b""),
            [
                "type of constant: FP8E4M3 [1, 64] in blocks of 32 -> FP8E4M3 [1, 64]; "
                "data of the scales: [1.0, 2.0] -> no data"
            ],
        ),
        (
            scaled(b"\x38\x38", "FP8E4M3"),
            [
                "type of constant: FP8E4M3 [1, 64] scaled by FP8UE8M0 -> FP8E4M3 [1, 64] "
                "scaled by FP8E4M3; data of the scales: [1.0, 2.0] -> [1.0, 1.0]"
            ],
        ),
    ],
)
def test_scales_are_part_of_the_type_and_of_the_data(other: Graph, expected: list[str]) -> None:
    assert texts(scaled(), renamed(other)) == [
        f"changed constant #0 CONST: {text}" for text in expected
    ]


def two_constants(first: int, second: int) -> Graph:
    """Return a graph with two constants that differ in their last element only."""
    count = 40_000
    values = [tensor(name, "INT8", (count,)) for name in "abyz"]
    for value, last in zip(values, (first, second), strict=False):
        data = np.zeros(count, np.int8)
        data[-1] = last
        value.data = Constant(value.dtype, count, data.tobytes())
    readers = [op("CONST", "", "a"), op("CONST", "", "b"), op("EXP", "a", "y"), op("EXP", "b", "z")]
    return graph("", "y z", values, readers)


def test_large_constants_that_begin_alike_are_told_apart() -> None:
    assert texts(two_constants(1, 2), renamed(two_constants(1, 2))) == []
    assert texts(two_constants(0, 2), renamed(two_constants(0, 0))) == [
        "changed constant #1 CONST: data: 40000 x INT8 -> 40000 x INT8"
    ]
    moved = texts(two_constants(1, 2), renamed(two_constants(2, 1)))
    assert moved[0] == "moved constant #1 CONST: position: 1 -> 0"


def test_what_only_one_program_has_is_named() -> None:
    more = branching()
    more.regions[1].blocks.append(block("q", "q", [tensor("q")], [], "second"))
    assert texts(branching(), more) == ["added block second"]
    assert texts(more, branching()) == ["removed block second"]
    without = graph("x", "x", [tensor("x", "INT32", (1,))], [])
    assert texts(without, counting())[0] == "added variable counter"


def test_an_operand_that_nothing_defines_is_undefined() -> None:
    broken = example()
    broken.main.operators[1].inputs = ("x", "nothing")
    assert texts(example(), broken) == [
        'changed operator #1 ADD: operand input2: "w" of #0 CONST -> undefined "nothing"'
    ]


def test_the_name_of_a_variable_is_compared_on_request() -> None:
    assert "changed variable counter: name: v -> n.v" in texts(
        counting(), renamed(counting()), names=True
    )


def text_of(left: Graph, right: Graph, context: int = 1) -> list[str]:
    form = TextForm(("a", "b"), context=context)
    return list(as_text(tc.diff(left, right), left, form))[2:-1]


def test_operators_around_changes_are_shown_and_the_others_left_out() -> None:
    names = [f"t{number}" for number in range(9)]
    kinds = ("ABS", "CEIL", "FLOOR", "RECIPROCAL", "LOG", "EXP", "TANH", "SIGMOID")
    rows = [op(kind, *pair) for kind, pair in zip(kinds, pairwise(names), strict=True)]
    left = graph("t0", "t8", [tensor(name) for name in names], rows)
    right = copy.deepcopy(left)
    for index, kind in ((1, "RSQRT"), (6, "ERF")):
        right.main.operators[index].spec = operator(kind)
    assert text_of(left, right) == [
        '@@ region "main" @@',
        "  #0 t1 = ABS(t0) : FP32 [2, 3]",
        "~ #1 t2 = CEIL(t1) : FP32 [2, 3]",
        "-     operator: CEIL",
        "+     operator: RSQRT",
        "  #2 t3 = FLOOR(t2) : FP32 [2, 3]",
        "@@",
        "  #5 t6 = EXP(t5) : FP32 [2, 3]",
        "~ #6 t7 = TANH(t6) : FP32 [2, 3]",
        "-     operator: TANH",
        "+     operator: ERF",
        "  #7 t8 = SIGMOID(t7) : FP32 [2, 3]",
    ]


def test_an_output_that_moved_is_below_the_operators() -> None:
    left = example()
    left.main.outputs = ["y", "m"]
    right = example()
    right.main.outputs = ["m", "y"]
    assert any("output" in line for line in text_of(left, right))


def test_constants_are_listed_with_their_scales_and_where_they_are() -> None:
    rows = [(row.value.name, row.tensor.kind, row.nbytes) for row in constant_rows(scaled())]
    assert rows == [("y", "constant", 64), ("y/scale", "constant", 2)]
    (variable,) = constant_rows(counting())
    assert (variable.value.name, variable.tensor.kind) == ("v", "variable")
    assert list(constant_rows(example(), wanted=lambda texts: "w" not in list(texts))) == []
    names = [
        row.name for row in operator_rows(example(), wanted=lambda texts: "ADD" in list(texts))
    ]
    assert names == ["ADD"]
