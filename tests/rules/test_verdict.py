"""The verdict on one operator: the rules that all operators share."""

from __future__ import annotations

from tosa_convert.graph import Operator, dtype, operator
from tosa_convert.rules.operator_view import OperatorView, TensorType
from tosa_convert.rules.validate import Verdict, judge

WIDE, NARROW = dtype("FP32"), dtype("FP16")


def verdict(*types: TensorType, declared: bool = True) -> Verdict:
    """Of an ADD: two operands and a result."""
    made = Operator(operator("ADD"), (), (), {})
    return judge(OperatorView(made, types[:2], types[2:] if declared else ()))


def rules(*types: TensorType) -> list[str]:
    return [violation.rule for violation in verdict(*types).violations]


def test_an_empty_tensor_is_refused() -> None:
    empty, unknown = TensorType(WIDE, (2, 0)), TensorType(WIDE, (2, -1))
    assert rules(empty, unknown, unknown) == ["input1-size"]
    assert rules(empty, empty, empty) == ["input1-size", "input2-size", "output-size"]
