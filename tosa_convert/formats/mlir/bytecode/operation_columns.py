"""Ordinary operations as columns: decoded wherever one might begin, then followed in turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from tosa_convert.formats.mlir.bytecode.format import (
    HAS_ATTRIBUTES,
    HAS_OPERANDS,
    HAS_PROPERTIES,
    HAS_RESULTS,
)
from tosa_convert.graph.lazy_numpy import np

# -- the variable-width integers of MLIR's bytecode (see `varints`), many at a time -----------------

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers: TypeAlias = npt.NDArray[np.int64]

#: Bytes of the longest number that `varints_at` decodes.
LONGEST: Final = 4


def words_of(data: bytes) -> npt.NDArray[np.uint32]:
    """Return the four bytes from each byte of the data on, zeros after its end, for `varints_at`."""
    return np.ndarray(len(data) + LONGEST + 1, "<u4", data + bytes(2 * LONGEST), strides=(1,))


def varints_at(words: npt.NDArray[np.uint32], at: Numbers | slice) -> tuple[Numbers, Numbers]:
    """Decode the integers at many places, and return them with the places after them.

    words: see `words_of`. at: places at most `LONGEST` bytes beyond the end of the data. The place after
    a number of more than `LONGEST` bytes is the same one, and so is that after the data has ended. The
    place after a number that is cut off lies beyond the end.
    """
    # Fast path of decode_varint; equal by test test_varints_decoded_together_equal_others
    found = words[at].astype(np.int64)
    all_widths, masks = _widths_and_masks()
    widths = all_widths[found & 15]
    places = np.arange(len(words))[at] if isinstance(at, slice) else at
    return found >> widths & masks[widths], places + widths


@cache
def _is_byte() -> npt.NDArray[np.bool_]:
    """Return which of 8 bytes belong to an integer, by how many it has."""
    return np.arange(8) < np.arange(9)[:, None]


@cache
def _widths_and_masks() -> tuple[Numbers, Numbers]:
    """Return the bytes of a number by the lowest bits of its first byte, 0 for more than `LONGEST`."""
    widths = np.array([0, 1, 2, 1, 3, 1, 2, 1, 4, 1, 2, 1, 3, 1, 2, 1], np.int64)
    masks = np.array([0, *((1 << 7 * width) - 1 for width in range(1, LONGEST + 1))], np.int64)
    return widths, masks


def encode_together(numbers: Numbers) -> tuple[Numbers, Numbers]:
    """Encode integers below 2^49 as little-endian integers, with how many bytes each takes."""
    # Fast path of encode_varint; equal by test test_numbers_joined_together_equal_others
    widths = np.ones(len(numbers), np.int64)
    most = int(numbers.max(initial=0))
    for width in range(1, 7):
        if most >> 7 * width:
            widths += numbers >= 1 << 7 * width
    return numbers << widths | 1 << widths - 1, widths


def integers_of(pieces: list[bytes]) -> tuple[Numbers, Numbers]:
    """Return pieces of at most 7 bytes as little-endian integers, and how many bytes each has."""
    widths = np.fromiter(map(len, pieces), np.int64, len(pieces))
    rows = np.zeros((len(pieces), 8), np.uint8)
    rows[_is_byte()[widths]] = np.frombuffer(b"".join(pieces), np.uint8)
    return rows.view("<i8").ravel(), widths


def join_together(encoded: Numbers, widths: Numbers) -> bytes:
    """Join the lowest bytes of integers, one after the other; widths: how many of each, 7 at most."""
    # Most are short, and half as many bytes to choose from take half the time.
    size = 4 if int(widths.max(initial=0)) <= 4 else 8
    rows = encoded.astype(f"<i{size}").view(np.uint8).reshape(-1, size)
    joined: bytes = rows[_is_byte()[widths, :size]].tobytes()
    return joined


#: Joins an operation's attributes with its native properties: the number of its name, of its dictionary
#: (-1 for none) and of its properties; returns the number of a dictionary that has both.
JoinProperties = Callable[[int, int, int], int]

#: Bytes that are decoded together, so that the memory does not depend on the size of the file.
_WINDOW: Final = 1 << 15
#: Bytes that few operations exceed.
_USUAL_BYTES: Final = 16
#: The most operands of an ordinary operation.
_MAX_OPERANDS: Final = 16
#: The flags of ordinary operations.
_FLAGS: Final = HAS_ATTRIBUTES | HAS_RESULTS | HAS_OPERANDS | HAS_PROPERTIES
#: Bytes of the longest ordinary operation: its name, its flags, and numbers.
_LONGEST_OPERATION: Final = 2 + LONGEST * (6 + _MAX_OPERANDS)


@dataclass(frozen=True, slots=True, eq=False)
class OperationColumns:
    """All operations of a block, none of which has regions, or more than one result.

    names, locations, attributes: as in `operations.Operation`.
    types: the number of the result's type; -1 without a result.
    firsts: the number of the result, or the next one that a result would get.
    operands: of all operations, one after the other. operand_counts: how many each one has.
    """

    names: Numbers
    locations: Numbers
    attributes: Numbers
    types: Numbers
    firsts: Numbers
    operands: Numbers
    operand_counts: Numbers

    def numbers(self) -> tuple[Numbers, Numbers, Numbers]:
        return self.names, self.locations, self.attributes

    def result_count(self) -> int:
        return int((self.types >= 0).sum())

    def only(self, index: int) -> OperationColumns:
        end = int(self.operand_counts[: index + 1].sum())
        chosen = slice(index, index + 1)
        start = end - int(self.operand_counts[index])
        return OperationColumns(
            self.names[chosen],
            self.locations[chosen],
            self.attributes[chosen],
            self.types[chosen],
            self.firsts[chosen],
            self.operands[start:end],
            self.operand_counts[chosen],
        )


def decode_columns(
    data: bytes, offset: int, count: int, first: int, name_count: int, join: JoinProperties
) -> tuple[OperationColumns, int] | None:
    """Return `count` operations, results numbered from `first`, and the offset after them; or None."""
    # Fast path of `operations._decode`; equal by test test_operations_decoded_in_columns_equal_others
    parts: list[tuple[Numbers, ...]] = []
    while count:
        window = _Window(data, offset, count, name_count)
        chosen, offset = window.follow(count)
        if not len(chosen):
            return None
        count -= len(chosen)
        parts.append(window.columns(chosen))
    names, locations, attributes, properties, types, operand_counts, operands = (
        np.concatenate(column) for column in zip(*parts, strict=True)
    )
    joined = np.flatnonzero(properties >= 0)
    keys = list(
        zip(*(column[joined].tolist() for column in (names, attributes, properties)), strict=True)
    )
    numbers = {key: join(*key) for key in dict.fromkeys(keys)}
    attributes[joined] = list(map(numbers.__getitem__, keys))
    has_result = types >= 0
    firsts = first + np.cumsum(has_result) - has_result
    columns = OperationColumns(
        names, locations, attributes, types, firsts, operands, operand_counts
    )
    return columns, offset


class _Operations(NamedTuple):
    """What would begin at some places of a window: columns. operand: the place of the first operand."""

    start: Numbers
    end: Numbers
    name: Numbers
    location: Numbers
    attributes: Numbers
    properties: Numbers
    type: Numbers
    operand_count: Numbers
    operand: Numbers


class _Window:
    """Some bytes of a section, at each of which an operation may begin.

    numbers, after: the number at each byte, and the place after it.
    follows: for each of the operations, the index of the one at its end; -1 if there is none.
    """

    def __init__(self, data: bytes, offset: int, count: int, name_count: int) -> None:
        self.offset = offset
        # Small blocks take small windows, because a file may have many.
        width = min(_WINDOW, count * _USUAL_BYTES)
        raw = data[offset : offset + width + _LONGEST_OPERATION]
        self.size = len(raw)
        self.numbers, self.after = varints_at(words_of(raw), slice(None))
        bytes_ = np.frombuffer(raw, np.uint8)
        # The name is a number of one byte, the flags follow.
        heads, flags = bytes_[:width][: len(raw) - 1], bytes_[1 : width + 1]
        is_head = (heads & 1 == 1) & (heads >> 1 < min(name_count, 128))
        starts = np.flatnonzero(is_head & (flags & ~np.uint8(_FLAGS) == 0))
        has = flags[starts]
        kinds = np.flatnonzero(np.bincount(has)).tolist()
        found = [self.with_flags(starts[has == kind], kind) for kind in kinds]
        found.append(self.with_flags(starts[:0], 0))
        self.operations = _Operations(*map(np.concatenate, zip(*found, strict=True)))
        places = np.full(len(raw) + 1, -1)
        places[self.operations.start] = np.arange(len(self.operations.start))
        self.first = int(places[0])
        self.follows = places[self.operations.end]

    def with_flags(self, start: Numbers, has: int) -> _Operations:
        """Return the ordinary operations with these flags at some of the places."""
        end = start + 2
        is_ordinary = np.ones(len(start), bool)

        def number() -> Numbers:
            nonlocal end, is_ordinary
            at, end = end, self.after[end]
            # The place after what is not decoded here is the same one.
            is_ordinary &= end > at
            found: Numbers = self.numbers[at]
            return found

        nothing = np.full(len(start), -1)
        location = number()
        attributes = number() if has & HAS_ATTRIBUTES else nothing
        properties = number() if has & HAS_PROPERTIES else nothing
        if has & HAS_RESULTS:
            is_ordinary &= number() == 1
        type_ = number() if has & HAS_RESULTS else nothing
        count = number() if has & HAS_OPERANDS else nothing + 1
        is_ordinary &= count <= _MAX_OPERANDS
        operand, end = end, end.copy()
        left = np.flatnonzero(is_ordinary)
        for position in range(int(count[left].max(initial=0))):
            left = left[count[left] > position]
            after = self.after[end[left]]
            is_ordinary[left] = after > end[left]
            end[left] = after
            left = left[is_ordinary[left]]
        is_ordinary &= end <= self.size
        name = self.numbers[start]
        columns = start, end, name, location, attributes, properties, type_, count, operand
        if not is_ordinary.all():
            columns = tuple(column[is_ordinary] for column in columns)
        return _Operations(*columns)

    def follow(self, count: int) -> tuple[Numbers, int]:
        """Return at most `count` operations from the first byte on, and the offset after them."""
        follows, chosen, index = self.follows.tolist(), [], self.first
        while index >= 0:
            chosen.append(index)
            index = follows[index]
        found = np.array(chosen[:count], np.int64)
        return found, self.offset + (int(self.operations.end[found[-1]]) if chosen else 0)

    def columns(self, chosen: Numbers) -> tuple[Numbers, ...]:
        """Return the fields of these operations from the name on, and then the operands of them all."""
        fields = [column[chosen] for column in self.operations[2:]]
        at, counts = fields.pop(), fields[-1]
        operands = np.zeros(int(counts.sum()), np.int64)
        starts = np.cumsum(counts) - counts
        left = np.arange(len(counts))
        for position in range(int(counts.max(initial=0))):
            left = left[counts[left] > position]
            operands[starts[left] + position] = self.numbers[at[left]]
            at[left] = self.after[at[left]]
        return *fields, operands
