"""Numbers and elements of constants as MLIR's text has them."""

from __future__ import annotations

from math import isfinite
from typing import Final

import numpy as np

from tosa_convert.graph.dtypes import BY_MLIR
from tosa_convert.mlir.bytecode.attributes import bit_width

#: Digits after the point that are tried, and digits that tell any number of a type apart.
_SHORT: Final = 6
_EXACT: Final = {"f64": 16, "f32": 8}

_INDEX: Final = "index"
_BOOL: Final = "i1"


def float_text(bits: int, element: str) -> str:
    """A floating-point number: six digits where they are exact, else all, else its bits.

    Args:
        bits: the number's bits, unsigned.
        element: its type in MLIR's words, such as "bf16".
    """
    kind = np.dtype("<f8") if element == "f64" else BY_MLIR[element].numpy
    raw = bits.to_bytes(kind.itemsize, "little")
    value = float(np.frombuffer(raw, kind)[0])
    if isfinite(value):
        for digits in (_SHORT, _EXACT.get(element, 8)):
            text = f"{value:.{digits}e}"
            if np.array(float(text)).astype(kind).tobytes() == raw:
                return text
    width = kind.itemsize * 8 if element == "f64" else BY_MLIR[element].bits
    return f"0x{bits:0{-(-width // 4)}X}"


def splat_text(raw: bytes, element: str) -> str:
    """One element, from its bytes in memory (INT4 and the like take a byte each)."""
    if element == _BOOL:
        return "true" if raw[0] else "false"
    if element == _INDEX or element.lstrip("sui").isdecimal():
        return str(int.from_bytes(raw, "little", signed=not element.startswith("u")))
    return float_text(int.from_bytes(raw, "little"), element)


def element_texts(data: memoryview, count: int, element: str) -> list[str]:
    """Every element of a constant, from the bytes that MLIR keeps in memory.

    Args:
        data: `count` elements as bytecode has them: those below 8 bits take a byte each, i1 a bit.
        count: elements.
        element: the element type in MLIR's words.
    """
    if element == _BOOL:
        bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")[:count]
        return ["true" if bit else "false" for bit in bits.tolist()]
    if element == _INDEX:
        return [str(value) for value in np.frombuffer(data, "<i8").tolist()]
    width = len(data) // count if count else 1
    if element.lstrip("sui").isdecimal():
        return [
            str(
                _integer(
                    int.from_bytes(data[at : at + width], "little"),
                    int(element.lstrip("sui")),
                    signed=not element.startswith("u"),
                )
            )
            for at in range(0, len(data), width)
        ]
    return [
        float_text(int.from_bytes(data[at : at + width], "little"), element)
        for at in range(0, len(data), width)
    ]


def _integer(bits: int, width: int, *, signed: bool) -> int:
    bits &= (1 << width) - 1
    return bits - (bits >> (width - 1) << width) if signed else bits


def is_splat(data: memoryview, count: int, element: str) -> bool:
    """Whether the data is one element that stands for several."""
    if count < 2:
        return False
    if element == _BOOL:
        return len(data) == 1 and bytes(data) in (b"\0", b"\xff")
    return len(data) == -(-(bit_width(element) or 8) // 8)


def nested(texts: list[str], shape: tuple[int, ...]) -> str:
    """Elements in row-major order as nested lists."""
    if not shape:
        return texts[0]
    rows = texts
    for size in reversed(shape):
        if not size:
            return ""
        rows = [f"[{', '.join(rows[at : at + size])}]" for at in range(0, len(rows), size)]
    return rows[0]


def is_printable(element: str) -> bool:
    """Whether numbers of the element type can be printed."""
    if element in (_BOOL, _INDEX) or element in _EXACT or element in BY_MLIR:
        return True
    return element[0] in "sui" and bit_width(element) > 0


def stored_bytes(count: int, element: str) -> int:
    """The bytes in which bytecode has that many elements."""
    if element == _BOOL:
        return -(-count // 8)
    return count * -(-bit_width(element) // 8)
