"""The faults of `fault_bench/strangers_*.py` are faults: inputs show each beyond doubt."""

from __future__ import annotations

import numpy as np
import pytest
from golden.fault_bench import strangers_inputs
from golden.fault_bench.fault import Fault, FaultyMachine
from golden.fault_bench.strangers_support import faulty_run, honest_runs, is_clear

FILES = (strangers_inputs,)
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


def test_titles_are_unique() -> None:
    titles = [fault.title for fault in FAULTS]
    assert len(set(titles)) == len(titles)
