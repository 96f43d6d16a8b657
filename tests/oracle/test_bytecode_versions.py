"""Bytecode of every writer and version: our graph is the graph of the module that MLIR has.

For all of the official tests: `python tests/oracle/compare_bytecode.py DIR`.
"""

from __future__ import annotations

from random import Random

import pytest
from oracle import compare_bytecode, official_suite, written_cases
from oracle.compare_bytecode import TOSA_OPT, VERSIONS, table
from oracle.module_readers import PACKAGES

import tosa_convert as tc
from tosa_convert.formats.bindings.packages import Bindings, default_bindings

pytestmark = pytest.mark.oracle


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_programs_written_by_hand_are_read_from_every_version(package: str) -> None:
    bindings = pytest.importorskip(package) and default_bindings(package)
    tally = table()
    for case in written_cases.cases():
        try:
            bindings.ir.Module.parse(case.text, bindings.new_context())
        except bindings.ir.MLIRError:
            continue  # these bindings do not define an operator of it
        for found in compare_bytecode.compare_text(case.text, case.name, package):
            tally.add(found)
    assert not tally.different, "\n".join(tally.lines())
    for version in VERSIONS:
        assert tally.equal[package, version] >= 20


@pytest.mark.slow
def test_a_sample_of_the_official_tests_is_read_from_every_version(
    official_cases: list[official_suite.Case],
    torch_mlir: Bindings,
) -> None:
    pytest.importorskip("iree.compiler", reason="writes bytecode")
    files = [case.tosa for case in official_cases]
    tally = table()
    for found in compare_bytecode.compare_files(Random(12).sample(files, 12)):
        tally.add(found)
    assert tally.passed, "\n".join(tally.lines())
    assert tally.equal[TOSA_OPT, 6] >= 10


def test_a_difference_is_found(torch_mlir: Bindings, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> { return %a : tensor<2xf32> }"
    real = tc.load

    def other_name(data: bytes) -> tc.Graph:
        graph = real(data)
        graph.main.name = "other"
        return graph

    monkeypatch.setattr(tc, "load", other_name)
    found = list(compare_bytecode.compare_text(text, "f", torch_mlir.package))
    assert len(found) == len(VERSIONS)
    assert all(outcome.difference for outcome in found)


def test_a_file_that_mlir_reads_and_we_refuse_is_a_difference(torch_mlir: Bindings) -> None:
    text = "func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> { return %a : tensor<2xf32> }"
    bindings = torch_mlir
    module = bindings.ir.Module.parse(text, bindings.new_context())
    expected = compare_bytecode.graph_of(module)
    data = b"ML\xefR\x0dx\0"
    assert "refused" in compare_bytecode.outcome("x", 6, "f", data, expected).difference
    assert (
        "version 5" in compare_bytecode.outcome("x", 6, "f", b"ML\xefR\x0bx\0", expected).difference
    )
