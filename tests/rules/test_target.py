"""Targets: checked, and preserved where a format has a place for them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from unit.building import example

import tosa_convert as tc
from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.formats.mlir import types
from tosa_convert.graph.model import Target, Version
from tosa_convert.rules.profiles import BY_MLIR, CAPABILITIES, check_target

FULL = Target("8K", ("PRO-INT", "PRO-FP"), ("EXT-INT16", "EXT-MX-FP8E4M3"))


def test_everything_that_is_wrong_with_a_target_is_reported() -> None:
    target = Target("16K", ("PRO-INT", "PRO-HALF"), ("EXT-FFT", "EXT-SHAPE"))
    assert [finding.message for finding in check_target(target, (1, 0))] == [
        "found level 16K, expected 8K or NONE",
        "TOSA has no PRO-HALF",
        "EXT-FFT needs PRO-FP",
        "EXT-SHAPE needs TOSA 1.1",
    ]
    assert list(check_target(FULL)) == []


def test_the_names_of_mlir_are_those_of_the_table() -> None:
    for name, row in BY_MLIR.items():
        kind = "profiles" if row.name.startswith("PRO") else "extensions"
        lists = {"profiles": "pro_int", "extensions": "int16", kind: name}
        text = (
            f"#tosa.target_env<level = none, profiles = [{lists['profiles']}], "
            f"extensions = [{lists['extensions']}]>"
        )
        target = types.read(text).target
        assert target is not None
        assert row.name in {*target.profiles, *target.extensions} <= CAPABILITIES.keys()


def test_mlir_preserves_the_target_and_the_exact_version(tmp_path: Path) -> None:
    graph = example()
    graph.target, graph.version = FULL, Version(1, 0, 2, draft=True)
    tc.save(graph, tmp_path / "m.mlirbc")
    back = tc.load(tmp_path / "m.mlirbc")
    tc.save(graph, tmp_path / "m.mlir")
    assert 'level = "8k", profiles = [pro_int, pro_fp]' in (tmp_path / "m.mlir").read_text()
    assert (back.target, back.version) == (FULL, graph.version)


def test_mlir_reads_the_target_that_is_written(bindings: Bindings, tmp_path: Path) -> None:
    graph = example()
    graph.target = Target("NONE", ("PRO-INT", "PRO-FP"), ("EXT-INT16", "EXT-BF16"))
    tc.save(graph, tmp_path / "m.mlirbc")
    context = bindings.new_context()
    module = bindings.ir.Module.parse((tmp_path / "m.mlirbc").read_bytes(), context)
    assert types.read(str(module.operation.attributes["tosa.target_env"])).target == graph.target


@pytest.mark.parametrize("suffix", [".tosa", ".json"])
def test_a_format_without_a_place_for_the_target_warns(
    suffix: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    graph = example()
    graph.target = FULL
    with caplog.at_level(logging.WARNING, "tosa_convert"):
        tc.save(graph, tmp_path / f"m{suffix}")
    (message,) = caplog.messages
    assert message.startswith(
        "the target PRO-INT,PRO-FP,EXT-INT16,EXT-MX-FP8E4M3 at level 8K is not"
    )
    assert tc.load(tmp_path / f"m{suffix}").target is None


def test_a_target_that_mlir_cannot_read_is_not_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    graph = example()
    graph.target = Target("8K", ("PRO-FP",))
    with caplog.at_level(logging.WARNING, "tosa_convert"):
        tc.save(graph, tmp_path / "m.mlirbc")
    assert "MLIR cannot read one without extensions" in caplog.text
    assert tc.load(tmp_path / "m.mlirbc").target is None
