"""Programs contain no reference cycles: their memory is freed with the last reference."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from unit.building import branching

from tosa_convert import api
from tosa_convert.builder.edit import BlockEditor
from tosa_convert.errors import TosaConvertError
from tosa_convert.graph.model import Operator
from tosa_convert.io.garbage_collection import garbage_collection_paused
from tosa_convert.rewrites import public
from tosa_convert.rewrites.operator_pass import OperatorRewrite

#: An object of ours that is part of a cycle keeps weights alive until the collector runs.
_OURS = "tosa_convert."


@pytest.fixture
def restored() -> Iterator[None]:
    """Restores the collector after a test."""
    thresholds, enabled = gc.get_threshold(), gc.isenabled()
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.set_threshold(*thresholds)
    (gc.enable if enabled else gc.disable)()


def garbage() -> list[str]:
    """Return the classes of those of our objects that only the collector could free."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    kinds = [type(found) for found in gc.garbage]
    gc.garbage.clear()
    return sorted({kind.__name__ for kind in kinds if kind.__module__.startswith(_OURS)})


@pytest.mark.slow
@pytest.mark.parametrize("target", ["tosa", "json", "mlir", "mlirbc"])
@pytest.mark.parametrize("source", ["tosa", "json", "mlir", "mlirbc"])
def test_reading_and_writing_leave_no_cycles(
    source: str, target: str, tmp_path: Path, restored: None
) -> None:
    if "mlir" in source + target:
        pytest.importorskip("torch_mlir", reason="reads and writes MLIR")
    first, second = tmp_path / f"first.{source}", tmp_path / f"second.{target}"
    api.save(branching(), first)
    api.save(api.load(first), second)  # imports what is needed: modules contain cycles
    gc.collect()
    gc.disable()
    graph = api.load(first)
    assert garbage() == []
    api.save(graph, second)
    assert garbage() == []
    del graph
    assert garbage() == []


def test_cycles_are_found() -> None:
    """The check above can fail."""
    gc.collect()
    gc.disable()
    graph = branching()
    graph.regions.append(graph)  # type: ignore[arg-type]
    del graph
    try:
        assert "Graph" in garbage()
    finally:
        gc.enable()


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "m.tosa"
    api.save(branching(), path)
    return path


def generations() -> list[dict[str, int]]:
    return gc.get_stats()


def test_the_library_leaves_the_collector_of_its_host_as_it_was(
    program: Path, restored: None
) -> None:
    """Objects of the host also stay in their generations."""
    gc.set_threshold(1 << 30)
    gc.collect()
    before, frozen = generations(), gc.get_freeze_count()
    marker: list[object] = []
    marker.append(marker)
    graph = api.load(program)
    api.save(graph, program.with_name("n.tosa"))
    assert gc.isenabled()
    assert gc.get_threshold()[0] == 1 << 30
    assert gc.get_freeze_count() == frozen
    assert generations() == before, "nothing was collected"
    if sys.version_info < (3, 14):  # Python 3.14 has fewer generations
        assert any(found is marker for found in gc.get_objects(generation=0))
    marker.clear()


def test_objects_that_the_host_froze_stay_frozen(program: Path) -> None:
    gc.freeze()
    try:
        count = gc.get_freeze_count()
        api.load(program)
        assert gc.get_freeze_count() == count
    finally:
        gc.unfreeze()


def test_nothing_is_collected_while_a_graph_is_made(program: Path, restored: None) -> None:
    gc.set_threshold(1)
    with garbage_collection_paused():
        collections = [generation["collections"] for generation in generations()]
        objects: list[list[int]] = [[] for _ in range(1000)]
        assert [generation["collections"] for generation in generations()] == collections
    assert len(objects) == 1000
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off(program: Path, restored: None) -> None:
    gc.disable()
    api.load(program)
    assert not gc.isenabled()


def test_a_collector_is_on_again_after_a_failure(restored: None) -> None:
    with pytest.raises(TosaConvertError):
        api.load(b"\x10\0\0\0TOSA")
    assert gc.isenabled()


@pytest.mark.parametrize(("verb", "is_enabled"), [("convert", False), ("run", True)])
def test_the_command_turns_the_collector_off_where_it_ends_soon(
    verb: str, is_enabled: bool
) -> None:
    code = (
        "import gc\n"
        "from tosa_convert.cli.ending import before_own_work\n"
        f"before_own_work({verb!r})\n"
        f"assert gc.isenabled() is {is_enabled}"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_nothing_is_collected_while_a_graph_is_rewritten(program: Path, restored: None) -> None:
    def noted(op: Operator, edit: BlockEditor) -> None:
        enabled.add(gc.isenabled())

    enabled: set[bool] = set()
    graph = api.load(program)
    gc.enable()
    row = OperatorRewrite(
        "noted", "clean-up", "", noted, tuple({o.spec for o in graph.main.operators})
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(public, "REWRITES", (row,))
        public.apply(graph)
    assert enabled == {False}
    assert gc.isenabled()
