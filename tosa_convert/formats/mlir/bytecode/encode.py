"""Writing MLIR's bytecode. All numbers, of strings or types, are returned encoded, to be joined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from tosa_convert.formats.mlir.bytecode import format as code
from tosa_convert.formats.mlir.bytecode.varints import Varints, encode_varint

if TYPE_CHECKING:
    from tosa_convert.formats.mlir.bytecode.operation_columns import Numbers
    from tosa_convert.graph.constant import Rearranged

#: Data of more bytes than this is not compared with other attributes.
_INTERNED: Final = 4096

#: Bytes of data: anything that can be joined.
Data = bytes | memoryview
#: A piece of a file; `in_order` makes data of it.
Piece: TypeAlias = "Data | Rearranged"
#: Attributes of an operation: name and encoded number.
Pairs = tuple[tuple[str, bytes], ...]


class Resource(NamedTuple):
    """A resource. name: the number of the string. data: None for a declaration without data."""

    name: bytes
    data: Piece | None
    alignment: int


class Table:
    """Attributes or types, in the order in which they were added; they may refer to later ones."""

    def __init__(self, numbers: Varints) -> None:
        self.numbers = numbers
        self.count = 0
        #: The entries; those that `add_run` added are one piece.
        self.entries: list[bytes] = []
        #: The sizes of the entries in a piece, by its position.
        self.runs: dict[int, Numbers] = {}
        #: The numbers of entries that were looked up.
        self.known: dict[bytes, bytes] = {}
        self.known_texts: dict[str, bytes] = {}
        #: The positions of pieces that are text.
        self.texts: list[int] = []
        #: What follows a piece: large data, which is copied only once.
        self.tails: dict[int, Data] = {}

    def add(self, entry: bytes) -> bytes:
        self.entries.append(entry)
        self.count += 1
        return self.numbers[self.count - 1]

    def add_run(self, joined: bytes, sizes: Numbers) -> int:
        """Add many entries of these sizes, one after the other; return the number of the first."""
        first = self.count
        self.runs[len(self.entries)] = sizes
        self.entries.append(joined)
        self.count += len(sizes)
        return first

    def __call__(self, entry: bytes) -> bytes:
        """Return the encoded index of an entry, which is added unless there is an equal one."""
        number = self.known.get(entry)
        if number is None:
            number = self.known[entry] = self.add(entry)
        return number

    def text(self, text: str) -> bytes:
        """Return the encoded index of the attribute or type that MLIR prints as `text`."""
        number = self.known_texts.get(text)
        if number is None:
            self.texts.append(len(self.entries))
            number = self.known_texts[text] = self.add(text.encode() + b"\0")
        return number

    def data(self, head: bytes, data: Data) -> bytes:
        """Return the encoded index of an entry that ends with data."""
        if len(data) <= _INTERNED:
            return self(head + data)
        self.tails[len(self.entries)] = data
        return self.add(head)

    def offsets(self) -> bytes:
        """Encode the size of each entry, all of one dialect: MLIR does not ask which."""
        if not self.entries:
            return b""
        numbers, lengths = self.numbers, list(map(len, self.entries))
        for position, data in self.tails.items():
            lengths[position] += len(data)
        for position in self.runs:
            lengths[position] = 0
        sizes = [numbers[length << 1 | 1] for length in lengths]
        for position in self.texts:
            sizes[position] = numbers[lengths[position] << 1]
        for position, run in self.runs.items():
            from tosa_convert.formats.mlir.bytecode.operation_columns import (
                encode_together,
                join_together,
            )

            sizes[position] = join_together(*encode_together(run << 1 | 1))
        return numbers[0] + numbers[self.count] + b"".join(sizes)

    def pieces(self) -> Iterator[Data]:
        """Iterate over the entries. Large data is a piece by itself, and is not copied."""
        start = 0
        for position, data in self.tails.items():
            yield b"".join(self.entries[start : position + 1])
            yield data
            start = position + 1
        yield b"".join(self.entries[start:])


class Encoder:
    """Hold the tables of one file. version: of the format."""

    def __init__(self, version: int = code.VERSION) -> None:
        self.version = version
        self.numbers = Varints()
        self.attributes = Table(self.numbers)
        self.types = Table(self.numbers)
        self.strings: dict[bytes, bytes] = {}
        self.string_attributes: dict[bytes, bytes] = {}
        #: Names of attributes, as string attributes.
        self.names: dict[str, bytes] = {}
        self.dialects: dict[str, bytes] = {}
        #: Full name of an operation -> its number, its dialect's, and that of the rest of the name.
        self.operations: dict[str, tuple[bytes, bytes, bytes]] = {}
        #: Native properties and their numbers.
        self.properties: dict[bytes, bytes] = {}
        self.resources: list[Resource] = []
        self.dialect("builtin")
        self.unknown = self.attributes(self.numbers[code.UNKNOWN_LOCATION])

    def string(self, value: str | bytes) -> bytes:
        raw = value.encode() if isinstance(value, str) else value
        number = self.strings.get(raw)
        if number is None:
            number = self.strings[raw] = self.numbers[len(self.strings)]
        return number

    def dialect(self, name: str) -> bytes:
        number = self.dialects.get(name)
        if number is None:
            number = self.dialects[name] = self.numbers[len(self.dialects)]
        return number

    def operation(self, name: str) -> bytes:
        operation = self.operations.get(name)
        if operation is None:
            dialect, _, stem = name.partition(".")
            number = self.numbers[len(self.operations)]
            operation = self.operations[name] = number, self.dialect(dialect), self.string(stem)
        return operation[0]

    def isolated_regions(self, count: int, size: int) -> bytes:
        """Encode what precedes an operation's regions, of `size` bytes and using no outer value."""
        head = self.numbers[count << 1 | 1]
        if self.version < code.REGIONS_ARE_SECTIONS:
            return head
        return head + bytes((code.IR,)) + encode_varint(size)

    # -- attributes that dialects share -------------------------------------------------------

    def symbol_attribute(self, name: str) -> bytes:
        return self.attributes(self.numbers[code.FLAT_SYMBOL] + self.string_attribute(name))

    def string_attribute(self, value: str | bytes) -> bytes:
        raw = value.encode() if isinstance(value, str) else value
        number = self.string_attributes.get(raw)
        if number is None:
            # There may be one for each operator, so it is added without looking for an equal entry.
            number = self.attributes.add(self.numbers[code.STRING] + self.string(raw))
            self.string_attributes[raw] = number
        return number

    def name(self, name: str) -> bytes:
        number = self.names[name] = self.string_attribute(name)
        return number

    def array(self, elements: Sequence[bytes]) -> bytes:
        return self.attributes(
            self.numbers[code.ARRAY] + self.numbers[len(elements)] + b"".join(elements)
        )

    def dictionary(self, values: Iterable[tuple[str, bytes]], *, unique: bool = False) -> bytes:
        """Return the encoded index of a dictionary. unique: no equal one was or will be added."""
        names = self.names
        # MLIR keeps them sorted.
        entries = [(names.get(name) or self.name(name)) + value for name, value in sorted(values)]
        entry = self.numbers[code.DICTIONARY] + self.numbers[len(entries)] + b"".join(entries)
        return self.attributes.add(entry) if unique else self.attributes(entry)

    def attributes_of(
        self, operation: str, own: Pairs, discardable: Pairs = (), *, unique: bool = False
    ) -> tuple[int, bytes]:
        """Encode an operation's attributes: what it has, as HAS_ flags, and their indices."""
        if self.version < code.HAS_NATIVE_PROPERTIES:
            pairs = (*own, *discardable)
            return (
                (code.HAS_ATTRIBUTES, self.dictionary(pairs, unique=unique)) if pairs else (0, b"")
            )
        from tosa_convert.formats.mlir.bytecode.attributes import encode_properties

        has, encoded = 0, b""
        if discardable:
            has, encoded = code.HAS_ATTRIBUTES, self.dictionary(discardable, unique=unique)
        blob = encode_properties(operation, dict(own))
        if blob:
            has |= code.HAS_PROPERTIES
            number = self.properties.get(blob)
            if number is None:
                number = self.properties[blob] = self.numbers[len(self.properties)]
            encoded += number
        return has, encoded

    def dense(self, type_: bytes, data: Data) -> bytes:
        """Encode a dense attribute: all elements, of a byte or more (i1: a bit), or one for all."""
        head = self.numbers[code.DENSE_ELEMENTS] + type_ + encode_varint(len(data))
        return self.attributes.data(head, data)

    def dense_array(self, element: bytes, count: int, raw: bytes) -> bytes:
        """Return the encoded index of `array<element: ...>` of so many elements."""
        head = self.numbers[code.DENSE_ARRAY] + element + self.numbers[count]
        return self.attributes(head + encode_varint(len(raw)) + raw)

    def resource(self, type_: bytes, number: bytes) -> bytes:
        """Return the encoded index of an attribute of this type with the elements of a resource."""
        return self.attributes(self.numbers[code.DENSE_RESOURCE] + type_ + number)

    def add_resource(
        self, name: str | bytes, data: Piece | None = None, alignment: int = 1
    ) -> bytes:
        self.resources.append(Resource(self.string(name), data, alignment))
        return self.numbers[len(self.resources) - 1]

    # -- the file -----------------------------------------------------------------------------

    def finish(self, operation: Iterable[Data]) -> list[Piece]:
        """Return the file of one operation, encoded in these pieces; large data is not copied."""
        numbers, attributes, types = self.numbers, self.attributes, self.types
        counts = [numbers[attributes.count], numbers[types.count]]
        resources, blobs, alignment = self._resources()
        # The dialects come first, because their names must be among the strings.
        sections: list[tuple[int, Sequence[Piece], int]] = [
            (code.DIALECTS, [self._dialects()], 1),
            (code.ATTRIBUTES_AND_TYPES, [*attributes.pieces(), *types.pieces()], 1),
            (code.OFFSETS, [*counts, attributes.offsets(), types.offsets()], 1),
            (code.IR, [numbers[1 << 1], *operation], 1),
            (code.RESOURCE_OFFSETS, [resources], 1),
            (code.RESOURCES, blobs, alignment),
        ]
        # The lengths are in the reverse order of the strings.
        lengths = b"".join([numbers[len(raw) + 1] for raw in reversed(self.strings)])
        texts = b"\0".join(self.strings) + b"\0"
        sections.append((code.STRINGS, [numbers[len(self.strings)], lengths, texts], 1))
        if self.version >= code.HAS_NATIVE_PROPERTIES:
            parts = [part for blob in self.properties for part in (numbers[len(blob)], blob)]
            sections.append((code.PROPERTIES, [numbers[len(self.properties)], b"".join(parts)], 1))
        pieces: list[Piece] = [code.MAGIC + encode_varint(self.version) + code.PRODUCER + b"\0"]
        offset = len(pieces[0])
        for section_id, content, alignment in sections:
            size = sum(map(len, content))
            head = bytes((section_id,)) + encode_varint(size)
            if alignment > 1:
                head = bytes((section_id | code.ALIGNED,)) + head[1:] + encode_varint(alignment)
                head += _filler(offset + len(head), alignment)
            pieces.append(head)
            pieces += content
            offset += len(head) + size
        return pieces

    def _dialects(self) -> bytes:
        numbers, version = self.numbers, self.version
        shift = int(version >= code.DIALECTS_HAVE_VERSIONS)
        parts = [numbers[len(self.dialects)]]
        parts += [numbers[_decoded(self.string(name)) << shift] for name in self.dialects]
        if version >= code.COUNTS_NAMES:
            parts.append(numbers[len(self.operations)])
        for _, dialect, stem in self.operations.values():
            if version >= code.HAS_NATIVE_PROPERTIES:
                stem = numbers[_decoded(stem) << 1 | 1]  # the operation is registered
            parts += dialect, numbers[1], stem
        return b"".join(parts)

    def _resources(self) -> tuple[bytes, list[Piece], int]:
        """Return the section of resources' names and sizes, that of their data, and its alignment."""
        numbers, alignment, offset = self.numbers, 1, 0
        names: list[bytes] = []
        pieces: list[Piece] = []
        for name, data, aligned in self.resources:
            size = 0
            if data is not None:
                head = encode_varint(aligned) + encode_varint(len(data))
                head += _filler(offset + len(head), aligned)
                pieces += head, data
                size = len(head) + len(data)
                offset += size
                alignment = max(alignment, aligned)
            names += name, encode_varint(size), bytes((code.BLOB,))
        # No groups of other tools, and one of the first dialect, which is `builtin`.
        group = [numbers[0], numbers[len(self.resources)], *names] if names else []
        return numbers[0] + b"".join(group), pieces, alignment


