"""Fixtures of the contract tests: the official suite's sample, modules, and a model runner."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from oracle import official_suite

import tosa_convert as tc

CASES = Path(__file__).parent / "cases"


@pytest.fixture(scope="session")
def smallest(official_cases: list[official_suite.Case]) -> list[official_suite.Case]:
    """Return the smallest official file of each operator."""
    found: dict[str, official_suite.Case] = {}
    for case in sorted(official_cases, key=lambda case: (case.tosa.stat().st_size, case)):
        found.setdefault(case.operator, case)
    return sorted(found.values())


@pytest.fixture(scope="session")
def oracle() -> Any:
    """Return the native programs of tosa-tools."""
    problem = official_suite.missing()
    if problem:
        pytest.skip(f"tosa-tools cannot be used: {problem}")
    from contract import outside

    return outside


@pytest.fixture
def example(root: Path) -> Path:
    """Return the example network, MLIR bytecode."""
    return root / "examples" / "digits_cnn.mlirbc"


@pytest.fixture
def reference(oracle: Any) -> Any:
    """Run a program on the reference model: (program, inputs in order) -> outputs in order."""
    from tosa_convert import golden
    from tosa_convert.golden.running.programs import input_slots

    def run(graph: tc.Graph, *inputs: Any) -> list[Any]:
        slots = input_slots(graph)
        given = {slot.key: array for slot, array in zip(slots, inputs, strict=True)}
        outputs = golden.run(graph, given).outputs
        return [outputs[name] for name in graph.main.outputs]

    return run


@pytest.fixture
def reports(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the messages that are logged."""
    caplog.set_level(logging.INFO, "tosa_convert")
    lines: list[str] = []
    # All tests share the handler.
    monkeypatch.setattr(caplog.handler, "emit", lambda record: lines.append(record.getMessage()))
    return lines
