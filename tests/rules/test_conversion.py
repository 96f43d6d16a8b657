"""The rules of CAST and RESCALE."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from rules.operator_examples import broken_rules, inferred, less_known, view

from tosa_convert.graph import Constant
from tosa_convert.graph.dtypes import RoundingMode
from tosa_convert.rules.validate import judge_shapes
from tosa_convert.rules.values import OperatorView, TensorType

CAST: Final = {"input": "INT8[2,3]", "output": "INT32[2,3]"}
RESCALE: Final[dict[str, Any]] = {
    "input": "INT8[2,3]",
    "multiplier": "INT32[1]=1073741824",
    "shift": "INT8[1]=30",
    "input_zp": "INT8[1]=5",
    "output_zp": "INT8[1]=-5",
    "output": "INT8[2,3]",
    "scale32": True,
    "rounding_mode": RoundingMode.SINGLE_ROUND,
    "per_channel": False,
    "input_unsigned": False,
    "output_unsigned": False,
}
PER_CHANNEL: Final = {"per_channel": True, "multiplier": "INT32[3]", "shift": "INT8[3]"}
SCALE16: Final = {"scale32": False, "multiplier": "INT16[1]"}
FROM_INT48: Final = {"input": "INT48[2,3]", "input_zp": "INT48[1]=0", **SCALE16}
FROM_INT32: Final = {"input": "INT32[2,3]", "input_zp": "INT32[1]=0"}
TO_INT32: Final = {"output": "INT32[2,3]", "output_zp": "INT32[1]=0"}
FROM_INT16: Final = {"input": "INT16[2,3]", "input_zp": "INT16[1]=0"}
TO_INT16: Final = {"output": "INT16[2,3]", "output_zp": "INT16[1]=0"}
INPUT_UNSIGNED: Final = {"input_unsigned": True}
OUTPUT_UNSIGNED: Final = {"output_unsigned": True}

BROKEN: Final[list[tuple[dict[str, Any], set[str]]]] = [
    ({"multiplier": "INT32[]"}, {"multiplier-rank"}),
    ({"shift": "INT8[1,1]"}, {"shift-rank"}),
    ({"multiplier": "INT32[3]"}, {"multiplier-size"}),
    ({"shift": "INT8[3]"}, {"shift-size"}),
    (PER_CHANNEL | {"multiplier": "INT32[2]"}, {"multiplier-size"}),
    (PER_CHANNEL | {"shift": "INT8[1]"}, {"shift-size"}),
    (PER_CHANNEL | {"input": "INT8[2,?]", "shift": "INT8[1]"}, {"shift-size"}),
    ({"per_channel": True, "input": "INT8[]", "output": "INT8[]"}, {"per-channel"}),
    ({"input_zp": "INT8[]"}, {"input-zp-shape"}),
    ({"output_zp": "INT8[2]"}, {"output-zp-shape"}),
    (FROM_INT32 | {"input_zp": "INT32[1]=1"}, {"input-zp-not-zero"}),
    (FROM_INT16 | {"input_zp": "INT16[1]=1"}, {"input-zp-not-zero"}),
    (TO_INT32 | {"output_zp": "INT32[1]=1"}, {"output-zp-not-zero"}),
    (FROM_INT16 | {"input_zp": "INT16[1]=1"} | INPUT_UNSIGNED, {"input-zp-uint16"}),
    (TO_INT16 | {"output_zp": "INT16[1]=-1"} | OUTPUT_UNSIGNED, {"output-zp-uint16"}),
    (FROM_INT48 | {"scale32": True, "multiplier": "INT32[1]"}, {"scale32"}),
    (SCALE16 | {"rounding_mode": RoundingMode.DOUBLE_ROUND}, {"rounding-mode"}),
    (INPUT_UNSIGNED | OUTPUT_UNSIGNED, {"unsigned"}),
    (TO_INT32 | INPUT_UNSIGNED, {"input-unsigned"}),
    (TO_INT32 | OUTPUT_UNSIGNED, {"output-unsigned"}),
    (FROM_INT32 | INPUT_UNSIGNED, {"input-unsigned"}),
    (FROM_INT32 | OUTPUT_UNSIGNED, {"output-unsigned"}),
    (FROM_INT48 | INPUT_UNSIGNED, {"input-unsigned"}),
    (FROM_INT48 | OUTPUT_UNSIGNED, {"output-unsigned"}),
    ({"multiplier": "INT32[1]=-1"}, {"multiplier"}),
    ({"shift": "INT8[1]=1"}, {"shift"}),
    ({"shift": "INT8[1]=63"}, {"shift"}),
    ({"output": "INT8[3,2]"}, {"output-shape"}),
    ({"output": "INT8[6]"}, {"output-rank"}),
]

HELD: Final[list[dict[str, Any]]] = [
    PER_CHANNEL,
    {"input": "INT8[]", "output": "INT8[]"},
    FROM_INT48,
    FROM_INT16 | {"input_zp": "INT16[1]=-32768"} | INPUT_UNSIGNED,
    TO_INT16 | OUTPUT_UNSIGNED,
    {"rounding_mode": RoundingMode.DOUBLE_ROUND},
    SCALE16 | {"rounding_mode": RoundingMode.INEXACT_ROUND},
    {"shift": "INT8[1]=2"},
    {"shift": "INT8[1]=62"},
    {"multiplier": "INT32[1]=0"},
]


@pytest.mark.parametrize(("name", "example"), [("CAST", CAST), ("RESCALE", RESCALE)])
def test_a_conversion_that_holds_all_rules_has_no_violation(
    name: str, example: dict[str, Any]
) -> None:
    assert broken_rules(name, example) == set()
    assert inferred(name, example) == ((2, 3),)
    for changed in less_known(name, example):
        assert broken_rules(name, changed) == set()


@pytest.mark.parametrize("output", ["INT32[3,2]", "INT32[6]"])
def test_a_cast_keeps_the_shape(output: str) -> None:
    rule = "output-shape" if output.count(",") else "output-rank"
    assert broken_rules("CAST", CAST | {"output": output}) == {rule}


@pytest.mark.parametrize(("changes", "rules"), BROKEN)
def test_a_broken_rule_of_rescale_is_named(changes: dict[str, Any], rules: set[str]) -> None:
    assert broken_rules("RESCALE", RESCALE | changes) == rules


@pytest.mark.parametrize("changes", HELD)
def test_a_rescale_at_a_limit_is_allowed(changes: dict[str, Any]) -> None:
    assert broken_rules("RESCALE", RESCALE | changes) == set()


def test_the_rules_of_types_hold_while_the_output_is_not_known() -> None:
    changes = TO_INT32 | INPUT_UNSIGNED | {"output": None}
    assert broken_rules("RESCALE", RESCALE | changes) == {"input-unsigned"}


def test_the_first_wrong_shift_is_named_by_its_channel() -> None:
    made = view("RESCALE", RESCALE | PER_CHANNEL)
    shift = made.tensor("shift")
    shifts = Constant(shift.dtype, 3, np.array([30, 1, 70], np.int8).tobytes())
    inputs = tuple(
        TensorType(shift.dtype, (3,), None, shifts) if value is shift else value
        for value in made.inputs
    )
    (violation,) = judge_shapes(OperatorView(made.operator, inputs, made.outputs)).violations
    assert violation[:3] == ("shift", "shift [1] is 1", "2 to 62")
