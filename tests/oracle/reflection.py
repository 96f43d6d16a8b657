"""A schema as plain data, read from what `flatc --schema --binary` makes of it.

The binary schema is a flatbuffer itself, of the tables in FlatBuffers' reflection.fbs; its slots are
named here. It is read with the runtime of the `flatbuffers` package, not with code of ours.
"""

from __future__ import annotations

from typing import Any, Final

from flatbuffers import number_types
from flatbuffers.table import Table

#: BaseType of reflection.fbs.
_BASE: Final = (
    "none",
    "utype",
    "bool",
    "byte",
    "ubyte",
    "short",
    "ushort",
    "int",
    "uint",
    "long",
    "ulong",
    "float",
    "double",
    "string",
    "vector",
    "obj",
    "union",
)


class _View:
    """A table of a flatbuffer by slot; absent slots give None, or the default asked for."""

    def __init__(self, buffer: bytes, position: int) -> None:
        self.table = Table(buffer, position)

    def offset(self, slot: int) -> int:
        found = int(self.table.Offset(4 + 2 * slot))
        return found and found + self.table.Pos

    def number(self, slot: int, kind: Any, default: float = 0) -> Any:
        place = self.offset(slot)
        return self.table.Get(kind, place) if place else default

    def string(self, slot: int) -> str:
        place = self.offset(slot)
        return bytes(self.table.String(place)).decode() if place else ""

    def child(self, slot: int) -> _View | None:
        place = self.offset(slot)
        return _View(self.table.Bytes, self.table.Indirect(place)) if place else None

    def children(self, slot: int) -> list[_View]:
        place = int(self.table.Offset(4 + 2 * slot))
        if not place:
            return []
        start = self.table.Vector(place)
        return [
            _View(self.table.Bytes, self.table.Indirect(start + 4 * index))
            for index in range(self.table.VectorLen(place))
        ]


_BYTE, _BOOL = number_types.Int8Flags, number_types.BoolFlags
_SHORT, _INT = number_types.Uint16Flags, number_types.Int32Flags
_LONG, _DOUBLE = number_types.Int64Flags, number_types.Float64Flags


def reflect(binary: bytes) -> dict[str, Any]:
    """Return the tables, enums and union of a binary schema, without comments."""
    schema = _View(binary, _root(binary))
    objects, enums = schema.children(0), schema.children(1)
    names = [[one.string(0) for one in kind] for kind in (objects, enums)]
    root = schema.child(4)

    def kind(found: _View | None) -> Any:
        if found is None:
            return None
        base, element = (_BASE[found.number(slot, _BYTE)] for slot in (0, 1))
        index = found.number(2, _INT, -1)
        table = "obj" in (base, element)
        return base, element, names[0 if table else 1][index] if index >= 0 else ""

    def attributes(found: _View, slot: int) -> dict[str, str]:
        return {pair.string(0): pair.string(1) for pair in found.children(slot)}

    def field(found: _View) -> dict[str, Any]:
        return {
            "name": found.string(0),
            "type": kind(found.child(1)),
            "id": found.number(2, _SHORT),
            "offset": found.number(3, _SHORT),
            "default": (found.number(4, _LONG), found.number(5, _DOUBLE)),
            "deprecated": found.number(6, _BOOL, False),
            "required": found.number(7, _BOOL, False),
            "key": found.number(8, _BOOL, False),
            "attributes": attributes(found, 9),
            "optional": found.number(11, _BOOL, False),
        }

    return {
        "identifier": schema.string(2),
        "extension": schema.string(3),
        "root": root and root.string(0),
        "tables": {
            one.string(0): {
                "fields": sorted(map(field, one.children(1)), key=lambda found: found["id"]),
                "struct": one.number(2, _BOOL, False),
                "align": one.number(3, _INT),
                "bytes": one.number(4, _INT),
                "attributes": attributes(one, 5),
            }
            for one in objects
        },
        "enums": {
            one.string(0): {
                "members": [
                    (member.string(0), member.number(1, _LONG), kind(member.child(3)))
                    for member in one.children(1)
                ],
                "union": one.number(2, _BOOL, False),
                "type": kind(one.child(3)),
                "attributes": attributes(one, 4),
            }
            for one in enums
        },
    }


def _root(binary: bytes) -> int:
    """Return the offset of the root table of a flatbuffer."""
    return int.from_bytes(binary[:4], "little")
