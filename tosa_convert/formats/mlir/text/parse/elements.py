"""Types and constants of MLIR text, added to a bytecode."""

from __future__ import annotations

import re
from binascii import Error as BadHexadecimal
from binascii import unhexlify
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tosa_convert.formats.mlir.bytecode.attributes import FunctionType, TensorType, Type
from tosa_convert.formats.mlir.bytecode.encode import Encoder
from tosa_convert.formats.mlir.bytecode.format import DENSE_STRINGS, UNRANKED_TENSOR_TYPE
from tosa_convert.formats.mlir.text.numbers import (
    BadNumber,
    bits_of,
    is_number,
    ordinary_bytes,
    stored_type,
)
from tosa_convert.formats.mlir.text.parse.cursor import Aliases, TextCursor
from tosa_convert.formats.mlir.text.print.attributes import element_bytes, stored_bytes, value_type
from tosa_convert.formats.mlir.types import TypeWriter
from tosa_convert.graph.lazy_numpy import np

if TYPE_CHECKING:
    import numpy.typing as npt


# -- types of MLIR text, added to a bytecode -------------------------------------------------------

#: The largest size that MLIR can hold.
_LARGEST: Final = 2**63 - 1
_SIZE_DIGITS: Final = len(str(_LARGEST))
#: The most bits of an integer type of MLIR.
_MOST_BITS: Final = 2**24 - 1
#: Types that are remembered by their text have at most this many bytes.
_REMEMBERED: Final = 200

_TENSOR: Final = re.compile(rb"tensor<")
#: Sizes in a row, so few that the regular expression takes little memory.
_SIZES: Final = re.compile(rb"(?:(?:[0-9]+|\?)\s*x\s*){1,100}")
_UNRANKED: Final = re.compile(rb"\*\s*x\s*")
_SIZE: Final = re.compile(rb"[0-9]+|\?")
_ELEMENT: Final = re.compile(rb"[a-z]\w*")
_DIALECT_TYPE: Final = re.compile(rb"![A-Za-z_][\w$]*(?:\.[A-Za-z_][\w$.]*)?")
_BUILTIN: Final = re.compile(
    rb"(?:[su]?i[0-9]+|index|none|bf16|tf32|f(?:16|32|64|80|128)|f[468]E[0-9]M[0-9][A-Z0-9]*)\b(?![.$])"
)
_SIMPLE: Final = re.compile(rb"tensor<(?:[0-9?]+x){0,30}[a-z]\w*>|" + _BUILTIN.pattern)
#: Types of the builtin dialect with parts that no TOSA program has; they are kept as text.
_WITH_PARTS: Final = re.compile(rb"(?:complex|memref|vector|tuple|opaque)(?=\s*<)")


class Parsed(NamedTuple):
    """A type. number: its encoded number in the bytecode."""

    type: Type
    number: bytes


