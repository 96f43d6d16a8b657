"""Elements of constants as MLIR's text has them."""

from __future__ import annotations

import re
from binascii import hexlify
from collections.abc import Iterable, Iterator
from itertools import accumulate, islice
from math import prod
from operator import mul
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.formats.mlir.bytecode.attributes import bit_width
from tosa_convert.formats.mlir.text.numbers import float_text, is_float
from tosa_convert.graph.lazy_numpy import FEW, np

if TYPE_CHECKING:
    import numpy.typing as npt

#: A constant of more elements than this is printed as one string in hexadecimal.
MOST_LISTED: Final = 100
#: Bytes of a constant that are converted to text at once.
CHUNK_BYTES: Final = 1 << 20
#: Elements in a list that are converted to text at once.
CHUNK_ELEMENTS: Final = 1 << 12

_BLOCK_SCALED: Final = re.compile(r"!tosa\.block_scaled<\w+:[\w!.]+:([\w!.]+)[,>]")
_MXINT8: Final = "!tosa.mxint8"
_INDEX: Final = "index"
_BOOL: Final = "i1"


def value_type(element: str) -> str:
    """Return the type of a constant's numbers by element type: if block-scaled, without scales."""
    match = _BLOCK_SCALED.match(element)
    value = element if match is None else match[1]
    return "i8" if value == _MXINT8 else value


def integer_text(raw: bytes | memoryview, element: str) -> str:
    """Format an integer from its bytes in memory (INT4 and the like take a byte each)."""
    if element == _BOOL:
        return "true" if raw[0] else "false"
    width, is_signed = bit_width(element), not element.startswith("u")
    bits = int.from_bytes(raw, "little") & (1 << width) - 1
    return str(bits - (bits >> (width - 1) << width) if is_signed else bits)


def element_texts(data: memoryview, element: str) -> list[str]:
    """Format every element, from the bytes that MLIR has in memory; one of i1 takes a byte."""
    width = element_bytes(element)
    raws = [data[at : at + width] for at in range(0, len(data), width)]
    if is_float(element):
        return [float_text(int.from_bytes(raw, "little"), element) for raw in raws]
    return [integer_text(raw, element) for raw in raws]


def element_bytes(element: str) -> int:
    return -(-bit_width(element) // 8)


def stored_bytes(count: int, element: str) -> int:
    """Return how many bytes that many elements take in bytecode."""
    return -(-count // 8) if element == _BOOL else count * element_bytes(element)


def is_printable(element: str) -> bool:
    """Return whether elements of the type can be printed."""
    return (
        is_float(element) or element == _INDEX or (element[0] in "sui" and bit_width(element) > 0)
    )


def splat(data: memoryview, count: int, element: str) -> bytes | None:
    """Return the bytes in memory of the element that all equal; None if they differ or there are none.

    data: the elements as bytecode has them: all, or one that all share; of i1, bits.
    """
    if not count:
        return None
    if element == _BOOL:
        if len(data) == 1 and data[0] in (0, 0xFF):
            return bytes((data[0] & 1,))
        first = bytes((data[0] & 1,))
        chunks = map(bytes, _memory(data, count))
        return first if all(chunk == first * len(chunk) for chunk in chunks) else None
    width = element_bytes(element)
    first = bytes(data[:width])
    if data[width : 2 * width] not in (b"", first):
        return None
    step = max(1, CHUNK_BYTES // width) * width
    parts = (bytes(data[at : at + step]) for at in range(0, len(data), step))
    return first if all(part == first * (len(part) // width) for part in parts) else None


def _memory(data: memoryview, count: int) -> Iterator[memoryview]:
    """Bits as one byte each, in chunks."""
    if count < FEW:
        # Fast path of the chunks; equal by test test_few_bits_in_memory_are_those_of_many
        bits = int.from_bytes(data, "little")
        yield memoryview(bytes(bits >> index & 1 for index in range(count)))
        return
    for start in range(0, len(data), CHUNK_BYTES // 8):
        packed = np.frombuffer(data[start : start + CHUNK_BYTES // 8], np.uint8)
        unpacked: npt.NDArray[Any] = np.unpackbits(packed, bitorder="little")
        yield unpacked[: count - 8 * start].data


def elements_pieces(
    data: memoryview, shape: tuple[int, ...], element: str, *, lists_booleans: bool = False
) -> Iterator[bytes]:
    """Iterate over what is between `dense<` and `>`: one element, lists of them, or hexadecimal text.

    data: as for `splat`. lists_booleans: in lists of any length, because releases of MLIR differ in the
    bytes of booleans in hexadecimal.
    """
    count = prod(shape)
    if not count:
        return
    only = splat(data, count, element)
    if only is not None:
        yield element_texts(memoryview(only), element)[0].encode()
        return
    in_memory = _memory(data, count) if element == _BOOL else iter((data,))
    if count <= MOST_LISTED or (lists_booleans and element == _BOOL):
        texts = [text for chunk in in_memory for text in element_texts(chunk, element)]
        yield from nested(texts, shape)
        return
    yield b'"0x'
    for chunk in in_memory:
        yield from hex_pieces(chunk)
    yield b'"'


def hex_pieces(data: memoryview) -> Iterator[bytes]:
    for start in range(0, len(data), CHUNK_BYTES):
        yield hexlify(data[start : start + CHUNK_BYTES]).upper()


def byte_texts(data: memoryview, element: str) -> Iterator[str]:
    """Iterate over every element with its type, `1.000000e+00 : f8E4M3FN`, of at most a byte."""
    values = element_texts(memoryview(bytes(range(256))), element)
    texts = [f"{text} : {element}" for text in values]
    return map(texts.__getitem__, data)


def nested(texts: Iterable[str], shape: tuple[int, ...]) -> Iterator[bytes]:
    """Format elements in row-major order as nested lists, in pieces of at most CHUNK_ELEMENTS."""
    if not prod(shape):
        return
    if not shape:
        yield "".join(texts).encode()
        return
    elements, (*outer, size) = iter(texts), shape
    #: Rows of a list at each level above the innermost.
    rows = list(accumulate(reversed(outer), mul))
    for number in range(prod(outer)):
        opened = sum(number % count == 0 for count in rows)
        head = "[" * (opened + 1)
        head = f"]{']' * opened}, {head}" if number else head
        for start in range(0, size, CHUNK_ELEMENTS):
            part = ", ".join(islice(elements, min(CHUNK_ELEMENTS, size - start)))
            yield f"{', ' if start else head}{part}".encode()
    yield b"]" * len(shape)
