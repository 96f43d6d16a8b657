"""What the programs of this folder are made of: values, quantisation, and a TFLite model of them."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from frontends.tflite_models import OperatorRow, Subgraph, TensorRow, model
from frontends.tflite_operators.values import (
    ACTIVATION,
    PLAIN,
    Array,
    Quantized,
    Range,
    Result,
    Shape,
    numbers,
)


class Value(NamedTuple):
    """A tensor of a program: its number, and what the operators that use it must know."""

    number: int
    dtype: str
    shape: Shape
    quantized: Quantized | None


@dataclass
class Program:
    """A model of one operator or of several, and an array for each input.

    name: what it tests, as the name of its file. operator: whose program it is.
    """

    operator: str
    name: str
    tensors: list[TensorRow] = field(default_factory=list)
    rows: list[OperatorRow] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    arrays: dict[str, Array] = field(default_factory=dict)
    others: list[Subgraph] = field(default_factory=list)

    def input(
        self, dtype: str, shape: Shape, *, between: Range = None, quantized: Quantized | None = None
    ) -> Value:
        """Return an input with seeded numbers; `between` are the lowest and the highest one."""
        name = f"x{len(self.inputs)}"
        value = self._tensor(name, dtype, shape, quantized=quantized)
        self.inputs.append(value.number)
        seed = zlib.crc32(f"{self.operator}/{self.name}/{name}".encode())
        self.arrays[name] = numbers(dtype, shape, seed, between)
        return value

    def constant(self, values: Any, dtype: str, *, quantized: Quantized | None = None) -> Value:
        """Return a constant; nothing is scaled."""
        data = np.asarray(values, dtype)
        name = f"c{len(self.tensors)}"
        return self._tensor(name, dtype, data.shape, quantized=quantized, data=data)

    def random(
        self,
        dtype: str,
        shape: Shape,
        between: Range = None,
        *,
        quantized: Quantized | None = None,
    ) -> Value:
        """Return a constant with seeded numbers."""
        seed = zlib.crc32(f"{self.operator}/{self.name}/{len(self.tensors)}".encode())
        return self.constant(numbers(dtype, shape, seed, between), dtype, quantized=quantized)

    def apply(
        self,
        operator: str,
        values: Sequence[Value | None],
        *results: Result,
        **options: Any,
    ) -> list[Value]:
        """Return the results of an operator; None is an operand that is left out."""
        made = [
            self._tensor(
                f"t{len(self.tensors)}", *row[:2], quantized=row[2] if len(row) > 2 else None
            )
            for row in results
        ]
        numbers_of = tuple(-1 if value is None else value.number for value in values)
        outputs = tuple(value.number for value in made)
        version = 2 if operator == "BROADCAST_TO" else 1  # LiteRT's oldest kernel.
        self.rows.append(OperatorRow(operator, numbers_of, outputs, options, version))
        return made

    def returns(self, values: Sequence[Value]) -> Program:
        """Return the program that returns these values."""
        self.outputs += [value.number for value in values]
        return self

    def variable(self, dtype: str, shape: Shape, quantized: Quantized | None = None) -> Value:
        """Return a tensor of zeros that keeps what the operator writes into it."""
        value = self._tensor(f"s{len(self.tensors)}", dtype, shape, quantized=quantized)
        self.tensors[-1] = replace(self.tensors[-1], is_variable=True)
        return value

    def add_intermediates(self, *rows: tuple[str, Quantized]) -> None:
        """Give the last operator tensors that are nothing but a type and a quantisation."""
        made = [
            self._tensor(f"m{len(self.tensors)}", row[0], (1,), quantized=row[1]) for row in rows
        ]
        numbers_of = tuple(value.number for value in made)
        self.rows[-1] = replace(self.rows[-1], intermediates=numbers_of)

    def data(self) -> bytes:
        """Return the bytes of the model."""
        return model(self.tensors, self.rows, self.inputs, self.outputs, others=self.others)

    def _tensor(
        self,
        name: str,
        dtype: str,
        shape: Shape,
        *,
        quantized: Quantized | None = None,
        data: Array | None = None,
    ) -> Value:
        if quantized is None and data is None:
            quantized = ACTIVATION.get(dtype)
        rows: dict[str, Any] = {}
        if quantized is not None and quantized.scales:
            zeros = (quantized.zero,) * len(quantized.scales)
            rows = {"scales": quantized.scales, "zero_points": zeros, "axis": quantized.axis}
        self.tensors.append(TensorRow(name, dtype, shape, data, **rows))
        return Value(len(self.tensors) - 1, dtype, shape, quantized)


def one(
    operator: str,
    name: str,
    given: Sequence[tuple[str, Shape]],
    *results: Result,
    between: Range = None,
    constants: Sequence[Any] = (),
    **options: Any,
) -> Program:
    """Return the program of one operator: inputs, then operands of int32 that are constants."""
    program = Program(operator, name)
    values = [program.input(dtype, shape, between=between) for dtype, shape in given]
    values += [program.constant(row, "int32") for row in constants]
    return program.returns(program.apply(operator, values, *results, **options))


def named(shape: Shape) -> str:
    """Return a shape as part of a name."""
    return "x".join(map(str, shape)) or "scalar"


Programs = Iterator[Program]


def built(operator: str, operands: Sequence[Any], name: str = "", **options: Any) -> Program:
    """Return a program of one operator.

    operands: None, numbers of INT32, an array, or the type and the shape of an input, its scale and its
        zero point; a scale of 0 is none, and one that is left out is the usual one.
    options: those of the operator; count: of its results; result: their type, shape and quantisation, if
        they are not those of the first operand.
    """
    program = Program(operator, name)
    values: list[Value | None] = []
    for one in operands:
        if one is None:
            values.append(None)
            continue
        if not isinstance(one, tuple):
            dtype = str(one.dtype) if isinstance(one, np.ndarray) else "int32"
            values.append(program.constant(one, dtype))
            continue
        dtype, shape, *scale = one
        quantized = Quantized((scale[0],), *scale[1:]) if scale and scale[0] else None
        plain = PLAIN if scale == [0] else quantized
        values.append(program.input(dtype, shape, quantized=plain))
    usual = None if values[0] is None else values[0][1:]
    count, result = options.pop("count", 1), options.pop("result", usual)
    return program.returns(program.apply(operator, values, *[result] * count, **options))
