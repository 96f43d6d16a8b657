"""Attributes and types of a module as MLIR's text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from math import prod
from typing import Final

from tosa_convert.formats.mlir.bytecode.attributes import (
    Attribute,
    DenseArrayAttr,
    DenseAttr,
    DenseStringsAttr,
    FunctionType,
    OpaqueAttr,
    ResourceAttr,
    ScalarAttr,
    SymbolAttr,
    TensorType,
    Type,
    TypeAttr,
)
from tosa_convert.formats.mlir.bytecode.decode import Bytecode
from tosa_convert.formats.mlir.quoting import quote
from tosa_convert.formats.mlir.text.numbers import float_text
from tosa_convert.formats.mlir.text.print.elements import (
    byte_texts,
    element_texts,
    elements_pieces,
    integer_text,
    is_printable,
    nested,
    splat,
    stored_bytes,
    value_type,
)

#: Stands in a text before and after the number of a constant in `AttributePrinter.large`, which is too
#: large for a text. No text has it otherwise, because strings are escaped.
LARGE: Final = "\0"
#: Bytes of the largest constant that is part of a text.
SMALL_BYTES: Final = 1 << 12

#: What MLIR prints for constants that it leaves out: a resource that the text does not have.
_ELIDED: Final = "dense_resource<__elided__>"
_BARE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*\Z")
#: The element type of a block-scaled constant; its values are of the type at the end, before the scales.

#: Names of attributes that are remembered as text.
_CACHED_NAMES: Final = 1 << 8

_ELLIPSIS: Final = "..."
#: Most elements of a constant in a message.
_MOST_ELEMENTS: Final = 8
#: Most characters of an attribute in a message, and most parts of it that are printed.
_SHORT: Final = 200
#: Arrays and dictionaries within one another that are printed in a message.
_MAX_DEPTH: Final = 16


class AttributePrinter:
    """Prints attributes as MLIR does.

    elide: constants of more elements than this are left out, unless one element stands for all.
    lists_booleans: see `elements_pieces`.
    large: the constants, in pieces, that are not in the texts themselves; see LARGE.
    resources: the resources that were printed, by name, in the order of their first use.
    """

    def __init__(
        self, bytecode: Bytecode, elide: int | None = None, *, lists_booleans: bool = False
    ) -> None:
        self.bytecode = bytecode
        self.elide = elide
        self.lists_booleans = lists_booleans
        self.large: dict[int, Iterator[bytes]] = {}
        self._large_count = 0
        self.resources: dict[bytes, ResourceAttr] = {}

    def __call__(self, index: int) -> str:
        """Format the attribute with this index."""
        return self.text(self.bytecode.attribute(index))

    def text(self, value: Attribute) -> str:
        if value is None:
            return "unit"
        if isinstance(value, bytes):
            return quote(value)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return f"[{', '.join(map(self, value))}]"
        if isinstance(value, dict):
            return dictionary({name: self(entry) for name, entry in value.items()})
        if isinstance(value, SymbolAttr):
            return symbol(value.name)
        if isinstance(value, TypeAttr):
            return self.type(value.type)
        if isinstance(value, ScalarAttr):
            return scalar_text(value)
        if isinstance(value, DenseArrayAttr):
            return self.array(value)
        if isinstance(value, (DenseAttr, DenseStringsAttr, ResourceAttr)):
            return self.elements(value)
        assert isinstance(value, OpaqueAttr)
        return _ELLIPSIS

    def type(self, type_: Type) -> str:
        return str(type_)

    def array(self, value: DenseArrayAttr) -> str:
        """Format a dense array, such as `array<i64: 1, 2>`."""
        if not value.count:
            return f"array<{value.element}>"
        element = str(value.element)
        return f"array<{element}: {', '.join(element_texts(memoryview(value.data), element))}>"

    def elements(self, value: DenseAttr | DenseStringsAttr | ResourceAttr) -> str:
        """Format a constant of any number of elements."""
        type_ = value.type
        shape = (type_.shape if isinstance(type_, TensorType) else None) or ()
        if self.elide is not None and prod(shape) > self.elide and not self._is_splat(value, shape):
            return f"{_ELIDED} : {self.type(type_)}"
        if isinstance(value, ResourceAttr):
            self.resources.setdefault(value.name, value)
            return f"dense_resource<{bare(value.name)}> : {self.type(type_)}"
        if isinstance(value, DenseStringsAttr):
            pieces, size = _string_pieces(value, shape), len(value.strings) * len('"0x00", ')
        else:
            pieces, size = _dense_pieces(value, shape, self.lists_booleans), len(value.data)
        if size > SMALL_BYTES:
            self._large_count += 1
            self.large[self._large_count] = pieces
            return f"{LARGE}{self._large_count}{LARGE}"
        return b"".join(pieces).decode()

    def _is_splat(self, value: Attribute, shape: tuple[int, ...]) -> bool:
        """Return whether one element stands for all; MLIR does not look into resources."""
        if isinstance(value, DenseStringsAttr):
            return value.is_splat
        if not isinstance(value, DenseAttr):
            return False
        return splat(value.data, prod(shape), _value_type(value)) is not None


def _value_type(value: DenseAttr) -> str:
    """Return the type of the elements' values: of a block-scaled constant, without the scales."""
    element = value.type.element if isinstance(value.type, TensorType) else str(value.type)
    return value_type(element)


