"""The faults of `fault_bench/third_party_*.py` are faults: inputs show each beyond doubt."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import numpy as np
import pytest
from golden.fault_bench import (
    third_party_discrete,
    third_party_inputs,
    third_party_precision,
    third_party_structure,
)
from golden.fault_bench.fault import At, Change, Fault, FaultyMachine, Value
from golden.fault_bench.third_party_float_programs import mixed
from golden.fault_bench.third_party_support import (
    correct_runs,
    faulty_run,
    inputs_of,
    is_clear,
    of,
    rows,
)

from tosa_convert.errors import TosaConvertError
from tosa_convert.graph import Graph

FILES = (third_party_inputs, third_party_precision, third_party_structure, third_party_discrete)
FAULTS = [fault for file in FILES for fault in file.faults()]


PROGRAMS = {
    fault.title.split(", ", 1)[1].rsplit(" ", 1)[0]: fault.program for fault in reversed(FAULTS)
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.title)
def test_inputs_show_the_fault(fault: Fault) -> None:
    assert fault.witness is not None
    assert fault.witness()


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_correct_backend_is_never_clearly_wrong(program: Callable[[], Graph]) -> None:
    graph = program()
    for style in ("plain", "halves", "nan", "tiny"):
        inputs = inputs_of(graph, style, 0)
        with np.errstate(all="ignore"), contextlib.suppress(TosaConvertError):
            assert not is_clear(
                correct_runs(graph, inputs), faulty_run(FaultyMachine, graph, inputs)
            )


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
