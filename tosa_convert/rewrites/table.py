"""The rewrites, one row for each, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tosa_convert.graph.model import Graph
from tosa_convert.records import NamedTuple
from tosa_convert.rewrites import (
    boolean_arithmetic,
    casts,
    equal_constants,
    equal_operators,
    fold_constants,
    fold_scales,
    fold_shapes,
    fold_signs,
    high_ranks,
    integer_clamps,
    integers,
    layouts,
    merge_layouts,
    move_scales,
    no_operations,
    pow_by_constant,
    reciprocals,
    reductions,
    single_channels,
    tied_weights,
    unused_operators,
    widen_integers,
)
from tosa_convert.rewrites.operator_pass import OperatorRewrite
from tosa_convert.rewrites.report import Recorder

#: The groups of rewrites. A repair changes what TOSA forbids or leaves unpredictable, and whose meaning
#: is clear. Clean-up makes programs that TOSA allows smaller; they compute the same. A rewrite of the
#: rounding makes them smaller still; results differ by less than between two orders of a sum, which TOSA
#: leaves open. A rewrite for readers is only made for a program that reads less than TOSA has, and if it
#: is asked for by name.
REPAIR: Final = "repair"
CLEAN_UP: Final = "clean-up"
ROUNDING: Final = "rounding"
READER: Final = "reader"
GROUPS: Final = (REPAIR, CLEAN_UP, ROUNDING, READER)
#: The groups that keep every bit of what a framework computes.
EXACT: Final = (REPAIR, CLEAN_UP)


class GraphRewrite(NamedTuple):
    """A rewrite that looks at a graph as a whole.

    name: its name for users. group: one of GROUPS. reason: why it is made, in one line.
    function: the rewritten graph, or the same object if nothing changes. It records its changes.
    """

    name: str
    group: str
    reason: str
    function: Callable[[Graph, Recorder], Graph]


Rewrite = OperatorRewrite | GraphRewrite

#: All rewrites, in the order in which they run.
REWRITES: Final[tuple[Rewrite, ...]] = (
    # Before others change what it recognises.
    GraphRewrite(
        integers.NAME,
        ROUNDING,
        "frontends compute quantised networks in FP32, between what dequantises and quantises",
        integers.rewrite,
    ),
    GraphRewrite(
        high_ranks.NAME,
        REPAIR,
        "level 8K has tensors of at most six dimensions",
        high_ranks.rewrite,
    ),
    OperatorRewrite(
        "pow-by-constant",
        REPAIR,
        "TOSA leaves POW of a negative base unpredictable, and frameworks square with it",
        pow_by_constant.rewrite,
        pow_by_constant.OPERATORS,
    ),
    OperatorRewrite(
        "narrow-integers",
        REPAIR,
        "TOSA has this arithmetic only for INT32, frameworks also for INT8 and INT16",
        widen_integers.rewrite,
        widen_integers.OPERATORS,
    ),
    OperatorRewrite(
        "boolean-arithmetic",
        REPAIR,
        "TOSA has no arithmetic on BOOL, and frameworks add, multiply and compare it",
        boolean_arithmetic.rewrite,
        boolean_arithmetic.OPERATORS,
    ),
    OperatorRewrite(
        "integer-clamps",
        REPAIR,
        "TOSA has no CLAMP of INT32, INT64 and BOOL",
        integer_clamps.rewrite,
        integer_clamps.OPERATORS,
    ),
    OperatorRewrite(
        "casts",
        REPAIR,
        "TOSA has no CAST between FP16, BF16 and BOOL, nor to the same type",
        casts.rewrite,
        casts.OPERATORS,
    ),
    OperatorRewrite(
        "fold-shapes",
        CLEAN_UP,
        "frontends compute shapes that are known, and TOSA 1.0 has no such operators",
        fold_shapes.rewrite,
        fold_shapes.OPERATORS,
    ),
    # Before folding, so that equal results are one constant.
    OperatorRewrite(
        "equal-operators",
        CLEAN_UP,
        "frontends compute the same again for each use",
        equal_operators.rewrite,
        equal_operators.OPERATORS,
    ),
    OperatorRewrite(
        "fold-constants",
        CLEAN_UP,
        "frontends leave computations of constants, which need not run each time",
        fold_constants.rewrite,
        fold_constants.OPERATORS,
    ),
    OperatorRewrite(
        "no-operations",
        CLEAN_UP,
        "frontends leave operators that return an operand unchanged",
        no_operations.rewrite,
        no_operations.OPERATORS,
    ),
    OperatorRewrite(
        "merge-layouts",
        CLEAN_UP,
        "frontends change the layout before and after each operator",
        merge_layouts.rewrite,
        merge_layouts.OPERATORS,
    ),
    OperatorRewrite(
        "equal-constants",
        CLEAN_UP,
        "frontends make a constant for each use",
        equal_constants.rewrite,
        equal_constants.OPERATORS,
    ),
    OperatorRewrite(
        "fold-signs",
        CLEAN_UP,
        "frontends negate halves of rows that constants multiply, as in rotary embeddings",
        fold_signs.rewrite,
        fold_signs.OPERATORS,
    ),
    OperatorRewrite(
        "fold-functions",
        ROUNDING,
        "frontends leave sums and functions of constants, such as norms of weights",
        fold_constants.rewrite_rounded,
        fold_constants.ROUNDED,
    ),
    OperatorRewrite(
        "single-channels",
        ROUNDING,
        "TensorFlow writes a convolution of single channels as one for each",
        single_channels.rewrite,
        single_channels.OPERATORS,
    ),
    OperatorRewrite(
        "fold-scales",
        ROUNDING,
        "frontends leave a normalisation behind each convolution",
        fold_scales.rewrite,
        fold_scales.OPERATORS,
    ),
    OperatorRewrite(
        "move-scales",
        ROUNDING,
        "frontends scale both operands of a product, and means before their roots",
        move_scales.rewrite,
        move_scales.OPERATORS,
    ),
    OperatorRewrite(
        "reciprocals",
        ROUNDING,
        "frontends divide by square roots, which TOSA has as reciprocals",
        reciprocals.rewrite,
        reciprocals.OPERATORS,
    ),
    GraphRewrite(
        unused_operators.NAME,
        CLEAN_UP,
        "frontends leave operators behind that no result depends on",
        unused_operators.rewrite,
    ),
    # What is unused must not count from here on.
    GraphRewrite(
        tied_weights.NAME,
        CLEAN_UP,
        "frontends transpose the table of a decoder for its last product, and store both",
        tied_weights.rewrite,
    ),
    GraphRewrite(
        layouts.NAME,
        CLEAN_UP,
        "frontends change the layout on every branch, residual and concatenation",
        layouts.rewrite,
    ),
    OperatorRewrite(
        reductions.NAME,
        READER,
        "the Ethos-U55 and U65 have no REDUCE_MAX and REDUCE_MIN of INT32, which a softmax of int8 has",
        reductions.rewrite,
        reductions.OPERATORS,
    ),
)
