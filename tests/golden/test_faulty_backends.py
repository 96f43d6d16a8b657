"""`check` and `bisect` agree on every faulty backend, and the operator that is named is the right one.

Each test runs with either engine as the reference. `operator_faults.py` has every fault of every
operator, of which some are judged here.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from golden.conftest import Builder
from golden.correct_backends import CORRECT, CorrectBackend
from golden.faulty_backends import TARGET, Faulty, inputs, moved, one_element, program
from golden.operator_faults import UNITS, accepts_what_the_rule_allows, judged
from golden.operator_programs import (
    AFTER,
    OPERATORS_WITH_FAULTS,
    WITHOUT_FAULTS,
    WRITE,
    in_branch,
    in_loop,
    with_state,
)
from golden.operator_programs import inputs as inputs_of

from tosa_convert.builder import Builder as MakeProgram
from tosa_convert.builder import Value
from tosa_convert.golden.accuracy.comparison import Comparison
from tosa_convert.golden.accuracy.criteria import NETWORK_LABEL, NO_TOLERANCES, Tolerances
from tosa_convert.golden.accuracy.error_bounds import terms_of_sum
from tosa_convert.golden.arrays import Array, Slot, save_npz
from tosa_convert.golden.backends.runners import Record
from tosa_convert.golden.checking.check import check
from tosa_convert.golden.running import reference_model_process
from tosa_convert.golden.running.run import run
from tosa_convert.golden.running.run_options import Engine, RunOptions
from tosa_convert.graph import Graph, Operator, dtype
from tosa_convert.graph.constant import constant_of
from tosa_convert.graph.opset import OPERATORS, VARIABLE_WRITE
from tosa_convert.qualify.bisection.bisect import bisect
from tosa_convert.qualify.bisection.judge_operators import Bisection

pytestmark = pytest.mark.usefixtures("refmodel", "engine")
X = inputs("TANH")


@pytest.fixture(params=["numpy", pytest.param("reference-model", marks=pytest.mark.slow)])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Return the engine that "auto" stands for."""
    chosen: Engine = request.param
    found = chosen == "reference-model"
    monkeypatch.setattr(reference_model_process, "is_installed", lambda: found)
    assert RunOptions().uses_numpy != found
    return chosen


def agreed(
    graph: Graph, backend: Faulty, given: dict[str, Array], tolerances: Tolerances = NO_TOLERANCES
) -> Bisection:
    """Return the result of a search whose verdict on the outputs is that of `check`."""
    outputs = check(graph, replace(backend), given, tolerances=tolerances)
    result = bisect(graph, replace(backend), given, tolerances=tolerances)
    assert result.outputs is not None
    assert result.outputs.ok == outputs.ok, result
    assert not result.ok, result
    assert outputs.ok or result.first is not None, result
    return result


def named(result: Bisection) -> tuple[str, list[str]]:
    assert result.first is not None
    return result.first.kind, [row[2] for row in result.first.operators]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["TANH", "INT32 ADD"])
def test_operators_that_are_wrong_only_beside_another_are_named_together(kind: str) -> None:
    """Operators that do not depend on one another run together, and the fault needs one of them."""
    backend = Faulty(change=one_element, beside='loc("last")')
    result = agreed(program(kind), backend, inputs(kind))
    assert named(result) == ("in-context", [TARGET, 'loc("last")']), result
    assert result.first is not None
    case = result.first.case
    assert not case.comparison.ok
    assert case.found.keys() == case.expected.keys() == {"target", "last"}
    again = Faulty(change=one_element, beside='loc("last")')
    assert not check(case.graph, again, case.inputs).ok


@pytest.mark.slow
def test_the_smallest_group_that_is_wrong_is_named() -> None:
    b = Builder()
    b.input("x", "FP32", X["x"].shape)
    names = [f"a{number}" for number in range(11)]
    for name in (*names[:7], "target", *names[7:]):
        b.op("TANH", ["x"], name, "FP32", X["x"].shape)
    graph = b.graph("target", *names)
    for other in (names[0], names[6], names[-1]):
        result = bisect(graph, Faulty(change=one_element, beside=f'loc("{other}")'), X)
        kind, places = named(result)
        assert kind == "in-context"
        assert sorted(places) == sorted([TARGET, f'loc("{other}")'])


