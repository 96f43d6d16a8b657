"""The rules of operators that move, repeat or select elements by position."""

from __future__ import annotations

from typing import Any, Final

import pytest
from rules.operator_examples import broken_rules, inferred, less_known, value

from tosa_convert.graph import Operator, operator
from tosa_convert.rules.operator_view import OperatorView
from tosa_convert.rules.validate import Verdict, judge_shapes

EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "PAD": {
        "input1": "INT8[2,3]",
        "padding": "SHAPE[1,0,0,2]",
        "pad_const": "INT8[1]",
        "output": "INT8[3,5]",
    },
    "RESHAPE": {"input1": "INT8[2,6]", "shape": "SHAPE[4,3]", "output": "INT8[4,3]"},
    "REVERSE": {"input1": "INT8[2,3]", "output": "INT8[2,3]", "axis": 1},
    "SLICE": {
        "input1": "INT8[4,5]",
        "start": "SHAPE[1,0]",
        "size": "SHAPE[3,2]",
        "output": "INT8[3,2]",
    },
    "TILE": {"input1": "INT8[2,3]", "multiples": "SHAPE[2,1]", "output": "INT8[4,3]"},
    "TRANSPOSE": {"input1": "INT8[2,3,4]", "output": "INT8[4,2,3]", "perms": (2, 0, 1)},
}

BROKEN: Final[list[tuple[str, dict[str, Any], set[str]]]] = [
    ("PAD", {"input1": "INT8[]", "padding": "SHAPE[]"}, {"input1-rank"}),
    ("PAD", {"padding": "SHAPE[1,0,0]"}, {"padding-length"}),
    ("PAD", {"padding": "SHAPE[1,0,0,2,0,0]"}, {"padding-length"}),
    ("PAD", {"input1": "INT8[*]", "padding": "SHAPE[1,0,0]"}, {"padding-length"}),
    ("PAD", {"input1": "INT8[*]", "padding": f"SHAPE[{','.join('1' * 130)}]"}, {"padding-length"}),
    ("PAD", {"padding": "SHAPE[1,0,-1,3]"}, {"negative"}),
    ("PAD", {"input1": "INT8[2,?]", "padding": "SHAPE[1,0,-2,3]"}, {"negative"}),
    ("PAD", {"pad_const": "INT8[]"}, {"pad-const-shape"}),
    ("PAD", {"pad_const": "INT8[2]"}, {"pad-const-shape"}),
    ("PAD", {"output": "INT8[3,4]"}, {"output-shape"}),
    ("PAD", {"output": "INT8[15]"}, {"output-rank"}),
    ("RESHAPE", {"shape": "SHAPE[4,4]"}, {"element-count"}),
    ("RESHAPE", {"shape": "SHAPE[0,3]"}, {"element-count"}),
    ("RESHAPE", {"shape": "SHAPE[5,?]"}, {"element-count"}),
    ("RESHAPE", {"shape": "SHAPE[-1,3]"}, {"size"}),
    ("RESHAPE", {"shape": "SHAPE[-2,3]"}, {"size"}),
    ("RESHAPE", {"input1": "INT8[?,6]", "shape": "SHAPE[-1,-1]"}, {"size"}),
    ("RESHAPE", {"shape": f"SHAPE[{','.join('1' * 65)}]"}, {"shape-length"}),
    ("RESHAPE", {"output": "INT8[3,4]"}, {"output-shape"}),
    ("RESHAPE", {"output": "INT8[12]"}, {"output-rank"}),
    ("REVERSE", {"axis": -1}, {"axis"}),
    ("REVERSE", {"axis": 2}, {"axis"}),
    ("REVERSE", {"input1": "INT8[]", "axis": 0}, {"input1-rank"}),
    ("REVERSE", {"output": "INT8[3,2]"}, {"output-shape"}),
    ("SLICE", {"input1": "INT8[]", "start": "SHAPE[]", "size": "SHAPE[]"}, {"input1-rank"}),
    ("SLICE", {"start": "SHAPE[1]"}, {"start-length"}),
    ("SLICE", {"size": "SHAPE[3,2,1]"}, {"size-length"}),
    ("SLICE", {"input1": "INT8[*]", "size": "SHAPE[3]"}, {"size-length"}),
    ("SLICE", {"start": "SHAPE[-1,0]"}, {"start"}),
    ("SLICE", {"size": "SHAPE[0,2]", "output": "INT8[*]"}, {"size"}),
    ("SLICE", {"size": "SHAPE[-1,2]"}, {"size"}),
    ("SLICE", {"start": "SHAPE[2,0]"}, {"bounds"}),
    ("SLICE", {"start": "SHAPE[4,0]", "size": "SHAPE[?,2]"}, {"bounds"}),
    ("SLICE", {"output": "INT8[3,3]"}, {"output-shape"}),
    ("TILE", {"input1": "INT8[]", "multiples": "SHAPE[]"}, {"input1-rank"}),
    ("TILE", {"multiples": "SHAPE[2]"}, {"multiples-length"}),
    ("TILE", {"multiples": "SHAPE[0,1]"}, {"multiples"}),
    ("TILE", {"multiples": "SHAPE[-1,1]"}, {"multiples"}),
    ("TILE", {"output": "INT8[2,6]"}, {"output-shape"}),
    ("TRANSPOSE", {"input1": "INT8[]", "perms": ()}, {"input1-rank"}),
    ("TRANSPOSE", {"perms": (1, 0)}, {"perms-length"}),
    ("TRANSPOSE", {"perms": (2, 0, 3)}, {"perms-range"}),
    ("TRANSPOSE", {"perms": (2, 0, -1)}, {"perms-range"}),
    ("TRANSPOSE", {"perms": (2, 0, 2)}, {"perms-duplicate"}),
    ("TRANSPOSE", {"output": "INT8[2,3,4]"}, {"output-shape"}),
]

