"""The text that we print is what MLIR prints, and MLIR reads it as the same program.

For all of the official tests: `python tests/oracle/compare_text.py DIR`.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
from oracle import compare_text, official_suite, written_cases
from oracle.compare_text import (
    PARSED,
    PRINTED,
    STYLES,
    Program,
    table,
    with_locations,
)
from oracle.comparison_main import Compared
from oracle.module_readers import TORCH
from oracle.outside_tools import Refused, TosaOpt
from sampling import one_in
from unit.building import graph, op, tensor

import tosa_convert as tc
from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.qualify.random_graphs.generate import GENERATED, generate

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(bool(official_suite.missing()), reason=official_suite.missing()),
]


@pytest.fixture(scope="module")
def opt(tmp_path_factory: pytest.TempPathFactory) -> TosaOpt:
    return TosaOpt(tmp_path_factory.mktemp("opt"))


@pytest.fixture(scope="module", autouse=True)
def both_bindings(torch_mlir: Bindings) -> None:
    pytest.importorskip("iree.compiler", reason="parses our text")


@pytest.mark.parametrize("part", one_in(8, range(8)))
def test_programs_written_by_hand_are_printed_as_tosa_opt_prints_them(
    part: int, opt: TosaOpt, tmp_path: Path
) -> None:
    programs = [
        Program(case.name, with_locations(tc.load(case.text.encode())))
        for case in written_cases.cases()[part::8]
    ]
    found = list(compare_text.compare_programs(programs, opt, tmp_path))
    assert [one for one in found if one.difference] == []
    for program in programs:
        read = {one.row for one in found if one.read and one.program == program.name}
        assert read >= {PRINTED, PARSED, TORCH}, program.name


@pytest.mark.slow
def test_constants_of_every_type_are_printed_as_tosa_opt_prints_them(
    opt: TosaOpt, tmp_path: Path
) -> None:
    programs = [
        Program(form, tc.load(written_cases.constants(form)[0].encode()))
        for form in written_cases.FORMS
    ]
    found = list(compare_text.compare_programs(programs, opt, tmp_path, STYLES[1::2]))
    assert [one for one in found if one.difference] == []
    assert {one.row for one in found if one.read} >= {PRINTED, PARSED, TORCH}


@pytest.mark.slow
def test_random_programs_are_printed_as_tosa_opt_prints_them(opt: TosaOpt, tmp_path: Path) -> None:
    programs = [Program(kind, with_locations(generate(7, 4, kinds=[kind]))) for kind in GENERATED]
    found = list(compare_text.compare_programs(programs, opt, tmp_path))
    printed = [one for one in found if one.row in (PRINTED, PARSED)]
    assert [one for one in printed if one.difference or not one.read] == []


@pytest.mark.slow
@pytest.mark.parametrize("limit", [0, 4, 100])
def test_constants_are_left_out_as_tosa_opt_leaves_them_out(
    limit: int, opt: TosaOpt, tmp_path: Path
) -> None:
    for form in ("dense", "splat"):
        text, raws = written_cases.constants(form)
        (tmp_path / "m.mlir").write_text(text, encoding="utf-8")
        graph = tc.load(tmp_path / "m.mlir")
        flags = [f"--mlir-elide-elementsattrs-if-larger={limit}"]
        theirs = opt.print(tmp_path / "m.mlir", flags)
        assert not isinstance(theirs, Refused)
        ours = tc.dumps(graph, "mlir", elide=limit, locations=False).splitlines()
        pairs = zip(ours, theirs.splitlines(), strict=False)
        constants = [(one, other) for one, other in pairs if b"tosa.const" in other]
        assert len(constants) == len(raws)
        for one, other in constants:
            assert one == other


@pytest.mark.slow
def test_a_sample_of_the_official_tests_is_printed_and_read(
    official_cases: list[official_suite.Case],
) -> None:
    files = [case.tosa for case in official_cases]
    tally = table()
    for found in compare_text.compare_files(Random(5).sample(files, 10)):
        tally.add(found)
    assert tally.passed, "\n".join(tally.lines())


@pytest.mark.parametrize("written", [0x7E01, 0x7E02])
def test_what_tosa_opt_serializes_is_the_program(
    written: int, opt: TosaOpt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def program(nan: int) -> tc.Graph:
        elements = np.array([nan, *range(199)], "<u2")
        values = tensor("w", "FP16", (200,), elements.tobytes())
        return graph("", "w", [values], [op("CONST", "", "w")])

    tc.save(program(0x7E01), tmp_path / "m.tosa")
    monkeypatch.setattr(compare_text, "text_of", lambda *_: tc.dumps(program(written), "mlir"))
    found = compare_text.compare_serialized(tmp_path / "m.tosa", opt, tmp_path)
    assert bool(found.difference) == (written != 0x7E01)


def test_a_difference_is_found(
    opt: TosaOpt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = tc.load(
        b"func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> { return %a : tensor<2xf32> }"
    )
    real = tc.dumps

    def other_name(*arguments: object, **options: object) -> bytes:
        text: bytes = real(*arguments, **options)  # type: ignore[arg-type]
        is_text = arguments[1] == "mlir"
        return text.replace(b"tosa.tensor_name", b"tosa.tensor_nome") if is_text else text

    monkeypatch.setattr(tc, "dumps", other_name)
    tally = table()
    found: list[Compared] = [*compare_text.compare_programs([Program("f", graph)], opt, tmp_path)]
    for one in found:
        tally.add(one)
    assert not tally.passed
    assert "ours b" in found[0].difference
    assert "line 3" in found[0].difference
    assert any("tensor_nome" in line for line in tally.lines())
