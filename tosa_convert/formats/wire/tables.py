"""The layout of flatbuffer tables, by the FlatBuffers internals document, for writing."""

from __future__ import annotations

import struct
from typing import NamedTuple

#: Bytes of a slot's value inside its table. Strings, vectors, tables and unions are 32-bit offsets.
WIDTH = {"bool": 1, "u8": 1, "i32": 4, "u32": 4, "u64": 8}
FORMAT = {"bool": "B", "u8": "B", "i32": "i", "u32": "I", "u64": "Q"}


class Field(NamedTuple):
    """One slot of a table. `kind` is a key of WIDTH, `string`, `table`, `union`, or `[element]`."""

    name: str
    slot: int
    kind: str
    enum: str = ""
    table: str = ""
    default: int = 0
    align: int = 0
    required: bool = False

    @property
    def is_offset(self) -> bool:
        """Return whether the table holds a 32-bit offset to the value rather than the value."""
        return self.kind not in WIDTH

    @property
    def width(self) -> int:
        """Return how many bytes the slot takes inside the table."""
        return WIDTH.get(self.kind, 4)


class TableLayout(NamedTuple):
    """One way to write a table: which slots are present, where, and how to pack them.

    `pack` takes the distance to the vtable and then the values in the order of `names`.
    """

    names: tuple[str, ...]
    offsets: dict[str, int]
    vtable: bytes
    pack: struct.Struct
    align: int

    @property
    def size(self) -> int:
        """Return the bytes of the table itself."""
        return self.pack.size


class Table:
    """A table's name and slots."""

    __slots__ = ("_by_name", "_layouts", "fields", "name")

    def __init__(self, name: str, fields: tuple[Field, ...]) -> None:
        self.name = name
        self.fields = fields
        self._by_name = {row.name: row for row in fields}
        self._layouts: dict[tuple[str, ...], TableLayout] = {}

    def __getitem__(self, name: str) -> Field:
        return self._by_name[name]

    def layout(self, names: tuple[str, ...]) -> TableLayout:
        """Return the layout of exactly these slots, the widest first: nothing needs padding."""
        layout = self._layouts.get(names)
        if layout is None:
            layout = self._layouts[names] = self._make_layout(names)
        return layout

    def _make_layout(self, names: tuple[str, ...]) -> TableLayout:
        rows = sorted((self[name] for name in names), key=lambda row: (-row.width, row.slot))
        align = max([4, *(row.width for row in rows)])
        # The distance to the vtable takes the first 4 bytes; 8-byte slots start at 8.
        code = "<i"
        position = 4
        offsets: dict[str, int] = {}
        for row in rows:
            gap = -position % row.width
            code += "x" * gap + FORMAT.get(row.kind, "I")
            position += gap
            offsets[row.name] = position
            position += row.width
        code += "x" * (-position % 4)
        position += -position % 4
        slots = [0] * (1 + max((row.slot for row in rows), default=-1))
        for row in rows:
            slots[row.slot] = offsets[row.name]
        vtable = struct.pack(f"<{2 + len(slots)}H", 4 + 2 * len(slots), position, *slots)
        ordered = tuple(row.name for row in rows)
        return TableLayout(ordered, offsets, vtable, struct.Struct(code), align)
