"""Recipes on lists, for every size up to 20, against plain loops; rows that are scattered."""

from __future__ import annotations

import itertools
from operator import add

import numpy as np
import pytest

from tosa_convert.builder import Builder
from tosa_convert.frontends.recipes import cumulate, scatter_rows
from tosa_convert.reference.evaluate import Machine

SIZES = range(1, 21)


@pytest.mark.parametrize("size", SIZES)
def test_sums_are_cumulated_in_few_steps(size: int) -> None:
    given, steps = list(range(3, 3 + size)), []

    def moved(x: list[int], by: int) -> list[int]:
        steps.append(by)
        return [0] * by + x[:-by]

    made = cumulate(given, size, lambda x, y: list(map(add, x, y)), moved)
    assert made == list(itertools.accumulate(given))
    assert len(steps) == (size - 1).bit_length()


@pytest.mark.parametrize("columns", [1, 2, 6])
def test_rows_are_replaced_at_their_places(columns: int) -> None:
    count = 24 // columns
    places = [count - 1, 0]
    b = Builder("main")
    table = b.input("table", "int32", (4, 6))
    rows = b.input("rows", "int32", (2, columns))
    index = b.const(np.array([places], np.int32))
    b.output(scatter_rows(b, table, index, rows, columns), name="y")
    old, new = np.arange(24, dtype=np.int32), -np.arange(2 * columns, dtype=np.int32) - 1
    found = Machine(b.graph()).run({"table": old.reshape(4, 6), "rows": new.reshape(2, columns)})[
        "y"
    ]
    expected = old.reshape(count, columns).copy()
    expected[places] = new.reshape(2, columns)
    assert np.array_equal(found, expected[None])
