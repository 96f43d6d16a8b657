"""The TOSA flatbuffer's tables and enums, slot by slot.

Generated from schema/tosa.fbs by `python schema/generate.py`; do not edit.
"""

from __future__ import annotations

from typing import Final

from tosa_convert.formats.wire.tables import Field, Table

IDENTIFIER: Final = b"TOSA"
ROOT: Final = "TosaGraph"

#: Enum -> name -> value.
ENUMS: Final[dict[str, dict[str, int]]] = {
    "DType": {
        "UNKNOWN": 0, "BOOL": 1, "INT4": 2, "INT8": 3, "INT16": 4, "INT32": 5, "INT48": 6,
        "FP32": 7, "FP16": 8, "BF16": 9, "SHAPE": 10, "FP8E4M3": 11, "FP8E5M2": 12, "FP6E2M3": 13,
        "FP6E3M2": 14, "FP4E2M1": 15, "FP8UE8M0": 16, "INT64": 17, "MXINT8": 18,
    },
    "ResizeMode": {"UNKNOWN": 0, "NEAREST": 1, "BILINEAR": 2},
    "NanPropagationMode": {"UNKNOWN": 0, "PROPAGATE": 1, "IGNORE": 2},
    "RoundingMode": {"UNKNOWN": 0, "SINGLE_ROUND": 1, "INEXACT_ROUND": 2, "DOUBLE_ROUND": 3},
    "BlockSize": {"UNKNOWN": 0, "BLOCK_SIZE_1": 1, "BLOCK_SIZE_32": 32},
    "BlockShape": {"UNKNOWN": 0, "BLOCK_SHAPE_32": 32},
    "CompatibilityFeature": {"NONE": 0, "MXFP": 1},
    "Op": {
        "UNKNOWN": 0, "ARGMAX": 1, "AVG_POOL2D": 2, "CONV2D": 3, "CONV3D": 4, "DEPTHWISE_CONV2D": 5,
        "FFT2D": 6, "MATMUL": 7, "MAX_POOL2D": 8, "RFFT2D": 9, "TRANSPOSE_CONV2D": 10, "CLAMP": 11,
        "ERF": 12, "SIGMOID": 13, "TANH": 14, "ADD": 15, "ARITHMETIC_RIGHT_SHIFT": 16,
        "BITWISE_AND": 17, "BITWISE_OR": 18, "BITWISE_XOR": 19, "INTDIV": 20, "LOGICAL_AND": 21,
        "LOGICAL_LEFT_SHIFT": 22, "LOGICAL_RIGHT_SHIFT": 23, "LOGICAL_OR": 24, "LOGICAL_XOR": 25,
        "MAXIMUM": 26, "MINIMUM": 27, "MUL": 28, "POW": 29, "SUB": 30, "TABLE": 31, "ABS": 32,
        "BITWISE_NOT": 33, "CEIL": 34, "CLZ": 35, "COS": 36, "EXP": 37, "FLOOR": 38, "LOG": 39,
        "LOGICAL_NOT": 40, "NEGATE": 41, "RECIPROCAL": 42, "RSQRT": 43, "SIN": 44, "SELECT": 45,
        "EQUAL": 46, "GREATER": 47, "GREATER_EQUAL": 48, "REDUCE_ALL": 49, "REDUCE_ANY": 50,
        "REDUCE_MAX": 51, "REDUCE_MIN": 52, "REDUCE_PRODUCT": 53, "REDUCE_SUM": 54, "CONCAT": 55,
        "PAD": 56, "RESHAPE": 57, "REVERSE": 58, "SLICE": 59, "TILE": 60, "TRANSPOSE": 61,
        "GATHER": 62, "SCATTER": 63, "RESIZE": 64, "CAST": 65, "RESCALE": 66, "CONST": 67,
        "IDENTITY": 68, "CUSTOM": 69, "COND_IF": 70, "WHILE_LOOP": 71, "VARIABLE": 72,
        "VARIABLE_WRITE": 73, "VARIABLE_READ": 74, "CONST_SHAPE": 75, "MATMUL_T_BLOCK_SCALED": 76,
        "CAST_FROM_BLOCK_SCALED": 77, "CAST_TO_BLOCK_SCALED": 78, "DIM": 79, "CONCAT_SHAPE": 80,
        "ADD_SHAPE": 81, "SUB_SHAPE": 82, "MUL_SHAPE": 83, "SLICE_SHAPE": 84, "EXP2_SHAPE": 85,
        "LOG2_CEIL_SHAPE": 86, "LOG2_FLOOR_SHAPE": 87, "MAX_SHAPE": 88, "MIN_SHAPE": 89,
        "MOD_SHAPE": 90, "DIV_CEIL_SHAPE": 91, "DIV_FLOOR_SHAPE": 92, "ASSERT_EQUAL_SHAPE": 93,
        "CONV2D_BLOCK_SCALED": 94, "MAX_POOL2D_ADAPTIVE": 95, "AVG_POOL2D_ADAPTIVE": 96,
        "RESHAPE_BLOCK_SCALED": 97, "ROW_GATHER_BLOCK_SCALED": 98, "ROW_GATHER": 99,
        "MATMUL_T": 100, "ARGMIN": 101,
    },
}

