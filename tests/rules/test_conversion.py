"""The rules of CAST and RESCALE."""

from __future__ import annotations

from typing import Any, Final

import pytest
from rules.operator_examples import broken_rules

from tosa_convert.graph.dtypes import RoundingMode

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


@pytest.mark.parametrize(("changes", "rules"), BROKEN)
def test_a_broken_rule_of_rescale_is_named(changes: dict[str, Any], rules: set[str]) -> None:
    assert broken_rules("RESCALE", RESCALE | changes) == rules


def test_the_rules_of_types_hold_while_the_output_is_not_known() -> None:
    changes = TO_INT32 | INPUT_UNSIGNED | {"output": None}
    assert broken_rules("RESCALE", RESCALE | changes) == {"input-unsigned"}
