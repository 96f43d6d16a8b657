"""What bytecode says: its operations, attributes and types.

MLIR has just written it itself, so nothing in it is doubted. Files go through `envelope`
and MLIR's own parser first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from tosa_convert.bindings.packages import Bindings
from tosa_convert.bindings.write_bytecode import Section, capture
from tosa_convert.mlir.bytecode import format as code
from tosa_convert.mlir.bytecode.detached import NO_DETACHED_WEIGHTS, DetachedWeights
from tosa_convert.mlir.bytecode.operations import Operation, operations
from tosa_convert.mlir.bytecode.varint import decode_varint, encode_varint, from_zigzag

# -- attributes and types ---------------------------------------------------------------------------


class TensorType(NamedTuple):
    """A tensor type. shape: None is unranked; -1 is a dynamic dimension. element: in MLIR's words."""

    shape: tuple[int, ...] | None
    element: str
    encoded: bool = False

    def __str__(self) -> str:
        if self.shape is None:
            return f"tensor<*x{self.element}>"
        sizes = "".join(f"{'?' if size < 0 else size}x" for size in self.shape)
        return f"tensor<{sizes}{self.element}>"


class Unread:
    """An attribute or type that is of no kind that programs are made of; `spell` has MLIR say it."""


#: Types are tensors, or what MLIR spells of any other.
Type = TensorType | str


class Number(NamedTuple):
    """An integer or a float: its type, and its bits as an unsigned number."""

    type: Type
    bits: int
    is_float: bool

    def signed(self) -> int:
        """An integer as two's complement; of type i1, 0 or 1."""
        width = width_of(self.type)
        return self.bits - (self.bits >> (width - 1) << width) if width > 1 else self.bits


class TypeReference(NamedTuple):
    """A type as an attribute."""

    type: Type


@dataclass(slots=True)
class Numbers:
    """array<i64: ...>: the element type and the elements' bytes."""

    element: Type
    count: int
    data: bytes


class Dense(NamedTuple):
    """dense<...>: raw data; one element stands for all where there are more."""

    type: Type
    data: memoryview


class DenseStrings(NamedTuple):
    """dense<"..."> : the strings, or the one that stands for all."""

    type: Type
    is_splat: bool
    strings: list[bytes]


class Resource(NamedTuple):
    """dense_resource<...>; data is None where the module has none."""

    type: Type
    data: memoryview | None


#: str: the text of an attribute of a dialect. list, dict: numbers of attributes. None: unit.
Attribute = (
    bytes
    | str
    | list[int]
    | dict[str, int]
    | Number
    | TypeReference
    | Numbers
    | Dense
    | DenseStrings
    | Resource
    | Unread
    | None
)

_UNREAD: Final = Unread()
#: No attribute begins so: there is none of this kind.
_NONE: Final = b"\xff"
_SIGNS: Final = ("i", "si", "ui")


