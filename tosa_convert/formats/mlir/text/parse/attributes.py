"""Attributes of MLIR text, added to a bytecode."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Final
from weakref import proxy

from tosa_convert.formats.mlir.bytecode import format as code
from tosa_convert.formats.mlir.bytecode.attributes import TensorType, bit_width
from tosa_convert.formats.mlir.bytecode.encode import Encoder, LocationEntries
from tosa_convert.formats.mlir.text.numbers import (
    BadNumber,
    bits_of,
    integers,
    is_number,
    ordinary_bytes,
)
from tosa_convert.formats.mlir.text.parse.cursor import Aliases, TextCursor
from tosa_convert.formats.mlir.text.parse.elements import (
    RESOURCE_NAME,
    ElementParser,
    Parsed,
    Resources,
    TypeParser,
)
from tosa_convert.formats.mlir.text.print.attributes import element_bytes
from tosa_convert.formats.mlir.types import AttributeWriter

# -- locations of MLIR text, added to a bytecode ---------------------------------------------------

#: Lines and columns are at most this.
_LARGEST: Final = 0xFFFFFFFF
#: Bytes that are searched for line ends at once.
_BLOCK: Final = 1 << 16

_LINE_NUMBER: Final = re.compile(rb"[0-9]+")
_ALIAS: Final = re.compile(rb"#[\w$.-]+(?!\s*<)")
_PLAIN: Final = re.compile(rb'[ \t]*loc\("([^"\\\n]*)":([0-9]{1,9}):([0-9]{1,9})\)')
_PLAIN_ALIAS: Final = re.compile(rb"[ \t\r\n]*(#[A-Za-z0-9_$][\w$.-]*)[ \t]*=(?=[ \t]*loc\()")
_CLOSED: Final = ord(")")
#: Levels that a location takes by which an alias is defined, and that of its use.
_LEVELS: Final = 4


class LocationParser:
    """Parses the locations of one text.

    entries: of the bytecode. attribute: parses an attribute, for the metadata of fused locations and for
    aliases.
    """

    def __init__(
        self,
        cursor: TextCursor,
        entries: LocationEntries,
        aliases: Aliases,
        attribute: Callable[[], bytes],
    ) -> None:
        self.cursor = cursor
        self.entries = entries
        self.encoder = entries.encoder
        self.aliases = aliases
        self.attribute = attribute
        #: How many lines end before `_counted`, and where the last of them does; -1 if there is none.
        self._lines, self._line_end, self._counted = 0, -1, 0
        self._head = b""
        #: The beginnings of places in files, by the file's name.
        self._files: dict[bytes, bytes] = {}
        #: The parts of fused locations with metadata.
        self._fused: dict[bytes, tuple[bytes, list[bytes]]] = {}

    def optional(self) -> bytes | None:
        """Parse the location `loc(...)` and return its encoded index, or None if none is next."""
        cursor = self.cursor
        if not cursor.peek(b"loc("):
            return None
        # Fast path of `_location`; equal by test test_plain_locations_of_text_equal_others
        plain = _PLAIN.match(cursor.data, cursor.at)
        if plain is not None:
            cursor.at = plain.end()
            return self._place_of(plain)
        cursor.at += len(b"loc(")
        number = self._location()
        cursor.expect(b")")
        return number

    def _place_of(self, plain: re.Match[bytes]) -> bytes:
        name, line, column = plain.groups()
        head = self._files.get(name)
        if head is None:
            head = self.encoder.numbers[code.FILE_LOCATION] + self.entries.string(name)
            self._files[name] = head
        numbers = self.encoder.numbers
        return self.encoder.attributes(head + numbers[int(line)] + numbers[int(column)])

    def ending(self, at: int, start: int, end: int) -> bytes | None:
        """Return the location of an operation in a line that ends with it, or None for a rare one."""
        if start == end:
            return self.here(at)
        cursor, known = self.cursor, None
        # Fast path of `optional`; equal by test test_ordinary_lines_equal_others
        name = bytes(cursor.data[start + len(b"loc(") : end - 1])
        if name[:1] == b"#" and cursor.data[end - 1] == _CLOSED:
            known = self._alias(name)
        if known is None:
            before, cursor.at = cursor.at, start
            known = self.optional()
            known, cursor.at = known if cursor.at == end else None, before
        return known

    def _alias(self, name: bytes) -> bytes | None:
        """Return the location of an alias that is resolved or defined as a plain place, else None."""
        found = self.aliases.known.get(name)
        if isinstance(found, tuple):
            number: bytes = found[0]
            return number
        if found is None or self.cursor.depth + _LEVELS > self.cursor.max_depth:
            return None
        plain = _PLAIN.match(self.cursor.data, found)
        if plain is None:
            return None
        number = self._place_of(plain)
        self.aliases.known[name] = number, found, plain.end()
        return number

    def skip_aliases(self) -> bool:
        """Skip the definitions that are next of aliases of plain places; return whether any is."""
        cursor, known, start = self.cursor, self.aliases.known, self.cursor.at
        # Fast path of `Aliases.next_definition`; equal by test test_ordinary_lines_equal_others
        while (definition := _PLAIN_ALIAS.match(cursor.data, cursor.at)) is not None:
            name, place = definition[1], definition.end()
            found = known.get(name)
            if found == place and self._alias(name) is not None:
                found = known[name]
            if not isinstance(found, tuple) or found[1] != place:
                break
            cursor.at = found[2]
        return cursor.at > start

    def here(self, at: int) -> bytes:
        """Return the number of the location of the text itself at an offset, which never decreases."""
        numbers = self.encoder.numbers
        if not self._head:
            name = self.cursor.source.name.encode("utf-8", "surrogateescape")
            self._head = numbers[code.FILE_LOCATION] + self.entries.string(name)
        while self._counted < at:
            passed = bytes(self.cursor.data[self._counted : min(at, self._counted + _BLOCK)])
            lines = passed.count(b"\n")
            if lines:
                self._lines += lines
                self._line_end = self._counted + passed.rfind(b"\n")
            self._counted += len(passed)
        column = at - self._line_end
        return self.encoder.attributes.add(self._head + numbers[self._lines + 1] + numbers[column])

    # -- kinds of locations -------------------------------------------------------------------

    def _location(self) -> bytes:
        cursor = self.cursor
        cursor.enter()
        try:
            return self._parse()
        finally:
            cursor.depth -= 1

    def _parse(self) -> bytes:
        cursor = self.cursor
        name = cursor.string()
        if name is not None:
            if cursor.accept(b":"):
                return self._place(name)
            child = self.encoder.unknown
            if cursor.accept(b"("):
                child = self._location()
                cursor.expect(b")")
            return self.entries.name(name, child)
        alias = cursor.match(_ALIAS)
        if alias is not None:
            return self.aliases.resolve(alias[0], alias.start(), self.attribute)
        word = cursor.peek_word()
        if word == b"unknown":
            cursor.word()
            return self.encoder.unknown
        if word == b"callsite":
            cursor.word()
            return self._call_site()
        if word == b"fused":
            cursor.word()
            return self._fuse()
        if word == b"loc":
            found = self.optional()
            if found is not None:
                return found
        if cursor.peek(b"#"):
            return self.attribute()
        raise cursor.unexpected("a location")

    def _call_site(self) -> bytes:
        cursor = self.cursor
        cursor.expect(b"(")
        callee = self._location()
        if not cursor.accept_word(b"at"):
            raise cursor.unexpected("'at'")
        caller = self._location()
        cursor.expect(b")")
        return self.entries.make(code.CALLSITE_LOCATION, callee, caller)

    def _fuse(self) -> bytes:
        cursor = self.cursor
        metadata = b""
        if cursor.accept(b"<"):
            metadata = self.attribute()
            cursor.expect(b">")
        cursor.expect(b"[")
        parts: list[bytes] = []
        if not cursor.peek(b"]"):
            parts.append(self._location())
            while cursor.accept(b","):
                cursor.bound(len(parts) + 1, "locations in a fused one")
                parts.append(self._location())
        cursor.expect(b"]")
        return self._with_metadata(metadata, parts) if metadata else self.entries.fuse(parts)

    def _with_metadata(self, metadata: bytes, parts: list[bytes]) -> bytes:
        """Encode a fused location with metadata, without duplicates and unknown ones, as MLIR has it."""
        flat: dict[bytes, None] = {}
        for part in parts:
            same, inner = self._fused.get(part, (b"", []))
            flat.update(dict.fromkeys(inner if same == metadata else [part]))
        if len(flat) > 1:
            flat.pop(self.encoder.unknown, None)
        locations = list(flat) or [self.encoder.unknown]
        count = self.encoder.numbers[len(locations)]
        fused = self.entries.make(code.FUSED_LOCATION_WITH_METADATA, count, *locations, metadata)
        self._fused[fused] = metadata, locations
        return fused

    def _place(self, name: bytes) -> bytes:
        """Parse a place or a range in a file, after the file's name and a colon."""
        cursor = self.cursor
        line = self._number()
        cursor.expect(b":")
        places = [line, self._number()]
        if cursor.accept_word(b"to"):
            end_line = line if cursor.peek(b":") else self._number()
            cursor.expect(b":")
            end = self._number()
            if end_line != line:
                places += end_line, end
            elif end != places[1]:
                places.append(end)
        return self.entries.place(name, places)

    def _number(self) -> int:
        cursor = self.cursor
        found = cursor.match(_LINE_NUMBER)
        if found is None:
            raise cursor.unexpected("a line or a column")
        if len(found[0]) > len(str(_LARGEST)) or int(found[0]) > _LARGEST:
            cursor.refuse(f"a line or a column is larger than {_LARGEST}", found.start())
        return int(found[0])


