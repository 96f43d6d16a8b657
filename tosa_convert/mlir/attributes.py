"""Attributes of MLIR operations <-> attribute values of the graph, by kind.

The graph's opset says which attributes an operator has and of what kind; this module knows how MLIR
spells each kind. The few attributes that MLIR spells differently from the rest stand in tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final

import numpy as np

from tosa_convert.graph.dtypes import BY_MLIR, DType
from tosa_convert.graph.opset import Attribute, AttributeValue, OperatorSpec
from tosa_convert.mlir.bindings import Bindings
from tosa_convert.mlir.narrowing import Narrowing
from tosa_convert.mlir.types import TypeWriter

#: Lists are array<i64> in MLIR, these array<i32>.
_I32_ARRAYS: Final = {("TRANSPOSE", "perms")}

#: Enum class of the graph -> mnemonic of MLIR's attribute.
_MNEMONICS: Final = {
    "NanPropagationMode": "nan_mode",
    "RoundingMode": "rounding_mode",
    "ResizeMode": "resize_mode",
    "BlockSize": "block_size",
}

#: Members that MLIR calls otherwise.
_MLIR_MEMBERS: Final = {("ResizeMode", "NEAREST"): "NEAREST_NEIGHBOR"}
_GRAPH_MEMBERS: Final = {(enum, mlir): member for (enum, member), mlir in _MLIR_MEMBERS.items()}

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
            name = _GRAPH_MEMBERS.get((row.enum.__name__, name), name)
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
            raw = (int(value) & (1 << _int_bits(dtype)) - 1).to_bytes(8, "little")
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


def _int_bits(dtype: DType) -> int:
    """Bits of an integer element; i1 is a byte in a file but one bit in MLIR."""
    return 1 if dtype.name == "BOOL" else dtype.bits


class AttributeWriter:
    """Builds attributes; equal ones once."""

    def __init__(self, bindings: Bindings, context: Any, types: TypeWriter) -> None:
        self.ir = bindings.ir
        self.context = context
        self.types = types
        self.known: dict[Any, Any] = {}

    def parse(self, text: str) -> Any:
        """The attribute that `text` spells."""
        found = self.known.get(text)
        if found is None:
            found = self.known[text] = self.ir.Attribute.parse(text, self.context)
        return found

    def string(self, value: str | bytes) -> Any:
        """A string attribute."""
        return self.ir.StringAttr.get(value, self.context)

    def __call__(
        self, spec: OperatorSpec, row: Attribute, value: AttributeValue, element: DType | None
    ) -> Any:
        """The attribute of `spec`'s `row`. `element`: dtype of the operator's first operand."""
        key = (spec.name, row.name, value, element and element.code)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._make(spec, row, value, element)
        return found

    def _make(
        self, spec: OperatorSpec, row: Attribute, value: AttributeValue, element: DType | None
    ) -> Any:
        ir, context = self.ir, self.context
        if row.kind == "i32":
            return ir.IntegerAttr.get(self.types.parse("i32"), value)
        if row.kind == "i32s":
            assert isinstance(value, tuple)
            narrow = (spec.name, row.name) in _I32_ARRAYS
            array = ir.DenseI32ArrayAttr if narrow else ir.DenseI64ArrayAttr
            return array.get(list(value), context)
        if row.kind == "bool":
            return ir.BoolAttr.get(bool(value), context)
        if row.kind == "dtype":
            assert isinstance(value, DType)
            return ir.TypeAttr.get(self.types.element(value), context)
        if isinstance(value, IntEnum):
            enum = type(value).__name__
            member = _MLIR_MEMBERS.get((enum, value.name), value.name)
            return self.parse(f"#tosa.{_MNEMONICS[enum]}<{member}>")
        if row.kind == "element":
            assert isinstance(value, bytes)
            assert element is not None
            return self._number(value, element)
        assert isinstance(value, (str, bytes))
        return self.string(value)

    def _number(self, value: bytes, element: DType) -> Any:
        bits = _int_bits(element)
        number = int.from_bytes(value[: element.element_bytes], "little") & (1 << bits) - 1
        if element.mlir[0] != "i":
            # A hexadecimal literal is the bit pattern, so nothing is rounded.
            digits = (element.bits + 3) // 4
            return self.parse(f"0x{number:0{digits}X} : {element.mlir}")
        if number >> (bits - 1) and bits > 1:
            number -= 1 << bits
        return self.parse(f"{number} : {element.mlir}" if bits > 1 else ("false", "true")[number])
