"""The rules of all operators, in families; a family is imported when a program has an operator of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

from tosa_convert.rules.families.core import OperatorRules, Rules


def _elementwise() -> Rules:
    from tosa_convert.rules.families.elementwise import RULES

    return RULES


def _reductions() -> Rules:
    from tosa_convert.rules.families.reductions import RULES

    return RULES


def _data_layout() -> Rules:
    from tosa_convert.rules.families.data_layout import RULES

    return RULES


def _gather() -> Rules:
    from tosa_convert.rules.families.gather import RULES

    return RULES


def _conversion() -> Rules:
    from tosa_convert.rules.families.conversion import RULES

    return RULES


def _convolution() -> Rules:
    from tosa_convert.rules.families.convolution import RULES

    return RULES


def _pooling() -> Rules:
    from tosa_convert.rules.families.pooling import RULES

    return RULES


def _matmul() -> Rules:
    from tosa_convert.rules.families.matmul import RULES

    return RULES


def _fft() -> Rules:
    from tosa_convert.rules.families.fft import RULES

    return RULES


def _resize() -> Rules:
    from tosa_convert.rules.families.resize import RULES

    return RULES


def _block_scaled() -> Rules:
    from tosa_convert.rules.families.block_scaled import RULES

    return RULES


def _values() -> Rules:
    from tosa_convert.rules.families.values import RULES

    return RULES


def _control_flow() -> Rules:
    from tosa_convert.rules.families.control_flow import RULES

    return RULES


def _shapes() -> Rules:
    from tosa_convert.rules.families.shapes import RULES

    return RULES


#: Family -> the names of its operators. A test compares them with the rows of each family.
_FAMILIES: Final[tuple[tuple[Callable[[], Rules], str], ...]] = (
    (
        _elementwise,
        "CLAMP ERF SIGMOID TANH ADD ARITHMETIC_RIGHT_SHIFT BITWISE_AND BITWISE_OR BITWISE_XOR "
        "INTDIV LOGICAL_AND LOGICAL_LEFT_SHIFT LOGICAL_RIGHT_SHIFT LOGICAL_OR LOGICAL_XOR "
        "MAXIMUM MINIMUM MUL POW SUB TABLE ABS BITWISE_NOT CEIL CLZ COS EXP FLOOR LOG "
        "LOGICAL_NOT NEGATE RECIPROCAL RSQRT SIN SELECT EQUAL GREATER GREATER_EQUAL",
    ),
    (_reductions, "ARGMAX REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PRODUCT REDUCE_SUM"),
    (_data_layout, "CONCAT PAD RESHAPE REVERSE SLICE TILE TRANSPOSE"),
    (_gather, "GATHER SCATTER ROW_GATHER"),
    (_conversion, "CAST RESCALE"),
    (_convolution, "CONV2D CONV3D DEPTHWISE_CONV2D TRANSPOSE_CONV2D CONV2D_BLOCK_SCALED"),
    (_pooling, "AVG_POOL2D MAX_POOL2D AVG_POOL2D_ADAPTIVE MAX_POOL2D_ADAPTIVE"),
    (_matmul, "MATMUL MATMUL_T MATMUL_T_BLOCK_SCALED"),
    (_fft, "FFT2D RFFT2D"),
    (_resize, "RESIZE"),
    (
        _block_scaled,
        "CAST_FROM_BLOCK_SCALED CAST_TO_BLOCK_SCALED RESHAPE_BLOCK_SCALED ROW_GATHER_BLOCK_SCALED",
    ),
    (_values, "CONST IDENTITY CUSTOM VARIABLE VARIABLE_WRITE VARIABLE_READ"),
    (_control_flow, "COND_IF WHILE_LOOP"),
    (
        _shapes,
        "CONST_SHAPE DIM CONCAT_SHAPE ADD_SHAPE SUB_SHAPE MUL_SHAPE SLICE_SHAPE EXP2_SHAPE "
        "LOG2_CEIL_SHAPE LOG2_FLOOR_SHAPE MAX_SHAPE MIN_SHAPE MOD_SHAPE DIV_CEIL_SHAPE "
        "DIV_FLOOR_SHAPE ASSERT_EQUAL_SHAPE",
    ),
)
_FAMILY_OF: Final = {name: family for family, names in _FAMILIES for name in names.split()}


@cache
def rules_of(name: str) -> OperatorRules:
    """Return the rules of the operator of this name."""
    return _FAMILY_OF[name]()[name]