_NUMBER: Final = re.compile(
    rb"-?(?:0[xX][0-9a-fA-F]+|[0-9]+(?:\.[0-9]*(?:[eE][-+]?[0-9]+)?)?)(?![\w.])"
)
_SYMBOL: Final = re.compile(rb"@(?:[\w$.-]+)?")
_DIALECT_ATTRIBUTE: Final = re.compile(rb"#[\w$-]+(?:\.[\w$.-]+)?")
_KEY: Final = re.compile(rb"[A-Za-z_][\w$.]*")
_ENUM_TEXT: Final = re.compile(r"#(\w+)<(\w+)\s*")

#: Parses a value that an operation prints in a way of its own: the name of the attribute -> its number.
BareValue = Callable[[str], bytes | None]
#: Attributes by name.
Dictionary = dict[str, bytes]


class AttributeParser:
    """Parses the attributes of one text, each to its encoded number in the bytecode."""

    def __init__(
        self,
        cursor: TextCursor,
        encoder: Encoder,
        aliases: Aliases,
        types: TypeParser,
        resources: Resources,
    ) -> None:
        self.cursor = cursor
        self.encoder = encoder
        self.aliases = aliases
        self.types = types
        self.resources = resources
        self.writer = AttributeWriter(encoder, types.writer)
        self.elements = ElementParser(cursor, encoder, types)
        # A proxy, so that the two do not refer to one another.
        self.locations = LocationParser(cursor, LocationEntries(encoder), aliases, proxy(self))

    def __call__(self, name: str = "", bare: BareValue | None = None) -> bytes:
        """Parse the attribute that is next. bare: how its operation prints it if not in full."""
        cursor = self.cursor
        cursor.enter()
        try:
            number = self._attribute(name, bare)
        finally:
            cursor.depth -= 1
        if number is None:
            raise cursor.unexpected("an attribute")
        return number

    def optional_dictionary(self, bare: BareValue | None = None) -> Dictionary:
        """Parse the attributes in braces, if they are next; `bare` as for `__call__`."""
        return self.dictionary(bare) if self.cursor.peek(b"{") else {}

    def dictionary(self, bare: BareValue | None = None) -> Dictionary:
        cursor = self.cursor
        cursor.expect(b"{")
        pairs: Dictionary = {}
        while not cursor.accept(b"}"):
            if pairs:
                cursor.expect(b",", "',' or '}'")
            cursor.skip()
            at = cursor.at
            name = cursor.name(_KEY, "the name of an attribute").decode("utf-8", "replace")
            if name in pairs:
                cursor.refuse(f"the attribute {name} is there twice", at)
            cursor.bound(len(pairs) + 1, "attributes in a dictionary")
            pairs[name] = self(name, bare) if cursor.accept(b"=") else self.unit()
        cursor.bound(len(self.encoder.names), "names of attributes")
        return pairs

    def symbol(self) -> bytes:
        """Parse the name of the symbol that is next, after its `@`."""
        cursor = self.cursor
        found = cursor.match(_SYMBOL)
        if found is None:
            raise cursor.unexpected("a symbol such as @main")
        if len(found[0]) > 1:
            return found[0][1:]
        quoted = cursor.string()
        if quoted is None:
            raise cursor.unexpected("the name of a symbol")
        return quoted

    def list_of_integers(self, bits: int) -> bytes:
        """Parse `[1, 2]` as an array of integers of this width."""
        return self._array(f"i{bits}", b"[", b"]")

    def text(self, text: str) -> bytes:
        return self.encoder.attributes.text(text)

    def unit(self) -> bytes:
        """Encode an attribute that says nothing but that it is there."""
        return self.encoder.attributes(self.encoder.numbers[code.UNIT])

    def sizes(self, shape: tuple[int, ...]) -> bytes:
        type_ = self.types.number(TensorType((len(shape),), "index"))
        return self.encoder.dense(type_, struct.pack(f"<{len(shape)}q", *shape))

    def resource(self) -> tuple[Parsed, bytes]:
        """Parse a resource constant after `dense_resource`: return its type and encoded index."""
        cursor = self.cursor
        cursor.expect(b"<")
        cursor.skip()
        at = cursor.at
        name = cursor.name(RESOURCE_NAME, "the name of a resource")
        cursor.expect(b">")
        cursor.expect(b":", "':' and the type of the constant")
        type_ = self.types()
        return type_, self.encoder.resource(type_.number, self.resources.number(name, at))

    # -- kinds of attributes ------------------------------------------------------------------

    # Long because it decides between all kinds of attributes.
    def _attribute(self, name: str, bare: BareValue | None) -> bytes | None:
        cursor = self.cursor
        cursor.skip()
        first = bytes(cursor.data[cursor.at : cursor.at + 1])
        if first == b'"':
            text = cursor.string()
            if text is None:
                cursor.refuse("a string is not closed")
            # A string may have a type, which says nothing.
            if cursor.accept(b":"):
                self.types()
            return self.encoder.string_attribute(text)
        if first == b"[":
            return self._list(name, bare)
        if first == b"{":
            return self.encoder.dictionary(self.dictionary().items())
        if first == b"@":
            return self._symbol()
        if first == b"#":
            return self._dialect_attribute()
        number = cursor.match(_NUMBER)
        if number is not None:
            return self._number(number)
        word = cursor.peek_word()
        parse = _WORDS.get(word)
        if parse is not None:
            start = cursor.at
            cursor.at += len(word)
            return parse(self, start)
        type_ = self.types.optional()
        if type_ is not None:
            return self.writer.type(type_.number)
        return None if bare is None else bare(name)

    def _symbol(self) -> bytes:
        name = self.symbol()
        while self.cursor.accept(b"::"):
            name += b"::" + self.symbol()
        number = self.encoder.string_attribute(name)
        return self.encoder.attributes(self.encoder.numbers[code.FLAT_SYMBOL] + number)

    def _list(self, name: str, bare: BareValue | None) -> bytes:
        cursor = self.cursor
        cursor.expect(b"[")
        numbers = []
        if not cursor.peek(b"]"):
            numbers.append(self(name, bare))
            while cursor.accept(b","):
                cursor.bound(len(numbers) + 1, "attributes in a list")
                numbers.append(self(name, bare))
        cursor.expect(b"]", "',' or ']'")
        return self.encoder.array(numbers)

    def _number(self, token: re.Match[bytes]) -> bytes:
        cursor, text = self.cursor, token[0]
        is_decimal = b"." in text
        if cursor.accept(b":"):
            parsed = self.types()
            element = str(parsed.type)
            if isinstance(parsed.type, TensorType) or not is_number(element):
                return self.text(f"{text.decode()[:40]} : {element}")
        else:
            element = "f64" if is_decimal else "i64"
        is_float = element not in ("index",) and element[0] not in "sui"
        if is_decimal and not is_float:
            cursor.refuse(f"found the number {text.decode()[:40]} of type {element}", token.start())
        if is_float and not is_decimal and b"x" not in text.lower():
            cursor.refuse(
                f"found the integer {text.decode()[:40]} of type {element}, expected a decimal point",
                token.start(),
            )
        try:
            ordinary = ordinary_bytes([text], element) if is_float else None
            if ordinary is not None:
                bits = int.from_bytes(ordinary, "little")
            else:
                (bits,) = (
                    bits_of([text], element).tolist() if is_float else integers([text], element)
                )
        except BadNumber as error:
            cursor.refuse(str(error), token.start())
        number = self.types.number(element)
        return self.writer.bits(
            code.FLOAT if is_float else code.INTEGER, number, bits, bit_width(element)
        )

    def untyped(self) -> bytes:
        """Parse an attribute of a dialect and leave the type that follows it."""
        return self._dialect_attribute(takes_type=False)

    def _dialect_attribute(self, *, takes_type: bool = True) -> bytes:
        cursor = self.cursor
        start = cursor.at
        head = cursor.match(_DIALECT_ATTRIBUTE)
        if head is None:
            raise cursor.unexpected("the name of an attribute")
        if cursor.follows(b"<"):
            cursor.skip_balanced(b"<", "'<'")
            raw = bytes(cursor.data[start : cursor.at])
            text = raw.decode("utf-8", "replace")
            # `#tosa<resize_mode NEAREST>` is the same as `#tosa.resize_mode<NEAREST>`.
            enum = _ENUM_TEXT.match(text)
            if enum is not None and text[enum.end() : enum.end() + 1] not in (",", "="):
                text = f"#{enum[1]}.{enum[2]}<{text[enum.end() :].removesuffix('>').strip()}>"
            return self._typed_text(text) if takes_type else self.text(text)
        name = head[0]
        if b"." in name and name not in self.aliases:
            return self._typed_text(name.decode())
        return self.aliases.resolve(name, start, self)

    def _typed_text(self, text: str) -> bytes:
        """Encode an attribute of a dialect, which a type may follow that says nothing."""
        if self.cursor.accept(b":"):
            self.types()
        return self.text(text)

    # -- words --------------------------------------------------------------------------------

    def _integers(self, start: int) -> bytes:
        """Parse `array<i64: 1, 2>`."""
        cursor = self.cursor
        cursor.expect(b"<")
        at = cursor.at
        element = str(self.types().type)
        if not is_number(element):
            cursor.refuse(f"found {element}, expected the type of a number", at)
        if cursor.accept(b">"):
            return self._dense_array(element, [], at)
        return self._array(element, b":", b">")

    def _array(self, element: str, opening: bytes, closing: bytes) -> bytes:
        """Parse the numbers between two tokens."""
        cursor = self.cursor
        cursor.expect(opening)
        cursor.skip()
        at = cursor.at
        tokens: list[bytes] = []
        while not cursor.accept(closing):
            if tokens:
                cursor.expect(b",", f"',' or {closing.decode()!r}")
            word = cursor.peek_word()
            if word in (b"true", b"false"):
                cursor.word()
                tokens.append(word)
                continue
            number = cursor.match(_NUMBER)
            if number is None:
                raise cursor.unexpected("a number")
            tokens.append(number[0])
            cursor.bound(len(tokens), "numbers in an array")
        return self._dense_array(element, tokens, at)

    def _dense_array(self, element: str, tokens: list[bytes], at: int) -> bytes:
        ordinary = ordinary_bytes(tokens, element)
        if ordinary is not None:
            return self.encoder.dense_array(self.types.number(element), len(tokens), ordinary)
        try:
            bits = bits_of(tokens, element)
        except BadNumber as error:
            self.cursor.refuse(str(error), at)
        raw = b""
        if tokens:
            width = element_bytes(element)
            raw = bits.view("u1").reshape(len(tokens), -1)[:, :width].tobytes()
        return self.encoder.dense_array(self.types.number(element), len(tokens), raw)

    def _location(self, start: int) -> bytes:
        self.cursor.at = start
        location = self.locations.optional()
        if location is None:
            raise self.cursor.unexpected("'loc('")
        return location

    def _in_angles(self, start: int) -> bytes:
        """Parse an attribute of the builtin dialect that no TOSA program has, as text."""
        cursor = self.cursor
        cursor.skip_balanced(b"<", "'<'")
        if cursor.accept(b":"):
            self.types()
        text = bytes(cursor.data[start : cursor.at]).decode("utf-8", "replace")
        return self.text(text)

    def _distinct(self, start: int) -> bytes:
        cursor = self.cursor
        cursor.skip_balanced(b"[", "'['")
        return self._in_angles(start)


#: Words that begin an attribute -> what parses the rest; `start` is where the word begins.
_WORDS: Final[dict[bytes, Callable[[AttributeParser, int], bytes]]] = {
    b"true": lambda parser, start: parser.writer.integer(1, 1),
    b"false": lambda parser, start: parser.writer.integer(0, 1),
    b"unit": lambda parser, start: parser.unit(),
    b"dense": lambda parser, start: parser.elements.dense()[0],
    b"sparse": lambda parser, start: parser.elements.sparse()[0],
    b"dense_resource": lambda parser, start: parser.resource()[1],
    b"array": AttributeParser._integers,
    b"loc": AttributeParser._location,
    b"distinct": AttributeParser._distinct,
    **dict.fromkeys(
        (b"affine_map", b"affine_set", b"strided", b"opaque"), AttributeParser._in_angles
    ),
}
