"""The container: a header of 128 bytes, three flatbuffer tables, and constants as raw bytes.

The fields are those of the VGF library's schema (vgf.fbs), by their position in their table.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from tosa_convert.errors import fail
from tosa_convert.io.flatbuffer_tables import FlatbufferError, Table, root_table

MAGIC: Final = b"VGF1"
_HEADER_BYTES: Final = 128
#: Where the header has the places of sections, and their names.
_SECTIONS: Final = {
    "module table": 16,
    "model sequence table": 32,
    "model resource table": 48,
    "constants": 64,
}
_CONSTANTS: Final = b"CONST00\0"
#: Resource, sparse dimension, size and offset of a constant.
_CONSTANT: Final = struct.Struct("<IiQQ")
_GRAPH: Final = 1
_SPIRV: Final = 1


@dataclass(frozen=True, slots=True)
class Segment:
    """A step of the model: a graph of a module.

    inputs, outputs: the resources of their binding slots, in the order of the file.
    bindings: a binding -> its resource.
    constants: the container's constants, by the number that the graph gives each.
    """

    name: str
    module: int
    is_graph: bool
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    bindings: dict[int, int]
    constants: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Container:
    """What a VGF file holds.

    modules: the SPIR-V words of each; empty for source text. entry_points: the function of each module.
    segments: in the order in which they run. constants: the bytes of each.
    names: a resource that the whole model takes or gives -> its name.
    """

    modules: list[memoryview]
    entry_points: list[str]
    segments: list[Segment]
    constants: list[memoryview]
    names: dict[int, str]


def read_container(data: memoryview, where: str) -> Container:
    """Read a VGF file. Modules and constants share its bytes."""
    sections = {name: _section(data, name, at, where) for name, at in _SECTIONS.items()}
    try:
        rows = list(root_table(sections["module table"]).tables(0))
        modules, entry_points = [_words(row) for row in rows], [row.text(2) for row in rows]
        sequence = root_table(sections["model sequence table"])
        segments = [_segment(row) for row in sequence.tables(0)]
        names: dict[int, str] = {}
        for slots, texts in ((1, 3), (2, 4)):
            resources = (resource for _, resource in _slots(sequence, slots))
            names.update(zip(resources, sequence.texts(texts), strict=False))
    except FlatbufferError as error:
        raise malformed(where, f"its tables are damaged: {error}") from None
    constants = _constants(sections["constants"], where)
    return Container(modules, entry_points, segments, constants, names)


def malformed(where: str, message: str) -> Exception:
    return fail("malformed-vgf", where, message, "the file is damaged or cut off: write it again")


def _section(data: memoryview, name: str, at: int, where: str) -> memoryview:
    if len(data) < _HEADER_BYTES:
        raise malformed(where, f"found {len(data)} bytes, its header has {_HEADER_BYTES}")
    start, size = struct.unpack_from("<QQ", data, at)
    if start + size > len(data):
        message = f"its {name} is at {start} and has {size} bytes, the file ends at {len(data)}"
        raise malformed(where, message)
    return data[start : start + size]


def _words(row: Table) -> memoryview:
    """Return the SPIR-V words of a module, as bytes; none of a module in another language."""
    code = row.table(4) if row.number(3, "B") == _SPIRV else None
    return memoryview(b"") if code is None else code.octets(0, width=4)


def _segment(row: Table) -> Segment:
    constants = tuple(map(int, row.numbers(6, "I")))
    inputs, outputs = (_slots(row, position) for position in (4, 5))
    return Segment(
        row.text(1),
        row.number(2, "I"),
        row.number(0, "B") == _GRAPH,
        tuple(resource for _, resource in inputs),
        tuple(resource for _, resource in outputs),
        dict(inputs + outputs),
        constants,
    )


def _slots(row: Table, position: int) -> list[tuple[int, int]]:
    return [(slot.number(0, "I"), slot.number(1, "I")) for slot in row.tables(position)]


def _constants(section: memoryview, where: str) -> list[memoryview]:
    if not len(section):
        return []
    if bytes(section[:8]) != _CONSTANTS:
        message = f"its constants begin with {bytes(section[:8])!r}, expected {_CONSTANTS!r}"
        raise malformed(where, message)
    if len(section) < 16:
        raise malformed(where, "its constants are cut off")
    (count,) = struct.unpack_from("<Q", section, 8)
    start = 16 + count * _CONSTANT.size
    if start > len(section):
        raise malformed(where, f"it lists {count} constants in {len(section)} bytes")
    found = []
    for number in range(count):
        _, sparse, size, offset = _CONSTANT.unpack_from(section, 16 + number * _CONSTANT.size)
        if sparse != -1:
            message = f"constant {number} is sparse in dimension {sparse}, which TOSA does not have"
            raise fail("unsupported-attribute", where, message, "write it without sparsity")
        if start + offset + size > len(section):
            raise malformed(where, f"constant {number} leads out of the file")
        found.append(section[start + offset : start + offset + size])
    return found
