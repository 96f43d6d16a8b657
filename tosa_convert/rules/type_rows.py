"""Which element types each operator takes, as text; `types.py` reads it.

A line `OPERATORS | operands -> results` begins a form of operators: the types of its tensors in the
order of the operator table, without those of !tosa.shape. `T`, `U` and `A` stand for types, `Z(T)` for
the type of T's zero point, `...` for any further values, and `name=A` for an attribute that belongs to
the types. An operator can have several forms.

The lines below it, `[since] requirement | types`, say what its types need: one profile, or one of
several (`INT/FP`), and extensions (`INT+INT16`). Types are those of T, U and A with a colon between
them, a comma between alternatives and a blank between rows. What a type needs by itself is not
repeated: BF16, INT4, INT48, INT64, the FP8 and the MX types need extensions. The order of T, U and the
others is that in which the form names them.

Sources: the compliance table of LLVM's TOSA dialect, the dialect's operator definitions, and the
requirements that the official tests state; docs/conformance.md has what is newer.
"""

from __future__ import annotations

from typing import Final

#: Abbreviation -> types. `mx:` is a block-scaled tensor, `in:` a tensor of elements whose scales are
#: another tensor.
SETS: Final = {
    "b": "BOOL",
    "i4": "INT4",
    "i8": "INT8",
    "i16": "INT16",
    "i32": "INT32",
    "i48": "INT48",
    "i64": "INT64",
    "f32": "FP32",
    "f16": "FP16",
    "bf16": "BF16",
    "e4m3": "FP8E4M3",
    "e5m2": "FP8E5M2",
    "e8m0": "FP8UE8M0",
    "f8": "FP8E4M3 FP8E5M2",
    "float": "FP32 FP16 BF16",
    "mx": "mx:FP8E4M3 mx:FP8E5M2 mx:FP6E2M3 mx:FP6E3M2 mx:FP4E2M1 mx:MXINT8",
    "in": "in:FP8E4M3 in:FP8E5M2 in:FP6E2M3 in:FP6E3M2 in:FP4E2M1 in:MXINT8",
    "inf": "in:FP8E4M3 in:FP8E5M2 in:FP6E2M3 in:FP6E3M2 in:FP4E2M1",
}

