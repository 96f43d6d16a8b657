from __future__ import annotations

import math
import mmap
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from rewrites.programs import assert_same_bits, program, rewritten, run, special

import tosa_convert as tc
from tosa_convert.builder import Builder, Value
from tosa_convert.graph import Constant, Graph
from tosa_convert.rewrites.fold_constants import MOST_BYTES
from tosa_convert.rewrites.table import EXACT

NAME = "fold-constants"

Array = npt.NDArray[Any]


def folded(graph: Graph, name: str = NAME) -> Constant | None:
    """Return the data of `y` if the program became a constant."""
    made, _ = rewritten(graph, name)
    last = made.main.operators[-1]
    assert last.outputs == ("y",)
    return made.main.tensors["y"].data if last.spec.name == "CONST" else None


def of(array: Array, step: Callable[[Builder, Value], Value]) -> Graph:
    return program(lambda b: step(b, b.const(array, name="c")))


FLOATS = special()[:8].reshape(2, 4)
ONE_ZERO = np.array([[0.0, 1, -2, 3], [4, np.nan, np.inf, -np.inf]], np.float32)
INTS = np.array([[-5, 0, 7, 100], [1, 2, -3, 4]], np.int32)
FLAGS = INTS > 1
HALVES = np.array([0.5, 1.5, -2.5, 3.7], np.float32)
SMALL = np.array([[-128, 0, 7, 127]], np.int8)

