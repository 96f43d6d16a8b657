"""Tensors that hold their scales give what the reference model gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tosa_convert.builder import Builder
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.running.programs import input_arrays
from tosa_convert.graph import Block, BlockScale, Graph, Operator, Region, Tensor, dtype, operator
from tosa_convert.graph.dtypes import BLOCK_SCALE, BlockShape, DType
from tosa_convert.graph.versions import V1_1_DRAFT
from tosa_convert.reference.evaluate import Machine


def round_trip(element: DType) -> Graph:
    """FP32 to blocks, put together with itself, and back."""
    shape, double = (2, 64), (4, 64)
    return program(
        [
            Tensor("x", dtype("FP32"), shape),
            scaled("a", element, shape),
            scaled("b", element, double),
            Tensor("y", dtype("FP32"), double),
        ],
        ("CAST", "x", "a", {}),
        ("CONCAT", "a a", "b", {"axis": 0}),
        ("CAST", "b", "y", {}),
    )


def scaled(name: str, element: DType, shape: tuple[int, ...]) -> Tensor:
    return Tensor(name, element, shape, scale=BlockScale(BLOCK_SCALE, BlockShape.BLOCK_SHAPE_32))


def program(tensors: list[Tensor], *operators: tuple[str, str, str, dict[str, Any]]) -> Graph:
    block = Block("main", [tensors[0].name], [tensors[-1].name])
    block.tensors = {tensor.name: tensor for tensor in tensors}
    for kind, operand, result, attributes in operators:
        inputs = tuple(operand.split())
        block.operators.append(Operator(operator(kind), inputs, (result,), attributes))
    return Graph(V1_1_DRAFT, [Region("main", [block])])


def test_an_operator_that_takes_no_blocks_is_refused_by_name() -> None:
    element = dtype("FP8E4M3")
    tensors = [scaled("x", element, (1, 32)), scaled("y", element, (1, 32))]
    graph = program(tensors, ("ABS", "x", "y", {}))
    scale = np.ones((1, 1), BLOCK_SCALE.numpy)
    with pytest.raises(TosaConvertError, match="ABS of tensors that hold their scales"):
        Machine(graph).run({"x": np.zeros((1, 32), element.numpy), "x/scale": scale})


def _indices(b: Builder) -> Any:
    return b.const(np.array([[1, 0], [2, 1]]), "INT32")


MOVES: dict[str, Callable[[Builder, Any, Any], Any]] = {
    "CONCAT": lambda b, x, s: b.concat([x, s], axis=1),
    "GATHER": lambda b, x, s: b.gather(x, _indices(b)),
    "REVERSE": lambda b, x, s: b.reverse(b.reverse(x, axis=2), axis=1),
    "ROW_GATHER": lambda b, x, s: b.row_gather(x, _indices(b), 1),
    "SCATTER": lambda b, x, s: b.scatter(x, _indices(b), s),
    "SLICE": lambda b, x, s: b.slice(x, (0, 1, 32), (2, 2, 64)),
    "TILE": lambda b, x, s: b.tile(x, (1, 2, 2)),
    "TRANSPOSE": lambda b, x, s: b.transpose(x, perms=(1, 0, 2)),
}


@pytest.mark.parametrize("kind", MOVES)
def test_blocks_are_moved_as_the_numbers_are_that_they_stand_for(kind: str) -> None:
    b, move = Builder("main"), MOVES[kind]
    pair = [b.input(name, "FP6E2M3", (2, 3, 96), scaled=True) for name in "xs"]
    if kind == "SCATTER":
        pair[1] = b.input("source", "FP6E2M3", (2, 2, 96), scaled=True)
    b.output(b.cast(move(b, *pair), dtype="FP32"), name="moved")
    b.output(move(b, *(b.cast(one, dtype="FP32") for one in pair)), name="numbers")
    graph = b.graph()
    found = Machine(graph).run(input_arrays(graph, None, random=3))
    assert len(np.unique(found["moved"])) > 8
    np.testing.assert_array_equal(found["moved"], found["numbers"])


def test_a_block_with_infinity_has_the_scale_nan() -> None:
    graph = round_trip(dtype("FP4E2M1"))
    graph.main.outputs[:] = ["a"]
    x = np.ones((2, 64), np.float32)
    x[0, 40] = np.inf
    found = Machine(graph).run({"x": x})
    assert np.isnan(found["a/scale"].astype(np.float32)).tolist() == [[False, True], [False, False]]
    assert found["a"][0, 32:].astype(np.float32).tolist() == [4.0] * 32
