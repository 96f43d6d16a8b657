"""What `bisect` makes of the parts of a program: results of one operator, refusals, and single runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from golden.correct_backends import CorrectBackend
from golden.faulty_backends import TARGET, Faulty, inputs, moved, one_element, program
from golden.operator_programs import WRITE, with_state
from golden.operator_programs import inputs as inputs_of

from tosa_convert.builder import Builder, Value
from tosa_convert.errors import fail
from tosa_convert.golden.arrays import Array, differing_elements
from tosa_convert.golden.backends.isolated import part_of
from tosa_convert.golden.running.run import run
from tosa_convert.graph import Block, Graph, Operator
from tosa_convert.qualify.bisection.bisect import bisect
from tosa_convert.qualify.bisection.judge_operators import Bisection
from tosa_convert.reference.block_scaled import Value as AnyValue
from tosa_convert.reference.block_scaled import plain

pytestmark = pytest.mark.usefixtures("refmodel")
FIRST, SECOND = 'loc("first")', 'loc("second")'
X: dict[str, Array] = {"x": np.linspace(0.25, 1, 256, dtype=np.float32).reshape(1, 4, 64)}


def at(b: Builder, location: str, value: Value) -> Value:
    """Return a value whose operator has a location."""
    b._block.operators[-1].location = location
    return value


def two_results(b: Builder, kind: str, x: Value) -> tuple[Value, ...]:
    """Return two results of one operator."""
    if kind == "FFT2D":
        return b.fft2d(x, b.abs(x))
    if kind == "RFFT2D":
        return b.rfft2d(x)
    if kind == "COND_IF":
        return b.cond_if(
            True,
            [x],
            lambda inner, x: [inner.tanh(x), inner.sigmoid(x)],
            lambda inner, x: [inner.sigmoid(x), inner.tanh(x)],
        )
    _, one, two = b.while_loop(
        [b.const([0], "int32"), x, x],
        lambda inner, i, *values: inner.greater(inner.const([2], "int32"), i),
        lambda inner, i, one, two: [
            inner.add(i, inner.const([1], "int32")),
            inner.tanh(one),
            inner.sigmoid(two),
        ],
    )
    return one, two


def clamped(b: Builder, kind: str, x: Value) -> Value:
    """Return a sum of two results, each clamped."""
    one, two = two_results(b, kind, x)
    first = at(b, FIRST, b.clamp(one, min_val=-3.0, max_val=3.0))
    second = at(b, SECOND, b.clamp(two, min_val=-3.0, max_val=3.0))
    return b.add(first, second)


class WrongBehind(CorrectBackend):
    """Adds 0.5 to the CLAMP at a location if its operand is computed in the same run."""

    def __init__(self, location: str) -> None:
        super().__init__()
        self.location = location

    def changed(
        self,
        block: Block,
        op: Operator,
        operands: Mapping[str, AnyValue],
        results: dict[str, AnyValue],
        states: dict[str, Array],
    ) -> dict[str, AnyValue]:
        computed = {name for other in block.operators for name in other.outputs}
        if op.location != self.location or op.inputs[0] not in computed:
            return results
        return {name: plain(array) + np.float32(0.5) for name, array in results.items()}


@pytest.mark.parametrize("location", [FIRST, SECOND])
@pytest.mark.parametrize(
    "kind", ["FFT2D", "RFFT2D", "COND_IF", pytest.param("WHILE_LOOP", marks=pytest.mark.slow)]
)
def test_an_operator_that_is_wrong_behind_one_of_several_results_is_named(
    kind: str, location: str
) -> None:
    b = Builder()
    b.output(b.abs(clamped(b, kind, b.input("x", "fp32", (1, 4, 64)))))
    result = bisect(b.graph(), WrongBehind(location), X, engine="numpy")
    assert result.first is not None
    assert result.first.kind == "in-context"
    names = [row[1].split()[-1] for row in result.first.operators]
    assert names == [kind, "CLAMP"], result
    assert result.first.operators[-1][2] == location
    assert not result.first.case.comparison.ok


def test_an_operator_that_is_wrong_behind_data_and_its_scales_is_named() -> None:
    b = Builder()
    x = b.input("x", "fp32", (1, 4, 64))
    data, scale = b.cast_to_block_scaled(b.abs(x), dtype=("fp8e4m3", "fp8ue8m0"))
    b.output(b.abs(at(b, FIRST, b.cast_from_block_scaled(data, scale, dtype="fp32"))))
    result = bisect(b.graph(), WrongBehind(FIRST), X, engine="numpy")
    assert result.first is not None
    names = [row[1].split()[-1] for row in result.first.operators]
    expected = ["CAST_TO_BLOCK_SCALED", "CAST_FROM_BLOCK_SCALED"]
    assert (result.first.kind, names) == ("in-context", expected), result


@pytest.mark.slow
@pytest.mark.parametrize("location", [FIRST, SECOND])
@pytest.mark.parametrize("kind", ["FFT2D", "RFFT2D", "COND_IF"])
def test_such_an_operator_in_a_branch_is_named(kind: str, location: str) -> None:
    b = Builder()
    x = b.input("x", "fp32", (1, 4, 64))
    results = b.cond_if(
        True,
        [x],
        lambda inner, x: [clamped(inner, kind, x)],
        lambda inner, x: [clamped(inner, kind, inner.negate(x))],
    )
    b.output(*results)
    result = bisect(b.graph(), WrongBehind(location), X, engine="numpy")
    assert result.first is not None
    names = [row[1].split()[-1] for row in result.first.operators]
    assert (result.first.kind, names) == ("in-context", [kind, "CLAMP"]), result


def test_arrays_that_were_not_read_are_compared_without_being_made() -> None:
    """An array of an unexpected shape is one zero, however large its header says it is."""
    huge = np.broadcast_to(np.float32(0), (1 << 42,))
    assert differing_elements(huge, huge) == 0
    assert differing_elements(huge, np.broadcast_to(np.float32(1), huge.shape)) == huge.size
    one, other = (np.array([0, value, np.nan], np.float32) for value in (1, 2))
    assert differing_elements(one, other) == 1
    assert differing_elements(np.zeros((0, 3)), np.ones((0, 3))) == 0


class Refusing(Faulty):
    """Refuses parts of a program."""

    refuses: Callable[[Graph, list[str]], bool]

    def compute(
        self,
        graph: Graph,
        names: list[str],
        inputs: Mapping[str, Array],
        cuts: list[str],
        folder: Path,
    ) -> Mapping[str, Array]:
        part = part_of(graph, names, cuts)
        if part is not graph and self.refuses(part, names):
            raise fail("backend-refused", "refusing", "no kernel for this part")
        return super().compute(graph, names, inputs, cuts, folder)


def refusing(refuses: Callable[[Graph, list[str]], bool], *places: str) -> Refusing:
    backend = Refusing(change=one_element, places=places)
    backend.refuses = refuses
    return backend


def all_parts(part: Graph, names: list[str]) -> bool:
    return True


def short_parts(part: Graph, names: list[str]) -> bool:
    """Parts with the target that begin with it, and intermediate results of the whole program."""
    locations = [op.location for op in part.main.operators]
    return TARGET in locations and (len(names) > 1 or 'loc("second")' not in locations)


def parts_with_target_alone(part: Graph, names: list[str]) -> bool:
    """Parts with the target that have other inputs than the program's."""
    locations = [op.location for op in part.main.operators]
    return TARGET in locations and part.main.inputs != ["x"]


