"""Attribute values of the graph from attributes of MLIR operations, and the other way round, by kind.

The operator table says which attributes an operator has and of what kind. This module knows how MLIR
encodes each kind.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from tosa_convert.formats.mlir.bytecode.attributes import (
    DenseArrayAttr,
    ScalarAttr,
    TensorType,
    Type,
    TypeAttr,
)
from tosa_convert.formats.mlir.bytecode.format import FLOAT, INTEGER, TYPE
from tosa_convert.formats.mlir.bytecode.varint import encode_varint, to_zigzag
from tosa_convert.formats.mlir.types import TypeWriter, int_bits, is_stored_as
from tosa_convert.graph.constant import ELEMENT_BYTES
from tosa_convert.graph.dtypes import BY_MLIR, DType
from tosa_convert.graph.lazy_numpy import np
from tosa_convert.graph.opset import AttributeSpec, AttributeValue, OperatorSpec

if TYPE_CHECKING:
    from tosa_convert.formats.mlir.bytecode.decode import Bytecode
    from tosa_convert.formats.mlir.bytecode.encode import Encoder
    from tosa_convert.formats.mlir.read.narrowing import Narrowing


#: Lists are array<i64> in MLIR, except these, which are array<i32>.
I32_ARRAYS: Final = {("TRANSPOSE", "perms")}
#: Enum class of the graph -> mnemonic of MLIR's attribute.
MNEMONICS: Final = {
    "NanPropagationMode": "nan_mode",
    "RoundingMode": "rounding_mode",
    "ResizeMode": "resize_mode",
    "BlockSize": "block_size",
}
#: Members of enums that have another name in MLIR.
MLIR_MEMBERS: Final = {("ResizeMode", "NEAREST"): "NEAREST_NEIGHBOR"}
_GRAPH_MEMBERS: Final = {(enum, mlir): member for (enum, member), mlir in MLIR_MEMBERS.items()}

#: The mnemonic and the member of an enum's attribute: `#tosa.nan_mode<PROPAGATE>`.
_MEMBER: Final = re.compile(r"#tosa[.<](\w+)[<\s]\s*(\w+)\s*>\Z")
#: The types of integers; up to October 2023 they were i64.
_INTEGERS: Final = ("i32", "i64")
#: Of the elements of an array, by their bits.
_FORMATS: Final = {8: "b", 16: "h", 32: "i", 64: "q"}


# -- MLIR -> graph ----------------------------------------------------------------------------------


class BadAttribute(Exception):
    """An attribute that is not of the expected kind; the message says what was found."""


class AttributeReader:
    """Reads the attributes of a bytecode."""

    def __init__(self, bytecode: Bytecode, narrowing: Narrowing) -> None:
        self.bytecode = bytecode
        self.narrowing = narrowing

    def __call__(self, row: AttributeSpec, index: int, of: Type = "") -> AttributeValue:
        """Return the value of the attribute with this index, read as the attribute of `row`.

        of: the type of the operation's result.
        """
        if row.kind == "element":
            self._check_element(index, of)
        return _READERS[row.kind](self, row, index)

    def _wrong(self, index: int, expected: str) -> BadAttribute:
        from tosa_convert.formats.mlir.text.print.attributes import short_text

        return BadAttribute(f"found {short_text(self.bytecode, index)}, expected {expected}")

    def _i32(self, row: AttributeSpec, index: int) -> int:
        attribute = self.bytecode.attribute(index)
        if not isinstance(attribute, ScalarAttr) or attribute.type not in _INTEGERS:
            raise self._wrong(index, "an integer of type i32")
        return attribute.signed()

    def _i32s(self, row: AttributeSpec, index: int) -> tuple[int, ...]:
        array = self.bytecode.attribute(index)
        if isinstance(array, list):  # up to 2022
            return tuple(self._i32(row, item) for item in array)
        bits = 32 if any(row.name == name for _, name in I32_ARRAYS) else 64
        if not isinstance(array, DenseArrayAttr) or array.element != f"i{bits}":
            raise self._wrong(index, f"an array of integers of type i{bits}")
        return struct.unpack(f"<{array.count}{'i' if bits == 32 else 'q'}", array.data)

    def _bool(self, row: AttributeSpec, index: int) -> bool:
        attribute = self.bytecode.attribute(index)
        if not isinstance(attribute, ScalarAttr) or attribute.type != "i1":
            raise self._wrong(index, "a bool")
        return bool(attribute.bits)

    def _dtype(self, row: AttributeSpec, index: int) -> DType:
        attribute = self.bytecode.attribute(index)
        if isinstance(attribute, TypeAttr):
            text = str(attribute.type)
            # Accumulators stay in FP32, which all operators of FP16 with one have.
            dtype = self.narrowing.target(text) if text != "f32" else None
            dtype = dtype or BY_MLIR.get(text)
            if dtype is not None:
                return dtype
        raise self._wrong(index, "one of " + ", ".join(choice.mlir for choice in row.choices))

    def _enum(self, row: AttributeSpec, index: int) -> IntEnum:
        assert row.enum is not None
        text, name = self.bytecode.attribute(index), ""
        if isinstance(text, bytes):  # up to 2025-07
            name = text.decode("utf-8", "replace")
        elif isinstance(text, str):
            match = _MEMBER.match(text)
            name = match[2] if match and match[1] == MNEMONICS[row.enum.__name__] else ""
        name = _GRAPH_MEMBERS.get((row.enum.__name__, name), name)
        if name not in row.enum.__members__:
            raise self._wrong(index, "one of " + ", ".join(row.enum.__members__))
        return row.enum[name]

    def _check_element(self, index: int, of: Type) -> None:
        attribute = self.bytecode.attribute(index)
        if isinstance(of, TensorType) and isinstance(attribute, ScalarAttr):
            found = of._replace(element=str(attribute.type))
            if not is_stored_as(found, of):
                raise self._wrong(index, f"a number of type {of.element}")

    def _element(self, row: AttributeSpec, index: int) -> bytes:
        attribute = self.bytecode.attribute(index)
        text = str(attribute.type) if isinstance(attribute, ScalarAttr) else ""
        narrow = self.narrowing.target(text)
        dtype = narrow or BY_MLIR.get(text)
        if not isinstance(attribute, ScalarAttr) or dtype is None:
            raise self._wrong(index, "a number of a TOSA element type")
        bits = attribute.bits
        if narrow is not None:
            forms = ("<f", "<I") if text == "f32" else ("<d", "<Q")
            wide = (
                struct.unpack(forms[0], struct.pack(forms[1], bits))[0]
                if attribute.is_float
                else attribute.signed()
            )
            try:
                value = self.narrowing.bound(text, wide, upper=row.name == "max_val")
            except OverflowError:
                raise self._wrong(index, f"a number that fits {dtype.mlir}") from None
            if attribute.is_float:
                return np.array(value, dtype.numpy).tobytes().ljust(ELEMENT_BYTES, b"\0")
            bits = int(value) & (1 << int_bits(dtype)) - 1
        return bits.to_bytes(ELEMENT_BYTES, "little")

    def _string(self, row: AttributeSpec, index: int) -> str:
        try:
            return self._bytes(row, index).decode()
        except UnicodeDecodeError:
            raise self._wrong(index, "a string in UTF-8") from None

    def _bytes(self, row: AttributeSpec, index: int) -> bytes:
        attribute = self.bytecode.attribute(index)
        if not isinstance(attribute, bytes):
            raise self._wrong(index, "a string")
        return attribute


#: By kind. In the module, because an instance that held its own methods would refer to itself.
_READERS: Final[dict[str, Callable[[AttributeReader, AttributeSpec, int], AttributeValue]]] = {
    "i32": AttributeReader._i32,
    "i32s": AttributeReader._i32s,
    "bool": AttributeReader._bool,
    "dtype": AttributeReader._dtype,
    "enum": AttributeReader._enum,
    "element": AttributeReader._element,
    "string": AttributeReader._string,
    "bytes": AttributeReader._bytes,
}


# -- graph -> MLIR ----------------------------------------------------------------------------------


class AttributeWriter:
    """Adds attributes to a bytecode, equal ones once, and returns their encoded numbers."""

    def __init__(self, encoder: Encoder, types: TypeWriter) -> None:
        self.encoder = encoder
        self.numbers = encoder.numbers
        self.types = types

    def __call__(
        self, spec: OperatorSpec, row: AttributeSpec, value: AttributeValue, element: DType | None
    ) -> bytes:
        """Encode the attribute of `spec`'s `row`. `element`: dtype of the operator's first operand."""
        if row.kind == "i32":
            assert isinstance(value, int)
            return self.integer(value, 32)
        if row.kind == "i32s":
            assert isinstance(value, tuple)
            return self.list(value, 32 if (spec.name, row.name) in I32_ARRAYS else 64)
        if row.kind == "bool":
            return self.integer(bool(value), 1)
        if row.kind == "dtype":
            assert isinstance(value, DType)
            return self.type(self.types.element(value))
        if isinstance(value, IntEnum):
            return self.enum(value)
        if row.kind == "element":
            assert isinstance(value, bytes)
            assert element is not None
            return self.number(value, element)
        assert isinstance(value, (str, bytes))
        return self.encoder.string_attribute(value)

    def type(self, type_: bytes) -> bytes:
        return self.encoder.attributes(self.numbers[TYPE] + type_)

    def integer(self, value: int, bits: int) -> bytes:
        return self.bits(INTEGER, self.types.builtin(f"i{bits}"), value, bits)

    def list(self, values: tuple[int, ...], bits: int) -> bytes:
        """Encode integers as an array<i8: ...>, array<i32: ...> or array<i64: ...>."""
        raw = struct.pack(f"<{len(values)}{_FORMATS[bits]}", *values)
        return self.encoder.dense_array(self.types.builtin(f"i{bits}"), len(values), raw)

    def enum(self, value: IntEnum) -> bytes:
        enum = type(value).__name__
        member = MLIR_MEMBERS.get((enum, value.name), value.name)
        return self.encoder.attributes.text(f"#tosa.{MNEMONICS[enum]}<{member}>")

    def number(self, value: bytes, element: DType) -> bytes:
        """Encode a number given by the bytes of an element."""
        number = int.from_bytes(value[: element.element_bytes], "little")
        code = INTEGER if element.mlir[0] == "i" else FLOAT
        return self.bits(code, self.types.element(element), number, int_bits(element))

    def bits(self, code: int, type_: bytes, number: int, bits: int) -> bytes:
        """Encode a number given by its bits.

        More than 8 are encoded as if there were 64, the sign included.
        """
        number &= (1 << bits) - 1
        body = bytes((number,)) if bits <= 8 else encode_varint(to_zigzag(number))
        return self.encoder.attributes(self.numbers[code] + type_ + body)
