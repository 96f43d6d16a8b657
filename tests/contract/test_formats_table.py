"""Every format converts to every other, and the program stays the same."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from contract import table
from contract.conftest import CASES
from contract.outside import Refused
from oracle.official_suite import Case

import tosa_convert as tc
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.opset import OPERATORS
from tosa_convert.graph.versions import V1_1_DRAFT

#: The number of files that the outside tools check, in each form.
JUDGED = 16
#: Operators encoded as others: no operator of a file has one of these codes.
WITHOUT_CODE = {"VARIABLE"}


@pytest.fixture(scope="session")
def filled(root: Path, torch_mlir: Any) -> table.Table:
    """Return the table of the example, and of operators that the official generator never makes."""
    own = [root / "examples" / "digits_cnn.mlirbc", CASES / "custom_and_variables.mlir"]
    return table.run(own)


@pytest.mark.parametrize("cell", table.CELLS, ids=" to ".join)
def test_every_program_is_unchanged_in_every_cell(cell: table.Cell, filled: table.Table) -> None:
    differences = [(file, said) for where, file, said in filled.differences if where == cell]
    assert differences == []
    assert filled.counts[cell] == filled.files == 2


@pytest.mark.slow
def test_an_official_file_of_every_operator_is_unchanged_in_every_cell(
    filled: table.Table, smallest: list[Case], torch_mlir: Any
) -> None:
    assert len(smallest) >= 60
    official = table.run(case.tosa for case in smallest)
    assert official.refused == {}
    assert official.differences == []
    assert official.passed
    operators = official.operators | filled.operators
    known = {row.name for row in OPERATORS if row.is_in_tools}
    assert known - operators == WITHOUT_CODE


def test_the_command_prints_the_counts_and_succeeds(
    example: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], torch_mlir: Any
) -> None:
    tc.save(tc.load(example), tmp_path / "m.tosa")
    assert table.main([str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "1 files, " in printed
    assert "49 cells" in printed
    assert "0 differences" in printed


@pytest.mark.slow
def test_a_file_that_mlir_refuses_is_reported_and_not_counted(
    example: Path, tmp_path: Path, torch_mlir: Any
) -> None:
    graph = tc.load(example)
    shape = next(s for s in graph.main.shapes.values() if s.values() == (1, 10))
    shape.data = Constant(shape.data.dtype, 2, b"\1\0\0\0\0\0\0\0" * 2)  # type: ignore[union-attr]
    tc.save(graph, tmp_path / "wrong.tosa", validate=False)
    found = table.run([example, tmp_path / "wrong.tosa"])
    assert found.passed
    assert list(found.refused) == [str(tmp_path / "wrong.tosa")]
    assert [found.counts["JSON", column] for column in (".tosa", "bytecode")] == [2, 1]
    assert not table.run([tmp_path / "wrong.tosa"]).passed


def test_the_command_fails_if_there_is_nothing_to_compare(tmp_path: Path) -> None:
    assert table.main([str(tmp_path)]) == 1


# -- the table can fail -------------------------------------------------------------------------


def _flip(graph: Any) -> None:
    """Flip one bit of one constant."""
    tensor = next(t for t in graph.main.tensors.values() if t.data is not None)
    raw = tensor.data.elements().copy()
    raw[-1, 0] ^= 1
    tensor.data = Constant(tensor.data.dtype, tensor.data.count, raw.reshape(-1))


def _relocate(graph: Any) -> None:
    graph.main.operators[-1].location = 'loc("elsewhere")'


def _rename(graph: Any) -> None:
    graph.regions[0].name = "other"


def _restamp(graph: Any) -> None:
    graph.version = V1_1_DRAFT


_EMBEDDED = table.FORMS[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "form"),
    [(_flip, form) for form in table.FORMS[::3]]
    + [(damage, _EMBEDDED) for damage in (_relocate, _rename, _restamp)],
    ids=lambda value: getattr(value, "name", getattr(value, "__name__", "")),
)
def test_the_table_detects_damage_in_one_format(
    damage: Any, form: table.Form, example: Path, monkeypatch: pytest.MonkeyPatch, torch_mlir: Any
) -> None:
    written = table.Form.write

    def damaged(self: table.Form, graph: Any, folder: Path) -> Path:
        if self == form and " to " in folder.name:
            graph = tc.load(written(self, graph, folder))
            damage(graph)
        return written(self, graph, folder)

    monkeypatch.setattr(table.Form, "write", damaged)
    found = table.run([example])
    assert not found.passed
    assert {cell for cell, _, _ in found.differences} == {
        cell for cell in table.CELLS if cell[1] == form.name
    }


@pytest.mark.slow
def test_the_table_detects_other_bytes_of_the_same_program(
    example: Path, monkeypatch: pytest.MonkeyPatch, torch_mlir: Any
) -> None:
    written = table.Form.write

    def longer(self: table.Form, graph: Any, folder: Path) -> Path:
        path = written(self, graph, folder)
        if self.name == "JSON" and folder.name == ".tosa to JSON":
            path.write_bytes(path.read_bytes() + b"\n")
        return path

    monkeypatch.setattr(table.Form, "write", longer)
    found = table.run([example])
    assert [(cell, said) for cell, _, said in found.differences] == [
        ((".tosa", "JSON"), "other bytes than from another row: m.json")
    ]


# -- the oracle ---------------------------------------------------------------------------------

READ_OUTSIDE = [form for form in table.FORMS if form.name in (".tosa", ".tosa offset", "JSON")]


@pytest.fixture(scope="session")
def judged(smallest: list[Case]) -> list[Case]:
    """Return some of the files, the same each time."""
    return sorted(random.Random(20).sample(smallest, JUDGED))


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize("form", READ_OUTSIDE, ids=lambda form: form.name)
def test_tosa_opt_reads_our_file_as_it_reads_the_official_one(
    form: table.Form, judged: list[Case], oracle: Any, tmp_path: Path
) -> None:
    equal = refused = 0
    for case in judged:
        ours = form.write(table.original(case.tosa), tmp_path / case.operator)
        try:
            expected = oracle.tosa_opt_reading(case.tosa, tmp_path)
        except Refused:
            # It refuses some files of its own generator, such as those with non-constant zero points.
            refused += 1
            continue
        assert oracle.tosa_opt_reading(ours, tmp_path) == expected, case.folder
        equal += 1
    assert equal >= JUDGED * 3 // 4, f"tosa-opt refuses {refused} of {len(judged)} official files"


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize("form", READ_OUTSIDE, ids=lambda form: form.name)
def test_the_reference_model_computes_the_same_from_our_file(
    form: table.Form, judged: list[Case], oracle: Any, tmp_path: Path
) -> None:
    ran = 0
    for case in judged:
        try:
            expected = oracle.reference_run(case.tosa, case.folder, tmp_path / "expected")
        except Refused as error:
            if "Cannot open input file" in str(error):
                raise
            continue
        ours = form.write(table.original(case.tosa), tmp_path / case.operator)
        assert oracle.reference_run(ours, case.folder, tmp_path / "found") == expected, case.folder
        assert expected
        ran += 1
    assert ran >= JUDGED // 2
