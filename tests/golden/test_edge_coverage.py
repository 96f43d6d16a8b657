"""Edges deep inside of programs: that inputs are found which meet them, and that they are counted."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest

from tosa_convert import golden
from tosa_convert.builder import Builder, DTypeName, Value
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.edges.back_propagation import _matmul, _summed, _weights, back_propagate
from tosa_convert.golden.edges.coverage import EdgeCoverage
from tosa_convert.golden.edges.edge_inputs import find_edge_inputs
from tosa_convert.golden.edges.operator_edges import Demand
from tosa_convert.golden.edges.values import codes_of, elements_of, operands_of
from tosa_convert.graph import Graph
from tosa_convert.reference.evaluate import OPERATIONS, Machine, call_of

RANDOM = np.random.default_rng(7)


def met(graph: Graph, kind: str, seed: int = 1) -> dict[str, int]:
    """Return the edges of the only operator of a kind, that edge inputs meet."""
    (row,) = (
        row
        for row in find_edge_inputs(graph, seed, {}).coverage.operators
        if row.operator.endswith(kind)
    )
    return row.met


def small(b: Builder, *shape: int) -> Any:
    return RANDOM.integers(-5, 6, shape)


def quantised_layers() -> Graph:
    """Return two convolutions of INT8 with RESCALE behind each, and a table."""
    b = Builder()
    value: Value = b.input("x", "int8", (1, 6, 6, 4))
    for _ in range(2):
        weight = b.const(small(b, 4, 3, 3, 4), "int8")
        bias = b.const(small(b, 4), "int32")
        value = b.conv2d(value, weight, bias, 3, pad=(1,) * 4, stride=(1, 1), dilation=(1, 1))
        value = b.rescale(value, 1 << 30, 35, 0, 3, rounding_mode="double_round", dtype="int8")
    b.output(b.table(value, list(range(127, -129, -1))))
    return b.graph()


@pytest.mark.slow
def test_rescale_behind_convolutions_meets_ties_and_its_limits() -> None:
    graph = quantised_layers()
    one, other = (find_edge_inputs(graph, seed, {}).coverage for seed in (1, 2))
    rows = one.joined(other).operators
    rescales = [row for row in rows if row.operator.endswith("RESCALE")]
    assert len(rescales) == 2
    for row in rescales:
        assert {"tie", "negative tie", "rounded twice"} <= row.met.keys()
    assert {"saturates below", "saturates above"} <= rescales[0].met.keys()
    random = golden.edge_coverage(graph, random=1)
    edges = golden.edge_coverage(graph, golden.edge_inputs(graph, 1))
    assert random.existing == edges.existing
    assert random.met < edges.met


def test_a_clamp_behind_a_product_of_matrices_meets_its_bounds() -> None:
    b = Builder()
    weight = b.const(small(b, 1, 8, 8), "int8")
    y = b.matmul(b.input("x", "int8", (1, 6, 8)), weight)
    b.output(b.rescale(y, 1 << 30, 32, rounding_mode="single_round", dtype="int16"))
    assert {"tie", "negative tie", "least", "negative"} - met(b.graph(), "RESCALE").keys() == {
        "least"
    }


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_a_cast_behind_functions_meets_ties_nan_and_its_limits(dtype: DTypeName) -> None:
    b = Builder()
    x = b.input("x", dtype, (8, 16))
    y = b.transpose(b.add(b.mul(x, 3.0), 0.25), perms=(1, 0))
    b.output(b.cast(y, dtype="int8"))
    found = met(b.graph(), "CAST")
    wanted = {"NaN", "infinite", "tie to even below", "tie to even above", "beyond the least"}
    assert wanted | {"beyond the greatest"} <= found.keys()


def test_greater_behind_a_sum_has_equal_operands() -> None:
    b = Builder()
    x, y = (b.input(name, "fp32", (5, 9)) for name in "xy")
    b.output(b.greater(b.negate(x), b.add(y, 1.5)))
    assert {"equal", "one step apart", "input1 NaN", "input2 NaN"} <= met(
        b.graph(), "GREATER"
    ).keys()


def test_argmax_has_equal_elements_nan_and_the_greatest_at_the_end() -> None:
    b = Builder()
    b.output(b.argmax(b.mul(b.input("x", "fp32", (6, 9)), 2.0), axis=1, dtype="int32"))
    assert {"equal extremes", "NaN", "extreme at the end"} <= met(b.graph(), "ARGMAX").keys()


@pytest.mark.slow
def test_operators_behind_others_get_numbers_of_every_exponent() -> None:
    b = Builder()
    x = b.input("x", "fp32", (16, 32))
    b.output(b.rsqrt(b.abs(b.mul(x, 0.3))), name="y")
    graph = b.graph()
    sets = [find_edge_inputs(graph, seed, {}).coverage for seed in (0, 1000, 2000, 3000)]
    *_, row = reduce(EdgeCoverage.joined, sets).operators
    (exponents,) = row.exponents
    assert exponents.operand == "input1"
    assert len(exponents.met) > 0.98 * 254
    assert exponents.missed()[-1].endswith("2^127")  # 0.3 times the greatest number is less
    assert f"{len(exponents.met)} of 254, never " in str(row)
    few = golden.edge_coverage(graph, {"x": np.full((16, 32), 0.7, np.float32)}).operators[-1]
    assert few.exponents[0].missed() == ["2^-126 to 2^-4", "2^-2 to 2^127"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "make",
    [
        lambda b, x: b.add(x, 0.3),
        lambda b, x: b.mul(x, -7.0),
        lambda b, x: b.negate(x),
        lambda b, x: b.tanh(x),
        lambda b, x: b.clamp(x, min_val=-3.0, max_val=4.0),
        lambda b, x: b.reciprocal(x),
        lambda b, x: b.reshape(x, (4, 3)),
        lambda b, x: b.transpose(x, perms=(1, 0)),
        lambda b, x: b.tile(x, (2, 1)),
        lambda b, x: b.slice(x, (1, 1), (2, 2)),
        lambda b, x: b.reduce_max(x, axis=1),
        lambda b, x: b.cast(x, dtype="fp16"),
    ],
)
def test_what_is_sent_back_gives_what_was_wanted(make: Any, seed: int) -> None:
    """A result of another input is wanted in one element, and found."""
    b = Builder()
    b.output(make(b, b.input("x", "fp32", (3, 4))))
    graph = b.graph()
    block = graph.main
    (name,) = block.outputs
    random = np.random.default_rng(seed)
    inputs = [random.uniform(-5, 5, (3, 4)).astype(np.float32) for _ in range(2)]
    results = [Machine(graph).run({"x": x})[name] for x in inputs]
    operator = next(op for op in block.operators if name in op.outputs)
    call = call_of(block, operator, operands_of(graph, operator, {"x": inputs[0]}), "own")
    row = block.tensors[name].dtype
    place = int(random.integers(results[0].size))
    wanted = results[1].reshape(-1)[place : place + 1]
    demand = Demand.of(np.array([place]), codes_of(wanted, row))
    ((position, found),) = back_propagate(block, operator, call, results[0], demand, [0], random)
    assert position == 0
    changed = inputs[0].copy()
    changed.reshape(-1)[found.ids] = elements_of(found.low, block.tensors["x"].dtype)
    assert Machine(graph).run({"x": changed})[name].reshape(-1)[place] == wanted[0]


def test_coverage_counts_inside_of_loops() -> None:
    b = Builder()
    x = b.input("x", "fp32", (3,))
    count = b.const([0], "int32")
    ended = b.while_loop(
        [count, x],
        lambda inner, i, v: inner.greater(inner.const([2], "int32"), i),
        lambda inner, i, v: [inner.add(i, inner.const([1], "int32")), inner.floor(v)],
    )
    b.output(ended[1])
    coverage = golden.edge_coverage(b.graph(), {"x": np.array([-0.0, 2.0, 0.5], np.float32)})
    (floor,) = (row for row in coverage.operators if row.operator.endswith("FLOOR"))
    assert floor.operator == "operator #1 WHILE_LOOP body operator #2 FLOOR"
    assert floor.met == {"0": 1, "-0": 2, "whole": 2, "between 0 and 1": 1}
    assert "NaN" in floor.missed
    assert str(floor).startswith("operator #1 WHILE_LOOP body operator #2 FLOOR: 0 1, -0 2, ")


def test_sets_of_inputs_take_each_branch_and_numbers_of_turns() -> None:
    b = Builder()
    x = b.input("x", "fp32", (1, 8))
    largest = b.reduce_max(b.abs(x), axis=1)
    (y,) = b.cond_if(
        b.reshape(b.greater(largest, 300.0), ()),
        [x],
        lambda inner, v: inner.mul(v, 0.5),
        lambda inner, v: inner.floor(v),
    )
    (z,) = b.while_loop(
        [b.clamp(y, min_val=-1e6, max_val=1e6)],
        lambda inner, v: inner.reshape(
            inner.greater(inner.reduce_max(inner.abs(v), axis=1), 2.0), ()
        ),
        lambda inner, v: [inner.mul(v, 0.25)],
    )
    b.output(z)
    graph = b.graph()
    sets = [find_edge_inputs(graph, s + t, {}) for s in (0, 1) for t in range(0, 4000, 1000)]
    coverage = reduce(EdgeCoverage.joined, [own.coverage for own in sets])
    branch, loop = (row for row in coverage.operators if row.operator.endswith(("IF", "LOOP")))
    assert branch.met.keys() == {"then branch", "else branch"}
    assert loop.met.keys() == {"0 turns", "1 turn", "2 turns", "more turns"}
    few = golden.edge_coverage(graph, {"x": np.zeros((1, 8), np.float32)})
    branch, loop = (row for row in few.operators if row.operator.endswith(("IF", "LOOP")))
    assert (branch.met, branch.missed) == ({"else branch": 1}, ("then branch",))
    assert (loop.met, loop.missed) == ({"0 turns": 1}, ("1 turn", "2 turns", "more turns"))


def test_a_loop_of_a_fixed_number_of_turns_has_no_courses() -> None:
    b = Builder()
    ended = b.while_loop(
        [b.const([0], "int32"), b.input("x", "fp32", (3,))],
        lambda inner, i, v: inner.greater(inner.const([2], "int32"), i),
        lambda inner, i, v: [inner.add(i, inner.const([1], "int32")), inner.floor(v)],
    )
    b.output(ended[1])
    assert not find_edge_inputs(b.graph(), 0, {}).taken


def test_coverage_of_several_inputs_is_joined() -> None:
    b = Builder()
    b.output(b.floor(b.input("x", "fp32", (1,))))
    graph = b.graph()
    one, other = (golden.edge_coverage(graph, {"x": np.array([n], np.float32)}) for n in (0.0, 2.0))
    both = one.joined(other)
    assert (one.met, other.met, both.met) == (1, 1, 2)
    assert both.existing == one.existing == other.existing
    assert str(both) == f"2 of {both.existing} edges of 1 operator, 1 of 508 exponents are met"
    assert both.to_dict()["operators"][0]["met"] == {"0": 1, "whole": 1}


def test_coverage_of_a_program_that_tosa_leaves_open_is_refused() -> None:
    b = Builder()
    b.output(b.abs(b.input("x", "int32", (1,))))
    with pytest.raises(TosaConvertError, match="does not define"):
        golden.edge_coverage(b.graph(), {"x": np.array([-(2**31)], np.int32)})


def products(kind: str) -> tuple[Graph, int]:
    """Return a product of INT8 of many terms, and the greatest sum that its accumulator may have."""
    b, draw = Builder(), np.random.default_rng(3)
    shapes = {
        "conv2d": (1, 6, 6, 64),
        "batches": (2, 1, 4, 576),
        "weights of batches": (2, 1, 4, 576),
    }
    x = b.input("x", "int8", shapes.get(kind, (1, 4, 576)))
    if kind in ("batches", "weights of batches"):
        # Of 2 x 3 products, the second operand has one for each of 3.
        weight = draw.integers(-127, 128, (3, 8, 576))
        is_input = kind == "batches"
        z = b.input("z", "int8", weight.shape) if is_input else b.const(weight, "int8")
        b.output(b.matmul_t(x, z), name="y")
        pair = np.maximum(weight * 127, weight * -128).sum(axis=-1).max()
        return b.graph(), 576 * 128 * 128 if is_input else int(pair)
    if kind == "matmul":
        b.output(b.matmul(x, b.input("z", "int8", (1, 576, 8))), name="y")
        return b.graph(), 576 * 128 * 128
    weight = draw.integers(-127, 128, (8, 3, 3, 64) if kind == "conv2d" else (1, 576, 8))
    pair = np.maximum(weight * 127, weight * -128)
    if kind == "conv2d":
        bias = b.const([0] * 8, "int32")
        sizes: Any = {"pad": (1,) * 4, "stride": (1, 1), "dilation": (1, 1)}
        b.output(b.conv2d(x, b.const(weight, "int8"), bias, **sizes), name="y")
        return b.graph(), int(pair.sum(axis=(1, 2, 3)).max())
    b.output(b.matmul(x, b.const(weight, "int8")), name="y")
    return b.graph(), int(pair.sum(axis=1).max())


@pytest.mark.parametrize("name", ["matmul", "matmul_t"])
@pytest.mark.parametrize(
    "shapes",
    [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (3, 4, 5)), ((3, 4), (2, 4, 5))],
)
def test_products_of_any_batches_have_the_terms_of_their_sums(
    name: str, shapes: tuple[tuple[int, ...], ...]
) -> None:
    b, draw = Builder(), np.random.default_rng(5)
    left, right = (draw.integers(-9, 9, shape, np.int8) for shape in shapes)
    if name == "matmul_t":
        right = np.ascontiguousarray(right.swapaxes(-1, -2))
    operands = b.input("x", "int8", left.shape), b.input("z", "int8", right.shape)
    b.output(getattr(b, name)(*operands, 3, -2))
    block = b.graph().main
    operator = block.operators[-1]
    points = [np.full(1, point, np.int8) for point in (3, -2)]
    call = call_of(block, operator, [left, right, *points], "own")
    result = OPERATIONS[operator.spec.name](call)
    columns = _summed(call, _weights(call))
    index = np.unravel_index(np.arange(result.size), result.shape)
    first, second = _matmul(call, index, [0, 1])
    one, other = left.flat[first.ids] - 3.0, right.flat[second.ids] + 2.0
    assert first.weights.tolist() == other.tolist()
    assert second.weights.tolist() == one.tolist()
    assert (one * other).sum(axis=1).tolist() == result.reshape(-1).tolist()
    own = (*index[len(index) - right.ndim : -2], index[-1])
    assert np.broadcast_to(columns[own], len(other)).tolist() == other.sum(axis=1).tolist()


@pytest.mark.parametrize("kind", ["conv2d", "matmul", "weights", "batches", "weights of batches"])
def test_sums_of_integers_reach_the_limits_of_their_accumulators(kind: str) -> None:
    graph, most = products(kind)
    sets = [find_edge_inputs(graph, seed, {}) for seed in (0, 1000, 2000, 3000)]
    (row,) = reduce(EdgeCoverage.joined, [own.coverage for own in sets]).operators
    assert {"greatest sum", "least sum"} <= row.met.keys()
    found = [golden.run(graph, own.arrays, engine="numpy").outputs["y"] for own in sets]
    assert max(int(y.max()) for y in found) == most
    # An accumulator that has one bit less than the sum and its sign need is off in some set.
    half = 1 << (most.bit_length() - 1)
    assert any(((y.astype(np.int64) + half) % (2 * half) - half != y).any() for y in found)
