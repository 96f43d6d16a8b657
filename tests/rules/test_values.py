"""The rules of constants, copies, variables and operators of other domains."""

from __future__ import annotations

from rules.operator_examples import broken_rules, inferred

from tosa_convert.rules.operator_view import shape_text


def test_a_shape_is_shown_as_far_as_it_is_known() -> None:
    assert shape_text(None) == "of unknown rank"
    assert shape_text((2, None, -1)) == "[2, ?, ?]"
    assert shape_text((1,) * 80).endswith(", ... 80 sizes]")


def test_a_constant_and_a_custom_operator_declare_their_shapes() -> None:
    assert broken_rules("CONST", {"output": "INT8[2,3]"}) == set()
    assert inferred("CONST", {}) == (None,)
    assert broken_rules("CUSTOM", {"input_list": "INT8[2]", "output_list": "FP32[7]"}) == set()
