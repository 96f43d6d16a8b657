"""Programs with sizes that are not fixed, made of two programs of fixed sizes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tosa_convert.builder import Builder
from tosa_convert.builder.values import Value
from tosa_convert.frontends.lowering.open_sizes import (
    lowered_openly,
    merged,
    open_dimensions,
    trial_sizes,
)
from tosa_convert.frontends.lowering.scope import NotLowered
from tosa_convert.graph import Graph

WEIGHT = np.arange(12, dtype=np.float32).reshape(1, 3, 4)


def program(size: int, body: Callable[[Builder, Value, int], Value]) -> Graph:
    b = Builder()
    b.output(body(b, b.input("x", "fp32", (size, 3)), size))
    return b.graph()


def both(body: Callable[[Builder, Value, int], Value]) -> Graph:
    found = lowered_openly(lambda trial: program((3, 5)[trial], body))
    assert found is not None
    return found


def test_a_size_in_which_two_programs_differ_is_open() -> None:
    graph = both(
        lambda b, x, n: b.reshape(b.matmul(b.reshape(x, (1, n, 3)), b.const(WEIGHT)), (n, 4))
    )
    main = graph.main
    assert [main.tensors[name].shape for name in (*main.inputs, *main.outputs)] == [
        (-1, 3),
        (-1, 4),
    ]
    assert [shape.values() for shape in main.shapes.values()] == [(1, -1, 3), (-1, 4)]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(lambda b, x, n: b.add(x, b.const(np.ones((n, 1), np.float32))), id="constant"),
        pytest.param(lambda b, x, n: b.mul(x, b.const(np.array([[n]], np.float32))), id="value"),
        pytest.param(lambda b, x, n: b.exp(x) if n == 3 else b.tanh(x), id="operator"),
        pytest.param(lambda b, x, n: x if n == 3 else b.tanh(x), id="count"),
        pytest.param(lambda b, x, n: b.clamp(x, min_val=0.0, max_val=float(n)), id="attribute"),
        pytest.param(lambda b, x, n: b.slice(x, (0, 0), (n - 1, 3)), id="slice"),
        pytest.param(
            lambda b, x, n: b.reshape(b.tile(x, (2, 1)), (2, n, 3) if n == 3 else (n, 2, 3)),
            id="two sizes",
        ),
    ],
)
def test_a_program_that_depends_on_the_size_is_refused(
    body: Callable[[Builder, Value, int], Value],
) -> None:
    with pytest.raises(NotLowered, match="depends on sizes that are not fixed") as error:
        both(body)
    assert "--input-shape" in error.value.advice


def test_a_slice_to_the_end_stays_one() -> None:
    main = both(lambda b, x, n: b.slice(x, (1, 0), (n - 1, 3))).main
    assert main.tensors[main.outputs[0]].shape == (-1, 3)
    assert [shape.values() for shape in main.shapes.values()] == [(1, 0), (-1, 3)]


def test_what_does_not_lower_stays_so() -> None:
    assert lowered_openly(lambda trial: None) is None
    one = program(3, lambda b, x, n: b.exp(x))
    assert lowered_openly(lambda trial: None if trial else one) is None
    assert merged(one, one).main.tensors["x"].shape == (3, 3)


def test_each_symbol_has_sizes_of_its_own() -> None:
    rows = list(open_dimensions([["N", 3, None], [2, "T"], ["N", "T", None]]))
    sizes = trial_sizes([(symbol, is_first) for _, _, symbol, is_first in rows])
    assert [row[:2] for row in rows] == [(0, 0), (0, 2), (1, 1), (2, 0), (2, 1), (2, 2)]
    assert len(sizes) == 4
    assert len({size for pair in sizes.values() for size in pair}) == 8
    with pytest.raises(NotLowered, match="more open sizes than"):
        trial_sizes([(number, True) for number in range(5)])
