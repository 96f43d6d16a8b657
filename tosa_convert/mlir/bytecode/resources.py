"""The resources of a bytecode: data that attributes refer to by name."""

from __future__ import annotations

from collections.abc import Mapping

from tosa_convert.mlir.bytecode import format as code
from tosa_convert.mlir.bytecode.sections import Section
from tosa_convert.mlir.bytecode.varint import decode_varint


def decode_resources(
    sections: Mapping[int, Section], strings: list[bytes]
) -> list[tuple[str, memoryview | None]]:
    """The names and data of the dialects' resources, in the order of their numbers.

    The data of a resource that has none, or that is not bytes, is None.
    """
    if code.RESOURCE_OFFSETS not in sections:
        return []
    offsets = sections[code.RESOURCE_OFFSETS].bytes
    section = sections.get(code.RESOURCES, Section())
    resources: list[tuple[str, memoryview | None]] = []
    # Groups of other tools' resources come before those of dialects. A group: its owner and its entries.
    external_groups, offset = decode_varint(offsets, 0)
    entry_start = 0
    group = 0
    while offset < len(offsets):
        _, offset = decode_varint(offsets, offset)
        count, offset = decode_varint(offsets, offset)
        for _ in range(count):
            name, offset = decode_varint(offsets, offset)
            size, offset = decode_varint(offsets, offset)
            is_blob = offsets[offset] == code.BLOB
            offset += 1
            data, left_out = _blob(section, entry_start, size) if is_blob else (None, 0)
            entry_start += size - left_out
            if group >= external_groups:
                resources.append((strings[name].decode("utf-8", "replace"), data))
        group += 1
    return resources


def _blob(section: Section, start: int, size: int) -> tuple[memoryview | None, int]:
    """The data of an entry, and how many of its bytes were left out of the section's bytes."""
    if not size:
        return None, 0
    # Alignment, length, and filler up to the alignment come before the data.
    offset = decode_varint(section.bytes, start)[1]
    length, offset = decode_varint(section.bytes, offset)
    for data_offset, view in section.data.items():
        if offset <= data_offset <= start + size - length and len(view) == length:
            return view, length
    end = start + size
    return memoryview(section.bytes)[end - length : end], 0
