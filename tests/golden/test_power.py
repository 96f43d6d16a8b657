"""`power`: sizes that it names are those at which `check` and `bisect` begin to report."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from golden.conftest import Builder
from golden.honest_backends import HONEST
from golden.test_network_accuracy import products

from tosa_convert import golden
from tosa_convert.builder import Builder as ProgramBuilder
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.arrays.by_name import Array, scratch_folder
from tosa_convert.graph import Graph, dtype
from tosa_convert.graph.derived import computed_tensors, extract, touches_variables
from tosa_convert.graph.dtypes import RoundingMode
from tosa_convert.graph.model import Operator
from tosa_convert.graph.opset import IDENTITY
from tosa_convert.qualify.detection.noise import Change, Place, Rerun, measure_noise, places
from tosa_convert.qualify.detection.power import (
    ChangePower,
    Power,
    TensorPower,
    Threshold,
    number_text,
    smallest,
)

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


def test_a_change_moves_the_drawn_place_by_its_size_alone() -> None:
    array = np.linspace(1, 1.9, 12, dtype=np.float32).reshape(2, 2, 3)
    for place in (Place("element", 7, 1), Place("channel", 1, -1), EVERYTHING):
        change = Change(array, dtype("FP32"), place)
        assert change.unit == 2.0**-23
        number = change.number(0.25)
        difference = change.applied(number).astype(np.float64) - array
        changed = place.of(difference)
        np.testing.assert_allclose(changed, place.sign * change.size(number), rtol=1e-6)
        assert change.size(number) == 0.25
        assert np.count_nonzero(difference) == changed.size


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


def test_an_integer_at_its_limit_is_moved_the_other_way() -> None:
    array = np.array([-128, 0], np.int8)
    change = Change(array, dtype("INT8"), Place("element", 0, -1))
    assert change.place.sign == 1
    assert change.applied(0).tolist() == [-127, 0]
    assert Change(array, dtype("INT8"), Place("all", None, -1)).place.sign == -1


def test_places_are_drawn_alike_each_time_and_in_both_directions() -> None:
    drawn = list(places((3, 5, 8), 1))
    assert drawn == list(places((3, 5, 8), 1))
    assert drawn != list(places((3, 5, 8), 2))
    assert {place.kind for place in drawn} == {"element", "channel", "all"}
    assert {place.sign for place in drawn} == {-1, 1}
    assert [place.kind for place in places((), 1)] == ["element"]


# -- the search ------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [-8, 0, 17, 99, 600])
@pytest.mark.parametrize("border", [-8, -7, 0, 33, 250, 600])
def test_the_search_finds_the_border_in_a_few_steps(start: int, border: int) -> None:
    asked: list[int] = []

    def verdict(number: int) -> bool:
        asked.append(number)
        return number >= border

    assert smallest(verdict, start, -8, 600) == border
    assert len(set(asked)) <= 24


def test_the_search_finds_nothing_where_nothing_is_reported() -> None:
    assert smallest(lambda number: False, 3, 0, 100) is None
    assert smallest(lambda number: False if number < 40 else None, 3, 0, 100) is None


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


def test_a_change_that_comes_to_what_an_earlier_one_did_ends_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph, inputs = quantised()
    graph = extract(graph, ["y"], [])
    graph.main.operators.append(Operator(IDENTITY, ("y",), ("z",), {}))
    graph.main.tensors["z"] = replace(graph.main.tensors["y"], name="z")
    graph.main.outputs = ["z"]
    ran: list[str] = []
    compute = Rerun._computed

    def counting(self: Rerun, machine: Any, index: int, *rest: Any) -> Any:
        ran.append(self.block.operators[index].spec.name)
        return compute(self, machine, index, *rest)

    monkeypatch.setattr(Rerun, "_computed", counting)
    with scratch_folder() as folder:
        rerun = Rerun(graph, inputs, folder, 60.0)
        array = rerun.array("m")
        first, again, other = [
            rerun.changed_results("m", array + np.int32(n)) for n in (64, 64, 128)
        ]
    assert ran == ["RESCALE", "IDENTITY", "RESCALE", "RESCALE", "IDENTITY"]
    assert first is not None
    assert other is not None
    assert first is again
    assert not np.array_equal(first["z"], other["z"])


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


def test_a_size_that_is_named_is_the_first_that_check_and_bisect_report() -> None:
    b, results = products("FP32", (1.0,), 16)
    graph = b.graph(*results)
    inputs = {"x": np.random.default_rng(7).normal(size=(1, 16, 16)).astype(np.float32)}
    right = golden.run(graph, inputs, engine="numpy", intermediates="*")
    row = one(golden.power(graph, inputs, engine="numpy", patterns=["m0"]), "m0")
    middle = right.intermediates["m0"]
    part = extract(graph, results, ["m0"])
    kinds = set()
    for change in row.changes:
        size, own = change.check.reported, change.bisect.reported
        assert size is not None
        assert own is not None
        if change.kind in kinds:
            continue
        kinds.add(change.kind)
        index = change.index[0] if change.kind == "channel" else None
        if change.kind == "element":
            index = int(np.ravel_multi_index(change.index, middle.shape))
        place = Place(change.kind, index, change.sign)
        made = Change(middle, dtype("FP32"), place)
        for below, ok in ((0, False), (1, True)):
            changed = made.applied(made.number(size * change.unit) - below)
            answer = golden.run(part, {"m0": changed}, engine="numpy").outputs
            assert golden.check(graph, answer, inputs, engine="numpy").ok == ok
            changed = made.applied(made.number(own * change.unit) - below)
            recorded = {**right.outputs, "m0": changed}
            names = {
                operator[1]
                for divergence in [golden.bisect(graph, recorded, inputs, engine="numpy").first]
                if divergence is not None
                for operator in divergence.operators
            }
            assert ("operator #3 MATMUL" in names) != ok or below == 0
    assert kinds == {"element", "channel", "all"}


def test_a_tolerance_moves_the_border() -> None:
    b = Builder()
    y = b.op("ABS", [b.input("x", "FP32", (1, 9))], "y", "FP32", (1, 9))
    inputs = {"x": np.linspace(1, 1.9, 9, dtype=np.float32).reshape(1, 9)}
    loose = golden.Tolerances(atol=(("y", 0.25),), rtol=(("y", 0.0),))
    row = golden.power(b.graph(y), inputs, engine="numpy", tolerances=loose).tensors[0]
    sizes = {c.check.reported for c in row.changes} | {c.bisect.reported for c in row.changes}
    assert all(size is not None and 2**21 <= size < 2**21.6 for size in sizes)


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
    assert found.notes == ("2 of 3 tensors were changed, spread evenly",)
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


def test_the_table_has_medians_and_counts_what_is_never_reported() -> None:
    seen = [Threshold(2.0, 1.0), Threshold(None, None), Threshold(6.0, 2.0)]
    changes = [ChangePower("", "element", (i,), 1, 1.0, t, seen[0]) for i, t in enumerate(seen)]
    row = TensorPower("t", "operator #1 ADD", "", "FP32", (3,), 0.5, 1.0, 10.0, tuple(changes))
    cells = str(Power((row,))).splitlines()[2].split("|")[1:-1]
    assert [cell.strip() for cell in cells] == [
        *("t", "#1 ADD", "FP32", "0.5", "6 (2), 1 of 3 never", "", ""),
        *("2 (1)", "", "", "3.0", "2.0"),
    ]
    assert row.seen_at == 0.6


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
def test_honest_backends_are_within_twice_the_noise(tmp_path: Any) -> None:
    b, results = products("FP32", (1.0, 1e3))
    graph = b.graph(*results)
    inputs = {"x": np.random.default_rng(7).normal(size=(1, 64, 64)).astype(np.float32)}
    names = [name for _, name in computed_tensors(graph)]
    found = measure_noise(graph, inputs, names, 60.0)
    for name in WITHIN_NOISE:
        answer = HONEST[name].compute(graph, names, inputs, [], tmp_path)
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
