"""Each operator by its row: programs are generated, come back from every format, and are judged.

Nothing here names an operator: a new row is tested like the others.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from golden.fault_bench.fault import At, FaultyMachine
from rewrites.programs import with_constants

import tosa_convert as tc
from tosa_convert import golden
from tosa_convert.golden.arrays import Array
from tosa_convert.golden.checking.check import check
from tosa_convert.graph import Graph, operator
from tosa_convert.graph.opset import OPERATORS
from tosa_convert.qualify.bisection.bisect import bisect
from tosa_convert.qualify.random_graphs.generate import RULES
from tosa_convert.reference.call import UndefinedResult
from tosa_convert.reference.evaluate import OPERATIONS, Machine, call_of
from tosa_convert.rewrites.fold_constants import FOLDED
from tosa_convert.rewrites.public import apply
from tosa_convert.rules.families import movement, rules_of
from tosa_convert.rules.families.checks import first_shape

#: Operators that compute tensors of numbers.
COMPUTING: Final = sorted(
    name
    for name in RULES
    if operator(name).traits.value == "own" and operator(name).traits.family != "shape"
)
POSITIONS: Final = [row.name for row in OPERATORS if row.traits.response == "position"]
EXTREMES: Final = [row.name for row in OPERATORS if row.traits.edges == "extremes"]


@cache
def program(name: str, seed: int = 2) -> Graph:
    """Return a program of two of these operators."""
    return golden.generate(seed, 2, kinds=[name])


class Wrong(FaultyMachine):
    """A backend in which one operator is wrong: the first element of its first result."""

    def operator(self, at: At, results: list[Any]) -> list[Any]:
        if not isinstance(results[0], np.ndarray) or not results[0].size:
            return results
        return [changed(results[0]), *results[1:]]


def changed(array: Array) -> Array:
    """Return the array with another first element."""
    wrong = array.copy()
    first = wrong.reshape(-1)[:1]
    if array.dtype.kind in "biu":
        first[...] = first == 0 if array.dtype.kind == "b" else first ^ 1
    else:
        value = float(first[0].astype(np.float64))
        first[...] = np.asarray(1.0 if not np.isfinite(value) or value < -0.5 else value + 1.0)
    return wrong


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPUTING)
@pytest.mark.parametrize("form", ["tosa", "json", "mlir", "mlirbc"])
def test_a_program_comes_back_from_every_format(name: str, form: str, tmp_path: Path) -> None:
    path = tmp_path / f"m.{form}"
    tc.save(program(name), path)
    assert tc.compare(program(name), tc.load(path), names=form in ("tosa", "json")) is None


@pytest.mark.parametrize("name", [*POSITIONS, pytest.param(None, marks=pytest.mark.slow)])
def test_a_wrong_operator_is_found_and_named(name: str | None) -> None:
    for kind in COMPUTING if name is None else [name]:
        graph = program(kind)
        index, op = next(
            (i, op) for i, op in enumerate(graph.main.operators) if op.spec.name == kind
        )
        assert check(graph, FaultyMachine("none"), random=1, engine="numpy").ok, kind
        result = bisect(graph, Wrong(op.location), random=1, engine="numpy")
        assert not result.ok, kind
        assert f"operator #{index} {kind}" in str(result), kind


def last_of_equal(at: At, results: list[Any]) -> list[Any]:
    """Return the last position of several, as a loop that takes what is equal finds it."""
    axis = at.op.attributes["axis"]
    (given,) = at.operands
    assert isinstance(axis, int)
    assert isinstance(given, np.ndarray)
    turned = at.again([np.flip(given, axis)])[0]
    assert isinstance(turned, np.ndarray)
    return [given.shape[axis] - 1 - turned]


@pytest.mark.parametrize("name", POSITIONS)
def test_the_last_of_equal_elements_is_found_by_the_edges_of_a_position(name: str) -> None:
    class LastOfEqual(FaultyMachine):
        def operator(self, at: At, results: list[Any]) -> list[Any]:
            return last_of_equal(at, results)

    b = tc.builder.Builder("main")
    x = b.input("x", "fp32", (6, 9))
    b.location = 'loc("target")'
    b.output(getattr(b, name.lower())(x, axis=1, dtype="int32"))
    graph = b.graph()
    found = check(graph, LastOfEqual(), random=1, edges=True, engine="numpy")
    assert not found.ok
    assert (
        "equal extremes" in golden.edge_coverage(graph, golden.edge_inputs(graph)).operators[0].met
    )


@pytest.mark.parametrize("name", EXTREMES)
def test_edges_of_an_extreme_are_met(name: str) -> None:
    keywords = {"dtype": "int32"} if name in POSITIONS else {}
    b = tc.builder.Builder("main")
    b.output(getattr(b, name.lower())(b.input("x", "fp32", (6, 9)), axis=1, **keywords))
    graph = b.graph()
    (row,) = golden.edge_coverage(graph, golden.edge_inputs(graph, seed=1)).operators
    assert {"equal extremes", "NaN", "extreme at the end", "infinite alone"} <= row.met.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", [row.name for row in FOLDED])
def test_what_a_row_folds_becomes_the_constant_that_it_computes(name: str) -> None:
    folded = 0
    for seed in range(30):
        graph = program(name, seed)
        arrays = golden.input_arrays(graph, None, random=seed)
        graph = with_constants(graph, {k: array.reshape(-1) for k, array in arrays.items()})
        made = apply(graph, "clean-up").graph
        folded += any(op.spec.name == name for op in graph.main.operators) and not any(
            op.spec.name == name for op in made.main.operators
        )
        try:
            right = golden.run(graph, engine="numpy").outputs
        except (tc.TosaConvertError, UndefinedResult):
            continue
        for key, array in golden.run(made, engine="numpy").outputs.items():
            assert array.tobytes() == right[key].tobytes(), name
        if folded > 2:
            return
    assert folded, name


def test_the_definitions_give_the_shapes_that_the_rules_infer() -> None:
    for name in COMPUTING:
        graph = program(name)
        for step in Machine(graph).steps(golden.input_arrays(graph, None, random=1), {}):
            op = step.operator
            if op.spec.name == name:
                operands = [step.operands[key] for key in op.inputs]
                found: Any = OPERATIONS[name](call_of(step.block, op, operands, "own"))
                arrays = found if isinstance(found, tuple) else (found,)
                shapes = [step.block.tensors[key].shape for key in op.outputs]
                assert [np.shape(array) for array in arrays] == shapes, name


def test_a_rule_that_infers_a_wrong_shape_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = movement.RULES["TRANSPOSE"]._replace(infer=first_shape)
    monkeypatch.setitem(movement.RULES, "TRANSPOSE", wrong)
    rules_of.cache_clear()
    b = tc.builder.Builder("main")
    b.output(b.transpose(b.input("x", "fp32", (2, 3)), perms=(1, 0)))
    with pytest.raises(tc.TosaConvertError) as caught:
        golden.run(b.graph(), {"x": np.zeros((2, 3), np.float32)}, engine="numpy")
    rules_of.cache_clear()
    (finding,) = caught.value.findings
    assert finding.code == "refmodel-failed"
    assert "TRANSPOSE" in finding.where
    assert "has the shape (3, 2), the program says (2, 3)" in finding.message
    assert "report" in finding.hint


@pytest.mark.parametrize("name", EXTREMES)
def test_the_extreme_is_the_one_that_the_row_says(name: str) -> None:
    keywords = {"dtype": "int32"} if name in POSITIONS else {}
    b = tc.builder.Builder("main")
    b.output(getattr(b, name.lower())(b.input("x", "fp32", (3,)), axis=0, **keywords), name="y")
    x = np.array([2, 3, 1], np.float32)
    (found,) = golden.run(b.graph(), {"x": x}, engine="numpy").outputs["y"].reshape(-1)
    place = 1 if operator(name).traits.extreme == "greatest" else 2
    assert found == (place if name in POSITIONS else x[place])
