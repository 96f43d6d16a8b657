"""The operators of TOSA 1.0 and 1.1: everything that is said of a single operator, as rows of data."""

from __future__ import annotations

from typing import Final

from tosa_convert.records import NamedTuple

# -- what the row of an operator says, as texts that `opset.py` reads ------------------------------


class Row(NamedTuple):
    """An operator, as texts.

    name: the name in TOSA.
    family: that of the operators that have similar rules, and that pictures show alike.
    operands: their names, in order, and after "->" those of the results, unless that is one `output`.
        `x` stands for exactly one, `x?` for at most one, and `x*` for any number.
        After a colon: `shape`, a !tosa.shape; `const`, a tensor whose elements verifiers and compilers
        read; `index`, `shift`, `divisor` or `positive`, the numbers that it is to hold. After "=":
        the number that stands for an operand that is left out.
    types: the element types that it takes together: forms, each with its lines, separated by ";".
        A form, such as `T T -> T`, has the types of the tensors in order, without those of
        !tosa.shape. `T`, `U` and `A` stand for types, `Z(T)` for the type of T's zero point, `...`
        for any further values, and `name=A` for an attribute that belongs to the types.
        A line, such as `1.1 INT+INT16 | i8:i32 i16:i64`, says what types need: the version, if it is
        not the operator's; one profile, or one of several (`INT/FP`); extensions. Types are those of
        T, U and A, in the order in which the form names them, with a colon between them, a comma
        between alternatives and a blank between rows. What a type needs by itself is not repeated:
        BF16, INT4, INT48, INT64, the FP8 and the MX types need extensions.
    attributes: their names, in the order of the schema; after a colon the length of a list.
    accuracy: how floating-point results may differ from exact ones, if the operands are exact:
        "exact"; "operand", as the operand whose elements are moved; "none", no rule of TOSA; the name
        of a formula of golden/accuracy; or a bound such as "ulp 2", and after ";" others for single
        types. It begins with "inexact:" if implementations compute different results of equal operands.
    multiply_accumulates: the dimensions of the result and of the two operands that are multiplied. A
        letter stands for the same size wherever it is, (CM) for a product, "." for what does not
        count. The number is the product of all letters. Or, after "?", why the number is not known.
    elementwise: how many operands, from the first one on, are broadcast to the shape of the result;
        by default all but constants in the families "elementwise" and "activation", and none in others.
    is_step: whether a floating-point result is the same for near operands, and jumps between them.
    commutes: whether the first two operands may be exchanged.
    since: the TOSA version and the state of the dialect that added it; "" for 1.0 and the first state.
    old_names: names in older states of the dialect, oldest first, each with the state that ended it.
    encoded_as: the operator whose code a file has; different attribute tables tell the two apart.
    """

    name: str
    family: str
    operands: str
    types: str
    attributes: str = ""
    accuracy: str = "exact"
    multiply_accumulates: str = ""
    elementwise: int | None = None
    is_step: bool = False
    commutes: bool = False
    since: str = ""
    old_names: str = ""
    encoded_as: str = ""


# -- operands and attributes that several operators have -------------------------------------------

_CONV: Final = "input weight bias input_zp:const=0 weight_zp:const=0"
POOL: Final = "input input_zp:const=0 output_zp:const=0"
MATMUL: Final = "a b a_zp:const=0 b_zp:const=0"
_TWO: Final = "input1 input2"
_SHIFTED: Final = "input1 input2:shift"
_WINDOW_2D: Final = "pad:4 stride:2 dilation:2 local_bound acc_type"

# -- element types that several operators take -----------------------------------------------------