class TypeParser:
    """Parses the types of one text."""

    def __init__(self, cursor: TextCursor, encoder: Encoder, aliases: Aliases) -> None:
        self.cursor = cursor
        self.encoder = encoder
        self.aliases = aliases
        self.writer = TypeWriter(encoder)
        self._known: dict[bytes, Parsed] = {}
        self._numbers: dict[Type, bytes] = {}

    def __call__(self) -> Parsed:
        parsed = self.optional()
        if parsed is None:
            raise self.cursor.unexpected("a type")
        return parsed

    def optional(self) -> Parsed | None:
        cursor = self.cursor
        cursor.skip()
        # Fast path of `_type`; equal by test test_types_parsed_in_place_equal_others
        simple = _SIMPLE.match(cursor.data, cursor.at)
        if simple is not None:
            cursor.at = simple.end()
            text = simple[0]
            parsed = self._known.get(text)
            if parsed is not None:
                return parsed
            cursor.at = simple.start()
            parsed = self._type()
            if parsed is not None and len(text) <= _REMEMBERED:
                self._known[text] = parsed
            return parsed
        return self._type()

    def number(self, type_: Type) -> bytes:
        number = self._numbers.get(type_)
        if number is None:
            number = self._numbers[type_] = self._encode(type_)
        return number

    def parsed(self, type_: Type) -> Parsed:
        """Return a type that is not in the text."""
        return Parsed(type_, self.number(type_))

    def in_parentheses(self) -> list[Parsed]:
        cursor = self.cursor
        cursor.expect(b"(")
        if cursor.accept(b")"):
            return []
        types = self.row()
        cursor.expect(b")")
        return types

    def row(self) -> list[Parsed]:
        types = [self()]
        while self.cursor.accept(b","):
            types.append(self())
        return types

    def results(self) -> list[Parsed]:
        """Parse the types after an arrow: one, or any count in parentheses."""
        return self.in_parentheses() if self.cursor.peek(b"(") else [self()]

    # -- kinds of types -----------------------------------------------------------------------

    def _type(self) -> Parsed | None:
        cursor = self.cursor
        cursor.enter()
        try:
            type_ = self._parse()
        finally:
            cursor.depth -= 1
        return None if type_ is None else self.parsed(type_)

    def _parse(self) -> Type | None:
        cursor = self.cursor
        tensor = cursor.match(_TENSOR)
        if tensor is not None:
            return self._tensor(tensor)
        if cursor.peek(b"("):
            return self._function()
        if cursor.peek(b"!"):
            return self._dialect()
        builtin = cursor.match(_BUILTIN)
        if builtin is not None:
            bits = builtin[0].lstrip(b"siu")
            if bits.isdigit() and (len(bits) > 8 or int(bits) > _MOST_BITS):
                cursor.refuse(f"an integer type has at most {_MOST_BITS} bits", builtin.start())
            return builtin[0].decode()
        start = cursor.at
        if cursor.match(_WITH_PARTS) is not None:
            cursor.skip_balanced(b"<", "'<'")
            return self._text(start)
        return None

    def _text(self, start: int) -> str:
        return bytes(self.cursor.data[start : self.cursor.at]).decode("utf-8", "replace")

    def _tensor(self, head: re.Match[bytes]) -> Type:
        cursor = self.cursor
        sizes: list[int] = []
        while row := _SIZES.match(cursor.data, cursor.at):
            cursor.at = row.end()
            sizes += map(_size, _SIZE.finditer(row[0]))
            cursor.bound(len(sizes), "sizes of a type")
            if max(sizes[-100:]) > _LARGEST:
                cursor.refuse(f"a size is larger than {_LARGEST}", head.start())
        unranked = _UNRANKED.match(cursor.data, cursor.at)
        if unranked:
            cursor.at = unranked.end()
            if sizes:
                cursor.refuse("found sizes before '*', expected only '*'", head.start())
        shape = None if unranked else tuple(sizes)
        at = cursor.at
        element = self().type
        if not isinstance(element, str):
            cursor.refuse(f"found {element} as the element type of a tensor", at)
        encoded = cursor.accept(b",")
        if encoded:
            self._skip_encoding()
        cursor.expect(b">")
        return TensorType(shape, element, encoded)

    def _skip_encoding(self) -> None:
        """Take the encoding of a tensor, which no TOSA program has; the type says that it has one."""
        cursor = self.cursor
        cursor.match(re.compile(rb"[#@]?[\w$.]*"))
        for opened in (b"<", b"{", b"[", b"("):
            if cursor.peek(opened):
                cursor.skip_balanced(opened, repr(opened.decode()))
                return
        cursor.string_span()

    def _function(self) -> FunctionType:
        inputs = self.in_parentheses()
        self.cursor.expect(b"->")
        results = self.results()
        return FunctionType(
            tuple(parsed.type for parsed in inputs), tuple(parsed.type for parsed in results)
        )

    def _dialect(self) -> Type:
        cursor = self.cursor
        start = cursor.at
        head = cursor.match(_DIALECT_TYPE)
        if head is None:
            raise cursor.unexpected("the name of a type")
        if cursor.follows(b"<"):
            cursor.skip_balanced(b"<", "'<'")
            return self._text(start)
        name = head[0]
        if b"." in name and name not in self.aliases:
            return name.decode()
        return self.aliases.resolve(name, start, self.alias)

    def alias(self) -> Type:
        # Up to April 2022 the keyword `type` came before it.
        self.cursor.accept_word(b"type")
        return self().type

    # -- encoding -----------------------------------------------------------------------------

    def _encode(self, type_: Type) -> bytes:
        if isinstance(type_, TensorType):
            element = self.writer.builtin(type_.element)
            if type_.shape is None and not type_.encoded:
                return self.encoder.types(self.encoder.numbers[UNRANKED_TENSOR_TYPE] + element)
            # No reader uses an encoding, so the unknown location takes its place.
            encoding = self.encoder.unknown if type_.encoded else b""
            return self.writer.ranked(type_.shape or (), element, encoding)
        if isinstance(type_, FunctionType):
            inputs, results = (list(map(self.number, types)) for types in type_)
            return self.writer.function(inputs, results)
        return self.writer.builtin(type_)


