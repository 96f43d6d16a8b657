"""Faults that are small beside the largest numbers of a tensor, or behind an operator that decides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden.conftest import Builder

from tosa_convert import builder, golden, save
from tosa_convert.cli import main
from tosa_convert.golden.accuracy.criteria import DISCRETE_LABEL, NETWORK_LABEL
from tosa_convert.golden.accuracy.erring_runs import results_of_runs
from tosa_convert.golden.accuracy.verdict import measure
from tosa_convert.golden.arrays import Array
from tosa_convert.graph import Graph, dtype
from tosa_convert.reference.evaluate import Machine

Inputs = dict[str, Array]
NUMPY = golden.RunOptions(engine="numpy")
#: Makes a wrong output of the right one.
Fault = Callable[[Array], Array]


def normal(shape: tuple[int, ...], seed: int, scale: float = 1.0) -> Array:
    return np.random.default_rng(seed).normal(size=shape) * scale


def products(kind: str, scales: tuple[float, ...], size: int = 64) -> tuple[Builder, list[str]]:
    """Return two matrix products for each scale, so that no rule of one operator is about the result."""
    b = Builder()
    x = b.input("x", kind, (1, size, size))
    b.const("zero", kind, [0.0])
    results = []
    shape, accumulator = (1, size, size), {"acc_type": dtype("FP32")}
    for number, scale in enumerate(scales):
        for step, factor in enumerate((size**-0.5, scale * size**-0.5)):
            b.const(f"w{number}{step}", kind, normal(shape, 10 * number + step, factor))
        operands = [x, f"w{number}0", "zero", "zero"]
        middle = b.op("MATMUL", operands, f"m{number}", kind, shape, **accumulator)
        operands = [middle, f"w{number}1", "zero", "zero"]
        results.append(b.op("MATMUL", operands, f"y{number}", kind, shape, **accumulator))
    return b, results


def concatenated() -> tuple[Graph, Inputs]:
    """Return numbers of about 1,000 beside numbers of about 0.001."""
    b, parts = products("FP32", (1e3, 1e-3))
    y = b.op("CONCAT", parts, "y", "FP32", (1, 64, 128), axis=2)
    return b.graph(y), {"x": normal((1, 64, 64), 7).astype(np.float32)}


def stacked() -> tuple[Graph, Inputs]:
    """Return the same, one above the other."""
    b, parts = products("FP32", (1e3, 1e-3))
    y = b.op("CONCAT", parts, "y", "FP32", (1, 128, 64), axis=1)
    return b.graph(y), {"x": normal((1, 64, 64), 7).astype(np.float32)}


def rounded(kind: str, scale: float = 20.0) -> tuple[Graph, Inputs]:
    """Integers of inexact numbers."""
    b, parts = products(kind, (scale,))
    y = b.op("CAST", parts, "y", "INT8", (1, 64, 64))
    return b.graph(y), {"x": normal((1, 64, 64), 7).astype(dtype(kind).numpy)}


def compared() -> tuple[Graph, Inputs]:
    """Return which of two inexact numbers is larger."""
    b, parts = products("FP32", (1.0, 1.0))
    y = b.op("GREATER", parts, "y", "BOOL", (1, 64, 64))
    return b.graph(y), {"x": normal((1, 64, 64), 7).astype(np.float32)}


def chosen() -> tuple[Graph, Inputs]:
    """Return which element of a row is the largest."""
    b, parts = products("FP16", (1.0,))
    y = b.op("ARGMAX", parts, "y", "INT32", (1, 64), axis=2)
    return b.graph(y), {"x": normal((1, 64, 64), 7).astype(np.float16)}


def softmax() -> tuple[Graph, Inputs]:
    """Return numbers from 1 down to 1e-30 in each row."""
    b, parts = products("FP32", (20.0,))
    shape = (1, 64, 64)
    top = b.op("REDUCE_MAX", parts, "top", "FP32", (1, 64, 1), axis=2)
    low = b.op("SUB", [*parts, top], "low", "FP32", shape)
    e = b.op("EXP", [low], "e", "FP32", shape)
    total = b.op("REDUCE_SUM", [e], "sum", "FP32", (1, 64, 1), axis=2)
    inverse = b.op("RECIPROCAL", [total], "inverse", "FP32", (1, 64, 1))
    b.const("shift", "INT8", [0])
    y = b.op("MUL", [e, inverse, "shift"], "y", "FP32", shape)
    return b.graph(y), {"x": normal((1, 64, 64), 7).astype(np.float32)}


def zero_below(limit: float) -> Fault:
    return lambda y: np.where(np.abs(y) < limit, y.dtype.type(0), y)


def one_more(every: int, step: int = 1) -> Fault:
    def change(y: Array) -> Array:
        flat = y.reshape(-1).astype(np.int64)
        flat[::every] += step
        return np.clip(flat, -128, 127).astype(y.dtype).reshape(y.shape)

    return change


def negated_first(y: Array) -> Array:
    changed = y.copy()
    changed[0, 0, 0] = not changed[0, 0, 0]
    return changed


def outlier() -> tuple[Graph, Inputs]:
    """Return one row, in which one number is a million times as large as the others."""
    b, parts = products("FP32", (1.0,))
    b.shape("start", [0, 5, 0])
    b.shape("size", [1, 1, 64])
    row = b.op("SLICE", [*parts, "start", "size"], "row", "FP32", (1, 1, 64))
    b.const("factors", "FP32", [[[1e6] + [1.0] * 63]])
    b.const("shift", "INT8", [0])
    y = b.op("MUL", [row, "factors", "shift"], "y", "FP32", (1, 1, 64))
    return b.graph(y), {"x": normal((1, 64, 64), 7).astype(np.float32)}


def doubled(y: Array) -> Array:
    changed = y.copy()
    changed[0, 0, 9] *= 2
    return changed


def second_half_zero(y: Array) -> Array:
    changed = y.copy()
    changed[..., y.shape[-1] // 2 :] = 0
    return changed


def moved_element(factor: float) -> Fault:
    """One element of the small half a little wrong."""

    def change(y: Array) -> Array:
        changed = y.copy()
        changed[0, 3, -3] *= factor
        return changed

    return change


FAULTS: dict[str, tuple[Callable[[], tuple[Graph, Inputs]], Fault]] = {
    "the small half of a row is zero": (concatenated, second_half_zero),
    "an element of the small half is wrong": (concatenated, moved_element(1.001)),
    "a number beside an outlier is doubled": (outlier, doubled),
    "small rows are zero": (stacked, zero_below(0.01)),
    "the tail of a softmax is zero": (softmax, zero_below(1e-9)),
    "every integer after FP16 is one more": (lambda: rounded("FP16"), one_more(1)),
    "every 500th integer after FP16 is eight more": (lambda: rounded("FP16"), one_more(500, 8)),
    "every integer after BF16 is one more": (lambda: rounded("BF16"), one_more(1)),
    "an integer after FP32 is one more": (lambda: rounded("FP32"), one_more(5000)),
    "a comparison is wrong": (compared, negated_first),
    "an index is wrong": (chosen, one_more(64)),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_that_is_small_beside_others_fails(name: str) -> None:
    make, fault = FAULTS[name]
    graph, inputs = make()
    right = golden.run(graph, inputs, NUMPY).outputs
    correct = golden.check(graph, right, inputs, engine="numpy")
    assert correct.ok, correct
    for row in correct.tensors:
        is_discrete = right[row.name].dtype.kind in "biu"
        assert row.rule == (DISCRETE_LABEL if is_discrete else NETWORK_LABEL)
    wrong = {key: fault(array) for key, array in right.items()}
    assert not golden.check(graph, wrong, inputs, engine="numpy").ok


def test_a_number_that_is_compared_with_itself_is_equal_to_itself() -> None:
    b, parts = products("FP32", (1.0,))
    graph = b.graph(b.op("GREATER_EQUAL", [*parts, *parts], "y", "BOOL", (1, 64, 64)))
    inputs = {"x": normal((1, 64, 64), 7).astype(np.float32)}
    right = golden.run(graph, inputs, engine="numpy").outputs["y"]
    assert right.all()
    assert golden.check(graph, {"y": right}, inputs, engine="numpy").ok
    assert not golden.check(graph, {"y": negated_first(right)}, inputs, engine="numpy").ok


def test_subnormal_numbers_may_be_flushed() -> None:
    b = Builder()
    x = b.input("x", "FP32", (1, 64))
    e = b.op("EXP", [x], "e", "FP32", (1, 64))
    b.const("shift", "INT8", [0])
    y = b.op("MUL", [e, e, "shift"], "y", "FP32", (1, 64))
    given = {"x": np.linspace(-50, -40, 64, dtype=np.float32).reshape(1, 64)}
    graph = b.graph(y)
    right = golden.run(graph, given, NUMPY).outputs["y"]
    least = float(np.finfo(np.float32).tiny)
    assert (right < least).any()
    assert golden.check(graph, {"y": zero_below(least)(right)}, given, engine="numpy").ok
    wrong = zero_below(1e3 * least)(right)
    assert not golden.check(graph, {"y": wrong}, given, engine="numpy").ok


def moved_by(units: float) -> Fault:
    """One element wrong by so many units in the last place of the largest."""

    def change(y: Array) -> Array:
        changed = y.copy()
        unit = np.spacing(np.abs(y).max())
        changed.reshape(-1)[7] += unit * units
        return changed

    return change


def one_product(kind: str = "FP32") -> tuple[Graph, Inputs]:
    b = Builder()
    x = b.input("x", kind, (1, 8, 256))
    b.const("w", kind, normal((1, 256, 8), 1))
    b.const("zero", kind, [0.0])
    more = {"acc_type": dtype("FP32")}
    y = b.op("MATMUL", [x, "w", "zero", "zero"], "y", kind, (1, 8, 8), **more)
    return b.graph(y), {"x": normal((1, 8, 256), 2).astype(dtype(kind).numpy)}


def test_a_sum_that_errs_far_more_than_ordinary_ones_fails_unless_the_official_rule_decides() -> (
    None
):
    graph, inputs = one_product()
    right = golden.run(graph, inputs, NUMPY).outputs["y"]
    official = golden.Tolerances(official=True)
    for units, ok in ((0, True), (8, True), (100, False), (1000, False)):
        found = {"y": moved_by(units)(right)}
        result = golden.check(graph, found, inputs, engine="numpy")
        assert result.ok == ok, units
        assert ("times the error of ordinary implementations" in str(result)) == (not ok)
        assert golden.check(graph, found, inputs, tolerances=official, engine="numpy").ok
    wrong = {"y": moved_by(1e6)(right)}
    assert not golden.check(graph, wrong, inputs, tolerances=official, engine="numpy").ok
    assert "within TOSA's rule" not in str(golden.check(graph, wrong, inputs, engine="numpy"))


def table_behind_a_cast(kind: str, entries: list[int], scale: float) -> tuple[Graph, Inputs]:
    """Make a TABLE whose indices are products that were rounded: some are one more or one less."""
    b, (product,) = products("BF16", (scale,))
    shape = (1, 64, 64)
    b.const("entries", kind, entries)
    index = b.op("CAST", [product], "index", kind, shape)
    wide = "INT8" if kind == "INT8" else "INT32"
    y = b.op("TABLE", [index, "entries"], "y", wide, shape)
    return b.graph(y), {"x": normal(shape, 7).astype(dtype("BF16").numpy)}


@pytest.mark.parametrize(
    ("kind", "entries", "scale"),
    [
        ("INT8", [(number * 89 + 31) % 251 - 125 for number in range(256)], 60.0),
        ("INT16", [(number * 7919) % 30011 - 15005 for number in range(513)], 9e3),
    ],
)
def test_what_a_table_has_for_each_index_in_reach_is_allowed(
    kind: str, entries: list[int], scale: float
) -> None:
    graph, inputs = table_behind_a_cast(kind, entries, scale)
    spreads = measure(graph, inputs, ["index", "y"])
    index, y = spreads["index"], spreads["y"]
    assert index.low is not None
    assert index.high is not None
    assert y.low is not None
    assert y.high is not None
    assert (index.high - index.low).max() > 2
    middle = index.low + (index.high - index.low) // 2
    step = 1 if kind == "INT8" else 128
    for tried in (middle, (middle + step - 1) // step * step):
        own = np.clip(tried, index.low, index.high)
        table = golden.run(
            graph_of_table(kind, entries), {"index": own}, golden.RunOptions(engine="numpy")
        ).outputs["y"]
        assert (table >= y.low).all()
        assert (table <= y.high).all()
    same = index.low == index.high
    assert (y.low == y.high)[same].all()


def graph_of_table(kind: str, entries: list[int]) -> Graph:
    b = Builder()
    index = b.input("index", kind, (1, 64, 64))
    b.const("entries", kind, entries)
    wide = "INT8" if kind == "INT8" else "INT32"
    return b.graph(b.op("TABLE", [index, "entries"], "y", wide, (1, 64, 64)))


@pytest.mark.parametrize(
    "distance",
    [pytest.param(5e-6, id="only where operands are moved"), pytest.param(1e-6, id="in all runs")],
)
def test_indices_that_all_runs_move_out_of_range_leave_no_spread_of_zero(distance: float) -> None:
    b = builder.Builder()
    x = b.input("x", "fp32", (1, 64))
    table = np.arange(1, 9, dtype=np.float32).reshape(1, 4, 2)
    index = b.cast(b.sub(b.exp(x), 1.0), dtype="int32")
    factor = b.reshape(b.tanh(b.exp(x)), (1, 64, 1))
    b.output(b.mul(b.gather(table, index), factor), name="y")
    graph = b.graph()
    last, first = 4.5 - distance, 0.5 + distance / 10
    inputs = {"x": np.log(np.where(np.arange(64) % 2, last, first)).astype(np.float32)[None]}
    right = np.array(golden.run(graph, inputs, NUMPY).outputs["y"])
    (row,) = golden.check(
        graph, {"y": np.nextafter(right, np.float32(9))}, inputs, engine="numpy"
    ).tensors
    assert (row.ok, row.rule) == (True, NETWORK_LABEL)
    right[0, 5, 1] *= 1.0001
    assert not golden.check(graph, {"y": right}, inputs, engine="numpy").ok


def test_an_output_that_does_not_run_in_fp64_takes_no_rule_of_another() -> None:
    b = builder.Builder()
    x, z = b.input("x", "fp32", (1, 2)), b.input("z", "fp32", (1, 8))
    # 2.5000001 in FP64 is rounded to 3, and to 2.5 in FP32, whose nearest even integer is 2.
    index = b.cast(b.mul(x, np.array([[1.5625, 1.0]], np.float32)), dtype="int32")
    b.output(b.gather(np.ones((1, 3, 2), np.float32), index), name="gathered")
    b.output(b.reciprocal(z), name="reciprocal")
    b.output(b.cast(b.mul(b.sin(z), 100.0), dtype="int32"), name="integers")
    graph = b.graph()
    inputs = {"x": np.array([[1.6, 1.0]], np.float32), "z": normal((1, 8), 1).astype(np.float32)}
    right = golden.run(graph, inputs, NUMPY).outputs
    found = golden.check(graph, right, inputs, engine="numpy")
    assert [row.rule for row in found.tensors] == [
        "atol 1e-05 rtol 0.0001",
        "ulp 1",
        DISCRETE_LABEL,
    ]
    assert "not applied to gathered: " in found.notes[-1]
    wrong = right["reciprocal"] * np.float32(1.00009)
    assert not golden.check(graph, {**right, "reciprocal": wrong}, inputs, engine="numpy").ok


def beside_a_function(kind: str) -> tuple[Graph, Inputs]:
    """Exact elements, some of which end in .5, beside those of SIN."""
    b = builder.Builder()
    x, exact = b.input("x", "fp32", (1, 8)), b.input("exact", "fp32", (1, 8))
    condition = b.input("condition", "bool", (1, 8))
    inexact = b.sin(x)
    if kind == "CONCAT":
        mixed = b.concat([exact, inexact], axis=1)
    elif kind == "PAD":
        mixed = b.pad(inexact, (0, 0, 1, 1), 2.5)
    elif kind == "SELECT":
        mixed = b.select(condition, exact, inexact)
    elif kind == "SCATTER":
        values = b.reshape(inexact, (1, 8, 1))
        mixed = b.scatter(
            values,
            np.zeros((1, 1), np.int32),
            b.slice(b.reshape(exact, (1, 8, 1)), (0, 0, 0), (1, 1, 1)),
        )
    else:
        first = b.reshape(b.slice(condition, (0, 0), (1, 1)), ())
        (mixed,) = b.cond_if(first, [exact], lambda b, v: b.identity(v), lambda b, v: b.sin(v))
    b.output(mixed, name="number")
    b.output(b.reverse(b.abs(mixed), axis=1), name="moved")
    b.output(b.cast(mixed, dtype="int32"), name="integer")
    b.output(b.greater_equal(mixed, 2.5), name="boolean")
    # A network: more than one operator before it is inexact.
    b.output(b.concat([mixed, b.exp(mixed)], axis=1), name="network")
    inputs = {
        "x": np.linspace(-3, 3, 8, dtype=np.float32)[None],
        "exact": np.full((1, 8), 2.5, np.float32),
        "condition": np.arange(8)[None] % 3 == 0,
    }
    return b.graph(), inputs


@pytest.mark.parametrize("kind", ["CONCAT", "PAD", "SELECT", "SCATTER", "COND_IF"])
def test_what_is_only_moved_beside_inexact_numbers_has_to_be_equal(kind: str) -> None:
    graph, inputs = beside_a_function(kind)
    right = golden.run(graph, inputs, NUMPY).outputs
    assert golden.check(graph, right, inputs, engine="numpy").ok
    for name in right:
        wrong = right[name].copy()
        first = (0, -1 if name == "moved" else 0, *[0] * (wrong.ndim - 2))
        step = np.asarray(1e-6 if wrong.dtype.kind == "f" else 1, wrong.dtype)
        wrong[first] = wrong[first] ^ step if name == "boolean" else wrong[first] + step
        for tolerances in (golden.Tolerances(), golden.Tolerances(official=True)):
            found = golden.check(
                graph, {**right, name: wrong}, inputs, engine="numpy", tolerances=tolerances
            )
            assert [row.name for row in found.failures] == [name]


def unsure_at_one_place() -> tuple[Graph, Inputs]:
    """Build a program in which what an unsure element decides must not excuse the others."""
    b = builder.Builder()
    x = b.input("x", "fp32", (1, 200))
    sine = b.sin(x)
    is_greater = b.greater(sine, 0.5)
    index = b.cast(is_greater, dtype="int32")
    numbers = np.array([[[0.0], [1000.0]]], np.float32)
    b.output(b.select(is_greater, numbers[0, 1:], numbers[0, :1]), name="selected")
    b.output(b.reshape(b.ceil(sine), (200,)), name="rounded")
    b.output(b.cast(index, dtype="fp32"), name="converted")
    b.output(b.mul(b.cast(index, dtype="fp16"), 2.0), name="doubled")
    b.output(b.gather(numbers, index), name="gathered")
    b.output(
        b.cast(b.argmax(b.reshape(sine, (1, 50, 4)), axis=2, dtype="int32"), dtype="fp32"),
        name="largest",
    )
    values = np.linspace(-3, 3, 200, dtype=np.float32)[None]
    values[0, 20], values[0, 70], values[0, 101] = np.arcsin(0.5), 0.0, values[0, 100]
    return b.graph(), {"x": values}


def test_an_element_that_is_sure_has_no_part_in_what_its_neighbours_may_err() -> None:
    graph, inputs = unsure_at_one_place()
    right = golden.run(graph, inputs, NUMPY).outputs
    assert golden.check(graph, right, inputs, engine="numpy").ok
    for name in right:
        wrong = right[name].copy()
        wrong.flat[3] += 0.01
        found = golden.check(graph, {**right, name: wrong}, inputs, engine="numpy")
        assert [row.name for row in found.failures] == [name]
    for name in ("selected", "gathered"):
        unsure = right[name].copy()
        unsure.flat[20] = 1000.0 - unsure.flat[20]
        assert golden.check(graph, {**right, name: unsure}, inputs, engine="numpy").ok


def chosen_of_two() -> tuple[Graph, Inputs]:
    """Return a choice between two numbers by which of two sums is larger, which are nearly equal."""
    b = builder.Builder()
    x = b.input("x", "fp32", (1, 8, 64))
    left = normal((1, 64, 1), 1).astype(np.float32)
    scores = [b.matmul(x, b.const(own)) for own in (left, np.nextafter(left, np.float32(9)))]
    experts = [
        b.tanh(b.matmul(x, b.const(normal((1, 64, 32), seed, 0.1).astype(np.float32))))
        for seed in (2, 3)
    ]
    b.output(b.select(b.greater(*scores), *experts))
    return b.graph(), {"x": normal((1, 8, 64), 4).astype(np.float32)}


def test_check_ends_with_5_after_a_weak_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph, inputs = chosen_of_two()
    save(graph, tmp_path / "m.tosa")
    np.savez(tmp_path / "x.npz", **inputs)
    lines = (
        "import numpy as np",
        "from tosa_convert import golden",
        "def run(model, inputs):",
        "    found = golden.run(model, inputs, engine='numpy').outputs",
        "    return {n: np.where(np.arange(32) % 4 != 1, own, own / 2) for n, own in found.items()}",
    )
    (tmp_path / "backend.py").write_text("\n".join(lines))
    words = [str(tmp_path / "m.tosa"), "--against", str(tmp_path / "backend.py")]
    words += ["-i", str(tmp_path / "x.npz"), "--engine", "numpy"]
    assert main.run(main.verb("check"), words) == 5
    said = capsys.readouterr()
    assert said.out.startswith("weak ")
    assert "faults that are smaller than the bound are not excluded" in said.err
    assert "--all, with the same options, judges each operator by itself" in said.err
    assert main.run(main.verb("check"), [*words, "--strict"]) == 1


@pytest.mark.parametrize(
    "kind",
    [
        "CONV2D",
        "DEPTHWISE_CONV2D",
        "MATMUL a",
        "MATMUL b",
        "MATMUL a of batches",
        "MATMUL b of batches",
    ],
)
@pytest.mark.parametrize("size", [1e-30, 1.0, 1e12])
def test_runs_that_share_a_factor_take_the_product_of_their_differences(
    kind: str, size: float
) -> None:
    """Compare with each run by itself: a joint run differs by a small part of its difference."""
    b, draw = builder.Builder("main"), np.random.default_rng(0)
    if kind.startswith("MATMUL"):
        shapes: list[tuple[int, ...]] = [(2, 5, 7), (2, 7, 3)]
        if kind.endswith("batches"):
            shapes = [(2, 1, 5, 7), (3, 7, 3)]
        inputs = (b.input("x", "FP32", shapes[0]), b.input("w", "FP32", shapes[1]))
        result = b.matmul(*inputs, dtype="FP32")
    else:
        function, shape = {
            "CONV2D": (b.conv2d, (6, 3, 3, 4)),
            "DEPTHWISE_CONV2D": (b.depthwise_conv2d, (3, 3, 4, 2)),
        }[kind]
        outputs = 6 if kind == "CONV2D" else 8
        inputs = (b.input("x", "FP32", (1, 6, 6, 4)), b.input("w", "FP32", shape))
        result = function(*inputs, b.input("c", "FP32", (outputs,)), acc_type="FP32")
        shapes = [(1, 6, 6, 4), shape, (outputs,)]
    b.output(result, name="y")
    block = b.graph().main
    operator = next(op for op in block.operators if op.spec.name == kind.split()[0])
    # A bias is as small as the products.
    exact: list[Any] = [
        draw.normal(size=shape) * size ** (2 - (len(shape) > 1)) for shape in shapes
    ]
    exact += [np.zeros(1)] * (len(operator.inputs) - len(exact))
    place = 1 if kind.startswith("MATMUL b") else 0
    runs = [exact]
    for _ in range(3):
        own = list(exact)
        own[place] = exact[place] * (1 + 1e-7 * draw.normal(size=exact[place].shape))
        runs.append(own)
    runs.append([value * 1.5 for value in exact])
    machine = Machine(b.graph(), "wide")
    direct = [
        np.asarray(machine.compute(block, operator, own, "here")[operator.outputs[0]])
        for own in runs
    ]
    found = results_of_runs(block, operator, runs, direct[0])
    assert sorted(found) == [1, 2, 3]
    for number, array in found.items():
        largest = np.abs(direct[number] - direct[0]).max()
        assert largest > 0
        # A part of the difference, and what FP64 rounds.
        allowed = 1e-5 * largest + 1e-14 * np.abs(direct[0]).max()
        assert np.abs(array - direct[number]).max() < allowed


@pytest.mark.parametrize(
    ("share", "added", "text"),
    [(1.0, 0.0, ""), (1.004, 0.0, "the errors grow with the numbers"), (1.0, 0.005, "the errors ")],
)
def test_errors_that_lean_to_one_side_fail_though_each_is_small(
    share: float, added: float, text: str
) -> None:
    """In BF16, an element may err six times the spread of rounding, and all together once."""
    b = builder.Builder()
    x = b.input("x", "bf16", (64, 128))
    b.output(b.add(b.mul(b.add(x, 0.7), 0.3), 1.1), name="y")
    draw = np.random.default_rng(1)
    given = {"x": draw.uniform(-1, 1, (64, 128)).astype(dtype("BF16").numpy)}
    y = golden.run(b.graph(), given, engine="numpy", precise=True).outputs["y"]
    # What needs no rounding has to be equal, and stays.
    near = y.astype(dtype("BF16").numpy)
    y = np.where(near == y, near, (y * share + added).astype(near.dtype))
    (row,) = golden.check(b.graph(), {"y": y}, given, engine="numpy").tensors
    assert row.ok == (not text)
    assert text in row.note
    assert not text or "each within the rule, together too much" in str(row)
