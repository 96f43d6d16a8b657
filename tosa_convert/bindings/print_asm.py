"""MLIR's own words for an attribute or type that we do not read.

Encodings are as many as dialects and their versions; whatever a program's own parts are not made of is
only ever shown to somebody. So MLIR is given a module that has nothing but that as an attribute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tosa_convert.mlir.bytecode import format as code
from tosa_convert.mlir.bytecode.varint import encode_varint

if TYPE_CHECKING:
    from tosa_convert.mlir.bytecode.decode import Bytecode

#: Each costs time in proportion to the module, so that many become "..." instead.
MOST: Final = 64
#: An attribute or type larger than this many bytes is not worth reading.
_LARGE: Final = 1 << 12

_KEY: Final = b"x.x"


def spell(bytecode: Bytecode, *, attribute: int = -1, type_index: int = -1) -> str:
    """An attribute or a type as MLIR prints it."""
    key = (attribute, type_index)
    found = bytecode.spelled.get(key)
    if found is None:
        if len(bytecode.spelled) >= MOST:
            return "..."
        found = bytecode.spelled[key] = _spell(bytecode, attribute, type_index)
    return found


def _spell(bytecode: Bytecode, attribute: int, type_index: int) -> str:
    ir = bytecode.bindings.ir
    context = ir.Context()
    context.allow_unregistered_dialects = True
    try:
        module = ir.Module.parse(_module(bytecode, attribute, type_index), context)
        return str(module.operation.attributes[_KEY.decode()])
    except (ir.MLIRError, RuntimeError, TypeError, UnicodeDecodeError):
        # Not even MLIR or its bindings have words for it: text that is not UTF-8, a location.
        return "..."


def _module(bytecode: Bytecode, attribute: int, type_index: int) -> bytes:
    """A module with the same tables, the attribute or type as its own attribute, and no operations."""
    strings = [*bytecode.strings, _KEY, b"module"]
    count = bytecode.attribute_count
    # Behind the attributes: the key, the type as an attribute, the dictionary.
    entries = [_entry(bytecode, index) for index in range(len(bytecode.is_encoded))]
    builtin = bytecode.dialects.index("builtin")
    added = [encode_varint(code.STRING) + encode_varint(len(strings) - 2)]
    wanted = attribute
    if attribute < 0:
        added.append(encode_varint(code.TYPE) + encode_varint(type_index))
        wanted = count + 1
    added.append(
        encode_varint(code.DICTIONARY)
        + encode_varint(1)
        + encode_varint(count)
        + encode_varint(wanted)
    )
    kinds = [(builtin, True, raw) for raw in added]
    table = [*entries[:count], *kinds, *entries[count:]]
    offsets = encode_varint(count + len(added)) + encode_varint(len(entries) - count)
    offsets += b"".join(
        encode_varint(dialect) + encode_varint(1) + encode_varint(len(raw) << 1 | encoded)
        for dialect, encoded, raw in table
    )
    dialects = bytecode.sections[code.DIALECTS].bytes
    dialects += encode_varint(builtin) + encode_varint(1) + encode_varint(len(strings) - 1)
    operation = (
        encode_varint(len(bytecode.names))
        + bytes([code.HAS_ATTRIBUTES | code.HAS_REGIONS])
        + encode_varint(bytecode.root.location)
        + encode_varint(count + len(added) - 1)
        # One region, isolated, of one block without values, arguments and operations.
        + encode_varint(1 << 1 | 1)
        + encode_varint(1)
        + encode_varint(0)
        + encode_varint(0)
    )
    sections = {
        code.DIALECTS: dialects,
        code.ATTRIBUTES_AND_TYPES: b"".join(raw for _, _, raw in table),
        code.OFFSETS: offsets,
        code.IR: encode_varint(1 << 1) + operation,
        code.STRINGS: encode_varint(len(strings))
        + b"".join(encode_varint(len(string) + 1) for string in reversed(strings))
        + b"".join(string + b"\0" for string in strings),
    }
    whole = code.MAGIC + encode_varint(code.VERSION) + b"tosa-convert\0"
    for kind, raw in sections.items():
        whole += bytes([kind]) + encode_varint(len(raw)) + raw
    return whole


def _entry(bytecode: Bytecode, index: int) -> tuple[int, bool, bytes]:
    start, end = bytecode.starts[index], bytecode.starts[index + 1]
    dialect, encoded = bytecode.dialect_of[index], bytecode.is_encoded[index]
    raw = bytecode.bytes[start:end]
    if end - start > _LARGE or any(start < place <= end for place in bytecode.data):
        return bytecode.dialects.index("builtin"), True, encode_varint(code.UNIT)
    return dialect, encoded, raw
