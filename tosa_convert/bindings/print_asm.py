"""MLIR's own words for an attribute or type that we do not read.

Encodings are as many as dialects and their versions; whatever a program's own parts are not made of is
only ever shown to somebody. So MLIR is given a module that has nothing but that as an attribute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tosa_convert.mlir.bytecode import format as code
from tosa_convert.mlir.bytecode.format import spelled

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
    added = [spelled(code.STRING) + spelled(len(strings) - 2)]
    wanted = attribute
    if attribute < 0:
        added.append(spelled(code.TYPE) + spelled(type_index))
        wanted = count + 1
    added.append(spelled(code.DICTIONARY) + spelled(1) + spelled(count) + spelled(wanted))
    kinds = [(builtin, True, raw) for raw in added]
    table = [*entries[:count], *kinds, *entries[count:]]
    offsets = spelled(count + len(added)) + spelled(len(entries) - count)
    offsets += b"".join(
        spelled(dialect) + spelled(1) + spelled(len(raw) << 1 | encoded)
        for dialect, encoded, raw in table
    )
    dialects = bytecode.sections[code.DIALECTS].bytes
    dialects += spelled(builtin) + spelled(1) + spelled(len(strings) - 1)
    operation = (
        spelled(len(bytecode.names))
        + bytes([code.HAS_ATTRIBUTES | code.HAS_REGIONS])
        + spelled(bytecode.root.location)
        + spelled(count + len(added) - 1)
        # One region, isolated, of one block without values, arguments and operations.
        + spelled(1 << 1 | 1)
        + spelled(1)
        + spelled(0)
        + spelled(0)
    )
    sections = {
        code.DIALECTS: dialects,
        code.ATTRIBUTES_AND_TYPES: b"".join(raw for _, _, raw in table),
        code.OFFSETS: offsets,
        code.IR: spelled(1 << 1) + operation,
        code.STRINGS: spelled(len(strings))
        + b"".join(spelled(len(string) + 1) for string in reversed(strings))
        + b"".join(string + b"\0" for string in strings),
    }
    whole = code.MAGIC + spelled(code.VERSION) + b"tosa-convert\0"
    for kind, raw in sections.items():
        whole += bytes([kind]) + spelled(len(raw)) + raw
    return whole


def _entry(bytecode: Bytecode, index: int) -> tuple[int, bool, bytes]:
    start, end = bytecode.starts[index], bytecode.starts[index + 1]
    dialect, encoded = bytecode.dialect_of[index], bytecode.is_encoded[index]
    raw = bytecode.bytes[start:end]
    if end - start > _LARGE or any(start < place <= end for place in bytecode.data):
        return bytecode.dialects.index("builtin"), True, spelled(code.UNIT)
    return dialect, encoded, raw
