"""Attributes and types of a module as MLIR's text."""

from __future__ import annotations

import re
from binascii import hexlify
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import accumulate, islice
from math import prod
from operator import mul
from typing import TYPE_CHECKING, Any, Final

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
    bit_width,
)
from tosa_convert.formats.mlir.bytecode.decode import Bytecode
from tosa_convert.formats.mlir.names import quote
from tosa_convert.formats.mlir.text.numbers import float_text, is_float
from tosa_convert.graph.lazy_numpy import FEW, np

if TYPE_CHECKING:
    import numpy.typing as npt


# -- elements of constants as MLIR's text has them -------------------------------------------------

#: A constant of more elements than this is printed as one string in hexadecimal.
MOST_LISTED: Final = 100
#: Bytes of a constant that are converted to text at once.
CHUNK_BYTES: Final = 1 << 20
#: Elements in a list that are converted to text at once.
CHUNK_ELEMENTS: Final = 1 << 12

_BLOCK_SCALED: Final = re.compile(r"!tosa\.block_scaled<(?:BLOCK\w+:[\w!.]+:)?([\w!.]+)[,>:]")
_MXINT8: Final = "!tosa.mxint8"
_INDEX: Final = "index"
_BOOL: Final = "i1"


def value_type(element: str) -> str:
    """Return the type of a constant's numbers by element type: if block-scaled, without scales."""
    match = _BLOCK_SCALED.match(element)
    value = element if match is None else match[1]
    return "i8" if value == _MXINT8 else value


def integer_text(raw: bytes | memoryview, element: str) -> str:
    """Format an integer from its bytes in memory (INT4 and the like take a byte each)."""
    if element == _BOOL:
        return "true" if raw[0] else "false"
    width, is_signed = bit_width(element), not element.startswith("u")
    bits = int.from_bytes(raw, "little") & (1 << width) - 1
    return str(bits - (bits >> (width - 1) << width) if is_signed else bits)


def element_texts(data: memoryview, element: str) -> list[str]:
    """Format every element, from the bytes that MLIR has in memory; one of i1 takes a byte."""
    width = element_bytes(element)
    raws = [data[at : at + width] for at in range(0, len(data), width)]
    if is_float(element):
        return [float_text(int.from_bytes(raw, "little"), element) for raw in raws]
    return [integer_text(raw, element) for raw in raws]


