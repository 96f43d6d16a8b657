from __future__ import annotations

import random
from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from rewrites.programs import kinds, program, rewritten, run

import tosa_convert as tc
from tosa_convert.builder import Builder, Value
from tosa_convert.graph import Graph
from tosa_convert.rewrites.high_ranks import MOST

NAME = "high-ranks"
SHAPE = (2, 3, 1, 2, 3, 2, 2, 2)
COUNT = int(np.prod(SHAPE))
X = np.arange(COUNT, dtype=np.float32).reshape(12, -1) % 29 - 13

Step = Callable[[Builder, Value], Value]
NumpyStep = Callable[[np.ndarray], np.ndarray]  # type: ignore[type-arg]


def const(shape: tuple[int, ...]) -> np.ndarray:  # type: ignore[type-arg]
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)


ROW, OTHER = const((1, 3, 1, 1, 1, 2, 1, 2)), const((2, 1, 1, 2, 3, 2, 2, 2))
ORDER = (3, 0, 5, 1, 6, 2, 4, 7)

STEPS: dict[str, tuple[Step, NumpyStep]] = {
    "unary": (lambda b, x: b.negate(x), lambda x: -x),
    "binary": (lambda b, x: b.add(x, x), lambda x: x + x),
    "broadcast": (lambda b, x: b.mul(b.const(ROW), x), lambda x: ROW * x),
    "broadcast of both": (
        lambda b, x: b.sub(b.slice(x, (0,) * 8, (1, *SHAPE[1:])), b.const(OTHER)),
        lambda x: x[:1] - OTHER,
    ),
    "select": (
        lambda b, x: b.select(b.greater(x, b.const(ROW)), x, b.const(ROW)),
        lambda x: np.maximum(x, ROW),
    ),
    "clamp": (
        lambda b, x: b.clamp(x, min_val=-3, max_val=4),
        lambda x: np.clip(x, -3, 4),
    ),
    "reduction": (lambda b, x: b.reduce_sum(x, axis=4), lambda x: x.sum(4, keepdims=True)),
    "reduction of the first": (
        lambda b, x: b.reduce_max(x, axis=0),
        lambda x: x.max(0, keepdims=True),
    ),
    "reduction of the last": (
        lambda b, x: b.reduce_min(x, axis=7),
        lambda x: x.min(7, keepdims=True),
    ),
    "reverse": (lambda b, x: b.reverse(x, axis=1), lambda x: np.flip(x, 1)),
    "concat": (lambda b, x: b.concat([x, x], axis=3), lambda x: np.concatenate([x, x], 3)),
    "slice": (
        lambda b, x: b.slice(x, (0, 1, 0, 0, 1, 0, 0, 1), (2, 2, 1, 2, 2, 2, 2, 1)),
        lambda x: x[:, 1:3, :, :, 1:3, :, :, 1:2],
    ),
    "pad": (
        lambda b, x: b.pad(x, (0, 0, 1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0), 5.0),
        lambda x: np.pad(
            x, [(0, 0), (1, 0), (0, 0), (0, 0), (0, 2)] + [(0, 0)] * 3, constant_values=5
        ),
    ),
    "tile": (
        lambda b, x: b.tile(x, (1, 2, 1, 1, 3, 1, 1, 1)),
        lambda x: np.tile(x, (1, 2, 1, 1, 3, 1, 1, 1)),
    ),
    "tile as ONNX's": (
        lambda b, x: b.tile(b.reshape(x, (1, 6, 1, 2, 1, 3, 1, 8)), (2, 1, 3, 1, 2, 1, 2, 1)),
        lambda x: np.tile(x.reshape(6, 2, 3, 8), (2, 3, 2, 2)),
    ),
    "tile of several": (
        lambda b, x: b.tile(x, (2, 2, 3, 1, 1, 2, 1, 1)),
        lambda x: np.tile(x, (2, 2, 3, 1, 1, 2, 1, 1)),
    ),
    "transpose": (lambda b, x: b.transpose(x, perms=ORDER), lambda x: x.transpose(ORDER)),
    "transpose and back": (
        lambda b, x: b.transpose(
            b.exp(b.transpose(x, perms=ORDER)), perms=tuple(np.argsort(ORDER))
        ),
        np.exp,
    ),
    "reshape": (
        lambda b, x: b.reshape(b.negate(b.reshape(x, (2, 3, 2, 1, 3, 2, 4))), SHAPE),
        lambda x: -x,
    ),
}


