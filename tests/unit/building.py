"""Small graphs for tests that change one thing in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tosa_convert.formats.flatbuffer.write import plan
from tosa_convert.graph import (
    Block,
    Constant,
    Graph,
    Operator,
    Region,
    ShapeValue,
    SoftwareVersion,
    Tensor,
    dtype,
    operator,
)
from tosa_convert.graph.versions import V1_0

PRODUCER = SoftwareVersion(1, 2, 3, "test")


def encode(made: Graph, **options: Any) -> bytes:
    """Return the bytes of a flatbuffer; the graph need not be one that TOSA allows."""
    return b"".join(plan(made, PRODUCER, **options).pieces())


def tensor(
    name: str, kind: str = "FP32", shape: tuple[int, ...] | None = (2, 3), data: bytes | None = None
) -> Tensor:
    """Return a tensor; `data` is in a file's form and as long as the shape needs."""
    made = Tensor(name, dtype(kind), shape)
    if data is not None:
        count = made.element_count()
        assert count is not None
        made.data = Constant(made.dtype, count, data)
    return made


def shape(name: str, *sizes: int) -> ShapeValue:
    """Return a constant shape."""
    data = Constant(dtype("INT64"), len(sizes), np.array(sizes, "<i8").tobytes())
    return ShapeValue(name, len(sizes), data)


def op(
    name: str, inputs: str = "", outputs: str = "", location: str = "", **attributes: Any
) -> Operator:
    """Return an operator; inputs and outputs are names separated by blanks."""
    return Operator(
        operator(name), tuple(inputs.split()), tuple(outputs.split()), attributes, location
    )


def block(
    inputs: str,
    outputs: str,
    values: Sequence[Tensor | ShapeValue],
    operators: list[Operator],
    name: str,
) -> Block:
    """Return a block; inputs and outputs are names separated by blanks."""
    return Block(
        name,
        inputs.split(),
        outputs.split(),
        operators,
        {value.name: value for value in values if isinstance(value, Tensor)},
        {value.name: value for value in values if isinstance(value, ShapeValue)},
    )


def graph(
    inputs: str, outputs: str, values: Sequence[Tensor | ShapeValue], operators: list[Operator]
) -> Graph:
    """Return a graph of one region."""
    main = block(inputs, outputs, values, operators, "main")
    return Graph(V1_0, [Region("main", [main])], PRODUCER)


def region(
    name: str,
    inputs: str,
    outputs: str,
    values: Sequence[Tensor | ShapeValue],
    operators: list[Operator],
) -> Region:
    """Return a further region of one block."""
    return Region(name, [block(inputs, outputs, values, operators, f"{name}_bb0")])


def example() -> Graph:
    """x + weight, reshaped: tensors, a constant, a shape, operators with and without attributes."""
    weight = np.arange(6, dtype="<f4").tobytes()
    return graph(
        "x",
        "y",
        [
            tensor("x"),
            tensor("w", data=weight),
            tensor("s"),
            tensor("m", shape=(1, 3)),
            shape("to", 3),
            tensor("y", shape=(3,)),
        ],
        [
            op("CONST", "", "w"),
            op("ADD", "x w", "s", 'loc("f.mlir":2:8)'),
            op("REDUCE_SUM", "s", "m", axis=0),
            op("CONST_SHAPE", "", "to"),
            op("RESHAPE", "m to", "y"),
        ],
    )


def branching() -> Graph:
    """Return a cond_if whose two regions negate and keep their input."""
    made = graph(
        "c x",
        "y",
        [tensor("c", "BOOL", ()), tensor("x"), tensor("y")],
        [op("COND_IF", "c x", "y", then_graph="then", else_graph="else")],
    )
    values = [tensor("a"), tensor("b")]
    made.regions.append(region("then", "a", "b", list(values), [op("EXP", "a", "b")]))
    made.regions.append(region("else", "a", "a", [tensor("a")], []))
    return made


def counting() -> Graph:
    """Return a variable that is read, added to and written."""
    state = tensor("v", "INT32", (1,), data=b"\5\0\0\0")
    state.variable, state.variable_name = True, "counter"
    return graph(
        "x",
        "sum",
        [
            state,
            tensor("x", "INT32", (1,)),
            tensor("r", "INT32", (1,)),
            tensor("sum", "INT32", (1,)),
        ],
        [
            op("VARIABLE_READ", "v", "r"),
            op("ADD", "x r", "sum"),
            op("VARIABLE_WRITE", "sum", "v"),
        ],
    )
