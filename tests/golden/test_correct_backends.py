"""Backends that compute correctly, each in its own way, never fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from golden.conftest import Builder
from golden.correct_backends import CORRECT
from golden.correct_networks import (
    KINDS,
    convolutions,
    generated,
    input_sets,
    judge_all,
    matmuls,
    networks,
    quantised,
    wrong_verdicts,
)
from golden.operator_programs import OPERATORS_WITH_FAULTS, program
from golden.ordinary_algorithms import algorithms

from tosa_convert.builder import Builder as TosaBuilder
from tosa_convert.builder import DTypeName
from tosa_convert.golden.accuracy.comparison import Comparison
from tosa_convert.golden.accuracy.erring_runs import late_bias_error
from tosa_convert.golden.checking.check import check, edge_sets, seeded_inputs
from tosa_convert.golden.edges.edge_inputs import edge_inputs, seeds_of_sets
from tosa_convert.golden.running.programs import input_slots
from tosa_convert.golden.running.random_inputs import random_inputs
from tosa_convert.golden.running.run import run
from tosa_convert.golden.running.run_options import Engine, RunOptions
from tosa_convert.graph import dtype
from tosa_convert.qualify.bisection.bisect import bisect
from tosa_convert.qualify.random_graphs.generate import generate

pytestmark = pytest.mark.usefixtures("refmodel")
#: Each test runs with either engine as the reference.
either_engine = pytest.mark.parametrize(
    "engine", ["numpy", pytest.param("reference-model", marks=pytest.mark.slow)]
)

#: Of the backends a few, for long chains.
FEW = (
    "terms forwards",
    "terms backwards",
    "terms in pairs",
    "products not rounded",
    "stored in FP64",
)


@pytest.mark.parametrize("name", FEW)
@either_engine
def test_a_correct_backend_passes_on_chains_of_sums_of_products(name: str, engine: Engine) -> None:
    for graph, inputs in (matmuls(48, 3, 0), convolutions(6, 3, 1)):
        result = check(graph, CORRECT[name], inputs, engine=engine)
        assert result.ok, f"{name}: {result}"


def test_errors_of_a_function_may_have_the_pattern_of_a_fourier_transform() -> None:
    b = TosaBuilder("main")
    b.output(*b.rfft2d(b.pow(1.5, b.input("x", "FP32", (1, 8, 8)))))
    graph = b.graph()
    network = graph, random_inputs(graph, input_slots(graph), 0)
    assert not wrong_verdicts(judge_all(network, CORRECT, "numpy"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["terms in pairs", "stored in FP64"])
@pytest.mark.parametrize("seed", [3, 8])
@either_engine
def test_a_correct_backend_passes_on_random_networks(name: str, seed: int, engine: Engine) -> None:
    graph = generate(seed, 12)
    given = random_inputs(graph, input_slots(graph), seed)
    result = bisect(graph, CORRECT[name], given, engine=engine)
    assert result.ok, f"{name}: {result}"


@pytest.mark.long
@either_engine
def test_correct_backends_pass_on_long_chains_and_random_networks(engine: Engine) -> None:
    chains = [matmuls(256, 2 + seed % 3, seed) for seed in range(3)]
    chains += [convolutions(12, 2 + seed % 4, seed) for seed in range(4)]
    random = [generated(seed, 15) for seed in range(15)]
    wrong = [
        wrong_verdicts(judge_all(network, {name: CORRECT[name] for name in FEW}, engine))
        for network in chains + random
    ]
    assert not any(wrong), wrong


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in KINDS if "operators" not in kind])
def test_every_arithmetic_passes_on_a_network_of_each_kind(kind: str) -> None:
    assert wrong_verdicts(judge_all(KINDS[kind](2), CORRECT, "numpy")) == {}


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
    assert wrong_verdicts(judge_all(network, CORRECT, "numpy")) == {}


def test_check_gives_the_verdict_of_the_networks() -> None:
    graph, inputs = KINDS["15 operators"](3)
    name = "flushed, terms forwards"
    one = check(graph, CORRECT[name], inputs, engine="numpy")
    other = judge_all((graph, inputs), {name: CORRECT[name]}, "numpy")[name]
    assert isinstance(other, Comparison)
    assert one.tensors == tuple(
        replace(row, operator=mine.operator, location=mine.location)
        for row, mine in zip(other.tensors, one.tensors, strict=True)
    )


@pytest.mark.parametrize("name", [name for name in CORRECT if "tiles" in name or "terms" in name])
def test_sums_of_integers_are_equal_in_every_tiling(name: str) -> None:
    graph, inputs = quantised(6, 3, 5)
    sums = [n for op in graph.main.operators if op.spec.name == "CONV2D" for n in op.outputs]
    graph.main.outputs[:] = sums
    found = CORRECT[name].compute(graph, sums, inputs, [], Path())
    expected = run(graph, inputs, RunOptions(engine="reference-model")).outputs
    assert set(found) == set(sums)
    for key in sums:
        np.testing.assert_array_equal(found[key], expected[key])


def wrong_on_networks(count: int, first: int, engine: Engine, edges: int) -> dict[str, str]:
    return {
        f"{name}{own}: {backend}": text
        for name, make in networks(count, first)
        for own, network in input_sets(make(), int(name.split()[-1]), edges).items()
        for backend, text in wrong_verdicts(judge_all(network, CORRECT, engine)).items()
    }


@pytest.mark.long
@pytest.mark.parametrize(("edges", "first"), [(0, 0), (0, 30), (1, 0)])
def test_every_arithmetic_passes_on_90_networks(first: int, edges: int) -> None:
    assert wrong_on_networks(30, first, "numpy", edges) == {}


@pytest.mark.long
@pytest.mark.parametrize("edges", [0, 1])
def test_every_arithmetic_passes_on_networks_that_the_reference_model_computes(edges: int) -> None:
    assert wrong_on_networks(12, 0, "reference-model", edges) == {}


#: Backends that differ most from one another where numbers are large, small or not finite.
AT_THE_EDGES = ("terms in random order", "sums in FP64", "all flushed", "functions high or low")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 7, 31])
def test_numpy_passes_on_edge_inputs_with_the_reference_model(seed: int) -> None:
    graph = generate(seed, 15)
    assert check(graph, "numpy", edge_inputs(graph, seed), engine="reference-model").ok


@pytest.mark.slow
@pytest.mark.parametrize("kind", OPERATORS_WITH_FAULTS)
def test_correct_backends_pass_on_edge_inputs_of_each_operator(kind: str) -> None:
    graph = program(kind)
    backends = {name: CORRECT[name] for name in AT_THE_EDGES}
    found = judge_all((graph, edge_inputs(graph, 1)), backends, "numpy")
    assert wrong_verdicts(found) == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "seed", "edges"),
    [
        *((f"{(12, 15, 20)[seed % 3]} operators", seed, seed) for seed in (5, 8, 17, 24, 28, 33)),
        (
            "20 operators",
            11,
            11,
        ),  # the reciprocal overflows, and that of a number beside it does not
        ("20 operators", 23, 23),  # of several elements that may be equal some are
        ("15 operators", 14, 14),  # the element -2 of MXINT8
        ("15 operators", 20, 20),  # SIN in FP16, whose bound is more than its range
        ("15 operators", 43, 43),  # reciprocals of a zero of either sign and of what is nearly one
        ("15 operators", 134, 134),  # POW, whose bound is more than the result
        ("20 operators", 17, 3017),  # a subnormal result becomes a zero of either sign
        ("20 operators", 41, 1041),  # -0 plus an error of 0
        ("12 operators", 73, 3073),  # one element outweighs the others of its tensor
        ("20 operators", 131, 3131),  # POW, whose bound is more than the result, before LOG
        ("matmul FP16", 4, 4),  # TANH of large numbers
    ],
)
def test_every_arithmetic_passes_on_edge_inputs(kind: str, seed: int, edges: int) -> None:
    graph = KINDS[kind](seed)[0]
    found = judge_all((graph, edge_inputs(graph, edges)), CORRECT, "numpy")
    assert wrong_verdicts(found) == {}


@pytest.mark.parametrize("kind", ["int8", "int16", "int32"])
def test_nan_may_be_cast_to_any_integer_and_other_numbers_may_not(kind: DTypeName) -> None:
    b = TosaBuilder()
    x = b.input("x", "fp32", (3,))
    b.output(b.cast(x, dtype=kind), name="y")
    b.output(b.bitwise_not(b.cast(b.add(x, x), dtype=kind)), name="z")
    graph, limits = b.graph(), np.iinfo(kind)
    inputs = {"x": np.array([np.nan, 1.5, -np.inf], np.float32)}
    right = run(graph, inputs, engine="numpy").outputs
    assert check(graph, "numpy", inputs, engine="reference-model").ok
    for key in right:
        for index, value, is_right in (
            (0, limits.min, True),
            (0, limits.max, True),
            (1, right[key][1] + 1, False),
            (2, 0, False),
        ):
            found = {name: array.copy() for name, array in right.items()}
            found[key][index] = value
            assert check(graph, found, inputs, engine="numpy").ok == is_right, (key, index, value)


@pytest.mark.parametrize("value", [-128, 0, 127])
def test_an_integer_from_nan_goes_through_decisions_as_one_number(value: int) -> None:
    b, count = TosaBuilder(), 4096
    signs = np.where(np.arange(count) % 2, 1, -1).astype(np.float32)[None]
    x = b.input("x", "fp32", (1, 1))
    spread_out = b.mul(b.cast(b.cast(x, dtype="int8"), dtype="fp32"), b.const(signs * 0.5))
    whole = b.cast(b.cast(spread_out, dtype="int8"), dtype="fp32")
    b.output(b.reduce_sum(b.mul(whole, b.const(signs)), axis=1), name="y")
    graph = b.graph()
    inputs = {"x": np.full((1, 1), np.nan, np.float32)}
    total = (np.rint(value * 0.5 * signs) * signs).sum(dtype=np.float32)
    assert check(graph, {"y": np.full((1, 1), total)}, inputs, engine="numpy").ok
    assert not check(graph, {"y": np.full((1, 1), 1e6, np.float32)}, inputs, engine="numpy").ok


def test_no_set_of_edge_inputs_belongs_to_two_seeds() -> None:
    graph = program("ABS")
    seeds = [own for seed in range(2500) for own in seeds_of_sets(graph, seed)]
    assert len(set(seeds)) == len(seeds) == 4 * 2500


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


@pytest.mark.parametrize("kind", ["FP16", "BF16"])
def test_the_bias_may_be_added_after_the_sum_is_rounded_and_not_be_left_out(
    kind: DTypeName,
) -> None:
    b, numbers = TosaBuilder(), np.random.default_rng(1)
    weight, one = b.const(numbers.uniform(-1, 1, (2, 2, 2, 3)), kind), [1, 1]
    x = b.input("x", kind, (1, 6, 6, 2))
    for name, bias in (("y", -1.97), ("sum", 0.0)):
        addend = b.const([bias], kind)
        y = b.depthwise_conv2d(
            x, weight, addend, pad=[0] * 4, stride=one, dilation=one, acc_type="FP32"
        )
        b.output(y, name=name)
    graph = b.graph()
    inputs = {"x": numbers.uniform(-2, 2, (1, 6, 6, 2)).astype(dtype(kind).numpy)}
    right = run(graph, inputs, engine="numpy").outputs
    (bias,) = np.array([-1.97], dtype(kind).numpy)
    late = {**right, "y": right["sum"] + bias}
    assert (late["y"] != right["y"]).any()
    assert check(graph, late, inputs, engine="numpy").ok
    assert not check(graph, {**right, "y": right["sum"]}, inputs, engine="numpy").ok


def test_a_bias_of_zero_adds_no_error() -> None:
    b, one = TosaBuilder(), [1, 1]
    x, weight = b.input("x", "FP16", (1, 2, 2, 2)), b.const(np.ones((3, 2, 2, 2)), "FP16")
    bias = np.array([0.0, 0.0, -1.0])
    y = b.conv2d(
        x, weight, b.const(bias, "FP16"), pad=[0] * 4, stride=one, dilation=one, acc_type="FP32"
    )
    b.output(y, name="y")
    operator = b.graph().main.operators[-1]
    operands = [bias if index == 2 else np.zeros(1) for index in range(len(operator.inputs))]
    error = late_bias_error(operator, operands, np.full((1, 1, 1, 3), 3.1), dtype("FP16"))
    assert (np.asarray(error) > 0).ravel().tolist() == [False, False, True]


#: Algorithms of FP32 that err more than TOSA's sums do -> by about how many times.
TOO_COARSE = {"Winograd's of 4 x 4": 12, "Strassen, windows": 7}


def margins(name: str, *, edges: int) -> list[float]:
    """Return the shares of the bounds that an algorithm needs, on numbers of ordinary sizes."""
    make, answer = {title: (make, answer) for title, make, answer in algorithms()}[name]
    graph = make()
    sets = dict(seeded_inputs(graph, {}, 0, 1, ()))
    ranges = [("*", -4.0, 4.0)]
    sets |= edge_sets(graph, {}, 0, edges, ranges, further=True)
    found = [check(graph, answer(own), own, engine="numpy") for own in sets.values()]
    return [row.margin or 0.0 for result in found for row in result.tensors]


@pytest.mark.parametrize("name", ["flash attention", "Welford's variance"])
def test_what_is_computed_in_one_pass_is_accepted(name: str) -> None:
    assert max(margins(name, edges=0)) < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("name", [title for title, *_ in algorithms()])
def test_ordinary_algorithms_are_accepted_but_for_coarse_ones(name: str) -> None:
    """Infinities and large numbers are left out: products of parts make NaN of them."""
    most = max(margins(name, edges=1))
    assert most > 1 if name in TOO_COARSE else most < 0.9