SLICED_BLOCKS: Final = {
    "input1": "MXINT8[4,96]@32",
    "start": "SHAPE[1,32]",
    "size": "SHAPE[3,64]",
    "output": "MXINT8[3,64]@32",
}
TRANSPOSED_BLOCKS: Final = {
    "input1": "FP4E2M1[2,3,32]@32",
    "output": "FP4E2M1[3,2,32]@32",
    "perms": (1, 0, 2),
}

#: An operator whose sizes are partly unknown, and the shape that follows.
INFERRED: Final[list[tuple[str, dict[str, Any], tuple[int, ...] | None]]] = [
    ("PAD", {"input1": "INT8[?,3]"}, (-1, 5)),
    ("PAD", {"padding": "SHAPE[1,?,0,2]"}, (-1, 5)),
    ("PAD", {"input1": "INT8[*]"}, (-1, -1)),
    ("PAD", {"input1": "INT8[2,?]", "padding": "SHAPE[1,0,-1,2]"}, (3, -1)),
    ("RESHAPE", {"shape": "SHAPE[4,?]"}, (4, 3)),
    ("RESHAPE", {"shape": "SHAPE[?,?]"}, (-1, -1)),
    ("RESHAPE", {"input1": "INT8[?,6]", "shape": "SHAPE[-1,3]"}, (-1, 3)),
    ("RESHAPE", {"input1": "INT8[*]"}, (4, 3)),
    ("RESHAPE", {"input1": "INT8[1]", "shape": "SHAPE[]"}, ()),
    ("RESHAPE", {"input1": "INT8[0,6]", "shape": "SHAPE[0]"}, (0,)),
    ("REVERSE", {"input1": "INT8[?,3]"}, (-1, 3)),
    ("REVERSE", {"input1": "INT8[*]"}, None),
    ("SLICE", {"size": "SHAPE[?,2]"}, (-1, 2)),
    ("SLICE", {"input1": "INT8[?,5]", "size": "SHAPE[-1,2]"}, (-1, 2)),
    ("SLICE", {"input1": "INT8[*]"}, (3, 2)),
    ("TILE", {"input1": "INT8[?,3]"}, (-1, 3)),
    ("TILE", {"multiples": "SHAPE[?,2]"}, (-1, 6)),
    ("TILE", {"input1": "INT8[*]"}, (-1, -1)),
    ("TRANSPOSE", {"input1": "INT8[?,3,4]"}, (4, -1, 3)),
    ("TRANSPOSE", {"input1": "INT8[*]"}, (-1, -1, -1)),
]


@pytest.mark.parametrize(("name", "changes", "rules"), BROKEN)
def test_a_broken_rule_is_named(name: str, changes: dict[str, Any], rules: set[str]) -> None:
    assert broken_rules(name, EXAMPLES[name] | changes) == rules