def named(result: Bisection) -> tuple[str, list[str]]:
    assert result.first is not None
    case = result.first.case
    assert not case.comparison.ok
    assert any(not np.array_equal(case.expected[k], case.found[k]) for k in case.found), result
    return result.first.kind, [row[2] for row in result.first.operators]


@pytest.mark.parametrize("refuses", [short_parts, parts_with_target_alone])
def test_an_operator_that_is_refused_as_a_part_is_judged_in_a_larger_one(
    refuses: Callable[[Graph, list[str]], bool],
) -> None:
    result = bisect(program("TANH"), refusing(refuses, TARGET), inputs("TANH"), engine="numpy")
    assert named(result) == ("by-itself", [TARGET])
    assert list(result.refused) == ["operator #3 TANH"]
    assert "judged, by itself where the backend does not refuse that\n" in str(result)
    assert "refused as a part: operator #3 TANH: no kernel for this part" in str(result)
    assert result.to_dict()["refused"] == {"operator #3 TANH": "no kernel for this part"}


def parts_of_one(part: Graph, names: list[str]) -> bool:
    return len(names) == 1 and len([op for op in part.main.operators if op.inputs]) == 1


def test_an_operator_that_is_refused_alone_is_named_beside_others() -> None:
    b = Builder()
    x = b.input("x", "fp32", (1, 4, 64))
    target = at(b, TARGET, b.tanh(x))
    b.output(b.add(b.sigmoid(x), target))
    result = bisect(b.graph(), refusing(parts_of_one, TARGET), X, engine="numpy")
    assert named(result) == ("by-itself", [TARGET])
    assert any("was judged beside others" in note for note in result.notes)


