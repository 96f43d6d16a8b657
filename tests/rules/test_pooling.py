"""The rules of pooling."""

from __future__ import annotations

from typing import Any, Final

import pytest
from rules.operator_examples import broken_rules, less_known

MAX: Final = {
    "input": "INT8[2,7,9,3]",
    "output": "INT8[2,4,9,3]",
    "kernel": (3, 2),
    "stride": (2, 1),
    "pad": (1, 1, 0, 1),
}
ZERO_POINTS: Final = {"input_zp": "INT8[1]=5", "output_zp": "INT8[1]=-5"}
ADAPTIVE: Final = {"kernel": "SHAPE[3,2]", "stride": "SHAPE[2,1]", "pad": "SHAPE[1,1,0,1]"}
EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "MAX_POOL2D": MAX,
    "AVG_POOL2D": MAX | ZERO_POINTS,
    "MAX_POOL2D_ADAPTIVE": MAX | ADAPTIVE,
    "AVG_POOL2D_ADAPTIVE": MAX | ZERO_POINTS | ADAPTIVE,
}

#: Rule -> what breaks it, with lists as attributes; the adaptive operators take them as operands.
BROKEN: Final[list[tuple[str, dict[str, Any]]]] = [
    ("input-rank", {"input": "INT8[2,7,9,3,1]"}),
    ("kernel-below-one", {"kernel": (3, 0)}),
    ("kernel-below-one", {"kernel": (-1, 2)}),
    ("stride-below-one", {"stride": (0, 1)}),
    ("pad-negative", {"pad": (1, 1, -1, 1)}),
    ("pad-height", {"pad": (3, 1, 0, 1)}),
    ("pad-width", {"pad": (1, 1, 0, 2)}),
    ("height-not-divisible", {"stride": (4, 1)}),
    ("width-not-divisible", {"stride": (2, 3)}),
    ("height-below-kernel", {"kernel": (10, 2)}),
    ("width-below-kernel", {"kernel": (3, 11)}),
    ("output-rank", {"output": "INT8[2,4,9]"}),
    ("output-batch", {"output": "INT8[3,4,9,3]"}),
    ("output-height", {"output": "INT8[2,5,9,3]"}),
    ("output-width", {"output": "INT8[2,4,8,3]"}),
    ("output-channels", {"output": "INT8[2,4,9,4]"}),
]


def changed(name: str, changes: dict[str, Any]) -> dict[str, Any]:
    """Return the example with changes; lists become shapes where the operator takes them as operands."""
    if name.endswith("ADAPTIVE"):
        changes = {
            key: f"SHAPE[{','.join(map(str, item))}]" if isinstance(item, tuple) else item
            for key, item in changes.items()
        }
    return EXAMPLES[name] | changes


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize(("rule", "changes"), BROKEN)
def test_a_broken_rule_is_the_only_violation(name: str, rule: str, changes: dict[str, Any]) -> None:
    assert broken_rules(name, changed(name, changes)) == {rule}


@pytest.mark.parametrize("name", ["MAX_POOL2D_ADAPTIVE", "AVG_POOL2D_ADAPTIVE"])
@pytest.mark.parametrize(
    ("rule", "changes"),
    [
        ("kernel-length", {"kernel": (3,)}),
        ("stride-length", {"stride": (2, 1, 1)}),
        ("pad-length", {"pad": (1, 1)}),
    ],
)
def test_a_shape_operand_has_a_value_for_each_side(
    name: str, rule: str, changes: dict[str, Any]
) -> None:
    assert broken_rules(name, changed(name, changes)) == {rule}


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_is_unknown_violates_nothing(name: str) -> None:
    for example in less_known(name, EXAMPLES[name]):
        assert broken_rules(name, example) == set(), example
