"""Finds the bytes of a flatbuffer that a test damages, from slots and offsets alone."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

#: Table -> the slots that lead somewhere or that tests damage: name -> (slot, table it leads to).
_SLOTS: dict[str, dict[str, tuple[int, str]]] = {
    "graph": {"version": (0, "version"), "regions": (1, "[region"), "software": (2, "software")},
    "version": {"major": (0, ""), "minor": (1, ""), "patch": (2, ""), "draft": (3, "")},
    "software": {"major": (0, ""), "modifier": (3, "string")},
    "region": {"name": (0, "string"), "blocks": (1, "[block")},
    "block": {
        "name": (0, "string"),
        "operators": (1, "[operator"),
        "tensors": (2, "[tensor"),
        "inputs": (3, "[string"),
        "outputs": (4, "[string"),
        "shapes": (5, "[shape"),
    },
    "operator": {
        "op": (0, ""),
        "kind": (1, ""),
        "attribute": (2, "attribute"),
        "inputs": (3, "[string"),
        "outputs": (4, "[string"),
        "location": (5, "location"),
    },
    "location": {"text": (0, "string")},
    # Fields of attribute tables by slot; vectors and strings among them need `at` with a kind.
    "attribute": {f"{slot}": (slot, "") for slot in range(8)},
    "tensor": {
        "name": (0, "string"),
        "shape": (1, "["),
        "type": (2, ""),
        "data": (3, "["),
        "variable": (4, ""),
        "unranked": (5, ""),
        "offset": (7, ""),
        "size": (8, ""),
        "scale_type": (9, ""),
        "scale_data": (10, "["),
        "block_shape": (11, ""),
        "scale_offset": (12, ""),
        "scale_size": (13, ""),
    },
    "shape": {"name": (0, "string"), "rank": (1, ""), "data": (2, "[")},
}


@dataclass(frozen=True)
class Place:
    """field: where the number or offset is. entry: its entry in the vtable. target: where it leads.

    table and vtable: of the table that has the field; 0 for the file's root and members of vectors.
    """

    field: int
    target: int
    entry: int = 0
    table: int = 0
    vtable: int = 0


class File(bytearray):
    """The bytes of a file, to be damaged in place."""

    def u32(self, at: int) -> int:
        found: int = struct.unpack_from("<I", self, at)[0]
        return found

    def put(self, code: str, at: int, value: Any) -> File:
        """Overwrite; returns the file."""
        struct.pack_into("<" + code, self, at, value)
        return self

    def at(self, path: str = "") -> Place:
        """Return the place of a path such as `regions 0 blocks 0 tensors 2 name`; "" is the root."""
        place = Place(0, self.u32(0))
        kind = "graph"
        for step in path.split():
            if kind[0] == "[":
                field = place.target + 4 + 4 * int(step)
                place, kind = Place(field, field + self.u32(field)), kind[1:]
                continue
            slot, leads_to = _SLOTS[kind][step]
            table = place.target
            vtable = table - struct.unpack_from("<i", self, table)[0]
            entry = vtable + 4 + 2 * slot
            (offset,) = struct.unpack_from("<H", self, entry)
            assert offset, f"{path}: {step} is absent"
            field = table + offset
            target = field + self.u32(field) if leads_to else field
            place, kind = Place(field, target, entry, table, vtable), leads_to or "number"
        return place
