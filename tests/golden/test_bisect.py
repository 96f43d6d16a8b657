from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from golden.conftest import MakeBuilder
from golden.model_programs import generate_for_model

import tosa_convert as tc
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.accuracy.criteria import Tolerances
from tosa_convert.golden.arrays import load_npz, match, save_npz
from tosa_convert.golden.backends.isolated import Command, OtherModel
from tosa_convert.golden.backends.runners import Record, open_backend
from tosa_convert.golden.checking.check import check
from tosa_convert.golden.running.programs import as_graph, input_slots
from tosa_convert.golden.running.random_inputs import random_inputs
from tosa_convert.golden.running.run import iterate_tensors, run
from tosa_convert.graph import BlockScale, Graph, dtype, operator
from tosa_convert.graph.dtypes import BlockShape
from tosa_convert.qualify.bisection.bisect import bisect
from tosa_convert.qualify.bisection.judge_operators import save_case

pytestmark = pytest.mark.usefixtures("refmodel")
X = np.arange(24, dtype=np.int32).reshape(2, 3, 4) - 7


def network(builder: MakeBuilder, n: int, wrong: int = -1) -> Graph:
    """n operators in a row; number `wrong` has another attribute."""
    b = builder()
    b.input("x", "INT32", (2, 3, 4))
    b.const("k", "INT32", np.full((1, 1, 1), 5))
    current = "x"
    for i in range(n):
        if i % 3 == 0:
            current = b.op("ADD", [current, "k"], f"t{i}", "INT32", (2, 3, 4))
        else:
            axis = i % 2 + (i == wrong)
            current = b.op("REVERSE", [current], f"t{i}", "INT32", (2, 3, 4), axis=axis)
    return b.graph(current)


@pytest.fixture
def pair(builder: MakeBuilder, tmp_path: Path) -> tuple[Graph, Path]:
    path = tmp_path / "other.tosa"
    tc.save(network(builder, 40, 23), path)
    return network(builder, 40), path


def test_the_altered_operator_is_named_with_its_location(pair: tuple[Graph, Path]) -> None:
    graph, other = pair
    result = bisect(graph, OtherModel(str(other), 60), {"x": X})
    assert not result.ok
    assert result.first is not None
    ((_, path, location, text),) = result.first.operators
    assert (path, location) == ("operator #24 REVERSE", 'loc("t23")')
    assert '"t22" INT32[2, 3, 4]' in text
    assert result.outputs is not None
    assert [tensor.name for tensor in result.outputs.failures] == ["t39"]
    assert result.first.kind == "by-itself"


@pytest.mark.slow
def test_the_batch_size_does_not_change_the_answer(pair: tuple[Graph, Path]) -> None:
    graph, other = pair
    for limit in (1, 96 * 5, 1 << 30):
        result = bisect(graph, OtherModel(str(other), 60), {"x": X}, batch_bytes=limit)
        assert result.first is not None
        assert result.first.operators[0][2] == 'loc("t23")'
        assert result.largest_batch <= max(limit, 96)


def test_two_equal_models_have_no_divergence(builder: MakeBuilder, tmp_path: Path) -> None:
    graph = network(builder, 10)
    tc.save(graph, tmp_path / "same.tosa")
    result = bisect(graph, OtherModel(str(tmp_path / "same.tosa"), 60), {"x": X})
    assert result.ok
    assert (result.compared, result.first) == (10, None)


def test_the_case_fails_by_itself_and_passes_when_it_is_fixed(
    pair: tuple[Graph, Path], tmp_path: Path
) -> None:
    graph, other = pair
    backend = OtherModel(str(other), 60)
    result = bisect(graph, backend, {"x": X})
    assert result.first is not None
    save_case(result.first, tmp_path / "case", backend)
    case = as_graph(tmp_path / "case" / "case.tosa")
    assert [op.spec.name for op in case.main.operators] == ["REVERSE"]
    inputs = match(input_slots(case), load_npz(tmp_path / "case" / "inputs.npz"))
    broken = OtherModel(str(tmp_path / "case" / "found.tosa"), 60)
    assert not check(case, broken, inputs).ok
    fixed = OtherModel(str(tmp_path / "case" / "case.tosa"), 60)
    assert check(case, fixed, inputs).ok
    expected = Record("e", load_npz(tmp_path / "case" / "expected.npz"))
    assert check(case, expected, inputs).ok
    assert json.loads((tmp_path / "case" / "case.json").read_text())["operators"]


def test_recorded_results_name_the_operator_whose_inputs_agree_and_whose_output_differs(
    pair: tuple[Graph, Path],
) -> None:
    graph, other = pair
    wrong = as_graph(other)
    left = {i.name: i.arrays[i.name] for i in iterate_tensors(wrong, {"x": X})}
    result = bisect(graph, Record("left", left), {"x": X})
    assert result.first is not None
    assert [row[1] for row in result.first.operators] == ["operator #24 REVERSE"]
    # Without the tensors around it, all operators between the recorded tensors are reported.
    for name in ("t22", "t21", "t23"):
        del left[name]
    result = bisect(graph, Record("left", left), {"x": X})
    assert result.first is not None
    assert [row[0] for row in result.first.operators] == [22, 23, 24, 25]
    assert not result.notes


