"""`power`: sizes that it names are those at which `check` and `bisect` begin to report."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import pytest
from golden.conftest import Builder
from golden.correct_backends import CORRECT
from golden.test_network_accuracy import products

from tosa_convert import golden
from tosa_convert.builder import Builder as ProgramBuilder
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.arrays import Array, scratch_folder
from tosa_convert.graph import Graph, dtype
from tosa_convert.graph.derived import computed_tensors, extract, touches_variables
from tosa_convert.graph.dtypes import RoundingMode
from tosa_convert.qualify.detection.changes import Change, Place, Rerun
from tosa_convert.qualify.detection.power import Power, TensorPower, measure_noise, number_text

EVERYTHING = Place("all", None, 1)
EXAMPLE = "examples/digits_cnn.mlirbc"


def one(found: Power, name: str) -> TensorPower:
    return next(row for row in found.tensors if row.name == name)


def quantised(*, is_output: bool = True) -> tuple[Graph, dict[str, Array]]:
    """INT8 products, divided by 64 into INT8; a second result that nothing uses."""
    b = Builder()
    x = b.input("x", "INT8", (1, 4, 16))
    b.const("w", "INT8", np.random.default_rng(1).integers(-20, 20, (1, 16, 16)))
    b.const("zero", "INT8", [0])
    b.const("zero32", "INT32", [0])
    b.const("multiplier", "INT32", [1 << 30])
    b.const("shift", "INT8", [36])
    m = b.op("MATMUL", [x, "w", "zero", "zero"], "m", "INT32", (1, 4, 16))
    more: dict[str, Any] = {"scale32": True, "per_channel": False}
    more |= {"input_unsigned": False, "output_unsigned": False}
    more["rounding_mode"] = RoundingMode.SINGLE_ROUND
    operands = [m, "multiplier", "shift", "zero32", "zero"]
    y = b.op("RESCALE", operands, "y", "INT8", (1, 4, 16), **more)
    b.op("ABS", [m], "unused", "INT32", (1, 4, 16))
    graph = b.graph(y if is_output else "unused")
    return graph, {"x": np.random.default_rng(2).integers(-50, 50, (1, 4, 16)).astype(np.int8)}


# -- changes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "value", "sign", "expected"),
    [
        ("INT8", 120, 1, [121, 127, 127]),
        ("INT8", -120, -1, [-121, -128, -128]),
        ("INT4", 5, 1, [6, 7, 7]),
        ("INT64", 2**63 - 3, 1, [2**63 - 2, 2**63 - 1, 2**63 - 1]),
        ("INT48", 2**47 - 2, 1, [2**47 - 1] * 3),
        ("BOOL", 1, 1, [0, 0, 0]),
        ("FP8E4M3", 447, 1, [448, 448, 448]),
        ("FP16", 65504, 1, [65504, 65504, 65504]),
    ],
)
def test_a_change_stays_in_the_range_of_the_type(
    kind: str, value: int, sign: int, expected: list[int]
) -> None:
    row = dtype(kind)
    array = np.array([value]).astype(row.numpy)
    change = Change(array, row, Place("element", 0, sign))
    found = [change.applied(number)[0] for number in (change.low, change.low + 32, 500)]
    if kind.startswith("FP"):
        assert [float(number) for number in found] == expected
    else:
        assert [int(number) for number in found] == expected


# -- the search ------------------------------------------------------------------------------------


# -- running on from a tensor ----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_a_run_from_a_changed_tensor_is_that_of_the_program(seed: int) -> None:
    graph = golden.generate(seed, 10)
    inputs = golden.input_arrays(graph, None, random=seed)
    if any(touches_variables(graph, op) for op in graph.main.operators):
        pytest.skip("a part of the program has other states")
    with scratch_folder() as folder:
        rerun = Rerun(graph, inputs, folder, 60.0)
        before = rerun.results()
        for _, name in computed_tensors(graph)[:6]:
            row = graph.main.tensors[name].dtype
            array = rerun.array(name)
            if not array.size or graph.main.tensors[name].scale is not None:
                continue
            other = Change(array, row, EVERYTHING).applied(4)
            results = rerun.changed_results(name, other)
            wanted = [n for n in dict.fromkeys(graph.main.outputs) if n != name]
            for output in wanted:
                try:
                    part = extract(graph, [output], [name])
                except TosaConvertError:
                    continue  # it does not depend on the tensor
                given = {n: {**inputs, name: other}[n] for n in part.main.inputs}
                try:
                    right = golden.run(part, given, engine="numpy").outputs[output]
                except TosaConvertError:
                    assert results is None
                    break
                assert results is not None
                np.testing.assert_array_equal(results.get(output, before[output]), right)


def test_a_change_goes_through_the_states_of_variables() -> None:
    b = ProgramBuilder()
    x = b.input("x", "int32", (2,))
    state = b.variable("state", "int32", (2,), initial=np.array([7, 8], np.int32))
    b.output(b.read(state))
    a = b.abs(x, name="a")
    b.write(state, a)
    b.output(b.reverse(b.read(state), axis=0))
    graph = b.graph()
    inputs = {"x": np.array([1, -2], np.int32)}
    with scratch_folder() as folder:
        rerun = Rerun(graph, inputs, folder, 60.0)
        before, after = rerun.results(), rerun.changed_results("a", np.array([1, 5], np.int32))
    assert [array.tolist() for array in before.values()] == [[7, 8], [2, 1], [1, 2]]
    assert after is not None
    assert [array.tolist() for array in after.values()] == [[5, 1], [1, 5]]
    found = golden.power(graph, inputs, engine="numpy", patterns=["a"])
    assert {change.check.reported for change in found.tensors[0].changes} == {1.0}


def test_a_change_for_which_nothing_is_defined_is_not_counted_as_seen() -> None:
    b = ProgramBuilder()
    a = b.abs(b.input("x", "int32", (2,)), name="a")
    total = b.add(a, b.const(np.array([2**31 - 9] * 2), "int32"))
    b.output(b.greater(total, b.const(np.array([0, 0]), "int32")))
    inputs = {"x": np.array([3, 4], np.int32)}
    row = golden.power(b.graph(), inputs, engine="numpy", patterns=["a"]).tensors[0]
    up = [change for change in row.changes if change.sign > 0]
    assert up
    assert {change.check.reported for change in up} == {None}
    assert {change.bisect.reported for change in up} == {1.0}


# -- verdicts --------------------------------------------------------------------------------------


def test_one_step_of_an_integer_is_seen_where_it_is_and_maybe_not_behind() -> None:
    graph, inputs = quantised()
    found = golden.power(graph, inputs, engine="numpy")
    sums, result = one(found, "m"), one(found, "y")
    for row in (sums, result):
        assert {change.bisect.reported for change in row.changes} == {1.0}
        assert row.noise == 0
    assert {change.check.reported for change in result.changes} == {1.0}
    elements = [c.check.reported for c in sums.changes if c.kind == "element"]
    assert max(size for size in elements if size is not None) > 1
    assert all(c.check.reported == c.check.noise for c in sums.changes)
    unused = one(found, "unused")
    assert {change.check.reported for change in unused.changes} == {None}
    assert unused.worst_ratio("check") is None
    assert unused.seen_at is None
    assert "never" in str(found)
    assert "no effect" in str(found)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["FP16", "BF16"])
def test_short_floating_point_is_measured_in_its_own_units(kind: str) -> None:
    b, results = products(kind, (1.0,), 16)
    inputs = {"x": np.random.default_rng(7).normal(size=(1, 16, 16)).astype(dtype(kind).numpy)}
    found = golden.power(b.graph(*results), inputs, engine="numpy")
    for row in found.tensors:
        assert row.noise < 64
        assert row.seen_at is not None


def test_tensors_that_are_left_out_are_named_in_a_note() -> None:
    graph, inputs = quantised()
    found = golden.power(graph, inputs, engine="numpy", max_tensors=2)
    assert [row.name for row in found.tensors] == ["m", "unused"]
    first, *others = found.notes
    assert first == "2 of 3 tensors were changed, spread evenly"
    assert "operator #6 RESCALE; exponents of input: " in others[0]
    found = golden.power(graph, inputs, engine="numpy", patterns=["y"])
    assert [row.name for row in found.tensors] == ["y"]
    with pytest.raises(TosaConvertError, match="none of the 3 computed tensors matches it"):
        golden.power(graph, inputs, engine="numpy", patterns=["nosuch"])


def test_several_seeds_add_their_changes() -> None:
    graph, _ = quantised()
    found = golden.power(graph, random=4, seeds=2, engine="numpy", patterns=["y"])
    assert {change.run for change in found.tensors[0].changes} == {"seed-4", "seed-5"}


def test_each_reported_tensor_has_json_without_infinities() -> None:
    graph, inputs = quantised()
    result = golden.power(graph, inputs, engine="numpy").to_dict()
    assert [row["name"] for row in result["power"]] == ["m", "y", "unused"]
    change = result["power"][2]["changes"][0]
    assert change["check"] == {"reported": None, "noise": None, "ratio": None}
    assert change["bisect"] == {"reported": 1.0, "noise": 1.0, "ratio": 1.0}


def test_sizes_are_short() -> None:
    assert [number_text(size) for size in (1.19, 15.2, 2.0**40, math.inf)] == [
        "1.2",
        "15",
        "2^40",
        "never",
    ]


# -- noise -----------------------------------------------------------------------------------------

WITHIN_NOISE = ("terms forwards", "terms backwards", "terms in pairs", "stored in FP64")


@pytest.mark.slow
@pytest.mark.usefixtures("refmodel")
def test_correct_backends_are_within_twice_the_noise(tmp_path: Any) -> None:
    b, results = products("FP32", (1.0, 1e3))
    graph = b.graph(*results)
    inputs = {"x": np.random.default_rng(7).normal(size=(1, 64, 64)).astype(np.float32)}
    names = [name for _, name in computed_tensors(graph)]
    found = measure_noise(graph, inputs, names, 60.0)
    for name in WITHIN_NOISE:
        answer = CORRECT[name].compute(graph, names, inputs, [], tmp_path)
        for tensor, array in answer.items():
            error = np.abs(array - found.noises[tensor].spread.exact)
            assert error.max() < 2 * found.largest[tensor], (name, tensor)


@pytest.mark.slow
def test_both_verbs_report_what_is_four_times_the_noise_in_the_example() -> None:
    image = {"image": np.load("examples/digits_cnn_input.npy")}
    found = golden.power(EXAMPLE, image, engine="numpy")
    assert len(found.tensors) == 15
    verbs: tuple[Literal["check", "bisect"], ...] = ("check", "bisect")
    ratios = {(row.name, verb): row.worst_ratio(verb) for row in found.tensors for verb in verbs}
    assert all(ratio is not None and ratio <= 4 for ratio in ratios.values()), ratios
