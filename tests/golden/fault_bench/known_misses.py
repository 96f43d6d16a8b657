"""Faults of the bench that are missed, by kind, and why."""

from __future__ import annotations

from typing import Final

_TOO_FEW: Final = "no set of inputs met this edge of the operator: more seeds meet it"
_WIDE: Final = (
    "the operators before and after it may err more, by TOSA's own rules, so that the output may"
)
_LEFT_OUT: Final = (
    "edge inputs leave out arguments for which TOSA allows the function an error of the size of the "
    "result"
)
#: The beginning of a title -> why no inputs, or no comparison of outputs, showed the fault.
KNOWN_MISSES: Final = {
    "sigmoid of large numbers is NaN": _LEFT_OUT,
    "tanh of large numbers is NaN": _LEFT_OUT,
    "sine does not reduce its argument": _LEFT_OUT,
    "activation overflows on the way, BF16": _LEFT_OUT,
    "a function is approximated, BF16, log": _WIDE,
    "last of equals, FP8": (
        "the operands are sums of products of FP8, which units of few bits round differently: a "
        "correct implementation may have no tie"
    ),
    "equals ordered by lanes, FP8E4M3": (
        "the operands are sums of products of FP8, which units of few bits round differently: a "
        "correct implementation may have no tie"
    ),
    "reciprocal loses the sign of zero": (
        "a product that is flushed to zero may lose its sign, and with it that of the infinity"
    ),
    "bias in BF16, FP32, decoder": (
        "a RESIZE before it may err by 0.6 % of the largest element, and so may what is made of it"
    ),
    "border of a resize fades, BF16": (
        "a RESIZE may err by 0.6 % of the largest element, and BF16 rounds by 0.4 %"
    ),
    "narrow accumulator, BF16": _WIDE,
    "partial sums stored short, BF16": _WIDE,
    "sine without reduction": _LEFT_OUT,
    "equals ordered by lanes": _TOO_FEW,
    "threshold > instead of >=": _TOO_FEW,
    "comparison of shortened numbers": _TOO_FEW,
    "requantisation rounds ties": _TOO_FEW,
    "maximum starts at zero": _TOO_FEW,
    "FP8 saturates one exponent early": _TOO_FEW,
    "code of NaN read as a number": _TOO_FEW,
    "infinities become the greatest number": _TOO_FEW,
    "else branch always": (
        "the condition holds for large inputs alone, and edge inputs do not aim at conditions"
    ),
}


def reason_of(title: str) -> str:
    """Return why a fault is missed, or "" if it is not known."""
    return next((text for start, text in KNOWN_MISSES.items() if title.startswith(start)), "")
