from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from rewrites.programs import assert_same_bits, program, rewritten, run
from unit.building import op

import tosa_convert as tc
from tosa_convert.builder import Builder, Value
from tosa_convert.graph import Graph, ShapeValue

NAME = "fold-shapes"

Step = Callable[[Builder, Value], Value]

#: How sizes whose product is 24 are computed from a tensor of [4, 6].
COMPUTED: dict[str, Step] = {
    "DIM": lambda b, x: b.concat_shape([b.dim(x, axis=1), b.dim(x, axis=0)]),
    "ADD_SHAPE": lambda b, x: b.add_shape(b.const_shape((1, 5)), b.const_shape((3, 1))),
    "SUB_SHAPE": lambda b, x: b.sub_shape(b.const_shape((9, 5)), b.const_shape((1, 2))),
    "MUL_SHAPE": lambda b, x: b.mul_shape(b.dim(x, axis=0), b.dim(x, axis=1)),
    "MAX_SHAPE": lambda b, x: b.max_shape(b.const_shape((1, 12)), b.const_shape((2, 5))),
    "MIN_SHAPE": lambda b, x: b.min_shape(b.const_shape((3, 8)), b.const_shape((9, 9))),
    "MOD_SHAPE": lambda b, x: b.mod_shape(b.const_shape((10, 15)), b.const_shape((6, 9))),
    "DIV_CEIL_SHAPE": lambda b, x: b.div_ceil_shape(b.const_shape((7, 11)), b.const_shape((2, 2))),
    "DIV_FLOOR_SHAPE": lambda b, x: b.div_floor_shape(b.const_shape((49,)), b.const_shape((2,))),
    "EXP2_SHAPE": lambda b, x: b.concat_shape(
        [b.exp2_shape(b.const_shape((3,))), b.const_shape((3,))]
    ),
    "LOG2_CEIL_SHAPE": lambda b, x: b.concat_shape(
        [b.log2_ceil_shape(b.const_shape((200,))), b.const_shape((3,))]
    ),
    "LOG2_FLOOR_SHAPE": lambda b, x: b.concat_shape(
        [b.log2_floor_shape(b.const_shape((300,))), b.const_shape((3,))]
    ),
    "SLICE_SHAPE": lambda b, x: b.slice_shape(
        b.const_shape((7, 4, 6, 7)),
        b.const(np.array([1], np.int32)),
        b.const(np.array([2], np.int32)),
    ),
}


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize("name", COMPUTED)
def test_known_sizes_become_a_constant(name: str) -> None:
    def build(b: Builder) -> Value:
        x = b.input("x", "fp32", (4, 6))
        return b.reshape(x, COMPUTED[name](b, x))

    graph = program(build)
    made, report = rewritten(graph, NAME, "unused-operators")
    assert [op.spec.name for op in made.main.operators] == ["CONST_SHAPE", "RESHAPE"]
    assert report.count(NAME) >= 1
    assert tc.validate(made) == []
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    assert_same_bits(run(made, x=x), run(graph, x=x))


def test_a_size_that_is_not_known_stays() -> None:
    def build(b: Builder) -> Value:
        x = b.input("x", "fp32", (-1, 6))
        return b.reshape(x, b.mul_shape(b.dim(x, axis=0), b.const_shape((6,))))

    graph = program(build)
    assert rewritten(graph, NAME)[0] is graph


def asserting(one: tuple[int, ...], other: tuple[int, ...], allow_broadcast: bool) -> Graph:
    b = Builder("main")
    b.const_shape(one, name="a")
    b.const_shape(other, name="b")
    b.output(b.abs(b.input("x", "fp32", (2,))), name="y")
    graph = b.graph()
    graph.main.operators.append(op("ASSERT_EQUAL_SHAPE", "a b", allow_broadcast=allow_broadcast))
    return graph


@pytest.mark.parametrize(
    ("one", "other", "allow_broadcast", "holds"),
    [
        ((2, 3), (2, 3), False, True),
        ((2, 3), (2, 1), True, True),
        ((2, 3), (2, 1), False, False),
        ((2, 3), (2, 4), True, False),
        ((2, 3), (2,), True, False),
    ],
)
def test_an_assertion_goes_if_it_holds(
    one: tuple[int, ...], other: tuple[int, ...], allow_broadcast: bool, holds: bool
) -> None:
    graph = asserting(one, other, allow_broadcast)
    made, _ = rewritten(graph, NAME)
    remaining = [op for op in made.main.operators if op.spec.name == "ASSERT_EQUAL_SHAPE"]
    assert bool(remaining) is not holds


def test_what_tosa_forbids_stays_for_validate() -> None:
    graph = asserting((2, 3), (0, 1), False)
    graph.main.operators[-1] = op("DIV_FLOOR_SHAPE", "a b", "d")
    graph.main.shapes["d"] = ShapeValue("d", 2)
    assert tc.validate(graph)
    assert rewritten(graph, NAME)[0] is graph
