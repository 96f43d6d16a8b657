"""The resources of a bytecode: data that attributes refer to by name."""

from __future__ import annotations

from typing import NamedTuple

from tosa_convert.formats.mlir.bytecode import format as code
from tosa_convert.formats.mlir.bytecode.cursor import Cursor
from tosa_convert.formats.mlir.bytecode.sections import Section
from tosa_convert.formats.mlir.bytecode.tables import Tables
from tosa_convert.formats.mlir.bytecode.varint import decode_varint


class Resource(NamedTuple):
    """A resource.

    data: None if the module declares the resource without data, or if it is not bytes.
    alignment: of the data, in bytes.
    """

    name: bytes
    data: memoryview | None
    alignment: int = 1


def decode_resources(tables: Tables) -> list[Resource]:
    """Decode the dialects' resources, in the order of their indices.

    Raises TosaConvertError("malformed-mlir").
    """
    cursor = tables.cursor(code.RESOURCE_OFFSETS)
    resources: list[Resource] = []
    if not cursor.end:
        return resources
    section = tables.file.sections.get(code.RESOURCES, Section())
    left_out = sorted(section.data.items(), reverse=True)
    # Groups of other tools' resources come before those of dialects. A group: its owner and its entries.
    external_groups = cursor.varint("the number of external resource groups")
    at = 0
    group = 0
    while cursor.at < cursor.end:
        cursor.varint("the owner of resources")
        for _ in range(cursor.count("resources")):
            name = cursor.index("the name of a resource", len(tables.strings))
            size = cursor.varint("the size of a resource")
            is_blob = cursor.byte("the kind of a resource") == code.BLOB
            data: memoryview | None = None
            alignment = 1
            if left_out and left_out[-1][0] == at + size - len(left_out[-1][1]):
                data = left_out.pop()[1]
                alignment, _ = decode_varint(section.bytes, at)
                at += size - len(data)
            else:
                if is_blob and size:
                    alignment, data = _blob(section, at, size, tables)
                at += size
            if group >= external_groups:
                resource = Resource(tables.strings[name], data if is_blob else None, alignment)
                resources.append(resource)
        group += 1
    return resources


def _blob(section: Section, at: int, size: int, tables: Tables) -> tuple[int, memoryview]:
    """Read the alignment and the data of an entry: alignment, length, filler, then the data."""
    end = at + size
    cursor = Cursor(
        section.bytes, at, min(end, len(section.bytes)), section.offset, tables.file.where
    )
    alignment = cursor.varint("the alignment of a resource")
    length = cursor.varint("the length of a resource")
    if length > end - cursor.at or end > len(section.bytes):
        cursor.refuse(f"a resource has {length} bytes, but only {cursor.end - cursor.at} are left")
    return alignment, memoryview(section.bytes)[end - length : end]
