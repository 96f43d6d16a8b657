"""Mutations of flatbuffers: of their offsets, lengths, vtables, scalars and strings.

Random bytes rarely pass the check of the file identifier. A `Map` lists the positions of a sound file by
what they mean, so that most mutants have one fault, and many have none.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

from mutate_bytes import INTERESTING, mutate_bytes

from tosa_convert.formats.wire.layout import ATTRIBUTES, ENUMS, ROOT, TABLES
from tosa_convert.formats.wire.tables import Table

#: Tables and vectors of a file that are mapped; more would not make better mutants.
MOST_PLACES: Final = 4000

_CODES: Final = {"bool": "B", "u8": "B", "i32": "i", "u32": "I", "u64": "Q"}


class Map:
    """The positions in a file by what they mean.

    offsets: (field, target kind); scalars: (position, struct code, enum name or ""); lengths:
    (position, element width); strings: (position of the length, bytes); entries: vtable slots.
    """

    def __init__(
        self,
        data: bytes,
        tables: Mapping[str, Table] = TABLES,
        enums: Mapping[str, Mapping[str, int]] = ENUMS,
        root: str = ROOT,
    ) -> None:
        self.data = data
        self.tables = tables
        #: Enum -> the values that its fields have.
        self.enums: dict[str, Sequence[int]] = {
            name: list(values.values()) for name, values in enums.items()
        }
        self.offsets: list[tuple[int, str]] = []
        self.scalars: list[tuple[int, str, str]] = []
        self.lengths: list[tuple[int, int]] = []
        self.strings: list[tuple[int, int]] = []
        self.blobs: list[tuple[int, int]] = []
        self.entries: list[int] = []
        self.vtables: list[int] = []
        #: (op's position, attribute_type's position) of operators.
        self.operators: list[tuple[int, int]] = []
        #: kind -> positions of objects of this kind.
        self.targets: dict[str, list[int]] = {}
        self._seen: set[tuple[str, int]] = set()
        self._follow(0, root)

    def _u32(self, at: int) -> int:
        return int(struct.unpack_from("<I", self.data, at)[0])

    def _follow(self, field: int, kind: str) -> None:
        if len(self.offsets) >= MOST_PLACES:
            return
        self.offsets.append((field, kind))
        target = field + self._u32(field)
        if (kind, target) in self._seen:
            return
        self._seen.add((kind, target))
        self.targets.setdefault(kind, []).append(target)
        if kind == "string":
            self.strings.append((target, self._u32(target)))
        elif kind.startswith("["):
            count, element = self._u32(target), kind[1:-1]
            width = 4 if element not in ("u8", "bool") else 1
            self.lengths.append((target, width))
            if element == "u8":
                self.blobs.append((target + 4, count))
            elif element == "i32":
                places = range(target + 4, target + 4 + 4 * count, 4)
                self.scalars += [(at, "i", "") for at in places[:64]]
            else:
                for index in range(count):
                    self._follow(target + 4 + 4 * index, element)
        else:
            self._table(target, kind)

    def _table(self, table: int, name: str) -> None:
        vtable = table - int(struct.unpack_from("<i", self.data, table)[0])
        (size,) = struct.unpack_from("<H", self.data, vtable)
        self.vtables.append(table)
        self.entries += range(vtable, vtable + size, 2)
        found: dict[str, int] = {}
        for row in self.tables[name].fields:
            slot = vtable + 4 + 2 * row.slot
            if slot + 2 > vtable + size:
                continue
            (distance,) = struct.unpack_from("<H", self.data, slot)
            if not distance:
                continue
            at = table + distance
            found[row.name] = at
            if row.kind in _CODES:
                self.scalars.append((at, _CODES[row.kind], row.enum))
            elif row.kind == "string":
                self._follow(at, "string")
            elif row.kind in ("[u8]", "[i32]", "[string]"):
                self._follow(at, row.kind)
            elif row.kind == "[table]":
                self._follow(at, f"[{row.table}]")
            elif row.kind == "table":
                self._follow(at, row.table)
            elif row.kind == "union":
                kind = self.data[found["attribute_type"]] if "attribute_type" in found else 0
                if 0 < kind < len(ATTRIBUTES):
                    self._follow(at, ATTRIBUTES[kind])
        if "op" in found and "attribute_type" in found:
            self.operators.append((found["op"], found["attribute_type"]))


Mutation = Callable[[bytearray, Map, Random], None]


def _scalar(data: bytearray, places: Map, random: Random) -> None:
    """Change a scalar: to a neighbour, an extreme, or another member of its enum."""
    at, code, enum = random.choice(places.scalars)
    width = struct.calcsize(code)
    if enum and random.random() < 0.8:
        value = random.choice([*places.enums[enum], len(places.enums[enum]), 255])
    elif random.random() < 0.4:
        value = int.from_bytes(data[at : at + width], "little") + random.choice([-2, -1, 1, 2, 8])
    else:
        value = random.choice(INTERESTING)
    data[at : at + width] = (value & (1 << 8 * width) - 1).to_bytes(width, "little")


def _retarget(data: bytearray, places: Map, random: Random) -> None:
    """Point an offset at another object of its kind, of another kind, or out of the file."""
    field, kind = random.choice(places.offsets)
    chance = random.random()
    if chance < 0.7:
        target = random.choice(places.targets[kind])
    elif chance < 0.8:
        target = random.choice(places.targets[random.choice(list(places.targets))])
    elif chance < 0.9:
        target = random.randrange(len(data) + 8)
    else:
        target = field + random.choice(INTERESTING)
    struct.pack_into("<I", data, field, (target - field) & 0xFFFFFFFF)


def _length(data: bytearray, places: Map, random: Random) -> None:
    at, width = random.choice(places.lengths)
    count = struct.unpack_from("<I", data, at)[0]
    choices = [0, 1, count - 1, count + 1, count * 2, len(data) // width, *INTERESTING]
    struct.pack_into("<I", data, at, random.choice(choices) & 0xFFFFFFFF)


def _string_length(data: bytearray, places: Map, random: Random) -> None:
    at, count = random.choice(places.strings)
    struct.pack_into(
        "<I", data, at, random.choice([0, count - 1, count + 1, *INTERESTING]) & 0xFFFFFFFF
    )


def _string_bytes(data: bytearray, places: Map, random: Random) -> None:
    at, count = random.choice(places.strings)
    if not count:
        return
    fill = random.choice([b"\xff", b"\0", b"\xed\xa0\x80", b"\xc3", b'"', b"\\", b"(", b"\n", b"%"])
    start = at + 4 + random.randrange(count)
    end = min(start + len(fill), at + 4 + count)
    data[start:end] = fill[: end - start]


def _blob(data: bytearray, places: Map, random: Random) -> None:
    at, count = random.choice(places.blobs) if places.blobs else (8, 1)
    if count:
        data[at + random.randrange(count)] = random.choice([0, 1, 7, 8, 0x7F, 0x80, 0x88, 0xFF])


def _entry(data: bytearray, places: Map, random: Random) -> None:
    """Change a slot of a vtable, or one of its two sizes."""
    at = random.choice(places.entries)
    other = struct.unpack_from("<H", data, random.choice(places.entries))[0]
    value = random.choice([0, 2, 3, 4, 6, 0xFFFF, other, other])
    struct.pack_into("<H", data, at, value)


def _vtable(data: bytearray, places: Map, random: Random) -> None:
    """Give a table the vtable of another, or an invalid one."""
    table = random.choice(places.vtables)
    other = random.choice(places.vtables)
    vtable = other - struct.unpack_from("<i", data, other)[0]
    distance = random.choice([table - vtable, table - vtable, 0, 2, *INTERESTING])
    struct.pack_into("<I", data, table, distance & 0xFFFFFFFF)


def _operator(data: bytearray, places: Map, random: Random) -> None:
    """Change the code of an operator and the type of its attributes."""
    if places.operators:
        op, kind = random.choice(places.operators)
        code = random.randrange(1, len(ATTRIBUTES) + 1)
        struct.pack_into("<I", data, op, code)
        data[kind] = code & 0xFF


def _cut(data: bytearray, places: Map, random: Random) -> None:
    del data[random.randrange(len(data)) :]


def _grow(data: bytearray, places: Map, random: Random) -> None:
    """Append zeros, the file itself, or random bytes."""
    data += random.choice([bytes(random.randrange(64)), bytes(data), random.randbytes(16)])


def _any(data: bytearray, places: Map, random: Random) -> None:
    mutate_bytes(data, random, 1)


_MUTATIONS: Final[list[Mutation]] = [
    _scalar,
    _scalar,
    _scalar,
    _retarget,
    _retarget,
    _length,
    _string_length,
    _string_bytes,
    _blob,
    _entry,
    _vtable,
    _operator,
    _cut,
    _grow,
    _any,
]
_WEIGHTS: Final = [6, 6, 6, 6, 6, 3, 2, 3, 4, 3, 2, 5, 1, 1, 2]


def mutate_flatbuffer(places: Map, random: Random) -> bytes:
    """Return a mutant of the mapped file, after one to four mutations."""
    data = bytearray(places.data)
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 4))):
        before = bytes(data) if len(data) < 64 else b""
        try:
            random.choices(_MUTATIONS, _WEIGHTS)[0](data, places, random)
        except (struct.error, IndexError):
            # An earlier mutation removed what this one would change.
            data = bytearray(before) or data
    return bytes(data)
