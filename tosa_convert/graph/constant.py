"""Constant data: a view of a buffer, converted only on request and block by block."""

from __future__ import annotations

import struct
import weakref
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, SupportsIndex

from tosa_convert.graph.dtypes import DTYPES, V1_0, DType, dtype
from tosa_convert.graph.lazy_numpy import FEW, np

if TYPE_CHECKING:
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]


# -- elements below 8 bits: one byte for each in memory, packed without gaps in a file -------------
# The least significant bits come first: element 0 of a 4-bit type is the low nibble of byte 0,
# and four 6-bit elements take three bytes.

#: Elements that are converted at a time; a multiple of 4, so that each block ends on a byte.
BLOCK = 1 << 20


def pack(elements: Bytes, bits: int) -> Bytes:
    """Pack the low `bits` bits of each element, 4 or 6, into ceil(n * bits / 8) bytes."""
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


#: Bytes of an array beyond which its elements are put in order only when they are read.
_COPIED = 1 << 20
#: A file has an element as an attribute, such as a bound of CLAMP, in this many bytes.
ELEMENT_BYTES = 8
#: `tosa-opt` pads the data of a constant with zeros to a multiple of this many bytes, except elements
#: that TOSA 1.1 added for blocks.
_PADDED_BYTES = 8
#: The form in `struct` of numpy's types whose values Python has.
_FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "float16": "e",
    "float32": "f",
}
_UPPER_HALF = "bfloat16"
_BOOL = dtype("BOOL")
_INT48 = dtype("INT48")


