"""The states of MLIR's TOSA dialect, by the month of the first release: names sort by time."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from tosa_convert.errors import fail
from tosa_convert.graph import opset
from tosa_convert.graph.dtypes import DTYPES

#: States in which the form of something changed.
_FORMS: Final = (
    *("2022-01", "2022-05", "2022-07", "2022-09", "2022-12"),
    *("2023-02", "2023-04", "2023-05", "2023-08", "2023-10", "2023-11", "2023-12"),
    *("2024-01", "2024-04", "2024-07"),
    *("2025-01", "2025-02", "2025-03", "2025-04", "2025-06", "2025-09", "2025-10", "2025-11"),
    *("2026-01", "2026-02", "2026-05", "2026-08"),
)
#: The states, oldest first: these, and those that added operators.
STATES: Final = tuple(sorted({*_FORMS, *(row.state for row in opset.OPERATORS if row.state)}))
#: The month of the newest release that was tried; it has the last state.
NEWEST_MONTH: Final = "2026-10"
#: Functions are operations of the dialect `func`; before, of `builtin` and `std`.
FUNC_DIALECT: Final = "2022-05"
#: Zero points are attributes of the dialect; before, dictionaries.
QUANTISATION_ATTRIBUTES: Final = "2022-07"
#: TRANSPOSE_CONV2D has four values of `out_pad` and no dilation; before, two values and a dilation.
FOUR_OUT_PADS: Final = "2022-07"
#: There is bytecode.
BYTECODE: Final = "2022-09"
#: RESIZE has scale, offset and border; before, stride and shift.
RESIZE_SCALES: Final = "2022-12"
#: CUSTOM has `config` and `implementation_attrs`.
CUSTOM_CONFIG: Final = "2022-12"
#: A dynamic size is the least integer of 64 bits; before, it was -1.
LEAST_DYNAMIC_SIZE: Final = "2022-12"
#: Lists of integers are dense arrays; before, arrays of attributes.
DENSE_ARRAYS: Final = "2023-02"
#: Positive values of `out_pad` add to the size of the result; before, they took away.
OUT_PAD_ADDS: Final = "2023-02"
#: Version 1 of bytecode is read; before, only version 0.
BYTECODE_1: Final = "2023-04"
#: AVG_POOL2D has `acc_type`.
POOL_ACCUMULATORS: Final = "2023-08"
#: An axis has 32 bits; before, 64.
NARROW_AXES: Final = "2023-10"
#: CUSTOM has its names of today, and the shift of MUL has 8 bits; before, 32.
OPERATOR_NAMES: Final = "2023-11"
#: The shifts of RESCALE have 8 bits; before, 32.
NARROW_SHIFTS: Final = "2024-01"
#: RESCALE says whether its operand and result are unsigned.
UNSIGNED_FLAGS: Final = "2025-01"
#: There are values of shapes, which PAD and TILE take; the shift of MUL is an operand; convolutions
#: have `acc_type`.
SHAPES: Final = "2025-02"
#: The forms of TOSA 1.0: zero points and sizes are operands, constants have `values`.
OPERANDS: Final = "2025-03"
#: A variable has an element type and a shape; before, a type.
VARIABLE_SHAPES: Final = "2025-06"
#: Enums are attributes of the dialect; before, strings.
ENUMS: Final = "2025-09"
#: A variable has `sym_name`; before, `name`.
VARIABLE_SYMBOLS: Final = "2025-10"
#: Text in hexadecimal has a byte for each boolean; before, a bit.
BOOLEAN_BYTES: Final = "2026-02"
#: A location can be a range in a file.
LOCATION_RANGES: Final = "2025-01"

_MONTH: Final = re.compile(r"20[0-9]{2}-(0[1-9]|1[0-2])\Z")

#: Attributes -> the state that added them, unless a rule knows more.
ATTRIBUTES: Final = {"nan_mode": "2025-02", "local_bound": "2023-12"}

#: Operators -> the state that added them; all others are in the first one.
OPERATORS: Final = {row.name: row.state for row in opset.OPERATORS if row.state}

#: Element types -> the state that added them; all others are in the first one.
TYPES: Final = {row.name: row.state for row in DTYPES if row.state}
#: Operators other than CONST and convolutions take INT4.
INT4_OPERANDS: Final = "2024-07"
#: Tensors have scales.
BLOCK_SCALES: Final = "2026-08"


class Renamed(NamedTuple):
    """An operation that has another name today. until: the state from which it has that of today."""

    today: str
    until: str


#: Names of operations that others have replaced.
RENAMED: Final = {
    old: Renamed(row.mlir, until) for row in opset.OPERATORS for old, until in row.old_names
}


def name_in(state: str, mlir: str) -> str:
    """Return the name that a current operation had in a state.

    Example:
        >>> name_in("2024-01", "tosa.intdiv"), name_in("2024-07", "tosa.intdiv")
        ('tosa.div', 'tosa.int_div')
    """
    names = [old for old, row in RENAMED.items() if row.today == mlir and state < row.until]
    return names[0] if names else mlir


def state_of(month: str, option: str = "dialect") -> str:
    """Return the state of the dialect in a month."""
    if not _MONTH.match(month) or month < STATES[0]:
        raise fail(
            "option-conflict",
            option,
            f"found {month!r}, expected a month from {STATES[0]} on, such as 2023-02",
        )
    if month > NEWEST_MONTH:
        raise fail(
            "option-conflict",
            option,
            f"found {month!r}, and the newest release that was tried is of {NEWEST_MONTH}",
            "leave it out for the form of today",
        )
    return next(state for state in reversed(STATES) if state <= month)