ACCUMULATED: Final = (
    "T T T acc_type=A -> T; INT | i8:i32; INT+INT16 | i16:i32; FP | f16:f16,f32 f32,bf16:f32 f8:f16"
)
_CONVOLVED: Final = (
    "T U B Z(T) Z(U) acc_type=A -> B; INT | i8:i8,i4:i32:i32 i16:i8:i48:i48; "
    "FP | f16:f16:f16:f16,f32 f32:f32:f32:f32 bf16:bf16:bf16:f32; "
    "FP | e4m3:e4m3:f16:f16 e5m2:e5m2:f16:f16"
)
_CONVOLVED_FP8: Final = f"{_CONVOLVED}; 1.1 FP | e4m3:e4m3:f32:f32 e5m2:e5m2:f32:f32"
_CONVOLVED_MIXED: Final = (
    f"{_CONVOLVED}; 1.1 FP | float,f8:float,f8:f32:f32; "
    "1.1 FP | f16,f8:f16,f8:f16:f16,f32 bf16,f8:bf16,f8:bf16:bf16,f32; "
    "FP+MXFP-CONV | float,f8,mx:mx:f32:f32 mx:float,f8:f32:f32; "
    "FP+MXFP-CONV | f16,f8,mx:mx:f16:f16,f32 mx:f16,f8:f16:f16,f32; "
    "FP+MXFP-CONV | bf16,f8,mx:mx:bf16:bf16,f32 mx:bf16,f8:bf16:bf16,f32"
)
POOLED: Final = "T -> T; INT | i8; INT+INT16 | i16; FP | float f8"
_FLOAT: Final = "T -> T; FP | float"
_NUMBER: Final = "T -> T; INT | i32; INT/FP | i64; FP | float"
_NUMBERS: Final = "T T -> T; INT | i32; INT/FP | i64; FP | float"
_COMPARED: Final = "T T -> b; INT | i32; INT/FP | i64; FP | float"
_SUMMED: Final = "T T -> T; INT/FP | i32 i64; FP | float"
_BITS: Final = "T T -> T; INT | i8 i16 i32; INT/FP | i64"
_SHIFTED_BITS: Final = "T T -> T; INT/FP | i8 i16 i32 i64"
_BOOL: Final = "b -> b; INT/FP |"
_BOOLS: Final = "b b -> b; INT/FP |"
_ORDERED: Final = "T -> T; INT | i8 i16 i32; INT/FP | i64; FP | float"
_MOVED: Final = "T -> T; INT/FP | b i64; INT | i8 i16 i32; FP | float f8 mx"
_INDEXED: Final = (
    "INT | i8,i16,i32:i32; 1.1 FP | i8,i16,i32:i32; "
    "1.1 INT/FP | b,i64:i32,i64 i8,i16,i32:i64; FP | float,f8,mx:i32,i64"
)
_STATES: Final = (
    "T -> T; INT/FP+VARIABLE | b i8 i16 i32 i64; INT+VARIABLE | i4 i48; FP+VARIABLE | float f8"
)

# -- accuracy that several operators have, and products --------------------------------------------

_ROUNDED: Final = "ulp 0.5; BF16 ulp 1"
SUM: Final = "inexact: dot-product"
_PRODUCT_2D: Final = "output=NPQO weight=OKLC input=N..C"
_FFT: Final = "? the number depends on the algorithm"

