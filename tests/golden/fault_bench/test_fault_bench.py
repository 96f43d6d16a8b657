"""The bench of faulty backends: its rows are faults, and `check` and `bisect` find and name them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain

import numpy as np
import pytest
from golden.fault_bench import magnitudes
from golden.fault_bench.fault import Fault, FaultyMachine, Inputs, at_target, faulty
from golden.fault_bench.known_misses import KNOWN_MISSES
from golden.fault_bench.programs import instead, program_of
from golden.fault_bench.reality import shows_fault
from golden.fault_bench.rows import all_faults, files, sample
from golden.fault_bench.run import inputs_of, judge, unfit

from tosa_convert.builder import Builder
from tosa_convert.golden.checking.check import check
from tosa_convert.qualify.bisection.bisect import bisect

FAULTS = all_faults()
SAMPLE = sample()


def given_to(fault: Fault) -> Iterator[Inputs]:
    """Iterate over the inputs of a fault, which are made when they are needed."""
    return (arrays for _, arrays in inputs_of(fault))


def halves(by: float) -> Fault:
    """Return a backend whose halves are multiplied by a number."""
    return Fault(
        kind="halves",
        family="precision",
        dtype="FP32",
        program=lambda: program_of("FP32", (2, 3), lambda b, x: b.mul(x, 0.5)),
        backend=faulty(instead(lambda r, *operands: r * by)),
    )


def test_the_bench_is_large_enough_and_titles_are_unique() -> None:
    titles = Counter(fault.title for fault in FAULTS)
    assert titles.most_common(1)[0][1] == 1
    assert len(FAULTS) >= 300
    assert len({fault.kind for fault in FAULTS}) >= 60
    assert {fault.family for fault in FAULTS} == {"inputs", "precision", "structure", "discrete"}


def test_the_sample_has_each_file_and_each_element_type_in_it() -> None:
    rows = [(name, fault) for name in files() for fault in all_faults([name])]
    wanted = {(name, fault.dtype) for name, fault in rows if fault.title not in KNOWN_MISSES}
    of = {fault.title: name for name, fault in rows}
    assert {(of[fault.title], fault.dtype) for fault in SAMPLE} == wanted
    assert {fault.dtype for fault in SAMPLE} == {fault.dtype for fault in FAULTS}
    assert {fault.family for fault in SAMPLE} == {fault.family for fault in FAULTS}


def test_each_known_miss_is_a_fault_of_the_bench() -> None:
    assert set(KNOWN_MISSES) <= {fault.title for fault in FAULTS}


def test_a_machine_without_a_fault_passes() -> None:
    graph = halves(1.0).program()
    _, given = next(inputs_of(halves(1.0)))
    assert check(graph, FaultyMachine(), given, engine="numpy").ok
    assert bisect(graph, FaultyMachine(), given, engine="numpy").ok


@pytest.mark.slow
def test_a_row_that_is_no_fault_is_refused() -> None:
    assert unfit(halves(1.0), {}) == "no inputs show it"
    assert unfit(halves(1 + 2.0**-26), {}) == "no inputs show it"
    assert unfit(halves(1.01), {}) == ""


@pytest.mark.slow
def test_what_is_not_found_or_named_is_said() -> None:
    assert judge(halves(1.0)).text == "every check passes"
    assert judge(halves(1.01)).named
    other = Fault(**{**{n: getattr(halves(1.01), n) for n in Fault.__slots__}, "location": "x"})
    answer = judge(other)
    assert answer.found
    assert not answer.named
    assert "are named" in answer.text


def test_nan_that_is_lost_is_a_fault() -> None:
    fault = next(f for f in FAULTS if f.kind == "clamp loses NaN")
    assert fault.witness is not None
    assert shows_fault(fault, [fault.witness()])
    given = {"x": np.zeros(fault.witness()["x"].shape, np.float32)}
    assert not shows_fault(fault, [given])


@pytest.mark.slow
@pytest.mark.parametrize("fault", SAMPLE, ids=lambda fault: fault.title)
def test_inputs_show_a_fault_that_check_finds_and_bisect_names(fault: Fault) -> None:
    # `nox -s faults` judges all of them, and verifies them with `-- --verify`.
    assert shows_fault(fault, chain([fault.witness()] if fault.witness else [], given_to(fault)))
    assert judge(fault).text == ""


@pytest.mark.slow
@pytest.mark.parametrize(("function", "seeds"), [("rsqrt", 1), ("cast", 1), ("sin", 2)])
def test_inputs_reach_errors_at_any_exponent(function: str, seeds: int) -> None:
    # magnitudes.py has all functions and all exponents.
    count, rest = magnitudes.missed(function, seeds, every=16 // seeds)
    assert count > 5
    assert len(rest) <= (seeds == 1)


def test_ties_behind_an_exact_product_are_decided_by_the_values_alone() -> None:
    """Products by a power of 2 are exact, also beside numbers that are rounded or flushed."""
    b = Builder()
    x = b.input("x", "fp32", (8,))
    y = b.mul(x, np.full(1, 16, np.float32))
    with at_target(b):
        y = b.cast(y, dtype="int32")
    b.output(b.add(b.cast(y, dtype="fp32"), 0.3))
    given = {"x": np.array([0.5 / 16, 1.5 / 16, 0.1, 0.7, 1e-45, 0.0, -2.5 / 16, 3], np.float32)}
    away = faulty(instead(lambda r, x: np.trunc(x + np.copysign(0.5, x))))
    assert check(b.graph(), FaultyMachine(), given, engine="numpy").ok
    assert not check(b.graph(), away(), given, engine="numpy").ok
