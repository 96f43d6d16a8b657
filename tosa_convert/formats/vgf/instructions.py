"""The instructions of the extended set TOSA.001000.1: their operators, and the order of attributes.

Facts of the set's grammar: operands of an instruction are its attributes, and then the operands of the
operator. The number of an instruction is its place in the table.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tosa_convert.graph.opset import OperatorSpec, operator

SET: Final = "TOSA.001000.1"
_CONV: Final = "pad stride dilation acc_type local_bound"
_TABLE: Final = f"""
ARGMAX axis nan_mode
AVG_POOL2D kernel stride pad acc_type
CONV2D {_CONV}
CONV3D {_CONV}
DEPTHWISE_CONV2D {_CONV}
FFT2D inverse local_bound
MATMUL
MAX_POOL2D kernel stride pad nan_mode
RFFT2D local_bound
TRANSPOSE_CONV2D out_pad stride acc_type local_bound
CLAMP min_val max_val nan_mode
ERF
SIGMOID
TANH
ADD
ARITHMETIC_RIGHT_SHIFT round
BITWISE_AND
BITWISE_OR
BITWISE_XOR
INTDIV
LOGICAL_AND
LOGICAL_LEFT_SHIFT
LOGICAL_RIGHT_SHIFT
LOGICAL_OR
LOGICAL_XOR
MAXIMUM nan_mode
MINIMUM nan_mode
MUL
POW
SUB
TABLE
ABS
BITWISE_NOT
CEIL
CLZ
COS
EXP
FLOOR
LOG
LOGICAL_NOT
NEGATE
RECIPROCAL
RSQRT
SIN
SELECT
EQUAL
GREATER
GREATER_EQUAL
REDUCE_ALL axis
REDUCE_ANY axis
REDUCE_MAX axis nan_mode
REDUCE_MIN axis nan_mode
REDUCE_PRODUCT axis
REDUCE_SUM axis
CONCAT axis
PAD
RESHAPE
REVERSE axis
SLICE
TILE
TRANSPOSE perms
GATHER
SCATTER
RESIZE mode
CAST
RESCALE scale32 rounding_mode per_channel input_unsigned output_unsigned
"""


class Instruction(NamedTuple):
    """An instruction: its operator, and the names of its attributes in their order."""

    spec: OperatorSpec
    attributes: tuple[str, ...]


INSTRUCTIONS: Final = tuple(
    Instruction(operator(name), tuple(attributes))
    for name, *attributes in map(str.split, _TABLE.strip().splitlines())
)
