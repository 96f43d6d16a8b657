"""A bytecode file taken apart: its weights, which stay where they are, and a small module without them.

MLIR copies and hashes the data of every dense attribute that it reads. An exporter needs no more of it
than where it lies in the file. So what MLIR gets to read has a resource without data in the place of
each large constant, and the resource's name tells which one it stands for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Final, NamedTuple

from tosa_convert.mlir.bytecode import format as code
from tosa_convert.mlir.bytecode.varint import decode_varint, encode_varint

#: Weights of at most this many bytes together are left to MLIR.
LITTLE: Final = 1 << 22
#: Dense constants of at most this many bytes are.
SMALL: Final = 1 << 14
#: A resource's entry that holds bytes, rather than a string or a truth value.
_BYTES: Final = 0

#: Contexts outlive files, and MLIR renames a resource whose name another one has.
_numbers = count()


class Constant(NamedTuple):
    """The data of a constant that was taken out, and whether its attribute was dense."""

    data: memoryview
    is_dense: bool


#: What was taken out, by the names of the resources that stand for it.
Apart = Mapping[str, Constant]
NOTHING: Final[Apart] = {}


def apart(data: memoryview, sections: dict[int, tuple[int, int]]) -> tuple[bytes, Apart] | None:
    """The module without its weights and the weights, or None if it has few, or is unusual.

    data: bytecode that `envelope` accepts. sections: where each begins and ends in it, in their order.
    """
    with_data = (code.ATTRIBUTES_AND_TYPES, code.RESOURCES)
    if (
        sum(end - start for kind in with_data for start, end in [sections.get(kind, (0, 0))])
        < LITTLE
    ):
        return None
    taken = _Apart(data, sections)
    try:
        return taken.module(), taken.constants
    except _Unusual:
        return None


class _Unusual(Exception):
    """The file has what is not taken apart: MLIR reads it whole, and refuses it if it is damaged."""


@dataclass(slots=True)
class _Apart:
    """A module that is being taken apart."""

    data: memoryview
    sections: dict[int, tuple[int, int]]
    constants: dict[str, Constant] = field(default_factory=dict)
    #: Names of the resources that stand for constants, which become strings of the module.
    names: list[bytes] = field(default_factory=list)
    #: Resources that the file itself has.
    resources: int = 0

    def module(self) -> bytes:
        """The module without its weights."""
        if not self.number(len(code.MAGIC))[0]:
            # The first version tells of dialects in another way.
            raise _Unusual
        strings, start = self.number(self.sections[code.STRINGS][0])
        builtin = self.builtin(strings, start)
        entries = self.entries(strings)
        offsets, attributes = self.attributes(builtin)
        if self.resources < len(self.names):
            # What stood for dense attributes, as resources that are declared and have no data.
            entries += encode_varint(builtin) + encode_varint(len(self.names) - self.resources)
            for number in range(self.resources, len(self.names)):
                entries += encode_varint(strings + number) + encode_varint(0) + bytes([_BYTES])
        if not self.constants:
            raise _Unusual
        contents: dict[int, bytes | bytearray] = {
            code.STRINGS: self.strings(strings, start),
            code.OFFSETS: offsets,
            code.ATTRIBUTES_AND_TYPES: attributes,
            code.RESOURCE_OFFSETS: entries,
            code.RESOURCES: b"",
        }
        first = min(start for start, _ in self.sections.values())
        head = self.before(first)
        pieces: list[bytes | bytearray] = [bytes(self.data[:head])]
        for kind in {**self.sections, **contents}:
            raw = contents.get(kind)
            if raw is None:
                raw = bytes(self.data[slice(*self.sections[kind])])
            pieces += [bytes([kind]), encode_varint(len(raw)), raw]
        return b"".join(pieces)

    def number(self, at: int) -> tuple[int, int]:
        try:
            return decode_varint(self.data, at)
        except IndexError:
            raise _Unusual from None

    def before(self, first: int) -> int:
        """Where the head of the file ends and the head of its first section begins."""
        at = self.number(len(code.MAGIC))[1]
        at += bytes(self.data[at:first]).index(b"\0") + 1
        return at

    def name(self) -> str:
        found = f"tosa_convert_{next(_numbers)}"
        self.names.append(found.encode())
        return found

    # -- sections -----------------------------------------------------------------------------

    def builtin(self, strings: int, at: int) -> int:
        """The number of the builtin dialect."""
        lengths = []
        for _ in range(strings):
            length, at = self.number(at)
            lengths.append(length)
        starts, place = [], at
        for length in reversed(lengths):
            starts.append((place, place + length - 1))
            place += length
        count, at = self.number(self.sections[code.DIALECTS][0])
        for dialect in range(count):
            index, at = self.number(at)
            if bytes(self.data[slice(*starts[index >> 1])]) == b"builtin":
                return dialect
            if index & 1:
                raise _Unusual
        raise _Unusual

    def strings(self, count: int, at: int) -> bytes:
        """The strings and the new names behind them; lengths stand in reverse."""
        end = self.sections[code.STRINGS][1]
        lengths = b"".join(encode_varint(len(name) + 1) for name in reversed(self.names))
        texts = b"".join(name + b"\0" for name in self.names)
        return encode_varint(count + len(self.names)) + lengths + bytes(self.data[at:end]) + texts

    def entries(self, strings: int) -> bytearray:
        """The offsets of resources, all of which are declared and have no data."""
        if code.RESOURCE_OFFSETS not in self.sections:
            return bytearray(encode_varint(0))
        at, end = self.sections[code.RESOURCE_OFFSETS]
        place, stop = self.sections.get(code.RESOURCES, (0, 0))
        external, at = self.number(at)
        if external:
            raise _Unusual
        out = bytearray(encode_varint(0))
        while at < end:
            dialect, at = self.number(at)
            count, at = self.number(at)
            out += encode_varint(dialect) + encode_varint(count)
            for _ in range(count):
                _, at = self.number(at)
                size, at = self.number(at)
                if at >= end or self.data[at] != _BYTES or place + size > stop:
                    raise _Unusual
                at += 1
                out += encode_varint(strings + len(self.names)) + encode_varint(0) + bytes([_BYTES])
                name = self.name()
                if size:
                    length = self.number(self.number(place)[1])[0]
                    if length > size:
                        raise _Unusual
                    self.constants[name] = Constant(
                        self.data[place + size - length : place + size], False
                    )
                place += size
        self.resources = len(self.names)
        return out

    def attributes(self, builtin: int) -> tuple[bytes, bytes]:
        """The offsets of attributes and types, and the attributes and types themselves."""
        at, end = self.sections[code.OFFSETS]
        place = self.sections[code.ATTRIBUTES_AND_TYPES][0]
        # Pieces of both, with what lies between two large attributes in one.
        offsets: list[bytes] = []
        kept: list[bytes] = []
        offsets_from, kept_from = at, place
        left, at = self.number(at)
        types, at = self.number(at)
        left += types
        while left > 0:
            dialect, at = self.number(at)
            count, at = self.number(at)
            left -= count
            for _ in range(count):
                before = at
                size, at = self.number(at)
                is_encoded, size = size & 1, size >> 1
                if size > SMALL and is_encoded and dialect == builtin:
                    raw = self.dense(place, size)
                    if raw:
                        offsets += [
                            bytes(self.data[offsets_from:before]),
                            encode_varint(len(raw) << 1 | 1),
                        ]
                        kept += [bytes(self.data[kept_from:place]), raw]
                        offsets_from, kept_from = at, place + size
                place += size
        offsets.append(bytes(self.data[offsets_from:end]))
        kept.append(bytes(self.data[kept_from : self.sections[code.ATTRIBUTES_AND_TYPES][1]]))
        return b"".join(offsets), b"".join(kept)

    def dense(self, place: int, size: int) -> bytes:
        """What stands for the attribute of so many bytes at a place; nothing if it is not dense."""
        kind, at = self.number(place)
        if kind != code.DENSE_ELEMENTS:
            return b""
        type_index, at = self.number(at)
        length, at = self.number(at)
        if at + length != place + size:
            raise _Unusual
        handle = len(self.names)
        self.constants[self.name()] = Constant(self.data[at : at + length], True)
        return (
            encode_varint(code.DENSE_RESOURCE) + encode_varint(type_index) + encode_varint(handle)
        )
