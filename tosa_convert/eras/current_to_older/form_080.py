"""A program in the form of `.tosa` files of TOSA 0.80.

It is that of the dialect at the beginning of 2025, except that tables, paddings and permutations are
attributes. Source: the files of two serializers of 0.80.1, and what Vela 4.5.0 reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tosa_convert.eras.current_to_older.editor import DowngradeEditor
from tosa_convert.eras.current_to_older.program import Form
from tosa_convert.eras.dialect_states import BF16_ACCUMULATORS, OPERANDS, OPERATORS
from tosa_convert.eras.older_to_current.editor import Refused
from tosa_convert.eras.older_to_current.old_operation import Integer, Integers, WrittenValue
from tosa_convert.eras.table import DOWNGRADES, Downgrade
from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.model import Block, Operator

#: The state of the dialect whose operators have the attributes of 0.80.
_STATE: Final = "2025-01"
#: Operators and element types that MLIR had in that state, and 0.80 did not.
_OPERATORS: Final = frozenset({"SIN", "COS"})
_TYPES: Final = frozenset({"FP8E4M3", "FP8E5M2", "INT64"})
#: Lists of 16-bit integers; all other integers have 32 bits.
_SHORT_LISTS: Final = frozenset({"scale", "offset", "border", "table"})


class _Form080(Form):
    """The form of files. who: reads it, for messages."""

    def __init__(self, who: str) -> None:
        super().__init__(_STATE, who, _DOWNGRADES)

    def editor(self, block: Block) -> DowngradeEditor:
        return _DowngradeEditor(block, self.state)

    def has_operator(self, operator: Operator) -> bool:
        name = operator.spec.name
        return name == "DIM" or (super().has_operator(operator) and name not in _OPERATORS)

    def has_type(self, dtype: DType) -> bool:
        return super().has_type(dtype) and dtype.name not in _TYPES


def form_080(reader: str = "") -> Form:
    """Return the form of `.tosa` files of TOSA 0.80.

    reader: the program that is to read it, for messages.
    """
    return _Form080(reader or "TOSA 0.80")


class _DowngradeEditor(DowngradeEditor):
    largest_bound = 2.0**31 - 1

    def since(self, state: str) -> str:
        return "TOSA 1.1" if state >= BF16_ACCUMULATORS else "TOSA 1.0"

    def downgrade(
        self, op: Operator, own: dict[str, WrittenValue], inputs: Sequence[str] | None = None
    ) -> None:
        """Add an operator as for MLIR; refuse integers that do not fit into the field of a file."""
        for name, value in own.items():
            bits = 16 if name in _SHORT_LISTS else 32
            numbers = value.values if isinstance(value, Integers) else ()
            if isinstance(value, Integer):
                numbers = (value.value,)
            for number in numbers:
                if not -(1 << bits - 1) <= number < 1 << bits - 1:
                    raise Refused(f"{name} has the value {number}, expected {bits} bits")
        super().downgrade(op, own, inputs)


def _pad(edit: DowngradeEditor, op: Operator) -> None:
    """Turn the padding and its value into attributes."""
    image, padding, value = op.inputs
    number = edit.only_number(value, "pad_const")
    is_float = edit.tensors[image].dtype.is_float
    own: dict[str, WrittenValue] = {
        "padding": Integers(edit.sizes(padding, "padding"), 32),
        "pad_const_int": Integer(0 if is_float else int(number), 32),
        "pad_const_fp": number if is_float else 0.0,
    }
    edit.downgrade(op, own, (image,))


def _table(edit: DowngradeEditor, op: Operator) -> None:
    """Turn the table into an attribute."""
    values = edit.numbers(op.inputs[1], "table")
    edit.downgrade(op, {"table": Integers(values, 16)}, op.inputs[:1])


def _dim(edit: DowngradeEditor, op: Operator) -> None:
    raise Refused("its result would be a tensor of the type SHAPE, which is not written")


#: Operators whose form was another one; a permutation is an attribute, as it is today.
_DOWNGRADES: Final[dict[str, tuple[str, Downgrade]]] = {
    name: row for name, row in DOWNGRADES.items() if name != "TRANSPOSE"
} | {
    "DIM": (OPERATORS["DIM"], _dim),
    "PAD": (OPERANDS, _pad),
    "TABLE": (OPERANDS, _table),
}