def test_recorded_outputs_alone_are_judged_with_a_hint(pair: tuple[Graph, Path]) -> None:
    graph, other = pair
    outputs = tc.run(as_graph(other), {"x": X}).outputs
    text = str(bisect(graph, Record("left", outputs), {"x": X}))
    assert "\n1 tensor judged\n" in text
    assert "only outputs are recorded: to name fewer operators, record tensors between" in text


def test_an_operator_is_not_reported_for_an_error_in_its_input(builder: MakeBuilder) -> None:
    """A tensor has an allowed error; the next operator is correct but magnifies the error."""
    b = builder()
    b.input("x", "FP32", (4,))
    b.const("big", "FP32", [1e4])
    b.const("shift", "INT8", [0])
    b.op("ABS", ["x"], "a", "FP32", (4,))
    b.op("MUL", ["a", "big", "shift"], "m", "FP32", (4,))
    graph = b.graph("m")
    x = np.array([1, 2, 3, 4], np.float32)
    off = np.abs(x) + np.float32(1e-3)
    left = Record("left", {"a": off, "m": off * np.float32(1e4)})
    limits = Tolerances((("a", 1e-2),))
    result = bisect(graph, left, {"x": x}, tolerances=limits)
    assert not result.ok
    assert result.first is not None
    assert result.first.kind == "within-rules"
    assert [row[1] for row in result.first.operators] == ["operator #2 ABS", "operator #3 MUL"]


def test_a_record_without_any_tensor_of_the_model_is_refused(chain: Graph) -> None:
    with pytest.raises(TosaConvertError, match="no tensor of the model"):
        bisect(chain, Record("left", {"nothing": X}), {"x": X.reshape(-1)[:4].copy()})


SCRIPT = """
import sys
import numpy as np
from tosa_convert import golden
model, source, target = sys.argv[1:]
with np.load(source) as archive:
    inputs = dict(archive)
outputs = golden.run(model, inputs).outputs
for name in outputs:
    if name == "t6":
        outputs[name] = outputs[name] + 1
np.savez(target, **outputs)
"""


@pytest.mark.slow
def test_any_command_can_be_the_backend(builder: MakeBuilder, tmp_path: Path) -> None:
    script = tmp_path / "backend.py"
    script.write_text(SCRIPT)
    graph = network(builder, 9)
    backend = open_backend(f"{sys.executable} {script}", graph, {"x": X})
    assert isinstance(backend, Command)
    assert check(graph, backend, {"x": X}).ok  # the last tensor is right
    result = bisect(graph, backend, {"x": X})
    assert result.first is not None
    assert result.first.operators[0][2] == 'loc("t6")'
    placed = f"{sys.executable} {script} {{model}} {{inputs}} {{outputs}}"
    assert check(graph, open_backend(placed, graph, {"x": X}), {"x": X}).ok


def test_a_command_that_fails_is_an_error_with_its_last_message(chain: Graph) -> None:
    backend = open_backend(f"{sys.executable} -c 'raise SystemExit(\"no luck\")'", chain, {})
    with pytest.raises(TosaConvertError, match="no luck") as caught:
        check(chain, backend, {"x": np.zeros(4, np.int32)})
    assert caught.value.code == "backend-failed"
    for text in ("no-such-command-anywhere x", "an 'unclosed quote", ""):
        with pytest.raises(TosaConvertError) as caught:
            open_backend(text, chain, {})
        assert caught.value.code == "missing-backend"


def test_folders_and_archives_of_results_are_backends(chain: Graph, tmp_path: Path) -> None:
    x = np.array([3, -4, 0, 7], np.int32)
    right = run(chain, {"x": x}).outputs
    save_npz(tmp_path / "r.npz", right)
    (tmp_path / "d").mkdir()
    np.save(tmp_path / "d" / "c.npy", right["c"] + 1)
    assert check(chain, open_backend(str(tmp_path / "r.npz"), chain, {}), {"x": x}).ok
    result = check(chain, open_backend(str(tmp_path / "d"), chain, {}), {"x": x})
    assert not result.ok
    assert result.tensors[0].needed_atol == 1
    assert result.tensors[0].operator == "operator #3 SUB"
    save_npz(tmp_path / "empty.npz", {})
    assert not check(chain, open_backend(str(tmp_path / "empty.npz"), chain, {}), {"x": x}).ok


def test_floating_point_is_judged_by_the_operators_rule(builder: MakeBuilder) -> None:
    b = builder()
    b.input("x", "FP32", (64,))
    b.op("EXP", ["x"], "e", "FP32", (64,))
    graph = b.graph("e")
    x = np.linspace(-3, 3, 64, dtype=np.float32)
    near = Record("near", {"e": np.exp(x)})
    result = check(graph, near, {"x": x})
    assert result.ok
    assert result.tensors[0].rule == "abs-error"
    far = Record("far", {"e": np.exp(x) * np.float32(1 + 1e-5)})
    assert not check(graph, far, {"x": x}).ok
    assert check(graph, far, {"x": x}, tolerances=Tolerances((), (("e", 1e-4),))).ok


