"""The operators of TOSA 1.0 and 1.1: everything that is said of a single operator, as rows of data."""

from __future__ import annotations

from typing import Final, NamedTuple

# -- what the row of an operator says, as texts that `opset.py` reads ------------------------------


class Traits(NamedTuple):
    """What other folders know of an operator.

    A row says all of it: text of `key=word`, where later words replace earlier ones. A word names an
    entry of a table in the folder that uses it, where "own" is the entry of the operator's name.
    Words without an entry, entries without a word and missing keys are errors when tables are built.

    family: that of the operators that pictures show alike, and that levels limit alike.
    elementwise: how many operands, from the first one on, are broadcast to the shape of the result.
    shape: what infers the shapes of the results, and which checks there are (rules/families).
    value: what computes the results in numpy, and documents it (reference).
    bound: what its accuracy rule multiplies, unless it is the result (reference/bounds).
    edges: for which operands implementations err (golden/edges/operator_edges).
    response: how the result follows a small error of an operand: `linear`, `product` of two,
        `choice` of one, `kink`, `smooth`, `power`, `pole`, `step`, `cast`, `jump` of a comparison,
        `equality`, `position` of an extreme, `table`, `sum`, `move`, `mixed` if it moves several
        operands; or "none" if runs with errors show all (golden/accuracy).
    range: the least and the greatest result.
    terms: what an element of the result is computed from (golden/edges/back_propagation).
    extreme: whether the "greatest" or "least" element is searched.
    random: what makes random operands (qualify/random_graphs).
    folding: whether constants are folded, if that is "exact", "rounded", or "both".
    overflow: integers that do not fit are "refused", since TOSA leaves them open; it "saturates"; or
        "none" if it has none or wraps around.
    on_bool: the operator that does the same to BOOL; after a colon `negated` if the second operand, or
        `inverted` if the result is; "operand"; or an element type to cast to (rewrites/repairs).
    older_form: what writes it for older states of the dialect, if its form was another one (eras/table).
    tflite: what writes it for TFLite (golden/backends/tflite_model): "same", "fused" with an activation,
        or "axis" as an operand, and after colons the numbers of operator and options there.
    accuracy: "exact"; "operand", as the operand whose elements are moved; "none", no rule of TOSA; or
        "own", as the row says.
    products: "own" if the row has `multiply_accumulates`.
    """

    family: str
    elementwise: str
    shape: str
    value: str
    bound: str
    edges: str
    response: str
    range: str
    terms: str
    extreme: str
    random: str
    folding: str
    overflow: str
    on_bool: str
    older_form: str
    tflite: str
    accuracy: str
    products: str


#: The words of traits that name no entry of a table.
WORDS: Final = {
    "response": "none linear product choice kink smooth power pole step cast jump equality position "
    "table sum move mixed",
    "extreme": "none greatest least",
    "folding": "none exact rounded both",
    "overflow": "none refused saturates",
}


