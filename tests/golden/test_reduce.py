"""What `reduce` leaves: the fewest operators that fail, small sizes, and simple attributes and data."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tosa_convert as tc
from tosa_convert import golden
from tosa_convert.builder import Builder
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.arrays import load_npz
from tosa_convert.golden.running.programs import input_slots
from tosa_convert.golden.running.random_inputs import random_inputs
from tosa_convert.graph import Graph
from tosa_convert.graph.derived import computed_tensors, extract
from tosa_convert.graph.model import DYNAMIC
from tosa_convert.qualify.random_graphs.generate import generate
from tosa_convert.qualify.reduction.cutting import Cut, Shrinker
from tosa_convert.qualify.reduction.reduce import reduce
from tosa_convert.qualify.reduction.simplifying import Candidate, Simplifier
from tosa_convert.rules.public import find_violations

CONVOLUTION: Any = {"pad": (0, 0, 0, 0), "stride": (1, 1), "dilation": (1, 1)}


def network() -> Graph:
    """Return operators in a row, with sizes of all kinds."""
    b = Builder()
    weight = np.linspace(-1, 1, 1152, dtype=np.float32).reshape(16, 3, 3, 8)
    x = b.input("x", "fp32", (1, 16, 16, 8))
    y = b.conv2d(
        x, weight, np.ones(16, np.float32), pad=(0, 1, 0, 1), stride=(2, 2), dilation=(1, 1)
    )
    y = b.sigmoid(b.tanh(y))
    y = b.abs(b.exp(b.reshape(y, [1, 64, 16])))
    b.output(b.reduce_sum(y, axis=1))
    return b.graph()


def short_network() -> Graph:
    b = Builder()
    x = b.input("x", "fp32", (1, 8, 8, 4))
    y = b.conv2d(x, np.ones((4, 1, 1, 4), np.float32), np.ones(4, np.float32), **CONVOLUTION)
    b.output(b.exp(b.tanh(y)))
    return b.graph()


def kinds(graph: Graph) -> list[str]:
    names = [op.spec.name for op in graph.main.operators]
    return [name for name in names if not name.startswith("CONST")]


def smallest(graph: Graph, fails: Callable[[Graph], bool]) -> tuple[Graph, Shrinker, Cut]:
    shrinker = Shrinker(graph, lambda cut: fails(shrinker.extract(cut)), sys.maxsize)
    best = shrinker.shrink((tuple(graph.main.outputs), ()))
    return shrinker.extract(best), shrinker, best


@pytest.mark.parametrize("seed", range(1, 12))
def test_no_operator_can_be_left_out(seed: int) -> None:
    whole = generate(seed, 20)
    graph = extract(whole, whole.main.outputs)
    places = [graph.main.operators[index].location for index, _ in computed_tensors(graph)]
    chosen = {str(place) for place in np.random.default_rng(seed).choice(places, 3)}

    def fails(graph: Graph) -> bool:
        return chosen <= {op.location for op in graph.main.operators}

    part, shrinker, best = smallest(graph, fails)
    assert fails(part)
    kept = shrinker._indices(best)
    for index in kept:
        fewer = shrinker._of_operators([i for i in kept if i != index], best)
        if fewer is not None and len(shrinker._indices(fewer)) < len(kept):
            assert not fails(shrinker.extract(fewer))


def simplified(graph: Graph, fails: Callable[[Candidate], bool]) -> Candidate:
    inputs = random_inputs(graph, input_slots(graph), 1)
    return Simplifier(Candidate(graph, inputs), fails).simplify()


def test_sizes_attributes_and_data_become_simple() -> None:
    found = simplified(network(), lambda candidate: True)
    assert kinds(found.graph) == kinds(network())
    tensors = found.graph.main.tensors.values()
    assert {size for tensor in tensors for size in tensor.shape or ()} == {1}
    assert all(not tensor.data.numpy().any() for tensor in tensors if tensor.data is not None)
    (conv,) = [op for op in found.graph.main.operators if op.spec.name == "CONV2D"]
    assert conv.attributes["pad"] == (0, 0, 0, 0)
    assert conv.attributes["stride"] == (1, 1)
    assert found.arrays is not None
    assert found.arrays["x"].tolist() == [[[[0.0]]]]


def test_what_the_failure_needs_stays() -> None:
    """At least 5 channels, a stride of 2, and an input that is not zero."""

    def fails(candidate: Candidate) -> bool:
        (conv,) = [op for op in candidate.graph.main.operators if op.spec.name == "CONV2D"]
        (weight,) = [t for t in candidate.graph.main.tensors.values() if len(t.shape or ()) == 4][
            :1
        ]
        channels = (candidate.graph.main.tensors[conv.inputs[1]].shape or (0,))[0]
        assert weight is not None
        assert candidate.arrays is not None
        return (
            channels >= 5
            and conv.attributes["stride"] == (2, 2)
            and bool(candidate.arrays["x"].any())
        )

    found = simplified(network(), fails)
    assert fails(found)
    (conv,) = [op for op in found.graph.main.operators if op.spec.name == "CONV2D"]
    assert (found.graph.main.tensors[conv.inputs[1]].shape or (0,))[0] in (5, 8)
    assert found.arrays is not None
    assert np.unique(found.arrays["x"]).size == 1


@pytest.mark.parametrize("seed", [1, 3, pytest.param(8, marks=pytest.mark.slow)])
def test_every_candidate_is_a_program_that_runs(seed: int) -> None:
    graph = generate(seed, 12)
    asked = 0

    def fails(candidate: Candidate) -> bool:
        nonlocal asked
        asked += 1
        assert not find_violations(candidate.graph)
        assert candidate.arrays is not None
        slots = {slot.key: slot.shape for slot in input_slots(candidate.graph)}
        assert {key: array.shape for key, array in candidate.arrays.items()} == slots
        sizes = [s for t in candidate.graph.main.tensors.values() for s in t.shape or ()]
        assert DYNAMIC not in sizes
        return True

    found = simplified(graph, fails)
    assert asked
    assert [op.spec for op in found.graph.main.operators if op.spec.name != "CONST_SHAPE"] == [
        op.spec for op in graph.main.operators if op.spec.name != "CONST_SHAPE"
    ]
    golden.run(found.graph, found.arrays, engine="numpy")


#: Ends with 3 for CONV2D and EXP in one program, and with another code once the sizes are small.
COMMAND = """
import sys, numpy as np
import tosa_convert as tc
block = tc.load(sys.argv[1]).main
names = {op.spec.name for op in block.operators}
open(sys.argv[0] + ".log", "a").write("x")
if len(sys.argv) > 2:
    arrays = dict(np.load(sys.argv[2]))
    assert {n: block.tensors[n].shape for n in block.inputs} == {n: a.shape for n, a in arrays.items()}