def test_operators_that_are_wrong_only_in_some_runs_are_nondeterministic() -> None:
    """The operator is wrong beside others once, and then right, alone and beside them."""
    backend = Faulty(change=one_element, beside='loc("last")', at_first=4)
    result = bisect(program("TANH"), backend, X)
    assert named(result) == ("nondeterministic", [TARGET]), result


def test_a_fault_that_no_output_shows_is_named() -> None:
    result = agreed(program("TANH", masked=True), Faulty(change=one_element), X)
    assert result.outputs is not None
    assert result.outputs.ok
    assert named(result) == ("by-itself", [TARGET])
    assert "the outputs agree" in str(result)


@pytest.mark.parametrize("name", ["matmul", "matmul_t"])
@pytest.mark.parametrize("shapes", [((4, 8), (8, 5)), ((2, 1, 4, 8), (3, 8, 5))])
def test_a_product_of_any_batches_is_judged_and_its_fault_is_named(
    name: str, shapes: tuple[tuple[int, ...], ...]
) -> None:
    b, draw = MakeProgram(), np.random.default_rng(4)
    x = draw.uniform(0.5, 1, shapes[0]).astype(np.float32)
    weight = draw.uniform(0.5, 1, shapes[1]).astype(np.float32)
    turned = weight.swapaxes(-1, -2) if name == "matmul_t" else weight
    y = getattr(b, name)(b.abs(b.input("x", "fp32", x.shape)), b.const(turned))
    b.output(b.mul(y, y))
    graph = b.graph()
    operators = graph.main.operators
    (place,) = [n for n, op in enumerate(operators) if op.spec.family == "matmul"]
    operators[place] = replace(operators[place], location=TARGET)
    assert terms_of_sum(graph.main, operators[place]) == x.shape[-1]
    assert check(graph, CorrectBackend(), {"x": x}).ok
    # Twice what the rule allows a sum of eight products.
    for change in (moved(1 + 2 * 6 * 8 * 2.0**-23), one_element):
        backend = Faulty(change=change)
        assert not check(graph, replace(backend), {"x": x}).ok
        assert named(bisect(graph, backend, {"x": x})) == ("by-itself", [TARGET])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["SCATTER", "TANH", "GREATER"])
def test_every_fault_of_an_operator_is_named(kind: str, engine: Engine) -> None:
    assert not any(judged(kind, engine).values())


#: Of the operators, a few; `python tests/golden/operator_faults.py` judges all of them.
FULLY_JUDGED = ("ARGMAX", "CONV2D", "MATMUL", "CLAMP", "TANH", "ADD", "MUL", "TABLE")


@pytest.mark.long
@pytest.mark.parametrize("kind", FULLY_JUDGED)
def test_every_fault_of_an_operator_of_each_family_is_named(kind: str, engine: Engine) -> None:
    assert not any(judged(kind, engine).values())
    assert accepts_what_the_rule_allows(kind, engine)


def test_every_operator_has_faults_or_a_reason() -> None:
    assert {row.name for row in OPERATORS} == {*OPERATORS_WITH_FAULTS, *WITHOUT_FAULTS}
    assert set(UNITS) <= set(OPERATORS_WITH_FAULTS)


@pytest.mark.slow
def test_a_fault_that_is_not_made_is_not_named(
    monkeypatch: pytest.MonkeyPatch, engine: Engine
) -> None:
    monkeypatch.setattr(Faulty, "changed", CorrectBackend.changed)
    said = judged("ABS", engine)
    assert all(said.values()), said


