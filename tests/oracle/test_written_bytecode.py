"""Bytecode that we write: tosa-opt, torch-mlir and IREE have the module that tosa-opt imports.

For all of the official tests: `python tests/oracle/compare_written_bytecode.py DIR`.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from oracle import compare_written_bytecode, official_suite
from oracle.compare_written_bytecode import READERS, Comparison, Kind, Tally
from unit.building import graph, op, tensor

import tosa_convert as tc
from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.io.options import BYTECODE_VERSIONS

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(bool(official_suite.missing()), reason=official_suite.missing()),
]


@pytest.fixture(scope="module")
def comparison(torch_mlir: Bindings, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    pytest.importorskip("iree.compiler", reason="reads bytecode")
    return Comparison(tmp_path_factory.mktemp("written"))


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """Return a flatbuffer with constants of several types that become resources."""
    values = [
        tensor("a", "FP32", (300,), np.arange(300, dtype="<f4").tobytes()),
        tensor("b", "INT8", (301,), bytes(range(256)) + bytes(range(45))),
        tensor("c", "INT48", (100,), bytes(range(100)) * 6),
        tensor("d", "FP16", (200,), bytes(range(200)) * 2),
    ]
    made = graph("", "a b c d", list(values), [op("CONST", "", value.name) for value in values])
    tc.save(made, tmp_path / "m.tosa")
    return tmp_path / "m.tosa"


@pytest.mark.slow
def test_a_sample_of_the_official_tests_is_read_by_every_tool_in_every_version(
    official_cases: list[official_suite.Case],
    comparison: Comparison,
) -> None:
    files = [case.tosa for case in official_cases]
    tally = Tally()
    for file in Random(12).sample(files, 12):
        for found in comparison.compare(file):
            tally.add(found)
    assert tally.passed, "\n".join(tally.lines())


def test_resources_are_read_by_every_tool_in_every_version(
    comparison: Comparison, weights: Path
) -> None:
    tally = Tally()
    for found in comparison.compare(weights):
        tally.add(found)
    assert tally.passed, "\n".join(tally.lines())
    for reader in READERS:
        for version in BYTECODE_VERSIONS:
            assert tally.equal[reader, version, Kind.RESOURCES] == 1


def test_another_program_in_our_file_is_a_difference(
    comparison: Comparison, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = compare_written_bytecode.written

    def changed(made: tc.Graph, version: int, **options: Any) -> bytes:
        return real(made, version, **options).replace(bytes(range(100)), bytes(100))

    monkeypatch.setattr(compare_written_bytecode, "written", changed)
    found = list(comparison.compare(weights))
    dense = [outcome for outcome in found if outcome.kind is not Kind.RESOURCES]
    assert len(dense) == len(READERS) * len(BYTECODE_VERSIONS)
    assert all(outcome.difference for outcome in dense)


def test_a_file_that_a_tool_refuses_is_a_difference(
    comparison: Comparison, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = compare_written_bytecode.written

    def cut_off(made: tc.Graph, version: int, **options: Any) -> bytes:
        data = real(made, version, **options)
        return data[:-1] if options.get("names") else data

    monkeypatch.setattr(compare_written_bytecode, "written", cut_off)
    found = [
        outcome for outcome in comparison.compare(weights) if outcome.kind is not Kind.RESOURCES
    ]
    assert all("refused" in outcome.difference for outcome in found)