def _size(found: re.Match[bytes]) -> int:
    """Return a size; one of too many digits to be read is too large."""
    digits = found[0].lstrip(b"0") or b"0"
    if len(digits) > _SIZE_DIGITS:
        return _LARGEST + 1
    return -1 if digits == b"?" else int(digits)


#: Characters of a list of numbers that are converted at once: a number takes 20 times its characters.
_CHUNK: Final = 1 << 16
#: Characters of a list of numbers that are converted without numpy.
_FEW: Final = 1 << 14
#: Hexadecimal digits that are converted at once.
_DIGITS: Final = 1 << 22

#: Bytes of a constant that is written as `sparse`: its text says nothing about its size.
_MOST_SPARSE: Final = 1 << 26

_LIST: Final = re.compile(rb"[-+0-9a-fA-FxXtrulsE.,\[\]\s]*")
_STRUCTURE: Final = bytes(set(range(256)) - set(b"[],"))
_NO_BRACKETS: Final = bytes.maketrans(b"[]", b"  ")
#: A boolean that all elements share, in text and in bytecode.
_BOOLS: Final = {b"true": b"\xff", b"false": b"\0"}
_HEX_STRING: Final = re.compile(rb'"0[xX]')
_TYPED_ELEMENT: Final = re.compile(rb"\s*:\s*([!\w.]+)")


