"""Compare the spread of a tensor with definitions that take one element after the other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tosa_convert.golden.accuracy.criteria import Spread
from tosa_convert.golden.accuracy.spreads import (
    _outweighing,
    _with_neighbours,
    spread_of,
    spread_of_scales,
)
from tosa_convert.graph import Block, Operator, Tensor, dtype, operator
from tosa_convert.reference.block_scaled import Scaled


def near(line: Any) -> float:
    """Return the mean, but at most 16 times the lower quartile of what is not zero."""
    above = sorted(value for value in line if value > 0)
    quartile = above[len(above) // 4] if above else INF
    return float(min(sum(line) / len(line), 16 * quartile))


INF, NAN = math.inf, math.nan


def block_of(kind: str, shape: tuple[int, ...], maker: str = "EXP") -> Block:
    block = Block("main", ["x"], ["t"])
    block.tensors = {name: Tensor(name, dtype(kind), shape) for name in "xt"}
    block.operators.append(Operator(operator(maker), ("x",), ("t",), {}))
    return block


def test_a_single_number_has_no_neighbours() -> None:
    assert _with_neighbours(np.array(3.0)).tolist() == 3.0
    assert _with_neighbours(np.zeros((0, 3))).shape == (0, 3)


@pytest.mark.parametrize("shape", [(1,), (3,), (8,), (3, 4), (2, 2, 5), (4, 1)])
def test_an_element_outweighs_what_is_smaller_in_its_row_its_channel_or_the_whole(
    shape: tuple[int, ...],
) -> None:
    draw = np.random.default_rng(len(shape))
    seen = set()
    for _ in range(20):
        squares = 10.0 ** draw.uniform(-2, 2, shape)
        table = squares.reshape(-1, shape[-1])
        expected = [
            any(
                own > line[line < own].sum()
                for line in (table[row], table[:, column], table.reshape(-1))
            )
            for (row, column), own in np.ndenumerate(table)
        ]
        assert _outweighing(squares).reshape(-1).tolist() == expected
        seen.update(expected)
    assert True in seen
    assert _outweighing(np.array(2.0)).tolist() is True
    assert _outweighing(np.zeros((2, 0))).shape == (2, 0)
    # As much as the smaller one is not more; of two equal ones that is the first.
    assert _outweighing(np.array([[2.0, 2.0], [2.0, 2.0]])).tolist() == [
        [True, True],
        [True, False],
    ]


def spread(runs: Any, kind: str = "FP32", maker: str = "EXP", **more: Any) -> Spread:
    arrays = [np.asarray(run) for run in runs]
    return spread_of(block_of(kind, arrays[0].shape, maker), "t", arrays, **more)


def test_the_spread_is_the_root_of_the_mean_square_of_the_errors() -> None:
    found = spread([np.array(1.0), np.array(1.5), np.array(0.0), np.array(1.0)])
    assert found.sigma is not None
    assert found.sigma.tolist() == pytest.approx(math.sqrt((0.25 + 1) / 3))
    assert found.kinds is None
    exact = np.array(1.0)
    found = spread([exact, exact, np.array(2.0)])  # a run that is the exact one has no error
    assert found.sigma is not None
    assert found.sigma.tolist() == pytest.approx(math.sqrt(0.5))


def test_an_error_counts_no_more_than_the_largest_number() -> None:
    exact, most = np.ones(4), 65504.0
    found = spread([exact, exact + np.array([1e6, 0.0, 0.0, 0.0])], "FP16")
    assert found.sigma is not None
    assert found.sigma.tolist() == pytest.approx([most * 0.8125**0.5, *[most / 4] * 3])
    found = spread([exact, exact + np.array([most, 0.0, 0.0, 0.0])], "FP16")
    assert found.sigma is not None
    assert found.sigma.tolist() == pytest.approx([most * 0.8125**0.5, *[most / 4] * 3])


def test_scales_have_the_least_and_the_greatest_one() -> None:
    data = np.zeros((1, 32))
    runs = [Scaled(data, np.array([[value]])) for value in (1.0, 0.5, NAN, 2.0)]
    found = spread_of_scales(runs)
    assert found.low is not None
    assert found.high is not None
    assert (found.exact.tolist(), found.low.tolist(), found.high.tolist()) == (
        *([[1.0]], [[0.5]], [[2.0]]),
    )


@pytest.mark.parametrize("shape", [(1,), (4,), (9,), (2, 3, 4), (5, 9), (9, 5), (1, 12)])
@pytest.mark.parametrize("zeros", [0.0, 0.4, 0.9])
def test_squares_are_moved_towards_those_of_their_row_or_channel(
    shape: tuple[int, ...], zeros: float
) -> None:
    draw = np.random.default_rng(len(shape) + int(10 * zeros))
    for _ in range(10):
        squares = 10.0 ** draw.uniform(-6, 2, shape)
        squares[draw.random(shape) < zeros] = 0.0
        table = squares.reshape(-1, shape[-1])
        expected = np.empty(table.shape)
        for row, column in np.ndindex(*table.shape):
            goal = near(table[row])
            if len(table) > 1:
                goal = min(goal, near(table[:, column]))
            if own := table[row, column]:
                goal = min(goal, 1e4 * own)
            expected[row, column] = own * 0.75 + goal * 0.25
        np.testing.assert_allclose(_with_neighbours(squares), expected.reshape(shape), rtol=1e-12)
