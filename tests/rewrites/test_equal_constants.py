from __future__ import annotations

import numpy as np
import pytest
from rewrites.programs import program, rewritten

from tosa_convert.builder import Builder, Value
from tosa_convert.graph import Constant, Graph, Operator, Tensor, dtype
from tosa_convert.graph.opset import CONST

NAME = "equal-constants"


def sums(*arrays: np.ndarray) -> Graph:  # type: ignore[type-arg]
    """Return a program that adds constants, each of which is one of its own."""

    def build(b: Builder) -> Value:
        value = b.input("x", arrays[0].dtype, arrays[0].shape)
        for number, array in enumerate(arrays):
            value = b.add(value, b.const(array, name=f"c{number}"))
        return value

    return program(build)


def constants(graph: Graph) -> list[str]:
    return [t.name for t in graph.main.tensors.values() if t.data is not None]


@pytest.mark.parametrize(("element", "packed", "one"), [("INT8", 1, 1), ("INT4", 2, 0x11)])
def test_constants_of_equal_elements_are_equal_whatever_form_their_data_has(
    element: str, packed: int, one: int
) -> None:
    kind, count = dtype(element), 8
    forms = [
        Constant(kind, count, bytes([one]) * (count // packed)),
        Constant(kind, count, b"\x01" * count, unpacked=True),
        Constant(kind, count, b"\x01", splat=True),
    ]
    tensors = [Tensor(f"c{n}", kind, (count,), data) for n, data in enumerate(forms)]
    graph = program(lambda b: b.abs(b.input("x", "fp32", (1,))))
    block = graph.main
    block.operators += [Operator(CONST, (), (tensor.name,)) for tensor in tensors]
    block.tensors.update({tensor.name: tensor for tensor in tensors})
    _, report = rewritten(graph, NAME)
    assert report.count(NAME) == 2
    block.tensors["c2"].data = Constant(kind, count, b"\x02", splat=True)
    assert rewritten(graph, NAME)[1].count(NAME) == 1


def test_large_constants_are_one_only_if_they_share_memory() -> None:
    weights = np.zeros(10_000, np.float32)
    graph = sums(weights, weights.copy())
    assert rewritten(graph, NAME)[0] is graph
    weights.flags.writeable = False
    made, _ = rewritten(sums(weights, weights), NAME)
    assert constants(made) == ["c0"]


def test_equal_shapes_become_one() -> None:
    def build(b: Builder) -> tuple[Value, ...]:
        x = b.input("x", "fp32", (4,))
        return tuple(b.reshape(x, b.const_shape((2, 2), name=f"s{n}")) for n in range(3))

    made, _ = rewritten(program(build), NAME)
    assert list(made.main.shapes) == ["s0"]


def test_shapes_beside_an_assertion_stay() -> None:
    def build(b: Builder) -> Value:
        x = b.input("x", "fp32", (-1,))
        b.assert_equal_shape(b.dim(x, axis=0), b.const_shape((4,)))
        return b.reshape(b.reshape(x, b.const_shape((4,), name="a")), b.const_shape((4,), name="b"))

    graph = program(build)
    assert rewritten(graph, NAME)[0] is graph