class Row(NamedTuple):
    """An operator, as texts.

    name: the name in TOSA.
    traits: see `Traits`.
    operands: their names, in order, and after "->" those of the results, unless that is one `output`.
        `x` stands for exactly one, `x?` for at most one, and `x*` for any number.
        After a colon: `shape`, a !tosa.shape; `const`, a tensor whose elements verifiers and compilers
        read; `index`, `shift`, `divisor` or `positive`, the numbers that it is to hold. After another
        colon: the state of the dialect that added it, if the operator is older. After "=":
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
    accuracy: how floating-point results may differ from exact ones, if the operands are exact: the name
        of a formula of golden/accuracy; or a bound such as "ulp 2", and after ";" others for single
        types. It begins with "inexact:" if implementations compute different results of equal operands.
    multiply_accumulates: the dimensions of the result and of the two operands that are multiplied. A
        letter stands for the same size wherever it is, (CM) for a product, "." for what does not
        count, and "*" for batches of any rank, which are broadcast. The number is the product of all
        letters. Or, after "?", why the number is not known.
    commutes: whether the first two operands may be exchanged.
    since: the TOSA version and the state of the dialect that added it; "" for 1.0 and the first state.
    removed: the month in which it left the draft of TOSA 1.1, and what replaces it; "" if it did not.
    old_names: names in older states of the dialect, oldest first, each with the state that ended it.
    encoded_as: the operator whose code a file has; different attribute tables tell the two apart.
    """

    name: str
    traits: str
    operands: str
    types: str
    attributes: str = ""
    accuracy: str = ""
    multiply_accumulates: str = ""
    commutes: bool = False
    since: str = ""
    removed: str = ""
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
_POSITIONS: Final = (
    "T -> U; INT | i8:i32 i8,i16,i32,i64:i64; INT+INT16 | i16:i32; FP | float,f8:i32,i64"
)
_ORDERED: Final = "T -> T; INT | i8 i16 i32; INT/FP | i64; FP | float"
_MOVED: Final = "T -> T; INT/FP | b i64; INT | i8 i16 i32; FP | float f8 mx"
_INDEXED: Final = (
    "INT | i8,i16,i32:i32; 1.1 FP | i8,i16,i32:i32; "
    "1.1 INT/FP | b,i64:i32,i64 i8,i16,i32:i64; FP | float,f8,mx:i32,i64"
)
_STATES: Final = (
    "T -> T; INT/FP+VARIABLE | b i8 i16 i32 i64; INT+VARIABLE | i4 i48; FP+VARIABLE | float f8"
)

# -- traits that several operators have --------------------------------------------------------------

_BASIC: Final = "elementwise=0 shape=own value=own random=own"
#: Of operators that no judge has to know: they compute no numbers, or in blocks.
_UNJUDGED: Final = (
    f"{_BASIC} bound=none edges=none response=none range=-inf:inf terms=none extreme=none "
    "folding=none overflow=none on_bool=none older_form=none products=none tflite=none"
)
_UNARY: Final = (
    f"{_BASIC} family=elementwise elementwise=1 shape=first bound=none edges=none "
    "response=none range=-inf:inf terms=none extreme=none random=unary folding=exact overflow=none "
    "on_bool=none older_form=none accuracy=exact products=none tflite=none"
)
_FUNCTION: Final = f"{_UNARY} response=smooth folding=rounded accuracy=own"
_SATURATING: Final = f"{_FUNCTION} family=activation edges=saturation range=-1:1"
_BINARY: Final = f"{_UNARY} elementwise=2 shape=broadcast random=binary"
_TRUTHS: Final = f"{_BINARY} edges=truths"
_SHIFT: Final = f"{_BINARY} edges=shift random=amounts folding=none"
_COMPARISON: Final = f"{_BINARY} edges=comparison response=jump random=comparison"
_ADDITION: Final = f"{_BINARY} edges=sum response=linear overflow=refused accuracy=own"
_REDUCTION: Final = (
    f"{_BASIC} family=reduction shape=one_at_axis bound=none edges=none response=none "
    "range=-inf:inf terms=none extreme=none random=reduction folding=exact overflow=none "
    "on_bool=none older_form=none accuracy=exact products=none tflite=none"
)
_POSITION: Final = f"{_REDUCTION} shape=without_axis edges=extremes response=position on_bool=INT8"
_CONVOLUTION: Final = (
    f"{_BASIC} family=convolution bound=own edges=none response=none range=-inf:inf "
    "terms=convolution extreme=none random=convolution folding=none overflow=none "
    "on_bool=none older_form=own accuracy=own products=own tflite=none"
)
_MATMUL: Final = (
    f"{_BASIC} family=matmul bound=own edges=none response=none range=-inf:inf terms=matmul "
    "extreme=none random=matmul folding=none overflow=none on_bool=none older_form=none "
    "accuracy=own products=own tflite=none"
)
_TRANSFORM: Final = (
    f"{_BASIC} family=fft bound=own edges=none response=none range=-inf:inf terms=none extreme=none "
    "random=fft folding=none overflow=none on_bool=none older_form=none accuracy=own "
    "products=own tflite=none"
)
_POOL: Final = (
    f"{_BASIC} family=pooling bound=none edges=none response=none range=-inf:inf terms=window "
    "extreme=none random=pool folding=none overflow=none on_bool=none older_form=none "
    "accuracy=exact products=none tflite=none"
)
_LAYOUT: Final = (
    f"{_BASIC} family=layout bound=none edges=none response=move range=-inf:inf terms=none "
    "extreme=none folding=exact overflow=none on_bool=none older_form=none accuracy=operand "
    "products=none tflite=none"
)
_RESHAPED: Final = f"{_LAYOUT} older_form=own"
_GATHER: Final = f"{_LAYOUT} family=gather random=gather folding=none"
_CONVERSION: Final = f"{_UNJUDGED} family=conversion accuracy=own"
_CONSTANT: Final = (
    f"{_UNJUDGED} family=constant shape=declared value=none random=none accuracy=exact"
)
_CONTROL: Final = f"{_UNJUDGED} family=control value=none accuracy=none"
_ON_SHAPES: Final = f"{_UNJUDGED} family=shape accuracy=exact"
_ARITHMETIC: Final = f"{_ON_SHAPES} random=arithmetic"
_LOGARITHM: Final = f"{_ON_SHAPES} random=logarithm"
_BLOCKS: Final = f"{_UNJUDGED} family=block_layout accuracy=exact"

