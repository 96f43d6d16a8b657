"""Detach the weights of a bytecode file, so that MLIR reads a small module without them.

MLIR copies and hashes the data of every dense attribute that it reads. An exporter needs only to know
where the data is in the file. So MLIR gets a module in which each large constant is replaced by a
resource without data, and the resource's name identifies the constant.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Final

from tosa_convert.mlir.bytecode import format as code
from tosa_convert.mlir.bytecode.detached import DetachedConstant, DetachedWeights
from tosa_convert.mlir.bytecode.varint import decode_varint, encode_varint

#: A file whose attributes and resources have fewer bytes than this is not changed.
MIN_TOTAL_BYTES: Final = 1 << 22
#: Dense constants of at most this many bytes stay in the module.
MAX_ATTACHED_BYTES: Final = 1 << 14
#: The kind of a resource entry that holds bytes, rather than a string or a boolean.
_BLOB_ENTRY: Final = 0

#: Numbers for resource names. They are unique in the process because contexts outlive files, and MLIR
#: renames a resource if its context already has one of that name.
_numbers = count()


def detach(
    data: memoryview, sections: dict[int, tuple[int, int]]
) -> tuple[bytes, DetachedWeights] | None:
    """The module without its weights, and the weights; None if it has few or cannot be split.

    Args:
        data: Bytecode that `untrusted.bytecode.check` accepts.
        sections: Start and end of each section, in bytes, in the order of the file.
    """
    starts_and_ends = (
        sections.get(section, (0, 0)) for section in (code.ATTRIBUTES_AND_TYPES, code.RESOURCES)
    )
    if sum(end - start for start, end in starts_and_ends) < MIN_TOTAL_BYTES:
        return None
    detacher = _Detacher(data, sections)
    try:
        return detacher.module(), detacher.constants
    except _NotDetachableError:
        return None


class _NotDetachableError(Exception):
    """The file has a form that is not split. MLIR reads it whole, and reports it if it is damaged."""


@dataclass(slots=True)
class _Detacher:
    """Splits one module."""

    data: memoryview
    sections: dict[int, tuple[int, int]]
    constants: dict[str, DetachedConstant] = field(default_factory=dict)
    #: Names of the resources that replace constants. They are appended to the module's strings.
    names: list[bytes] = field(default_factory=list)
    #: How many of `names` replace resources of the file; the others replace dense attributes.
    resource_count: int = 0

    def module(self) -> bytes:
        """The module without its weights."""
        if not self.number(len(code.MAGIC))[0]:
            # Version 0 of the format encodes dialects in a different way.
            raise _NotDetachableError
        string_count, lengths = self.number(self.sections[code.STRINGS][0])
        builtin = self.builtin_dialect(string_count, lengths)
        resource_offsets = self.resource_offsets(string_count)
        offsets, attributes = self.attributes(builtin)
        if self.resource_count < len(self.names):
            # Declare the resources that replace dense attributes, without data.
            resource_offsets += encode_varint(builtin) + encode_varint(
                len(self.names) - self.resource_count
            )
            for number in range(self.resource_count, len(self.names)):
                resource_offsets += encode_varint(string_count + number) + encode_varint(0)
                resource_offsets.append(_BLOB_ENTRY)
        if not self.constants:
            raise _NotDetachableError
        contents: dict[int, bytes | bytearray] = {
            code.STRINGS: self.strings(string_count, lengths),
            code.OFFSETS: offsets,
            code.ATTRIBUTES_AND_TYPES: attributes,
            code.RESOURCE_OFFSETS: resource_offsets,
            code.RESOURCES: b"",
        }
        first = min(start for start, _ in self.sections.values())
        pieces: list[bytes | bytearray] = [bytes(self.data[: self.header_end(first)])]
        for section in {**self.sections, **contents}:
            raw = contents.get(section)
            if raw is None:
                raw = bytes(self.data[slice(*self.sections[section])])
            pieces += [bytes([section]), encode_varint(len(raw)), raw]
        return b"".join(pieces)

    def number(self, offset: int) -> tuple[int, int]:
        """The varint at an offset, and the offset after it."""
        try:
            return decode_varint(self.data, offset)
        except IndexError:
            raise _NotDetachableError from None

    def header_end(self, first_section: int) -> int:
        """The offset at which the file's header ends: magic number, version and producer."""
        offset = self.number(len(code.MAGIC))[1]
        return offset + bytes(self.data[offset:first_section]).index(b"\0") + 1

    def new_resource_name(self) -> str:
        """A name for the resource that replaces a constant."""
        name = f"tosa_convert_{next(_numbers)}"
        self.names.append(name.encode())
        return name

    # -- sections -----------------------------------------------------------------------------

    def builtin_dialect(self, string_count: int, offset: int) -> int:
        """The number of the builtin dialect. offset: of the strings' lengths."""
        lengths = []
        for _ in range(string_count):
            length, offset = self.number(offset)
            lengths.append(length)
        bounds, start = [], offset
        for length in reversed(lengths):
            bounds.append((start, start + length - 1))
            start += length
        dialect_count, offset = self.number(self.sections[code.DIALECTS][0])
        for dialect in range(dialect_count):
            index, offset = self.number(offset)
            if bytes(self.data[slice(*bounds[index >> 1])]) == b"builtin":
                return dialect
            if index & 1:
                # A version of the dialect follows, which may have any size.
                raise _NotDetachableError
        raise _NotDetachableError

    def strings(self, string_count: int, lengths: int) -> bytes:
        """The strings with the new names appended. Lengths come first, in reverse order."""
        end = self.sections[code.STRINGS][1]
        new_lengths = b"".join(encode_varint(len(name) + 1) for name in reversed(self.names))
        new_strings = b"".join(name + b"\0" for name in self.names)
        total = encode_varint(string_count + len(self.names))
        return total + new_lengths + bytes(self.data[lengths:end]) + new_strings

    def resource_offsets(self, string_count: int) -> bytearray:
        """The file's resources, all of them declared without data; notes their data as constants."""
        if code.RESOURCE_OFFSETS not in self.sections:
            return bytearray(encode_varint(0))
        offset, end = self.sections[code.RESOURCE_OFFSETS]
        start, stop = self.sections.get(code.RESOURCES, (0, 0))
        external_groups, offset = self.number(offset)
        if external_groups:
            raise _NotDetachableError
        out = bytearray(encode_varint(0))
        while offset < end:
            dialect, offset = self.number(offset)
            entry_count, offset = self.number(offset)
            out += encode_varint(dialect) + encode_varint(entry_count)
            for _ in range(entry_count):
                _, offset = self.number(offset)
                size, offset = self.number(offset)
                if offset >= end or self.data[offset] != _BLOB_ENTRY or start + size > stop:
                    raise _NotDetachableError
                offset += 1
                out += (
                    encode_varint(string_count + len(self.names))
                    + encode_varint(0)
                    + bytes([_BLOB_ENTRY])
                )
                name = self.new_resource_name()
                if size:
                    # The blob is aligned, so its bytes are the last ones of the entry.
                    length = self.number(self.number(start)[1])[0]
                    if length > size:
                        raise _NotDetachableError
                    blob = self.data[start + size - length : start + size]
                    self.constants[name] = DetachedConstant(blob, is_dense=False)
                start += size
        self.resource_count = len(self.names)
        return out

    def attributes(self, builtin: int) -> tuple[bytes, bytes]:
        """The offsets of attributes and types, and the attributes and types themselves."""
        offset, end = self.sections[code.OFFSETS]
        start, stop = self.sections[code.ATTRIBUTES_AND_TYPES]
        # The bytes between two large attributes are copied as one piece.
        offset_pieces: list[bytes] = []
        attribute_pieces: list[bytes] = []
        copied_offsets, copied_attributes = offset, start
        left, offset = self.number(offset)
        types, offset = self.number(offset)
        left += types
        while left > 0:
            dialect, offset = self.number(offset)
            entry_count, offset = self.number(offset)
            left -= entry_count
            for _ in range(entry_count):
                before = offset
                size, offset = self.number(offset)
                is_encoded, size = size & 1, size >> 1
                if size > MAX_ATTACHED_BYTES and is_encoded and dialect == builtin:
                    replacement = self.replace_dense(start, size)
                    if replacement:
                        offset_pieces += [
                            bytes(self.data[copied_offsets:before]),
                            encode_varint(len(replacement) << 1 | 1),
                        ]
                        attribute_pieces += [
                            bytes(self.data[copied_attributes:start]),
                            replacement,
                        ]
                        copied_offsets, copied_attributes = offset, start + size
                start += size
        offset_pieces.append(bytes(self.data[copied_offsets:end]))
        attribute_pieces.append(bytes(self.data[copied_attributes:stop]))
        return b"".join(offset_pieces), b"".join(attribute_pieces)

    def replace_dense(self, start: int, size: int) -> bytes:
        """The resource attribute that replaces the attribute at an offset; b"" if it is not dense."""
        attribute_code, offset = self.number(start)
        if attribute_code != code.DENSE_ELEMENTS:
            return b""
        type_index, offset = self.number(offset)
        length, offset = self.number(offset)
        if offset + length != start + size:
            raise _NotDetachableError
        handle = len(self.names)
        blob = self.data[offset : offset + length]
        self.constants[self.new_resource_name()] = DetachedConstant(blob, is_dense=True)
        return (
            encode_varint(code.DENSE_RESOURCE) + encode_varint(type_index) + encode_varint(handle)
        )
