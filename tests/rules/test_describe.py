"""What editors and the reference say of operators."""

from __future__ import annotations

from pathlib import Path

import pytest

from tosa_convert.graph.opset import OPERATORS, OperatorSpec, operator
from tosa_convert.rules.describe import conditions, sentence, type_lines
from tosa_convert.rules.families import rules_of
from tosa_convert.rules.operator_view import OperatorView


@pytest.mark.parametrize("spec", OPERATORS, ids=lambda spec: spec.name)
def test_every_check_of_an_operator_says_what_it_asks_for(spec: OperatorSpec) -> None:
    rules = rules_of(spec)
    checks = (*rules.ranks, *rules.checks)
    said = [sentence(check) for check in checks]
    assert all(said)
    assert set(said) <= set(conditions(spec))


@pytest.mark.parametrize("docstring", ["", "Sizes agree.", "Return whether sizes agree."])
def test_a_check_that_does_not_say_what_it_asks_for_is_an_error(docstring: str) -> None:
    def check(view: OperatorView) -> None:
        raise AssertionError(view)

    check.__doc__ = docstring
    with pytest.raises(ValueError, match="expected 'Check that"):
        sentence(check)  # type: ignore[arg-type]


def test_a_convolution_says_its_layout_and_what_follows_from_types() -> None:
    spec = operator("CONV2D")
    layout = "output [N, P, Q, O], weight [O, K, L, C], input [N, _, _, C]"
    assert f"sizes of one letter are equal: {layout}" in conditions(spec)
    assert "weight has rank 4" in conditions(spec)
    lines = list(type_lines(spec))
    assert "  PRO-INT: T INT8; U INT8 or INT4; B INT32; A INT32" in lines


def test_shapes_and_attributes_that_choose_types_are_named() -> None:
    lines = list(type_lines(operator("RESIZE")))
    assert "input T, scale shape, offset shape, border shape, mode BILINEAR -> output U" in lines
    assert "condition BOOL, any others -> any others" in type_lines(operator("COND_IF"))
    assert "nothing -> output T" in type_lines(operator("CONST"))


def test_an_editor_shows_what_an_operator_takes(root: Path) -> None:
    text = (root / "tosa_convert/builder/operators.pyi").read_text(encoding="utf-8")
    start = text.index("    def conv2d(")
    shown = text[start : text.index("    def ", start + 1)]
    assert "PRO-INT: T INT8; U INT8 or INT4; B INT32; A INT32" in shown
    assert "- weight has rank 4" in shown
