"""Text of every writer and style: our graph is the graph of the module that was printed.

For all of the official tests: `python tests/oracle/compare_read_text.py DIR`.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from oracle import compare_read_text, official_suite
from oracle.compare_bytecode import graph_of
from oracle.compare_read_text import TOSA_OPT, WRITERS, outcome, table
from oracle.compare_text import STYLES, printed

import tosa_convert as tc
from tosa_convert.formats.bindings.packages import Bindings

pytestmark = pytest.mark.oracle

_TEXT = """func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = tosa.abs %a : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}"""


@pytest.mark.slow
def test_a_sample_of_the_official_tests_is_read_in_every_style(
    official_cases: list[official_suite.Case],
    torch_mlir: Bindings,
) -> None:
    pytest.importorskip("iree.compiler", reason="prints text")
    files = [case.tosa for case in official_cases]
    tally = table()
    for found in compare_read_text.compare_files(Random(17).sample(files, 12)):
        tally.add(found)
    assert tally.passed, "\n".join(tally.lines())
    assert all(tally.equal[writer, style] >= 10 for writer in WRITERS for style in STYLES)


def test_a_text_that_is_read_as_another_program_is_a_difference(torch_mlir: Bindings) -> None:
    module = torch_mlir.ir.Module.parse(_TEXT, torch_mlir.new_context())
    text, expected = printed(module, STYLES[0]), graph_of(module)
    assert outcome(TOSA_OPT, STYLES[0], Path("f"), text, expected).read
    changed = text.replace(b"tosa.abs", b"tosa.ceil")
    assert outcome(TOSA_OPT, STYLES[0], Path("f"), changed, expected).difference
    moved = text.replace(b'"-":2:', b'"-":3:')
    assert moved != text
    assert outcome(TOSA_OPT, STYLES[0], Path("f"), moved, expected).difference


def test_a_text_that_the_writer_reads_and_we_refuse_is_a_difference(torch_mlir: Bindings) -> None:
    module = torch_mlir.ir.Module.parse(_TEXT, torch_mlir.new_context())
    found = outcome(TOSA_OPT, STYLES[0], Path("f"), b"func.func @f(", graph_of(module))
    assert not found.read
    assert "refused" in found.difference


def test_nothing_compared_is_no_success() -> None:
    assert not table().passed


def test_a_module_that_both_refuse_is_no_difference() -> None:
    text = b'func.func @f() { "other.op"() : () -> () return }'
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.load(text)
    codes = tuple(finding.code for finding in caught.value.findings)
    found = outcome(TOSA_OPT, STYLES[0], Path("f"), text, codes)
    assert not found.read
    assert not found.difference
