"""Backends that compute correctly, each in its own way, never fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from golden.conftest import Builder
from golden.honest_backends import HONEST
from golden.honest_networks import KINDS, convolutions, judge_all, matmuls, networks, quantised
from golden.numpy_backend import NumpyBackend, add_backwards, add_in_pairs
from golden.operator_programs import OPERATORS_WITH_FAULTS, program

from tosa_convert.golden.accuracy.comparison import Comparison
from tosa_convert.golden.bisection.bisect import bisect
from tosa_convert.golden.checking.check import check
from tosa_convert.golden.edges.edge_inputs import edge_inputs
from tosa_convert.golden.random_graphs import generate
from tosa_convert.golden.running.programs import input_slots
from tosa_convert.golden.running.random_inputs import random_inputs
from tosa_convert.golden.running.run import run
from tosa_convert.golden.running.run_options import Engine, RunOptions

pytestmark = pytest.mark.usefixtures("refmodel")
#: Each test runs with either engine as the reference.
either_engine = pytest.mark.parametrize(
    "engine", ["numpy", pytest.param("reference-model", marks=pytest.mark.slow)]
)

NUMPY_BACKENDS = {
    "FP32 in order": NumpyBackend(),
    "FP32 backwards": NumpyBackend(add=add_backwards),
    "FP32 in pairs": NumpyBackend(add=add_in_pairs),
    "FP32 with FMA": NumpyBackend(fma=True),
    "FP64 rounded once": NumpyBackend(wide=True),
}


@pytest.mark.parametrize("name", NUMPY_BACKENDS)
@either_engine
def test_an_honest_backend_passes_on_chains_of_sums_of_products(name: str, engine: Engine) -> None:
    for graph, inputs in (matmuls(48, 3, 0), convolutions(6, 3, 1)):
        result = check(graph, NUMPY_BACKENDS[name], inputs, engine=engine)
        assert result.ok, f"{name}: {result}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["FP32 in pairs", "FP64 rounded once"])
@pytest.mark.parametrize("seed", [3, 8])
@either_engine
def test_an_honest_backend_passes_on_random_networks(name: str, seed: int, engine: Engine) -> None:
    graph = generate(seed, 12)
    given = random_inputs(graph, input_slots(graph), seed)
    result = bisect(graph, NUMPY_BACKENDS[name], given, engine=engine)
    assert result.ok, f"{name}: {result}"


@pytest.mark.long
@pytest.mark.parametrize("name", NUMPY_BACKENDS)
@either_engine
def test_honest_backends_pass_on_twenty_long_chains(name: str, engine: Engine) -> None:
    chains = [matmuls(256, 2 + seed % 3, seed) for seed in range(10)]
    chains += [convolutions(12, 2 + seed % 4, seed) for seed in range(10)]
    wrong = [
        f"chain {number}: {result}"
        for number, (graph, inputs) in enumerate(chains)
        if not (result := check(graph, NUMPY_BACKENDS[name], inputs, engine=engine)).ok
    ]
    assert wrong == []


@pytest.mark.long
@pytest.mark.parametrize("name", NUMPY_BACKENDS)
@either_engine
def test_honest_backends_pass_on_200_random_networks(name: str, engine: Engine) -> None:
    wrong = []
    for seed in range(200):
        graph = generate(seed, 15)
        given = random_inputs(graph, input_slots(graph), seed)
        result = check(graph, NUMPY_BACKENDS[name], given, engine=engine)
        if not result.ok:
            wrong.append(f"seed {seed}: {result}")
    assert wrong == []


def wrong_verdicts(network: str, found: dict[str, Comparison | str]) -> list[str]:
    return [
        f"{network}: {backend}: {result}"
        for backend, result in found.items()
        if isinstance(result, str) or not result.ok
    ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in KINDS if "operators" not in kind])
def test_every_arithmetic_passes_on_a_network_of_each_kind(kind: str) -> None:
    assert wrong_verdicts(kind, judge_all(KINDS[kind](2), HONEST, "numpy")) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "operators"),
    [
        (9366, 12),  # the numbers of a cast to FP4 are rounded and saturate
        (
            9224,
            20,
        ),  # no run has a finite number behind the reciprocal of a zero that may be rounded
        (63, 15),  # CEIL of a subnormal number
        (1015, 12),  # CLAMP beside its limit
        (2026, 20),  # a comparison of a tensor with itself, whose NaN may be a number
        (2052, 20),  # the reciprocal of a FLOOR that may be 0
        (245, 20),  # CEIL of a logarithm that may be NaN
    ],
)
def test_every_arithmetic_passes_where_one_failed_before(seed: int, operators: int) -> None:
    network = KINDS[f"{operators} operators"](seed)
    assert wrong_verdicts(f"seed {seed}", judge_all(network, HONEST, "numpy")) == []


def test_check_gives_the_verdict_of_the_networks() -> None:
    graph, inputs = KINDS["15 operators"](3)
    name = "flushed, terms forwards"
    one = check(graph, HONEST[name], inputs, engine="numpy")
    other = judge_all((graph, inputs), {name: HONEST[name]}, "numpy")[name]
    assert isinstance(other, Comparison)
    assert one.tensors == tuple(
        replace(row, operator=mine.operator, location=mine.location)
        for row, mine in zip(other.tensors, one.tensors, strict=True)
    )


@pytest.mark.parametrize("name", [name for name in HONEST if "tiles" in name or "terms" in name])
def test_sums_of_integers_are_equal_in_every_tiling(name: str) -> None:
    graph, inputs = quantised(6, 3, 5)
    sums = [n for op in graph.main.operators if op.spec.name == "CONV2D" for n in op.outputs]
    graph.main.outputs[:] = sums
    found = HONEST[name].compute(graph, sums, inputs, [], Path())
    expected = run(graph, inputs, RunOptions(engine="reference-model")).outputs
    assert set(found) == set(sums)
    for key in sums:
        np.testing.assert_array_equal(found[key], expected[key])


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 300, 50))
def test_every_arithmetic_passes_on_300_networks(first: int) -> None:
    wrong = []
    for name, make in networks(50, first):
        wrong += wrong_verdicts(name, judge_all(make(), HONEST, "numpy"))
    assert wrong == []


@pytest.mark.long
def test_every_arithmetic_passes_on_networks_that_the_reference_model_computes() -> None:
    wrong = []
    for name, make in networks(32):
        wrong += wrong_verdicts(name, judge_all(make(), HONEST, "reference-model"))
    assert wrong == []


#: Backends that differ most from one another where numbers are large, small or not finite.
AT_THE_EDGES = ("terms in random order", "sums in FP64", "all flushed", "functions high or low")


def verdicts_on_edges(seeds: range, operators: int, names: tuple[str, ...]) -> list[str]:
    wrong = []
    for seed in seeds:
        graph = generate(seed, operators)
        inputs = edge_inputs(graph, seed)
        wrong += wrong_verdicts(
            f"seed {seed}",
            judge_all((graph, inputs), {name: HONEST[name] for name in names}, "numpy"),
        )
        result = check(graph, "numpy", inputs, engine="reference-model")
        if not result.ok:
            wrong.append(f"seed {seed}: numpy: {result}")
    return wrong


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 7, 31])
def test_honest_backends_pass_on_edge_inputs(seed: int) -> None:
    assert verdicts_on_edges(range(seed, seed + 1), 15, AT_THE_EDGES) == []


@pytest.mark.long
def test_honest_backends_pass_on_edge_inputs_of_150_random_networks() -> None:
    assert verdicts_on_edges(range(150), 15, AT_THE_EDGES[:3]) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", OPERATORS_WITH_FAULTS)
def test_honest_backends_pass_on_edge_inputs_of_each_operator(kind: str) -> None:
    graph = program(kind)
    backends = {name: HONEST[name] for name in AT_THE_EDGES}
    found = judge_all((graph, edge_inputs(graph, 1)), backends, "numpy")
    assert wrong_verdicts(kind, found) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", [5, 8, 17, 24, 25, 28, 29, 33, 38])
def test_every_arithmetic_passes_on_edge_inputs(seed: int) -> None:
    graph = KINDS[f"{(12, 15, 20)[seed % 3]} operators"](seed)[0]
    network = graph, edge_inputs(graph, seed)
    assert wrong_verdicts(f"seed {seed}", judge_all(network, HONEST, "numpy")) == []


def test_subnormal_operands_may_be_read_as_zeros_and_nothing_else() -> None:
    b = Builder()
    b.input("x", "FP32", (4,))
    b.op("FLOOR", ["x"], "f", "FP32", (4,))
    b.op("LOG", ["x"], "l", "FP32", (4,))
    b.op("CEIL", ["x"], "c", "FP32", (4,))
    graph = b.graph("f", "l", "c")
    given = {"x": np.array([1e-40, 2.5, 1.0, 1e-41], np.float32)}
    right = run(graph, given, RunOptions(engine="numpy")).outputs
    flushed = run(
        graph, {"x": np.where(given["x"] < 1e-38, np.float32(0), given["x"])}, engine="numpy"
    ).outputs
    assert np.isneginf(flushed["l"][0])
    assert (flushed["c"] != right["c"]).any()
    for found in (right, flushed):
        assert check(graph, found, given, engine="numpy").ok
    for name, index, value in (("c", 1, 2.0), ("c", 0, 2.0), ("l", 2, -np.inf), ("l", 0, 0.0)):
        wrong = {key: array.copy() for key, array in right.items()}
        wrong[name][index] = value
        assert not check(graph, wrong, given, engine="numpy").ok
