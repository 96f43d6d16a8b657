"""Values of a builder, and Python arguments of its functions as values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from inspect import Parameter
from operator import index
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from tosa_convert.errors import fail
from tosa_convert.graph.constant import dtype_of_array
from tosa_convert.graph.dtypes import DTYPES, DType, RoundingMode
from tosa_convert.graph.model import DYNAMIC, Block
from tosa_convert.graph.opset import AttributeSpec, AttributeValue, OperandSpec, OperatorSpec
from tosa_convert.rules.operator_view import ShapeType, Size, TensorType, ValueType

#: The names of element types, for type checkers: in TOSA, in lower case, and in MLIR.
DTypeName = Literal[
    "BOOL", "bool", "i1", "INT4", "int4", "i4", "INT8", "int8", "i8", "INT16", "int16", "i16",
    "INT32", "int32", "i32", "INT48", "int48", "i48", "FP32", "fp32", "f32", "FP16", "fp16", "f16",
    "BF16", "bf16", "FP8E4M3", "fp8e4m3", "f8E4M3FN", "FP8E5M2", "fp8e5m2", "f8E5M2",
    "FP6E2M3", "fp6e2m3", "f6E2M3FN", "FP6E3M2", "fp6e3m2", "f6E3M2FN",
    "FP4E2M1", "fp4e2m1", "f4E2M1FN", "FP8UE8M0", "fp8ue8m0", "f8E8M0FNU",
    "INT64", "int64", "i64", "MXINT8", "mxint8", "!tosa.mxint8"
]  # fmt: skip
#: An element type as users give it: "FP32", "fp32", "f32", np.float32, or a `DType`.
DTypeLike = DTypeName | DType | np.dtype[Any] | type[Any]
#: One or several numbers.
Data = npt.NDArray[Any] | Sequence[Any] | float

_BY_NAME: Final = {name: row for row in DTYPES for name in (row.name, row.name.lower(), row.mlir)}


@dataclass(slots=True, eq=False, repr=False)
class Value:
    """A tensor or a shape of a program that is being built.

    name: its name in the program. `Builder.output` can set another.
    type: its element type and shape, or the sizes of a shape.
    block: the block that it belongs to.
    """

    name: str
    type: ValueType
    block: Block

    @property
    def is_shape(self) -> bool:
        """Return whether it is a !tosa.shape, not a tensor."""
        return isinstance(self.type, ShapeType)

    @property
    def dtype(self) -> DType:
        """Return the element type of a tensor.

        Raises:
            TypeError: It is a shape.
        """
        if not isinstance(self.type, TensorType):
            raise TypeError(f'"{self.name}" is a shape, not a tensor')
        return self.type.dtype

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Return the sizes of a tensor in elements, -1 where unknown; None if its rank is unknown.

        Raises:
            TypeError: It is a shape.
        """
        if not isinstance(self.type, TensorType):
            raise TypeError(f'"{self.name}" is a shape, not a tensor')
        return self.type.shape

    @property
    def sizes(self) -> tuple[Size, ...]:
        """Return the values of a shape, None where unknown.

        Raises:
            TypeError: It is a tensor.
        """
        if not isinstance(self.type, ShapeType):
            raise TypeError(f'"{self.name}" is a tensor, not a shape')
        return self.type.sizes

    def __repr__(self) -> str:
        return f"Value({self.name}: {self.type})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Variable:
    """A variable: state that outlives a run. `Builder.read` and `Builder.write` use it."""

    name: str
    type: TensorType

    def __repr__(self) -> str:
        return f"Variable({self.name}: {self.type})"


def dtype_of(given: DTypeLike | str) -> DType:
    """Return the element type that a user names; of a computed name too, which it checks.

    Raises:
        TosaConvertError: "unsupported-dtype".

    Example:
        >>> dtype_of("fp32"), dtype_of("i8"), dtype_of(np.int32)
        (FP32, INT8, INT32)
    """
    if isinstance(given, DType):
        return given
    element = _BY_NAME.get(given) if isinstance(given, str) else _of_numpy(given)
    if element is None:
        names = ", ".join(row.name for row in DTYPES)
        shown = given if isinstance(given, str) else repr(given)
        raise fail(
            "unsupported-dtype",
            "",
            f"TOSA does not have the element type {shown}",
            f"use one of {names}",
        )
    return element


def _of_numpy(given: np.dtype[Any] | type[Any] | None) -> DType | None:
    """Return the element type of a type of numpy or ml_dtypes; None if there is none."""
    # numpy reads None, float and int as types of 64 bits, and calls them equal to these.
    if given is None or any(given is plain for plain in (float, int, complex)):
        return None
    try:
        return dtype_of_array(np.empty(0, given))
    except TypeError:
        return None


#: An operand as users give it: a value, or the elements of a constant.
Operand = Value | Data
#: A !tosa.shape operand as users give it: a value, or the sizes of a constant.
Sizes = Value | Sequence[int]


# -- arguments of a builder's functions: a wrong Python type is a `TypeError` that names it --------

#: The longest text of an argument in a message.
_MOST_SHOWN: Final = 80


class WrongArgument(TypeError):
    """An argument of a wrong Python type."""


def wrong(label: str, given: object, expected: str) -> WrongArgument:
    """Return the error for an argument, such as "add() argument input2", of a wrong Python type."""
    text = repr(given)
    if len(text) > _MOST_SHOWN:
        text = f"{text[:_MOST_SHOWN]}..."
    return WrongArgument(f"{label}: found {text} ({type(given).__name__}), expected {expected}")


