"""Writing MLIR's bytecode: its tables of strings, types and attributes, and the sections around them.

All numbers, of strings, types, attributes and so on, are returned encoded, ready to be joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tosa_convert.mlir.bytecode.format import (
    ARRAY,
    ATTRIBUTES_AND_TYPES,
    BLOB,
    DENSE_ELEMENTS,
    DENSE_RESOURCE,
    DIALECTS,
    DICTIONARY,
    IR,
    MAGIC,
    OFFSETS,
    PRODUCER,
    RESOURCE_OFFSETS,
    RESOURCES,
    STRING,
    STRINGS,
    UNKNOWN_LOCATION,
    VERSION,
)
from tosa_convert.mlir.bytecode.varint import Varints, encode_varint

#: Data of more bytes than this is not compared with other attributes.
_INTERNED: Final = 4096

#: Bytes of data: anything that can be joined.
Data = bytes | memoryview


class Table:
    """Attributes or types, in the order in which they were added; they may refer to later ones."""

    def __init__(self, numbers: Varints) -> None:
        self.numbers = numbers
        self.entries: list[bytes] = []
        #: The numbers of entries that were looked up.
        self.known: dict[bytes, bytes] = {}
        self.known_texts: dict[str, bytes] = {}
        #: The positions of entries that are text.
        self.texts: list[int] = []
        #: Pieces that follow an entry: large data, which is copied only once.
        self.tails: dict[int, Data] = {}

    def add(self, entry: bytes) -> bytes:
        """A new entry; returns its number."""
        self.entries.append(entry)
        return self.numbers[len(self.entries) - 1]

    def __call__(self, entry: bytes) -> bytes:
        """The number of an entry, which is added unless there is an equal one."""
        number = self.known.get(entry)
        if number is None:
            number = self.known[entry] = self.add(entry)
        return number

    def text(self, text: str) -> bytes:
        """The number of the attribute or type that MLIR prints as `text`."""
        number = self.known_texts.get(text)
        if number is None:
            self.texts.append(len(self.entries))
            number = self.known_texts[text] = self.add(text.encode() + b"\0")
        return number

    def data(self, head: bytes, data: Data) -> bytes:
        """The number of an entry that ends with data."""
        if len(data) <= _INTERNED:
            return self(head + data)
        self.tails[len(self.entries)] = data
        return self.add(head)

    def offsets(self) -> bytes:
        """The size of each entry. All belong to the first dialect: MLIR does not ask which one."""
        if not self.entries:
            return b""
        numbers, lengths = self.numbers, list(map(len, self.entries))
        for position, data in self.tails.items():
            lengths[position] += len(data)
        sizes = [numbers[length << 1 | 1] for length in lengths]
        for position in self.texts:
            sizes[position] = numbers[lengths[position] << 1]
        return numbers[0] + numbers[len(sizes)] + b"".join(sizes)

    def pieces(self) -> Iterable[Data]:
        """The entries, ready to be joined."""
        start = 0
        for position, data in self.tails.items():
            yield from self.entries[start : position + 1]
            yield data
            start = position + 1
        yield from self.entries[start:]


class Encoder:
    """The tables of one file. expected: how many numbers it is likely to need."""

    def __init__(self, expected: int = 0) -> None:
        self.numbers = Varints(expected)
        self.attributes = Table(self.numbers)
        self.types = Table(self.numbers)
        self.strings: dict[bytes, bytes] = {}
        self.string_attributes: dict[bytes, bytes] = {}
        #: Names of attributes, as string attributes.
        self.names: dict[str, bytes] = {}
        self.dialects: dict[str, bytes] = {}
        #: Full name of an operation -> its number, its dialect's, and that of the rest of the name.
        self.operations: dict[str, tuple[bytes, bytes, bytes]] = {}
        #: The name of the resource that attributes refer to, if any does.
        self.resource = b""
        self.dialect("builtin")
        self.unknown = self.attributes(self.numbers[UNKNOWN_LOCATION])

    def string(self, value: str | bytes) -> bytes:
        """The number of a string; it may have any bytes."""
        raw = value.encode() if isinstance(value, str) else value
        number = self.strings.get(raw)
        if number is None:
            number = self.strings[raw] = self.numbers[len(self.strings)]
        return number

    def dialect(self, name: str) -> bytes:
        """The number of a dialect."""
        number = self.dialects.get(name)
        if number is None:
            number = self.dialects[name] = self.numbers[len(self.dialects)]
        return number

    def operation(self, name: str) -> bytes:
        """The number of an operation's name."""
        operation = self.operations.get(name)
        if operation is None:
            dialect, _, stem = name.partition(".")
            number = self.numbers[len(self.operations)]
            operation = self.operations[name] = number, self.dialect(dialect), self.string(stem)
        return operation[0]

    # -- attributes that dialects share -------------------------------------------------------

    def string_attribute(self, value: str | bytes) -> bytes:
        """The number of a string attribute."""
        raw = value.encode() if isinstance(value, str) else value
        number = self.string_attributes.get(raw)
        if number is None:
            # There may be one for each operator, so it is added without looking for an equal entry.
            number = self.attributes.add(self.numbers[STRING] + self.string(raw))
            self.string_attributes[raw] = number
        return number

    def name(self, name: str) -> bytes:
        """The number of an attribute's name as a string attribute; most names are used many times."""
        number = self.names[name] = self.string_attribute(name)
        return number

    def array(self, elements: Sequence[bytes]) -> bytes:
        """The number of an array of attributes."""
        return self.attributes(
            self.numbers[ARRAY] + self.numbers[len(elements)] + b"".join(elements)
        )

    def dictionary(self, values: Iterable[tuple[str, bytes]], *, unique: bool = False) -> bytes:
        """The number of a dictionary of attributes. unique: no equal one was or will be added."""
        names = self.names
        # MLIR keeps them sorted.
        entries = [(names.get(name) or self.name(name)) + value for name, value in sorted(values)]
        entry = self.numbers[DICTIONARY] + self.numbers[len(entries)] + b"".join(entries)
        return self.attributes.add(entry) if unique else self.attributes(entry)

    def dense(self, type_: bytes, data: Data) -> bytes:
        """The number of a dense attribute of the type `type_`.

        data: all elements, or one element that all share. An element below 8 bits takes a byte; an
            element of type i1 takes a bit, and all bits are set or clear if all elements share it.
        """
        head = self.numbers[DENSE_ELEMENTS] + type_ + encode_varint(len(data))
        return self.attributes.data(head, data)

    def without_data(self, type_: bytes) -> bytes:
        """The number of a resource attribute of this type, whose resource has no data."""
        self.resource = self.string(b"tosa_convert")
        return self.attributes(self.numbers[DENSE_RESOURCE] + type_ + self.numbers[0])

    # -- the file -----------------------------------------------------------------------------

    def finish(self, operation: Iterable[Data]) -> bytes:
        """The file of one operation, whose encoding has these pieces."""
        numbers = self.numbers
        # The dialects come first, because their names must be among the strings.
        dialects = [numbers[len(self.dialects)]]
        dialects += [numbers[_decoded(self.string(name)) << 1] for name in self.dialects]
        for _, dialect, stem in self.operations.values():
            dialects += dialect, numbers[1], stem
        sections: list[tuple[int, list[Data]]] = [
            (DIALECTS, list(dialects)),
            (ATTRIBUTES_AND_TYPES, [*self.attributes.pieces(), *self.types.pieces()]),
            (
                OFFSETS,
                [
                    numbers[len(self.attributes.entries)],
                    numbers[len(self.types.entries)],
                    self.attributes.offsets(),
                    self.types.offsets(),
                ],
            ),
            (IR, [numbers[1 << 1], *operation]),
        ]
        if self.resource:
            group = numbers[0] + numbers[1] + self.resource + numbers[0] + bytes((BLOB,))
            sections += [(RESOURCES, []), (RESOURCE_OFFSETS, [numbers[0], group])]
        # The lengths are in the reverse order of the strings.
        lengths = [numbers[len(raw) + 1] for raw in reversed(self.strings)]
        texts = b"\0".join(self.strings) + b"\0"
        sections.append((STRINGS, [numbers[len(lengths)], *lengths, texts]))
        pieces: list[Data] = [MAGIC, encode_varint(VERSION), PRODUCER, b"\0"]
        for section_id, parts in sections:
            pieces += bytes((section_id,)), encode_varint(sum(map(len, parts)))
            pieces += parts
        return b"".join(pieces)


def _decoded(number: bytes) -> int:
    """The number of an encoding of at most seven bytes."""
    return int.from_bytes(number, "little") >> len(number)
