"""A bytecode file whose module has one attribute, which MLIR is to print.

Dialects encode attributes and types in as many ways as they have versions. What is not needed to read a
program is not decoded here. It is only printed in messages, and for that MLIR gets a module that has
nothing but this attribute.
"""

from __future__ import annotations

from typing import Final

from tosa_convert.mlir.bytecode import format as code
from tosa_convert.mlir.bytecode.tables import Tables
from tosa_convert.mlir.bytecode.varint import encode_varint

#: The name of the module's attribute.
KEY: Final = "x.x"
#: Entries of more bytes than this are replaced: nobody reads that much in a message.
_MAX_ENTRY_BYTES: Final = 1 << 12


def module_with(tables: Tables, *, attribute: int = -1, type_index: int = -1) -> bytes:
    """A file of an empty module with the same tables, whose attribute KEY is the one asked for."""
    strings = [*tables.strings, KEY.encode(), b"module"]
    count = tables.attribute_count
    entries = [_entry(tables, index) for index in range(len(tables.is_encoded))]
    builtin = tables.dialects.index("builtin")
    # Appended to the attributes: the key, the type as an attribute, the dictionary.
    added = [encode_varint(code.STRING) + encode_varint(len(strings) - 2)]
    value = attribute
    if attribute < 0:
        added.append(encode_varint(code.TYPE) + encode_varint(type_index))
        value = count + 1
    pair = encode_varint(count) + encode_varint(value)
    added.append(encode_varint(code.DICTIONARY) + encode_varint(1) + pair)
    table = [*entries[:count], *((builtin, True, raw) for raw in added), *entries[count:]]
    offsets = encode_varint(count + len(added)) + encode_varint(len(entries) - count)
    offsets += b"".join(
        encode_varint(dialect) + encode_varint(1) + encode_varint(len(raw) << 1 | is_encoded)
        for dialect, is_encoded, raw in table
    )
    dialects = tables.sections[code.DIALECTS].bytes
    dialects += encode_varint(builtin) + encode_varint(1) + encode_varint(len(strings) - 1)
    return _file(
        {
            code.DIALECTS: dialects,
            code.ATTRIBUTES_AND_TYPES: b"".join(raw for _, _, raw in table),
            code.OFFSETS: offsets,
            code.IR: _empty_module(tables, count + len(added) - 1),
            code.STRINGS: encode_varint(len(strings))
            + b"".join(encode_varint(len(string) + 1) for string in reversed(strings))
            + b"".join(string + b"\0" for string in strings),
        }
    )


def _entry(tables: Tables, index: int) -> tuple[int, bool, bytes]:
    """Dialect, form and bytes of an entry; a unit attribute instead of one that is large."""
    start, end = tables.starts[index], tables.starts[index + 1]
    has_data = any(start < offset <= end for offset in tables.data)
    if end - start > _MAX_ENTRY_BYTES or has_data:
        return tables.dialects.index("builtin"), True, encode_varint(code.UNIT)
    return tables.dialect_of[index], tables.is_encoded[index], tables.bytes[start:end]


def _empty_module(tables: Tables, dictionary: int) -> bytes:
    """The section of operations: a module without operations, with the attributes `dictionary`."""
    return b"".join(
        (
            encode_varint(1 << 1),
            encode_varint(len(tables.names)),
            bytes([code.HAS_ATTRIBUTES | code.HAS_REGIONS]),
            encode_varint(tables.root.location),
            encode_varint(dictionary),
            # One region, isolated, of one block without values, arguments and operations.
            encode_varint(1 << 1 | 1),
            encode_varint(1),
            encode_varint(0),
            encode_varint(0),
        )
    )


def _file(sections: dict[int, bytes]) -> bytes:
    pieces = [code.MAGIC, encode_varint(code.VERSION), code.PRODUCER, b"\0"]
    for section_id, raw in sections.items():
        pieces += bytes([section_id]), encode_varint(len(raw)), raw
    return b"".join(pieces)
