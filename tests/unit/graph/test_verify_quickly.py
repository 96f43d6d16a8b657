"""Test that the quick ways of `verify` are taken, and find what its rules find."""

from __future__ import annotations

from itertools import product

import pytest
from unit.building import graph, tensor

from tosa_convert.errors import Finding, Findings
from tosa_convert.graph import Operator, ShapeValue, verify
from tosa_convert.graph.opset import OPERATORS, VARIABLE, OperatorSpec
from tosa_convert.graph.verify import _FIXED_ARITY
from tosa_convert.graph.verify_values import tensor_problems


def test_types_that_are_sound_once_are_sound_always() -> None:
    shapes: list[tuple[int, ...] | None] = [None, (), (2, 3), (-1, 0), (-2,), (2**31,), (1,) * 65]
    values = [
        tensor(f"t{number}", kind, dims)
        for number, (kind, dims) in enumerate(product(("FP32", "INT4"), shapes * 2))
    ]
    expected = Findings()
    for value in values:
        path = f'region "main" block "main" tensor "{value.name}"'
        for code, message, hint in tensor_problems(value.name, value):
            expected.add(code, path, message, hint)
    assert len(expected) == 12
    assert verify(graph("", "", list(values), [])) == expected.rows


@pytest.mark.parametrize("spec", OPERATORS, ids=str)
def test_operators_of_a_fixed_arity_are_those_of_their_rows(
    spec: OperatorSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = max(len(spec.operands), len(spec.results)) + 1
    names = [name for number in range(most) for name in (f"t{number}", f"s{number}")]
    values = [tensor(name) if name[0] == "t" else ShapeValue(name, 1) for name in names]

    def findings(inputs: tuple[str, ...], outputs: tuple[str, ...]) -> list[Finding]:
        made = graph(" ".join({*names} - {*outputs}), "", list(values), [])
        made.main.operators = [Operator(spec, inputs, outputs)]
        return verify(made)

    # One more and one fewer than the row has, and each operand or result of the other kind.
    cases = [
        (tuple(f"t{i}" for i in range(operands)), tuple(f"t{i}" for i in range(results)))
        for operands in (len(spec.operands) + d for d in (-1, 0, 1))
        for results in (len(spec.results) + d for d in (-1, 0, 1))
    ]
    right = tuple(
        tuple(f"{'s' if row.is_shape else 't'}{i}" for i, row in enumerate(rows))
        for rows in (spec.operands, spec.results)
    )
    cases.append((right[0], right[1]))
    for side, rows in enumerate((spec.operands, spec.results)):
        for i, row in enumerate(rows):
            wrong = [list(names) for names in right]
            wrong[side][i] = f"{'t' if row.is_shape else 's'}{i}"
            cases.append((tuple(wrong[0]), tuple(wrong[1])))
    arities = {row.arity for row in spec.operands + spec.results}
    assert (spec.code in _FIXED_ARITY) == (arities <= {""} and spec is not VARIABLE)
    fast = [findings(*case) for case in cases]
    for code in list(_FIXED_ARITY):
        monkeypatch.delitem(_FIXED_ARITY, code)
    assert [findings(*case) for case in cases] == fast
    assert any(fast)
