"""The memory that a search uses: numpy reports every array to tracemalloc."""

from __future__ import annotations

import sys
import tracemalloc
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import tosa_convert as tc
from tosa_convert.golden.arrays import Array, LazyArrays, load_npz, save_npz
from tosa_convert.golden.backends.isolated import OtherModel
from tosa_convert.golden.backends.recorded_tensors import recorded
from tosa_convert.golden.backends.runners import Record, Runner, open_backend
from tosa_convert.golden.running.programs import as_graph
from tosa_convert.golden.running.run import iterate_tensors, save_to_folder
from tosa_convert.graph import Graph
from tosa_convert.qualify.bisection.bisect import bisect

pytestmark = pytest.mark.usefixtures("refmodel")
MIB = 1 << 20
TENSORS, BATCH = 24, 2 * MIB
SHAPE = (1, 256, 512)
X = np.arange(MIB // 8, dtype=np.int32).reshape(SHAPE)


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Graph, Path]:
    """Return a network and a file with another version of it, the last operator of which differs."""
    from golden.conftest import Builder

    def network(wrong: int) -> Graph:
        b = Builder()
        b.input("x", "INT32", SHAPE)
        current = "x"
        for i in range(TENSORS):
            k = b.const(f"k{i}", "INT32", np.full((1, 1, 1), i + 1 + (i == wrong)))
            current = b.op("ADD", [current, k], f"t{i}", "INT32", SHAPE)
        return b.graph(current)

    path = tmp_path_factory.mktemp("networks") / "other.tosa"
    tc.save(network(TENSORS - 1), path)
    return network(-1), path


@pytest.fixture(scope="module")
def left(networks: tuple[Graph, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the other version's tensors, a file for each."""
    folder = tmp_path_factory.mktemp("left")
    save_to_folder(iterate_tensors(as_graph(networks[1]), {"x": X}, batch_bytes=BATCH), folder)
    return folder


COMMAND = """
import sys
from tosa_convert import golden
from tosa_convert.golden.arrays import load_npz, save_npz
model, source, target = sys.argv[1:]
answer = golden.run(model, load_npz(source)).outputs
if "t23" in answer:
    answer["t23"] = answer["t23"] + 1
save_npz(target, answer)
"""


def search(graph: Graph, backend: Runner | Record, limit: int = BATCH) -> int:
    """Return the peak of a search that finds the last operator, in bytes of arrays."""
    tracemalloc.start()
    try:
        result = bisect(graph, backend, {"x": X}, batch_bytes=limit)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.first is not None
    assert result.first.operators[0][2] == f'loc("t{TENSORS - 1}")'
    assert result.compared == TENSORS
    assert result.largest_batch == limit
    return peak


@pytest.mark.slow
def test_a_search_holds_less_than_twice_a_batch_however_large_the_network(
    networks: tuple[Graph, Path],
) -> None:
    graph, other = networks
    assert search(graph, OtherModel(str(other), 60)) < 2 * BATCH < TENSORS * X.nbytes / 2


@pytest.mark.slow
def test_the_measurement_detects_a_search_that_holds_all_tensors(
    networks: tuple[Graph, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, other = networks
    kept = []
    read = LazyArrays.__getitem__

    def leak(self: LazyArrays, name: str) -> Array:
        kept.append(read(self, name))
        return kept[-1]

    monkeypatch.setattr(LazyArrays, "__getitem__", leak)
    assert search(graph, OtherModel(str(other), 60)) > 2 * BATCH


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["folder", "archive", "steps"])
def test_recorded_results_are_read_one_at_a_time(
    networks: tuple[Graph, Path], left: Path, tmp_path: Path, kind: str
) -> None:
    graph, _ = networks
    found = open_backend(str(left), graph, {"x": X})
    assert isinstance(found, Record)
    if kind == "archive":
        save_npz(tmp_path / "left.npz", found.arrays)
        found = open_backend(str(tmp_path / "left.npz"), graph, {"x": X})
    elif kind == "steps":
        names = [f"t{i}" for i in range(TENSORS)]
        assert set(names) == set(found.arrays)
        steps = [recorded(name, partial(found.arrays.__getitem__, name)) for name in names]
        found = Record("left", {}, lambda: steps)
    assert search(graph, found) < 2 * BATCH


@pytest.mark.slow
def test_a_command_is_given_a_batch_at_a_time(networks: tuple[Graph, Path], tmp_path: Path) -> None:
    graph, _ = networks
    script = tmp_path / "command.py"
    script.write_text(COMMAND)
    backend = open_backend(f"{sys.executable} {script}", graph, {"x": X})
    assert search(graph, backend, 3 * BATCH) < 2 * BATCH


def test_an_archive_is_written_one_array_at_a_time(tmp_path: Path) -> None:
    def read(name: str) -> Array:
        return np.full(MIB, ord(name), np.uint8)

    tracemalloc.start()
    try:
        save_npz(tmp_path / "a.npz", LazyArrays("abcdefghijklmnop", read))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * MIB
    back = load_npz(tmp_path / "a.npz")
    assert [(name, int(back[name][-1])) for name in back] == [
        (name, ord(name)) for name in "abcdefghijklmnop"
    ]
