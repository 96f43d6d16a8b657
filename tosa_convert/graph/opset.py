"""The operators, one row for each: operands, results, attributes, and the version that added them.

Names, codes and attributes are those of schema/tosa.fbs. Operands and results are those of the TOSA
dialect of MLIR, in its order. Tests compare the rows with both. To add an operator, edit the schema,
run `python schema/generate.py`, and add a row here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Final, NamedTuple

from tosa_convert.graph.dtypes import (
    V1_0,
    V1_1,
    BlockSize,
    DType,
    NanPropagationMode,
    ResizeMode,
    RoundingMode,
    dtype,
)

#: The value of an attribute in a Graph.
AttributeValue = int | bool | str | bytes | tuple[int, ...] | IntEnum | DType


class AttributeSpec(NamedTuple):
    """An attribute of an operator.

    name: the name in the schema and in the dialect.
    kind: `i32`, `i32s` (a tuple), `bool`, `dtype` (an accumulator), `enum`, `element` (the
        little-endian bytes of one element), `string`, `bytes`, or `region` (the name of a region).
    length: the number of values of an `i32s`, or -1 for any number.
    enum: the class of an `enum`.
    optional: MLIR can omit the attribute, which means `default`.
    choices: the values of a `dtype` that readers accept.
    """

    name: str
    kind: str
    length: int = -1
    enum: type[IntEnum] | None = None
    optional: bool = False
    default: AttributeValue = 0
    choices: tuple[DType, ...] = ()


class OperandSpec(NamedTuple):
    """An operand or result.

    is_shape: it is a !tosa.shape, not a tensor.
    arity: "" for exactly one, "?" for at most one, "*" for any number. At most one of an operator's
        operands is "*", and then none of the others is "?".
    is_constant: a tensor whose elements verifiers and compilers read at compile time: a zero point, a
        shift, a multiplier, a row count.
    """

    name: str
    is_shape: bool = False
    arity: str = ""
    is_constant: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class OperatorSpec:
    """The row of an operator. There is one object for each operator: compare with `is`.

    name: the name in TOSA, such as "CONV2D".
    code: its number in enum Op of the schema.
    table: the table of its attributes in the schema, without the suffix "Attribute".
    operands, results, attributes: in the order of the dialect and of the schema.
    since: the TOSA version that added it, (major, minor).
    encoded_as: the operator whose code a file has; different attribute tables tell the two apart.
    mlir: the name of the operation in MLIR.
    regions: those attributes that name regions.

    Example:
        >>> conv = operator("CONV2D")
        >>> conv.mlir, [row.name for row in conv.operands]
        ('tosa.conv2d', ['input', 'weight', 'bias', 'input_zp', 'weight_zp'])
        >>> operator("CONCAT").operand_range()
        (0, None)
    """

    name: str
    code: int
    table: str
    operands: tuple[OperandSpec, ...]
    results: tuple[OperandSpec, ...]
    attributes: tuple[AttributeSpec, ...]
    since: tuple[int, int]
    encoded_as: str
    mlir: str
    regions: tuple[AttributeSpec, ...]

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return operator, (self.name,)

    def operand_range(self) -> tuple[int, int | None]:
        """Return the lowest and highest number of operands; None for no upper bound."""
        return _range(self.operands)

    def result_range(self) -> tuple[int, int | None]:
        """Return the lowest and highest number of results; None for no upper bound."""
        return _range(self.results)

    def takes(self, operands: int, results: int) -> bool:
        """Return whether an operator may have so many operands and results."""
        ranges = ((operands, self.operand_range()), (results, self.result_range()))
        return all(low <= n and (high is None or n <= high) for n, (low, high) in ranges)

    def operand(self, index: int, count: int) -> OperandSpec:
        """Return the row of operand `index` of an operator with `count` operands."""
        return _at(self.operands, index, count)

    def result(self, index: int, count: int) -> OperandSpec:
        """Return the row of result `index` of an operator with `count` results."""
        return _at(self.results, index, count)


def _range(rows: tuple[OperandSpec, ...]) -> tuple[int, int | None]:
    fewest = sum(row.arity == "" for row in rows)
    return fewest, None if any(row.arity == "*" for row in rows) else len(rows)


def _at(rows: tuple[OperandSpec, ...], index: int, count: int) -> OperandSpec:
    """Return the row of operand `index` of `count`. Takes the same time for any number of operands."""
    missing = len(rows) - count
    present: list[OperandSpec] = []
    for row in rows:
        if row.arity == "*":
            last = len(present) - missing
            if len(present) <= index <= last:
                return row
            # The rows after it stand for the last operands.
            index += missing if index > last else 0
            present.append(row)
        elif row.arity == "?" and missing > 0:
            missing -= 1
        else:
            present.append(row)
    return present[index]


@cache
def _operands(text: str) -> tuple[OperandSpec, ...]:
    """Parse the operands of a text such as "input1 scale? shape:shape zp:const"."""
    rows = []
    for word in text.split():
        name, _, kind = word.partition(":")
        arity = name[-1] if name[-1] in "?*" else ""
        rows.append(OperandSpec(name.rstrip("?*"), kind == "shape", arity, kind == "const"))
    return tuple(rows)


def _i32s(name: str, length: int = -1) -> AttributeSpec:
    return AttributeSpec(name, "i32s", length)


def _enum(name: str, enum: type[IntEnum], default: IntEnum | None = None) -> AttributeSpec:
    if default is None:
        return AttributeSpec(name, "enum", enum=enum)
    return AttributeSpec(name, "enum", enum=enum, optional=True, default=default)


_AXIS: Final = AttributeSpec("axis", "i32")
_NAN: Final = _enum("nan_mode", NanPropagationMode, NanPropagationMode.PROPAGATE)
_ACC: Final = AttributeSpec(
    "acc_type", "dtype", choices=tuple(map(dtype, ("INT32", "INT48", "FP16", "BF16", "FP32")))
)
_LOCAL_BOUND: Final = AttributeSpec("local_bound", "bool", optional=True, default=False)
_BLOCK: Final = _enum("block_size", BlockSize)


def _flag(name: str) -> AttributeSpec:
    return AttributeSpec(name, "bool")


_CONV: Final = "input weight bias input_zp:const weight_zp:const"
_POOL: Final = "input input_zp:const output_zp:const"
_MATMUL: Final = "a b a_zp:const b_zp:const"
_BINARY: Final = "input1 input2"
_SHAPES: Final = "input1:shape input2:shape"
_CONV2D: Final = (_i32s("pad", 4), _i32s("stride", 2), _i32s("dilation", 2), _LOCAL_BOUND, _ACC)
_CONV3D: Final = (_i32s("pad", 6), _i32s("stride", 3), _i32s("dilation", 3), _LOCAL_BOUND, _ACC)
_KERNEL: Final = (_i32s("kernel", 2), _i32s("stride", 2), _i32s("pad", 4))

OPERATORS: list[OperatorSpec] = []


def _row(
    name: str,
    table: str,
    operands: str,
    results: str,
    *attributes: AttributeSpec,
    since: tuple[int, int] = V1_0,
    encoded_as: str = "",
) -> None:
    OPERATORS.append(
        OperatorSpec(
            name,
            len(OPERATORS) + 1,
            table,
            _operands(operands),
            _operands(results),
            attributes,
            since,
            encoded_as or name,
            f"tosa.{name.lower()}",
            tuple(row for row in attributes if row.kind == "region"),
        )
    )


# In the order of enum Op of the schema, since the position of a row is its code.
_row("ARGMAX", "ArgMax", "input", "output", _AXIS, _NAN)
_row("AVG_POOL2D", "AvgPool2d", _POOL, "output", *_KERNEL, _ACC)
_row("CONV2D", "Conv2d", _CONV, "output", *_CONV2D)
_row("CONV3D", "Conv3d", _CONV, "output", *_CONV3D)
_row("DEPTHWISE_CONV2D", "DepthwiseConv2d", _CONV, "output", *_CONV2D)
_row(
    "FFT2D",
    "FFT2d",
    "input_real input_imag",
    "output_real output_imag",
    _flag("inverse"),
    _LOCAL_BOUND,
)
_row("MATMUL", "MatMul", _MATMUL, "output")
_row("MAX_POOL2D", "MaxPool2d", "input", "output", *_KERNEL, _NAN)
_row("RFFT2D", "RFFT2d", "input_real", "output_real output_imag", _LOCAL_BOUND)
_row(
    "TRANSPOSE_CONV2D",
    "TransposeConv2d",
    _CONV,
    "output",
    _i32s("out_pad", 4),
    _i32s("stride", 2),
    _LOCAL_BOUND,
    _ACC,
)
_row(
    "CLAMP",
    "Clamp",
    "input",
    "output",
    AttributeSpec("min_val", "element"),
    AttributeSpec("max_val", "element"),
    _NAN,
)
_row("ERF", "Erf", "input", "output")
_row("SIGMOID", "Sigmoid", "input", "output")
_row("TANH", "Tanh", "input", "output")
_row("ADD", "Add", _BINARY, "output")
_row("ARITHMETIC_RIGHT_SHIFT", "ArithmeticRightShift", _BINARY, "output", _flag("round"))
_row("BITWISE_AND", "BitwiseAnd", _BINARY, "output")
_row("BITWISE_OR", "BitwiseOr", _BINARY, "output")
_row("BITWISE_XOR", "BitwiseXor", _BINARY, "output")
_row("INTDIV", "IntDiv", _BINARY, "output")
_row("LOGICAL_AND", "LogicalAnd", _BINARY, "output")
_row("LOGICAL_LEFT_SHIFT", "LogicalLeftShift", _BINARY, "output")
_row("LOGICAL_RIGHT_SHIFT", "LogicalRightShift", _BINARY, "output")
_row("LOGICAL_OR", "LogicalOr", _BINARY, "output")
_row("LOGICAL_XOR", "LogicalXor", _BINARY, "output")
_row("MAXIMUM", "Maximum", _BINARY, "output", _NAN)
_row("MINIMUM", "Minimum", _BINARY, "output", _NAN)
_row("MUL", "Mul", "input1 input2 shift:const", "output")
_row("POW", "Pow", _BINARY, "output")
_row("SUB", "Sub", _BINARY, "output")
_row("TABLE", "Table", "input1 table", "output")
_row("ABS", "Abs", "input1", "output")
_row("BITWISE_NOT", "BitwiseNot", "input1", "output")
_row("CEIL", "Ceil", "input1", "output")
_row("CLZ", "Clz", "input1", "output")
_row("COS", "Cos", "input1", "output")
_row("EXP", "Exp", "input1", "output")
_row("FLOOR", "Floor", "input1", "output")
_row("LOG", "Log", "input1", "output")
_row("LOGICAL_NOT", "LogicalNot", "input1", "output")
_row("NEGATE", "Negate", "input1 input1_zp:const output_zp:const", "output")
_row("RECIPROCAL", "Reciprocal", "input1", "output")
_row("RSQRT", "Rsqrt", "input1", "output")
_row("SIN", "Sin", "input1", "output")
_row("SELECT", "Select", "input1 input2 input3", "output")
_row("EQUAL", "Equal", _BINARY, "output")
_row("GREATER", "Greater", _BINARY, "output")
_row("GREATER_EQUAL", "GreaterEqual", _BINARY, "output")
_row("REDUCE_ALL", "ReduceAll", "input", "output", _AXIS)
_row("REDUCE_ANY", "ReduceAny", "input", "output", _AXIS)
_row("REDUCE_MAX", "ReduceMax", "input", "output", _AXIS, _NAN)
_row("REDUCE_MIN", "ReduceMin", "input", "output", _AXIS, _NAN)
_row("REDUCE_PRODUCT", "ReduceProduct", "input", "output", _AXIS)
_row("REDUCE_SUM", "ReduceSum", "input", "output", _AXIS)
_row("CONCAT", "Concat", "input1*", "output", _AXIS)
_row("PAD", "Pad", "input1 padding:shape pad_const", "output")
_row("RESHAPE", "Reshape", "input1 shape:shape", "output")
_row("REVERSE", "Reverse", "input1", "output", _AXIS)
_row("SLICE", "Slice", "input1 start:shape size:shape", "output")
_row("TILE", "Tile", "input1 multiples:shape", "output")
_row("TRANSPOSE", "Transpose", "input1", "output", _i32s("perms"))
_row("GATHER", "Gather", "values indices", "output")
_row("SCATTER", "Scatter", "values_in indices input", "values_out")
_row(
    "RESIZE",
    "Resize",
    "input scale:shape offset:shape border:shape",
    "output",
    _enum("mode", ResizeMode),
)
_row("CAST", "Cast", "input", "output")
_row(
    "RESCALE",
    "Rescale",
    "input multiplier:const shift:const input_zp:const output_zp:const",
    "output",
    _flag("scale32"),
    _enum("rounding_mode", RoundingMode),
    _flag("per_channel"),
    _flag("input_unsigned"),
    _flag("output_unsigned"),
)
_row("CONST", "Const", "", "output")
_row("IDENTITY", "Identity", "input1", "output")
_row(
    "CUSTOM",
    "Custom",
    "input_list*",
    "output_list*",
    AttributeSpec("operator_name", "string"),
    AttributeSpec("domain_name", "string"),
    AttributeSpec("implementation_attrs", "bytes"),
)
_row(
    "COND_IF",
    "CondIf",
    "condition input_list*",
    "output_list*",
    AttributeSpec("then_graph", "region"),
    AttributeSpec("else_graph", "region"),
)
_row(
    "WHILE_LOOP",
    "WhileLoop",
    "input_list*",
    "output_list*",
    AttributeSpec("cond_graph", "region"),
    AttributeSpec("body_graph", "region"),
)
_row("VARIABLE", "Variable", "", "")
_row("VARIABLE_WRITE", "VariableWrite", "input1", "variable", encoded_as="IDENTITY")
_row("VARIABLE_READ", "VariableRead", "variable", "output1", encoded_as="IDENTITY")
_row("CONST_SHAPE", "ConstShape", "", "output:shape")
_row(
    "MATMUL_T_BLOCK_SCALED",
    "MatMulTBlockScaled",
    "a_data a_scale b_data b_scale",
    "output_data",
    _BLOCK,
    since=V1_1,
)
_row(
    "CAST_FROM_BLOCK_SCALED",
    "CastFromBlockScaled",
    "input_data input_scale",
    "output_data",
    _BLOCK,
    since=V1_1,
)
_row(
    "CAST_TO_BLOCK_SCALED",
    "CastToBlockScaled",
    "input_data",
    "output_data output_scale",
    _BLOCK,
    since=V1_1,
)
_row("DIM", "Dim", "input1", "output:shape", _AXIS, since=V1_1)
_row("CONCAT_SHAPE", "ConcatShape", "input*:shape", "output:shape", since=V1_1)
_row("ADD_SHAPE", "AddShape", _SHAPES, "output:shape", since=V1_1)
_row("SUB_SHAPE", "SubShape", _SHAPES, "output:shape", since=V1_1)
_row("MUL_SHAPE", "MulShape", _SHAPES, "output:shape", since=V1_1)
_row("SLICE_SHAPE", "SliceShape", "input:shape start:const size:const", "output:shape", since=V1_1)
_row("EXP2_SHAPE", "Exp2Shape", "input:shape", "output:shape", since=V1_1)
_row("LOG2_CEIL_SHAPE", "Log2CeilShape", "input:shape", "output:shape", since=V1_1)
_row("LOG2_FLOOR_SHAPE", "Log2FloorShape", "input:shape", "output:shape", since=V1_1)
_row("MAX_SHAPE", "MaxShape", _SHAPES, "output:shape", since=V1_1)
_row("MIN_SHAPE", "MinShape", _SHAPES, "output:shape", since=V1_1)
_row("MOD_SHAPE", "ModShape", _SHAPES, "output:shape", since=V1_1)
_row("DIV_CEIL_SHAPE", "DivCeilShape", _SHAPES, "output:shape", since=V1_1)
_row("DIV_FLOOR_SHAPE", "DivFloorShape", _SHAPES, "output:shape", since=V1_1)
_row("ASSERT_EQUAL_SHAPE", "AssertEqualShape", _SHAPES, "", _flag("allow_broadcast"), since=V1_1)
_row(
    "CONV2D_BLOCK_SCALED",
    "Conv2dBlockScaled",
    "input_data input_scale weight_data weight_scale bias pad:shape stride:shape dilation:shape",
    "output",
    _BLOCK,
    since=V1_1,
)
_row(
    "MAX_POOL2D_ADAPTIVE",
    "MaxPool2dAdaptive",
    "input kernel:shape stride:shape pad:shape",
    "output",
    _NAN,
    since=V1_1,
)
_row(
    "AVG_POOL2D_ADAPTIVE",
    "AvgPool2dAdaptive",
    f"{_POOL} kernel:shape stride:shape pad:shape",
    "output",
    _ACC,
    since=V1_1,
)
_row(
    "RESHAPE_BLOCK_SCALED",
    "ReshapeBlockScaled",
    "input input_scale? new_value_shape:shape",
    "output output_scale?",
    _BLOCK,
    since=V1_1,
)
_row(
    "ROW_GATHER_BLOCK_SCALED",
    "RowGatherBlockScaled",
    "values values_scale? indices row_count:const",
    "output output_scale?",
    _BLOCK,
    since=V1_1,
)
_row("ROW_GATHER", "RowGather", "values indices row_count:const", "output", since=V1_1)
_row("MATMUL_T", "MatMulT", _MATMUL, "output", since=V1_1)

_BY_NAME: Final = {row.name: row for row in OPERATORS}
BY_CODE: Final = {row.code: row for row in OPERATORS}
BY_MLIR: Final = {row.mlir: row for row in OPERATORS}


def operator(name: str) -> OperatorSpec:
    """Return the row of the operator of this name.

    Raises:
        KeyError: TOSA does not have it.

    Example:
        >>> operator("MATMUL").code
        7
    """
    return _BY_NAME[name]


CONST: Final = operator("CONST")
CONST_SHAPE: Final = operator("CONST_SHAPE")
IDENTITY: Final = operator("IDENTITY")
VARIABLE: Final = operator("VARIABLE")
VARIABLE_READ: Final = operator("VARIABLE_READ")
VARIABLE_WRITE: Final = operator("VARIABLE_WRITE")