def test_all_faults_are_named_if_asked_for() -> None:
    places = ('loc("second")', TARGET)
    backend = Faulty(change=moved(1.01), places=places)
    assert named(agreed(program("TANH"), backend, X)) == ("by-itself", [places[0]])
    result = bisect(program("TANH"), backend, X, find_all=True)
    assert [other.operators[0][2] for other in result.others] == [TARGET]
    assert str(result).count("its own result is wrong") == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("graph", "path"),
    [(in_branch("TANH"), "COND_IF then"), (in_loop("TANH"), "WHILE_LOOP body[0]")],
    ids=["branch", "loop"],
)
@pytest.mark.parametrize(
    ("backend", "expected"),
    [
        (Faulty(change=moved(1.01)), ("by-itself", [TARGET])),
        (Faulty(change=moved(1.01), fused_with=AFTER), ("in-context", [TARGET, AFTER])),
    ],
    ids=["alone", "fused"],
)
def test_a_fault_in_a_region_is_named(
    graph: Graph, path: str, backend: Faulty, expected: tuple[str, list[str]]
) -> None:
    result = agreed(graph, backend, inputs_of(graph))
    assert named(result) == expected
    assert result.first is not None
    assert f"{path} operator #0 TANH" in result.first.operators[0][1]


@pytest.mark.slow
def test_a_wrong_state_is_named() -> None:
    graph = with_state("TANH")
    x = inputs_of(graph)
    assert bisect(graph, CorrectBackend(), x).ok
    result = agreed(graph, Faulty(changes_state=True, places=()), x)
    assert named(result) == ("by-itself", [WRITE])
    result = agreed(graph, Faulty(change=moved(1.01)), x)
    assert named(result) == ("by-itself", [TARGET])
    assert result.outputs is not None
    assert [tensor.name for tensor in result.outputs.failures] == ["variable:state"]


def notes_on_variables(found: Comparison) -> list[str]:
    return [note for note in found.notes if note.startswith("variable")]


def test_a_state_that_the_backend_does_not_give_is_reported_as_not_compared() -> None:
    graph = with_state("TANH")
    x = inputs_of(graph)
    result = run(graph, x)
    outputs = Record("left", result.outputs)
    (note,) = notes_on_variables(check(graph, outputs, x))
    assert note == "variable state: not compared: the backend does not give its state"
    wrong = {**result.outputs, "variable:state": result.variables["state"] + 1}
    assert not check(graph, Record("left", wrong), x).ok
    states = {"state": np.full_like(result.variables["state"], 0.25)}
    again = run(graph, x, variables=states)
    right = {**again.outputs, "variable:state": again.variables["state"]}
    assert check(graph, Record("left", right), x, variables=states).ok
    assert not check(graph, Record("left", right), x).ok


def written_in_a_region(kind: str, *, exact: bool = False) -> Graph:
    """Return a variable that a branch or the body of a loop reads and writes."""
    b = MakeProgram()
    x, state = b.input("x", "fp32", (2,)), b.variable("state", "fp32", (2,), initial=0.5)

    def body(inner: MakeProgram, *values: Value) -> Value:
        old = inner.read(state)
        inner.write(state, inner.maximum(old, values[-1]) if exact else inner.tanh(old))
        return inner.negate(values[-1])

    if kind == "COND_IF":
        (y,) = b.cond_if(True, [x], body, lambda inner, x: inner.abs(x))
    else:
        _, y = b.while_loop(
            [b.const([0], "int32"), x],
            lambda inner, i, x: inner.greater(inner.const([3], "int32"), i),
            lambda inner, i, x: [inner.add(i, inner.const([1], "int32")), body(inner, x)],
        )
    b.output(y)
    return b.graph()


@pytest.mark.slow
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("kind", ["COND_IF", "WHILE_LOOP"])
def test_a_state_that_a_region_writes_is_compared(kind: str, exact: bool) -> None:
    graph, x = written_in_a_region(kind, exact=exact), {"x": np.array([-3, 2], np.float32)}
    for correct in (CorrectBackend(), CORRECT["stored in FP64"]):
        found = check(graph, correct, x)
        assert found.ok, found
        assert [tensor.name for tensor in found.tensors][1:] == ["variable:state"]
    result = agreed(graph, Faulty(changes_state=True, places=()), x)
    assert result.outputs is not None
    assert [tensor.name for tensor in result.outputs.failures] == ["variable:state"]
    assert result.first is not None
    assert result.first.operators[0][1].endswith(kind), result


