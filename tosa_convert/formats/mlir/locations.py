"""Locations as the text that MLIR prints, file names without folders, and findings at them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from tosa_convert.errors import Findings, TosaConvertError, fail
from tosa_convert.formats.mlir.bytecode import format as code
from tosa_convert.formats.mlir.bytecode.varints import decode_varint
from tosa_convert.formats.mlir.names import STRING, quote, unescape, unquote
from tosa_convert.graph.lazy_numpy import FEW, np

if TYPE_CHECKING:
    import numpy.typing as npt

    from tosa_convert.formats.mlir.bytecode.decode import Bytecode
    from tosa_convert.formats.mlir.bytecode.operation_columns import Numbers
    from tosa_convert.formats.mlir.bytecode.operations import Operation


#: A printed location takes at most this many characters: parts may be shared, many times over.
MAX_CHARACTERS: Final = 1 << 20

#: Characters of all locations together that are not a file, a line and a column: for each byte of the
#: attributes, and in any case.
_CHARACTERS_PER_BYTE: Final = 256
_CHARACTERS: Final = 1 << 26
#: How a place in a file begins: its kind as a varint.
_PLAIN_HEAD: Final = code.FILE_LOCATION << 1 | 1
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


def _printed(bytecode: Bytecode, index: int) -> str:
    """Format an attribute that is inside a location as text."""
    from tosa_convert.formats.mlir.text.print.attributes import short_text  # few locations have one

    return short_text(bytecode, index)


def plain_location(text: str) -> str:
    """Return `file:line:col` or a name if the location is just that, "" for unknown, else its text."""
    match = re.match(_PLAIN_FILE, text)
    if match is not None:
        name = unquote(match[1])
        # A location in bytecode has line and column 0.
        return name if match[2] == match[3] == "0" else f"{name}:{match[2]}:{match[3]}"
    match = re.match(_PLAIN_NAME, text)
    if match is not None:
        return unquote(match[1])
    return "" if text == "loc(unknown)" else text


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

    def __call__(self, indices: Sequence[int]) -> list[str]:
        try:
            if len(indices) < FEW or max(indices) >= self.bytecode.attribute_count:
                return list(map(self._text, indices))
            return self.together(np.array(indices, np.int64))
        except IndexError:
            self.bytecode.refuse(self.bytecode.attribute_count, "the last location is cut off")

    def together(self, indices: Numbers) -> list[str]:
        """Return the texts of many locations, whose indices are those of attributes."""
        # Fast path of `_text`; equal by test test_plain_locations_equal_parsed_ones
        from tosa_convert.formats.mlir.bytecode.operation_columns import varints_at

        bytecode, words = self.bytecode, self._words
        starts = np.frombuffer(bytecode.starts, np.int64)
        after = starts[indices] + 1
        is_plain = words[after - 1] & 0xFF == _PLAIN_HEAD
        is_plain &= np.frombuffer(bytecode.is_encoded, np.bool_)[indices]
        columns = []
        for _ in range(3):
            at = after
            numbers, after = varints_at(words, at)
            is_plain &= after > at
            columns.append(numbers)
        is_plain &= after == starts[indices + 1]
        files, lines, ends = (column[is_plain].tolist() for column in columns)
        heads = {file: self.files.get(file) or self.file(file) for file in dict.fromkeys(files)}
        plain = [
            f"{heads[file]}{line}:{column})"
            for file, line, column in zip(files, lines, ends, strict=True)
        ]
        if len(plain) == len(indices):
            return plain
        rest = iter(plain)
        return [
            next(rest) if found else self._text(index)
            for found, index in zip(is_plain.tolist(), indices.tolist(), strict=True)
        ]

    @cached_property
    def _words(self) -> npt.NDArray[np.uint32]:
        from tosa_convert.formats.mlir.bytecode.operation_columns import words_of

        return words_of(self.bytecode.bytes)

    def _text(self, index: int) -> str:
        text = self.others.get(index)
        if text is not None:
            return text
        bytecode, data = self.bytecode, self.bytecode.bytes
        offset = bytecode.starts[index]
        is_place = data[offset] == _PLAIN_HEAD and bytecode.is_encoded[index]
        if is_place and index < bytecode.attribute_count:
            # Fast path of `full`; equal by test test_plain_locations_equal_parsed_ones
            file, offset = decode_varint(data, offset + 1)
            head = self.files.get(file) or self.file(file)
            line, offset = decode_varint(data, offset)
            column, offset = decode_varint(data, offset)
            if offset != bytecode.starts[index + 1]:
                bytecode.refuse(index, "a location has bytes after its end")
            return f"{head}{line}:{column})"
        text = self.others[index] = self.cut(self.full(index))
        self.characters_left -= len(text)
        if self.characters_left < 0:
            raise _too_large("the locations take too many characters", text)
        return text

    def cut(self, text: str) -> str:
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
        """Return the beginning of a location in a file, up to its line."""
        raw = self.bytecode.string(index)
        path = raw if self.full_paths else _basename(raw)
        if len(path) > _PATH_BYTES:
            # Each operation could have a location in it, and so its name as text.
            raise _too_large(f"the name of a file has {len(path)} bytes", quote(path[:200]))
        head = self.files[index] = f"loc({quote(path)}:"
        return head

    def full(self, index: int) -> str:
        """Return the text as MLIR prints it, with the folders of files."""
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
        """Return the printed form of a location: text, and the indices of the locations inside it."""
        bytecode = self.bytecode
        if index >= bytecode.attribute_count:
            bytecode.refuse(index, f"found location {index}, which the file does not have")
        if not bytecode.is_encoded[index]:
            return [str(bytecode.attribute(index)).removeprefix("loc(").removesuffix(")")]
        if bytecode.dialects[bytecode.dialect_of[index]] != "builtin":
            return [_printed(bytecode, index)]
        tag, numbers = self.numbers(index)
        if tag not in _NUMBERS:
            bytecode.refuse(index, "an attribute is not a location, and its user expects one")
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
        has_metadata = tag == code.FUSED_LOCATION_WITH_METADATA
        if numbers[0] != len(numbers) - 1 - has_metadata:
            bytecode.refuse(
                index, f"a location of {numbers[0]} locations has {len(numbers)} numbers"
            )
        inner: list[int | str] = []
        for number in numbers[1 : numbers[0] + 1]:
            inner += [", ", number]
        metadata = ""
        if has_metadata:
            metadata = f"<{_printed(bytecode, numbers[-1])}>"
        return [f"fused{metadata}[", *inner[1:], "]"]

    def numbers(self, index: int) -> tuple[int, list[int]]:
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
    """Format a range in a file: line and column, then the last column, or the last line and column."""
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


class Report:
    """Collects findings. names: the full names of operations, by their numbers."""

    def __init__(self, names: list[str], location: LocationReader) -> None:
        self.names = names
        self.location = location
        self.findings = Findings()

    def where(self, operation: Operation) -> str:
        """Return the operation's location as messages print it; "" if it has none."""
        return plain_location(self.location.full(operation.location))

    def add(self, operation: Operation, code: str, message: str, hint: str = "") -> None:
        """Add a finding at an operation, or at its name if it has no location."""
        where = self.where(operation) or f"'{self.names[operation.name]}'"
        self.findings.add(code, where, message, hint)