class Bytecode:
    """The bytecode of one operation; attributes and types are decoded when they are asked for.

    weights: what was taken out of the file before MLIR read it.
    """

    def __init__(
        self, bindings: Bindings, operation: Any, weights: DetachedWeights = NO_DETACHED_WEIGHTS
    ) -> None:
        self.bindings = bindings
        self.weights = weights
        self.sections = capture(bindings, operation)
        self.strings = _strings(self.sections[code.STRINGS].bytes)
        self.dialects: list[str] = []
        self.names = self._names(self.sections[code.DIALECTS].bytes)
        section = self.sections[code.ATTRIBUTES_AND_TYPES]
        self.bytes, self.data = section.bytes, section.data
        #: Offsets in `bytes`, attributes before types; dialects, and whether the encoding is theirs.
        self.starts: list[int] = []
        self.attribute_count = 0
        self._offsets(self.sections[code.OFFSETS].bytes)
        self._types: dict[int, Type] = {}
        self._attributes: dict[int, Attribute] = {}
        self._keys: dict[int, str] = {}
        #: How a dictionary begins that has one entry, of the name "values", once there was any with it.
        self._values = _NONE
        #: What MLIR said of attributes and types, by their numbers.
        self.spelled: dict[tuple[int, int], str] = {}
        self._resources: list[tuple[str, memoryview | None]] | None = None
        self.root = Operation(*operations(self.sections[code.IR].bytes))

    # -- tables -------------------------------------------------------------------------------

    def _names(self, data: bytes) -> list[str]:
        """The names of operations, with their dialects."""
        count, at = decode_varint(data, 0)
        for _ in range(count):
            index, at = decode_varint(data, at)
            if index & 1:
                # A dialect's version: a section of its own.
                size, at = decode_varint(data, at + 1)
                at += size
            self.dialects.append(self.strings[index >> 1].decode("utf-8", "replace"))
        names = []
        while at < len(data):
            dialect, at = decode_varint(data, at)
            count, at = decode_varint(data, at)
            for _ in range(count):
                index, at = decode_varint(data, at)
                stem = self.strings[index].decode("utf-8", "replace")
                names.append(f"{self.dialects[dialect]}.{stem}")
        return names

    def _offsets(self, data: bytes) -> None:
        attributes, at = decode_varint(data, 0)
        types, at = decode_varint(data, at)
        self.attribute_count = attributes
        sizes: list[np.ndarray[Any, Any]] = []
        dialects: list[np.ndarray[Any, Any]] = []
        left = attributes + types
        while left:
            dialect, at = decode_varint(data, at)
            count, at = decode_varint(data, at)
            found = np.frombuffer(data, np.uint8, count, at)
            if (found & 1).all():
                sizes.append((found >> 1).astype(np.int64))
                at += count
            else:
                wide = []
                for _ in range(count):
                    number, at = decode_varint(data, at)
                    wide.append(number)
                sizes.append(np.array(wide, np.int64))
            dialects.append(np.full(count, dialect, np.int32))
            left -= count
        whole = np.concatenate(sizes) if sizes else np.zeros(0, np.int64)
        #: The lowest bit: whether the dialect encodes it, rather than MLIR spelling it.
        self.is_encoded = (whole & 1).astype(bool).tolist()
        self.dialect_of = np.concatenate(dialects).tolist() if dialects else []
        starts = np.zeros(len(whole) + 1, np.int64)
        np.cumsum(whole >> 1, out=starts[1:])
        if self.data:
            # Whatever begins behind data that was left out begins that much earlier in the bytes.
            places = np.array(sorted(self.data), np.int64)
            removed = np.cumsum([0, *(len(self.data[place]) for place in places.tolist())])
            starts -= removed[np.searchsorted(places + removed[1:], starts, side="right")]
        self.starts = starts.tolist()

    # -- attributes ---------------------------------------------------------------------------

    def attribute(self, index: int) -> Attribute:
        """The attribute with this number."""
        try:
            return self._attributes[index]
        except KeyError:
            found = self._attributes[index] = self._attribute(index)
            return found

    def dictionary(self, index: int) -> dict[str, int]:
        """The attributes' numbers by name; of -1: none."""
        found = self.attribute(index) if index >= 0 else {}
        assert isinstance(found, dict)
        return found

    def only_dense(self, index: int) -> tuple[int, memoryview] | None:
        """The number of the type, and the data, of a dictionary of nothing but `values = dense<...>`.

        Most constants are that, and are looked at once. None: it is another dictionary, or the first
        with that name, or the constant was taken out of the file.
        """
        data, at = self.bytes, self.starts[index]
        if not data.startswith(self._values, at) or not self.is_encoded[index]:
            return None
        value, _ = decode_varint(data, at + len(self._values))
        at = self.starts[value]
        if data[at] != code.DENSE_ELEMENTS << 1 | 1 or not self.is_encoded[value]:
            return None
        if self.dialects[self.dialect_of[value]] != "builtin":
            return None
        kind, at = decode_varint(data, at + 1)
        size, at = decode_varint(data, at)
        return kind, self._blob(size, at)

    def _attribute(self, index: int) -> Attribute:
        data, at = self.bytes, self.starts[index]
        if not self.is_encoded[index]:
            return data[at : self.starts[index + 1] - 1].decode("utf-8", "replace")
        if self.dialects[self.dialect_of[index]] != "builtin":
            return _UNREAD
        kind, at = decode_varint(data, at)
        first, at = decode_varint(data, at) if at < self.starts[index + 1] else (0, at)
        if kind == code.STRING:
            return self.strings[first]
        if kind == code.DICTIONARY:
            pairs = {}
            for _ in range(first):
                name, at = decode_varint(data, at)
                value, at = decode_varint(data, at)
                pairs[self._keys.get(name) or self._key(name)] = value
            return pairs
        if kind == code.DENSE_ELEMENTS:
            size, at = decode_varint(data, at)
            return Dense(self.type(first), self._blob(size, at))
        if kind == code.ARRAY:
            return self._numbers(first, at)
        if kind == code.INTEGER or kind == code.FLOAT:
            return self._number(first, at, kind == code.FLOAT)
        if kind == code.TYPE:
            return TypeReference(self.type(first))
        if kind == code.UNIT:
            return None
        if kind == code.DENSE_ARRAY:
            count, at = decode_varint(data, at)
            size, at = decode_varint(data, at)
            return Numbers(self.type(first), count, bytes(self._blob(size, at)))
        if kind == code.DENSE_STRINGS:
            is_splat, at = decode_varint(data, at)
            strings = self._numbers((self.starts[index + 1] - at), at, self.starts[index + 1])
            return DenseStrings(
                self.type(first), bool(is_splat), [self.strings[number] for number in strings]
            )
        if kind == code.DENSE_RESOURCE:
            handle, at = decode_varint(data, at)
            label, blob = self._resource(handle)
            taken = self.weights.get(label)
            if taken is None:
                return Resource(self.type(first), blob)
            if taken.is_dense:
                return Dense(self.type(first), taken.data)
            return Resource(self.type(first), taken.data)
        if kind == code.STRING_WITH_TYPE:
            return self.strings[first]
        return _UNREAD

    def _key(self, index: int) -> str:
        """The text of a string attribute that is a key of dictionaries."""
        key = self.attribute(index)
        assert isinstance(key, bytes)
        found = self._keys[index] = key.decode("utf-8", "replace")
        if key == b"values":
            self._values = bytes((code.DICTIONARY << 1 | 1, 1 << 1 | 1)) + encode_varint(index)
        return found

    def _numbers(self, count: int, at: int, end: int = -1) -> list[int]:
        """So many numbers, or as many as there are up to `end`."""
        found: list[int] = []
        while len(found) < count and at != end:
            number, at = decode_varint(self.bytes, at)
            found.append(number)
        return found

    def _blob(self, size: int, at: int) -> memoryview:
        left_out = self.data.get(at) if self.data else None
        if left_out is not None and len(left_out) == size:
            return left_out
        return memoryview(self.bytes)[at : at + size]

    def _number(self, index: int, at: int, is_float: bool) -> Attribute:
        kind = self.type(index)
        width = width_of(kind)
        if not width:
            return _UNREAD
        if width <= 8:
            bits = self.bytes[at]
        elif width <= 64:
            bits = from_zigzag(decode_varint(self.bytes, at)[0])
        else:
            count, at = decode_varint(self.bytes, at)
            bits = 0
            for place, word in enumerate(self._numbers(count, at)):
                bits |= (from_zigzag(word) & (1 << 64) - 1) << 64 * place
        return Number(kind, bits & (1 << width) - 1, is_float)

    def _resource(self, handle: int) -> tuple[str, memoryview | None]:
        if self._resources is None:
            self._resources = self._read_resources()
        return self._resources[handle]

    def _read_resources(self) -> list[tuple[str, memoryview | None]]:
        """The names and data of all resources of dialects, in the order of their numbers."""
        if code.RESOURCE_OFFSETS not in self.sections:
            return []
        offsets = self.sections[code.RESOURCE_OFFSETS].bytes
        section = self.sections.get(code.RESOURCES, Section())
        found: list[tuple[str, memoryview | None]] = []
        # Resources of tools other than dialects come first. Each group: whose, and its entries.
        external, at = decode_varint(offsets, 0)
        place = 0
        group = 0
        while at < len(offsets):
            _, at = decode_varint(offsets, at)
            count, at = decode_varint(offsets, at)
            for _ in range(count):
                name, at = decode_varint(offsets, at)
                size, at = decode_varint(offsets, at)
                is_data = not offsets[at]
                at += 1
                entry, left_out = _entry(section, place, size) if is_data else (None, 0)
                place += size - left_out
                if group >= external:
                    found.append((self.strings[name].decode("utf-8", "replace"), entry))
            group += 1
        return found

    # -- types --------------------------------------------------------------------------------

    def type(self, index: int) -> Type:
        """The type with this number."""
        try:
            return self._types[index]
        except KeyError:
            found = self._types[index] = self._type(index)
            return found

    def _type(self, index: int) -> Type:
        place = index + self.attribute_count
        data, at = self.bytes, self.starts[place]
        if not self.is_encoded[place]:
            return data[at : self.starts[place + 1] - 1].decode("utf-8", "replace")
        if self.dialects[self.dialect_of[place]] == "builtin":
            kind, at = decode_varint(data, at)
            if kind == code.INTEGER_TYPE:
                number, at = decode_varint(data, at)
                return f"{_SIGNS[number & 3]}{number >> 2}"
            if kind in code.PLAIN_TYPES:
                return code.PLAIN_TYPES[kind]
            if kind in (code.RANKED_TENSOR_TYPE, code.RANKED_TENSOR_TYPE_WITH_ENCODING):
                encoded = kind == code.RANKED_TENSOR_TYPE_WITH_ENCODING
                if encoded:
                    _, at = decode_varint(data, at)
                rank, at = decode_varint(data, at)
                sizes = self._numbers(rank + 1, at)
                element = self.type(sizes.pop())
                shape = tuple(max(from_zigzag(size), -1) for size in sizes)
                return TensorType(shape, str(element), encoded)
            if kind == code.UNRANKED_TENSOR_TYPE:
                return TensorType(None, str(self.type(decode_varint(data, at)[0])))
        from tosa_convert.bindings.print_asm import spell

        return spell(self, type_index=index)