def test_a_backend_that_needs_another_input_is_an_error(
    chain: Graph, builder: MakeBuilder, tmp_path: Path
) -> None:
    b = builder()
    b.input("x", "INT32", (4,))
    b.input("more", "INT32", (4,))
    b.op("ADD", ["x", "more"], "c", "INT32", (4,))
    tc.save(b.graph("c"), tmp_path / "other.tosa")
    with pytest.raises(TosaConvertError, match='input "more": error: it is missing') as caught:
        check(chain, OtherModel(str(tmp_path / "other.tosa"), 60), {"x": np.zeros(4, np.int32)})
    assert caught.value.code == "input-mismatch"


def test_operators_are_given_golden_operands_and_other_tensors_are_ignored(
    pair: tuple[Graph, Path],
) -> None:
    graph, other = pair

    class Spy(OtherModel):
        asked: ClassVar[list[tuple[list[str], list[str]]]] = []

        def compute(self, graph: Any, names: Any, inputs: Any, cuts: Any, folder: Any) -> Any:
            found = super().compute(graph, names, inputs, cuts, folder)
            self.asked.append((names, cuts))
            return {**found, "x": -found[names[-1]]}  # not asked for: it must not become the input

    result = bisect(graph, Spy(str(other), 60), {"x": X}, batch_bytes=96 * 4)
    assert result.first is not None
    assert result.first.operators[0][2] == 'loc("t23")'
    assert Spy.asked[:5] == [
        (["t39"], []),
        (["t0", "t2"], ["t1"]),
        (["t1", "t3"], ["t0", "t2"]),
        (["t4", "t6"], ["t3", "t5"]),
        (["t5", "t7"], ["t4", "t6"]),
    ]


def test_a_search_in_a_graph_without_operators_compares_nothing(
    builder: MakeBuilder, tmp_path: Path
) -> None:
    b = builder()
    b.input("x", "INT32", (4,))
    graph = b.graph("x")
    tc.save(graph, tmp_path / "same.tosa")
    result = bisect(graph, OtherModel(str(tmp_path / "same.tosa"), 60), {"x": X.reshape(-1)[:4]})
    assert (result.ok, result.compared) == (False, 0)
    assert "nothing was compared" in str(result)


def test_scales_are_compared_too(builder: MakeBuilder) -> None:
    b = builder()
    scale = BlockScale(dtype("FP8UE8M0"), BlockShape.BLOCK_SHAPE_32)
    b.block.inputs.append(b.tensor("x", "FP6E2M3", (2, 32), scale=scale))
    again = BlockScale(dtype("FP8UE8M0"), BlockShape.BLOCK_SHAPE_32)
    b.shape("s", [1, 64])
    b.op("RESHAPE", ["x", "s"], "y", "FP6E2M3", (1, 64))
    b.block.tensors["y"].scale = again
    graph = b.graph("y")
    inputs = random_inputs(graph, input_slots(graph), 3)
    found = run(graph, inputs).outputs
    assert check(graph, Record("left", found), inputs).ok
    codes = found["y/scale"].view(np.uint8).copy()
    codes[0, 0] += 1
    wrong = Record("left", {**found, "y/scale": codes.view(found["y/scale"].dtype)})
    assert [t.name for t in check(graph, wrong, inputs).failures] == ["y/scale"]
    result = bisect(graph, wrong, inputs)
    assert result.first is not None
    assert [row[1] for row in result.first.operators] == ["operator #1 RESHAPE"]


OTHERS = {"ADD": "SUB", "MAXIMUM": "MINIMUM", "SIN": "COS", "TANH": "SIGMOID", "CEIL": "FLOOR"}


@pytest.mark.slow
def test_an_operator_altered_in_a_random_graph_is_named_wherever_it_is(tmp_path: Path) -> None:
    named = {"main": 0, "region": 0}
    for seed in range(0, 30, 2):
        graph, other = generate_for_model(seed, 25), generate_for_model(seed, 25)
        inputs = random_inputs(graph, input_slots(graph), seed)
        for number, region in enumerate(other.regions):
            altered = [op for op in region.blocks[0].operators if op.spec.name in OTHERS][-1:]
            if not altered:
                continue
            was = altered[0].spec
            altered[0].spec = operator(OTHERS[was.name])
            tc.save(other, tmp_path / "other.tosa")
            altered[0].spec = was
            backend = OtherModel(str(tmp_path / "other.tosa"), 60)
            result = bisect(graph, backend, inputs, batch_bytes=1 << 14)
            if result.ok:
                continue  # a branch that is not taken, or values for which both are the same
            assert result.first is not None, f"seed {seed}: {altered[0]}: {result}"
            ((_, path, location, _),) = result.first.operators
            assert (path.split()[-1], location) == (was.name, altered[0].location)
            named["region" if number else "main"] += 1
    assert named["main"] > 3, named
    assert named["region"] > 1, named