#: In the order of enum Op of the schema, since the position of a row is its code.
ROWS_1_0: Final = (
    Row(
        "ARGMAX",
        "reduction",
        "input",
        "T -> U; INT | i8:i32 i8,i16,i32,i64:i64; INT+INT16 | i16:i32; FP | float,f8:i32,i64",
        "axis nan_mode",
    ),
    Row("AVG_POOL2D", "pooling", POOL, ACCUMULATED, "kernel:2 stride:2 pad:4 acc_type", SUM),
    Row("CONV2D", "convolution", _CONV, _CONVOLVED_MIXED, _WINDOW_2D, SUM, _PRODUCT_2D),
    Row(
        "CONV3D",
        "convolution",
        _CONV,
        _CONVOLVED_FP8,
        "pad:6 stride:3 dilation:3 local_bound acc_type",
        SUM,
        "output=NPQRO weight=OKLMC input=N...C",
    ),
    Row(
        "DEPTHWISE_CONV2D",
        "convolution",
        _CONV,
        _CONVOLVED_FP8,
        _WINDOW_2D,
        SUM,
        "output=NPQ(CM) weight=KLCM input=N..C",
    ),
    Row(
        "FFT2D",
        "fft",
        "input_real input_imag -> output_real output_imag",
        "f32 f32 -> f32 f32; FP+FFT |",
        "inverse local_bound",
        SUM,
        _FFT,
        since="1.0 2023-04",
    ),
    Row(
        "MATMUL",
        "matmul",
        MATMUL,
        "T U T U -> A; INT | i8:i8:i32 i16:i16:i48; "
        "FP | f16:f16:f16,f32 f32:f32:f32 bf16:bf16:f32 e4m3:e4m3:f16 e5m2:e5m2:f16; "
        "1.1 FP | f8:f8:f16,f32",
        accuracy=SUM,
        multiply_accumulates="output=NIJ a=NIK b=.KJ",
    ),
    Row("MAX_POOL2D", "pooling", "input", POOLED, "kernel:2 stride:2 pad:4 nan_mode"),
    Row(
        "RFFT2D",
        "fft",
        "input_real -> output_real output_imag",
        "f32 -> f32 f32; FP+FFT |",
        "local_bound",
        SUM,
        _FFT,
        since="1.0 2023-02",
    ),
    Row(
        "TRANSPOSE_CONV2D",
        "convolution",
        _CONV,
        _CONVOLVED_MIXED,
        "out_pad:4 stride:2 local_bound acc_type",
        SUM,
        "output=N..O weight=OKLC input=NHWC",
    ),
    Row(
        "CLAMP",
        "activation",
        "input",
        "T -> T; INT | i8; INT+INT16 | i16; FP | float",
        "min_val max_val nan_mode",
    ),
    Row("ERF", "activation", "input", _FLOAT, accuracy="inexact: ulp 5", since="1.0 2023-08"),
    Row("SIGMOID", "activation", "input", _FLOAT, accuracy="inexact: abs-error"),
    Row(
        "TANH",
        "activation",
        "input",
        _FLOAT,
        accuracy="inexact: abs-error lower=0.5 base=4; FP32 abs-error lower=0.5 base=12",
    ),
    Row("ADD", "elementwise", _TWO, _SUMMED, accuracy=_ROUNDED, commutes=True),
    Row("ARITHMETIC_RIGHT_SHIFT", "elementwise", _SHIFTED, _BITS, "round"),
    Row("BITWISE_AND", "elementwise", _TWO, _BITS, commutes=True),
    Row("BITWISE_OR", "elementwise", _TWO, _BITS, commutes=True),
    Row("BITWISE_XOR", "elementwise", _TWO, _BITS, commutes=True),
    Row(
        "INTDIV",
        "elementwise",
        "input1 input2:divisor",
        "T T -> T; INT/FP | i32 i64",
        old_names="div:2024-07 int_div:2025-04",
    ),
    Row("LOGICAL_AND", "elementwise", _TWO, _BOOLS, commutes=True),
    Row("LOGICAL_LEFT_SHIFT", "elementwise", _SHIFTED, _SHIFTED_BITS),
    Row("LOGICAL_RIGHT_SHIFT", "elementwise", _SHIFTED, _SHIFTED_BITS),
    Row("LOGICAL_OR", "elementwise", _TWO, _BOOLS, commutes=True),
    Row("LOGICAL_XOR", "elementwise", _TWO, _BOOLS, commutes=True),
    Row("MAXIMUM", "elementwise", _TWO, _NUMBERS, "nan_mode", commutes=True),
    Row("MINIMUM", "elementwise", _TWO, _NUMBERS, "nan_mode", commutes=True),
    Row(
        "MUL",
        "elementwise",
        "input1 input2 shift:const=0",
        "T T i8 -> U; INT | i8,i16:i32; INT/FP | i32:i32 i64:i64; FP | f32:f32 f16:f16 bf16:bf16",
        accuracy=f"inexact: {_ROUNDED}",
        commutes=True,
    ),
    Row(
        "POW",
        "elementwise",
        "input1:positive input2",
        "T T -> T; FP | float",
        accuracy="inexact: bounds",
    ),
    Row("SUB", "elementwise", _TWO, _SUMMED, accuracy=_ROUNDED),
    Row(
        "TABLE",
        "activation",
        "input1 table",
        "T T -> U; INT | i8:i8; INT+INT16 | i16:i32",
        elementwise=1,
    ),
    Row("ABS", "elementwise", "input1", _NUMBER),
    Row("BITWISE_NOT", "elementwise", "input1", "T -> T; INT | i8 i16 i32; INT/FP | i64"),
    Row("CEIL", "elementwise", "input1", _FLOAT, accuracy="ulp 0.5", is_step=True),
    Row("CLZ", "elementwise", "input1", "T -> T; INT | i32; INT/FP | i64"),
    Row(
        "COS",
        "elementwise",
        "input1",
        _FLOAT,
        accuracy="inexact: abs-error base=1 divisor=2 magnitude=1",
        since="1.0 2024-04",
    ),
    Row(
        "EXP",
        "elementwise",
        "input1",
        _FLOAT,
        accuracy="inexact: abs-error base=1; FP32 abs-error base=3",
    ),
    Row("FLOOR", "elementwise", "input1", _FLOAT, accuracy="ulp 0.5", is_step=True),
    Row("LOG", "elementwise", "input1:positive", _FLOAT, accuracy="inexact: abs-error lower=0.5"),
    Row("LOGICAL_NOT", "elementwise", "input1", _BOOL),
    Row(
        "NEGATE",
        "elementwise",
        "input1 input1_zp:const=0 output_zp:const=0",
        "T T T -> T; INT | i8 i16 i32; INT/FP | i64; FP | float",
    ),
    Row("RECIPROCAL", "elementwise", "input1:positive", _FLOAT, accuracy="inexact: ulp 1"),
    Row("RSQRT", "elementwise", "input1:positive", _FLOAT, accuracy="inexact: ulp 2"),
    Row("SIN", "elementwise", "input1", _FLOAT, accuracy="inexact: sin", since="1.0 2024-04"),
    Row(
        "SELECT",
        "elementwise",
        "input1 input2 input3",
        "b T T -> T; INT/FP | b i64; INT | i8 i16 i32; FP | float",
    ),
    Row("EQUAL", "elementwise", _TWO, _COMPARED, commutes=True),
    Row("GREATER", "elementwise", _TWO, _COMPARED),
    Row("GREATER_EQUAL", "elementwise", _TWO, _COMPARED),
    Row("REDUCE_ALL", "reduction", "input", _BOOL, "axis"),
    Row("REDUCE_ANY", "reduction", "input", _BOOL, "axis"),
    Row("REDUCE_MAX", "reduction", "input", _ORDERED, "axis nan_mode"),
    Row("REDUCE_MIN", "reduction", "input", _ORDERED, "axis nan_mode"),
    Row(
        "REDUCE_PRODUCT",
        "reduction",
        "input",
        _FLOAT,
        "axis",
        "inexact: reduce-product",
        old_names="reduce_prod:2025-03",
    ),
    Row("REDUCE_SUM", "reduction", "input", _NUMBER, "axis", SUM),
    Row(
        "CONCAT",
        "layout",
        "input1*",
        "T -> T; INT/FP | b i64; INT | i8 i32; INT+INT16 | i16; FP | float f8 mx",
        "axis",
        "operand",
    ),
    Row(
        "PAD",
        "layout",
        "input1 padding:shape pad_const=0",
        "T T -> T; INT/FP | b i64; INT | i8 i16 i32; FP | float f8",
        accuracy="operand",
    ),
    Row("RESHAPE", "layout", "input1 shape:shape", _MOVED, accuracy="operand"),
    Row("REVERSE", "layout", "input1", _MOVED, "axis", "operand"),
    Row("SLICE", "layout", "input1 start:shape size:shape", _MOVED, accuracy="operand"),
    Row("TILE", "layout", "input1 multiples:shape", _MOVED, accuracy="operand"),
    Row("TRANSPOSE", "layout", "input1", _MOVED, "perms", "operand"),
    Row("GATHER", "gather", "values indices:index", f"T U -> T; {_INDEXED}", accuracy="operand"),
    Row(
        "SCATTER",
        "gather",
        "values_in indices:index input -> values_out",
        f"T U T -> T; {_INDEXED}",
        accuracy="operand",
    ),
    Row(
        "RESIZE",
        "resize",
        "input scale:shape offset:shape border:shape",
        "T mode=NEAREST -> T; INT | i8; INT+INT16 | i16; FP | float; 1.1 FP | f8 mx; "
        "T mode=BILINEAR -> U; INT | i8:i32; INT+INT16 | i16:i48; "
        "FP | f32:f32 f16:f16 bf16:bf16; 1.1 FP | e4m3:e4m3 e5m2:e5m2",
        "mode",
        "inexact: resize",
    ),
    Row(
        "CAST",
        "conversion",
        "input",
        "T -> U; INT | b:i8,i16,i32,i64 i8:b,i16,i32 i16:b,i8,i32 i32:b,i8,i16,i64 i64:b,i32; "
        "FP | i8,i16,i32:float float:i8,i16,i32; "
        "FP | f16:f32,f8 f32:f16,bf16,f8 bf16:f32,f8 f8:float; "
        "1.1 FP | b:f32 f32:b float,f8:mx mx:float,f8",
        accuracy="cast",
        elementwise=1,
    ),
    Row(
        "RESCALE",
        "conversion",
        "input multiplier:const shift:const input_zp:const=0 output_zp:const=0",
        "T i32 i8 T U scale32=True -> U; INT | i8,i16,i32,i48:i8,i16,i32; "
        "T i16 i8 T U scale32=False -> U; INT | i8,i16,i32,i48:i8,i16,i32",
        "scale32 rounding_mode per_channel input_unsigned output_unsigned",
    ),
    Row(
        "CONST",
        "constant",
        "",
        "-> T; INT/FP | b i8 i16 i32 i64; INT | i4 i48; FP | float f8 mx e8m0; 1.1 FP | in",
    ),
    Row(
        "IDENTITY",
        "layout",
        "input1",
        "T -> T; INT/FP | b i8 i16 i32 i64; INT | i4 i48; FP | float f8 mx",
        accuracy="operand",
        elementwise=1,
    ),
    Row(
        "CUSTOM",
        "control",
        "input_list* -> output_list*",
        "... -> ...; INT/FP |",
        "operator_name domain_name implementation_attrs",
        "none",
        "? what it computes is not known",
    ),
    Row(
        "COND_IF",
        "control",
        "condition input_list* -> output_list*",
        "b ... -> ...; INT/FP+CONTROLFLOW |",
        "then_graph else_graph",
        "none",
    ),
    Row(
        "WHILE_LOOP",
        "control",
        "input_list* -> output_list*",
        "... -> ...; INT/FP+CONTROLFLOW |",
        "cond_graph body_graph",
        "none",
    ),
    Row("VARIABLE", "control", "->", "->; INT/FP+VARIABLE |", since="1.0 2023-11"),
    Row(
        "VARIABLE_WRITE",
        "control",
        "input1 -> variable",
        _STATES,
        accuracy="operand",
        since="1.0 2023-11",
        encoded_as="IDENTITY",
        old_names="variable.write:2025-04",
    ),
    Row(
        "VARIABLE_READ",
        "control",
        "variable -> output1",
        _STATES,
        accuracy="operand",
        since="1.0 2023-11",
        encoded_as="IDENTITY",
        old_names="variable.read:2025-04",
    ),
    Row("CONST_SHAPE", "constant", "-> output:shape", "->; INT/FP |", since="1.0 2025-02"),
)


# -- the operators that TOSA 1.1 added, as in `operators_1_0.py` -----------------------------------

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
