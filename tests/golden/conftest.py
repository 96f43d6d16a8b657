"""Small graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tosa_convert.graph import (
    Block,
    Constant,
    Graph,
    Operator,
    Region,
    ShapeValue,
    Tensor,
    dtype,
    operator,
)
from tosa_convert.graph.constant import constant_of
from tosa_convert.graph.versions import V1_1_DRAFT


class Builder:
    """Builds a graph with one block, one operator at a time."""

    def __init__(self) -> None:
        self.block = Block("main")

    def tensor(self, name: str, kind: str, shape: Sequence[int], **more: Any) -> str:
        self.block.tensors[name] = Tensor(name, dtype(kind), tuple(shape), **more)
        return name

    def input(self, name: str, kind: str, shape: Sequence[int]) -> str:
        self.block.inputs.append(self.tensor(name, kind, shape))
        return name

    def const(self, name: str, kind: str, values: Any) -> str:
        row = dtype(kind)
        array = np.asarray(values).astype(row.numpy)
        self.tensor(name, kind, array.shape, data=constant_of(array, row))
        self.block.operators.append(Operator(operator("CONST"), (), (name,)))
        return name

    def shape(self, name: str, values: Sequence[int]) -> str:
        data = Constant(dtype("INT64"), len(values), np.asarray(values, "<i8").view(np.uint8))
        self.block.shapes[name] = ShapeValue(name, len(values), data)
        self.block.operators.append(Operator(operator("CONST_SHAPE"), (), (name,)))
        return name

    def op(
        self,
        kind: str,
        inputs: Sequence[str],
        output: str,
        dtype_: str,
        shape: Sequence[int],
        **attributes: Any,
    ) -> str:
        self.tensor(output, dtype_, shape)
        self.block.operators.append(
            Operator(operator(kind), tuple(inputs), (output,), attributes, f'loc("{output}")')
        )
        return output

    def graph(self, *outputs: str) -> Graph:
        self.block.outputs = list(outputs)
        return Graph(V1_1_DRAFT, [Region("main", [self.block])])


#: The type of the fixture `builder`.
MakeBuilder = Callable[[], Builder]


@pytest.fixture
def builder() -> MakeBuilder:
    return Builder


@pytest.fixture
def chain() -> Graph:
    """x -> abs -> a -> add(a, one) -> b -> negate-free sub(b, x) -> c, int32."""
    b = Builder()
    b.input("x", "INT32", (4,))
    b.const("one", "INT32", [1, 1, 1, 1])
    b.op("ABS", ["x"], "a", "INT32", (4,))
    b.op("ADD", ["a", "one"], "b", "INT32", (4,))
    b.op("SUB", ["b", "x"], "c", "INT32", (4,))
    return b.graph("c")