fails = {"CONV2D", "EXP"} <= names
large = any(size > 2 for tensor in block.tensors.values() for size in tensor.shape)
sys.exit(fails and (3 if large else 5))
"""


@pytest.fixture
def command(tmp_path: Path) -> str:
    (tmp_path / "command.py").write_text(COMMAND)
    return f"{sys.executable} {tmp_path / 'command.py'} {{model}} {{inputs}}"


@pytest.mark.slow
def test_a_command_fails_on_the_smallest_program_as_on_the_first(
    command: str, tmp_path: Path
) -> None:
    result = reduce(short_network(), command, tmp_path / "w", random=1, engine="numpy")
    assert set(kinds(result.graph)) == {"CONV2D", "EXP"}
    sizes = [s for t in result.graph.main.tensors.values() for s in t.shape or ()]
    assert 2 < max(sizes) <= 4
    assert result.complete
    written = tc.load(tmp_path / "w" / "reduced.tosa")
    assert kinds(written) == kinds(result.graph)
    inputs = load_npz(tmp_path / "w" / "inputs.npz")
    assert {n: written.main.tensors[n].shape for n in written.main.inputs} == {
        name: array.shape for name, array in inputs.items()
    }


@pytest.mark.slow
def test_a_bounded_reduction_continues(command: str, tmp_path: Path) -> None:
    log = tmp_path / "command.py.log"
    first = reduce(short_network(), command, tmp_path / "w", random=1, engine="numpy", runs=4)
    assert (first.complete, first.tried, len(log.read_text())) == (False, 4, 4)
    assert (tmp_path / "w" / "inputs.npz").exists()
    then = reduce(short_network(), command, tmp_path / "w", random=1, engine="numpy")
    assert (then.complete, then.reused) == (True, 4)
    assert len(log.read_text()) == then.tried + 4
    assert set(kinds(then.graph)) == {"CONV2D", "EXP"}
    again = reduce(short_network(), command, tmp_path / "w", random=1, engine="numpy", resume=True)
    assert (again.tried, again.cut) == (0, then.cut)
    with pytest.raises(TosaConvertError, match="another reduction"):
        reduce(short_network(), command + " x", tmp_path / "w", random=1, resume=True)
    with pytest.raises(TosaConvertError, match="expected at least 1"):
        reduce(short_network(), command, tmp_path / "w", random=1, runs=0)


def test_a_command_that_does_not_fail_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TosaConvertError, match="nothing to reduce"):
        reduce(short_network(), f"{sys.executable} -c 'pass'", tmp_path / "w", random=1)


@pytest.mark.slow
def test_an_interrupted_reduction_leaves_the_smallest_program_so_far(
    command: str, tmp_path: Path
) -> None:
    seen: list[str] = []

    def interrupted(text: str) -> None:
        seen.append(text)
        if len(seen) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reduce(
            short_network(), command, tmp_path / "w", random=1, engine="numpy", progress=interrupted
        )
    assert any(text.endswith("passes") for text in seen)
    best = [text for text in seen if text.endswith("fails")][-1]
    written = tc.load(tmp_path / "w" / "reduced.tosa")
    assert best.startswith(f"{len(kinds(written))} operator")
    inputs = load_npz(tmp_path / "w" / "inputs.npz")
    assert set(inputs) == set(written.main.inputs)
    result = reduce(short_network(), command, tmp_path / "w", random=1, engine="numpy")
    assert (result.complete, result.reused) == (True, 5)