def test_a_backend_that_refuses_every_part_gets_a_verdict() -> None:
    graph, given = program("TANH"), inputs("TANH")
    result = bisect(graph, refusing(all_parts, TARGET), given, engine="numpy")
    kind, places = named(result)
    assert kind == "by-itself"
    assert TARGET in places
    assert len(result.refused) == 5
    right = bisect(graph, refusing(all_parts), given, engine="numpy")
    assert right.ok
    assert len(right.refused) == 5


def test_an_operator_that_no_part_may_have_is_listed_as_not_judged() -> None:
    backend = refusing(lambda part, names: TARGET in [op.location for op in part.main.operators])
    result = bisect(program("TANH", masked=True), backend, inputs("TANH"), engine="numpy")
    assert result.ok
    (note,) = result.notes
    assert note.startswith("not judged by themselves")
    assert note.endswith(": operator #3 TANH")


def test_a_wrong_state_may_be_of_any_operator_that_was_refused() -> None:
    backend = refusing(all_parts, TARGET)
    graph = with_state("TANH")
    result = bisect(graph, backend, inputs_of(graph), engine="numpy")
    kind, places = named(result)
    assert kind == "by-itself"
    assert {TARGET, WRITE} <= set(places)
    assert result.compared


@pytest.mark.parametrize("runs", [1, 2])
def test_a_fault_of_the_first_runs_is_named_as_such(runs: int) -> None:
    backend = Faulty(change=one_element, at_first=runs)
    kind, places = named(bisect(program("TANH"), backend, inputs("TANH"), engine="numpy"))
    # The second run judges the operators, and the first only the outputs.
    expected = ("first-run", ['loc("last")']) if runs == 1 else ("nondeterministic", [TARGET])
    assert (kind, places) == expected


def test_a_fault_of_outputs_that_are_asked_for_together_is_named_as_such() -> None:
    graph = program("TANH")
    graph.main.outputs.append("first")
    backend = Faulty(change=one_element, fused_with='loc("after")', beside='loc("first")')
    result = bisect(graph, backend, inputs("TANH"), engine="numpy")
    kind, places = named(result)
    assert kind == "in-context"
    assert {TARGET, 'loc("after")', 'loc("first")'} <= set(places)
    assert any("only if these outputs are asked for together" in note for note in result.notes)


class WrongOnOthers(CorrectBackend):
    """Changes the target's result where its operand is not the right one, which `second` rounds."""

    def __init__(self, right: Array) -> None:
        super().__init__()
        self.right = right

    def changed(
        self,
        block: Block,
        op: Operator,
        operands: Mapping[str, AnyValue],
        results: dict[str, AnyValue],
        states: dict[str, Array],
    ) -> dict[str, AnyValue]:
        if op.location == 'loc("second")':
            return {name: moved(1 + 2.0**-23)(plain(array), 0) for name, array in results.items()}
        if op.location == TARGET and not np.array_equal(plain(operands[op.inputs[0]]), self.right):
            return {name: one_element(plain(array), 0) for name, array in results.items()}
        return results


def test_an_operator_is_judged_on_the_operands_that_the_backend_has() -> None:
    """It is right on golden operands, and wrong on those that the operator before it gives."""
    graph, given = program("TANH"), inputs("TANH")
    right = run(graph, given, intermediates="second", engine="numpy").intermediates["second"]
    result = bisect(graph, WrongOnOthers(right), given, engine="numpy")
    assert named(result) == ("by-itself", [TARGET])
    assert result.first is not None
    assert not np.array_equal(result.first.case.inputs["second"], right)
    assert result.inherits == ["last"]


