"""Types of MLIR text, added to a bytecode."""

from __future__ import annotations

import re
from typing import Final

from tosa_convert.formats.mlir.bytecode.attributes import FunctionType, TensorType, Type
from tosa_convert.formats.mlir.bytecode.encode import Encoder
from tosa_convert.formats.mlir.bytecode.format import (
    UNRANKED_TENSOR_TYPE,
)
from tosa_convert.formats.mlir.text.parse.cursor import Aliases, TextCursor
from tosa_convert.formats.mlir.types import TypeWriter
from tosa_convert.records import NamedTuple

#: The largest size that MLIR can hold.
_LARGEST: Final = 2**63 - 1
_DIGITS: Final = len(str(_LARGEST))
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
        """Parse the type that is next."""
        parsed = self.optional()
        if parsed is None:
            raise self.cursor.unexpected("a type")
        return parsed

    def optional(self) -> Parsed | None:
        """Parse the type that is next, or return None if there is none."""
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
        types: list[Parsed] = []
        if not cursor.accept(b")"):
            types.append(self())
            while cursor.accept(b","):
                types.append(self())
            cursor.expect(b")")
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
    if len(digits) > _DIGITS:
        return _LARGEST + 1
    return -1 if digits == b"?" else int(digits)
