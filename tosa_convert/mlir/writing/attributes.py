"""Attribute values of the graph as attributes of MLIR operations, by kind."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.opset import AttributeSpec, AttributeValue, OperatorSpec
from tosa_convert.mlir.bytecode.encode import Encoder
from tosa_convert.mlir.bytecode.format import DENSE_ARRAY, FLOAT, INTEGER, TYPE
from tosa_convert.mlir.bytecode.varint import encode_varint, to_zigzag
from tosa_convert.mlir.spelling import I32_ARRAYS, MLIR_MEMBERS, MNEMONICS, int_bits
from tosa_convert.mlir.writing.types import TypeWriter


class AttributeWriter:
    """Adds attributes to a file, equal ones once, and returns their indices."""

    def __init__(self, encoder: Encoder, types: TypeWriter) -> None:
        self.encoder = encoder
        self.numbers = encoder.numbers
        self.types = types

    def __call__(
        self, spec: OperatorSpec, row: AttributeSpec, value: AttributeValue, element: DType | None
    ) -> bytes:
        """The attribute of `spec`'s `row`. `element`: dtype of the operator's first operand."""
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
            enum = type(value).__name__
            member = MLIR_MEMBERS.get((enum, value.name), value.name)
            return self.encoder.attributes.text(f"#tosa.{MNEMONICS[enum]}<{member}>")
        if row.kind == "element":
            assert isinstance(value, bytes)
            assert element is not None
            return self._number(value, element)
        assert isinstance(value, (str, bytes))
        return self.encoder.string_attribute(value)

    def type(self, kind: bytes) -> bytes:
        """A type as an attribute."""
        return self.encoder.attributes(self.numbers[TYPE] + kind)

    def integer(self, value: int, bits: int) -> bytes:
        """An integer of a type without sign."""
        return self._bits(INTEGER, self.types.builtin(f"i{bits}"), value, bits)

    def list(self, values: tuple[int, ...], bits: int) -> bytes:
        """Integers as an array<i32: ...> or array<i64: ...>."""
        raw = np.array(values, f"<i{bits // 8}").tobytes()
        return self.encoder.attributes(
            b"".join(
                (
                    self.numbers[DENSE_ARRAY],
                    self.types.builtin(f"i{bits}"),
                    self.numbers[len(values)],
                    encode_varint(len(raw)),
                    raw,
                )
            )
        )

    def _number(self, value: bytes, element: DType) -> bytes:
        number = int.from_bytes(value[: element.element_bytes], "little")
        code = INTEGER if element.mlir[0] == "i" else FLOAT
        return self._bits(code, self.types.element(element), number, int_bits(element))

    def _bits(self, code: int, kind: bytes, number: int, bits: int) -> bytes:
        """A number by its bits: those of a wide one as if it had 64, and a sign among them."""
        number &= (1 << bits) - 1
        body = bytes((number,)) if bits <= 8 else encode_varint(to_zigzag(number))
        return self.encoder.attributes(self.numbers[code] + kind + body)