def integer(label: str, given: Any) -> int:
    """Return an integer. A float is not one, even if it has no fraction."""
    if isinstance(given, (bool, np.bool_)):
        raise wrong(label, given, "an integer")
    try:
        return index(given)
    except TypeError:
        raise wrong(label, given, "an integer") from None


def integers(label: str, given: Any) -> tuple[int, ...]:
    """Return a sequence of integers, such as the sizes of a shape, as a tuple."""
    if isinstance(given, (str, bytes, Value)) or not isinstance(given, Iterable):
        raise wrong(label, given, "a sequence of integers")
    return tuple(integer(label, item) for item in given)


def shape(label: str, given: Any) -> tuple[int, ...] | None:
    """Return the sizes of a tensor, DYNAMIC where unknown; None for an unknown rank."""
    return None if given is None else integers(label, given)


def text(label: str, given: Any) -> str:
    """Return an argument that must be a string."""
    if not isinstance(given, str):
        raise wrong(label, given, "a string")
    return given


def names(label: str, given: Any) -> tuple[str, ...]:
    """Return the names of results: one string or several; none for the empty string."""
    if isinstance(given, str):
        return (given,) if given else ()
    if not isinstance(given, Iterable):
        raise wrong(label, given, "a string or a sequence of strings")
    return tuple(text(label, item) for item in given)


def values(label: str, given: Any) -> tuple[Value, ...]:
    """Return a sequence of values as a tuple; one value is not a sequence."""
    if isinstance(given, (str, Value)) or not isinstance(given, Iterable):
        raise wrong(label, given, "a sequence of values of the builder")
    return tuple(value(label, item) for item in given)


def value(label: str, given: Any) -> Value:
    """Return an argument that must be a value of a builder."""
    if not isinstance(given, Value):
        raise wrong(label, given, "a value of the builder, such as input() or const() returns")
    return given


def array(label: str, given: Data) -> npt.NDArray[Any]:
    """Return data as an array of real numbers or truth values."""
    try:
        made = np.asarray(given)
    except (ValueError, TypeError, OverflowError):
        made = np.asarray(None)
    # "V" are the types of ml_dtypes.
    if made.dtype.kind not in "biufV" or (made.dtype.kind == "V" and made.dtype.names):
        raise wrong(label, given, "numbers: an array, or nested sequences of equal lengths")
    return made


def attribute(label: str, row: AttributeSpec, given: Any) -> AttributeValue:
    """Return the value of an attribute of any kind but "element"."""
    if row.enum is not None:
        return _member(label, row.enum, given)
    return _OF_KIND[row.kind](label, given)


def _member(label: str, enum: type[IntEnum], given: Any) -> IntEnum:
    """Return a member of an enum, given as itself, by its name or by its value."""
    if isinstance(given, str) and given.upper() in enum.__members__:
        return enum[given.upper()]
    if isinstance(given, int) and not isinstance(given, bool) and given in set(enum):
        return enum(given)
    choices = ", ".join(member.name for member in enum)
    raise wrong(label, given, f"one of {choices}")


def _flag(label: str, given: Any) -> bool:
    if not isinstance(given, (bool, np.bool_)):
        raise wrong(label, given, "True or False")
    return bool(given)


_OF_KIND: Final[dict[str, Callable[[str, Any], AttributeValue]]] = {
    "i32": integer,
    "i32s": integers,
    "bool": _flag,
    "dtype": lambda label, given: dtype_of(given),
    "string": text,
}


def static(sizes: Sequence[int] | None) -> bool:
    """Return whether all sizes of a shape are known."""
    return sizes is not None and DYNAMIC not in sizes


#: Attributes with a default that the operator table does not give them: one value for all elements.
_EVERY_ELEMENT: Final = {"pad": 0, "out_pad": 0, "stride": 1, "dilation": 1}
#: The defaults of other attributes. None: it follows from the operands.
_DEFAULTS: Final[dict[str, Any]] = {
    **dict.fromkeys(("per_channel", "input_unsigned", "output_unsigned", "inverse"), False),
    **dict.fromkeys(("allow_broadcast", "round"), False),
    "scale32": True,
    "rounding_mode": RoundingMode.SINGLE_ROUND,
    "acc_type": None,
    "block_size": None,
}


def has_default(row: OperandSpec) -> bool:
    """Return whether an operand may be left out."""
    return row.arity == "?" or row.default is not None


def default_of(row: AttributeSpec) -> Any:
    """Return the value of an attribute that is left out; `Parameter.empty` if it must be given."""
    if row.optional:
        return row.default
    if row.name in _EVERY_ELEMENT and row.length > 0:
        return (_EVERY_ELEMENT[row.name],) * row.length
    return _DEFAULTS.get(row.name, Parameter.empty)


def complete_attributes(
    spec: OperatorSpec, given: Mapping[str, AttributeValue]
) -> dict[str, AttributeValue]:
    """Return attributes in the order of the operator's row, with the defaults of those left out."""
    if not spec.attributes and not given:
        return {}
    found = {row.name: given.get(row.name, default_of(row)) for row in spec.attributes}
    known = {name: value for name, value in found.items() if value not in (None, Parameter.empty)}
    return {**known, **given}
