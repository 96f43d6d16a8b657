"""Locations as text, and back.

The format stores one line of text for each operator. We store MLIR's own spelling, with file names
cut to their last component so that a file's bytes do not depend on where it was made, and we parse
it back with a parser of our own: the bindings have none, and MLIR's would recurse without bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from tosa_convert.bindings.print_asm import spell
from tosa_convert.errors import fail
from tosa_convert.mlir.bytecode import format as code
from tosa_convert.mlir.bytecode.decode import Bytecode
from tosa_convert.mlir.bytecode.varint import decode_varint
from tosa_convert.mlir.quoting import STRING, quote, unescape, unquote

_QUOTED: Final = re.compile(rf"({STRING})(:\d+:\d+)?")


#: A location may have parts in common with itself, many times over.
MAX_CHARACTERS: Final = 1 << 20


class LocationReader:
    """The locations of a bytecode as text. `full_paths` keeps file names as they are."""

    def __init__(self, bytecode: Bytecode, *, full_paths: bool = False) -> None:
        self.bytecode = bytecode
        self.full_paths = full_paths
        #: What a location in a file begins with, by the number of the file's name.
        self.files: dict[int, str] = {}
        #: Locations of other kinds.
        self.others: dict[int, str] = {}

    def __call__(self, indices: Iterable[int]) -> list[str]:
        """The texts, `loc(...)`, of the locations with these numbers."""
        data, starts = self.bytecode.bytes, self.bytecode.starts
        encoded, files, others = self.bytecode.is_encoded, self.files, self.others
        plain = code.FILE_LOCATION << 1 | 1
        texts: list[str] = []
        append = texts.append
        for index in indices:
            at = starts[index]
            if data[at] != plain or not encoded[index]:
                if index not in others:
                    others[index] = self.cut(self.full(index))
                append(others[index])
                continue
            # Much the commonest kind: a file, a line and a column, of one to three bytes mostly.
            byte = data[at + 1]
            if byte & 1:
                file = byte >> 1
                at += 2
            else:
                file, at = decode_varint(data, at + 1)
            head = files.get(file) or self.file(file)
            byte = data[at]
            if byte & 1:
                line = byte >> 1
                at += 1
            elif byte & 2:
                line = (byte | data[at + 1] << 8) >> 2
                at += 2
            elif byte & 4:
                line = (byte | data[at + 1] << 8 | data[at + 2] << 16) >> 3
                at += 3
            else:
                line, at = decode_varint(data, at)
            byte = data[at]
            column = byte >> 1 if byte & 1 else decode_varint(data, at)[0]
            append(f"{head}{line}:{column})")
        return texts

    def cut(self, text: str) -> str:
        """The text as it is stored."""
        while text.startswith('loc("loc('):
            # A name that is a location: LocationWriter could not parse it, or another tool, which
            # does not parse what it reads, put one around it and maybe more behind it.
            quoted = _QUOTED.match(text, 4)
            assert quoted is not None
            name = unquote(quoted[1])
            if quoted.end() < len(text) - 1 and not name.endswith(")"):
                break
            text = name
        return text if self.full_paths else _QUOTED.sub(_last_component, text)

    def file(self, index: int) -> str:
        """What a location in a file begins with, up to its line."""
        raw = self.bytecode.attribute(index)
        assert isinstance(raw, bytes)
        found = self.files[index] = f"loc({quote(raw if self.full_paths else _basename(raw))}:"
        return found

    def full(self, index: int) -> str:
        """The text as MLIR prints it, with the folders of files."""
        # Not recursive, because locations may nest deeply.
        left: list[int | str] = [")", index]
        found, size = ["loc("], 0
        while left:
            part = left.pop()
            if isinstance(part, str):
                found.append(part)
                size += len(part)
                if size > MAX_CHARACTERS:
                    raise fail(
                        "too-large",
                        "".join(found)[:200],
                        f"the location takes more than {MAX_CHARACTERS} characters",
                        "run MLIR's pass strip-debuginfo",
                    )
            else:
                left += reversed(self.parts(part))
        return "".join(found)

    def parts(self, index: int) -> list[int | str]:
        """What a location is printed as: text, and the numbers of the locations inside of it."""
        bytecode = self.bytecode
        data, at = bytecode.bytes, bytecode.starts[index]
        if not bytecode.is_encoded[index]:
            return [str(bytecode.attribute(index)).removeprefix("loc(").removesuffix(")")]
        kind, at = decode_varint(data, at)
        numbers = []
        while at < bytecode.starts[index + 1]:
            number, at = decode_varint(data, at)
            numbers.append(number)
        if kind == code.FILE_LOCATION:
            file, line, column = numbers
            return [f"{self.string(file)}:{line}:{column}"]
        if kind == code.FILE_RANGE_LOCATION:
            return [self.string(numbers[0]) + _range(numbers[2:])]
        if kind == code.NAME_LOCATION:
            name, child = self.string(numbers[0]), numbers[1]
            start = bytecode.starts[child]
            known = decode_varint(data, start)[0] != code.UNKNOWN_LOCATION
            return [name, "(", child, ")"] if known or not bytecode.is_encoded[child] else [name]
        if kind == code.CALLSITE_LOCATION:
            callee, caller = numbers
            return ["callsite(", callee, " at ", caller, ")"]
        if kind == code.UNKNOWN_LOCATION:
            return ["unknown"]
        if kind in (code.FUSED_LOCATION, code.FUSED_LOCATION_WITH_METADATA):
            inner: list[int | str] = []
            for number in numbers[1 : numbers[0] + 1]:
                inner += [", ", number]
            metadata = ""
            if kind == code.FUSED_LOCATION_WITH_METADATA:
                metadata = f"<{spell(bytecode, attribute=numbers[-1])}>"
            return [f"fused{metadata}[", *inner[1:], "]"]
        return [spell(bytecode, attribute=index)]

    def string(self, index: int) -> str:
        raw = self.bytecode.attribute(index)
        assert isinstance(raw, bytes)
        return quote(raw)


def _range(numbers: list[int]) -> str:
    """Where a range of a file is: line and column, then the last column, or the last line and column."""
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
