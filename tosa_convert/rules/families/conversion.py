"""Conversion between element types and between quantised scales."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tosa_convert.graph.dtypes import INT8, INT32, MIDDLE_OF_UINT16, RoundingMode, dtype
from tosa_convert.graph.model import DYNAMIC
from tosa_convert.rules.families.core import (
    Check,
    OperatorRules,
    Rules,
    Violation,
    agree,
    first_shape,
    merged,
    outside,
    rank,
    single,
)
from tosa_convert.rules.operator_view import OperatorView

_INT16: Final = dtype("INT16")
_INT48: Final = dtype("INT48")
_LEAST_SHIFT: Final = 2
_MOST_SHIFT: Final = 62


def zero_point_of(side: str) -> Check:
    """Require a zero point of RESCALE's input or output that its element type has.

    side: "input" or "output". A zero point has the element type of its tensor.
    """
    name = f"{side}_zp"

    def check(view: OperatorView) -> Iterator[Violation]:
        value, element = view.splat(name), view.tensor(name).dtype
        if not value or element is INT8:
            return
        is_uint16 = element is _INT16 and view.attributes[f"{side}_unsigned"]
        if is_uint16 and value != MIDDLE_OF_UINT16:
            yield Violation(
                f"{side}-zp-uint16",
                f"{name} is {int(value) & 0xFFFF}, and {side} is unsigned INT16",
                "0 or 32768",
            )
        elif not is_uint16:
            yield Violation(
                f"{side}-zp-not-zero",
                f"{name} is {value}, and {side} is of {element}",
                "0, since only INT8 and unsigned INT16 have other zero points",
            )

    check.__doc__ = f"Check that {name} is 0 unless {side} is of INT8; 32768 for unsigned INT16."
    return check


def scale(view: OperatorView) -> Iterator[Violation]:
    """Check that scale32 fits the input and the rounding mode."""
    scale32 = view.attributes["scale32"]
    if scale32 and view.tensor("input").dtype is _INT48:
        yield Violation("scale32", "scale32 is true, and input is of INT48", "false")
    if not scale32 and view.attributes["rounding_mode"] is RoundingMode.DOUBLE_ROUND:
        yield Violation(
            "rounding-mode",
            "rounding_mode is DOUBLE_ROUND, and scale32 is false",
            "scale32 true, or another rounding mode",
        )


def unsigned(view: OperatorView) -> Iterator[Violation]:
    """Check that at most one side is unsigned, and none if the other or itself is of INT32 or INT48."""
    sides = {"input": view.tensor("input").dtype, "output": view.tensor("output_zp").dtype}
    flags = [side for side in sides if view.attributes[f"{side}_unsigned"]]
    if len(flags) == 2:
        yield Violation(
            "unsigned", "input_unsigned and output_unsigned are true", "one of them at most"
        )
    for flag in flags:
        for side, element in sides.items():
            if element in (INT32, _INT48):
                yield Violation(
                    f"{flag}-unsigned",
                    f"{flag}_unsigned is true, and {side} is of {element}",
                    f"{flag}_unsigned false",
                )


def channels(view: OperatorView) -> Iterator[Violation]:
    """Check that there is one multiplier and shift, or one for each channel of the input."""
    expected, reason = 1, "per_channel is false"
    if view.attributes["per_channel"]:
        shape = view.shape("input")
        if shape == ():
            yield Violation(
                "per-channel", "per_channel is true, and input has rank 0", "an input of rank 1"
            )
            return
        expected = DYNAMIC if shape is None else shape[-1]
        reason = f"per_channel is true, and input is {view.tensor('input')}"
    shapes = {name: shape for name in ("multiplier", "shift") if (shape := view.shape(name))}
    if expected == DYNAMIC:
        expected = merged(*(shape[0] for shape in shapes.values()))
        reason = f"multiplier is {view.tensor('multiplier')}"
    for name, shape in shapes.items():
        if not agree(shape[0], expected):
            yield Violation(
                f"{name}-size",
                f"{name} is {view.tensor(name)}, and {reason}",
                f"shape [{expected}]",
            )


def factors(view: OperatorView) -> Iterator[Violation]:
    """Check that multipliers are not negative, and shifts are 2 to 62."""
    limits = (
        ("multiplier", 0, None, "at least 0"),
        ("shift", _LEAST_SHIFT, _MOST_SHIFT, f"{_LEAST_SHIFT} to {_MOST_SHIFT}"),
    )
    for name, least, most, expected in limits:
        yield from outside(view, name, least, most, name, expected)


RULES: Final[Rules] = {
    "CAST": OperatorRules(first_shape),
    "RESCALE": OperatorRules(
        first_shape,
        (rank("multiplier", 1), rank("shift", 1)),
        (
            single("input_zp"),
            single("output_zp"),
            zero_point_of("input"),
            zero_point_of("output"),
            scale,
            unsigned,
            channels,
            factors,
        ),
    ),
}
