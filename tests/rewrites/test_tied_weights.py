"""tied-weights: the table of a decoder is stored once, and no bit changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rewrites.programs import assert_same_bits, kinds, program, rewritten, run

import tosa_convert as tc
from tosa_convert.builder import Builder, Value, dtype_of
from tosa_convert.graph import Graph
from tosa_convert.rewrites.fold_constants import MOST_BYTES
from tosa_convert.rewrites.scales import LEAST_BYTES

NAME = "tied-weights"
Array = npt.NDArray[Any]


def table(words: int, width: int, dtype: npt.DTypeLike = "float32") -> Array:
    numbers = np.random.default_rng(0).integers(-99, 99, (words, width))
    return (numbers / 16 if np.dtype(dtype).kind == "f" else numbers).astype(dtype)


def decoder(weight: Array, ids: int, *, zero_points: tuple[int, int] = (0, 0)) -> Graph:
    """Tokens that are looked up in a table, and multiplied by it transposed, as torch writes it."""

    def build(b: Builder) -> Value:
        words, width = weight.shape
        tied = b.const(weight, name="tied")
        found = b.gather(b.reshape(tied, (1, words, width)), b.input("ids", "int32", (1, ids)))
        turned = b.reshape(b.transpose(tied, perms=(1, 0)), (1, width, words))
        result = {"float16": "fp16", "int8": "int32", "int16": "int48"}.get(
            weight.dtype.name, "fp32"
        )
        return b.matmul(found, turned, *zero_points, dtype=dtype_of(result))

    return program(build)


def elements(graph: Graph) -> int:
    """Count the elements of all constants."""
    return sum(one.data.count for one in graph.main.tensors.values() if one.data is not None)


@pytest.mark.usefixtures("refmodel")
@settings(max_examples=10, deadline=None)
@given(
    words=st.integers(40, 70),
    width=st.integers(30, 40),
    ids=st.integers(1, 5),
    element=st.sampled_from(["float32", "float16", "int8"]),
)
def test_a_table_that_is_also_the_last_weight_is_stored_once(
    words: int, width: int, ids: int, element: str
) -> None:
    weight = table(words, width * 4, element)
    graph = decoder(weight, ids, zero_points=(3, -5) if element == "int8" else (0, 0))
    made, report = rewritten(graph, "clean-up")
    assert report.count(NAME) == 1
    assert elements(made) < weight.size * 1.01
    assert tc.validate(made) == []
    numbers = np.arange(ids, dtype=np.int32).reshape(1, -1)
    assert_same_bits(run(made, ids=numbers), run(graph, ids=numbers))


def test_a_file_of_a_small_decoder_is_half_as_large() -> None:
    weight = table(128, 32)
    made, _ = rewritten(decoder(weight, 4), "clean-up")
    assert weight.nbytes < len(tc.dumps(made, "tosa")) < 1.2 * weight.nbytes


def test_a_large_table_is_stored_once_too() -> None:
    weight = table(2, MOST_BYTES)
    graph = decoder(weight, 4)
    made, _ = rewritten(graph)
    assert elements(made) < weight.size * 1.01


def test_a_table_that_stays_with_its_transpose_takes_part() -> None:
    """Keep the TRANSPOSE of a large constant that something else uses."""

    def build(b: Builder) -> tuple[Value, ...]:
        tied = b.const(table(2, MOST_BYTES).reshape(1, 2, -1))
        x = b.input("x", "fp32", (1, 3, MOST_BYTES))
        return b.matmul(x, b.transpose(tied, perms=(0, 2, 1))), b.negate(tied)

    made, report = rewritten(program(build), "clean-up")
    assert report.count(NAME) == 1
    assert made.main.operators[-1].spec.name == "NEGATE"


def test_a_scale_behind_the_product_stays_outside_of_the_table() -> None:
    def build(b: Builder) -> Value:
        tied = b.const(table(64, 32))
        x = b.gather(b.reshape(tied, (1, 64, 32)), b.input("ids", "int32", (1, 4)))
        y = b.matmul(x, b.reshape(b.transpose(tied, perms=(1, 0)), (1, 32, 64)))
        return b.mul(y, b.const(np.full((1, 1, 1), 0.3, np.float32)))

    made, report = rewritten(program(build))
    assert report.count(NAME) == 1
    assert kinds(made)[-1] == "MUL"


def test_a_result_that_tosa_does_not_transpose_keeps_both() -> None:
    assert rewritten(decoder(table(64, 64, "int16"), 2), "clean-up")[1].count(NAME) == 0


def test_weights_of_layers_that_share_them_stay() -> None:
    """Two products of one transposed weight need no other."""

    def build(b: Builder) -> Value:
        x, weight = b.input("x", "fp32", (1, 4, 64)), b.const(table(64, 64))
        for _ in range(2):
            turned = b.reshape(b.transpose(weight, perms=(1, 0)), (1, 64, 64))
            x = b.matmul(x, turned)
        return x

    made, report = rewritten(program(build), "clean-up")
    assert report.count(NAME) == 0
    assert kinds(made) == ["MATMUL", "MATMUL"]


def test_of_two_products_one_is_exchanged() -> None:
    """Store the weight of an encoder once if its decoder has it transposed."""

    def build(b: Builder) -> Value:
        weight = table(64, 32).reshape(1, 64, 32)
        x = b.matmul(b.input("x", "fp32", (1, 4, 64)), b.const(weight))
        return b.matmul(x, b.const(np.ascontiguousarray(weight.transpose(0, 2, 1))))

    made, report = rewritten(program(build), "clean-up")
    assert report.count(NAME) == 1
    assert elements(made) < 64 * 32 * 1.01


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (table(16, LEAST_BYTES // 64 - 1), None),  # too small to gain by it
        (table(64, 32), table(64, 32) + (np.arange(32) == 31)),
    ],
)
def test_other_weights_stay(one: Array, other: Array | None) -> None:
    last = one if other is None else other

    def build(b: Builder) -> Value:
        ids = b.input("ids", "int32", (1, 4))
        x = b.gather(b.const(one.reshape(1, *one.shape)), ids)
        return b.matmul(x, b.const(np.ascontiguousarray(last.T).reshape(1, *last.shape[::-1])))

    assert rewritten(program(build), NAME)[1].count(NAME) == 0