class ElementParser:
    """Parses the constants of one text.

    packed_bools: whether booleans in hexadecimal are packed, if it is known; see `_bools`.
    """

    def __init__(self, cursor: TextCursor, encoder: Encoder, types: TypeParser) -> None:
        self.cursor = cursor
        self.encoder = encoder
        self.types = types
        self.packed_bools: bool | None = None

    def dense(self) -> tuple[bytes, Parsed]:
        """Parse the encoded index and the type of a constant, after the word `dense`."""
        cursor = self.cursor
        start = cursor.at
        cursor.expect(b"<")
        if cursor.match(_HEX_STRING) is not None:
            cursor.at -= len(b'"0x')
            return self._hexadecimal(start)
        content = cursor.match(_LIST)
        assert content is not None
        if not cursor.peek(b">"):
            return self._of_another_kind(start)
        cursor.expect(b">")
        type_ = self._type()
        return self._listed(content.start(), content.end(), type_, start), type_

    def sparse(self) -> tuple[bytes, Parsed]:
        """Parse a constant's encoded index and type, after the word `sparse`: `<indices, values>`."""
        cursor = self.cursor
        start = cursor.at
        cursor.expect(b"<")
        if cursor.accept(b">"):
            places, values = (start, start), (start, start)
        else:
            places = self._bracketed()
            cursor.expect(b",")
            values = self._bracketed()
            cursor.expect(b">")
        type_ = self._type()
        shape, element = self._shape(type_, start)
        if not is_number(element):
            return self._as_text(start, type_)
        found = self._numbers(*values, element, start)
        if prod(shape) * found.dtype.itemsize > _MOST_SPARSE:
            message = f"a sparse constant takes more than {_MOST_SPARSE} bytes"
            raise cursor.coded("too-large", message, start, "write it as dense<...>")
        data = np.zeros(prod(shape), found.dtype)
        sizes = shape or (1,)
        indices = self._indices(*places, len(sizes), start)
        lists = (b"", _brackets((len(found),)))
        if (
            indices is None
            or len(found) not in (1, len(indices))
            or self._structure(*values) not in lists
            or (indices >= np.array(sizes)).any()
        ):
            cursor.refuse("the indices do not fit the values or the type", start)
        if len(indices):
            data[np.ravel_multi_index(tuple(indices.T.astype(np.int64)), sizes)] = found
        return self._encode(type_, element, data), type_

    def _indices(self, start: int, end: int, rank: int, at: int) -> npt.NDArray[Any] | None:
        """Return a row of indices for each element of a sparse constant; None if not in rows."""
        found, structure = self._numbers(start, end, "i64", at), self._structure(start, end)
        rows = len(found) // rank
        if not structure:
            return found if len(found) == 0 else np.repeat(found, rank)[np.newaxis]
        if structure == _brackets((rows, rank)) or (rank == 1 and structure == _brackets((rows,))):
            return found.reshape(-1, rank)
        return None

    def _structure(self, start: int, end: int) -> bytes:
        """Return the brackets and commas of a list between two offsets."""
        return bytes(self.cursor.data[start:end]).translate(None, _STRUCTURE)

    # -- forms --------------------------------------------------------------------------------

    def _hexadecimal(self, start: int) -> tuple[bytes, Parsed]:
        cursor = self.cursor
        span = cursor.string_span()
        assert span is not None
        cursor.expect(b">")
        type_ = self._type()
        shape, element = self._shape(type_, start)
        if not is_number(element):
            return self._strings([bytes(cursor.data[slice(*span)])], type_, splat=True), type_
        data = hex_bytes(cursor, span[0] + len("0x"), span[1])
        count = prod(shape)
        if element == "i1":
            data = self._bools(data, count, start)
        elif len(data) not in (element_bytes(element), stored_bytes(count, element)):
            cursor.refuse(
                f"found {len(data)} bytes, expected {stored_bytes(count, element)} for {type_.type}"
                f" or {element_bytes(element)} for one element",
                start,
            )
        return self.encoder.dense(type_.number, data), type_

    def _bools(self, data: memoryview, count: int, start: int) -> memoryview:
        """Return booleans as bytecode packs them, from the bytes of a text.

        Until April 2022 they were packed and padded with zeros to a byte for each; then packed; from
        March 2026 there is one byte for each. One byte alone may stand for all.
        """
        packed = -(-count // 8)
        raw = np.frombuffer(data, np.uint8)
        if len(data) == count and len(data) > 1:
            if self.packed_bools or int(raw.max()) > 1:
                return data[:packed]
            return memoryview(np.packbits(raw, bitorder="little").data)
        if len(data) == 1 and data[0] in (0, 1, 0xFF) and count != packed:
            return memoryview(b"\xff" if data[0] else b"\0")
        if len(data) != packed:
            self.cursor.refuse(
                f"found {len(data)} bytes for {count} booleans, expected {count} or {packed}", start
            )
        return data

    def _listed(self, start: int, end: int, type_: Parsed, at: int) -> bytes:
        """Encode a constant whose elements are listed between two offsets."""
        shape, element = self._shape(type_, at)
        if not is_number(element):
            return self._as_text(at, type_)[0]
        text = bytes(self.cursor.data[start:end]).strip()
        count = prod(shape)
        if not text:
            if count:
                self.cursor.refuse(f"found no element, expected {count} for {type_.type}", at)
            return self.encoder.dense(type_.number, b"")
        if not count:
            return self.encoder.dense(type_.number, b"")
        self._check_nesting(text, shape, type_, at)
        if len(text) < _FEW:
            tokens = text.translate(_NO_BRACKETS).split(b",")
            found = ordinary_bytes(tokens, element)
            if found is not None:
                return self.encoder.dense(type_.number, found)
            if element == "i1" and len(tokens) == 1 and tokens[0] in _BOOLS and shape != (1,):
                return self.encoder.dense(type_.number, _BOOLS[tokens[0]])
        return self._encode(type_, element, self._numbers(start, end, element, at))

    def _of_another_kind(self, start: int) -> tuple[bytes, Parsed]:
        """Parse a constant of strings, complex numbers or block-scaled elements."""
        cursor = self.cursor
        cursor.at = start
        cursor.skip()
        cursor.at += 1
        content = cursor.at
        strings, listed = self._listed_strings()
        if strings and cursor.accept(b">"):
            own = self._type()
            self._check_nesting(listed, self._shape(own, start)[0], own, start)
            is_splat = not listed.translate(None, _STRUCTURE)
            return self._strings(strings, own, splat=is_splat), own
        cursor.at = content
        type_ = self.types.optional()
        if type_ is not None and cursor.accept(b":"):
            number = self._typed(type_, cursor.at, start)
            return number, type_
        cursor.at = content - 1
        cursor.skip_balanced(b"<", "'<'")
        return self._as_text(start, self._type())

    def _typed(self, type_: Parsed, content: int, start: int) -> bytes:
        """Parse `dense<tensor<...> : [element : type, ...]>`, as block-scaled constants are printed."""
        cursor = self.cursor
        cursor.at = start
        cursor.skip()
        cursor.skip_balanced(b"<", "'<'")
        shape, element = self._shape(type_, start)
        value = value_type(element)
        if not is_number(value):
            return self._as_text(start, type_)[0]
        end = cursor.at - 1
        for own in _TYPED_ELEMENT.finditer(cursor.data[content:end]):
            if own[1] != value.encode():
                found = own[1].decode()
                cursor.refuse(f"found an element of type {found}, expected {value}", start)
        if not prod(shape):
            return self.encoder.dense(type_.number, b"")
        self._check_nesting(bytes(cursor.data[content:end]), shape, type_, start)
        bits = self._numbers(content, end, value, start, typed=True)
        return self._encode(type_, value, bits)

    def _listed_strings(self) -> tuple[list[bytes], bytes]:
        """Parse strings in lists; return them, equal ones as one object, with brackets and commas."""
        cursor = self.cursor
        strings: list[bytes] = []
        known: dict[bytes, bytes] = {}
        listed = bytearray()
        while True:
            while cursor.accept(b"[") or cursor.accept(b"]") or cursor.accept(b","):
                listed.append(cursor.data[cursor.at - 1])
            text = cursor.string()
            if text is None:
                return strings, bytes(listed)
            strings.append(known.setdefault(text, text))

    def _strings(self, strings: list[bytes], type_: Parsed, *, splat: bool) -> bytes:
        """Encode a constant of strings, as `!tosa.mxint8` has them."""
        numbers = self.encoder.numbers
        parts = [self.encoder.string(text) for text in strings]
        head = numbers[DENSE_STRINGS] + type_.number + numbers[int(splat)]
        return self.encoder.attributes(head + b"".join(parts))

    # -- parts --------------------------------------------------------------------------------

    def _check_nesting(self, text: bytes, shape: tuple[int, ...], type_: Parsed, at: int) -> None:
        """Refuse elements that are neither a single one nor lists of the type's sizes."""
        structure = text.translate(None, _STRUCTURE)
        # Each element but the last has a comma, so that few characters cannot be many elements.
        if structure and (prod(shape) > len(structure) or structure != _brackets(shape)):
            message = f"the elements are not in lists of the sizes of {type_.type}"
            self.cursor.refuse(message, at)

    def _bracketed(self) -> tuple[int, int]:
        """Skip a number, or a list in brackets, and return its offsets."""
        cursor = self.cursor
        cursor.skip()
        start = cursor.at
        if cursor.peek(b"["):
            cursor.skip_balanced(b"[", "'['")
        else:
            cursor.match(re.compile(rb"[^\s,>]*"))
        return start, cursor.at

    def _type(self) -> Parsed:
        self.cursor.expect(b":", "':' and the type of the constant")
        return self.types()

    def _shape(self, type_: Parsed, at: int) -> tuple[tuple[int, ...], str]:
        found = type_.type
        if not isinstance(found, TensorType):
            if str(found).startswith("vector<"):
                return (), ""
            self.cursor.refuse(f"found a constant of type {found}, expected a tensor", at)
        if found.shape is None or min(found.shape, default=0) < 0:
            self.cursor.refuse(
                f"found a constant of type {found}, expected sizes that are known", at
            )
        return found.shape, found.element

    def _numbers(
        self, start: int, end: int, element: str, at: int, *, typed: bool = False
    ) -> npt.NDArray[Any]:
        """Return the bits of the numbers between two offsets; typed: each has its type after it."""
        data = self.cursor.data
        if not bytes(data[start : min(end, start + _FEW)]).strip(b"[] \t\r\n"):
            return np.zeros(0, stored_type(element))
        found = bytearray()
        while start < end:
            stop = min(start + _CHUNK, end)
            if stop < end:
                comma = bytes(data[start:stop]).rfind(b",")
                stop = start + comma + 1 if comma > 0 else end
            text = bytes(data[start:stop])
            if typed:
                text = _TYPED_ELEMENT.sub(b"", text)
            bits = self._tokens(text.rstrip(b", \t\r\n") if stop < end else text, element, at)
            found += bits.view(np.uint8).data
            start = stop
        return np.frombuffer(found, stored_type(element))

    def _tokens(self, text: bytes, element: str, at: int) -> npt.NDArray[Any]:
        try:
            return bits_of(text.translate(_NO_BRACKETS).split(b","), element)
        except BadNumber as error:
            self.cursor.refuse(str(error), at)

    def _encode(self, type_: Parsed, element: str, bits: npt.NDArray[Any]) -> bytes:
        """Encode a dense attribute with elements of these bits, or with one for all."""
        if element == "i1":
            packed = np.packbits(bits.astype(bool), bitorder="little")
            if len(bits) == 1 and type_.type != TensorType((1,), "i1"):
                packed = np.array([0xFF if bits[0] else 0], np.uint8)
            return self.encoder.dense(type_.number, memoryview(packed.tobytes()))
        width = element_bytes(element)
        rows = bits.view(np.uint8).reshape(-1, bits.dtype.itemsize)[:, :width]
        return self.encoder.dense(type_.number, np.ascontiguousarray(rows).reshape(-1).data)

    def _as_text(self, start: int, type_: Parsed) -> tuple[bytes, Parsed]:
        """Encode a constant that no TOSA program has, as the beginning of its text."""
        text = bytes(self.cursor.data[start : min(start + 80, self.cursor.at)])
        shown = text.decode("utf-8", "replace")
        return self.encoder.attributes.text(f"dense{shown}... : {type_.type}"), type_


def _brackets(shape: tuple[int, ...]) -> bytes:
    text = b""
    for size in reversed(shape):
        # `join` takes 80 bytes for each part.
        text = b"[" + ((text + b",") * size)[:-1] + b"]"
    return text


def hex_bytes(cursor: TextCursor, start: int, end: int) -> memoryview:
    """Return the bytes that a text has in hexadecimal between two offsets."""
    if (end - start) % 2:
        cursor.refuse("found an odd number of hexadecimal digits", start)
    data = bytearray((end - start) // 2)
    for at in range(start, end, _DIGITS):
        digits = cursor.data[at : min(at + _DIGITS, end)]
        try:
            data[(at - start) // 2 : (at - start + len(digits)) // 2] = unhexlify(digits)
        except BadHexadecimal:
            wrong = re.compile(rb"[0-9a-fA-F]*").match(digits)
            assert wrong is not None
            cursor.refuse("found a character that is no hexadecimal digit", at + wrong.end())
    return memoryview(data).toreadonly()


_RESOURCES_BEGIN: Final = re.compile(rb"\n[ \t]*\{-#")
_RESOURCES_FIRST: Final = re.compile(rb"[ \t]*\{-#")
RESOURCE_NAME: Final = re.compile(rb"[\w$.-]+")
_DIALECTS: Final = b"dialect_resources"
#: The data of a resource begins with its alignment in this many bytes.
_ALIGNMENT_BYTES: Final = 4


class _Digits(NamedTuple):
    """Where a text has the hexadecimal digits of a resource."""

    start: int
    end: int


class Resources:
    """The dialects' resources of one text. begin: where their section begins, or the text ends."""

    def __init__(self, cursor: TextCursor, encoder: Encoder) -> None:
        self.cursor = cursor
        self.encoder = encoder
        self._entries: dict[bytes, _Digits] = {}
        self._numbers: dict[bytes, bytes] = {}
        found = _RESOURCES_FIRST.match(cursor.data) or _RESOURCES_BEGIN.search(cursor.data)
        self.begin = len(cursor.data)
        if found is not None:
            self.begin = found.start()
            cursor.at = found.end()
            self._sections()
            cursor.at = 0

    def number(self, name: bytes, at: int) -> bytes:
        """Return the encoded index of a resource, declared without data if the text has none."""
        number = self._numbers.get(name)
        if number is None:
            entry = self._entries.get(name)
            number = (
                self.encoder.add_resource(name) if entry is None else self._with_data(name, entry)
            )
            self._numbers[name] = number
        return number

    def _with_data(self, name: bytes, entry: _Digits) -> bytes:
        data = hex_bytes(self.cursor, entry.start, entry.end)
        if len(data) < _ALIGNMENT_BYTES:
            self.cursor.refuse("a resource has no alignment, expected 4 bytes or more", entry.start)
        alignment = int.from_bytes(data[:_ALIGNMENT_BYTES], "little")
        if alignment.bit_count() != 1:
            message = f"a resource is aligned to {alignment} bytes, expected a power of two"
            self.cursor.refuse(message, entry.start)
        return self.encoder.add_resource(name, data[_ALIGNMENT_BYTES:], alignment)

    # -- the section --------------------------------------------------------------------------

    def _sections(self) -> None:
        """Parse the kinds of resources; those of other tools are skipped."""
        cursor = self.cursor
        while not cursor.accept(b"#-}"):
            kind = cursor.word()
            if not kind:
                raise cursor.unexpected("'dialect_resources', 'external_resources' or '#-}'")
            cursor.expect(b":")
            if kind == _DIALECTS:
                cursor.expect(b"{")
                while not cursor.accept(b"}"):
                    if not cursor.word():
                        raise cursor.unexpected("the name of a dialect")
                    cursor.expect(b":")
                    self._of_dialect()
                    cursor.accept(b",")
            else:
                cursor.skip()
                cursor.skip_balanced(b"{", "'{'")
            cursor.accept(b",")

    def _of_dialect(self) -> None:
        cursor = self.cursor
        cursor.expect(b"{")
        while not cursor.accept(b"}"):
            cursor.skip()
            at = cursor.at
            name = cursor.name(RESOURCE_NAME, "the name of a resource")
            if name in self._entries:
                cursor.refuse("the resource is there twice", at)
            cursor.expect(b":")
            span = cursor.string_span()
            if span is None or bytes(cursor.data[span[0] : span[0] + 2]).lower() != b"0x":
                raise cursor.unexpected("the bytes of a resource in hexadecimal")
            self._entries[name] = _Digits(span[0] + len("0x"), span[1])
            cursor.accept(b",")
