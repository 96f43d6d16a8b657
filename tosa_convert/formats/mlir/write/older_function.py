"""A graph in an older form as bytecode: names of operations, kinds of attributes, and functions."""

from __future__ import annotations

import struct
from dataclasses import replace
from enum import IntEnum
from typing import Any

from tosa_convert.eras.dialect_states import (
    DENSE_ARRAYS,
    ENUMS,
    FUNC_DIALECT,
    LEAST_DYNAMIC_SIZE,
    LOCATION_RANGES,
    OPERANDS,
    QUANTISATION_ATTRIBUTES,
    VARIABLE_SHAPES,
    VARIABLE_SYMBOLS,
    name_in,
)
from tosa_convert.eras.editor import (
    Element,
    Floats,
    Integer,
    Integers,
    OlderOperator,
    WrittenValue,
    ZeroPoints,
)
from tosa_convert.formats.mlir.bytecode.encode import Pairs
from tosa_convert.formats.mlir.bytecode.format import FLOAT
from tosa_convert.formats.mlir.types import MLIR_MEMBERS
from tosa_convert.formats.mlir.write.function import FunctionWriter
from tosa_convert.formats.mlir.write.region_body import Body
from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.model import DYNAMIC, Block, Operator, Tensor
from tosa_convert.graph.opset import CONST, CONST_SHAPE, OperatorSpec


class OlderFunctionWriter(FunctionWriter):
    """Encodes a graph that `eras.current_to_older` has downgraded. state: that of the dialect."""

    def __init__(self, *args: Any, state: str, **options: Any) -> None:
        super().__init__(*args, **options)
        self.state = state
        self.locations.has_ranges = state >= LOCATION_RANGES
        if state < LEAST_DYNAMIC_SIZE:
            self.types.dynamic_size = DYNAMIC
        self._specs: dict[tuple[OperatorSpec, str], OperatorSpec] = {}
        if state < FUNC_DIALECT:
            self.function_name, self.return_name = "builtin.func", "std.return"
            self.type_name = "type"

    def enter(self, block: Block) -> None:
        """Name the variables: no constant becomes a resource, so compile-time ones do not matter."""
        self.name_variables(block)

    def operation(self, block: Block, operator: Operator) -> OperatorSpec:
        """Return the row of an operator by the name that it has in the state."""
        assert isinstance(operator, OlderOperator)
        return self._named(operator.spec, operator.mlir)

    def _named(self, spec: OperatorSpec, name: str) -> OperatorSpec:
        if spec.mlir == name:
            return spec
        key = spec, name
        if key not in self._specs:
            self._specs[key] = replace(spec, mlir=name)
        return self._specs[key]

    def identity(
        self, block: Block, operator: Operator
    ) -> tuple[OperatorSpec, tuple[str, ...], tuple[str, ...], Pairs]:
        spec, inputs, outputs, pairs = super().identity(block, operator)
        return self._named(spec, name_in(self.state, spec.mlir)), inputs, outputs, pairs

    def encoded_attributes(
        self,
        block: Block,
        operator: Operator,
        body: Body,
        *,
        spec: OperatorSpec,
        own: Pairs = (),
        is_named: bool,
    ) -> tuple[int, bytes]:
        assert isinstance(operator, OlderOperator)
        if spec is CONST or spec is CONST_SHAPE:
            key = "values" if self.state >= OPERANDS else "value"
            own = ((key, self.values(block, operator, body)),)
        elif not own:
            own = tuple((name, self._attribute(value)) for name, value in operator.own.items())
        if is_named or (self.retain and spec.regions):
            return self.with_names(spec, operator, own, is_named)
        return self.encoder.attributes_of(spec.mlir, own)

    def variable_attributes(self, symbol: str, tensor: Tensor) -> dict[str, bytes]:
        found = super().variable_attributes(symbol, tensor)
        if self.state < VARIABLE_SHAPES:
            del found["var_shape"]
            found["type"] = self.attributes.type(self.types.tensor(tensor))
        if self.state < VARIABLE_SYMBOLS:
            found["name"] = found.pop("sym_name")
        return found

    # Long because it has a line or two for each kind of attribute.
    def _attribute(self, value: WrittenValue) -> bytes:
        """Encode an attribute in the form of the state."""
        write, encoder = self.attributes, self.encoder
        if isinstance(value, bool):
            return write.integer(value, 1)
        if isinstance(value, IntEnum):
            if self.state >= ENUMS:
                return write.enum(value)
            name = MLIR_MEMBERS.get((type(value).__name__, value.name), value.name)
            return encoder.string_attribute(name)
        if isinstance(value, DType):
            return write.type(self.types.element(value))
        if isinstance(value, (str, bytes)):
            return encoder.string_attribute(value)
        if isinstance(value, float):
            return self._float(value)
        if isinstance(value, Integer):
            return write.integer(value.value, value.bits)
        if isinstance(value, Element):
            return write.number(value.data, value.dtype)
        if isinstance(value, Floats):
            return encoder.array([self._float(number) for number in value.values])
        if isinstance(value, Integers):
            if self.state >= DENSE_ARRAYS:
                return write.list(value.values, value.bits)
            return encoder.array([write.integer(number, value.bits) for number in value.values])
        assert isinstance(value, ZeroPoints)
        if self.state < QUANTISATION_ATTRIBUTES:
            pairs = [(name, write.integer(number, 32)) for name, number in value.values.items()]
            return encoder.dictionary(pairs)
        texts = ", ".join(f"{name} = {number}" for name, number in value.values.items())
        return encoder.attributes.text(f"#tosa.{value.kind}_quant<{texts}>")

    def _float(self, value: float) -> bytes:
        bits = int.from_bytes(struct.pack("<f", value), "little")
        return self.attributes.bits(FLOAT, self.types.builtin("f32"), bits, 32)
