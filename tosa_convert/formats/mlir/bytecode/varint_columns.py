"""The variable-width integers of MLIR's bytecode, many at a time.

See `varint` for the format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from tosa_convert.graph.lazy_numpy import np

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
    widths = _WIDTHS[found & 15]
    places = np.arange(len(words))[at] if isinstance(at, slice) else at
    return found >> widths & _MASKS[widths], places + widths


#: Which of 8 bytes belong to an integer, by how many it has.
_IS_BYTE: Final = np.arange(8) < np.arange(9)[:, None]
#: The bytes of a number, by the lowest bits of its first byte; 0 for more than `LONGEST`.
_WIDTHS: Final = np.array([0, 1, 2, 1, 3, 1, 2, 1, 4, 1, 2, 1, 3, 1, 2, 1], np.int64)
_MASKS: Final = np.array([0, *((1 << 7 * width) - 1 for width in range(1, LONGEST + 1))], np.int64)


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
    """Pieces of at most 7 bytes as little-endian integers, and how many bytes each has."""
    widths = np.fromiter(map(len, pieces), np.int64, len(pieces))
    rows = np.zeros((len(pieces), 8), np.uint8)
    rows[_IS_BYTE[widths]] = np.frombuffer(b"".join(pieces), np.uint8)
    return rows.view("<i8").ravel(), widths


def join_together(encoded: Numbers, widths: Numbers) -> bytes:
    """Join the lowest bytes of integers, one after the other; widths: how many of each, 7 at most."""
    # Most are short, and half as many bytes to choose from take half the time.
    size = 4 if int(widths.max(initial=0)) <= 4 else 8
    rows = encoded.astype(f"<i{size}").view(np.uint8).reshape(-1, size)
    joined: bytes = rows[_IS_BYTE[widths, :size]].tobytes()
    return joined
