"""Branches and loops: the tensors in them, and the search for the wrong operator in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from golden.conftest import Builder

import tosa_convert as tc
from tosa_convert.cli.run import run as run_verb
from tosa_convert.golden.arrays import Slot, load_npz, match
from tosa_convert.golden.backends.isolated import OtherModel
from tosa_convert.golden.backends.runners import Record
from tosa_convert.golden.checking.check import check
from tosa_convert.golden.running.programs import as_graph, input_slots
from tosa_convert.golden.running.run import iterate_tensors, not_collected, run
from tosa_convert.graph import Graph, Operator, Region, dtype, operator, verify
from tosa_convert.graph.constant import constant_of
from tosa_convert.graph.dtypes import NanPropagationMode
from tosa_convert.qualify.bisection.bisect import bisect
from tosa_convert.qualify.bisection.judge_operators import save_case

pytestmark = pytest.mark.usefixtures("refmodel")
X = np.arange(6, dtype=np.int32).reshape(1, 2, 3)
SHAPE = (1, 2, 3)


def region(name: str, b: Builder, *outputs: str) -> Region:
    b.block.name = name
    b.block.outputs = list(outputs)
    return Region(name, [b.block])


def branches(then_axis: int = 1) -> Graph:
    """y = if c: reverse(abs(x)) else -x."""
    b, then, other = Builder(), Builder(), Builder()
    b.input("c", "BOOL", (1,))
    b.input("x", "INT32", SHAPE)
    b.op("ABS", ["x"], "a", "INT32", SHAPE)
    b.op("COND_IF", ["c", "a"], "y", "INT32", SHAPE, then_graph="then", else_graph="else")
    b.op("REVERSE", ["y"], "z", "INT32", SHAPE, axis=1)
    then.input("p", "INT32", SHAPE)
    then.op("ABS", ["p"], "q", "INT32", SHAPE)
    then.op("REVERSE", ["q"], "r", "INT32", SHAPE, axis=then_axis)
    other.input("p", "INT32", SHAPE)
    other.op("BITWISE_NOT", ["p"], "n", "INT32", SHAPE)
    graph = b.graph("z")
    graph.regions += [region("then", then, "r"), region("else", other, "n")]
    assert verify(graph) == []
    return graph


def loop(wrong: int = 0, turns: int = 5) -> Graph:
    """i and x: while turns > i: i, x = i + 1, reverse(x + i)."""
    b, cond, body = Builder(), Builder(), Builder()
    b.input("x", "INT32", SHAPE)
    b.const("zero", "INT32", [[[0]]])
    b.op("ABS", ["x"], "a", "INT32", SHAPE)
    b.tensor("n", "INT32", (1, 1, 1))
    b.tensor("y", "INT32", SHAPE)
    regions: dict[str, Any] = {"cond_graph": "cond", "body_graph": "body"}
    b.block.operators.append(
        Operator(operator("WHILE_LOOP"), ("zero", "a"), ("n", "y"), regions, 'loc("loop")')
    )
    for one in (cond, body):
        one.input("i", "INT32", (1, 1, 1))
        one.input("v", "INT32", SHAPE)
    cond.const("end", "INT32", [[[turns]]])
    cond.op("GREATER", ["end", "i"], "go", "BOOL", (1, 1, 1))
    body.const("one", "INT32", [[[1]]])
    body.const("off", "INT32", [[[wrong]]])
    body.op("ADD", ["i", "one"], "j", "INT32", (1, 1, 1))
    body.op("ADD", ["v", "i"], "s", "INT32", SHAPE)
    body.op("MAXIMUM", ["s", "off"], "m", "INT32", SHAPE, nan_mode=NanPropagationMode.PROPAGATE)
    body.op("REVERSE", ["m"], "w", "INT32", SHAPE, axis=2)
    graph = b.graph("y")
    graph.regions += [region("cond", cond, "go"), region("body", body, "j", "w")]
    assert verify(graph) == []
    return graph


def inputs(taken: bool) -> dict[str, Any]:
    return {"c": np.array([taken]), "x": X}


def test_the_branch_that_is_taken_is_searched(tmp_path: Path) -> None:
    tc.save(branches(2), tmp_path / "other.tosa")
    backend = OtherModel(str(tmp_path / "other.tosa"), 60)
    assert bisect(branches(), backend, inputs(False)).ok
    result = bisect(branches(), backend, inputs(True))
    assert result.outputs is not None
    assert [tensor.name for tensor in result.outputs.failures] == ["z"]
    assert result.first is not None
    ((_, path, location, _),) = result.first.operators
    assert (path, location) == ("operator #1 COND_IF then operator #1 REVERSE", 'loc("r")')
    save_case(result.first, tmp_path / "case", backend)
    case = as_graph(tmp_path / "case" / "case.tosa")
    assert [op.spec.name for op in case.main.operators] == ["REVERSE"]
    given = match(input_slots(case), load_npz(tmp_path / "case" / "inputs.npz"))
    assert not check(case, OtherModel(str(tmp_path / "case" / "found.tosa"), 60), given).ok
    assert check(case, OtherModel(str(tmp_path / "case" / "case.tosa"), 60), given).ok


@pytest.mark.slow
def test_a_loop_is_searched_one_iteration_after_another(tmp_path: Path) -> None:
    # MAXIMUM with 3 changes only values below 3, which exist only in the first iteration.
    tc.save(loop(3), tmp_path / "other.tosa")
    result = bisect(loop(), OtherModel(str(tmp_path / "other.tosa"), 60), {"x": X})
    assert result.first is not None
    assert [row[1] for row in result.first.operators] == [
        "operator #2 WHILE_LOOP body[0] operator #4 MAXIMUM"
    ]
    # The values of the third iteration, some of which are less than 8.
    x = np.full_like(X, 6)
    tc.save(loop(8), tmp_path / "other.tosa")
    graph, other = loop(7), OtherModel(str(tmp_path / "other.tosa"), 60)
    result = bisect(graph, other, {"x": x})
    assert result.first is not None
    assert "body[0]" in result.first.operators[0][1]
    tc.save(loop(0, 3), tmp_path / "other.tosa")
    result = bisect(loop(), OtherModel(str(tmp_path / "other.tosa"), 60), {"x": X})
    assert result.first is not None
    assert result.first.operators[0][1] == "operator #2 WHILE_LOOP cond[3] operator #1 GREATER"


def test_the_operator_is_named_as_a_whole_if_nothing_inside_is_wrong(tmp_path: Path) -> None:
    other = branches()
    other.regions[1].blocks[0].outputs = ["q"]
    tc.save(other, tmp_path / "other.tosa")
    result = bisect(branches(), OtherModel(str(tmp_path / "other.tosa"), 60), inputs(True))
    assert result.first is not None
    assert [row[1] for row in result.first.operators] == ["operator #1 COND_IF"]
    assert any("named as a whole" in note for note in result.notes)


def test_recorded_results_name_the_whole_operator() -> None:
    left = {i.name: i.arrays[i.name] for i in iterate_tensors(branches(2), inputs(True))}
    result = bisect(branches(), Record("left", left), inputs(True))
    assert result.first is not None
    assert [row[1] for row in result.first.operators] == ["operator #1 COND_IF"]


def test_tensors_inside_are_collected_on_request_and_listed_otherwise() -> None:
    items = {i.name: i for i in iterate_tensors(branches(), inputs(True), iterations=1)}
    assert list(items) == ["a", "y/then/q", "y/then/r", "y", "z"]
    assert np.array_equal(items["y/then/r"].arrays["y/then/r"], X[:, ::-1])
    assert items["y/then/q"].operator == "operator #1 COND_IF then operator #0 ABS"
    assert [i.name for i in iterate_tensors(branches(), inputs(False), iterations=1)][
        1
    ] == "y/else/n"
    assert [i.name for i in iterate_tensors(branches(), inputs(True))] == ["a", "y", "z"]
    (row,) = not_collected(branches())
    assert row["tensors"] == {"then": ["q", "r"], "else": ["n"]}
    assert not_collected(branches(), 1) == []


@pytest.mark.slow
def test_a_loop_gives_the_requested_number_of_iterations() -> None:
    names = [i.name for i in iterate_tensors(loop(), {"x": X}, iterations=2)]
    turn = ["n/cond[{}]/go", "n/body[{}]/j", "n/body[{}]/s", "n/body[{}]/m", "n/body[{}]/w"]
    assert names == ["a", *(t.format(k) for k in (0, 1) for t in turn), "n", "y"]
    every = {i.name: i.arrays for i in iterate_tensors(loop(), {"x": X}, iterations=9)}
    assert "n/cond[5]/go" in every
    assert "n/body[5]/w" not in every
    assert np.array_equal(every["n/body[4]/w"]["n/body[4]/w"], run(loop(), {"x": X}).outputs["y"])
    assert "first 2 iterations" in str(not_collected(loop(), 2)[0]["reason"])


def test_regions_that_use_variables_are_not_searched_and_a_note_says_so(tmp_path: Path) -> None:
    def stateful(axis: int) -> Graph:
        graph = branches(axis)
        for block in (graph.main, graph.regions[1].blocks[0]):
            row = Slot("v", "v", dtype("INT32"), SHAPE)
            b = Builder()
            b.block = block
            b.tensor("v", "INT32", SHAPE, data=constant_of(X, row.dtype), variable=True)
        write = Operator(operator("VARIABLE_WRITE"), ("p",), ("v",))
        graph.regions[1].blocks[0].operators.insert(0, write)
        assert verify(graph) == []
        return graph

    tc.save(stateful(2), tmp_path / "other.tosa")
    result = bisect(stateful(1), OtherModel(str(tmp_path / "other.tosa"), 60), inputs(True))
    assert result.first is not None
    assert [row[1] for row in result.first.operators] == ["operator #1 COND_IF"]
    assert any("use variables" in note for note in result.notes)
    assert [i.name for i in iterate_tensors(stateful(1), inputs(True), iterations=4)] == [
        "a",
        "y",
        "z",
    ]
    assert "use variables" in str(not_collected(stateful(1), 4)[0]["reason"])


@pytest.mark.parametrize("target", ["d", "d.npz"])
def test_the_verb_run_lists_what_it_does_not_collect(tmp_path: Path, target: str) -> None:
    tc.save(branches(), tmp_path / "m.tosa")
    words = [str(tmp_path / "m.tosa"), "--random", "1", "--intermediates", str(tmp_path / target)]
    ended = CliRunner().invoke(run_verb, words)
    assert ended.exit_code == 0, ended.output
    assert "not collected: q, r, n" in ended.output
    ended = CliRunner().invoke(run_verb, [*words, "--inside", "3"])
    assert "5 intermediates" in ended.output or "4 intermediates" in ended.output
    assert "not collected" not in ended.output
    if target == "d":
        manifest = json.loads((tmp_path / "d" / "manifest.json").read_text())
        assert manifest["not_collected"] == []
    assert CliRunner().invoke(run_verb, [*words[:3], "--inside", "3"]).exit_code == 2


def test_tensors_inside_are_collected_even_if_the_pattern_excludes_the_operands() -> None:
    found = {i.name: i.arrays for i in iterate_tensors(loop(), {"x": X}, ["y"], iterations=1)}
    assert "y" in found
    assert np.array_equal(found["n/body[0]/s"]["n/body[0]/s"], X)
    assert "a" not in found
