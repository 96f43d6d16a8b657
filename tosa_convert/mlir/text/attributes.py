"""Attributes and types of a module as MLIR's text."""

from __future__ import annotations

import re
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, Final

from tosa_convert.mlir.bytecode.attributes import (
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
from tosa_convert.mlir.quoting import quote
from tosa_convert.mlir.text.elements import (
    element_texts,
    float_text,
    is_printable,
    is_splat,
    nested,
    splat_text,
    stored_bytes,
)

if TYPE_CHECKING:
    from tosa_convert.mlir.bytecode.decode import Bytecode


_BARE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*\Z")
_ELLIPSIS: Final = "..."
#: Most elements of a constant in a message.
_MOST_ELEMENTS: Final = 8
#: Most characters of an attribute in a message, and most parts of it that are printed.
_SHORT: Final = 200
#: Arrays and dictionaries within one another that are printed.
_MAX_DEPTH: Final = 16


def short_text(bytecode: Bytecode, index: int) -> str:
    """An attribute for a message: at most 200 characters of it, and no constant of many elements.

    Attributes may share their parts, so that the whole text can be much longer than the file.
    """
    return _cut(_ShortPrinter(bytecode)(index))


class _ShortPrinter:
    """Prints an attribute as MLIR does, as much of it as `short_text` shows."""

    def __init__(self, bytecode: Bytecode) -> None:
        self.bytecode = bytecode
        self.depth = 0
        self.left = _SHORT

    def __call__(self, index: int) -> str:
        self.left -= 1
        if self.left < 0 or self.depth > _MAX_DEPTH:
            return _ELLIPSIS
        self.depth += 1
        text = _cut(self._text(self.bytecode.attribute(index)))
        self.depth -= 1
        return text

    def _text(self, value: Attribute) -> str:
        if value is None:
            return "unit"
        if isinstance(value, bytes):
            return quote(value[: _SHORT + 1])
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return f"[{', '.join(map(self, value[:_SHORT]))}]"
        if isinstance(value, dict):
            pairs = islice(value.items(), _SHORT)
            return dictionary({name: self(entry) for name, entry in pairs})
        if isinstance(value, SymbolAttr):
            return symbol(value.name[: _SHORT + 1])
        if isinstance(value, TypeAttr):
            return type_text(value.type)
        if isinstance(value, ScalarAttr):
            return scalar_text(value)
        if isinstance(value, DenseArrayAttr):
            return array_text(value)
        if isinstance(value, DenseAttr):
            return f"dense<{_elements(value)}> : {type_text(value.type)}"
        if isinstance(value, DenseStringsAttr):
            return f"dense<{_ELLIPSIS}> : {type_text(value.type)}"
        if isinstance(value, ResourceAttr):
            name = bare(value.name[: _SHORT + 1].decode("utf-8", "replace"))
            return f"dense_resource<{name}> : {type_text(value.type)}"
        assert isinstance(value, OpaqueAttr)
        return _ELLIPSIS


def _cut(text: str) -> str:
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}{_ELLIPSIS}"


def _elements(value: DenseAttr) -> str:
    """The elements of a constant that has few of them."""
    if not isinstance(value.type, TensorType):
        return _ELLIPSIS
    shape, element = value.type.shape or (), value.type.element
    count, data = prod(shape), value.data
    if not count:
        return ""
    if not is_printable(element):
        return _ELLIPSIS
    if is_splat(data, count, element):
        return splat_text(bytes(data), element)
    if count > _MOST_ELEMENTS or len(data) != stored_bytes(count, element):
        return _ELLIPSIS
    return nested(element_texts(data, count, element), shape)


def type_text(type_: Type) -> str:
    """A type as MLIR prints it, for a message."""
    if isinstance(type_, TensorType):
        shape = type_.shape
        return _cut(str(TensorType(shape[:_SHORT] if shape else shape, _cut(type_.element))))
    if isinstance(type_, str):
        return _cut(type_)
    inputs, results = (
        tuple(type_text(part) if isinstance(part, (str, TensorType)) else _ELLIPSIS
              for part in parts[:_SHORT])
        for parts in type_
    )  # fmt: skip
    return _cut(str(FunctionType(inputs, results)))


def dictionary(pairs: dict[str, str]) -> str:
    """Attributes by name, sorted, in braces; a unit attribute is its name alone."""
    entries = (
        name if text == "unit" else f"{name} = {text}"
        for name, text in ((bare(name), pairs[name]) for name in sorted(pairs))
    )
    return "{" + ", ".join(entries) + "}"


def scalar_text(value: ScalarAttr) -> str:
    """An integer or a float with its type; of i1, true or false."""
    if value.type == "i1":
        return "true" if value.bits else "false"
    if value.is_float:
        if not is_printable(str(value.type)):
            return f"... : {value.type}"
        return f"{float_text(value.bits, str(value.type))} : {value.type}"
    number = value.bits if str(value.type).startswith("ui") else value.signed()
    return f"{number} : {value.type}"


def array_text(value: DenseArrayAttr) -> str:
    """A dense array, such as `array<i64: 1, 2>`."""
    if not value.count:
        return f"array<{value.element}>"
    element, count = str(value.element), min(value.count, _SHORT)
    if not is_printable(element):
        return f"array<{_cut(element)}: ...>"
    width = len(value.data) // value.count
    texts = element_texts(memoryview(value.data)[: count * width], count, element)
    return f"array<{value.element}: {', '.join(texts)}>"


def bare(name: str) -> str:
    """A name of an attribute, a symbol or a resource: in quotes unless it is an identifier."""
    return name if _BARE_NAME.match(name) else quote(name.encode())


def symbol(name: bytes) -> str:
    """A reference to a symbol, such as `@main`."""
    return f"@{bare(name.decode('utf-8', 'replace'))}"
