"""The rules of elementwise operators."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from rules.operator_examples import broken_rules, less_known

from tosa_convert.graph.dtypes import NanPropagationMode, dtype

UNARY: Final = (
    "ABS BITWISE_NOT CEIL CLZ COS ERF EXP FLOOR LOG LOGICAL_NOT RECIPROCAL RSQRT SIGMOID SIN TANH"
)
BINARY: Final = (
    "ADD ARITHMETIC_RIGHT_SHIFT BITWISE_AND BITWISE_OR BITWISE_XOR EQUAL GREATER GREATER_EQUAL INTDIV "
    "LOGICAL_AND LOGICAL_LEFT_SHIFT LOGICAL_OR LOGICAL_RIGHT_SHIFT LOGICAL_XOR MAXIMUM MINIMUM POW SUB"
)
TWO: Final = {"input1": "INT32[2,1,4]", "input2": "INT32[1,3,4]", "output": "INT32[2,3,4]"}


def unary(name: str) -> dict[str, Any]:
    """Return an example of an operator of one operand, whatever that is called."""
    operand = "input" if name in ("ERF", "SIGMOID", "TANH") else "input1"
    return {operand: "FP32[2,3]", "output": "FP32[2,3]"}


def clamp(kind: str, low: float, high: float) -> dict[str, Any]:
    element = dtype(kind)
    values = {
        name: np.array([value]).astype(element.numpy).tobytes()[: element.element_bytes]
        for name, value in (("min_val", low), ("max_val", high))
    }
    return {
        "input": f"{kind}[2,3]",
        "output": f"{kind}[2,3]",
        "nan_mode": NanPropagationMode.PROPAGATE,
        **values,
    }


SHIFTS: Final = ("ARITHMETIC_RIGHT_SHIFT", "LOGICAL_LEFT_SHIFT", "LOGICAL_RIGHT_SHIFT")


def shifted(kind: str, amount: int) -> dict[str, Any]:
    """Return a value that is shifted by two constant amounts; the first one is allowed."""
    return {
        "input1": f"{kind}[2,1]",
        "input2": f"{kind}[1,2]=0 {amount}",
        "output": f"{kind}[2,2]",
    }


NEGATE: Final = {
    "input1": "INT8[2,3]",
    "input1_zp": "INT8[1]=5",
    "output_zp": "INT8[1]=-5",
    "output": "INT8[2,3]",
}
MUL: Final = {**TWO, "shift": "INT8[1]=63"}
TABLE: Final = {"input1": "INT8[2,3]", "table": "INT8[256]", "output": "INT8[2,3]"}
SELECT: Final = {"input1": "BOOL[1,1,1]", "input2": "INT8[2,1,4]", "input3": "INT8[1,3,4]"}
EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    **{name: unary(name) for name in UNARY.split()},
    **dict.fromkeys(BINARY.split(), TWO),
    "CLAMP": clamp("INT8", -3, 3),
    "NEGATE": NEGATE,
    "MUL": MUL,
    "TABLE": TABLE,
    "SELECT": {**SELECT, "output": "INT8[2,3,4]"},
}

BROKEN: Final[list[tuple[str, dict[str, Any], set[str]]]] = [
    ("ADD", {"input2": "INT32[3,4]"}, {"rank"}),
    ("ADD", {"input2": "INT32[3,3,4]"}, {"broadcast"}),
    ("ADD", {"output": "INT32[2,3,5]"}, {"output-shape"}),
    ("ADD", {"output": "INT32[6,4]"}, {"output-rank"}),
    ("EQUAL", {"input1": "INT32[2,2,4]"}, {"broadcast"}),
    ("SELECT", {"input1": "BOOL[]"}, {"rank"}),
    ("SELECT", {"input1": "BOOL[1,2,1]"}, {"broadcast"}),
    ("ABS", {"output": "FP32[3,2]"}, {"output-shape"}),
    ("TANH", {"output": "FP32[2,3,1]"}, {"output-rank"}),
    *((name, shifted("INT8", 8), {"shift"}) for name in SHIFTS),
    *((name, shifted("INT16", 16), {"shift"}) for name in SHIFTS),
    *((name, shifted("INT32", 32), {"shift"}) for name in SHIFTS),
    *((name, shifted("INT64", 64), {"shift"}) for name in SHIFTS),
    *((name, shifted("INT32", -1), {"shift"}) for name in SHIFTS),
    ("INTDIV", {"input2": "INT32[1,3,1]=3 0 -1"}, {"divisor"}),
    ("INTDIV", {"input2": "INT32[1,1,1]=0"}, {"divisor"}),
    ("CLAMP", clamp("INT8", 3, -3), {"range"}),
    ("CLAMP", clamp("BF16", 3, -3), {"range"}),
    ("CLAMP", clamp("FP16", float("nan"), 3), {"min-val"}),
    ("CLAMP", clamp("FP32", float("nan"), float("nan")), {"min-val", "max-val"}),
    ("NEGATE", {"input1_zp": "INT16[1]=1", "input1": "INT16[2,3]"}, {"input1-zp-not-zero"}),
    ("NEGATE", {"output_zp": "FP32[1]=0.5"}, {"output-zp-not-zero"}),
    ("NEGATE", {"input1_zp": "INT8[2]"}, {"input1-zp-shape"}),
    ("NEGATE", {"output_zp": "INT8[]"}, {"output-zp-shape"}),
    ("MUL", {"shift": "INT8[1]=64"}, {"shift"}),
    ("MUL", {"shift": "INT8[1]=-1"}, {"shift"}),
    ("MUL", {"input1": "INT16[2,1,4]", "shift": "INT8[1]=1"}, {"shift"}),
    ("MUL", {"input1": "FP32[2,1,4]", "shift": "INT8[1]=1"}, {"shift"}),
    ("MUL", {"shift": "INT8[1,1]"}, {"shift-shape"}),
    ("MUL", {"input1": "INT32[1,4]"}, {"rank"}),
    ("TABLE", {"table": "INT8[513]"}, {"table-size"}),
    ("TABLE", {"input1": "INT16[2,3]", "table": "INT16[256]"}, {"table-size"}),
    ("TABLE", {"table": "INT8[16,16]"}, {"table-rank"}),
    ("TABLE", {"output": "INT8[2,4]"}, {"output-shape"}),
]

HELD: Final[list[tuple[str, dict[str, Any]]]] = [
    *(
        (name, shifted(kind, most))
        for name in SHIFTS
        for kind, most in (("INT8", 7), ("INT16", 15), ("INT32", 31), ("INT64", 63))
    ),
    ("INTDIV", {"input2": "INT32[1,3,1]=3 1 -1"}),
    ("CLAMP", clamp("FP32", 3, 3)),
    ("CLAMP", clamp("FP32", float("-inf"), float("inf"))),
    ("CLAMP", clamp("INT16", -32768, 32767)),
    ("NEGATE", {"input1_zp": "FP32[1]=-0.0"}),
    ("MUL", {"input1": "FP32[2,1,4]", "shift": "INT8[1]=0"}),
    ("TABLE", {"input1": "INT16[2,3]", "table": "INT16[513]"}),
    ("SELECT", {"input1": "BOOL[2,3,4]"}),
    ("ABS", {"input1": "FP32[]", "output": "FP32[]"}),
]


@pytest.mark.parametrize(("name", "changes", "rules"), BROKEN)
def test_a_broken_rule_is_named(name: str, changes: dict[str, Any], rules: set[str]) -> None:
    assert broken_rules(name, EXAMPLES[name] | changes) == rules


@pytest.mark.parametrize(("name", "changes"), HELD)
def test_what_is_at_a_limit_is_allowed(name: str, changes: dict[str, Any]) -> None:
    assert broken_rules(name, EXAMPLES[name] | changes) == set()


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_is_not_known_violates_nothing(name: str) -> None:
    for example in less_known(name, EXAMPLES[name]):
        assert broken_rules(name, example) == set()