#: Table -> its slots.
TABLES: Final[dict[str, Table]] = {
    "ArgMaxAttribute": Table("ArgMaxAttribute", (
        Field("axis", 0, "i32"), Field("nan_mode", 1, "u32", enum="NanPropagationMode"),
    )),
    "AvgPool2dAttribute": Table("AvgPool2dAttribute", (
        Field("kernel", 0, "[i32]"), Field("stride", 1, "[i32]"), Field("pad", 2, "[i32]"),
        Field("acc_type", 3, "u32", enum="DType"),
    )),
    "Conv2dAttribute": Table("Conv2dAttribute", (
        Field("pad", 0, "[i32]"), Field("stride", 1, "[i32]"), Field("dilation", 2, "[i32]"),
        Field("local_bound", 3, "bool"), Field("acc_type", 4, "u32", enum="DType"),
    )),
    "Conv3dAttribute": Table("Conv3dAttribute", (
        Field("pad", 0, "[i32]"), Field("stride", 1, "[i32]"), Field("dilation", 2, "[i32]"),
        Field("local_bound", 3, "bool"), Field("acc_type", 4, "u32", enum="DType"),
    )),
    "DepthwiseConv2dAttribute": Table("DepthwiseConv2dAttribute", (
        Field("pad", 0, "[i32]"), Field("stride", 1, "[i32]"), Field("dilation", 2, "[i32]"),
        Field("local_bound", 3, "bool"), Field("acc_type", 4, "u32", enum="DType"),
    )),
    "FFT2dAttribute": Table("FFT2dAttribute", (
        Field("inverse", 0, "bool"), Field("local_bound", 1, "bool"),
    )),
    "MatMulAttribute": Table("MatMulAttribute", ()),
    "MaxPool2dAttribute": Table("MaxPool2dAttribute", (
        Field("kernel", 0, "[i32]"), Field("stride", 1, "[i32]"), Field("pad", 2, "[i32]"),
        Field("nan_mode", 3, "u32", enum="NanPropagationMode"),
    )),
    "RFFT2dAttribute": Table("RFFT2dAttribute", (Field("local_bound", 0, "bool"),)),
    "TransposeConv2dAttribute": Table("TransposeConv2dAttribute", (
        Field("out_pad", 0, "[i32]"), Field("stride", 1, "[i32]"), Field("local_bound", 2, "bool"),
        Field("acc_type", 3, "u32", enum="DType"),
    )),
    "ClampAttribute": Table("ClampAttribute", (
        Field("min_val", 0, "[u8]", align=8), Field("max_val", 1, "[u8]", align=8),
        Field("nan_mode", 2, "u32", enum="NanPropagationMode"),
    )),
    "ErfAttribute": Table("ErfAttribute", ()),
    "SigmoidAttribute": Table("SigmoidAttribute", ()),
    "TanhAttribute": Table("TanhAttribute", ()),
    "AddAttribute": Table("AddAttribute", ()),
    "ArithmeticRightShiftAttribute": Table("ArithmeticRightShiftAttribute", (
        Field("round", 0, "bool"),
    )),
    "BitwiseAndAttribute": Table("BitwiseAndAttribute", ()),
    "BitwiseOrAttribute": Table("BitwiseOrAttribute", ()),
    "BitwiseXorAttribute": Table("BitwiseXorAttribute", ()),
    "IntDivAttribute": Table("IntDivAttribute", ()),
    "LogicalAndAttribute": Table("LogicalAndAttribute", ()),
    "LogicalLeftShiftAttribute": Table("LogicalLeftShiftAttribute", ()),
    "LogicalRightShiftAttribute": Table("LogicalRightShiftAttribute", ()),
    "LogicalOrAttribute": Table("LogicalOrAttribute", ()),
    "LogicalXorAttribute": Table("LogicalXorAttribute", ()),
    "MaximumAttribute": Table("MaximumAttribute", (
        Field("nan_mode", 0, "u32", enum="NanPropagationMode"),
    )),
    "MinimumAttribute": Table("MinimumAttribute", (
        Field("nan_mode", 0, "u32", enum="NanPropagationMode"),
    )),
    "MulAttribute": Table("MulAttribute", ()),
    "PowAttribute": Table("PowAttribute", ()),
    "SubAttribute": Table("SubAttribute", ()),
    "TableAttribute": Table("TableAttribute", ()),
    "AbsAttribute": Table("AbsAttribute", ()),
    "BitwiseNotAttribute": Table("BitwiseNotAttribute", ()),
    "CeilAttribute": Table("CeilAttribute", ()),
    "ClzAttribute": Table("ClzAttribute", ()),
    "CosAttribute": Table("CosAttribute", ()),
    "ExpAttribute": Table("ExpAttribute", ()),
    "FloorAttribute": Table("FloorAttribute", ()),
    "LogAttribute": Table("LogAttribute", ()),
    "LogicalNotAttribute": Table("LogicalNotAttribute", ()),
    "NegateAttribute": Table("NegateAttribute", ()),
    "ReciprocalAttribute": Table("ReciprocalAttribute", ()),
    "RsqrtAttribute": Table("RsqrtAttribute", ()),
    "SinAttribute": Table("SinAttribute", ()),
    "SelectAttribute": Table("SelectAttribute", ()),
    "EqualAttribute": Table("EqualAttribute", ()),
    "GreaterAttribute": Table("GreaterAttribute", ()),
    "GreaterEqualAttribute": Table("GreaterEqualAttribute", ()),
    "ReduceAllAttribute": Table("ReduceAllAttribute", (Field("axis", 0, "i32"),)),
    "ReduceAnyAttribute": Table("ReduceAnyAttribute", (Field("axis", 0, "i32"),)),
    "ReduceMaxAttribute": Table("ReduceMaxAttribute", (
        Field("axis", 0, "i32"), Field("nan_mode", 1, "u32", enum="NanPropagationMode"),
    )),
    "ReduceMinAttribute": Table("ReduceMinAttribute", (
        Field("axis", 0, "i32"), Field("nan_mode", 1, "u32", enum="NanPropagationMode"),
    )),
    "ReduceProductAttribute": Table("ReduceProductAttribute", (Field("axis", 0, "i32"),)),
    "ReduceSumAttribute": Table("ReduceSumAttribute", (Field("axis", 0, "i32"),)),
    "ConcatAttribute": Table("ConcatAttribute", (Field("axis", 0, "i32"),)),
    "PadAttribute": Table("PadAttribute", ()),
    "ReshapeAttribute": Table("ReshapeAttribute", ()),
    "ReverseAttribute": Table("ReverseAttribute", (Field("axis", 0, "i32"),)),
    "SliceAttribute": Table("SliceAttribute", ()),
    "TileAttribute": Table("TileAttribute", ()),
    "TransposeAttribute": Table("TransposeAttribute", (Field("perms", 0, "[i32]"),)),
    "GatherAttribute": Table("GatherAttribute", ()),
    "ScatterAttribute": Table("ScatterAttribute", ()),
    "ResizeAttribute": Table("ResizeAttribute", (Field("mode", 0, "u32", enum="ResizeMode"),)),
    "CastAttribute": Table("CastAttribute", ()),
    "RescaleAttribute": Table("RescaleAttribute", (
        Field("scale32", 0, "bool"), Field("rounding_mode", 1, "u32", enum="RoundingMode"),
        Field("per_channel", 2, "bool"), Field("input_unsigned", 3, "bool"),
        Field("output_unsigned", 4, "bool"),
    )),
    "ConstAttribute": Table("ConstAttribute", ()),
    "IdentityAttribute": Table("IdentityAttribute", ()),
    "CustomAttribute": Table("CustomAttribute", (
        Field("operator_name", 0, "string"), Field("domain_name", 1, "string"),
        Field("implementation_attrs", 2, "[u8]"),
    )),
    "CondIfAttribute": Table("CondIfAttribute", (
        Field("then_graph", 0, "string"), Field("else_graph", 1, "string"),
    )),
    "WhileLoopAttribute": Table("WhileLoopAttribute", (
        Field("cond_graph", 0, "string"), Field("body_graph", 1, "string"),
    )),
    "VariableAttribute": Table("VariableAttribute", ()),
    "VariableWriteAttribute": Table("VariableWriteAttribute", ()),
    "VariableReadAttribute": Table("VariableReadAttribute", ()),
    "ConstShapeAttribute": Table("ConstShapeAttribute", ()),
    "MatMulTBlockScaledAttribute": Table("MatMulTBlockScaledAttribute", (
        Field("block_size", 0, "u32", enum="BlockSize"),
    )),
    "CastFromBlockScaledAttribute": Table("CastFromBlockScaledAttribute", (
        Field("block_size", 0, "u32", enum="BlockSize"),
    )),
    "CastToBlockScaledAttribute": Table("CastToBlockScaledAttribute", (
        Field("block_size", 0, "u32", enum="BlockSize"),
    )),
    "DimAttribute": Table("DimAttribute", (Field("axis", 0, "i32"),)),
    "ConcatShapeAttribute": Table("ConcatShapeAttribute", ()),
    "AddShapeAttribute": Table("AddShapeAttribute", ()),
    "SubShapeAttribute": Table("SubShapeAttribute", ()),
    "MulShapeAttribute": Table("MulShapeAttribute", ()),
    "SliceShapeAttribute": Table("SliceShapeAttribute", ()),
    "Exp2ShapeAttribute": Table("Exp2ShapeAttribute", ()),
    "Log2CeilShapeAttribute": Table("Log2CeilShapeAttribute", ()),
    "Log2FloorShapeAttribute": Table("Log2FloorShapeAttribute", ()),
    "MaxShapeAttribute": Table("MaxShapeAttribute", ()),
    "MinShapeAttribute": Table("MinShapeAttribute", ()),
    "ModShapeAttribute": Table("ModShapeAttribute", ()),
    "DivCeilShapeAttribute": Table("DivCeilShapeAttribute", ()),
    "DivFloorShapeAttribute": Table("DivFloorShapeAttribute", ()),
    "AssertEqualShapeAttribute": Table("AssertEqualShapeAttribute", (
        Field("allow_broadcast", 0, "bool"),
    )),
    "Conv2dBlockScaledAttribute": Table("Conv2dBlockScaledAttribute", (
        Field("block_size", 0, "u32", enum="BlockSize"),
    )),
    "MaxPool2dAdaptiveAttribute": Table("MaxPool2dAdaptiveAttribute", (
        Field("nan_mode", 0, "u32", enum="NanPropagationMode"),
    )),
    "AvgPool2dAdaptiveAttribute": Table("AvgPool2dAdaptiveAttribute", (
        Field("acc_type", 0, "u32", enum="DType"),
    )),
    "ReshapeBlockScaledAttribute": Table("ReshapeBlockScaledAttribute", (
        Field("block_size", 0, "u32", enum="BlockSize"),
    )),
    "RowGatherBlockScaledAttribute": Table("RowGatherBlockScaledAttribute", (
        Field("block_size", 0, "u32", enum="BlockSize"),
    )),
    "RowGatherAttribute": Table("RowGatherAttribute", ()),
    "MatMulTAttribute": Table("MatMulTAttribute", ()),
    "ArgMinAttribute": Table("ArgMinAttribute", (
        Field("axis", 0, "i32"), Field("nan_mode", 1, "u32", enum="NanPropagationMode"),
    )),
    "Version": Table("Version", (
        Field("_major", 0, "i32", default=-1), Field("_minor", 1, "i32", default=-1),
        Field("_patch", 2, "i32", default=-1), Field("_draft", 3, "bool", default=1),
    )),
    "SoftwareVersion": Table("SoftwareVersion", (
        Field("_major", 0, "i32", default=-1), Field("_minor", 1, "i32", default=-1),
        Field("_micro", 2, "i32", default=-1), Field("_modifier", 3, "string"),
    )),
    "SerializationCompatibility": Table("SerializationCompatibility", (
        Field("min_reader_version", 0, "table", table="SoftwareVersion"),
        Field("features", 1, "u64", default=0),
    )),
    "TosaTensor": Table("TosaTensor", (
        Field("name", 0, "string"), Field("shape", 1, "[i32]"),
        Field("type", 2, "u32", enum="DType"), Field("data", 3, "[u8]", align=8),
        Field("variable", 4, "bool"), Field("is_unranked", 5, "bool"),
        Field("variable_name", 6, "string"), Field("offset", 7, "u64"), Field("size", 8, "u64"),
        Field("scale_type", 9, "u32", enum="DType"), Field("scale_data", 10, "[u8]", align=8),
        Field("block_shape", 11, "u32", enum="BlockShape"), Field("scale_offset", 12, "u64"),
        Field("scale_size", 13, "u64"),
    )),
    "TosaShape": Table("TosaShape", (
        Field("name", 0, "string"), Field("rank", 1, "u32"), Field("data", 2, "[u8]", align=8),
    )),
    "OpLocation": Table("OpLocation", (Field("text", 0, "string"),)),
    "TosaOperator": Table("TosaOperator", (
        Field("op", 0, "u32", enum="Op"), Field("attribute_type", 1, "u8"),
        Field("attribute", 2, "union"), Field("inputs", 3, "[string]"),
        Field("outputs", 4, "[string]"), Field("location", 5, "table", table="OpLocation"),
    )),
    "TosaBasicBlock": Table("TosaBasicBlock", (
        Field("name", 0, "string"), Field("operators", 1, "[table]", table="TosaOperator"),
        Field("tensors", 2, "[table]", table="TosaTensor"), Field("inputs", 3, "[string]"),
        Field("outputs", 4, "[string]"), Field("shapes", 5, "[table]", table="TosaShape"),
    )),
    "TosaRegion": Table("TosaRegion", (
        Field("name", 0, "string"), Field("blocks", 1, "[table]", table="TosaBasicBlock"),
    )),
    "TosaGraph": Table("TosaGraph", (
        Field("version", 0, "table", table="Version", required=True),
        Field("regions", 1, "[table]", table="TosaRegion"),
        Field("software_version", 2, "table", table="SoftwareVersion"),
        Field("compatibility", 3, "table", table="SerializationCompatibility"),
    )),
}