# -- accuracy that several operators have, and products --------------------------------------------

_ROUNDED: Final = "ulp 0.5; BF16 ulp 1"
SUM: Final = "inexact: dot-product"
_PRODUCT_2D: Final = "output=NPQO weight=OKLC input=N..C"
_FFT: Final = "? the number depends on the algorithm"

#: In the order of enum Op of the schema, since the position of a row is its code.
# fmt: off
ROWS_1_0: Final = (
    Row("ARGMAX", f"{_POSITION} extreme=greatest tflite=own", "input", _POSITIONS, "axis nan_mode"),
    Row("AVG_POOL2D", f"{_POOL} bound=own overflow=saturates older_form=own accuracy=own tflite=own",
        POOL, ACCUMULATED, "kernel:2 stride:2 pad:4 acc_type", SUM),
    Row("CONV2D", f"{_CONVOLUTION} tflite=own", _CONV, _CONVOLVED_MIXED, _WINDOW_2D, SUM, _PRODUCT_2D),
    Row("CONV3D", _CONVOLUTION, _CONV, _CONVOLVED_MIXED,
        "pad:6 stride:3 dilation:3 local_bound acc_type", SUM, "output=NPQRO weight=OKLMC input=N...C"),
    Row("DEPTHWISE_CONV2D", f"{_CONVOLUTION} tflite=own", _CONV, _CONVOLVED_FP8, _WINDOW_2D, SUM,
        "output=NPQ(CM) weight=KLCM input=N..C"),
    Row("FFT2D", _TRANSFORM, "input_real input_imag -> output_real output_imag",
        "f32 f32 -> f32 f32; FP+FFT |", "inverse local_bound", SUM, _FFT, since="1.0 2023-04"),
    Row("MATMUL", f"{_MATMUL} folding=rounded older_form=own tflite=own", MATMUL,
        "T U T U -> A; INT | i8:i8:i32 i16:i16:i48; "
        "FP | f16:f16:f16,f32 f32:f32:f32 bf16:bf16:f32 e4m3:e4m3:f16 e5m2:e5m2:f16; "
        "1.1 FP | f8:f8:f16,f32", accuracy=SUM, multiply_accumulates="output=*IJ a=*IK b=*KJ"),
    Row("MAX_POOL2D", f"{_POOL} extreme=greatest tflite=own", "input", POOLED,
        "kernel:2 stride:2 pad:4 nan_mode"),
    Row("RFFT2D", _TRANSFORM, "input_real -> output_real output_imag", "f32 -> f32 f32; FP+FFT |",
        "local_bound", SUM, _FFT, since="1.0 2023-02"),
    Row("TRANSPOSE_CONV2D", f"{_CONVOLUTION} terms=none", _CONV, _CONVOLVED_MIXED,
        "out_pad:4 stride:2 local_bound acc_type", SUM, "output=N..O weight=OKLC input=NHWC"),
    Row("CLAMP", f"{_UNARY} family=activation edges=clamp response=kink random=own older_form=own",
        "input", "T -> T; INT | i8; INT+INT16 | i16; FP | float", "min_val max_val nan_mode"),
    Row("ERF", _SATURATING, "input", _FLOAT, accuracy="inexact: ulp 5", since="1.0 2023-08"),
    Row("SIGMOID", f"{_SATURATING} bound=own range=0:1 tflite=same:14:0", "input", _FLOAT,
        accuracy="inexact: abs-error"),
    Row("TANH", f"{_SATURATING} bound=own tflite=same:28:0", "input", _FLOAT,
        accuracy="inexact: abs-error lower=0.5 base=4; FP32 abs-error lower=0.5 base=12"),
    Row("ADD", f"{_ADDITION} on_bool=LOGICAL_OR tflite=fused:0:11", _TWO, _SUMMED, accuracy=_ROUNDED,
        commutes=True),
    Row("ARITHMETIC_RIGHT_SHIFT", _SHIFT, _SHIFTED, _BITS, "round"),
    Row("BITWISE_AND", f"{_BINARY} on_bool=LOGICAL_AND", _TWO, _BITS, commutes=True),
    Row("BITWISE_OR", f"{_BINARY} on_bool=LOGICAL_OR", _TWO, _BITS, commutes=True),
    Row("BITWISE_XOR", f"{_BINARY} on_bool=LOGICAL_XOR tflite=same:160:125", _TWO, _BITS, commutes=True),
    Row("INTDIV", f"{_BINARY} edges=quotient random=amounts overflow=refused tflite=fused:42:29",
        "input1 input2:divisor", "T T -> T; INT/FP | i32 i64", old_names="div:2024-07 int_div:2025-04"),
    Row("LOGICAL_AND", f"{_TRUTHS} tflite=same:86:62", _TWO, _BOOLS, commutes=True),
    Row("LOGICAL_LEFT_SHIFT", _SHIFT, _SHIFTED, _SHIFTED_BITS),
    Row("LOGICAL_RIGHT_SHIFT", _SHIFT, _SHIFTED, _SHIFTED_BITS),
    Row("LOGICAL_OR", f"{_TRUTHS} tflite=same:84:60", _TWO, _BOOLS, commutes=True),
    Row("LOGICAL_XOR", _TRUTHS, _TWO, _BOOLS, commutes=True),
    Row("MAXIMUM",
        f"{_BINARY} edges=comparison response=kink extreme=greatest on_bool=LOGICAL_OR "
        "tflite=same:55:39",
        _TWO, _NUMBERS, "nan_mode", commutes=True),
    Row("MINIMUM",
        f"{_BINARY} edges=comparison response=kink extreme=least on_bool=LOGICAL_AND tflite=same:57:39",
        _TWO, _NUMBERS, "nan_mode", commutes=True),
    Row("MUL",
        f"{_ADDITION} edges=product response=product random=own on_bool=LOGICAL_AND older_form=own "
        "tflite=own",
        "input1 input2 shift:const=0",
        "T T i8 -> U; INT | i8,i16:i32; INT/FP | i32:i32 i64:i64; FP | f32:f32 f16:f16 bf16:bf16",
        accuracy=f"inexact: {_ROUNDED}", commutes=True),
    Row("POW", f"{_FUNCTION} elementwise=2 shape=broadcast bound=own "
        "edges=power response=power range=0:inf random=own tflite=same:78:56", "input1:positive input2",
        "T T -> T; FP | float", accuracy="inexact: bounds"),
    Row("SUB", f"{_ADDITION} on_bool=LOGICAL_XOR tflite=fused:41:28", _TWO, _SUMMED, accuracy=_ROUNDED),
    Row("TABLE", f"{_UNARY} family=activation edges=table response=table "
        "random=own folding=none overflow=refused", "input1 table",
        "T T -> U; INT | i8:i8; INT+INT16 | i16:i32"),
    Row("ABS", f"{_UNARY} response=kink on_bool=operand tflite=same:101:78", "input1", _NUMBER),
    Row("BITWISE_NOT", f"{_UNARY} on_bool=LOGICAL_NOT", "input1",
        "T -> T; INT | i8 i16 i32; INT/FP | i64"),
    Row("CEIL", f"{_UNARY} edges=step response=step accuracy=own tflite=same:104:0", "input1", _FLOAT,
        accuracy="ulp 0.5"),
    Row("CLZ", f"{_UNARY} folding=none", "input1", "T -> T; INT | i32; INT/FP | i64"),
    Row("COS", f"{_FUNCTION} bound=own edges=turns range=-1:1 tflite=same:108:84", "input1", _FLOAT,
        accuracy="inexact: abs-error base=1 divisor=2 magnitude=1", since="1.0 2024-04"),
    Row("EXP", f"{_FUNCTION} bound=own range=0:inf tflite=same:47:33", "input1", _FLOAT,
        accuracy="inexact: abs-error base=1; FP32 abs-error base=3"),
    Row("FLOOR", f"{_UNARY} edges=step response=step accuracy=own tflite=same:8:0", "input1", _FLOAT,
        accuracy="ulp 0.5"),
    Row("LOG", f"{_FUNCTION} bound=own edges=near_one tflite=same:73:0", "input1:positive", _FLOAT,
        accuracy="inexact: abs-error lower=0.5"),
    Row("LOGICAL_NOT", f"{_UNARY} tflite=same:87:63", "input1", _BOOL),
    Row("NEGATE", f"{_UNARY} response=linear random=own overflow=saturates older_form=own tflite=own",
        "input1 input1_zp:const=0 output_zp:const=0",
        "T T T -> T; INT | i8 i16 i32; INT/FP | i64; FP | float"),
    Row("RECIPROCAL", f"{_UNARY} response=pole accuracy=own", "input1:positive", _FLOAT,
        accuracy="inexact: ulp 1"),
    Row("RSQRT", f"{_UNARY} response=pole accuracy=own tflite=same:76:0", "input1:positive", _FLOAT,
        accuracy="inexact: ulp 2"),
    Row("SIN", f"{_FUNCTION} bound=own edges=turns range=-1:1 tflite=same:66:0", "input1", _FLOAT,
        accuracy="inexact: sin", since="1.0 2024-04"),
    Row("SELECT", f"{_BINARY} elementwise=3 edges=choice response=choice random=own tflite=same:123:98",
        "input1 input2 input3", "b T T -> T; INT/FP | b i64; INT | i8 i16 i32; FP | float"),
    Row("EQUAL", f"{_COMPARISON} response=equality on_bool=LOGICAL_XOR:inverted tflite=same:71:53", _TWO,
        _COMPARED, commutes=True),
    Row("GREATER", f"{_COMPARISON} on_bool=LOGICAL_AND:negated tflite=same:61:44", _TWO, _COMPARED),
    Row("GREATER_EQUAL", f"{_COMPARISON} on_bool=LOGICAL_OR:negated tflite=same:62:45", _TWO, _COMPARED),
    Row("REDUCE_ALL", f"{_REDUCTION} edges=count tflite=axis:140:27", "input", _BOOL, "axis"),
    Row("REDUCE_ANY", f"{_REDUCTION} edges=count tflite=axis:91:27", "input", _BOOL, "axis"),
    Row("REDUCE_MAX",
        f"{_REDUCTION} edges=extremes terms=axis extreme=greatest on_bool=REDUCE_ANY tflite=axis:82:27",
        "input", _ORDERED, "axis nan_mode"),
    Row("REDUCE_MIN",
        f"{_REDUCTION} edges=extremes terms=axis extreme=least on_bool=REDUCE_ALL tflite=axis:89:27",
        "input", _ORDERED, "axis nan_mode"),
    Row("REDUCE_PRODUCT", f"{_REDUCTION} folding=none on_bool=REDUCE_ALL accuracy=own tflite=axis:81:27",
        "input", _FLOAT, "axis", "inexact: reduce-product", old_names="reduce_prod:2025-03"),
    Row("REDUCE_SUM",
        f"{_REDUCTION} bound=own response=sum terms=axis folding=both accuracy=own tflite=axis:74:27",
        "input", _NUMBER, "axis", SUM),
    Row("CONCAT", f"{_LAYOUT} response=mixed tflite=own", "input1*",
        "T -> T; INT/FP | b i64; INT | i8 i32; INT+INT16 | i16; FP | float f8 mx", "axis"),
    Row("PAD", f"{_RESHAPED} response=mixed tflite=own", "input1 padding:shape pad_const=0",
        "T T -> T; INT/FP | b i64; INT | i8 i16 i32; FP | float f8"),
    Row("RESHAPE", f"{_RESHAPED} tflite=own", "input1 shape:shape", _MOVED),
    Row("REVERSE", f"{_LAYOUT} tflite=own", "input1", _MOVED, "axis"),
    Row("SLICE", f"{_RESHAPED} tflite=own", "input1 start:shape size:shape", _MOVED),
    Row("TILE", f"{_RESHAPED} tflite=own", "input1 multiples:shape", _MOVED),
    Row("TRANSPOSE", f"{_RESHAPED} tflite=own", "input1", _MOVED, "perms"),
    Row("GATHER", f"{_GATHER} folding=exact tflite=own",
        "values indices:index row_count?:const:2026-09",
        f"T U -> T; {_INDEXED}; T U i32 -> T; 1.1 INT/FP | b,i8,i16,i32,i64:i32,i64; "
        "1.1 FP | float,f8,mx:i32,i64"),
    Row("SCATTER", f"{_GATHER} response=mixed", "values_in indices:index input -> values_out",
        f"T U T -> T; {_INDEXED}"),
    Row("RESIZE", f"{_CONVERSION} family=resize older_form=own",
        "input scale:shape offset:shape border:shape",
        "T mode=NEAREST -> T; INT | i8; INT+INT16 | i16; FP | float; 1.1 FP | f8 mx; "
        "T mode=BILINEAR -> U; INT | i8:i32; INT+INT16 | i16:i48; "
        "FP | f32:f32 f16:f16 bf16:bf16; 1.1 FP | e4m3:e4m3 e5m2:e5m2", "mode", "inexact: resize"),
    Row("CAST", f"{_CONVERSION} elementwise=1 shape=first edges=cast "
        "response=cast folding=exact overflow=saturates tflite=own", "input",
        "T -> U; INT | b:i8,i16,i32,i64 i8:b,i16,i32 i16:b,i8,i32 i32:b,i8,i16,i64 i64:b,i32; "
        "FP | i8,i16,i32:float float:i8,i16,i32; "
        "FP | f16:f32,f8 f32:f16,bf16,f8 bf16:f32,f8 f8:float; "
        "1.1 FP | b:f32 f32:b float,f8:mx mx:float,f8", accuracy="cast"),
    Row("RESCALE",
        f"{_CONVERSION} shape=first edges=rescale overflow=saturates older_form=own accuracy=exact",
        "input multiplier:const shift:const input_zp:const=0 output_zp:const=0",
        "T i32 i8 T U scale32=True -> U; INT | i8,i16,i32,i48:i8,i16,i32; "
        "T i16 i8 T U scale32=False -> U; INT | i8,i16,i32,i48:i8,i16,i32",
        "scale32 rounding_mode per_channel input_unsigned output_unsigned"),
    Row("CONST", _CONSTANT, "",
        "-> T; INT/FP | b i8 i16 i32 i64; INT | i4 i48; FP | float f8 mx e8m0; 1.1 FP | in"),
    Row("IDENTITY", f"{_LAYOUT} elementwise=1 random=unary folding=none tflite=own", "input1",
        "T -> T; INT/FP | b i8 i16 i32 i64; INT | i4 i48; FP | float f8 mx"),
    Row("CUSTOM", f"{_CONTROL} random=none older_form=own products=own", "input_list* -> output_list*",
        "... -> ...; INT/FP |", "operator_name domain_name implementation_attrs",
        multiply_accumulates="? what it computes is not known"),
    Row("COND_IF", f"{_CONTROL} response=mixed", "condition input_list* -> output_list*",
        "b ... -> ...; INT/FP+CONTROLFLOW |", "then_graph else_graph"),
    Row("WHILE_LOOP", _CONTROL, "input_list* -> output_list*", "... -> ...; INT/FP+CONTROLFLOW |",
        "cond_graph body_graph"),
    Row("VARIABLE", f"{_CONTROL} random=none accuracy=exact", "->", "->; INT/FP+VARIABLE |",
        since="1.0 2023-11"),
    Row("VARIABLE_WRITE", f"{_CONTROL} response=move accuracy=operand", "input1 -> variable", _STATES,
        since="1.0 2023-11", old_names="variable.write:2025-04", encoded_as="IDENTITY"),
    Row("VARIABLE_READ", f"{_CONTROL} response=move accuracy=operand", "variable -> output1", _STATES,
        since="1.0 2023-11", old_names="variable.read:2025-04", encoded_as="IDENTITY"),
    Row("CONST_SHAPE", _CONSTANT, "-> output:shape", "->; INT/FP |", since="1.0 2025-02"),
)
# fmt: on