def width_of(kind: Type) -> int:
    """Bits of a number's type, or 0 if it is no number's."""
    if not isinstance(kind, str):
        return 0
    if kind == "index":
        return 64
    digits = kind.lstrip("sui")
    if kind[0] in "sui" and digits.isdecimal():
        return int(digits)
    return {"bf16": 16, "tf32": 19}.get(kind) or _float_width(kind)


def _float_width(kind: str) -> int:
    if kind[0] != "f":
        return 0
    digits = kind[1:].partition("E")[0]
    return int(digits) if digits.isdecimal() else 0


def _entry(section: Section, place: int, size: int) -> tuple[memoryview | None, int]:
    """The data of a resource's entry, and how much of it was left out of the section's bytes."""
    if not size:
        return None, 0
    at = decode_varint(section.bytes, place)[1]
    length, at = decode_varint(section.bytes, at)
    for start, view in section.data.items():
        if at <= start <= place + size - length and len(view) == length:
            return view, length
    end = place + size
    return memoryview(section.bytes)[end - length : end], 0


def _strings(data: bytes) -> list[bytes]:
    count, at = decode_varint(data, 0)
    lengths = []
    for _ in range(count):
        length, at = decode_varint(data, at)
        lengths.append(length)
    found = []
    for length in reversed(lengths):
        found.append(data[at : at + length - 1])
        at += length
    return found