def _dense_pieces(
    value: DenseAttr, shape: tuple[int, ...], lists_booleans: bool
) -> Iterator[bytes]:
    type_, element = str(value.type), _value_type(value)
    if isinstance(value.type, TensorType) and value.type.element.startswith("!tosa.block_scaled<"):
        yield f"dense<{type_} : ".encode()
        only = splat(value.data, prod(shape), element)
        data, sizes = (value.data, shape) if only is None else (memoryview(only), ())
        yield from nested(byte_texts(data, element), sizes)
        yield b">"
        return
    yield b"dense<"
    yield from elements_pieces(value.data, shape, element, lists_booleans=lists_booleans)
    yield f"> : {type_}".encode()


def _string_pieces(value: DenseStringsAttr, shape: tuple[int, ...]) -> Iterator[bytes]:
    yield b"dense<"
    yield from nested(map(quote, value.strings), () if value.is_splat else shape)
    yield f"> : {value.type}".encode()


def dictionary(pairs: dict[str, str]) -> str:
    """Attributes by name, sorted, in braces; a unit attribute is its name alone."""
    entries = []
    for name in sorted(pairs):
        text = pairs[name]
        entries.append(_bare_text(name) if text == "unit" else f"{_bare_text(name)} = {text}")
    return "{" + ", ".join(entries) + "}"


@lru_cache(_CACHED_NAMES)
def _bare_text(name: str) -> str:
    """`bare` for the names of attributes, of which a module has few."""
    return bare(name.encode())


def scalar_text(value: ScalarAttr) -> str:
    """Format an integer or a float with its type; of i1, true or false."""
    element = str(value.type)
    if value.is_float:
        if not is_printable(element):
            return f"{_ELLIPSIS} : {element}"
        return f"{float_text(value.bits, element)} : {element}"
    text = integer_text(
        value.bits.to_bytes(-(-value.bits.bit_length() // 8) or 1, "little"), element
    )
    return text if element == "i1" else f"{text} : {element}"


def bare(name: bytes) -> str:
    """Format a name of an attribute, a symbol or a resource: in quotes unless it is an identifier."""
    text = name.decode("utf-8", "replace")
    return text if _BARE_NAME.match(text) else quote(name)


def symbol(name: bytes) -> str:
    return f"@{bare(name)}"


# -- for messages -----------------------------------------------------------------------------------


def short_text(bytecode: Bytecode, index: int) -> str:
    """Format an attribute for a message: at most 200 characters, and no constant of many elements.

    Attributes may share their parts, so that the whole text can be much longer than the file.
    """
    return _cut(_ShortPrinter(bytecode)(index))


class _ShortPrinter(AttributePrinter):
    """Prints as much of an attribute as `short_text` shows. The bytes may be hostile."""

    def __init__(self, bytecode: Bytecode) -> None:
        super().__init__(bytecode)
        self.depth = 0
        self.left = _SHORT

    def __call__(self, index: int) -> str:
        self.left -= 1
        if self.left < 0 or self.depth > _MAX_DEPTH:
            return _ELLIPSIS
        self.depth += 1
        text = _cut(self.text(self.bytecode.attribute(index)))
        self.depth -= 1
        return text

    def text(self, value: Attribute) -> str:
        if isinstance(value, (bytes, list)):
            return super().text(value[: _SHORT + 1])
        if isinstance(value, dict):
            return super().text(dict(islice(value.items(), _SHORT)))
        if isinstance(value, SymbolAttr):
            return symbol(value.name[: _SHORT + 1])
        return super().text(value)

    def type(self, type_: Type) -> str:
        if isinstance(type_, TensorType):
            shape = type_.shape
            return _cut(str(TensorType(shape[:_SHORT] if shape else shape, _cut(type_.element))))
        if isinstance(type_, str):
            return _cut(type_)
        inputs, results = (
            tuple(self.type(part) if isinstance(part, (str, TensorType)) else _ELLIPSIS
                  for part in parts[:_SHORT])
            for parts in type_
        )  # fmt: skip
        return _cut(str(FunctionType(inputs, results)))

    def array(self, value: DenseArrayAttr) -> str:
        element = str(value.element)
        if value.count and not is_printable(element):
            return f"array<{_cut(element)}: {_ELLIPSIS}>"
        count = min(value.count, _SHORT)
        width = len(value.data) // value.count if value.count else 0
        return super().array(DenseArrayAttr(value.element, count, value.data[: count * width]))

    def elements(self, value: DenseAttr | DenseStringsAttr | ResourceAttr) -> str:
        if isinstance(value, ResourceAttr):
            name = bare(value.name[: _SHORT + 1])
            return f"dense_resource<{name}> : {self.type(value.type)}"
        if isinstance(value, DenseAttr) and isinstance(value.type, TensorType):
            count, element = prod(value.type.shape or ()), value.type.element
            is_short = len(value.type.shape or ()) <= _SHORT and is_printable(element)
            is_one = len(value.data) == stored_bytes(1, element)
            if not count or (is_short and (is_one or self._is_listed(value, count, element))):
                return super().elements(value)
        return f"dense<{_ELLIPSIS}> : {self.type(value.type)}"

    def _is_listed(self, value: DenseAttr, count: int, element: str) -> bool:
        return count <= _MOST_ELEMENTS and len(value.data) == stored_bytes(count, element)


def _cut(text: str) -> str:
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}{_ELLIPSIS}"
