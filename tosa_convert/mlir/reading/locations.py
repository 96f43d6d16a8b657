"""Locations as text, and back.

The format stores one line of text for each operator. We store MLIR's own spelling, with file names
cut to their last component so that a file's bytes do not depend on where it was made, and we parse
it back with a parser of our own: the bindings have none, and MLIR's would recurse without bound.
"""

from __future__ import annotations

import re
from typing import Final

from tosa_convert.errors import fail
from tosa_convert.mlir.bytecode import format as code
from tosa_convert.mlir.bytecode.decode import Bytecode
from tosa_convert.mlir.bytecode.format import number_at
from tosa_convert.mlir.bytecode.spell import spell
from tosa_convert.mlir.quoting import STRING, quote, unescape, unquote

_QUOTED: Final = re.compile(rf"({STRING})(:\d+:\d+)?")


#: A location may have parts in common with itself, many times over.
MAX_CHARACTERS: Final = 1 << 20


class LocationReader:
    """The locations of a bytecode as text. `full_paths` keeps file names as they are."""

    def __init__(self, bytecode: Bytecode, *, full_paths: bool = False) -> None:
        self.bytecode = bytecode
        self.full_paths = full_paths
        self.known: dict[int, str] = {}
        #: By the numbers of their names: what a file is called in a location, ready to be quoted.
        self.files: dict[int, str | None] = {}
        self.file_location = code.FILE_LOCATION << 1 | 1

    def __call__(self, index: int) -> str:
        """The text, `loc(...)`."""
        found = self.known.get(index)
        if found is not None:
            return found
        bytecode = self.bytecode
        data, at = bytecode.bytes, bytecode.starts[index]
        if data[at] == self.file_location and bytecode.is_encoded[index]:
            # Much the commonest kind, and most have numbers of one to three bytes.
            byte = data[at + 1]
            if byte & 1:
                file, at = byte >> 1, at + 2
            else:
                file, at = number_at(data, at + 1)
            name = self.files[file] if file in self.files else self.file(file)
            if name is not None:
                line, at = number_at(data, at)
                column = data[at] >> 1 if data[at] & 1 else number_at(data, at)[0]
                return f'loc("{name}":{line}:{column})'
        found = self.known[index] = self.cut(self.full(index))
        return found

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

    def file(self, index: int) -> str | None:
        """A file's name ready to be quoted, or None if it needs MLIR's escapes."""
        raw = self.bytecode.attribute(index)
        assert isinstance(raw, bytes)
        if not self.full_paths:
            raw = re.split(rb"[/\\]", raw)[-1] or raw
        quoted = quote(raw)
        plain = quoted[1:-1]
        # A name that looks like a location is more than a name.
        self.files[index] = None if "\\" in quoted or plain.startswith("loc(") else plain
        return self.files[index]

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
        kind, at = number_at(data, at)
        numbers = []
        while at < bytecode.starts[index + 1]:
            number, at = number_at(data, at)
            numbers.append(number)
        if kind == code.FILE_LOCATION:
            file, line, column = numbers
            return [f"{self.string(file)}:{line}:{column}"]
        if kind == code.FILE_RANGE_LOCATION:
            return [self.string(numbers[0]) + _range(numbers[2:])]
        if kind == code.NAME_LOCATION:
            name, child = self.string(numbers[0]), numbers[1]
            start = bytecode.starts[child]
            known = number_at(data, start)[0] != code.UNKNOWN_LOCATION
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
    name = unescape(match[1])
    return quote(re.split(rb"[/\\]", name)[-1] or name) + match[2]