def between(step: Step) -> Graph:
    """Return a program whose inputs and outputs have few dimensions, and what is between them many."""

    def build(b: Builder) -> Value:
        made = step(b, b.reshape(b.input("x", "fp32", X.shape), SHAPE))
        assert made.shape is not None
        return b.reshape(made, (-1,) if None in made.shape else (int(np.prod(made.shape)),))

    return program(build)


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize("name", STEPS)
def test_an_operator_is_computed_with_fewer_dimensions(name: str) -> None:
    step, expected = STEPS[name]
    graph = between(step)
    assert tc.validate(graph, level="8k")
    made, report = rewritten(graph, NAME)
    assert tc.validate(made, level="8k") == []
    assert report.count(NAME) > 2
    found = run(made, x=X)["y"]
    np.testing.assert_allclose(found, expected(X.reshape(SHAPE)).reshape(-1), rtol=1e-5)
    assert rewritten(graph)[0].main.outputs == ["y"]


@pytest.mark.usefixtures("refmodel")
def test_an_index_of_the_largest_removes_its_dimension() -> None:
    def build(b: Builder) -> Value:
        many = b.reshape(b.input("x", "fp32", X.shape), SHAPE)
        return b.reshape(b.argmax(many, axis=1, dtype="int32"), (COUNT // 3,))

    made, _ = rewritten(program(build), NAME)
    assert tc.validate(made, level="8k") == []
    assert run(made, x=X)["y"].tolist() == X.reshape(SHAPE).argmax(1).reshape(-1).tolist()


def transposed(shape: tuple[int, ...], perms: tuple[int, ...]) -> Graph:
    def build(b: Builder) -> Value:
        many = b.reshape(b.input("x", "int32", (int(np.prod(shape)),)), shape)
        return b.reshape(b.transpose(many, perms=perms), (int(np.prod(shape)),))

    return program(build)


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize("seed", range(6))
def test_transposes_in_any_order_of_dimensions_are_split(seed: int) -> None:
    chosen = random.Random(seed)
    rank = chosen.choice([7, 8, 10])
    shape = tuple(chosen.choice([1, 2, 2, 3] if rank < 10 else [1, 2]) for _ in range(rank))
    perms = tuple(chosen.sample(range(rank), rank))
    made, _ = rewritten(transposed(shape, perms), NAME)
    assert tc.validate(made, level="8k") == []
    x = np.arange(int(np.prod(shape)), dtype=np.int32)
    assert run(made, x=x)["y"].tolist() == x.reshape(shape).transpose(perms).reshape(-1).tolist()


def test_a_dimension_that_is_in_its_place_is_not_moved() -> None:
    made, _ = rewritten(transposed((2,) * 8, (0, 7, 5, 3, 1, 6, 4, 2)), NAME)
    assert kinds(made).count("TRANSPOSE") == 3


def test_the_order_of_six_dimensions_takes_one_transpose() -> None:
    for perms in list(permutations(range(6)))[::97]:
        shape = (*(2,) * 6, 1)
        made, _ = rewritten(transposed(shape, (*perms, 6)), NAME)
        assert kinds(made).count("TRANSPOSE") == 1


def test_what_an_unknown_operator_takes_keeps_its_shape() -> None:
    def build(b: Builder) -> Value:
        many = b.negate(b.reshape(b.input("x", "fp32", X.shape), SHAPE))
        results = b.custom([many], [("fp32", X.shape)], operator_name="op", domain_name="domain")
        return results[0]

    graph = program(build)
    assert rewritten(graph, NAME)[0] is graph


def test_names_and_constants_survive() -> None:
    def build(b: Builder) -> Value:
        many = b.reshape(b.input("x", "fp32", X.shape), SHAPE)
        made = b.add(many, b.const(const(SHAPE), name="weight"), name="sum")
        return b.reshape(made, (COUNT,))

    graph = program(build)
    made, _ = rewritten(graph, NAME)
    assert len(made.main.tensors["sum"].shape or ()) <= MOST
    assert made.main.tensors["weight"].data is graph.main.tensors["weight"].data
