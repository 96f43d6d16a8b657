"""The rewrites, one row for each, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from tosa_convert.graph.model import Graph
from tosa_convert.rewrites import (
    fold_constants,
    high_ranks,
    merge_layouts,
    move_layouts,
    quantised_operators,
    repairs,
    scales,
    simplify,
    single_channels,
)
from tosa_convert.rewrites.operator_pass import OperatorRewrite, Recorder

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
        quantised_operators.NAME,
        ROUNDING,
        "frontends compute quantised networks in FP32, between what dequantises and quantises",
        quantised_operators.rewrite,
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
        repairs.replace_pow,
        repairs.POW_BY_CONSTANT,
    ),
    OperatorRewrite(
        "narrow-integers",
        REPAIR,
        "TOSA has this arithmetic only for INT32, frameworks also for INT8 and INT16",
        repairs.widen_integers,
        repairs.NARROW_INTEGERS,
    ),
    OperatorRewrite(
        "boolean-arithmetic",
        REPAIR,
        "TOSA has no arithmetic on BOOL, and frameworks add, multiply and compare it",
        repairs.replace_boolean_arithmetic,
        repairs.BOOLEAN_ARITHMETIC,
    ),
    OperatorRewrite(
        "integer-clamps",
        REPAIR,
        "TOSA has no CLAMP of INT32, INT64 and BOOL",
        repairs.replace_integer_clamp,
        repairs.INTEGER_CLAMPS,
    ),
    OperatorRewrite(
        "casts",
        REPAIR,
        "TOSA has no CAST between FP16, BF16 and BOOL, nor to the same type",
        repairs.replace_cast,
        repairs.CASTS,
    ),
    OperatorRewrite(
        "fold-shapes",
        CLEAN_UP,
        "frontends compute shapes that are known, and TOSA 1.0 has no such operators",
        fold_constants.fold_shape,
        fold_constants.ON_SHAPES,
    ),
    # Before folding, so that equal results are one constant.
    OperatorRewrite(
        "equal-operators",
        CLEAN_UP,
        "frontends compute the same again for each use",
        simplify.merge_equal_operators,
        simplify.EQUAL_OPERATORS,
    ),
    OperatorRewrite(
        "fold-constants",
        CLEAN_UP,
        "frontends leave computations of constants, which need not run each time",
        fold_constants.fold_constant,
        fold_constants.FOLDED,
    ),
    OperatorRewrite(
        "no-operations",
        CLEAN_UP,
        "frontends leave operators that return an operand unchanged",
        simplify.remove_no_operation,
        simplify.NO_OPERATIONS,
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
        simplify.merge_equal_constants,
        simplify.EQUAL_CONSTANTS,
    ),
    OperatorRewrite(
        simplify.PADDING,
        CLEAN_UP,
        "frontends pad images before convolutions, which have padding of their own",
        simplify.fold_padding,
        simplify.PADDED,
    ),
    OperatorRewrite(
        "fold-signs",
        CLEAN_UP,
        "frontends negate halves of rows that constants multiply, as in rotary embeddings",
        scales.fold_sign,
        scales.SIGNED,
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
        scales.fold_scale,
        scales.SCALED,
    ),
    OperatorRewrite(
        "move-scales",
        ROUNDING,
        "frontends scale both operands of a product, and means before their roots",
        scales.move_scale,
        scales.MOVED,
    ),
    OperatorRewrite(
        "reciprocals",
        ROUNDING,
        "frontends divide by square roots, which TOSA has as reciprocals",
        simplify.merge_reciprocals,
        simplify.RECIPROCALS,
    ),
    GraphRewrite(
        simplify.UNUSED_OPERATORS,
        CLEAN_UP,
        "frontends leave operators behind that no result depends on",
        simplify.remove_unused,
    ),
    # What is unused must not count from here on.
    GraphRewrite(
        scales.TIED_WEIGHTS,
        CLEAN_UP,
        "frontends transpose the table of a decoder for its last product, and store both",
        scales.tie_weights,
    ),
    GraphRewrite(
        move_layouts.NAME,
        CLEAN_UP,
        "frontends change the layout on every branch, residual and concatenation",
        move_layouts.rewrite,
    ),
    OperatorRewrite(
        simplify.REDUCTIONS,
        READER,
        "the Ethos-U55 and U65 have no REDUCE_MAX and REDUCE_MIN of INT32, which a softmax of int8 has",
        simplify.reduce_before_rescale,
        simplify.RESCALED_REDUCTIONS,
    ),
)
