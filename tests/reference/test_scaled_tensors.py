"""Tensors that hold their scales give what the reference model gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tosa_convert.builder import Builder
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.running.programs import Program, input_arrays
from tosa_convert.golden.running.run_graph import run_program
from tosa_convert.golden.running.run_options import RunOptions
from tosa_convert.graph import Block, BlockScale, Graph, Operator, Region, Tensor, dtype, operator
from tosa_convert.graph.constant import constant_of
from tosa_convert.graph.dtypes import BLOCK_SCALE, BLOCK_SCALED, BlockShape, BlockSize, DType
from tosa_convert.graph.versions import V1_1_DRAFT
from tosa_convert.reference.call import Precision
from tosa_convert.reference.evaluate import Machine


def scaled(name: str, element: DType, shape: tuple[int, ...]) -> Tensor:
    return Tensor(name, element, shape, scale=BlockScale(BLOCK_SCALE, BlockShape.BLOCK_SHAPE_32))


def program(tensors: list[Tensor], *operators: tuple[str, str, str, dict[str, Any]]) -> Graph:
    block = Block("main", [tensors[0].name], [tensors[-1].name])
    block.tensors = {tensor.name: tensor for tensor in tensors}
    for kind, operand, result, attributes in operators:
        inputs = tuple(operand.split())
        block.operators.append(Operator(operator(kind), inputs, (result,), attributes))
    return Graph(V1_1_DRAFT, [Region("main", [block])])


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


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize("element", BLOCK_SCALED, ids=str)
def test_casts_and_moves_of_blocks_give_what_the_model_gives(element: DType) -> None:
    graph = round_trip(element)
    arrays = input_arrays(graph, None, 1)
    arrays["x"][0, 3] = 1000
    model = run_program(Program(graph), arrays, RunOptions(engine="reference-model"))
    ours = run_program(Program(graph), arrays, RunOptions(engine="numpy"))
    np.testing.assert_array_equal(ours.outputs["y"], model.outputs["y"])
    assert np.unique(ours.outputs["y"]).size > 2


def test_a_block_with_infinity_has_the_scale_nan() -> None:
    graph = round_trip(dtype("FP4E2M1"))
    graph.main.outputs[:] = ["a"]
    x = np.ones((2, 64), np.float32)
    x[0, 40] = np.inf
    found = Machine(graph).run({"x": x})
    assert np.isnan(found["a/scale"].astype(np.float32)).tolist() == [[False, True], [False, False]]
    assert found["a"][0, 32:].astype(np.float32).tolist() == [4.0] * 32


@pytest.mark.parametrize(
    ("element", "data"),
    [
        *(("FP8E4M3", math.nan), ("FP8E5M2", math.nan)),
        *(("FP6E2M3", 4.0), ("FP6E3M2", 16.0), ("FP4E2M1", 4.0), ("MXINT8", 127.0)),
    ],
)
def test_a_block_with_nan_has_the_data_of_its_type(element: str, data: float) -> None:
    graph = round_trip(dtype(element))
    graph.main.outputs[:] = ["a"]
    x = np.ones((2, 64), np.float32)
    x[1, 3] = np.nan
    for precision in ("own", "wide"):
        found = Machine(graph, precision).run({"x": x})
        scale = found["a/scale"].astype(np.float32)
        assert np.isnan(scale).tolist() == [[False, False], [True, False]]
        expected = [data if precision == "own" else math.nan] * 32
        np.testing.assert_array_equal(found["a"][1, :32].astype(np.float32), expected)
        assert not np.isnan(found["a"].astype(np.float32)[:, 32:]).any()


@pytest.mark.parametrize(
    ("element", "largest", "scale"),
    [
        # The greatest number of FP4 is 6, to which numbers below 7 are rounded.
        *(("FP4E2M1", 6.0, 1.0), ("FP4E2M1", 6.99, 1.0), ("FP4E2M1", 7.01, 2.0)),
        # 448 is even, so that 464 is rounded to it, and 57344 to 61440 for the same reason are not.
        *(("FP8E4M3", 464.0, 1.0), ("FP8E4M3", 465.0, 2.0)),
        *(("FP8E5M2", 57344.0, 1.0), ("FP8E5M2", 61440.0, 2.0), ("FP8E5M2", 61000.0, 1.0)),
        # 127 64ths, and half a 64th more.
        *(("MXINT8", 1.984375, 1.0), ("MXINT8", 1.992, 1.0), ("MXINT8", 1.9922, 2.0)),
        *(("FP8E4M3", 0.0, 2.0**-127), ("FP8E4M3", 2.0**-125, 2.0**-127)),
        ("FP4E2M1", 3.4e38, 2.0**126),
    ],
)
def test_the_scale_of_a_block_is_the_least_that_is_enough(
    element: str, largest: float, scale: float
) -> None:
    graph = round_trip(dtype(element))
    graph.main.outputs[:] = ["a"]
    x = np.zeros((2, 64), np.float32)
    x[0, 5] = -largest
    found = Machine(graph).run({"x": x})["a/scale"].astype(np.float64)
    assert found.tolist() == [[scale, 2.0**-127], [2.0**-127, 2.0**-127]]


@pytest.mark.usefixtures("refmodel")
def test_a_constant_of_blocks_has_its_scale() -> None:
    element = dtype("FP8E4M3")
    made = program([scaled("k", element, (1, 32)), Tensor("y", dtype("FP32"), (1, 32))])
    k = made.main.tensors["k"]
    k.data = constant_of(np.full((1, 32), 3).astype(element.numpy), element)
    assert k.scale is not None
    k.scale.data = constant_of(np.full((1, 1), 0.25).astype(BLOCK_SCALE.numpy), BLOCK_SCALE)
    made.main.inputs[:] = []
    made.main.operators = [
        Operator(operator("CONST"), (), ("k",), {}),
        Operator(operator("CAST"), ("k",), ("y",), {}),
    ]
    assert Machine(made).run({})["y"].tolist() == [[0.75] * 32]


def test_an_operator_that_takes_no_blocks_is_refused_by_name() -> None:
    element = dtype("FP8E4M3")
    tensors = [scaled("x", element, (1, 32)), scaled("y", element, (1, 32))]
    graph = program(tensors, ("ABS", "x", "y", {}))
    scale = np.ones((1, 1), BLOCK_SCALE.numpy)
    with pytest.raises(TosaConvertError, match="ABS of tensors that hold their scales"):
        Machine(graph).run({"x": np.zeros((1, 32), element.numpy), "x/scale": scale})


def product(element: DType, *, holds_scales: bool) -> Graph:
    """Return a product of FP32 numbers and a tensor of another type."""
    shape = (1, 2, 32)
    other = scaled("b", element, shape) if holds_scales else Tensor("b", element, shape)
    zero = dtype("FP32") if holds_scales else element
    graph = program(
        [
            Tensor("a", dtype("FP32"), shape),
            other,
            Tensor(
                "a_zp", dtype("FP32"), (1,), constant_of(np.zeros(1, np.float32), dtype("FP32"))
            ),
            Tensor("b_zp", zero, (1,), constant_of(np.zeros(1, zero.numpy), zero)),
            Tensor("y", dtype("FP32"), (1, 2, 2)),
        ],
        ("CONST", "", "a_zp", {}),
        ("CONST", "", "b_zp", {}),
        ("MATMUL_T", "a b a_zp b_zp", "y", {}),
    )
    graph.main.inputs.append("b")
    return graph


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize(
    ("name", "holds_scales", "least"),
    [
        ("FP8E4M3", False, 2.0**-6),
        ("FP8E5M2", False, 2.0**-14),
        ("FP8E4M3", True, 2.0**-126),
        ("FP4E2M1", True, 2.0**-126),
        ("MXINT8", True, 2.0**-126),
    ],
)
def test_a_zero_has_the_bound_of_the_least_normal_number(
    name: str, holds_scales: bool, least: float
) -> None:
    graph = product(dtype(name), holds_scales=holds_scales)
    inputs: dict[str, Any] = {
        "a": np.ones((1, 2, 32), np.float32),
        "b": np.zeros((1, 2, 32), dtype(name).numpy),
    }
    if holds_scales:
        inputs["b/scale"] = np.ones((1, 2, 1), BLOCK_SCALE.numpy)
    found = [
        run_program(Program(graph), inputs, RunOptions(engine=engine, bounds=True)).bounds["y"]
        for engine in ("numpy", "reference-model")
    ]
    assert found[0].tolist() == found[1].tolist()
    assert found[0].reshape(-1).tolist() == [32 * least] * 4


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize("element", BLOCK_SCALED, ids=str)
def test_casts_to_blocks_in_fp64_give_what_the_model_gives(element: DType) -> None:
    graph = round_trip(element)
    graph.main.outputs[:] = ["a"]
    x = input_arrays(graph, None, 1)["x"]
    x[0, 3], x[1, 40] = 1000, np.nan
    found = [
        run_program(Program(graph), {"x": x}, RunOptions(engine=engine, precise=True)).outputs["a"]
        for engine in ("numpy", "reference-model")
    ]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12, atol=0)


@pytest.mark.parametrize("kind", ["RESHAPE_BLOCK_SCALED", "ROW_GATHER_BLOCK_SCALED"])
def test_moved_codes_of_mxint8_are_numbers_in_fp64(kind: str) -> None:
    codes, size = np.arange(-64, 64, dtype=np.int8).reshape(1, 4, 32), BlockSize.BLOCK_SIZE_32
    b = Builder("main")
    x, scale = b.input("x", "MXINT8", (1, 4, 32)), b.input("s", "FP8UE8M0", (1, 4, 1))
    if kind == "RESHAPE_BLOCK_SCALED":
        moved = b.reshape_block_scaled(x, (1, 2, 64), input_scale=scale, block_size=size)
    else:
        indices = b.const(np.array([[0, 2]], np.int32))
        moved = b.row_gather_block_scaled(x, indices, 2, values_scale=scale, block_size=size)
    assert isinstance(moved, tuple)
    for value, name in zip(moved, ("y", "y_scale"), strict=True):
        b.output(value, name=name)
    inputs = {"x": codes, "s": np.ones((1, 4, 1)).astype(BLOCK_SCALE.numpy)}
    given: dict[Precision, Any] = {"own": codes, "wide": codes / 64, "bounds": codes / 64}
    for precision, expected in given.items():
        found = Machine(b.graph(), precision).run(inputs)["y"]
        assert found.dtype == expected.dtype, precision
        np.testing.assert_array_equal(found.reshape(-1), expected.reshape(-1))


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
