"""Locations as text, and back.

The format stores one line of text for each operator: the location as MLIR prints it. File names are cut
to their last component, so that a file's bytes do not depend on the folder in which it was made. The
text is parsed here, because the bindings have no parser for it and MLIR's own would recurse without
bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.mlir.bytecode import format as code
from tosa_convert.mlir.bytecode.varint import decode_varint
from tosa_convert.mlir.quoting import STRING, quote, unescape, unquote
from tosa_convert.options import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from tosa_convert.mlir.bytecode.decode import Bytecode
    from tosa_convert.mlir.bytecode.encode import Encoder


#: A printed location takes at most this many characters: parts may be shared, many times over.
MAX_CHARACTERS: Final = 1 << 20

#: Characters of all locations together that are not a file, a line and a column: for each byte of the
#: attributes, and in any case.
_CHARACTERS_PER_BYTE: Final = 256
_CHARACTERS: Final = 1 << 26
#: Bytes of the name of a file.
_PATH_BYTES: Final = 4096
#: How many numbers a location of each kind has, at least and at most.
_NUMBERS: Final = {
    code.CALLSITE_LOCATION: (2, 2),
    code.FILE_LOCATION: (3, 3),
    code.FILE_RANGE_LOCATION: (2, 6),
    code.FUSED_LOCATION: (1, MAX_CHARACTERS),
    code.FUSED_LOCATION_WITH_METADATA: (2, MAX_CHARACTERS),
    code.NAME_LOCATION: (2, 2),
    code.UNKNOWN_LOCATION: (0, 0),
}

_QUOTED: Final = re.compile(rf"({STRING})(:\d+:\d+)?")
_PLAIN_FILE: Final = rf"loc\(({STRING}):(\d+):(\d+)( to [\d:]+)?\)\Z"
_PLAIN_NAME: Final = rf"loc\(({STRING})\)\Z"

_TOKEN: Final = re.compile(
    rf"\s*(?:(?P<string>{STRING})|(?P<number>[0-9]+)|(?P<word>[a-z]+)|(?P<mark>[:(),<>\[\]]))"
)
#: The commonest location by far has no escapes and no nesting; this comes before its line.
_HEAD: Final = re.compile(r'loc\("([^"\\]*)"\Z')
#: Fewer locations are not worth array operations.
_MIN_TOGETHER: Final = 64
#: A line or column of at most this many digits is known to fit.
_DIGITS: Final = 9


def _printed(bytecode: Bytecode, index: int) -> str:
    """An attribute inside a location, as text."""
    from tosa_convert.mlir.text.attributes import short_text  # few locations have one

    return short_text(bytecode, index)


def plain_location(text: str) -> str:
    """`file:line:col` or a name if the location is just that, "" for unknown, else the text itself."""
    match = re.match(_PLAIN_FILE, text)
    if match is not None:
        name = unquote(match[1])
        # A location in bytecode has line and column 0.
        return name if match[2] == match[3] == "0" else f"{name}:{match[2]}:{match[3]}"
    match = re.match(_PLAIN_NAME, text)
    if match is not None:
        return unquote(match[1])
    return "" if text == "loc(unknown)" else text


# -- MLIR -> text -----------------------------------------------------------------------------------


class LocationReader:
    """The locations of a bytecode as text. `full_paths` keeps file names as they are."""

    def __init__(self, bytecode: Bytecode, *, full_paths: bool = False) -> None:
        self.bytecode = bytecode
        self.full_paths = full_paths
        #: The beginning of a location in a file, by the number of the file's name.
        self.files: dict[int, str] = {}
        #: Locations of other kinds, and how many characters they may still take.
        self.others: dict[int, str] = {}
        self.characters_left = _CHARACTERS + _CHARACTERS_PER_BYTE * len(bytecode.bytes)

    def __call__(self, indices: Iterable[int]) -> list[str]:
        """The texts, `loc(...)`, of the locations with these numbers."""
        try:
            return self._texts(indices)
        except IndexError:
            self.bytecode.refuse(self.bytecode.attribute_count, "the last location is cut off")

    def _texts(self, indices: Iterable[int]) -> list[str]:
        data, starts = self.bytecode.bytes, self.bytecode.starts
        encoded, files, others = self.bytecode.is_encoded, self.files, self.others
        plain = code.FILE_LOCATION << 1 | 1
        texts: list[str] = []
        append = texts.append
        for index in indices:
            offset = starts[index]
            if data[offset] != plain or not encoded[index]:
                if index not in others:
                    others[index] = self.cut(self.full(index))
                    self.characters_left -= len(others[index])
                    if self.characters_left < 0:
                        raise _too_large("the locations take too many characters", others[index])
                append(others[index])
                continue
            # Fast path of `full`; equal by test test_plain_locations_equal_parsed_ones
            # The commonest kind by far: a file, a line and a column, mostly of one to three bytes.
            byte = data[offset + 1]
            if byte & 1:
                file = byte >> 1
                offset += 2
            else:
                file, offset = decode_varint(data, offset + 1)
            head = files.get(file) or self.file(file)
            byte = data[offset]
            if byte & 1:
                line = byte >> 1
                offset += 1
            elif byte & 2:
                line = (byte | data[offset + 1] << 8) >> 2
                offset += 2
            elif byte & 4:
                line = (byte | data[offset + 1] << 8 | data[offset + 2] << 16) >> 3
                offset += 3
            else:
                line, offset = decode_varint(data, offset)
            byte = data[offset]
            column = byte >> 1 if byte & 1 else decode_varint(data, offset)[0]
            append(f"{head}{line}:{column})")
        return texts

    def cut(self, text: str) -> str:
        """The text as it is stored."""
        while text.startswith('loc("loc('):
            # The name is itself a location: LocationWriter could not parse it, or another tool, which
            # does not parse locations, wrapped it in one and perhaps appended more.
            quoted = _QUOTED.match(text, 4)
            if quoted is None:
                break
            name = unquote(quoted[1])
            if quoted.end() < len(text) - 1 and not name.endswith(")"):
                break
            text = name
        return text if self.full_paths else _QUOTED.sub(_last_component, text)

    def file(self, index: int) -> str:
        """The beginning of a location in a file, up to its line."""
        raw = self.bytecode.string(index)
        path = raw if self.full_paths else _basename(raw)
        if len(path) > _PATH_BYTES:
            # Each operation could have a location in it, and so its name as text.
            raise _too_large(f"the name of a file has {len(path)} bytes", quote(path[:200]))
        head = self.files[index] = f"loc({quote(path)}:"
        return head

    def full(self, index: int) -> str:
        """The text as MLIR prints it, with the folders of files."""
        # Not recursive, because locations may nest deeply.
        left: list[int | str] = [")", index]
        pieces, size = ["loc("], 0
        while left:
            part = left.pop()
            if isinstance(part, str):
                pieces.append(part)
                size += len(part)
            else:
                left += reversed(self.parts(part))
            # What is left takes a character each at least.
            if size + len(left) > MAX_CHARACTERS:
                message = f"the location takes more than {MAX_CHARACTERS} characters"
                raise _too_large(message, "".join(pieces))
        return "".join(pieces)

    def parts(self, index: int) -> list[int | str]:
        """The printed form of a location: text, and the numbers of the locations inside it."""
        bytecode = self.bytecode
        if index >= bytecode.attribute_count:
            bytecode.refuse(index, f"found location {index}, which the file does not have")
        if not bytecode.is_encoded[index]:
            return [str(bytecode.attribute(index)).removeprefix("loc(").removesuffix(")")]
        tag, numbers = self.numbers(index)
        if tag not in _NUMBERS:
            return [_printed(bytecode, index)]
        least, most = _NUMBERS[tag]
        if not least <= len(numbers) <= most:
            bytecode.refuse(index, f"a location has {len(numbers)} numbers, expected {least}")
        if tag == code.FILE_LOCATION:
            file, line, column = numbers
            return [f"{self.string(file)}:{line}:{column}"]
        if tag == code.FILE_RANGE_LOCATION:
            return [self.string(numbers[0]) + _range(numbers[2:])]
        if tag == code.NAME_LOCATION:
            name, child = self.string(numbers[0]), numbers[1]
            return [name] if self._is_unknown(child) else [name, "(", child, ")"]
        if tag == code.CALLSITE_LOCATION:
            callee, caller = numbers
            return ["callsite(", callee, " at ", caller, ")"]
        if tag == code.UNKNOWN_LOCATION:
            return ["unknown"]
        inner: list[int | str] = []
        for number in numbers[1 : numbers[0] + 1]:
            inner += [", ", number]
        metadata = ""
        if tag == code.FUSED_LOCATION_WITH_METADATA:
            metadata = f"<{_printed(bytecode, numbers[-1])}>"
        return [f"fused{metadata}[", *inner[1:], "]"]

    def numbers(self, index: int) -> tuple[int, list[int]]:
        """The kind of a location that is encoded, and the numbers after it."""
        data, offset = self.bytecode.bytes, self.bytecode.starts[index]
        end = self.bytecode.starts[index + 1]
        numbers = []
        try:
            tag, offset = decode_varint(data, offset)
            while offset < end:
                number, offset = decode_varint(data, offset)
                numbers.append(number)
        except IndexError:
            offset = end + 1
        if offset > end:
            self.bytecode.refuse(index, "a location is cut off")
        return tag, numbers

    def _is_unknown(self, index: int) -> bool:
        bytecode = self.bytecode
        if index >= bytecode.attribute_count or not bytecode.is_encoded[index]:
            return False
        return self.numbers(index) == (code.UNKNOWN_LOCATION, [])

    def string(self, index: int) -> str:
        return quote(self.bytecode.string(index))


def _too_large(message: str, location: str) -> TosaConvertError:
    return fail("too-large", location[:200], message, "run MLIR's pass strip-debuginfo")


def _range(numbers: list[int]) -> str:
    """A range in a file: line and column, then the last column, or the last line and column."""
    line, column, *last = numbers + [0] * (2 - len(numbers))
    if len(last) < 2 or last[0] == line:
        return f":{line}:{column}" + (f" to :{last[-1]}" if last else "")
    return f":{line}:{column} to {last[0]}:{last[1]}"


def _last_component(match: re.Match[str]) -> str:
    if match[2] is None:
        return match[0]
    return quote(_basename(unescape(match[1]))) + match[2]


def _basename(name: bytes) -> bytes:
    return re.split(rb"[/\\]", name)[-1] or name


# -- text -> MLIR -----------------------------------------------------------------------------------


class LocationWriter:
    """Adds locations to a bytecode, each distinct text once, and returns their encoded numbers.

    A text that is not a location, or is nested deeper than `limits.location_depth`, becomes the name of
    one.
    """

    def __init__(self, encoder: Encoder, limits: Limits = DEFAULT_LIMITS) -> None:
        self.encoder = encoder
        self.max_depth = limits.location_depth
        self.attributes = encoder.attributes
        self.numbers = encoder.numbers
        self.cache = {"": encoder.unknown, "loc(unknown)": encoder.unknown}
        #: The parts of each fused location.
        self.fused: dict[bytes, tuple[bytes, ...]] = {}

    def __call__(self, text: str) -> bytes:
        """The location that is printed as `text`."""
        return self.all((text,))[0]

    def all(self, texts: Sequence[str]) -> list[bytes]:
        """The locations that are printed as `texts`, in one pass: most operators have different ones."""
        cache = self.cache
        fresh = [text for text in dict.fromkeys(texts) if text not in cache]
        if not self.add_plain(fresh):
            for text in fresh:
                if not self.add_plain([text]):
                    cache[text] = self.parse(text)
        return list(map(cache.__getitem__, texts))

    def add_plain(self, texts: list[str]) -> bool:
        """Add new locations that are all just a file, a line and a column; False if one is not."""
        if len(texts) >= _MIN_TOGETHER:
            from tosa_convert.mlir.plain_locations import encode_plain

            encoded = encode_plain(texts, self.head)
            if encoded is not None:
                self.add_entries(texts, encoded)
                return True
        # Fast path of `parse`; equal by test test_plain_locations_equal_parsed_ones
        rows = [text.split(":", 3) for text in texts]
        if set(map(len, rows)) != {3}:
            return False
        starts, lines, ends = zip(*rows, strict=True)
        digits, lengths = "".join(lines), set(map(len, lines))
        if not (
            digits.isdigit() and digits.isascii() and 0 < min(lengths) <= max(lengths) <= _DIGITS
        ):
            return False
        columns = {text: self.column(text) for text in dict.fromkeys(ends)}
        heads = (
            {text: self.head(text) for text in dict.fromkeys(starts)}
            if all(columns.values())
            else {}
        )
        if not heads or not all(heads.values()):
            return False
        numbers = self.numbers
        encoded = [
            heads[start] + numbers[int(line)] + columns[end]
            for start, line, end in zip(starts, lines, ends, strict=True)
        ]
        self.add_entries(texts, encoded)
        return True

    def add_entries(self, texts: list[str], encoded: list[bytes]) -> None:
        """Add new locations. Distinct texts are distinct locations, so no equal entry exists."""
        entries = self.attributes.entries
        first = len(entries)
        entries += encoded
        added = map(self.numbers.__getitem__, range(first, len(entries)))
        self.cache.update(zip(texts, added, strict=True))

    def parse(self, text: str) -> bytes:
        """A location that is not just a file, a line and a column."""
        try:
            return _Parser(text, self).whole()
        except _NotALocation:
            return self.name(text, self.encoder.unknown)

    def head(self, text: str) -> bytes:
        """The encoding of `loc("file"`, or nothing if the text is something else."""
        match = _HEAD.match(text)
        return self.numbers[code.FILE_LOCATION] + self.string(match[1]) if match else b""

    def column(self, text: str) -> bytes:
        """The encoding of `column)`, or nothing if the text is something else."""
        digits = text[:-1]
        if not (text.endswith(")") and 0 < len(digits) <= _DIGITS):
            return b""
        return self.numbers[int(digits)] if digits.isdigit() and digits.isascii() else b""

    def string(self, text: str) -> bytes:
        """A string attribute."""
        return self.encoder.string_attribute(text)

    def make(self, tag: int, *parts: bytes) -> bytes:
        """The location with this tag and these parts."""
        return self.attributes(self.numbers[tag] + b"".join(parts))

    def name(self, name: str, child: bytes) -> bytes:
        """A location with a name."""
        return self.make(code.NAME_LOCATION, self.string(name), child)

    def fuse(self, locations: list[bytes]) -> bytes:
        """Several locations as one, without duplicates, without nested fusion and without unknown ones.

        MLIR simplifies fused locations like this, except when it reads them from bytecode.
        """
        flat = dict.fromkeys(
            part for location in locations for part in self.fused.get(location, (location,))
        )
        flat.pop(self.encoder.unknown, None)
        parts = tuple(flat)
        if len(parts) < 2:
            return parts[0] if parts else self.encoder.unknown
        fused = self.make(code.FUSED_LOCATION, self.numbers[len(parts)], *parts)
        self.fused[fused] = parts
        return fused


class _NotALocation(Exception):
    """The text is not a location, or is nested too deeply."""


class _Parser:
    """`loc(` location `)`, where a location is one of

    unknown | "file":line:col [to [line]:col] | "name" [( location )]
    | callsite( location at location ) | fused[ location, ... ]
    """

    def __init__(self, text: str, writer: LocationWriter) -> None:
        self.writer = writer
        self.tokens: list[tuple[str, str]] = []
        position = 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise _NotALocation
            self.tokens.append((str(match.lastgroup), match[str(match.lastgroup)]))
            position = match.end()
        self.position = 0

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.position] if self.position < len(self.tokens) else ("end", "")

    def accept(self, text: str) -> bool:
        if self.peek()[1] == text and self.peek()[0] in ("mark", "word"):
            self.position += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise _NotALocation

    def take(self, kind: str) -> str:
        next_kind, text = self.peek()
        if next_kind != kind:
            raise _NotALocation
        self.position += 1
        return text

    def number(self) -> int:
        value = int(self.take("number")[:11])
        if value > 0xFFFFFFFF:
            raise _NotALocation
        return value

    def whole(self) -> bytes:
        self.expect("loc")
        self.expect("(")
        location = self.location(0)
        self.expect(")")
        if self.peek()[0] != "end":
            raise _NotALocation
        return location

    def location(self, depth: int) -> bytes:
        if depth > self.writer.max_depth:
            raise _NotALocation
        kind, text = self.peek()
        writer = self.writer
        if kind == "string":
            self.position += 1
            name = unquote(text)
            if self.accept(":"):
                return self.file(name)
            child = writer.encoder.unknown
            if self.accept("("):
                child = self.location(depth + 1)
                self.expect(")")
            return writer.name(name, child)
        if self.accept("unknown"):
            return writer.encoder.unknown
        if self.accept("callsite"):
            self.expect("(")
            callee = self.location(depth + 1)
            self.expect("at")
            caller = self.location(depth + 1)
            self.expect(")")
            return writer.make(code.CALLSITE_LOCATION, callee, caller)
        if self.accept("fused"):
            self.expect("[")
            parts = [self.location(depth + 1)]
            while self.accept(","):
                parts.append(self.location(depth + 1))
            self.expect("]")
            return writer.fuse(parts)
        raise _NotALocation

    def file(self, name: str) -> bytes:
        writer, numbers = self.writer, self.writer.numbers
        line = self.number()
        self.expect(":")
        places = [line, self.number()]
        if self.accept("to"):
            end_line = line if self.peek()[1] == ":" else self.number()
            self.expect(":")
            end = self.number()
            if end_line != line:
                places += end_line, end
            elif end != places[1]:
                places.append(end)
        parts = [writer.string(name), *map(numbers.__getitem__, places)]
        if len(places) == 2:
            return writer.make(code.FILE_LOCATION, *parts)
        return writer.make(code.FILE_RANGE_LOCATION, parts[0], numbers[len(places)], *parts[1:])
