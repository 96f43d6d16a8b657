"""Attributes and types as values in Python, decoded from bytecode by `decode`."""

from __future__ import annotations

from typing import Final

from tosa_convert.records import NamedTuple, dataclass


class TensorType(NamedTuple):
    """A tensor type.

    shape: None if unranked; -1 is a dynamic dimension. element: the element type as MLIR prints it.
    encoded: it has an encoding attribute.
    """

    shape: tuple[int, ...] | None
    element: str
    encoded: bool = False

    def __str__(self) -> str:
        if self.shape is None:
            return f"tensor<*x{self.element}>"
        sizes = "".join(f"{'?' if size < 0 else size}x" for size in self.shape)
        return f"tensor<{sizes}{self.element}>"


class FunctionType(NamedTuple):
    """The types of a function's arguments and results."""

    inputs: tuple[Type, ...]
    results: tuple[Type, ...]

    def __str__(self) -> str:
        results = ", ".join(map(str, self.results))
        if len(self.results) != 1:
            results = f"({results})"
        return f"({', '.join(map(str, self.inputs))}) -> {results}"


#: A tensor or function type, or any other type as MLIR prints it.
Type = TensorType | FunctionType | str


class ScalarAttr(NamedTuple):
    """An integer or a float: its type, and its bits as an unsigned number."""

    type: Type
    bits: int
    is_float: bool

    def signed(self) -> int:
        """Return the integer in two's complement; of type i1, 0 or 1."""
        width = bit_width(self.type)
        return self.bits - (self.bits >> (width - 1) << width) if width > 1 else self.bits


class TypeAttr(NamedTuple):
    """A type as an attribute."""

    type: Type


@dataclass(slots=True, repr=False)
class DenseArrayAttr:
    """array<i64: ...>: the element type, the number of elements, and their bytes."""

    element: Type
    count: int
    data: bytes


class DenseAttr(NamedTuple):
    """dense<...>: the elements' bytes, or the bytes of one element that all share."""

    type: Type
    data: memoryview


class DenseStringsAttr(NamedTuple):
    """dense<"..."> : the strings, or one string that all elements share."""

    type: Type
    is_splat: bool
    strings: list[bytes]


class ResourceAttr(NamedTuple):
    """dense_resource<...>; data is None if the module does not have it. alignment: in bytes."""

    type: Type
    data: memoryview | None
    name: bytes = b""
    alignment: int = 1


class SymbolAttr(NamedTuple):
    """@name: a reference to a symbol."""

    name: bytes


class OpaqueAttr:
    """An attribute that is not decoded, because no TOSA program consists of it."""


#: bytes: a string. str: an attribute of a dialect as MLIR prints it. list, dict: numbers of attributes.
#: None: unit.
Attribute = (
    bytes
    | str
    | list[int]
    | dict[str, int]
    | ScalarAttr
    | TypeAttr
    | DenseArrayAttr
    | DenseAttr
    | DenseStringsAttr
    | ResourceAttr
    | SymbolAttr
    | OpaqueAttr
    | None
)


def bit_width(type_: Type) -> int:
    """Bits of an integer, index or float type; 0 for any other type."""
    known = _COMMON.get(type_)
    if known is not None:
        return known
    if not isinstance(type_, str):
        return 0
    if type_[0] in "sui":
        return _number(type_.lstrip("sui"))
    if type_[0] == "f":  # f32 or f8E4M3FN
        return _number(type_[1:].partition("E")[0])
    return 0


#: Types whose bits are not in their names, and those that most programs have.
_COMMON: Final[dict[Type, int]] = {
    "index": 64,
    "bf16": 16,
    "tf32": 19,
    **{f"i{bits}": bits for bits in (1, 4, 8, 16, 32, 48, 64)},
    **{f"f{bits}": bits for bits in (16, 32, 64)},
}


def _number(digits: str) -> int:
    """Parse an integer of a few ASCII digits; return 0 for any other text."""
    return int(digits) if len(digits) <= 9 and digits.isascii() and digits.isdigit() else 0
