"""Nothing waits for the cyclic garbage collector: a program's memory is free when nobody has it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from unit.building import branching

from tosa_convert import api, gc_pause

#: Whatever of ours becomes part of a cycle keeps weights alive for as long as the collector rests.
_OURS = "tosa_convert."


@pytest.fixture
def restored() -> Iterator[None]:
    """The collector as it was, whatever a test does with it."""
    thresholds, enabled = gc.get_threshold(), gc.isenabled()
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.set_threshold(*thresholds)
    (gc.enable if enabled else gc.disable)()


def garbage() -> list[str]:
    """The classes of those of our objects that only the collector could free."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    kinds = [type(found) for found in gc.garbage]
    gc.garbage.clear()
    return sorted({kind.__name__ for kind in kinds if kind.__module__.startswith(_OURS)})


@pytest.mark.parametrize("target", ["tosa", "json", "mlir", "mlirbc"])
@pytest.mark.parametrize("source", ["tosa", "json", "mlir", "mlirbc"])
def test_reading_and_writing_leave_no_cycles(
    source: str, target: str, tmp_path: Path, restored: None
) -> None:
    if "mlir" in source + target:
        pytest.importorskip("torch_mlir", reason="reads and writes MLIR")
    first, second = tmp_path / f"first.{source}", tmp_path / f"second.{target}"
    api.save(branching(), first)
    api.save(api.load(first), second)  # what is imported on the way has cycles of its own
    gc.collect()
    gc.disable()
    graph = api.load(first)
    assert garbage() == []
    api.save(graph, second)
    assert garbage() == []
    del graph
    assert garbage() == []


def test_cycles_are_found() -> None:
    """The check can fail."""
    gc.collect()
    gc.disable()
    graph = branching()
    graph.regions.append(graph)  # type: ignore[arg-type]
    del graph
    try:
        assert "Graph" in garbage()
    finally:
        gc.enable()


def young() -> int:
    """Objects that the collector has yet to look at."""
    return len(gc.get_objects(generation=0))


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restored: None) -> Path:
    """A file, with a collector that has looked at everything and does nothing by itself."""
    path = tmp_path / "m.tosa"
    api.save(branching(), path)
    monkeypatch.setattr(gc_pause, "_spared", 0)
    gc.set_threshold(1 << 30)
    gc.collect()
    return path


def test_the_collector_does_not_look_at_what_was_read(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = api.load(program)
    assert young() > len(few.main.operators)
    assert gc_pause._spared == 0
    monkeypatch.setattr(gc_pause, "MANY_OBJECTS", 0)
    many = api.load(program)
    assert young() < len(many.main.operators)
    assert gc_pause._spared == 1
    assert gc.get_freeze_count() == 0
    assert gc.isenabled()


def test_what_others_left_is_found_in_the_end(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gc_pause, "MANY_OBJECTS", 0)
    collections = gc.get_stats()[2]["collections"]
    for _ in range(gc_pause.SPARED_TIMES):
        api.load(program)
    assert gc.get_stats()[2]["collections"] == collections + 1


def test_a_collector_that_rests_is_left_alone(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gc_pause, "MANY_OBJECTS", 0)
    gc.disable()
    api.load(program)
    assert not gc.isenabled()
    assert gc_pause._spared == 0


def test_objects_that_somebody_froze_stay_frozen(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gc_pause, "MANY_OBJECTS", 0)
    gc.freeze()
    try:
        assert gc.get_freeze_count()
        api.load(program)
        assert gc.get_freeze_count()
        assert gc_pause._spared == 0
    finally:
        gc.unfreeze()
