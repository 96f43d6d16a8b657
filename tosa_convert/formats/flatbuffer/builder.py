"""Packs tables forward: references stay open until what they refer to has a position."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, count
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tosa_convert.errors import lone_surrogate
from tosa_convert.formats.wire.layout import TABLES
from tosa_convert.formats.wire.tables import Table, TableLayout
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.lazy_numpy import FEW, np
from tosa_convert.graph.model import Block, Region

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[np.int64]
    #: Positions of fields, or ids: an array where there are many.
    Positions = Sequence[int] | Numbers


class Interner:
    """Interning table: a value gets an id on first use and a position when it is written."""

    def __init__(self) -> None:
        # A missing key gets the next id, without a Python call for each key.
        self.ids: dict[Any, int] = defaultdict(count().__next__)
        #: Values after those in `ids`, in the order of their ids.
        self.last: Iterable[Any] = ()
        #: The position of each value in the file, by id.
        self.positions: Positions = []

    def intern(self, key: Hashable) -> int:
        return self.ids[key]

    def intern_all(self, keys: Iterable[Hashable]) -> list[int]:
        return list(map(self.ids.__getitem__, keys))

    def intern_array(self, keys: Iterable[Hashable], count: int) -> Numbers:
        return np.fromiter(map(self.ids.__getitem__, keys), np.int64, count)

    def intern_first(self, keys: Sequence[Hashable]) -> Sequence[int]:
        """Return the ids of many values that are probably distinct, if the table is probably empty."""
        # Fast path of intern_all; equal by test test_values_interned_first_get_the_same_ids
        if not self.ids:
            ids = range(len(keys))
            fresh = dict(zip(keys, ids, strict=True))
            if len(fresh) == len(keys):
                self.ids = defaultdict(count(len(keys)).__next__, fresh)
                return ids
        return self.intern_all(keys)

    def intern_last(self, keys: dict[Any, int]) -> Sequence[int]:
        """Return the ids of distinct values, probably new; no others may be interned after them."""
        # Fast path of intern_all; equal by test test_values_interned_last_get_the_same_ids
        if not self.ids.keys().isdisjoint(keys.keys()):
            return self.intern_all(keys)
        self.last = keys
        return range(len(self.ids), len(self.ids) + len(keys))


#: Alignment of constants' data in the file, in bytes; the schema asks for 8.
DATA_ALIGN: Final = 16
#: Alignment of data after the flatbuffer, in bytes; existing readers were tested with it.
TAIL_ALIGN: Final = 8

_ZEROS: Final = memoryview(bytes(2 * DATA_ALIGN))
_GAPS: Final = [bytes(size) for size in range(DATA_ALIGN)]


class Plan:
    """A file's tables, and the position of each constant's data.

    size: bytes of the whole file. out_of_line: the data lies after the flatbuffer.
    """

    __slots__ = ("data", "head", "out_of_line", "size")

    def __init__(
        self, head: bytearray, data: list[tuple[int, Constant]], size: int, out_of_line: bool
    ) -> None:
        self.head = head
        self.data = data
        self.size = size
        self.out_of_line = out_of_line

    def pieces(self) -> Iterator[bytes | bytearray | memoryview]:
        """Iterate over the file's bytes in order; constants come as views of their own buffers."""
        yield self.head
        position = len(self.head)
        for start, constant in self.data:
            size = constant.nbytes + constant.padding
            if self.out_of_line:
                yield _ZEROS[: start - position]
            else:
                yield _GAPS[start - 4 - position] + U32.pack(size)
            if constant.is_view:
                yield constant.buffer
            else:
                yield from constant.chunks()
            if constant.padding:
                yield _ZEROS[: constant.padding]
            position = start + size


#: An interner and an id of it; None instead of an interner means the objects.
Reference: TypeAlias = tuple[Interner | None, int]

U32: Final = struct.Struct("<I")
#: The bytes after a string of length n mod 4: its zeros, and room for the length of the next one.
_ENDS: Final = (bytes(8), bytes(7), bytes(6), bytes(5))