class Constant:
    """The elements of a constant tensor.

    Can be pickled and copied: a pickle holds the bytes, and a copy shares a read-only buffer.

    Args:
        dtype: The element type.
        count: The number of elements.
        buffer: Contiguous bytes, as they are in a file, unless `unpacked` or `splat`.
        unpacked: The buffer has one byte for each element of a dtype below 8 bits, as in MLIR.
        splat: The buffer has one unpacked element, which is the value of all elements.
        padding: Bytes of zeros that follow the data in the file it was read from.
        owner: An object that keeps the buffer alive.

    Raises:
        ValueError: The length of the buffer does not match.

    Example:
        >>> from tosa_convert.graph import dtype
        >>> constant = Constant(dtype("INT4"), 3, bytes([0x21, 0x0F]))
        >>> constant
        Constant(3 x INT4, packed)
        >>> constant.numpy().tolist()
        [1, 2, -1]
        >>> Constant(dtype("FP32"), 1000, bytes(4), splat=True).nbytes
        4000
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

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        if int(protocol) < 5:
            data: Any = bytes(self.buffer)
        else:
            from pickle import PickleBuffer  # spares a copy of the data

            data = PickleBuffer(self.buffer.toreadonly())
        return _restored, (self.dtype, self.count, data, self.unpacked, self.splat, self.padding)

    def __copy__(self) -> Constant:
        return self._with_buffer(self.buffer, self.owner)

    def __deepcopy__(self, memo: dict[int, Any]) -> Constant:
        if self.buffer.readonly:
            return self._with_buffer(self.buffer, self.owner)
        return self._with_buffer(bytes(self.buffer), None)

    def _with_buffer(self, buffer: memoryview | bytes, owner: object) -> Constant:
        return Constant(
            self.dtype,
            self.count,
            buffer,
            unpacked=self.unpacked,
            splat=self.splat,
            padding=self.padding,
            owner=owner,
        )

    @property
    def nbytes(self) -> int:
        """Return the bytes of the elements in a file, without padding."""
        return self.dtype.wire_bytes(self.count)

    @property
    def usual_padding(self) -> int:
        """Return the padding that `tosa-opt` writes, in bytes."""
        row = self.dtype
        is_of_blocks = row.since > V1_0 and row.kind in ("float", "fixed")
        return 0 if is_of_blocks else -self.nbytes % _PADDED_BYTES

    @property
    def address(self) -> int:
        """Return where the buffer starts in memory, which tells apart views of one mapped file."""
        return address_of(self.buffer)

    @property
    def is_view(self) -> bool:
        """Return whether the buffer is as it is in a file, so that nothing has to be converted."""
        return not self.splat and not self.unpacked

    @property
    def is_unit(self) -> bool:
        """Return whether the buffer has all elements, each in bytes of its own."""
        return not self.splat and (self.unpacked or not self.dtype.is_packed)

    def chunks(self) -> Iterator[memoryview]:
        """Iterate over the data as it is in a file, in pieces with `nbytes` bytes in total."""
        if self.is_view:
            yield self.buffer
        elif self.dtype.is_packed:
            yield from (pack(block, self.dtype.bits).data for block in self.raw_blocks())
        else:
            size = len(self.buffer)
            piece = memoryview(bytes(self.buffer) * max(1, min(self.count, BLOCK // size)))
            for start in range(0, self.count * size, len(piece)):
                yield piece[: self.count * size - start]

    def packed(self) -> memoryview:
        """Return the data as it is in a file. Copied unless `is_view`."""
        if self.is_view:
            return self.buffer
        return memoryview(b"".join(self.chunks()))

    def elements(self) -> npt.NDArray[np.uint8]:
        """Return the bytes of the unpacked elements, (count, element_bytes); a view where possible."""
        width = self.dtype.element_bytes
        if self.splat:
            return np.broadcast_to(np.frombuffer(self.buffer, np.uint8), (self.count, width))
        return self._range(0, self.count).reshape(self.count, width)

    def numpy(self) -> npt.NDArray[Any]:
        """Return the elements as a read-only array of `dtype.numpy`; INT48 becomes int64."""
        return self._numbers(self.elements())

    def values(self) -> list[Any]:
        """Return the elements as Python's numbers.

        Example:
            >>> from tosa_convert.graph import dtype
            >>> Constant(dtype("INT16"), 2, bytes([1, 0, 255, 255])).values()
            [1, -1]
        """
        code, is_half = None, self.dtype.numpy_name == _UPPER_HALF
        if self.dtype.is_native or is_half:
            code = _FORMATS["float32" if is_half else self.dtype.numpy_name]
        if code is None or self.count >= FEW:
            values: list[Any] = self.numpy().tolist()
            return values
        # Fast path of numpy; equal by test test_the_values_of_few_elements_are_those_of_numpy
        raw = bytes(self.buffer)
        if is_half:
            wide = bytearray(2 * len(raw))
            wide[2::4], wide[3::4] = raw[0::2], raw[1::2]
            raw = bytes(wide)
        values = [*struct.unpack(f"<{1 if self.splat else self.count}{code}", raw)]
        return values * self.count if self.splat else values

    def blocks(self) -> Iterator[npt.NDArray[Any]]:
        """Iterate over the elements as `numpy` gives them, in arrays of a bounded size.

        Example:
            >>> from tosa_convert.graph import dtype
            >>> [block.tolist() for block in Constant(dtype("INT8"), 3, bytes([1, 2, 255])).blocks()]
            [[1, 2, -1]]
        """
        width = self.dtype.element_bytes
        return (self._numbers(raw.reshape(-1, width)) for raw in self.raw_blocks())

    def raw_blocks(self) -> Iterator[npt.NDArray[np.uint8]]:
        """Iterate over the bytes of the unpacked elements in order, in arrays of a bounded size."""
        for start in range(0, self.count, BLOCK):
            yield self._range(start, min(start + BLOCK, self.count))

    def _numbers(self, raw: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
        """Return the values of unpacked elements, of shape (count, element_bytes)."""
        if self.dtype is _INT48:
            wide = np.zeros((len(raw), 8), np.uint8)
            wide[:, :6] = raw
            wide[:, 6:] = np.where(raw[:, 5:6] & 0x80, 0xFF, 0)
            result = wide.view("<i8").reshape(-1)
        elif self.dtype is _BOOL:
            result = raw.reshape(-1) != 0
        elif self.dtype.is_in_bytes:
            result = sign_extend(raw.reshape(-1), self.dtype.bits).astype(self.dtype.numpy)
        else:
            little = self.dtype.numpy.newbyteorder("<") if self.dtype.bits > 8 else self.dtype.numpy
            result = np.ascontiguousarray(raw).view(little).reshape(-1)
        result.flags.writeable = False
        return result

    def uniform(self) -> memoryview | None:
        """Return the unpacked element that all elements equal bit for bit, or None."""
        if self.count == 0:
            return None
        if self.splat:
            return self.buffer
        width = self.dtype.element_bytes
        packed = self.dtype.is_packed and not self.unpacked
        if packed:
            raw = np.frombuffer(self.buffer, np.uint8)
            first = unpack(raw[:3], self.dtype.bits, 1)
            step = BLOCK // 8 * self.dtype.bits
            for start in range(0, len(raw), step):
                left = min(self.count - start * 8 // self.dtype.bits, BLOCK)
                if (unpack(raw[start : start + step], self.dtype.bits, left) != first[0]).any():
                    return None
            return first.data
        # Fast path of _same_bytes; equal by test test_one_changed_element_anywhere_is_noticed
        if self.count > 1 and self.buffer[:width] != self.buffer[width : 2 * width]:
            return None
        # Each element is compared with the next one, which needs no copy of the first element.
        is_uniform = _same_bytes(self.buffer[:-width], self.buffer[width:])
        return self.buffer[:width] if is_uniform else None

    def same_bits(self, other: Constant) -> bool:
        """Return whether both have the same elements, bit for bit. Form and padding do not matter."""
        if self.dtype is not other.dtype or self.count != other.count:
            return False
        if self.splat and other.splat:
            return self.buffer == other.buffer
        if self.is_unit and other.is_unit:
            return _same_bytes(self.buffer, other.buffer)
        if (
            self.count < FEW
            and (self.unpacked or not self.dtype.is_packed)
            and (other.unpacked or not other.dtype.is_packed)
        ):
            # Fast path of raw_blocks; equal by test test_few_elements_are_compared_as_many
            one, two = (bytes(c.buffer) * (self.count if c.splat else 1) for c in (self, other))
            return one == two
        return all(map(np.array_equal, self.raw_blocks(), other.raw_blocks()))

    def _range(self, start: int, stop: int) -> npt.NDArray[np.uint8]:
        """Return unpacked bytes of elements `start` to `stop`; `start` is a multiple of BLOCK."""
        width = self.dtype.element_bytes
        raw = np.frombuffer(self.buffer, np.uint8)
        if self.splat:
            return np.broadcast_to(raw, (stop - start, width)).reshape(-1)
        if self.dtype.is_packed and not self.unpacked:
            bits = self.dtype.bits
            return unpack(raw[start * bits // 8 : (stop * bits + 7) // 8], bits, stop - start)
        return raw[start * width : stop * width]

    def first(self, count: int) -> Constant:
        """Return at most the first `count` elements, as a constant that shares this buffer."""
        count = min(count, self.count)
        data = self.buffer
        if not self.splat:
            data = data[: count if self.unpacked else self.dtype.wire_bytes(count)]
        return Constant(
            self.dtype, count, data, unpacked=self.unpacked, splat=self.splat, owner=self.owner
        )

    def holds_int4_minus_8(self) -> bool:
        """Return whether packed integers are below their least, which readers corrupt."""
        if not (self.dtype.is_in_bytes and self.dtype.is_symmetric and self.count):
            return False
        mask, sign = (1 << self.dtype.bits) - 1, 1 << (self.dtype.bits - 1)
        if self.splat:
            return self.buffer[0] & mask == sign
        return any((block & mask == sign).any() for block in self.raw_blocks())


class Rearranged(Constant):
    """Elements of an array whose order in memory is another: copied whenever the buffer is read.

    A transposed weight takes no memory beside the weight. A buffer that is still in use is shared.
    """

    __slots__ = ("_array", "_made")

    def __init__(self, dtype: DType, array: npt.NDArray[Any]) -> None:
        self._array = array
        self._made: Any = None
        self.dtype = dtype
        self.count = array.size
        self.unpacked = self.splat = False
        self.padding = self.usual_padding
        self.owner = None

    def __len__(self) -> int:
        """Return the bytes of the buffer, which is not made for it."""
        return self.nbytes

    @property
    def address(self) -> int:
        """Return a number of this constant alone, as its buffer has no place of its own."""
        return -id(self)

    @property
    def buffer(self) -> memoryview:  # type: ignore[override]
        """Return the elements in row-major order."""
        flat = None if self._made is None else self._made()
        if flat is None:
            flat = np.ascontiguousarray(self._array).reshape(-1).view(np.uint8)
            flat.flags.writeable = False
            self._made = weakref.ref(flat)
        data: memoryview = flat.data
        return data

    def uniform(self) -> memoryview | None:
        """Return the element that all elements equal bit for bit, without a copy of most arrays."""
        corner = self._array[(slice(2),) * self._array.ndim]
        octets = np.ascontiguousarray(corner).view(np.uint8).reshape(corner.size, -1)
        return super().uniform() if (octets == octets[0]).all() else None


def in_order(pieces: Iterable[Any]) -> Iterator[Any]:
    """Iterate over pieces of a file; a rearranged constant is made when its turn comes."""
    return (piece.buffer if isinstance(piece, Rearranged) else piece for piece in pieces)


def _same_bytes(one: memoryview, other: memoryview) -> bool:
    """Return whether two buffers of one length hold the same bytes, with copies of a bounded size."""
    return all(
        bytes(one[start : start + BLOCK]) == bytes(other[start : start + BLOCK])
        for start in range(0, len(one), BLOCK)
    )


def address_of(buffer: memoryview) -> int:
    """Return where a buffer starts in memory."""
    address: int = np.frombuffer(buffer, np.uint8).__array_interface__["data"][0]
    return address


def _restored(
    dtype: DType, count: int, data: Any, unpacked: bool, splat: bool, padding: int
) -> Constant:
    """Return a Constant from its pickle."""
    return Constant(dtype, count, data, unpacked=unpacked, splat=splat, padding=padding)


# -- constants from numpy arrays -------------------------------------------------------------------


def dtype_of_array(array: npt.NDArray[Any]) -> DType | None:
    """Return the element type that an array's own type stands for; None if TOSA does not have it."""
    return _BY_NUMPY.get(array.dtype.name)


