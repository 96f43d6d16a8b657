"""What files of TOSA 0.80.0 and 0.80.1 have in other places than 1.0, by files of their writers."""

from __future__ import annotations

from typing import Final

from tosa_convert.formats.wire.tables import Field, Table
from tosa_convert.graph import opset

_SWAPPED: Final = {"REDUCE_ALL": "REDUCE_ANY", "REDUCE_ANY": "REDUCE_ALL"}
_OF_FIRST_STATE: Final = [row.name for row in opset.OPERATORS if not row.state]
#: enum Op: the position is the code. The operators of the first state of the dialect are in the order of
#: today, but for two; others were appended.
OPERATORS: Final = (
    *("UNKNOWN", *_OF_FIRST_STATE[:5], "FULLY_CONNECTED", *_OF_FIRST_STATE[5:9], "RESERVED"),
    *[_SWAPPED.get(name, name) for name in _OF_FIRST_STATE[9:]],
    *("FFT2D", "RFFT2D", "ERF", "DIM"),
)

#: enum DType -> the type of today; unsigned types are signless.
DTYPES: Final = {
    1: "BOOL",
    2: "INT8",
    3: "INT4",
    4: "INT8",
    5: "INT16",
    6: "INT32",
    7: "INT48",
    8: "FP32",
    9: "INT16",
    10: "FP16",
    11: "BF16",
}
UNSIGNED: Final = frozenset({2, 9})

#: Fields of attributes -> the names that they have today.
FIELDS: Final = {
    "accum_dtype": "acc_type",
    "output_shape": "out_shape",
    "then_branch": "then_graph",
    "else_branch": "else_graph",
    "cond_branch": "cond_graph",
    "body_branch": "body_graph",
}

#: Members of union Attribute, in order after NONE: their names, the operators that have them, and the
#: slots of their tables.
_ATTRIBUTES: Final = (
    (
        "Pool",
        "AVG_POOL2D MAX_POOL2D",
        "pad:[i32] kernel:[i32] stride:[i32] input_zp:i32 output_zp:i32 accum_dtype:u32",
    ),
    (
        "Conv",
        "CONV2D CONV3D DEPTHWISE_CONV2D",
        "pad:[i32] stride:[i32] dilation:[i32] input_zp:i32 weight_zp:i32 local_bound:bool",
    ),
    (
        "TransposeConv",
        "TRANSPOSE_CONV2D",
        "out_pad:[i32] stride:[i32] output_shape:[i32] input_zp:i32 weight_zp:i32 local_bound:bool",
    ),
    ("Pad", "PAD", "padding:[i32] pad_const_int:i32 pad_const_fp:[u8]"),
    (
        "Axis",
        "ARGMAX CONCAT REVERSE REDUCE_ANY REDUCE_ALL REDUCE_MAX REDUCE_MIN REDUCE_PRODUCT REDUCE_SUM",
        "axis:i32",
    ),
    ("Reshape", "RESHAPE", "new_shape:[i32]"),
    ("Slice", "SLICE", "start:[i32] size:[i32]"),
    ("Tile", "TILE", "multiples:[i32]"),
    ("Resize", "RESIZE", "scale:[i16] offset:[i16] border:[i16] mode:u32"),
    ("Clamp", "CLAMP", "min_int:i32 max_int:i32 min_fp:[u8] max_fp:[u8]"),
    (
        "Rescale",
        "RESCALE",
        "input_zp:i32 output_zp:i32 multiplier:[i32] shift:[i32] scale32:bool double_round:bool "
        "per_channel:bool input_unsigned:bool output_unsigned:bool",
    ),
    ("Mul", "MUL", "shift:i32"),
    ("ArithmeticRightShift", "ARITHMETIC_RIGHT_SHIFT", "round:bool"),
    ("CondIf", "COND_IF", "then_branch:string else_branch:string"),
    ("WhileLoop", "WHILE_LOOP", "cond_branch:string body_branch:string"),
    ("Transpose", "TRANSPOSE", "perms:[i32]"),
    ("Table", "TABLE", "table:[i16]"),
    ("MatMul", "MATMUL", "a_zp:i32 b_zp:i32"),
    ("FullyConnected", "FULLY_CONNECTED", "input_zp:i32 weight_zp:i32"),
    ("Negate", "NEGATE", "input1_zp:i32 output_zp:i32"),
    ("Custom", "CUSTOM", "operator_name:string domain_name:string implementation_attrs:[u8]"),
    ("FFT", "FFT2D", "inverse:bool local_bound:bool"),
    ("RFFT", "RFFT2D", "local_bound:bool"),
)


def _table(name: str, slots: str) -> Table:
    pairs = [slot.split(":") for slot in slots.split()]
    fields = (Field(word, number, kind) for number, (word, kind) in enumerate(pairs))
    return Table(f"{name}Attribute", tuple(fields))


#: The tables by the value of `attribute_type`.
ATTRIBUTES: Final = {
    code: _table(name, slots) for code, (name, _, slots) in enumerate(_ATTRIBUTES, start=1)
}

#: Operator -> the `attribute_type` that it has, if it has one.
ATTRIBUTE_OF: Final = {
    operator: code
    for code, (_, operators, _) in enumerate(_ATTRIBUTES, start=1)
    for operator in operators.split()
}