class Builder:
    """A flatbuffer under construction. `out` holds the objects that have a position."""

    #: The tables of the file's schema, by name.
    tables: Mapping[str, Table] = TABLES

    def __init__(self, *, out_of_line: bool) -> None:
        self.out_of_line = out_of_line
        self.out = bytearray()
        self.vtables: dict[bytes, int] = {}
        self.strings = Interner()
        self.vectors = Interner()
        self.blobs = Interner()
        #: The position of each object, -1 until it has one.
        self.objects: list[int] = []
        #: Open references in bulk: positions of fields, the interner, and the ids.
        self.open: list[tuple[Positions, Interner | None, Positions]] = []
        #: Open references one by one, by interner: positions of fields, and the ids.
        self.open_single: dict[Interner | None, tuple[list[int], list[int]]] = {}
        self.constants: list[tuple[int, Constant]] = []
        #: The position of a tensor's offset field, and the data it is for (None: it has no data).
        self.tails: list[tuple[int, Constant | None]] = []
        self.no_data = self.new_object()

    # -- references ---------------------------------------------------------------------------

    def new_object(self) -> int:
        """Return the id of an object that has no position yet."""
        self.objects.append(-1)
        return len(self.objects) - 1

    def new_objects(self, count: int) -> range:
        """Return the ids of several objects that have no position yet."""
        first = len(self.objects)
        self.objects.extend([-1] * count)
        return range(first, first + count)

    def refer(self, at: int, interner: Interner | None, to: int) -> None:
        """Leave the field at `at` open: it refers to id `to`."""
        fields, targets = self.open_single.setdefault(interner, ([], []))
        fields.append(at)
        targets.append(to)

    # -- placing ------------------------------------------------------------------------------

    def align(self, to: int, ahead: int = 0) -> None:
        """Pad until the position `ahead` bytes from here is a multiple of `to`."""
        self.out += bytes(-(len(self.out) + ahead) % to)

    def place(self, which: int) -> None:
        self.objects[which] = len(self.out)

    def vtable(self, code: bytes) -> int:
        """Return the position of a vtable, which tables of one layout share."""
        position = self.vtables.get(code)
        if position is None:
            self.align(2)
            position = self.vtables[code] = len(self.out)
            self.out += code
        return position

    def table(self, name: str, scalars: dict[str, int], references: dict[str, Reference]) -> int:
        layout = self.tables[name].layout((*scalars, *references))
        vtable = self.vtable(layout.vtable)
        self.align(layout.align)
        start = len(self.out)
        self.out += layout.pack.pack(start - vtable, *(scalars.get(n, 0) for n in layout.names))
        for field, (interner, which) in references.items():
            self.refer(start + layout.offsets[field], interner, which)
        return start

    def vector_of(self, which: int, interner: Interner | None, members: Sequence[int]) -> None:
        """Append object `which`: a vector of references."""
        self.align(4)
        self.place(which)
        self.out += U32.pack(len(members))
        start = len(self.out)
        self.out += bytes(4 * len(members))
        self.open.append((range(start, start + 4 * len(members), 4), interner, members))

    def names(self, which: int, names: Iterable[str]) -> None:
        self.vector_of(which, self.strings, self.strings.intern_all(names))

    def members(self, which: int, count: int) -> range:
        """Append object `which`: a vector of new objects; return their ids."""
        members = self.new_objects(count)
        self.vector_of(which, None, members)
        return members

    def string(self, text: str) -> Reference:
        return self.strings, self.strings.intern(text)

    def regions(self, which: int, regions: Sequence[Region]) -> None:
        """Append object `which`: a vector of regions, with their blocks."""
        members = self.members(which, len(regions))
        for member, region in zip(members, regions, strict=True):
            blocks_at = self.new_object()
            self.objects[member] = self.table(
                "TosaRegion", {}, {"name": self.string(region.name), "blocks": (None, blocks_at)}
            )
            blocks = self.members(blocks_at, len(region.blocks))
            for block_at, block in zip(blocks, region.blocks, strict=True):
                self.block(block_at, block, region.name)

    def block(self, which: int, block: Block, region: str) -> None:
        """Append a block of a region; each schema has its own operators and tensors."""
        raise NotImplementedError

    def rows(self, layout: TableLayout, columns: dict[str, Any]) -> range:
        """Append tables of 32-bit fields, each a column of numbers or (interner, ids)."""
        # Fast path of table; equal by test test_many_tables_are_packed_as_each_of_them_alone
        vtable = self.vtable(layout.vtable)
        self.align(4)
        count = max(len(c[1]) if isinstance(c, tuple) else len(c) for c in columns.values())
        starts = range(len(self.out), len(self.out) + layout.size * count, layout.size)
        numbers: dict[int, Any] = {
            0: range(starts.start - vtable, starts.stop - vtable, layout.size)
        }
        for name, column in columns.items():
            offset = layout.offsets[name]
            if isinstance(column, tuple):
                fields = range(starts.start + offset, starts.stop + offset, layout.size)
                self.open.append((fields, *column))
            else:
                numbers[offset // 4] = column
        width = layout.size // 4
        if count < FEW:
            rows = zip(*(numbers.get(index, [0] * count) for index in range(width)), strict=True)
            self.out += struct.pack(f"<{count * width}I", *chain.from_iterable(rows))
        else:
            # Fast path of the rows; equal by test test_few_tables_are_laid_out_as_many
            words = np.zeros((count, width), np.uint32)
            for index, column in numbers.items():
                words[:, index] = as_array(column)
            self.out += words.astype("<u4").data.cast("B")
        return starts

    # -- vectors and strings, and the end -----------------------------------------------------

    def place_vectors(self) -> None:
        """Append the interned vectors and blobs of bytes."""
        self.align(4)
        self.vectors.positions = places = []
        for values in self.vectors.ids:
            places.append(len(self.out))
            self.out += struct.pack(f"<I{len(values)}i", len(values), *values)
        self.blobs.positions = places = []
        for blob in self.blobs.ids:
            self.align(8, ahead=4)
            places.append(len(self.out))
            self.out += U32.pack(len(blob))
            self.out += blob
        self.align(4)

    def place_strings(self) -> None:
        """Append the interned strings: length, bytes, and zeros up to a multiple of 4."""
        texts = [*self.strings.ids, *self.strings.last]
        lengths, padded = _padded(texts)
        first = len(self.out)
        # After each text its zeros and room for the length of the next one; the last has none.
        self.out += bytes(4)
        self.out += padded
        del self.out[-4:]
        if len(lengths) < FEW:
            sizes = (4 + (length // 4 + 1) * 4 for length in lengths)
            places = list(accumulate(sizes, initial=first))[:-1]
            self.strings.positions = places
            for at, length in zip(places, lengths, strict=True):
                U32.pack_into(self.out, at, length)
            return
        # Fast path of the loop; equal by test test_few_tables_are_laid_out_as_many
        counts = np.array(lengths, np.int64)
        all_sizes = 4 + (counts // 4 + 1) * 4
        starts = first + np.cumsum(all_sizes) - all_sizes
        self.strings.positions = starts
        words = np.frombuffer(self.out, "<u4", count=len(self.out) // 4)
        words[starts >> 2] = counts
        del words

    def finish_embedded(self) -> Plan:
        """Return the plan of a file whose constants follow the tables inside the flatbuffer."""
        position = len(self.out)
        data: list[tuple[int, Constant]] = []
        for which, constant in self.constants:
            # A vector's length directly precedes its elements.
            start = position + 4
            start += -start % DATA_ALIGN
            self.objects[which] = start - 4
            data.append((start, constant))
            position = start + constant.nbytes + constant.padding
        return self.finished(data, position)

    def finish_out_of_line(self) -> Plan:
        """Return the plan of a file whose tensors' data follows the flatbuffer."""
        for which, constant in self.constants:
            self.align(DATA_ALIGN, ahead=4)
            self.place(which)
            self.out += U32.pack(constant.nbytes)
            for chunk in constant.chunks():
                self.out += chunk
        self.align(TAIL_ALIGN)
        position = len(self.out)
        data: list[tuple[int, Constant]] = []
        for field, tail in self.tails:
            if tail is None:
                # Never 0 or 1, which existing readers take to mean that the data is inside.
                struct.pack_into("<QQ", self.out, field, position, 0)
                continue
            position += -position % TAIL_ALIGN
            stored = tail.nbytes + tail.padding
            struct.pack_into("<QQ", self.out, field, position, stored)
            data.append((position, tail))
            position += stored
        return self.finished(data, position)

    def finished(self, data: list[tuple[int, Constant]], size: int) -> Plan:
        for interner, (fields, targets) in self.open_single.items():
            self.open.append((fields, interner, targets))
        many = []
        for row in self.open:
            at, interner, to = row
            if len(at) >= FEW:
                many.append(row)
                continue
            places = self.objects if interner is None else interner.positions
            # Distances beyond 32 bits occur only in a plan that is too large to be written.
            for field, target in zip(at, to, strict=True):
                U32.pack_into(self.out, field, int(places[target]) - field & 0xFFFFFFFF)
        if many:
            self.fill_in(many)
        return Plan(self.out, data, size, self.out_of_line)

    def fill_in(self, rows: list[tuple[Positions, Interner | None, Positions]]) -> None:
        """Fill in many open references, as `finished` does one by one."""
        # Fast path of the loop there; equal by test test_few_tables_are_laid_out_as_many
        words = np.frombuffer(self.out, "<u4", count=len(self.out) // 4)
        objects = np.array(self.objects, np.int64)
        for fields, interner, to in rows:
            at = as_array(fields)
            places = objects if interner is None else as_array(interner.positions)
            words[at >> 2] = (places[as_array(to)] - at) & 0xFFFFFFFF
        del words


def as_array(numbers: Positions) -> Numbers:
    if isinstance(numbers, range):
        return np.arange(numbers.start, numbers.stop, numbers.step, dtype=np.int64)
    return np.asarray(numbers, np.int64)


def _padded(texts: list[str]) -> tuple[list[int], bytes]:
    """Return how many bytes each text has, and all of them with what is between two texts."""
    try:
        encoded = list(map(str.encode, texts))
    except UnicodeEncodeError as error:
        raise lone_surrogate(error) from None
    lengths = list(map(len, encoded))
    tails = [_ENDS[length & 3] for length in lengths]
    return lengths, b"".join(chain.from_iterable(zip(encoded, tails, strict=True)))