class LocationEntries:
    """Adds locations to a bytecode and returns their encoded numbers.

    has_ranges: MLIR since 2025 has ranges in files; for others a range is its first place.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.string = encoder.string_attribute
        self.attributes = encoder.attributes
        self.numbers = encoder.numbers
        self.has_ranges = True
        #: The parts of each fused location.
        self.fused: dict[bytes, tuple[bytes, ...]] = {}

    def make(self, tag: int, *parts: bytes) -> bytes:
        return self.attributes(self.numbers[tag] + b"".join(parts))

    def place(self, name: str | bytes, places: list[int]) -> bytes:
        """Encode a place in a file, a line and a column, or a range, to a column or to another line."""
        if not self.has_ranges:
            places = places[:2]
        numbers, file = self.numbers, self.string(name)
        parts = [numbers[place] for place in places]
        if len(places) == 2:
            return self.make(code.FILE_LOCATION, file, *parts)
        return self.make(code.FILE_RANGE_LOCATION, file, numbers[len(places)], *parts)

    def name(self, name: str | bytes, child: bytes) -> bytes:
        return self.make(code.NAME_LOCATION, self.string(name), child)

    def fuse(self, locations: list[bytes]) -> bytes:
        """Fuse locations without duplicates, nesting and unknown ones, as MLIR does but in bytecode."""
        flat = dict.fromkeys(
            part for location in locations for part in self.fused.get(location, (location,))
        )
        flat.pop(self.encoder.unknown, None)
        parts = tuple(flat)
        if len(parts) < 2:
            return parts[0] if parts else self.encoder.unknown
        fused = self.make(code.FUSED_LOCATION, self.numbers[len(parts)], *parts)
        self.fused[fused] = parts
        return fused


def _filler(offset: int, alignment: int) -> bytes:
    return bytes((code.FILLER,)) * (-offset % alignment)


def _decoded(number: bytes) -> int:
    """Decode the index from an encoding of at most seven bytes."""
    return int.from_bytes(number, "little") >> len(number)