def element_bytes(element: str) -> int:
    return -(-bit_width(element) // 8)


def stored_bytes(count: int, element: str) -> int:
    """Return how many bytes that many elements take in bytecode."""
    return -(-count // 8) if element == _BOOL else count * element_bytes(element)


def is_printable(element: str) -> bool:
    """Return whether elements of the type can be printed."""
    return (
        is_float(element) or element == _INDEX or (element[0] in "sui" and bit_width(element) > 0)
    )


def splat(data: memoryview, count: int, element: str) -> bytes | None:
    """Return the bytes in memory of the element that all equal; None if they differ or if none."""
    if not count:
        return None
    if element == _BOOL:
        if len(data) == 1 and data[0] in (0, 0xFF):
            return bytes((data[0] & 1,))
        first = bytes((data[0] & 1,))
        chunks = map(bytes, _memory(data, count))
        return first if all(chunk == first * len(chunk) for chunk in chunks) else None
    width = element_bytes(element)
    first = bytes(data[:width])
    if data[width : 2 * width] not in (b"", first):
        return None
    step = max(1, CHUNK_BYTES // width) * width
    parts = (bytes(data[at : at + step]) for at in range(0, len(data), step))
    return first if all(part == first * (len(part) // width) for part in parts) else None


def _memory(data: memoryview, count: int) -> Iterator[memoryview]:
    """Return bits as one byte each, in chunks."""
    if count < FEW:
        # Fast path of the chunks; equal by test test_few_bits_in_memory_are_those_of_many
        bits = int.from_bytes(data, "little")
        yield memoryview(bytes(bits >> index & 1 for index in range(count)))
        return
    for start in range(0, len(data), CHUNK_BYTES // 8):
        packed = np.frombuffer(data[start : start + CHUNK_BYTES // 8], np.uint8)
        unpacked: npt.NDArray[Any] = np.unpackbits(packed, bitorder="little")
        yield unpacked[: count - 8 * start].data


def elements_pieces(
    data: memoryview, shape: tuple[int, ...], element: str, *, lists_booleans: bool = False
) -> Iterator[bytes]:
    """Iterate over what is in `dense<>`; lists_booleans: as releases differ in their hexadecimal."""
    count = prod(shape)
    if not count:
        return
    only = splat(data, count, element)
    if only is not None:
        yield element_texts(memoryview(only), element)[0].encode()
        return
    in_memory = _memory(data, count) if element == _BOOL else iter((data,))
    if count <= MOST_LISTED or (lists_booleans and element == _BOOL):
        texts = [text for chunk in in_memory for text in element_texts(chunk, element)]
        yield from nested(texts, shape)
        return
    yield b'"0x'
    for chunk in in_memory:
        yield from hex_pieces(chunk)
    yield b'"'


def hex_pieces(data: memoryview) -> Iterator[bytes]:
    for start in range(0, len(data), CHUNK_BYTES):
        yield hexlify(data[start : start + CHUNK_BYTES]).upper()


def byte_texts(data: memoryview, element: str) -> Iterator[str]:
    """Iterate over every element with its type, `1.000000e+00 : f8E4M3FN`, of at most a byte."""
    values = element_texts(memoryview(bytes(range(256))), element)
    texts = [f"{text} : {element}" for text in values]
    return map(texts.__getitem__, data)


def nested(texts: Iterable[str], shape: tuple[int, ...]) -> Iterator[bytes]:
    """Format elements in row-major order as nested lists, in pieces of at most CHUNK_ELEMENTS."""
    if not prod(shape):
        return
    if not shape:
        yield "".join(texts).encode()
        return
    elements, (*outer, size) = iter(texts), shape
    #: Rows of a list at each level above the innermost.
    rows = list(accumulate(reversed(outer), mul))
    for number in range(prod(outer)):
        opened = sum(number % count == 0 for count in rows)
        head = "[" * (opened + 1)
        head = f"]{']' * opened}, {head}" if number else head
        for start in range(0, size, CHUNK_ELEMENTS):
            part = ", ".join(islice(elements, min(CHUNK_ELEMENTS, size - start)))
            yield f"{', ' if start else head}{part}".encode()
    yield b"]" * len(shape)


#: Stands in a text before and after the number of a constant in `AttributePrinter.large`, which is too
#: large for a text. No text has it otherwise, because strings are escaped.
LARGE: Final = "\0"
#: Bytes of the largest constant that is part of a text.
SMALL_BYTES: Final = 1 << 12

#: What MLIR prints for constants that it leaves out: a resource that the text does not have.
_ELIDED: Final = "dense_resource<__elided__>"
_BARE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*\Z")
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
        if not value.count:
            return f"array<{value.element}>"
        element = str(value.element)
        return f"array<{element}: {', '.join(element_texts(memoryview(value.data), element))}>"

    def elements(self, value: DenseAttr | DenseStringsAttr | ResourceAttr) -> str:
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
    """Print attributes by name, sorted, in braces; a unit attribute is its name alone."""
    entries = []
    for name in sorted(pairs):
        text = pairs[name]
        entries.append(_bare_text(name) if text == "unit" else f"{_bare_text(name)} = {text}")
    return "{" + ", ".join(entries) + "}"


@lru_cache(_CACHED_NAMES)
def _bare_text(name: str) -> str:
    """Return `bare` for the names of attributes, of which a module has few."""
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
    """Format an attribute for a message: at most 200 characters, and no constant of many elements."""
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
