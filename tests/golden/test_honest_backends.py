"""Backends that compute correctly, each in its own way, never fail."""

from __future__ import annotations

import numpy as np
import pytest
from golden.conftest import Builder
from golden.numpy_backend import NumpyBackend, add_backwards, add_in_pairs

from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.bisection.bisect import bisect
from tosa_convert.golden.checking.check import check
from tosa_convert.golden.random_graphs import generate
from tosa_convert.golden.running.programs import input_slots
from tosa_convert.golden.running.random_inputs import random_inputs
from tosa_convert.golden.running.run_options import Engine
from tosa_convert.graph import Graph, dtype

pytestmark = pytest.mark.usefixtures("refmodel")
#: Each test runs with either engine as the reference.
either_engine = pytest.mark.parametrize(
    "engine", ["numpy", pytest.param("reference-model", marks=pytest.mark.slow)]
)

HONEST = {
    "FP32 in order": NumpyBackend(),
    "FP32 backwards": NumpyBackend(add=add_backwards),
    "FP32 in pairs": NumpyBackend(add=add_in_pairs),
    "FP32 with FMA": NumpyBackend(fma=True),
    "FP64 rounded once": NumpyBackend(wide=True),
}


def matmuls(size: int, length: int, seed: int) -> tuple[Graph, dict[str, Array]]:
    """A chain of matrix products."""
    b, generator = Builder(), np.random.default_rng(seed)
    current = b.input("x", "FP32", (1, size, size))
    b.const("zero", "FP32", [0.0])
    inputs = {"x": generator.normal(size=(1, size, size)).astype(np.float32)}
    for number in range(length):
        scale = (size**-0.5) if seed % 2 else 1.0
        weight = generator.normal(size=(1, size, size)) * scale
        b.const(f"w{number}", "FP32", weight)
        operands = [current, f"w{number}", "zero", "zero"]
        current = b.op("MATMUL", operands, f"y{number}", "FP32", (1, size, size))
    return b.graph(current), inputs


def convolutions(size: int, length: int, seed: int) -> tuple[Graph, dict[str, Array]]:
    """A chain of convolutions of 3x3 points, with TANH between them."""
    b, generator = Builder(), np.random.default_rng(seed)
    shape = (1, size, size, 8)
    current = b.input("x", "FP32", shape)
    b.const("zero", "FP32", [0.0])
    inputs = {"x": generator.uniform(-1, 1, shape).astype(np.float32)}
    for number in range(length):
        b.const(f"w{number}", "FP32", generator.normal(size=(8, 3, 3, 8)) * 0.2)
        b.const(f"b{number}", "FP32", generator.normal(size=8))
        operands = [current, f"w{number}", f"b{number}", "zero", "zero"]
        sizes = {"pad": (1, 1, 1, 1), "stride": (1, 1), "dilation": (1, 1)}
        more = {"local_bound": False, "acc_type": dtype("FP32")}
        current = b.op("CONV2D", operands, f"c{number}", "FP32", shape, **sizes, **more)
        current = b.op("TANH", [current], f"t{number}", "FP32", shape)
    return b.graph(current), inputs


@pytest.mark.parametrize("name", HONEST)
@either_engine
def test_an_honest_backend_passes_on_chains_of_sums_of_products(name: str, engine: Engine) -> None:
    for graph, inputs in (matmuls(48, 3, 0), convolutions(6, 3, 1)):
        result = check(graph, HONEST[name], inputs, engine=engine)
        assert result.ok, f"{name}: {result}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["FP32 in pairs", "FP64 rounded once"])
@pytest.mark.parametrize("seed", [3, 8])
@either_engine
def test_an_honest_backend_passes_on_random_networks(name: str, seed: int, engine: Engine) -> None:
    graph = generate(seed, 12)
    given = random_inputs(graph, input_slots(graph), seed)
    result = bisect(graph, HONEST[name], given, engine=engine)
    assert result.ok, f"{name}: {result}"


@pytest.mark.long
@pytest.mark.parametrize("name", HONEST)
@either_engine
def test_honest_backends_pass_on_twenty_long_chains(name: str, engine: Engine) -> None:
    chains = [matmuls(256, 2 + seed % 3, seed) for seed in range(10)]
    chains += [convolutions(12, 2 + seed % 4, seed) for seed in range(10)]
    wrong = [
        f"chain {number}: {result}"
        for number, (graph, inputs) in enumerate(chains)
        if not (result := check(graph, HONEST[name], inputs, engine=engine)).ok
    ]
    assert wrong == []


@pytest.mark.long
@pytest.mark.parametrize("name", HONEST)
@either_engine
def test_honest_backends_pass_on_200_random_networks(name: str, engine: Engine) -> None:
    wrong = []
    for seed in range(200):
        graph = generate(seed, 15)
        given = random_inputs(graph, input_slots(graph), seed)
        result = check(graph, HONEST[name], given, engine=engine)
        if not result.ok:
            wrong.append(f"seed {seed}: {result}")
    assert wrong == []
