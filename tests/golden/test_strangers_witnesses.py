"""The faults of `fault_bench/strangers_*.py` are faults: inputs show each beyond doubt."""

from __future__ import annotations

import numpy as np
import pytest
from golden.fault_bench import (
    strangers_discrete,
    strangers_inputs,
    strangers_precision,
    strangers_structure,
)
from golden.fault_bench.fault import At, Change, Fault, FaultyMachine, Value
from golden.fault_bench.strangers_float_programs import mixed
from golden.fault_bench.strangers_support import faulty_run, honest_runs, is_clear, of, rows

FILES = (strangers_inputs, strangers_precision, strangers_structure, strangers_discrete)
FAULTS = [fault for file in FILES for fault in file.faults()]


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.title)
def test_inputs_show_the_fault_and_nothing_else(fault: Fault) -> None:
    graph = fault.program()
    assert fault.witness is not None
    inputs = fault.witness()
    with np.errstate(all="ignore"):
        right = honest_runs(graph, inputs)
        assert is_clear(right, faulty_run(fault.backend, graph, inputs))
        assert not is_clear(right, faulty_run(FaultyMachine, graph, inputs))


def _one_unit_off(at: At, results: list[Value]) -> list[Value]:
    return [np.nextafter(value, np.inf) for value in results if isinstance(value, np.ndarray)]


@pytest.mark.parametrize("change", [lambda at, results: results, _one_unit_off])
def test_what_tosa_permits_has_no_witness(change: Change) -> None:
    (fault,) = rows("none", "precision", change, "MATMUL", of(mixed, "FP16"), "plain", "halves")
    assert fault.witness is not None
    with pytest.raises(
        AssertionError, match="no inputs of the styles plain, halves show the fault"
    ):
        fault.witness()


def test_titles_are_unique() -> None:
    titles = [fault.title for fault in FAULTS]
    assert len(set(titles)) == len(titles)