#: Members of union Attribute: the position is the discriminator; 0 is NONE.
ATTRIBUTES: Final[tuple[str, ...]] = (
    "NONE", "ArgMaxAttribute", "AvgPool2dAttribute", "Conv2dAttribute", "Conv3dAttribute",
    "DepthwiseConv2dAttribute", "FFT2dAttribute", "MatMulAttribute", "MaxPool2dAttribute",
    "RFFT2dAttribute", "TransposeConv2dAttribute", "ClampAttribute", "ErfAttribute",
    "SigmoidAttribute", "TanhAttribute", "AddAttribute", "ArithmeticRightShiftAttribute",
    "BitwiseAndAttribute", "BitwiseOrAttribute", "BitwiseXorAttribute", "IntDivAttribute",
    "LogicalAndAttribute", "LogicalLeftShiftAttribute", "LogicalRightShiftAttribute",
    "LogicalOrAttribute", "LogicalXorAttribute", "MaximumAttribute", "MinimumAttribute",
    "MulAttribute", "PowAttribute", "SubAttribute", "TableAttribute", "AbsAttribute",
    "BitwiseNotAttribute", "CeilAttribute", "ClzAttribute", "CosAttribute", "ExpAttribute",
    "FloorAttribute", "LogAttribute", "LogicalNotAttribute", "NegateAttribute",
    "ReciprocalAttribute", "RsqrtAttribute", "SinAttribute", "SelectAttribute", "EqualAttribute",
    "GreaterAttribute", "GreaterEqualAttribute", "ReduceAllAttribute", "ReduceAnyAttribute",
    "ReduceMaxAttribute", "ReduceMinAttribute", "ReduceProductAttribute", "ReduceSumAttribute",
    "ConcatAttribute", "PadAttribute", "ReshapeAttribute", "ReverseAttribute", "SliceAttribute",
    "TileAttribute", "TransposeAttribute", "GatherAttribute", "ScatterAttribute", "ResizeAttribute",
    "CastAttribute", "RescaleAttribute", "ConstAttribute", "IdentityAttribute", "CustomAttribute",
    "CondIfAttribute", "WhileLoopAttribute", "VariableAttribute", "VariableWriteAttribute",
    "VariableReadAttribute", "ConstShapeAttribute", "MatMulTBlockScaledAttribute",
    "CastFromBlockScaledAttribute", "CastToBlockScaledAttribute", "DimAttribute",
    "ConcatShapeAttribute", "AddShapeAttribute", "SubShapeAttribute", "MulShapeAttribute",
    "SliceShapeAttribute", "Exp2ShapeAttribute", "Log2CeilShapeAttribute",
    "Log2FloorShapeAttribute", "MaxShapeAttribute", "MinShapeAttribute", "ModShapeAttribute",
    "DivCeilShapeAttribute", "DivFloorShapeAttribute", "AssertEqualShapeAttribute",
    "Conv2dBlockScaledAttribute", "MaxPool2dAdaptiveAttribute", "AvgPool2dAdaptiveAttribute",
    "ReshapeBlockScaledAttribute", "RowGatherBlockScaledAttribute", "RowGatherAttribute",
    "MatMulTAttribute", "ArgMinAttribute",
)
