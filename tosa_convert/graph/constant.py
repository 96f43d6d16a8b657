"""Constant data: a view of somebody's buffer, never a Python list.

The buffer may be bytes, a mapped file, an `.npy`, or memory that an MLIR context owns; a Constant
keeps the owner alive. Nothing is copied or converted before somebody asks for it, and what is asked
for comes in blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tosa_convert.graph.dtypes import INT4, DType, dtype
from tosa_convert.graph.packing import BLOCK, pack_blocks, sign_extend, unpack

_BOOL = dtype("BOOL")
_INT48 = dtype("INT48")


class Constant:
    """`count` elements of one dtype, in one of three forms.

    buffer: the bytes, contiguous. In a file's form unless `unpacked`.
    unpacked: one byte for each element of a dtype below 8 bits, as MLIR keeps them.
    splat: the buffer holds one unpacked element that stands for all of them.
    padding: bytes, a property of the file only: zeros written behind the data.
    owner: whatever must live as long as the buffer.

    Raises ValueError if the buffer is not as long as these say.
    """

    __slots__ = ("buffer", "count", "dtype", "owner", "padding", "splat", "unpacked")

    def __init__(
        self,
        dtype: DType,
        count: int,
        buffer: Any,
        *,
        unpacked: bool = False,
        splat: bool = False,
        padding: int = 0,
        owner: object = None,
    ) -> None:
        view = buffer if type(buffer) is memoryview else memoryview(buffer)
        if view.format != "B" or view.ndim != 1:
            view = view.cast("B")
        unpacked = (unpacked or splat) and dtype.is_packed
        if splat:
            expected = dtype.element_bytes
        elif unpacked:
            expected = count
        else:
            expected = dtype.wire_bytes(count)
        if view.nbytes != expected:
            raise ValueError(
                f"{count} x {dtype} take {expected} bytes, the buffer has {view.nbytes}"
            )
        self.dtype = dtype
        self.count = count
        self.buffer = view
        self.unpacked = unpacked
        self.splat = splat
        self.padding = padding
        self.owner = owner

    def __repr__(self) -> str:
        form = "splat" if self.splat else "unpacked" if self.unpacked else "packed"
        return f"Constant({self.count} x {self.dtype}, {form})"

    @property
    def nbytes(self) -> int:
        """Bytes of the data in a file, without padding."""
        return self.dtype.wire_bytes(self.count)

    @property
    def is_view(self) -> bool:
        """Whether the buffer already has a file's form."""
        return not self.splat and not self.unpacked

    def chunks(self) -> Iterator[memoryview]:
        """The data in a file's form, piece by piece; together `nbytes` bytes."""
        if self.is_view:
            yield self.buffer
        elif self.splat:
            yield from self._splat_chunks()
        else:
            yield from pack_blocks(np.frombuffer(self.buffer, np.uint8), self.dtype.bits)

    def _splat_chunks(self) -> Iterator[memoryview]:
        if self.dtype.is_packed:
            element = np.frombuffer(self.buffer, np.uint8)
            left = self.count
            while left:
                block = np.repeat(element, min(left, BLOCK))
                yield from pack_blocks(block, self.dtype.bits)
                left -= len(block)
            return
        size = len(self.buffer)
        block_bytes = bytes(self.buffer) * max(1, min(self.count, BLOCK // size))
        left_bytes = self.count * size
        while left_bytes:
            piece = memoryview(block_bytes)[: min(left_bytes, len(block_bytes))]
            yield piece
            left_bytes -= len(piece)

    def packed(self) -> memoryview:
        """The data in a file's form as one piece; copied unless `is_view`."""
        if self.is_view:
            return self.buffer
        return memoryview(b"".join(self.chunks()))

    def elements(self) -> npt.NDArray[np.uint8]:
        """The unpacked elements' bytes, shape (count, element_bytes); a view where it can be."""
        width = self.dtype.element_bytes
        raw = np.frombuffer(self.buffer, np.uint8)
        if self.splat:
            return np.broadcast_to(raw, (self.count, width))
        if self.dtype.is_packed and not self.unpacked:
            raw = unpack(raw, self.dtype.bits, self.count)
        return raw.reshape(self.count, width)

    def numpy(self) -> npt.NDArray[Any]:
        """The elements as a flat read-only array of `dtype.numpy`; INT48 is widened to int64."""
        raw = self.elements()
        if self.dtype is _INT48:
            wide = np.zeros((self.count, 8), np.uint8)
            wide[:, :6] = raw
            wide[:, 6:] = np.where(raw[:, 5:6] & 0x80, 0xFF, 0)
            result = wide.view("<i8").reshape(-1)
        elif self.dtype is _BOOL:
            result = raw.reshape(-1) != 0
        elif self.dtype is INT4:
            result = sign_extend(raw.reshape(-1), 4).astype(self.dtype.numpy)
        else:
            little = self.dtype.numpy.newbyteorder("<") if self.dtype.bits > 8 else self.dtype.numpy
            result = np.ascontiguousarray(raw).view(little).reshape(-1)
        result.flags.writeable = False
        return result

    def uniform(self) -> memoryview | None:
        """The one unpacked element that all elements equal bit for bit, or None if they differ."""
        if self.splat:
            return self.buffer
        if self.count == 0:
            return None
        width = self.dtype.element_bytes
        packed = self.dtype.is_packed and not self.unpacked
        if not packed and self.count > 1 and self.buffer[:width] != self.buffer[width : 2 * width]:
            return None  # most data tells at once
        raw = np.frombuffer(self.buffer, np.uint8)
        if packed:
            first = unpack(raw[:3], self.dtype.bits, 1)
            step = BLOCK // 8 * self.dtype.bits
            for start in range(0, len(raw), step):
                left = min(self.count - start * 8 // self.dtype.bits, BLOCK)
                if (unpack(raw[start : start + step], self.dtype.bits, left) != first[0]).any():
                    return None
            return first.data
        # Comparing the buffer with itself one element further needs no copy of the first element.
        for start in range(0, len(raw) - width, BLOCK):
            stop = min(start + BLOCK, len(raw) - width)
            if not np.array_equal(raw[start:stop], raw[start + width : stop + width]):
                return None
        return self.buffer[:width]

    def same_bits(self, other: Constant) -> bool:
        """Whether both hold the same elements, bit for bit; form and padding do not matter."""
        if self.dtype is not other.dtype or self.count != other.count:
            return False
        if self.splat and other.splat:
            return self.buffer == other.buffer
        for start in range(0, self.count, BLOCK):
            stop = min(start + BLOCK, self.count)
            if not np.array_equal(self._range(start, stop), other._range(start, stop)):
                return False
        return True

    def _range(self, start: int, stop: int) -> npt.NDArray[np.uint8]:
        """Unpacked bytes of elements start..stop; start is a multiple of BLOCK."""
        width = self.dtype.element_bytes
        raw = np.frombuffer(self.buffer, np.uint8)
        if self.splat:
            return np.broadcast_to(raw, (stop - start, width)).reshape(-1)
        if self.dtype.is_packed and not self.unpacked:
            bits = self.dtype.bits
            return unpack(raw[start * bits // 8 : (stop * bits + 7) // 8], bits, stop - start)
        return raw[start * width : stop * width]

    def holds_int4_minus_8(self) -> bool:
        """Whether an INT4 constant has the value -8, which TOSA excludes and readers corrupt."""
        if self.dtype is not INT4 or not self.count:
            return False
        if self.splat:
            return self.buffer[0] & 0x0F == 8
        for start in range(0, self.count, BLOCK):
            if (self._range(start, min(start + BLOCK, self.count)) & 0x0F == 8).any():
                return True
        return False
