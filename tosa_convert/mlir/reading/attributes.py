"""Attributes of MLIR operations as attribute values of the graph, by kind.

The graph's opset says which attributes an operator has and of what kind; this module knows how MLIR
spells each kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final

import numpy as np

from tosa_convert.graph.dtypes import BY_MLIR, DType
from tosa_convert.graph.opset import Attribute, AttributeValue
from tosa_convert.mlir.bindings import Bindings
from tosa_convert.mlir.reading.narrowing import Narrowing
from tosa_convert.mlir.spelling import GRAPH_MEMBERS, int_bits

_MEMBER: Final = re.compile(r"(\w+)>?$")

#: Bytes in which a file keeps one element as an attribute (clamp's bounds), zeros behind it.
ELEMENT_BYTES: Final = 8


class BadAttribute(Exception):
    """An attribute that is not of the kind it should be; the message says what was found."""


class AttributeReader:
    """Reads attributes; equal enum attributes once."""

    def __init__(self, bindings: Bindings, narrowing: Narrowing) -> None:
        self.ir = bindings.ir
        self.narrowing = narrowing
        self.enums: dict[tuple[str, str], IntEnum] = {}
        self.by_kind: dict[str, Callable[[Attribute, Any], AttributeValue]] = {
            "i32": self._i32,
            "i32s": self._i32s,
            "bool": self._bool,
            "dtype": self._dtype,
            "enum": self._enum,
            "element": self._element,
            "string": self._string,
            "bytes": self._bytes,
        }

    def __call__(self, row: Attribute, attribute: Any) -> AttributeValue:
        """The value that `attribute`, an ir.Attribute, has as the attribute of `row`."""
        return self.by_kind[row.kind](row, attribute)

    def _wrong(self, attribute: Any, expected: str) -> BadAttribute:
        return BadAttribute(f"found {attribute}, expected {expected}")

    def _i32(self, row: Attribute, attribute: Any) -> int:
        if not isinstance(attribute, self.ir.IntegerAttr):
            raise self._wrong(attribute, "an integer")
        return int(attribute.value)

    def _i32s(self, row: Attribute, attribute: Any) -> tuple[int, ...]:
        if not isinstance(attribute, (self.ir.DenseI64ArrayAttr, self.ir.DenseI32ArrayAttr)):
            raise self._wrong(attribute, "an array of integers")
        return tuple(attribute)

    def _bool(self, row: Attribute, attribute: Any) -> bool:
        if not isinstance(attribute, self.ir.BoolAttr):
            raise self._wrong(attribute, "a bool")
        return bool(attribute.value)

    def _dtype(self, row: Attribute, attribute: Any) -> DType:
        if isinstance(attribute, self.ir.TypeAttr):
            text = str(attribute.value)
            found = self.narrowing.target(text) or BY_MLIR.get(text)
            if found is not None:
                return found
        raise self._wrong(attribute, "one of " + ", ".join(choice.mlir for choice in row.choices))

    def _enum(self, row: Attribute, attribute: Any) -> IntEnum:
        assert row.enum is not None
        text = str(attribute)
        key = (row.enum.__name__, text)
        found = self.enums.get(key)
        if found is None:
            match = _MEMBER.search(text)
            name = match[1] if match else ""
            name = GRAPH_MEMBERS.get((row.enum.__name__, name), name)
            if name not in row.enum.__members__:
                raise self._wrong(attribute, "one of " + ", ".join(row.enum.__members__))
            found = self.enums[key] = row.enum[name]
        return found

    def _element(self, row: Attribute, attribute: Any) -> bytes:
        text = str(attribute.type) if hasattr(attribute, "type") else ""
        narrow = self.narrowing.target(text)
        dtype = narrow or BY_MLIR.get(text)
        if dtype is None:
            raise self._wrong(attribute, "a typed number of a TOSA element type")
        if not isinstance(attribute, (self.ir.IntegerAttr, self.ir.FloatAttr, self.ir.BoolAttr)):
            raise self._wrong(attribute, "a number")
        value = attribute.value
        if narrow is not None:
            try:
                value = self.narrowing.bound(text, value, upper=row.name == "max_val")
            except OverflowError:
                raise self._wrong(attribute, f"a number that fits {dtype.mlir}") from None
        if isinstance(attribute, self.ir.IntegerAttr):
            raw = (int(value) & (1 << int_bits(dtype)) - 1).to_bytes(8, "little")
        elif isinstance(attribute, self.ir.FloatAttr):
            raw = np.array(value, np.float64).astype(dtype.numpy).tobytes()
        else:
            raw = bytes([bool(value)])
        return raw.ljust(ELEMENT_BYTES, b"\0")

    def _string(self, row: Attribute, attribute: Any) -> str:
        if not isinstance(attribute, self.ir.StringAttr):
            raise self._wrong(attribute, "a string")
        raw: bytes = attribute.value_bytes
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise self._wrong(attribute, "a string in UTF-8") from None

    def _bytes(self, row: Attribute, attribute: Any) -> bytes:
        if not isinstance(attribute, self.ir.StringAttr):
            raise self._wrong(attribute, "a string")
        return bytes(attribute.value_bytes)
