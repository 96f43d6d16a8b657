"""The rules of constants, copies, variables and operators of other domains."""

from __future__ import annotations

from typing import Any, Final

import pytest
from rules.operator_examples import broken_rules, inferred, less_known

from tosa_convert.rules.values import shape_text

EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "IDENTITY": {"input1": "INT8[2,3]", "output": "INT8[2,3]"},
    "VARIABLE_READ": {"variable": "INT8[2,3]", "output1": "INT8[2,3]"},
    "VARIABLE_WRITE": {"input1": "INT8[2,3]", "variable": "INT8[2,3]"},
}
RESULT: Final = {"IDENTITY": "output", "VARIABLE_READ": "output1", "VARIABLE_WRITE": "variable"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_copy_has_the_shape_of_its_operand(name: str) -> None:
    assert broken_rules(name, EXAMPLES[name]) == set()
    for example in less_known(name, EXAMPLES[name]):
        assert broken_rules(name, example) == set()
    assert inferred(name, EXAMPLES[name]) == ((2, 3),)


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize(("shape", "rule"), [("INT8[3,2]", "shape"), ("INT8[6]", "rank")])
def test_a_copy_of_another_shape_is_refused(name: str, shape: str, rule: str) -> None:
    result = RESULT[name]
    assert broken_rules(name, EXAMPLES[name] | {result: shape}) == {f"{result}-{rule}"}


def test_a_shape_is_shown_as_far_as_it_is_known() -> None:
    assert shape_text(None) == "of unknown rank"
    assert shape_text((2, None, -1)) == "[2, ?, ?]"
    assert shape_text((1,) * 80).endswith(", ... 80 sizes]")


def test_a_constant_and_a_custom_operator_declare_their_shapes() -> None:
    assert broken_rules("CONST", {"output": "INT8[2,3]"}) == set()
    assert inferred("CONST", {}) == (None,)
    assert broken_rules("CUSTOM", {"input_list": "INT8[2]", "output_list": "FP32[7]"}) == set()
