"""Elements below 8 bits: one byte for each in memory, packed without gaps in a file.

The least significant bits come first: element 0 of a 4-bit type is the low nibble of byte 0, and four
6-bit elements take three bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tosa_convert.graph.lazy_numpy import np

if TYPE_CHECKING:
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]


#: Elements that are converted at a time; a multiple of 4, so that each block ends on a byte.
BLOCK = 1 << 20


def pack(elements: Bytes, bits: int) -> Bytes:
    """Pack the low `bits` bits of each element into ceil(n * bits / 8) bytes; bits is 4 or 6.

    Example:
        >>> pack(np.array([1, 2, 15], np.uint8), 4).tobytes().hex()
        '210f'
    """
    if bits == 4:
        packed = np.zeros((len(elements) + 1) // 2, np.uint8)
        np.bitwise_and(elements[0::2], 0x0F, out=packed)
        high = np.left_shift(elements[1::2], 4, dtype=np.uint8)
        packed[: len(elements) // 2] |= high
        return packed
    if bits == 6:
        low = elements & 0x3F
        quads = np.zeros((len(elements) + 3) // 4 * 4, np.uint32)
        quads[: len(elements)] = low
        quads = quads.reshape(-1, 4)
        words = quads[:, 0] | quads[:, 1] << 6 | quads[:, 2] << 12 | quads[:, 3] << 18
        stream = words.astype("<u4").view(np.uint8).reshape(-1, 4)[:, :3].reshape(-1)
        return stream[: (len(elements) * 6 + 7) // 8]
    raise ValueError(f"elements of {bits} bits are not packed")


def unpack(packed: Bytes, bits: int, count: int) -> Bytes:
    """Return the first `count` elements, one byte for each with the upper bits 0; reverses `pack`."""
    if bits == 4:
        elements = np.empty(len(packed) * 2, np.uint8)
        np.bitwise_and(packed, 0x0F, out=elements[0::2])
        np.right_shift(packed, 4, out=elements[1::2])
        return elements[:count]
    if bits == 6:
        triples = np.zeros((len(packed) + 2) // 3 * 3, np.uint8)
        triples[: len(packed)] = packed
        wide = triples.reshape(-1, 3).astype(np.uint32)
        words = wide[:, 0] | wide[:, 1] << 8 | wide[:, 2] << 16
        quads: Bytes = np.stack([words >> shift & 0x3F for shift in (0, 6, 12, 18)], axis=1).astype(
            np.uint8
        )
        return quads.reshape(-1)[:count]
    raise ValueError(f"elements of {bits} bits are not packed")


def sign_extend(elements: npt.NDArray[Any], bits: int) -> npt.NDArray[np.int8]:
    """Return the two's complement values of elements in the low `bits` bits of bytes."""
    shift = 8 - bits
    extended: npt.NDArray[np.int8] = (elements.astype(np.uint8) << shift).view(np.int8) >> shift
    return extended