class WrongWithOneInput(CorrectBackend):
    """Changes a result in every program with one input."""

    def changed(
        self,
        block: Block,
        op: Operator,
        operands: Mapping[str, AnyValue],
        results: dict[str, AnyValue],
        states: dict[str, Array],
    ) -> dict[str, AnyValue]:
        if op.location != FIRST or len(block.inputs) > 1:
            return results
        return {name: plain(array) + np.float32(0.5) for name, array in results.items()}


def test_an_operator_that_is_right_only_beside_others_is_wrong_by_itself() -> None:
    b = Builder()
    x = b.input("x", "fp32", (1, 4, 64))
    first = at(b, FIRST, b.clamp(b.abs(x), min_val=-3.0, max_val=3.0))
    b.output(b.add(first, b.sigmoid(b.tanh(x))))
    result = bisect(b.graph(), WrongWithOneInput(), X, engine="numpy")
    assert named(result) == ("by-itself", [FIRST])


class LastRun(Faulty):
    """Gives the target's results of the run before."""

    before: Array | None = None

    def changed(
        self,
        block: Block,
        op: Operator,
        operands: Mapping[str, AnyValue],
        results: dict[str, AnyValue],
        states: dict[str, Array],
    ) -> dict[str, AnyValue]:
        if op.location != TARGET:
            return results
        name = op.outputs[0]
        before = plain(results[name]) if self.before is None else self.before
        self.before = plain(results[name])
        return {name: before}


def test_an_operator_whose_results_are_those_of_the_run_before_is_named() -> None:
    backend = LastRun(change=lambda array, run: array)
    result = bisect(program("TANH"), backend, inputs("TANH"), engine="numpy")
    assert result.outputs is not None
    assert result.outputs.ok
    assert named(result) == ("nondeterministic", [TARGET])
    assert any("depend on the run before" in note for note in result.notes)
    assert not result.ok


#: Computes whole programs only, and a wrong result.
COMMAND = """
import sys
import numpy as np
import tosa_convert as tc
from tosa_convert import golden
graph = tc.load(sys.argv[1])
if len(graph.main.outputs) > 1 or graph.main.inputs != ["x"] or len(graph.main.operators) < 4:
    print("no such part", file=sys.stderr)
    sys.exit(77)
outputs = golden.run(graph, dict(np.load(sys.argv[2])), engine="numpy").outputs
np.savez(sys.argv[3], **{name: array + np.float32(0.5) for name, array in outputs.items()})
"""


@pytest.mark.slow
def test_a_command_that_ends_with_77_for_parts_gets_a_verdict(tmp_path: Path) -> None:
    (tmp_path / "command.py").write_text(COMMAND)
    b = Builder()
    b.output(b.negate(b.ceil(b.abs(b.tanh(b.input("x", "fp32", (1, 4)))))))
    backend = f"{sys.executable} {tmp_path / 'command.py'}"
    given = {"x": np.array([[0.5, 1, -2, 0.1]], np.float32)}
    result = bisect(b.graph(), backend, given, engine="numpy")
    assert result.first is not None
    assert "NEGATE" in result.first.operators[-1][1]
    assert len(result.refused) == 4
    assert set(result.refused.values()) == {"no such part"}


def test_a_race_that_a_whole_run_did_not_show_is_found_by_running_again() -> None:
    graph = program("TANH")

    class Race(CorrectBackend):
        runs = 0

        def compute(
            self,
            graph: Graph,
            names: list[str],
            inputs: Mapping[str, Array],
            cuts: list[str],
            folder: Path,
        ) -> Mapping[str, Array]:
            answer = dict(super().compute(graph, names, inputs, cuts, folder))
            self.runs += names == list(whole)
            return {
                n: own + 1 if n in whole and self.runs % 5 == 0 else own
                for n, own in answer.items()
            }

    whole = graph.main.outputs
    result = bisect(graph, Race(), inputs("TANH"), engine="numpy")
    assert result.outputs is not None
    assert result.outputs.ok
    assert not result.ok
    assert result.first is not None
    assert result.first.kind == "nondeterministic"
    assert any("check --repeat N" in note for note in result.notes)