#: What is folded: each operator of fold_constants at least once.
FOLDED: dict[str, tuple[Array, Callable[[Builder, Value], Value]]] = {
    "RESHAPE": (FLOATS, lambda b, c: b.reshape(c, (8,))),
    "TRANSPOSE": (INTS, lambda b, c: b.transpose(c, perms=(1, 0))),
    "SLICE": (FLOATS, lambda b, c: b.slice(c, (0, 1), (2, 2))),
    "CONCAT": (SMALL, lambda b, c: b.concat([c, c], axis=0)),
    "PAD": (INTS, lambda b, c: b.pad(c, (1, 0, 0, 2), 9)),
    "TILE": (FLAGS, lambda b, c: b.tile(c, (2, 3))),
    "REVERSE": (INTS, lambda b, c: b.reverse(c, axis=1)),
    "GATHER": (
        FLOATS.reshape(1, 4, 2),
        lambda b, c: b.gather(c, b.const(np.array([[3, 0, 3]], np.int32))),
    ),
    "SELECT": (FLAGS, lambda b, c: b.select(c, b.const(INTS), b.const(-INTS))),
    "ABS": (FLOATS, lambda b, c: b.abs(c)),
    "ADD": (FLOATS, lambda b, c: b.add(c, 0.1)),
    "ADD of INT32": (INTS, lambda b, c: b.add(c, 2**30)),
    "SUB": (FLOATS, lambda b, c: b.sub(0.3, c)),
    "MUL": (FLOATS, lambda b, c: b.mul(c, 0.1)),
    "MUL of INT8": (SMALL, lambda b, c: b.mul(c, c)),
    "MUL of INT64": (INTS.astype(np.int64) << 20, lambda b, c: b.mul(c, c)),
    "INTDIV": (INTS, lambda b, c: b.intdiv(c, -2)),
    "NEGATE": (FLOATS, lambda b, c: b.negate(c)),
    "RECIPROCAL": (FLOATS, lambda b, c: b.reciprocal(c)),
    "RSQRT": (FLOATS, lambda b, c: b.rsqrt(c)),
    "CEIL": (FLOATS, lambda b, c: b.ceil(c)),
    "FLOOR": (FLOATS, lambda b, c: b.floor(c)),
    "CLAMP": (FLOATS, lambda b, c: b.clamp(c, min_val=-2, max_val=3)),
    "MAXIMUM": (ONE_ZERO, lambda b, c: b.maximum(c, 0.5)),
    "MAXIMUM without NaN": (ONE_ZERO, lambda b, c: b.maximum(c, 0.5, nan_mode="IGNORE")),
    "MINIMUM": (ONE_ZERO, lambda b, c: b.minimum(c, 0.5)),
    "EQUAL": (FLOATS, lambda b, c: b.equal(c, 0.0)),
    "GREATER": (FLOATS, lambda b, c: b.greater(c, 0.0)),
    "GREATER_EQUAL": (INTS, lambda b, c: b.greater_equal(c, 1)),
    "BITWISE_AND": (INTS, lambda b, c: b.bitwise_and(c, 6)),
    "BITWISE_OR": (SMALL, lambda b, c: b.bitwise_or(c, 6)),
    "BITWISE_XOR": (INTS, lambda b, c: b.bitwise_xor(c, 6)),
    "BITWISE_NOT": (INTS, lambda b, c: b.bitwise_not(c)),
    "LOGICAL_AND": (FLAGS, lambda b, c: b.logical_and(c, b.logical_not(c))),
    "LOGICAL_OR": (FLAGS, lambda b, c: b.logical_or(c, b.logical_not(c))),
    "LOGICAL_XOR": (FLAGS, lambda b, c: b.logical_xor(c, c)),
    "REDUCE_SUM": (INTS, lambda b, c: b.reduce_sum(c, axis=0)),
    "REDUCE_MAX": (INTS, lambda b, c: b.reduce_max(c, axis=1)),
    "REDUCE_MIN": (SMALL, lambda b, c: b.reduce_min(c, axis=1)),
    "REDUCE_ALL": (FLAGS, lambda b, c: b.reduce_all(c, axis=1)),
    "REDUCE_ANY": (FLAGS, lambda b, c: b.reduce_any(c, axis=0)),
    "CAST to INT8": (INTS, lambda b, c: b.cast(c, dtype="int8")),
    "CAST that rounds": (HALVES, lambda b, c: b.cast(c, dtype="int32")),
    "CAST to FP32": (INTS * 16_777_217 // 100, lambda b, c: b.cast(c, dtype="fp32")),
    "CAST to FP16": (HALVES / 1e6, lambda b, c: b.cast(c, dtype="fp16")),
    "CAST to BOOL": (INTS, lambda b, c: b.cast(c, dtype="bool")),
}  # fmt: skip


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize("name", FOLDED)
def test_a_folded_operator_has_the_bits_of_the_reference_model(name: str) -> None:
    graph = of(*FOLDED[name])
    made, report = rewritten(graph, NAME)
    assert made.main.operators[-1].spec.name == "CONST", str(made)
    assert report.count(NAME) >= 1
    assert tc.validate(made) == []
    with np.errstate(all="ignore"):
        assert_same_bits(run(made), run(graph))


#: What is not folded, although all operands are constants.
KEPT: dict[str, tuple[Array, Callable[[Builder, Value], Value]]] = {
    "INTDIV that does not fit": (
        np.array([-(2**31), 7], np.int32),
        lambda b, c: b.intdiv(c, -1),
    ),
    "a function that is not exact": (FLOATS, lambda b, c: b.exp(c)),
    "a sum of floating-point numbers": (FLOATS, lambda b, c: b.reduce_sum(c, axis=0)),
    "a sum that overflows": (INTS, lambda b, c: b.add(c, 2**31 - 3)),
    "a sum over an axis that overflows": (
        np.full((2, 4), 2**30, np.int32), lambda b, c: b.reduce_sum(c, axis=1)
    ),
    "a sum over an axis whose parts overflow": (
        np.array([[2**31 - 1, 1, -9]], np.int32), lambda b, c: b.reduce_sum(c, axis=1)
    ),
    "a number that does not fit": (INTS * 100, lambda b, c: b.cast(c, dtype="int8")),
    "infinity as an integer": (FLOATS, lambda b, c: b.cast(c, dtype="int32")),
    "the larger of 0 and -0": (FLOATS, lambda b, c: b.maximum(c, 0.0)),
    "a result of more than 64 KiB": (INTS, lambda b, c: b.tile(c, (2100, 1))),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_what_is_not_exact_or_not_defined_stays(name: str) -> None:
    graph = of(*KEPT[name])
    assert rewritten(graph, NAME)[0] is graph


NUMBERS = np.linspace(0.1, 3, 24, dtype=np.float32).reshape(2, 12)

#: What is rounded once: each operator of fold-functions, and numpy's function of FP64.
ROUNDED: dict[str, tuple[Callable[[Builder, Value], Value], Callable[[Array], Array]]] = {
    "COS": (lambda b, c: b.cos(c), np.cos),
    "ERF": (lambda b, c: b.erf(c), np.vectorize(math.erf)),
    "EXP": (lambda b, c: b.exp(c), np.exp),
    "LOG": (lambda b, c: b.log(c), np.log),
    "MATMUL": (
        lambda b, c: b.matmul(b.reshape(c, (2, 3, 4)), b.reshape(c, (2, 4, 3))),
        lambda c: c.reshape(2, 3, 4) @ c.reshape(2, 4, 3),
    ),
    "POW": (lambda b, c: b.pow(c, 1.7), lambda c: c ** np.float64(np.float32(1.7))),
    "REDUCE_SUM": (lambda b, c: b.reduce_sum(c, axis=1), lambda c: c.sum(1, keepdims=True)),
    "SIGMOID": (lambda b, c: b.sigmoid(c), lambda c: 1 / (1 + np.exp(-c))),
    "SIN": (lambda b, c: b.sin(c), np.sin),
    "TANH": (lambda b, c: b.tanh(c), np.tanh),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_a_function_of_constants_is_rounded_once(name: str) -> None:
    step, function = ROUNDED[name]
    graph = of(NUMBERS, step)
    made, report = rewritten(graph, "fold-functions", NAME, "unused-operators")
    assert report.count("fold-functions") == 1
    data = made.main.tensors["y"].data
    assert data is not None
    expected = function(NUMBERS.astype(np.float64)).astype(np.float32).reshape(-1)
    assert data.numpy().tolist() == expected.tolist()
    assert rewritten(graph, *EXACT)[0].main.operators[-1].spec.name == name


@pytest.mark.parametrize(
    ("numbers", "step"),
    [
        (FLOATS, lambda b, c: b.exp(c)),
        (NUMBERS * 1e38, lambda b, c: b.reduce_sum(c, axis=1)),
        (-NUMBERS, lambda b, c: b.pow(c, 1.7)),
        (-NUMBERS, lambda b, c: b.log(c)),
        (INTS, lambda b, c: b.reduce_sum(c, axis=1)),
    ],
    ids=["not finite", "overflow", "negative base", "not a number", "integers"],
)
def test_what_has_no_one_number_stays_a_function(
    numbers: Array, step: Callable[[Builder, Value], Value]
) -> None:
    graph = of(numbers, step)
    assert rewritten(graph, "fold-functions")[0] is graph


def test_the_logarithm_of_0_is_infinite() -> None:
    given = np.array([0, -0.0, 1], np.float32)
    data = folded(of(given, lambda b, c: b.log(c)), "fold-functions")
    assert data is not None
    assert data.numpy().tolist() == [-np.inf, -np.inf, 0]


def test_a_reshape_of_weights_shares_their_memory() -> None:
    weights = np.zeros((4, MOST_BYTES), np.float32)
    weights.flags.writeable = False
    graph = of(weights, lambda b, c: b.reshape(c, (MOST_BYTES, 4)))
    data = folded(graph)
    assert data is not None
    assert data is graph.main.tensors["c"].data


def test_weights_that_nothing_else_reads_are_transposed_in_a_file() -> None:
    weights = np.arange(3 * MOST_BYTES, dtype=np.float32).reshape(3, 2, -1)
    graph = of(weights, lambda b, c: b.transpose(c, perms=(2, 0, 1)))
    data = folded(graph)
    assert data is not None
    assert isinstance(data.owner, mmap.mmap)
    assert np.array_equal(data.numpy(), weights.transpose(2, 0, 1).reshape(-1))
    shared = of(weights, lambda b, c: b.add(b.transpose(c, perms=(0, 1, 2)), c))
    assert folded(shared) is None
