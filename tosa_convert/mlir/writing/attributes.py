"""Attribute values of the graph as attributes of MLIR operations, by kind."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.opset import Attribute, AttributeValue, OperatorSpec
from tosa_convert.mlir.bindings import Bindings
from tosa_convert.mlir.spelling import I32_ARRAYS, MLIR_MEMBERS, MNEMONICS, int_bits
from tosa_convert.mlir.writing.types import TypeWriter


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
            narrow = (spec.name, row.name) in I32_ARRAYS
            array = ir.DenseI32ArrayAttr if narrow else ir.DenseI64ArrayAttr
            return array.get(list(value), context)
        if row.kind == "bool":
            return ir.BoolAttr.get(bool(value), context)
        if row.kind == "dtype":
            assert isinstance(value, DType)
            return ir.TypeAttr.get(self.types.element(value), context)
        if isinstance(value, IntEnum):
            enum = type(value).__name__
            member = MLIR_MEMBERS.get((enum, value.name), value.name)
            return self.parse(f"#tosa.{MNEMONICS[enum]}<{member}>")
        if row.kind == "element":
            assert isinstance(value, bytes)
            assert element is not None
            return self._number(value, element)
        assert isinstance(value, (str, bytes))
        return self.string(value)

    def _number(self, value: bytes, element: DType) -> Any:
        bits = int_bits(element)
        number = int.from_bytes(value[: element.element_bytes], "little") & (1 << bits) - 1
        if element.mlir[0] != "i":
            # A hexadecimal literal is the bit pattern, so nothing is rounded.
            digits = (element.bits + 3) // 4
            return self.parse(f"0x{number:0{digits}X} : {element.mlir}")
        if number >> (bits - 1) and bits > 1:
            number -= 1 << bits
        return self.parse(f"{number} : {element.mlir}" if bits > 1 else ("false", "true")[number])