def constant_of(array: npt.NDArray[Any], element: DType) -> Constant:
    """Convert an array to constant data, padded as by `tosa-opt`; ValueError if a value does not fit."""
    is_strided = array.nbytes > _COPIED and not array.flags.c_contiguous
    if is_strided and array.dtype == element.numpy and not element.is_packed:
        return Rearranged(element, array)
    data = _data_of(np.ascontiguousarray(array).reshape(-1), element)
    data.padding = data.usual_padding
    return data


def _data_of(flat: npt.NDArray[Any], element: DType) -> Constant:
    if element.is_float:
        if flat.dtype != element.numpy:
            flat = _rounded(flat.astype(np.float64), element)
    elif element is _BOOL:
        if flat.dtype != np.bool_ and not np.isin(flat, (0, 1)).all():
            raise ValueError("BOOL holds only true and false")
        flat = flat.astype(np.bool_)
    else:
        _refuse_values_beyond(flat, element)
    if element is _INT48:
        octets = flat.astype("<i8").view(np.uint8).reshape(-1, 8)[:, :6]
        return Constant(element, flat.size, np.ascontiguousarray(octets).reshape(-1))
    if element.is_packed:
        codes = flat.astype(np.int8) if not element.is_float else flat
        mask = (1 << element.bits) - 1
        return Constant(element, flat.size, codes.view(np.uint8) & mask, unpacked=True)
    if flat.dtype != element.numpy:
        flat = flat.astype(element.numpy)
    little = flat.astype(flat.dtype.newbyteorder("<"), copy=False)
    return Constant(element, flat.size, little.view(np.uint8))