def test_a_state_without_initial_value_in_control_flow_is_reported_as_not_compared() -> None:
    b = MakeProgram()
    x, state = b.input("x", "fp32", (2,)), b.variable("state", "fp32", (2,))

    def body(inner: MakeProgram, x: Value) -> Value:
        inner.write(state, inner.tanh(x))
        return inner.negate(x)

    b.output(*b.cond_if(True, [x], body, lambda inner, x: inner.abs(x)))
    found = check(b.graph(), CorrectBackend(), {"x": np.array([-3, 2], np.float32)})
    (note,) = notes_on_variables(found)
    assert note.startswith("variable state: not compared: control flow uses variables")


def test_a_state_that_is_read_again_has_the_accuracy_of_what_was_written() -> None:
    b = MakeProgram()
    state = b.variable("state", "fp32", (1, 64), initial=0.5)
    x = b.input("x", "fp32", (1, 64))
    b.write(state, b.mul(b.tanh(x), b.exp(x)))
    b.output(b.read(state))
    given = {"x": np.linspace(-2, 2, 64, dtype=np.float32).reshape(1, 64)}
    for correct in (CorrectBackend(), CORRECT["stored in FP64"]):
        found = check(b.graph(), correct, given)
        assert found.ok, found
        assert {tensor.rule for tensor in found.tensors} == {NETWORK_LABEL}


def test_a_state_of_a_type_that_numpy_lacks_is_compared(tmp_path: Path) -> None:
    b = Builder()
    slot = Slot("v", "v", dtype("BF16"), (2,))
    initial = constant_of(np.array([1, 2]), slot.dtype)
    b.input("x", "BF16", (2,))
    b.tensor("v", "BF16", (2,), data=initial, variable=True)
    b.op("VARIABLE_READ", ["v"], "old", "BF16", (2,))
    b.block.operators.append(Operator(VARIABLE_WRITE, ("x",), ("v",)))
    graph = b.graph("old")
    x = {"x": np.array([3, 4]).astype(slot.dtype.numpy)}
    result = run(graph, x)
    save_npz(tmp_path / "a.npz", {**result.outputs, "variable:v": result.variables["v"]})
    found = check(graph, str(tmp_path / "a.npz"), x)
    assert found.ok, found
    assert [tensor.name for tensor in found.tensors] == ["old", "variable:v"]


def test_a_program_that_returns_a_tensor_twice_is_compared() -> None:
    graph = program("INT32 ADD")
    graph.main.outputs *= 2
    given = inputs("INT32 ADD")
    assert bisect(graph, CorrectBackend(), given).ok
    assert not bisect(graph, Faulty(), given).ok


@pytest.mark.slow
def test_errors_within_each_rule_that_add_up_are_reported_as_such() -> None:
    """A product of 8 terms may err 48 units, a sum of two far less: orders of a sum differ by a few."""
    b = Builder()
    b.input("x", "FP32", X["x"].shape)
    b.const("weight", "FP32", np.ones((1, 8, 8)))
    b.const("zero", "FP32", [0.0])
    b.op("REVERSE", ["x"], "r", "FP32", X["x"].shape, axis=1)
    for source, name in (("x", "one"), ("r", "two")):
        b.op("MATMUL", [source, "weight", "zero", "zero"], name, "FP32", X["x"].shape)
    graph = b.graph(b.op("ADD", ["one", "two"], "sum", "FP32", X["x"].shape))
    places = ('loc("one")', 'loc("two")')
    backend = Faulty(change=moved(1 + 40 * 2.0**-24), places=places)
    given = {"x": np.abs(X["x"]) + np.float32(1)}
    result = agreed(graph, backend, given, Tolerances(official=True))
    kind, operators = named(result)
    assert kind == "within-rules"
    assert operators[-1] == 'loc("sum")'
    assert set(places) & set(operators)
    kind, operators = named(agreed(graph, backend, given))
    assert kind == "by-itself"
    assert set(operators) <= set(places)
