"""tied-weights: the table of a decoder is stored once, and no bit changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from rewrites.programs import kinds, program, rewritten

import tosa_convert as tc
from tosa_convert.builder import Builder, Value, dtype_of
from tosa_convert.graph import Graph
from tosa_convert.rewrites.fold_constants import MOST_BYTES

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


def test_a_file_of_a_small_decoder_is_half_as_large() -> None:
    weight = table(128, 32)
    made, _ = rewritten(decoder(weight, 4), "clean-up")
    assert weight.nbytes < len(tc.dumps(made, "tosa")) < 1.2 * weight.nbytes


def test_the_transpose_of_two_dimensions_stays() -> None:
    def build(b: Builder) -> Value:
        tied = b.const(table(128, 32).reshape(1, 128, 32), name="tied")
        rows = b.gather(tied, b.input("ids", "int32", (1, 4)))
        turned = b.const(table(128, 32).T.reshape(1, 32, 128))
        return b.matmul(b.reshape(rows, (4, 32)), turned)

    assert not rewritten(program(build), NAME)[1].count(NAME)


def test_a_large_table_is_stored_once_too() -> None:
    weight = table(2, MOST_BYTES)
    graph = decoder(weight, 4)
    made, _ = rewritten(graph)
    assert elements(made) < weight.size * 1.01


def test_a_scale_behind_the_product_stays_outside_of_the_table() -> None:
    def build(b: Builder) -> Value:
        tied = b.const(table(64, 32))
        x = b.gather(b.reshape(tied, (1, 64, 32)), b.input("ids", "int32", (1, 4)))
        y = b.matmul(x, b.reshape(b.transpose(tied, perms=(1, 0)), (1, 32, 64)))
        return b.mul(y, b.const(np.full((1, 1, 1), 0.3, np.float32)))

    made, report = rewritten(program(build))
    assert report.count(NAME) == 1
    assert kinds(made)[-1] == "MUL"
