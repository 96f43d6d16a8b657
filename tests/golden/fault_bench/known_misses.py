"""Faults of the bench that are missed, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_TOO_FEW: Final = "no set of inputs met this edge of the operator: more seeds meet it"
_WIDE: Final = (
    "the operators before and after it may err more, by TOSA's own rules, so that the output may"
)
_LEFT_OUT: Final = (
    "edge inputs leave out arguments for which TOSA allows the function an error of the size of the "
    "result"
)
_NO_TIE: Final = (
    "the operands are sums of products of FP8, which units of few bits round differently: a correct "
    "implementation may have no tie"
)
_SIGN_OF_ZERO: Final = (
    "a product that is flushed to zero may lose its sign, and with it that of the infinity"
)
_RESIZED: Final = (
    "a RESIZE before it may err by 0.6 % of the largest element, and so may what is made of it"
)
_LOW: Final = "the outputs may err by half of their values, as the check says: `--strict` fails it"
_SMALL_ROWS: Final = (
    "it shows on rows whose elements are all small, which no set of inputs has in so short a type"
)
#: Title -> why no inputs, or no comparison of outputs, showed the fault.
KNOWN_MISSES: Final[Mapping[str, str]] = {
    "cast to FP8 flushes subnormal numbers, FP8E5M2, of FP16": (
        "what is subnormal in FP8E5M2 is so in FP16, where an operand may be read as zero"
    ),
    "sine does not reduce its argument, BF16": _LEFT_OUT,
    "sine without reduction, FP16, activations SIN": _LEFT_OUT,
    "sine without reduction, BF16, activations SIN": _LEFT_OUT,
    "sine without reduction, BF16, activations COS": _LEFT_OUT,
    "last of equals, FP8E4M3, eights ARGMAX": _NO_TIE,
    "equals ordered by lanes, FP8E4M3, eights ARGMAX": _NO_TIE,
    "threshold > instead of >=, FP32, detector GREATER_EQUAL": _TOO_FEW,
    "comparison of shortened numbers, FP16, clipping GREATER": _TOO_FEW,
    "comparison of shortened numbers, FP32, detector GREATER_EQUAL": _TOO_FEW,
    "requantisation rounds ties to even, INT16, quantised_conv RESCALE": _TOO_FEW,
    "requantisation rounds ties down, INT16, quantised_conv RESCALE": _TOO_FEW,
    "FP8 saturates one exponent early, FP8E4M3, eights CAST": _TOO_FEW,
    "code of NaN read as a number, FP8E4M3, eights MATMUL": _TOO_FEW,
    "infinities become the greatest number, FP32, parts MUL": _TOO_FEW,
    "infinities become the greatest number, FP16, parts MUL": _TOO_FEW,
    "reciprocal loses the sign of zero, FP32, signed_zeros RECIPROCAL": _SIGN_OF_ZERO,
    "reciprocal loses the sign of zero, FP16, signed_zeros RECIPROCAL": _SIGN_OF_ZERO,
    "reciprocal loses the sign of zero, BF16, signed_zeros RECIPROCAL": _SIGN_OF_ZERO,
    "sigmoid of lines, BF16, lstm SIGMOID": _LOW,
    "written in place, BF16, lstm TANH": _LOW,
    "partial sums stored short, BF16, parts MATMUL": _WIDE,
    "bias in BF16, FP32, decoder CONV2D": _RESIZED,
    "bias in BF16, FP32, decoder TRANSPOSE_CONV2D": _RESIZED,
    "border of a resize fades, BF16, decoder RESIZE": _RESIZED,
    "constants of a rounding cancel, FP16, rounded SUB ADD": _LOW,
    "epsilon after the root, FP16, layer_norm RSQRT ADD": _SMALL_ROWS,
    "epsilon after the root, BF16, layer_norm RSQRT ADD": _SMALL_ROWS,
}
