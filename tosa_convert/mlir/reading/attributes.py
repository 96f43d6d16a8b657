"""Attributes of MLIR operations as attribute values of the graph, by kind.

The graph's opset says which attributes an operator has and of what kind; this module knows how MLIR
spells each kind.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Final

import numpy as np

from tosa_convert.bindings.print_asm import spell
from tosa_convert.graph.dtypes import BY_MLIR, DType
from tosa_convert.graph.opset import AttributeSpec, AttributeValue
from tosa_convert.mlir.bytecode.decode import Bytecode, Number, Numbers, TypeReference
from tosa_convert.mlir.narrowing import Narrowing
from tosa_convert.mlir.spelling import GRAPH_MEMBERS, int_bits

_MEMBER: Final = re.compile(r"(\w+)>?$")

#: Bytes in which a file keeps one element as an attribute (clamp's bounds), zeros behind it.
ELEMENT_BYTES: Final = 8


class BadAttribute(Exception):
    """An attribute that is not of the kind it should be; the message says what was found."""


class AttributeReader:
    """Reads the attributes of a bytecode."""

    def __init__(self, bytecode: Bytecode, narrowing: Narrowing) -> None:
        self.bytecode = bytecode
        self.narrowing = narrowing

    def __call__(self, row: AttributeSpec, index: int) -> AttributeValue:
        """The value that the attribute with this number has as the attribute of `row`."""
        return _BY_KIND[row.kind](self, row, index)

    def _wrong(self, index: int, expected: str) -> BadAttribute:
        return BadAttribute(f"found {spell(self.bytecode, attribute=index)}, expected {expected}")

    def _i32(self, row: AttributeSpec, index: int) -> int:
        found = self.bytecode.attribute(index)
        if not isinstance(found, Number) or found.is_float or found.type == "i1":
            raise self._wrong(index, "an integer")
        return found.signed()

    def _i32s(self, row: AttributeSpec, index: int) -> tuple[int, ...]:
        found = self.bytecode.attribute(index)
        if not isinstance(found, Numbers) or found.element not in ("i32", "i64"):
            raise self._wrong(index, "an array of integers")
        return struct.unpack(f"<{found.count}{'i' if found.element == 'i32' else 'q'}", found.data)

    def _bool(self, row: AttributeSpec, index: int) -> bool:
        found = self.bytecode.attribute(index)
        if not isinstance(found, Number) or found.type != "i1":
            raise self._wrong(index, "a bool")
        return bool(found.bits)

    def _dtype(self, row: AttributeSpec, index: int) -> DType:
        found = self.bytecode.attribute(index)
        if isinstance(found, TypeReference):
            text = str(found.type)
            dtype = self.narrowing.target(text) or BY_MLIR.get(text)
            if dtype is not None:
                return dtype
        raise self._wrong(index, "one of " + ", ".join(choice.mlir for choice in row.choices))

    def _enum(self, row: AttributeSpec, index: int) -> IntEnum:
        assert row.enum is not None
        text = self.bytecode.attribute(index)
        match = _MEMBER.search(text) if isinstance(text, str) else None
        name = match[1] if match else ""
        name = GRAPH_MEMBERS.get((row.enum.__name__, name), name)
        if name not in row.enum.__members__:
            raise self._wrong(index, "one of " + ", ".join(row.enum.__members__))
        return row.enum[name]

    def _element(self, row: AttributeSpec, index: int) -> bytes:
        found = self.bytecode.attribute(index)
        text = str(found.type) if isinstance(found, Number) else ""
        narrow = self.narrowing.target(text)
        dtype = narrow or BY_MLIR.get(text)
        if not isinstance(found, Number) or dtype is None:
            raise self._wrong(index, "a number of a TOSA element type")
        bits = found.bits
        if narrow is not None:
            wide = (
                struct.unpack("<d", struct.pack("<Q", bits))[0]
                if found.is_float
                else found.signed()
            )
            try:
                value = self.narrowing.bound(text, wide, upper=row.name == "max_val")
            except OverflowError:
                raise self._wrong(index, f"a number that fits {dtype.mlir}") from None
            if found.is_float:
                return np.array(value, dtype.numpy).tobytes().ljust(ELEMENT_BYTES, b"\0")
            bits = int(value) & (1 << int_bits(dtype)) - 1
        return bits.to_bytes(ELEMENT_BYTES, "little")

    def _string(self, row: AttributeSpec, index: int) -> str:
        try:
            return self._bytes(row, index).decode()
        except UnicodeDecodeError:
            raise self._wrong(index, "a string in UTF-8") from None

    def _bytes(self, row: AttributeSpec, index: int) -> bytes:
        found = self.bytecode.attribute(index)
        if not isinstance(found, bytes):
            raise self._wrong(index, "a string")
        return found


#: Not of an instance, which would then refer to itself.
_BY_KIND: Final[dict[str, Callable[[AttributeReader, AttributeSpec, int], AttributeValue]]] = {
    "i32": AttributeReader._i32,
    "i32s": AttributeReader._i32s,
    "bool": AttributeReader._bool,
    "dtype": AttributeReader._dtype,
    "enum": AttributeReader._enum,
    "element": AttributeReader._element,
    "string": AttributeReader._string,
    "bytes": AttributeReader._bytes,
}
