"""The operators that TOSA 1.1 added, as in `operators_1_0.py`."""

from __future__ import annotations

from typing import Final

from tosa_convert.graph.operator_row import Row
from tosa_convert.graph.operators_1_0 import ACCUMULATED, MATMUL, POOL, POOLED, SUM

_SHAPE: Final = "input:shape -> output:shape"
_SHAPES: Final = "input1:shape input2:shape -> output:shape"
_ONLY_SHAPES: Final = "->; INT/FP+SHAPE |"

#: In the order of enum Op of the schema: their codes follow those of TOSA 1.0.
ROWS_1_1: Final = (
    Row(
        "MATMUL_T_BLOCK_SCALED",
        "matmul",
        "a_data a_scale b_data b_scale -> output_data",
        "T S T S -> f32; FP | in:e8m0",
        "block_size",
        SUM,
        "output_data=NIJ a_data=NIK b_data=.JK",
        since="1.1 2025-11",
    ),
    Row(
        "CAST_FROM_BLOCK_SCALED",
        "block_conversion",
        "input_data input_scale -> output_data",
        "T S -> U; FP | in:e8m0:f32,bf16",
        "block_size",
        "ulp 1",
        since="1.1 2025-11",
    ),
    Row(
        "CAST_TO_BLOCK_SCALED",
        "block_conversion",
        "input_data -> output_data output_scale",
        "T -> U S; FP | f32,bf16:in:e8m0",
        "block_size",
        "ulp 1; FP8E4M3 ulp 2",
        since="1.1 2025-11",
    ),
    Row(
        "DIM",
        "shape",
        "input1 -> output:shape",
        "T ->; INT/FP+SHAPE | b i64; INT+SHAPE | i8 i16 i32; FP+SHAPE | float f8 mx in e8m0",
        "axis",
        since="1.1 2026-01",
    ),
    Row("CONCAT_SHAPE", "shape", "input*:shape -> output:shape", _ONLY_SHAPES, since="1.1 2026-02"),
    Row("ADD_SHAPE", "shape", _SHAPES, _ONLY_SHAPES, since="1.1 2026-01"),
    Row("SUB_SHAPE", "shape", _SHAPES, _ONLY_SHAPES, since="1.1 2026-01"),
    Row("MUL_SHAPE", "shape", _SHAPES, _ONLY_SHAPES, since="1.1 2026-01"),
    Row(
        "SLICE_SHAPE",
        "shape",
        "input:shape start:const size:const -> output:shape",
        "i32 i32 ->; INT/FP+SHAPE |",
        since="1.1 2026-02",
    ),
    Row("EXP2_SHAPE", "shape", _SHAPE, _ONLY_SHAPES, since="1.1 2026-02"),
    Row("LOG2_CEIL_SHAPE", "shape", _SHAPE, _ONLY_SHAPES, since="1.1 2026-02"),
    Row("LOG2_FLOOR_SHAPE", "shape", _SHAPE, _ONLY_SHAPES, since="1.1 2026-02"),
    Row("MAX_SHAPE", "shape", _SHAPES, _ONLY_SHAPES, since="1.1 2026-02"),
    Row("MIN_SHAPE", "shape", _SHAPES, _ONLY_SHAPES, since="1.1 2026-02"),
    Row("MOD_SHAPE", "shape", _SHAPES, _ONLY_SHAPES, since="1.1 2026-02"),
    Row("DIV_CEIL_SHAPE", "shape", _SHAPES, _ONLY_SHAPES, since="1.1 2026-01"),
    Row("DIV_FLOOR_SHAPE", "shape", _SHAPES, _ONLY_SHAPES, since="1.1 2026-01"),
    Row(
        "ASSERT_EQUAL_SHAPE",
        "shape",
        "input1:shape input2:shape ->",
        _ONLY_SHAPES,
        "allow_broadcast",
        since="1.1 2026-02",
    ),
    Row(
        "CONV2D_BLOCK_SCALED",
        "convolution",
        "input_data input_scale weight_data weight_scale bias pad:shape stride:shape dilation:shape",
        "T S T S f32 -> f32; FP+MXFP-CONV | inf:e8m0",
        "block_size",
        SUM,
        "output=NPQO weight_data=OKLC input_data=N..C",
        since="1.1 2026-02",
    ),
    Row(
        "MAX_POOL2D_ADAPTIVE",
        "pooling",
        "input kernel:shape stride:shape pad:shape",
        POOLED,
        "nan_mode",
        since="1.1 2026-05",
    ),
    Row(
        "AVG_POOL2D_ADAPTIVE",
        "pooling",
        f"{POOL} kernel:shape stride:shape pad:shape",
        ACCUMULATED,
        "acc_type",
        SUM,
        since="1.1 2026-05",
    ),
    Row(
        "RESHAPE_BLOCK_SCALED",
        "block_layout",
        "input input_scale? new_value_shape:shape -> output output_scale?",
        "T -> T; INT/FP | b i64; INT | i8 i16 i32; FP | float f8; T S -> T S; FP | in:e8m0",
        "block_size",
        since="1.1 2026-05",
    ),
    Row(
        "ROW_GATHER_BLOCK_SCALED",
        "block_layout",
        "values values_scale? indices:index row_count:const -> output output_scale?",
        "T U i32 -> T; INT/FP | b,i8,i16,i32:i32,i64 i64:i64; FP | float,f8:i32,i64; "
        "T S U i32 -> T S; FP | in:e8m0:i32,i64",
        "block_size",
        since="1.1 2026-05",
    ),
    Row(
        "ROW_GATHER",
        "gather",
        "values indices:index row_count:const",
        "T U i32 -> T; INT/FP | b,i8,i16,i32,i64:i32,i64; FP | float,f8,mx:i32,i64",
        accuracy="operand",
        since="1.1 2026-08",
    ),
    Row(
        "MATMUL_T",
        "matmul",
        MATMUL,
        "T U Z(T) Z(U) -> A; INT | i8:i8:i32 i16:i16:i48; "
        "FP | f16:f16:f16 float,f8,mx:float,f8,mx:f32; "
        "FP | bf16,f8,mx:f16,bf16,f8,mx:bf16 f16:bf16,f8,mx:bf16",
        accuracy=SUM,
        multiply_accumulates="output=NIJ a=NIK b=.JK",
        since="1.1 2026-08",
    ),
)
