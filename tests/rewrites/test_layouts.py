"""layouts: changes of layout go across branches, residuals and concatenations; no bit changes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rewrites.programs import assert_same_bits, kinds, program, rewritten, run

import tosa_convert as tc
from tosa_convert.builder import Builder, Value
from tosa_convert.graph import Block, Graph, Operator, ShapeValue, dtype
from tosa_convert.graph.constant import constant_of
from tosa_convert.graph.opset import AttributeValue
from tosa_convert.rewrites.move_layouts import NEVER, MinimumCut

NAME = "layouts"
#: From channels last to channels first, and back.
FIRST, LAST = (0, 3, 1, 2), (0, 2, 3, 1)
#: What frontends run it with: it relies on what removes unused transposes.
GROUP = "clean-up"


def pooled(b: Builder, x: Value) -> Value:
    """Channels first around an operator that has channels last, as frontends write it."""
    y = b.max_pool2d(b.transpose(x, perms=LAST), kernel=[1, 1], stride=[1, 1], pad=[0, 0, 0, 0])
    return b.transpose(y, perms=FIRST)


def _residual(b: Builder, x: Value) -> Value:
    x = pooled(b, x)
    return pooled(b, b.add(b.abs(pooled(b, b.tanh(x))), x))


def _concatenation(b: Builder, x: Value) -> Value:
    x = pooled(b, x)
    return pooled(b, b.concat([b.exp(x), b.negate(x), pooled(b, x)], axis=1))


def _sizes(b: Builder, x: Value) -> Value:
    padded = b.pad(pooled(b, x), [0, 0, 0, 0, 1, 0, 0, 2])
    cut = b.slice(padded, [0, 1, 0, 0], [2, 2, 4, 6])
    return pooled(b, b.reverse(b.tile(cut, [1, 2, 1, 1]), axis=1))


def _channels(b: Builder, x: Value) -> Value:
    scale = b.const(np.arange(3, dtype=np.float32).reshape(1, 3, 1, 1))
    plane = b.const(np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4))
    return pooled(b, b.add(b.mul(pooled(b, x), scale), plane))


def _sum(b: Builder, x: Value) -> Value:
    return b.reduce_sum(b.reduce_max(pooled(b, x), axis=2), axis=3)


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize(
    ("build", "before", "after"),
    [
        (_residual, 6, 2),
        (_concatenation, 6, 2),
        (_sizes, 4, 2),
        (_channels, 4, 2),
        (_sum, 2, 1),
    ],
)
def test_only_the_transposes_at_the_ends_stay(
    build: Callable[[Builder, Value], Value], before: int, after: int
) -> None:
    graph = program(lambda b: build(b, b.input("x", "fp32", (2, 3, 3, 4))))
    assert kinds(graph).count("TRANSPOSE") == before
    made, _ = rewritten(graph, GROUP)
    assert kinds(made).count("TRANSPOSE") == after
    assert tc.validate(made) == []
    x = np.random.default_rng(0).standard_normal((2, 3, 3, 4)).astype(np.float32)
    assert_same_bits(run(made, x=x), run(graph, x=x))


def test_a_transpose_that_something_else_needs_stays() -> None:
    def build(b: Builder) -> Value:
        x = b.transpose(b.input("x", "fp32", (1, 4, 4, 8)), perms=FIRST)
        return b.reshape(b.abs(x), (1, 128))

    graph = program(build)
    assert rewritten(graph, NAME)[0] is graph


def test_a_result_of_the_program_keeps_its_layout_and_name() -> None:
    def build(b: Builder) -> tuple[Value, Value]:
        y = b.abs(pooled(b, b.input("x", "fp32", (1, 8, 4, 4))))
        return y, pooled(b, y)

    graph = program(build)
    made, _ = rewritten(graph, GROUP)
    assert made.main.outputs == ["y0", "y1"]
    assert kinds(made).count("TRANSPOSE") == 3


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize("shape", [(3, 2, 2, 6), (3, 4, 6, 1)])
def test_what_replaces_a_transpose_is_not_transposed_again(shape: tuple[int, ...]) -> None:
    def build(b: Builder) -> Value:
        y = b.const(np.arange(np.prod(shape), dtype=np.int32).reshape(shape))
        y = b.transpose(b.abs(y), perms=(0, 2, 1, 3))
        return b.transpose(y, perms=LAST)

    graph = program(build)
    made, _ = rewritten(graph, NAME)
    assert kinds(made).count("TRANSPOSE") < kinds(graph).count("TRANSPOSE")
    assert_same_bits(run(made), run(graph))


def test_a_large_constant_is_not_transposed() -> None:
    def build(b: Builder) -> Value:
        big = b.const(np.zeros((1, 32, 32, 32), np.float32))
        return b.add(b.transpose(b.input("x", "fp32", (1, 32, 32, 32)), perms=FIRST), big)

    graph = program(build)
    assert rewritten(graph, NAME)[0] is graph


def test_a_rescale_of_channels_has_its_channels_last() -> None:
    def build(b: Builder) -> Value:
        x = b.input("x", "int32", (1, 4, 4, 3))
        multiplier, shift = np.full(4, 1 << 30, np.int32), np.full(4, 30, np.int8)
        y = b.rescale(
            b.transpose(x, perms=FIRST),
            multiplier,
            shift,
            dtype="int8",
            scale32=True,
            rounding_mode="SINGLE_ROUND",
            per_channel=True,
        )
        return b.transpose(y, perms=LAST)

    graph = program(build)
    assert rewritten(graph, NAME)[0] is graph


def attention(b: Builder, q: Value, k: Value, v: Value, mask: Value) -> Value:
    """Attention of two heads and a batch of one, as frontends write it."""
    heads = [b.transpose(b.reshape(x, (1, 4, 2, 3)), perms=(0, 2, 1, 3)) for x in (q, k, v)]
    one, other, third = (b.reshape(x, (2, 4, 3)) for x in heads)
    scores = b.reshape(b.matmul(one, b.transpose(other, perms=(0, 2, 1))), (1, 2, 4, 4))
    scores = b.add(scores, b.reshape(mask, (1, 1, 1, 4)))
    powers = b.exp(b.sub(scores, b.reduce_max(scores, axis=3)))
    shares = b.mul(powers, b.reciprocal(b.reduce_sum(powers, axis=3)))
    result = b.reshape(b.matmul(b.reshape(shares, (2, 4, 4)), third), (1, 2, 4, 3))
    return b.reshape(b.transpose(result, perms=(0, 2, 1, 3)), (1, 4, 6))


@pytest.mark.usefixtures("refmodel")
def test_a_batch_of_one_has_no_dimension_between_products_of_matrices() -> None:
    def build(b: Builder) -> Value:
        q, k, v = (b.input(name, "fp32", (1, 4, 6)) for name in "qkv")
        return attention(b, q, k, v, b.input("mask", "fp32", (1, 4)))

    graph = program(build)
    made, report = rewritten(graph, GROUP)
    assert kinds(graph).count("RESHAPE") == 11
    # Heads are split three times and joined once, and the mask gets a dimension.
    assert kinds(made).count("RESHAPE") == 5
    assert kinds(made).count("TRANSPOSE") == 4
    assert "dimension of size 1 less needs fewer RESHAPEs" in str(report)
    assert tc.validate(made) == []
    draw = np.random.default_rng(0)
    arrays = {
        name: draw.standard_normal(graph.main.tensors[name].shape or ()).astype(np.float32)
        for name in graph.main.inputs
    }
    assert_same_bits(run(made, **arrays), run(graph, **arrays))


@pytest.mark.usefixtures("refmodel")
def test_rows_get_the_dimension_of_the_products_around_them() -> None:
    def build(b: Builder) -> Value:
        x = b.input("x", "fp32", (1, 4, 4))
        rows = b.reshape(b.matmul(x, x), (4, 4))
        rows = b.concat(
            [b.pad(rows, [0, 1, 0, 0]), b.reverse(b.tile(rows, [2, 1]), axis=1)], axis=0
        )
        rows = b.mul(rows, b.const(np.arange(4, dtype=np.float32).reshape(1, 4)))
        rows = b.transpose(b.slice(rows, [1, 0], [4, 4]), perms=(1, 0))
        return b.matmul(b.reshape(b.mul(rows, b.reduce_sum(rows, axis=0)), (1, 4, 4)), x)

    graph = program(build)
    made, report = rewritten(graph, GROUP)
    assert (kinds(graph).count("RESHAPE"), kinds(made).count("RESHAPE")) == (2, 0)
    assert "dimension of size 1 more needs fewer RESHAPEs" in str(report)
    assert tc.validate(made) == []
    x = np.random.default_rng(0).standard_normal((1, 4, 4)).astype(np.float32)
    assert_same_bits(run(made, x=x), run(graph, x=x))


@pytest.mark.parametrize(
    "step",
    [
        lambda b, y: b.reduce_sum(y, axis=0),
        lambda b, y: b.slice(b.concat([y, y], axis=0), [0, 0, 0], [1, 4, 4]),
        lambda b, y: b.transpose(b.abs(y), perms=(1, 0, 2)),
    ],
)
def test_what_uses_the_dimension_of_size_1_keeps_it(
    step: Callable[[Builder, Value], Value],
) -> None:
    def build(b: Builder) -> Value:
        rows = b.reshape(b.abs(b.input("x", "fp32", (4, 4))), (1, 4, 4))
        return b.abs(b.reshape(step(b, rows), (4, 4)))

    graph = program(build)
    assert rewritten(graph, NAME)[0] is graph


def test_a_large_constant_of_two_shapes_is_stored_once() -> None:
    def build(b: Builder) -> tuple[Value, Value]:
        big = b.const(np.ones((1, 128, 256), np.float32))
        rows = b.add(
            b.reshape(b.input("x", "fp32", (1, 128, 256)), (128, 256)), b.reshape(big, (128, 256))
        )
        return b.reshape(b.abs(rows), (1, 128, 256)), b.add(
            big, b.input("z", "fp32", (1, 128, 256))
        )

    made, _ = rewritten(program(build), GROUP)
    large = [
        t for t in made.main.tensors.values() if t.data is not None and t.data.nbytes > 1 << 16
    ]
    assert len(large) == 1
    assert kinds(made) == ["ADD", "ABS", "ADD"]


@pytest.mark.usefixtures("refmodel")
def test_what_leaves_another_layout_may_enter_it_again() -> None:
    def build(b: Builder) -> tuple[Value, ...]:
        rows = b.abs(b.reshape(b.input("x", "fp32", (4, 4)), (1, 4, 4)))
        again = b.reshape(b.reshape(rows, (4, 4)), (1, 4, 4))
        return rows, b.reshape(b.exp(again), (4, 4))

    graph = program(build)
    made, _ = rewritten(graph, NAME)
    assert tc.validate(made) == []
    x = np.arange(-8, 8, dtype=np.float32).reshape(4, 4)
    assert_same_bits(run(made, x=x), run(graph, x=x))


def test_operators_that_scalars_do_not_have_keep_their_dimension() -> None:
    def build(b: Builder) -> Value:
        row = b.abs(b.reshape(b.input("x", "fp32", ()), (1,)))
        row = b.slice(b.tile(b.pad(b.transpose(row, perms=(0,)), [0, 0]), [1]), [0], [1])
        return b.reshape(b.exp(row), ())

    made, _ = rewritten(program(build), NAME)
    assert tc.validate(made) == []


def _set(**attributes: AttributeValue) -> Callable[[Operator, Block], None]:
    return lambda op, block: op.attributes.update(attributes)


def _of_three_values(op: Operator, block: Block) -> None:
    data = constant_of(np.zeros(3), dtype("INT64"))
    block.shapes[op.inputs[1]] = ShapeValue(op.inputs[1], 3, data)


@pytest.mark.parametrize(
    ("step", "fault"),
    [
        (lambda b, x: b.reverse(x, axis=1), _set(axis=7)),
        (lambda b, x: b.reverse(x, axis=1), _set(axis=-1)),
        (lambda b, x: b.reduce_sum(x, axis=1), _set(axis=3)),
        (lambda b, x: b.concat([x, x], axis=1), _set(axis=-1)),
        (lambda b, x: b.transpose(x, perms=(0, 2, 1)), _set(perms=(0, 0, 1))),
        (lambda b, x: b.transpose(x, perms=(0, 2, 1)), _set(perms=(0, 5, 1))),
        (lambda b, x: b.transpose(x, perms=(0, 2, 1)), _set(perms=(0, -1, 2))),
        (lambda b, x: b.pad(x, [0, 0, 0, 1, 0, 1]), _of_three_values),
    ],
)
@pytest.mark.parametrize("more", [False, True])
def test_an_operator_that_is_not_valid_stays_as_it_is(
    step: Callable[[Builder, Value], Value],
    fault: Callable[[Operator, Block], None],
    more: bool,
) -> None:
    """In another layout its fault could look like a value of TOSA, or there is none to look up."""

    def build(b: Builder) -> Value:
        # The operator works without a dimension that its neighbours have, or with one more.
        x = b.abs(b.input("x", "fp32", (1, 1, 3, 3) if more else (3, 3)))
        made = step(b, b.reshape(x, (1, 3, 3)))
        sizes = made.shape or ()
        return b.abs(b.reshape(made, (1, *sizes) if more else sizes[1:]))

    graph = program(build)
    block = graph.main
    chosen = [op for op in block.operators if op.spec.name not in ("ABS", "RESHAPE", "CONST")]
    op = next(op for op in chosen if op.spec.name != "CONST_SHAPE")
    fault(op, block)
    made, _ = rewritten(graph, NAME)
    assert op in made.main.operators
    assert tc.validate(made)


@pytest.mark.parametrize("perms", [(0,), (0, 5, 1), (2, 1, 0, 3)])
def test_a_transpose_that_is_not_valid_leaves_all_layouts(perms: tuple[int, ...]) -> None:
    def build(b: Builder) -> tuple[Value, ...]:
        x = b.input("x", "fp32", (1, 3, 3))
        rows = b.reshape(b.abs(b.reshape(x, (3, 3))), (1, 3, 3))
        return rows, b.transpose(rows, perms=(0, 2, 1))

    graph = program(build)
    graph.main.operators[-1].attributes["perms"] = perms
    assert rewritten(graph, NAME)[0] is graph


#: Operators on three dimensions.
FLAT: list[Callable[[Builder, Value, Value], Value]] = [
    lambda b, x, y: b.add(x, b.reduce_min(y, axis=2)),
    lambda b, x, y: b.transpose(b.mul(x, y), perms=(1, 0, 2)),
    lambda b, x, y: b.matmul(x, b.transpose(y, perms=(0, 2, 1))),
    lambda b, x, y: b.slice(b.concat([x, y], axis=1), [0, 2, 0], [3, 3, 3]),
    lambda b, x, y: b.reduce_max(b.pad(b.tile(x, [1, 2, 1]), [0, 0, 0, 1, 0, 0]), axis=1),
]


def flat(b: Builder, x: Value, y: Value, step: Callable[[Builder, Value, Value], Value]) -> Value:
    """Compute on tensors without their dimension of size 1, and broadcast the result."""
    made = step(b, b.reshape(x, (3, 3, 3)), b.reshape(y, (3, 3, 3)))
    return b.add(b.reshape(made, (1, *(made.shape or ()))), x)


def layered(seed: int, operators: int) -> Graph:
    """Return a random program of operators that take any layout, and some that need channels last."""
    random = Random(seed)
    b = Builder("main")
    values = [b.input("x", "fp32", (1, 3, 3, 3)), b.input("z", "fp32", (1, 3, 3, 3))]
    orders = [FIRST, LAST, (0, 1, 3, 2), (0, 3, 2, 1)]
    for _ in range(operators):
        x, y = random.choice(values[-4:]), random.choice(values)
        order, axis = random.choice(orders), random.randrange(4)
        makers: list[Callable[[], Value]] = [
            partial(pooled, b, x),
            partial(pooled, b, x),
            partial(b.transpose, x, perms=order),
            partial(b.transpose, x, perms=order),
            partial(b.add, x, y),
            partial(b.maximum, y, x),
            partial(b.abs, x),
            partial(b.reverse, x, axis=axis),
            lambda x=x: b.slice(b.concat([x, x], axis=3), [0, 0, 0, 2], [1, 3, 3, 3]),  # type: ignore[misc]
            lambda x=x: b.pad(b.slice(x, [0, 1, 0, 0], [1, 2, 3, 3]), [0, 0, 1, *[0] * 5]),  # type: ignore[misc]
            lambda x=x: b.reshape(b.reshape(x, (9, 3)), (1, 3, 3, 3)),  # type: ignore[misc]
            lambda x=x, axis=axis: b.mul(b.reduce_max(x, axis=axis), x),  # type: ignore[misc]
            lambda x=x, y=y: flat(b, x, y, random.choice(FLAT)),  # type: ignore[misc]
            lambda x=x, y=y: flat(b, x, y, random.choice(FLAT)),  # type: ignore[misc]
        ]
        made = random.choice(makers)()
        values.append(made)
    for number, value in enumerate(random.sample(values[2:], min(3, operators))):
        b.output(value, name=f"y{number}")
    return b.graph()


def cost(graph: Graph) -> int:
    """Return what the changes of layout cost, by which the cheapest is found."""
    return 4 * kinds(graph).count("TRANSPOSE") + kinds(graph).count("RESHAPE")


@pytest.mark.slow
@pytest.mark.usefixtures("refmodel")
@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), operators=st.integers(2, 30))
def test_random_layouts_keep_every_bit_and_cost_no_more(seed: int, operators: int) -> None:
    graph = layered(seed, operators)
    without = [row.name for row in tc.rewrites.table.REWRITES if row.group == GROUP]
    without.remove(NAME)
    before, _ = rewritten(graph, *without)
    made, _ = rewritten(graph, GROUP)
    assert tc.validate(made) == []
    assert cost(made) <= cost(before)
    numbers = np.random.default_rng(seed)
    arrays = {
        name: numbers.standard_normal((1, 3, 3, 3)).astype(np.float32) for name in graph.main.inputs
    }
    assert_same_bits(run(made, **arrays), run(graph, **arrays))


@given(seed=st.integers(0, 10**6))
def test_the_cut_is_as_cheap_as_the_cheapest_of_all(seed: int) -> None:
    random = Random(seed)
    cut = MinimumCut()
    nodes = [cut.LEFT, cut.RIGHT, *(cut.new_node() for _ in range(5))]
    edges = [
        (*random.sample(nodes, 2), random.choice([1, 2, 4, NEVER if random.random() < 0.1 else 3]))
        for _ in range(14)
    ]
    for start, end, cost in edges:
        cut.add_edge(start, end, cost)

    def cost_of(right: set[int]) -> int:
        return sum(cost for start, end, cost in edges if start not in right and end in right)

    sides = [{1, *(n for n in nodes[2:] if bits >> n & 1)} for bits in range(0, 128, 4)]
    assert cut.solve() == min(map(cost_of, sides)) == cost_of(cut.right_side())