def _rounded(flat: npt.NDArray[Any], element: DType) -> npt.NDArray[Any]:
    """Round values to the nearest elements. A finite value is not rounded to infinity or a far limit."""
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = flat.astype(element.numpy)
        back = rounded.astype(np.float64)
        # Types without infinity round what is too large to NaN or to their largest element.
        largest = np.abs(np.float64(1e300).astype(element.numpy).astype(np.float64))
        wrong = (np.isnan(flat) != np.isnan(back)) | (np.isinf(flat) != np.isinf(back))
        if np.isfinite(largest):
            wrong |= np.abs(flat) > largest
    if wrong.any():
        raise ValueError(f"{flat[wrong.argmax()].item()} does not fit {element}")
    return rounded


def _refuse_values_beyond(flat: npt.NDArray[Any], element: DType) -> None:
    if flat.dtype.kind == "i" and 8 * flat.dtype.itemsize <= element.bits:
        return
    high = (1 << element.bits - 1) - 1
    low = -high - 1
    is_integer = np.issubdtype(flat.dtype, np.integer) or flat.dtype == object
    wide = flat if is_integer else flat.astype(np.float64)
    outside = (wide < low) | (wide > high)
    if wide.dtype == np.float64:
        outside |= wide != np.trunc(wide)
    if outside.any():
        (value,) = flat[[outside.argmax()]].tolist()
        raise ValueError(f"{value} does not fit {element}")


_BY_NUMPY: Final = {
    # Others hold codes, or are wider than their elements in a file.
    row.numpy_name: row
    for row in reversed(DTYPES)
    if row.is_native or row.kind in ("float", "scale") or row.is_in_bytes
}
