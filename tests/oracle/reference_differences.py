"""Kinds of differences between numpy and the reference model: who is right, and why.

What decides is the pseudo-code of the operator in the specification, or of the function that is named.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Explained(NamedTuple):
    """Kinds of differences that match a pattern.

    what: the difference. who: whose result is right: "tosa-convert", "reference model" or "both".
    why: the reason. decides: the place of the specification that says so.
    """

    pattern: str
    what: str
    who: str
    why: str
    decides: str


_NO_NAN: Final = "FP6E[23]M[23]|FP4E2M1|MXINT8"

EXPLAINED: Final = (
    Explained(
        r"^REDUCE_PRODUCT .*broken by the model",
        "REDUCE_PRODUCT: products on the way overflow, or are subnormal",
        "both",
        "the model rounds each product to the element type, and we multiply in FP64 and round once; "
        "`check` allows what products on the way may err in any order",
        "compliance of REDUCE_PRODUCT, which counts accumulators that overflow or are subnormal",
    ),
    Explained(
        r"^REDUCE_PRODUCT .*broken by both",
        "REDUCE_PRODUCT: products on the way overflow FP64",
        "both",
        "infinity times 0 is NaN in any type",
        "REDUCE_PRODUCT: `acc = apply_mul_s(acc, value)`",
    ),
    Explained(
        r"^AVG_POOL2D(_ADAPTIVE)? FP16 .*broken by the model",
        "AVG_POOL2D: a sum of FP16 overflows, and the mean does not",
        "tosa-convert",
        "the model adds in FP16, and we in FP32; the rule compares with the exact mean",
        "`tosa_reference_check_dotproduct`",
    ),
    Explained(
        r"^AVG_POOL2D(_ADAPTIVE)? .*broken by the model",
        "AVG_POOL2D: a sum of FP32 overflows, and the mean does not",
        "tosa-convert",
        "the model adds in FP32, and we in FP64 if that overflows; the rule compares with the exact "
        "mean",
        "`tosa_reference_check_dotproduct`",
    ),
    Explained(
        r"^(MAXIMUM|MINIMUM|REDUCE_MAX|REDUCE_MIN|MAX_POOL2D|MAX_POOL2D_ADAPTIVE|CLAMP) "
        r".*a zero of the other sign",
        "MAXIMUM and the like of 0 and -0: the other zero",
        "both",
        "the pseudo-code takes one of two equal elements, and numpy another one; the rules of accuracy "
        "compare numbers, and 0 equals -0",
        "`apply_max_s`: `if (a >= b) return a`",
    ),
    Explained(
        rf"^(CAST|CAST_TO_BLOCK_SCALED) .*-> .*({_NO_NAN})( FP8UE8M0)?: ulp broken by both",
        "NaN or infinity to FP6, FP4 and MXINT8, which have neither",
        "both",
        "the scale is NaN, and both give the same elements, which mean nothing then",
        "`calc_block_scale`; `tosa_reference_check_scale`",
    ),
    Explained(
        r"^CAST .* -> INT32( in its program)?: other results",
        "CAST of NaN to INT32: 0, and of the model the least integer",
        "both",
        "the integer nearest to NaN is not defined; for INT8 and INT16 the model gives 0, too",
        "`round_to_nearest_int`",
    ),
    Explained(
        r"^(MATMUL_T|CONV[23]D|TRANSPOSE_CONV2D)(_BLOCK_SCALED)? .*dot-product broken by both",
        "block-scaled data that leave FP32 on the way",
        "both",
        "a number times its scale, or a product, overflows FP32, and infinity times 0 is NaN; in FP64 "
        "it does not",
        "`tosa_reference_check_dotproduct`",
    ),
    Explained(
        r"^R?FFT2D .*(broken by|differs in FP64)",
        "transforms: terms that cancel, and infinities",
        "both",
        "the model adds terms whose sine is 1e-16 for a multiple of pi, so that its FP64 result and "
        "its bound are 1e-16 as well; an infinity times such a sine is infinite, and times 0 NaN",
        "FFT2D, RFFT2D: `sum_real += val_real * cos(a)`",
    ),
    Explained(
        r"^POW FP16 .*the bound differs in FP64",
        "POW of FP16: the bound for a subnormal exponent",
        "reference model",
        "the model counts a subnormal exponent as a normal number; our bound is a part in 3,000 less",
        "Main Inference precision requirements of the draft, POW: `1+abs(log(abs(x))*y)`, "
        "of y as it is",
    ),
    Explained(
        r"^POW .*bounds broken by both",
        "POW: a result below all numbers, whose bound is 0 times infinity",
        "both",
        "both give 0, the exact result in FP64; the error that the logarithm is allowed, times the "
        "exponent, is infinite after EXP, and times this 0 it is NaN; we take such a bound to accept "
        "nothing, and the specification lets it accept every result",
        "`tosa_reference_check_fp_bnd`: a bound that is not finite accepts every result",
    ),
    Explained(
        r"^SIGMOID .*the result differs in FP64",
        "SIGMOID: results below the normal numbers of FP64",
        "both",
        "exp(-x) overflows FP64, and our result is 0, as it is in every element type",
        "SIGMOID: `1 / (1 + e^-x)`",
    ),
    Explained(
        r"^RESCALE .*(of INEXACT_ROUND|only numpy refuses: .*a value that has more bits)",
        "RESCALE with INEXACT_ROUND: other integers, and values with more bits than the shift",
        "both",
        "the model computes it in FP32, and we exactly; the mode allows errors of FP32",
        "RESCALE: rounding_mode INEXACT_ROUND",
    ),
    Explained(
        r"^MUL .*only numpy refuses: .*a shift that is not",
        "MUL with a shift of another type than INT32",
        "tosa-convert",
        "the model ignores the shift",
        "MUL: REQUIRE of `is_same<in_t,int32_t>()` or `shift == 0`",
    ),
)


def explanation(kind: str) -> Explained | None:
    """Return the explanation of a kind of difference, if there is one."""
    return next((row for row in EXPLAINED if re.search(row.pattern, kind)), None)