TABLE: Final = """
ARGMAX | T -> U
  INT            | i8:i32 i8,i16,i32,i64:i64
  INT+INT16      | i16:i32
  FP             | float,f8:i32,i64
AVG_POOL2D AVG_POOL2D_ADAPTIVE | T T T acc_type=A -> T
  INT            | i8:i32
  INT+INT16      | i16:i32
  FP             | f16:f16,f32 f32,bf16:f32 f8:f16
MAX_POOL2D MAX_POOL2D_ADAPTIVE | T -> T
  INT            | i8
  INT+INT16      | i16
  FP             | float f8
CONV2D CONV3D DEPTHWISE_CONV2D TRANSPOSE_CONV2D | T U B Z(T) Z(U) acc_type=A -> B
  INT            | i8:i8,i4:i32:i32 i16:i8:i48:i48
  FP             | f16:f16:f16:f16,f32 f32:f32:f32:f32 bf16:bf16:bf16:f32
  FP             | e4m3:e4m3:f16:f16 e5m2:e5m2:f16:f16
CONV3D DEPTHWISE_CONV2D | T U B Z(T) Z(U) acc_type=A -> B
  1.1 FP         | e4m3:e4m3:f32:f32 e5m2:e5m2:f32:f32
CONV2D TRANSPOSE_CONV2D | T U B Z(T) Z(U) acc_type=A -> B
  1.1 FP         | float,f8:float,f8:f32:f32
  1.1 FP         | f16,f8:f16,f8:f16:f16,f32 bf16,f8:bf16,f8:bf16:bf16,f32
  FP+MXFP-CONV   | float,f8,mx:mx:f32:f32 mx:float,f8:f32:f32
  FP+MXFP-CONV   | f16,f8,mx:mx:f16:f16,f32 mx:f16,f8:f16:f16,f32
  FP+MXFP-CONV   | bf16,f8,mx:mx:bf16:bf16,f32 mx:bf16,f8:bf16:bf16,f32
CONV2D_BLOCK_SCALED | T S T S f32 -> f32
  FP+MXFP-CONV   | inf:e8m0
MATMUL | T U T U -> A
  INT            | i8:i8:i32 i16:i16:i48
  FP             | f16:f16:f16,f32 f32:f32:f32 bf16:bf16:f32 e4m3:e4m3:f16 e5m2:e5m2:f16
  1.1 FP         | f8:f8:f16,f32
MATMUL_T | T U Z(T) Z(U) -> A
  INT            | i8:i8:i32 i16:i16:i48
  FP             | f16:f16:f16 float,f8,mx:float,f8,mx:f32
  FP             | bf16,f8,mx:f16,bf16,f8,mx:bf16 f16:bf16,f8,mx:bf16
MATMUL_T_BLOCK_SCALED | T S T S -> f32
  FP             | in:e8m0
FFT2D | f32 f32 -> f32 f32
  FP+FFT         |
RFFT2D | f32 -> f32 f32
  FP+FFT         |
CLAMP | T -> T
  INT            | i8
  INT+INT16      | i16
  FP             | float
ERF SIGMOID TANH CEIL COS EXP FLOOR LOG RECIPROCAL RSQRT SIN REDUCE_PRODUCT | T -> T
  FP             | float
POW | T T -> T
  FP             | float
ADD SUB | T T -> T
  INT/FP         | i32 i64
  FP             | float
MAXIMUM MINIMUM | T T -> T
  INT            | i32
  INT/FP         | i64
  FP             | float
MUL | T T i8 -> U
  INT            | i8,i16:i32
  INT/FP         | i32:i32 i64:i64
  FP             | f32:f32 f16:f16 bf16:bf16
INTDIV | T T -> T
  INT/FP         | i32 i64
ARITHMETIC_RIGHT_SHIFT BITWISE_AND BITWISE_OR BITWISE_XOR | T T -> T
  INT            | i8 i16 i32
  INT/FP         | i64
LOGICAL_LEFT_SHIFT LOGICAL_RIGHT_SHIFT | T T -> T
  INT/FP         | i8 i16 i32 i64
LOGICAL_AND LOGICAL_OR LOGICAL_XOR | b b -> b
  INT/FP         |
LOGICAL_NOT REDUCE_ALL REDUCE_ANY | b -> b
  INT/FP         |
TABLE | T T -> U
  INT            | i8:i8
  INT+INT16      | i16:i32
ABS | T -> T
  INT            | i32
  INT/FP         | i64
  FP             | float
BITWISE_NOT | T -> T
  INT            | i8 i16 i32
  INT/FP         | i64
CLZ | T -> T
  INT            | i32
  INT/FP         | i64
NEGATE | T T T -> T
  INT            | i8 i16 i32
  INT/FP         | i64
  FP             | float
SELECT | b T T -> T
  INT/FP         | b i64
  INT            | i8 i16 i32
  FP             | float
EQUAL GREATER GREATER_EQUAL | T T -> b
  INT            | i32
  INT/FP         | i64
  FP             | float
REDUCE_MAX REDUCE_MIN | T -> T
  INT            | i8 i16 i32
  INT/FP         | i64
  FP             | float
REDUCE_SUM | T -> T
  INT            | i32
  INT/FP         | i64
  FP             | float
CONCAT | T -> T
  INT/FP         | b i64
  INT            | i8 i32
  INT+INT16      | i16
  FP             | float f8 mx
PAD | T T -> T
  INT/FP         | b i64
  INT            | i8 i16 i32
  FP             | float f8
RESHAPE REVERSE SLICE TILE TRANSPOSE | T -> T
  INT/FP         | b i64
  INT            | i8 i16 i32
  FP             | float f8 mx
RESHAPE_BLOCK_SCALED | T -> T
  INT/FP         | b i64
  INT            | i8 i16 i32
  FP             | float f8
RESHAPE_BLOCK_SCALED | T S -> T S
  FP             | in:e8m0
GATHER | T U -> T
  INT            | i8,i16,i32:i32
  1.1 FP         | i8,i16,i32:i32
  1.1 INT/FP     | b,i64:i32,i64 i8,i16,i32:i64
  FP             | float,f8,mx:i32,i64
SCATTER | T U T -> T
  INT            | i8,i16,i32:i32
  1.1 FP         | i8,i16,i32:i32
  1.1 INT/FP     | b,i64:i32,i64 i8,i16,i32:i64
  FP             | float,f8,mx:i32,i64
ROW_GATHER | T U i32 -> T
  INT/FP         | b,i8,i16,i32,i64:i32,i64
  FP             | float,f8,mx:i32,i64
ROW_GATHER_BLOCK_SCALED | T U i32 -> T
  INT/FP         | b,i8,i16,i32:i32,i64 i64:i64
  FP             | float,f8:i32,i64
ROW_GATHER_BLOCK_SCALED | T S U i32 -> T S
  FP             | in:e8m0:i32,i64
RESIZE | T mode=NEAREST -> T
  INT            | i8
  INT+INT16      | i16
  FP             | float
  1.1 FP         | f8 mx
RESIZE | T mode=BILINEAR -> U
  INT            | i8:i32
  INT+INT16      | i16:i48
  FP             | f32:f32 f16:f16 bf16:bf16
  1.1 FP         | e4m3:e4m3 e5m2:e5m2
CAST | T -> U
  INT            | b:i8,i16,i32,i64 i8:b,i16,i32 i16:b,i8,i32 i32:b,i8,i16,i64 i64:b,i32
  FP             | i8,i16,i32:float float:i8,i16,i32
  FP             | f16:f32,f8 f32:f16,bf16,f8 bf16:f32,f8 f8:float
  1.1 FP         | b:f32 f32:b float,f8:mx mx:float,f8
RESCALE | T i32 i8 T U scale32=True -> U
  INT            | i8,i16,i32,i48:i8,i16,i32
RESCALE | T i16 i8 T U scale32=False -> U
  INT            | i8,i16,i32,i48:i8,i16,i32
CAST_FROM_BLOCK_SCALED | T S -> U
  FP             | in:e8m0:f32,bf16
CAST_TO_BLOCK_SCALED | T -> U S
  FP             | f32,bf16:in:e8m0
CONST | -> T
  INT/FP         | b i8 i16 i32 i64
  INT            | i4 i48
  FP             | float f8 mx e8m0
  1.1 FP         | in
IDENTITY | T -> T
  INT/FP         | b i8 i16 i32 i64
  INT            | i4 i48
  FP             | float f8 mx
VARIABLE | ->
  INT/FP+VARIABLE |
VARIABLE_WRITE VARIABLE_READ | T -> T
  INT/FP+VARIABLE | b i8 i16 i32 i64
  INT+VARIABLE   | i4 i48
  FP+VARIABLE    | float f8
CUSTOM | ... -> ...
  INT/FP         |
COND_IF | b ... -> ...
  INT/FP+CONTROLFLOW |
WHILE_LOOP | ... -> ...
  INT/FP+CONTROLFLOW |
CONST_SHAPE | ->
  INT/FP         |
ADD_SHAPE SUB_SHAPE MUL_SHAPE MAX_SHAPE MIN_SHAPE MOD_SHAPE DIV_CEIL_SHAPE DIV_FLOOR_SHAPE | ->
  INT/FP+SHAPE   |
CONCAT_SHAPE EXP2_SHAPE LOG2_CEIL_SHAPE LOG2_FLOOR_SHAPE ASSERT_EQUAL_SHAPE | ->
  INT/FP+SHAPE   |
SLICE_SHAPE | i32 i32 ->
  INT/FP+SHAPE   |
DIM | T ->
  INT/FP+SHAPE   | b i64
  INT+SHAPE      | i8 i16 i32
  FP+SHAPE       | float f8 mx in e8m0
"""
