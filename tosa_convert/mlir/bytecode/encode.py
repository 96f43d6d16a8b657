"""Writing MLIR's bytecode: its tables of strings, types and attributes, and the sections around them.

An index, whatever it is into, is handed out as the bytes that stand for it, ready to be joined.
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

#: Data of more bytes than this is never looked up among the other attributes.
_INTERNED: Final = 4096

#: Bytes of data: whatever can be joined.
Data = bytes | memoryview


class Table:
    """Attributes or types, in the order in which they were added; they may refer to later ones."""

    def __init__(self, numbers: Varints) -> None:
        self.numbers = numbers
        self.entries: list[bytes] = []
        self.known: dict[bytes, bytes] = {}
        self.known_texts: dict[str, bytes] = {}
        #: The entries that are text.
        self.texts: list[int] = []
        #: Pieces that follow an entry: large data, which is copied once only.
        self.tails: dict[int, Data] = {}

    def add(self, entry: bytes) -> bytes:
        """A new entry; returns its index."""
        self.entries.append(entry)
        return self.numbers[len(self.entries) - 1]

    def __call__(self, entry: bytes) -> bytes:
        """The index of an entry, which is added unless there is an equal one."""
        found = self.known.get(entry)
        if found is None:
            found = self.known[entry] = self.add(entry)
        return found

    def text(self, text: str) -> bytes:
        """The index of an attribute or type as MLIR's text spells it."""
        found = self.known_texts.get(text)
        if found is None:
            self.texts.append(len(self.entries))
            found = self.known_texts[text] = self.add(text.encode() + b"\0")
        return found

    def data(self, head: bytes, data: Data) -> bytes:
        """The index of an entry that ends with data."""
        if len(data) <= _INTERNED:
            return self(head + data)
        self.tails[len(self.entries)] = data
        return self.add(head)

    def offsets(self) -> bytes:
        """The size of each entry, as the group of one dialect, the first: none is asked for it."""
        if not self.entries:
            return b""
        numbers, lengths = self.numbers, list(map(len, self.entries))
        for place, data in self.tails.items():
            lengths[place] += len(data)
        sizes = [numbers[length << 1 | 1] for length in lengths]
        for place in self.texts:
            sizes[place] = numbers[lengths[place] << 1]
        return numbers[0] + numbers[len(sizes)] + b"".join(sizes)

    def pieces(self) -> Iterable[Data]:
        """The entries, ready to be joined."""
        start = 0
        for place, data in self.tails.items():
            yield from self.entries[start : place + 1]
            yield data
            start = place + 1
        yield from self.entries[start:]


class Encoder:
    """The tables of one file, for which `expected` numbers and their like are no surprise."""

    def __init__(self, expected: int = 0) -> None:
        self.numbers = Varints(expected)
        self.attributes = Table(self.numbers)
        self.types = Table(self.numbers)
        self.strings: dict[bytes, bytes] = {}
        self.string_attributes: dict[bytes, bytes] = {}
        #: Names of attributes, as string attributes.
        self.names: dict[str, bytes] = {}
        #: Index of each dialect, and of each operation's name with that of its dialect and of itself.
        self.dialects: dict[str, bytes] = {}
        self.operations: dict[str, tuple[bytes, bytes, bytes]] = {}
        #: The name of the resource that attributes refer to, if any does.
        self.resource = b""
        self.dialect("builtin")
        self.unknown = self.attributes(self.numbers[UNKNOWN_LOCATION])

    def string(self, value: str | bytes) -> bytes:
        """The index of a string; it may have any bytes."""
        raw = value.encode() if isinstance(value, str) else value
        found = self.strings.get(raw)
        if found is None:
            found = self.strings[raw] = self.numbers[len(self.strings)]
        return found

    def dialect(self, name: str) -> bytes:
        """The index of a dialect."""
        found = self.dialects.get(name)
        if found is None:
            found = self.dialects[name] = self.numbers[len(self.dialects)]
        return found

    def operation(self, name: str) -> bytes:
        """The index of an operation's name."""
        found = self.operations.get(name)
        if found is None:
            dialect, _, rest = name.partition(".")
            index = self.numbers[len(self.operations)]
            found = self.operations[name] = index, self.dialect(dialect), self.string(rest)
        return found[0]

    # -- attributes that dialects share -------------------------------------------------------

    def string_attribute(self, value: str | bytes) -> bytes:
        """The index of a string attribute."""
        raw = value.encode() if isinstance(value, str) else value
        found = self.string_attributes.get(raw)
        if found is None:
            # No entry is like this one, so it is not looked up: there may be one for each operator.
            found = self.attributes.add(self.numbers[STRING] + self.string(raw))
            self.string_attributes[raw] = found
        return found

    def name(self, name: str) -> bytes:
        """The index of the name of an attribute, which is likely to be asked for again."""
        found = self.names[name] = self.string_attribute(name)
        return found

    def array(self, elements: Sequence[bytes]) -> bytes:
        """The index of an array of attributes."""
        return self.attributes(
            self.numbers[ARRAY] + self.numbers[len(elements)] + b"".join(elements)
        )

    def dictionary(self, values: Iterable[tuple[str, bytes]], *, unique: bool = False) -> bytes:
        """The index of a dictionary of attributes. `unique`: there is surely no other one like it."""
        names = self.names
        # MLIR keeps them sorted.
        entries = [(names.get(name) or self.name(name)) + value for name, value in sorted(values)]
        entry = self.numbers[DICTIONARY] + self.numbers[len(entries)] + b"".join(entries)
        return self.attributes.add(entry) if unique else self.attributes(entry)

    def dense(self, kind: bytes, data: Data) -> bytes:
        """The index of elements of the type `kind`: all of them, or one that stands for all.

        Elements below 8 bits take a byte each, and those of i1 a bit, where all bits stand for all.
        """
        head = self.numbers[DENSE_ELEMENTS] + kind + encode_varint(len(data))
        return self.attributes.data(head, data)

    def without_data(self, kind: bytes) -> bytes:
        """The index of elements whose data is a resource, and that resource has none."""
        self.resource = self.string(b"tosa_convert")
        return self.attributes(self.numbers[DENSE_RESOURCE] + kind + self.numbers[0])

    # -- the file -----------------------------------------------------------------------------

    def finish(self, operation: Iterable[Data]) -> bytes:
        """The file of one operation, whose encoding has these pieces."""
        numbers = self.numbers
        # The dialects come first here, and their names must be among the strings.
        dialects = [numbers[len(self.dialects)]]
        dialects += [numbers[_index(self.string(name)) << 1] for name in self.dialects]
        for _, dialect, name in self.operations.values():
            dialects += dialect, numbers[1], name
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
        # The lengths stand in the opposite order of the strings.
        lengths = [numbers[len(raw) + 1] for raw in reversed(self.strings)]
        texts = b"\0".join(self.strings) + b"\0"
        sections.append((STRINGS, [numbers[len(lengths)], *lengths, texts]))
        pieces: list[Data] = [MAGIC, encode_varint(VERSION), PRODUCER, b"\0"]
        for kind, parts in sections:
            pieces += bytes((kind,)), encode_varint(sum(map(len, parts)))
            pieces += parts
        return b"".join(pieces)


def _index(encoded: bytes) -> int:
    """The number that an index stands for."""
    return int.from_bytes(encoded, "little") >> len(encoded)
