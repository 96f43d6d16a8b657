"""The rules of Fourier transforms."""

from __future__ import annotations

from typing import Any, Final

import pytest
from rules.operator_examples import broken_rules, less_known

FFT2D: Final = {
    "input_real": "FP32[3,4,8]",
    "input_imag": "FP32[3,4,8]",
    "output_real": "FP32[3,4,8]",
    "output_imag": "FP32[3,4,8]",
    "inverse": False,
}
RFFT2D: Final = {
    "input_real": "FP32[3,4,8]",
    "output_real": "FP32[3,4,5]",
    "output_imag": "FP32[3,4,5]",
}
EXAMPLES: Final[dict[str, dict[str, Any]]] = {"FFT2D": FFT2D, "RFFT2D": RFFT2D}

BROKEN: Final[list[tuple[str, str, dict[str, Any]]]] = [
    ("FFT2D", "input-real-rank", {"input_real": "FP32[4,8]"}),
    ("FFT2D", "input-imag-rank", {"input_imag": "FP32[1,3,4,8]"}),
    ("FFT2D", "input-shapes", {"input_imag": "FP32[3,8,4]"}),
    ("FFT2D", "output-real-batch", {"output_real": "FP32[1,4,8]"}),
    ("FFT2D", "output-real-height", {"output_real": "FP32[3,8,8]"}),
    ("FFT2D", "output-real-width", {"output_real": "FP32[3,4,5]"}),
    ("FFT2D", "output-imag-shape", {"output_imag": "FP32[3,4,5]"}),
    ("RFFT2D", "input-real-rank", {"input_real": "FP32[4,8]"}),
    ("RFFT2D", "height-power-of-two", {"input_real": "FP32[3,6,8]"}),
    ("RFFT2D", "width-power-of-two", {"input_real": "FP32[3,4,12]"}),
    ("RFFT2D", "output-real-width", {"output_real": "FP32[3,4,8]"}),
    ("RFFT2D", "output-imag-rank", {"output_imag": "FP32[3,4]"}),
]


@pytest.mark.parametrize(
    ("name", "rule", "changes"), BROKEN, ids=[f"{name}-{rule}" for name, rule, _ in BROKEN]
)
def test_a_broken_rule_is_the_only_violation(name: str, rule: str, changes: dict[str, Any]) -> None:
    assert broken_rules(name, EXAMPLES[name] | changes) == {rule}


@pytest.mark.parametrize(("size", "holds"), [(1, True), (2, True), (1024, True), (3, False)])
def test_height_and_width_are_powers_of_two(size: int, holds: bool) -> None:
    values = dict.fromkeys(FFT2D, f"FP32[1,{size},{size}]") | {"inverse": True}
    expected = set() if holds else {"height-power-of-two", "width-power-of-two"}
    assert broken_rules("FFT2D", values) == expected


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_is_unknown_violates_nothing(name: str) -> None:
    for example in less_known(name, EXAMPLES[name]):
        assert broken_rules(name, example) == set(), example