# -- the operators that TOSA 1.1 added, each with the state that added it --------------------------

_SHAPE: Final = "input:shape -> output:shape"
_SHAPES: Final = "input1:shape input2:shape -> output:shape"
_ONLY_SHAPES: Final = "->; INT/FP+SHAPE |"

#: In the order of enum Op of the schema: their codes follow those of TOSA 1.0.
# fmt: off
ROWS_1_1: Final = (
    Row("MATMUL_T_BLOCK_SCALED", f"{_MATMUL} terms=none random=own",
        "a_data a_scale b_data b_scale -> output_data", "T S T S -> f32; FP | in:e8m0", "block_size",
        SUM, "output_data=NIJ a_data=NIK b_data=.JK", since="1.1 2025-11",
        removed="2026-09 MATMUL_T of block-scaled tensors"),
    Row("CAST_FROM_BLOCK_SCALED", f"{_CONVERSION} family=block_conversion bound=own",
        "input_data input_scale -> output_data", "T S -> U; FP | in:e8m0:f32,bf16", "block_size",
        "ulp 1", since="1.1 2025-11", removed="2026-09 CAST of a block-scaled tensor"),
    Row("CAST_TO_BLOCK_SCALED", f"{_CONVERSION} family=block_conversion",
        "input_data -> output_data output_scale", "T -> U S; FP | f32,bf16:in:e8m0", "block_size",
        "ulp 1; FP8E4M3 ulp 2", since="1.1 2025-11", removed="2026-09 CAST to a block-scaled tensor"),
    Row("DIM", _ON_SHAPES, "input1 -> output:shape",
        "T ->; INT/FP+SHAPE | b i64; INT+SHAPE | i8 i16 i32; FP+SHAPE | float f8 mx in e8m0", "axis",
        since="1.1 2026-01"),
    Row("CONCAT_SHAPE", _ON_SHAPES, "input*:shape -> output:shape", _ONLY_SHAPES, since="1.1 2026-02"),
    Row("ADD_SHAPE", _ARITHMETIC, _SHAPES, _ONLY_SHAPES, since="1.1 2026-01"),
    Row("SUB_SHAPE", _ARITHMETIC, _SHAPES, _ONLY_SHAPES, since="1.1 2026-01"),
    Row("MUL_SHAPE", _ARITHMETIC, _SHAPES, _ONLY_SHAPES, since="1.1 2026-01"),
    Row("SLICE_SHAPE", _ON_SHAPES, "input:shape start:const size:const -> output:shape",
        "i32 i32 ->; INT/FP+SHAPE |", since="1.1 2026-02"),
    Row("EXP2_SHAPE", _LOGARITHM, _SHAPE, _ONLY_SHAPES, since="1.1 2026-02"),
    Row("LOG2_CEIL_SHAPE", _LOGARITHM, _SHAPE, _ONLY_SHAPES, since="1.1 2026-02"),
    Row("LOG2_FLOOR_SHAPE", _LOGARITHM, _SHAPE, _ONLY_SHAPES, since="1.1 2026-02"),
    Row("MAX_SHAPE", _ARITHMETIC, _SHAPES, _ONLY_SHAPES, since="1.1 2026-02"),
    Row("MIN_SHAPE", _ARITHMETIC, _SHAPES, _ONLY_SHAPES, since="1.1 2026-02"),
    Row("MOD_SHAPE", _ARITHMETIC, _SHAPES, _ONLY_SHAPES, since="1.1 2026-02"),
    Row("DIV_CEIL_SHAPE", _ARITHMETIC, _SHAPES, _ONLY_SHAPES, since="1.1 2026-01"),
    Row("DIV_FLOOR_SHAPE", _ARITHMETIC, _SHAPES, _ONLY_SHAPES, since="1.1 2026-01"),
    Row("ASSERT_EQUAL_SHAPE", _ON_SHAPES, "input1:shape input2:shape ->", _ONLY_SHAPES,
        "allow_broadcast", since="1.1 2026-02"),
    Row("CONV2D_BLOCK_SCALED", f"{_CONVOLUTION} terms=none random=own older_form=none",
        "input_data input_scale weight_data weight_scale bias pad:shape stride:shape dilation:shape",
        "T S T S f32 -> f32; FP+MXFP-CONV | inf:e8m0", "block_size", SUM,
        "output=NPQO weight_data=OKLC input_data=N..C", since="1.1 2026-02",
        removed="2026-09 CONV2D of block-scaled tensors"),
    Row("MAX_POOL2D_ADAPTIVE", f"{_POOL} extreme=greatest", "input kernel:shape stride:shape pad:shape",
        POOLED, "nan_mode", since="1.1 2026-05"),
    Row("AVG_POOL2D_ADAPTIVE", f"{_POOL} bound=own overflow=saturates accuracy=own",
        f"{POOL} kernel:shape stride:shape pad:shape", ACCUMULATED, "acc_type", SUM,
        since="1.1 2026-05"),
    Row("RESHAPE_BLOCK_SCALED", _BLOCKS,
        "input input_scale? new_value_shape:shape -> output output_scale?",
        "T -> T; INT/FP | b i64; INT | i8 i16 i32; FP | float f8; T S -> T S; FP | in:e8m0",
        "block_size", since="1.1 2026-05", removed="2026-09 RESHAPE, also of a block-scaled tensor"),
    Row("ROW_GATHER_BLOCK_SCALED", f"{_BLOCKS} random=row_gather",
        "values values_scale? indices:index row_count:const -> output output_scale?",
        "T U i32 -> T; INT/FP | b,i8,i16,i32:i32,i64 i64:i64; FP | float,f8:i32,i64; "
        "T S U i32 -> T S; FP | in:e8m0:i32,i64", "block_size", since="1.1 2026-05",
        removed="2026-09 GATHER with a row count, also of a block-scaled tensor"),
    Row("ROW_GATHER", f"{_GATHER} random=row_gather", "values indices:index row_count:const",
        "T U i32 -> T; INT/FP | b,i8,i16,i32,i64:i32,i64; FP | float,f8,mx:i32,i64", since="1.1 2026-08",
        removed="2026-09 GATHER with a row count"),
    Row("MATMUL_T", _MATMUL, MATMUL, "T U Z(T) Z(U) -> A; INT | i8:i8:i32 i16:i16:i48; "
        "FP | f16:f16:f16 float,f8,mx:float,f8,mx:f32; "
        "FP | bf16,f8,mx:f16,bf16,f8,mx:bf16 f16:bf16,f8,mx:bf16", accuracy=SUM,
        multiply_accumulates="output=*IJ a=*IK b=*JK", since="1.1 2026-08"),
    Row("ARGMIN", f"{_POSITION} extreme=least", "input", _POSITIONS, "axis nan_mode",
        since="1.1 2026-09"),
)
# fmt: on