@pytest.mark.parametrize(
    ("name", "example", "changes", "rules"),
    [
        ("SLICE", SLICED_BLOCKS, {}, set()),
        ("SLICE", SLICED_BLOCKS, {"start": "SHAPE[1,16]"}, {"start-blocks"}),
        (
            "SLICE",
            SLICED_BLOCKS,
            {"start": "SHAPE[?,31]", "input1": "MXINT8[*]@32"},
            {"start-blocks"},
        ),
        ("SLICE", SLICED_BLOCKS, {"start": "SHAPE[1,?]"}, set()),
        ("SLICE", SLICED_BLOCKS, {"start": "SHAPE[1,-1]", "input1": "MXINT8[4,?]@32"}, set()),
        ("SLICE", SLICED_BLOCKS, {"start": "SHAPE[1,128]"}, {"bounds"}),
        ("TRANSPOSE", TRANSPOSED_BLOCKS, {}, set()),
        (
            "TRANSPOSE",
            TRANSPOSED_BLOCKS,
            {"input1": "FP4E2M1[2,32,64]@32", "perms": (0, 2, 1), "output": "FP4E2M1[2,64,32]@32"},
            {"perms-blocks"},
        ),
        (
            "TRANSPOSE",
            TRANSPOSED_BLOCKS,
            {"input1": "FP4E2M1[*]@32", "perms": (1, 0), "output": "FP4E2M1[*]@32"},
            {"perms-blocks"},
        ),
        ("TRANSPOSE", TRANSPOSED_BLOCKS, {"perms": (1, 0, 3)}, {"perms-range"}),
    ],
)
def test_blocks_stay_whole(
    name: str, example: dict[str, Any], changes: dict[str, Any], rules: set[str]
) -> None:
    assert broken_rules(name, example | changes) == rules
    for known in less_known(name, example):
        assert broken_rules(name, known) == set()


@pytest.mark.parametrize(("name", "changes", "shape"), INFERRED)
def test_sizes_are_inferred_as_far_as_they_are_known(
    name: str, changes: dict[str, Any], shape: tuple[int, ...] | None
) -> None:
    assert inferred(name, EXAMPLES[name] | changes) == (shape,)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("TILE", {"multiples": "SHAPE[-1,1]", "output": "INT8[?,3]"}),
        ("SLICE", {"size": "SHAPE[-1,2]", "output": "INT8[?,2]"}),
        ("PAD", {"padding": "SHAPE[-1,0,0,2]", "output": "INT8[*]"}),
    ],
)
def test_a_minus_1_stands_for_a_value_that_is_not_known(name: str, changes: dict[str, Any]) -> None:
    assert broken_rules(name, EXAMPLES[name] | changes) == set()


# -- CONCAT ----------------------------------------------------------------------------------------


def concat(*inputs: str, output: str = "", axis: int = 0) -> Verdict:
    made = Operator(operator("CONCAT"), (), (), {"axis": axis})
    outputs = (value(output),) if output else ()
    return judge_shapes(OperatorView(made, tuple(map(value, inputs)), outputs))


@pytest.mark.parametrize(
    ("inputs", "axis", "output", "rule"),
    [
        ([], 0, "INT8[2]", "empty"),
        (["INT8[]", "INT8[]"], 0, "INT8[2]", "input1-rank"),
        (["INT8[2,3]", "INT8[2]"], 0, "INT8[4,3]", "rank"),
        (["INT8[2,3]", "INT8[2,4]"], 0, "INT8[4,3]", "sizes"),
        (["INT8[2,3]", "INT8[2,3]"], 2, "INT8[4,3]", "axis"),
        (["INT8[2,3]", "INT8[2,3]"], -1, "INT8[2,6]", "axis"),
        (["INT8[2,3]", "INT8[4,3]"], 0, "INT8[5,3]", "output-shape"),
        (["INT8[2,3]", "INT8[2,?]"], 0, "INT8[4,4]", "output-shape"),
        (["INT8[2,3]"], 0, "INT8[6]", "output-rank"),
    ],
)
def test_a_broken_rule_of_concat_is_named(
    inputs: list[str], axis: int, output: str, rule: str
) -> None:
    violations = concat(*inputs, output=output, axis=axis).violations
    assert [violation.rule for violation in violations] == [rule]


@pytest.mark.parametrize(
    ("inputs", "axis", "shape"),
    [
        (["INT8[2,3]", "INT8[4,3]"], 0, (6, 3)),
        (["INT8[2,3]"], 1, (2, 3)),
        (["INT8[2,3]", "INT8[?,3]"], 0, (-1, 3)),
        (["INT8[2,?]", "INT8[4,3]"], 0, (6, 3)),
        (["INT8[2,3]", "INT8[*]"], 0, (-1, 3)),
        (["INT8[*]", "INT8[*]"], 0, None),
    ],
)
def test_the_sizes_of_a_concatenation_are_inferred(
    inputs: list[str], axis: int, shape: tuple[int, ...] | None
) -> None:
    assert concat(*inputs, axis=axis) == ((), (shape,))


def test_a_message_lists_the_first_of_many_operands() -> None:
    (violation,) = concat(*["INT8[2,3]"] * 99, "INT8[2,4]").violations
    assert violation.message.count("INT8") == 8
    assert violation.message.endswith("... 100 operands")
