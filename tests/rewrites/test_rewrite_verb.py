from __future__ import annotations

from pathlib import Path

import pytest
from rewrites.programs import program, single

import tosa_convert as tc
from tosa_convert.cli.main import run, verb


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a program that repairs and clean-up change."""
    monkeypatch.chdir(tmp_path)
    tc.save(program(lambda b: b.pow(b.input("x", "fp32", (2,)), 2.0)), "m.tosa")
    return tmp_path


def rewrite(*arguments: str) -> int:
    return run(verb("rewrite"), list(arguments))


def test_rewrite_writes_the_program_and_reports_every_change(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rewrite("m.tosa", "-o", "n.tosa") == 0
    found = capsys.readouterr()
    assert found.out == ""
    lines = found.err.splitlines()
    assert lines[0].startswith("pow-by-constant: POW by 2 became x * x: ")
    assert lines[1].startswith("unused-operators: removed CONST: ")
    assert lines[2:] == ["n.tosa: 2 changes; 1 operator became 1"]
    graph, _ = tc.rewrites.apply(tc.load("m.tosa"))
    assert tc.compare(tc.load("n.tosa"), graph, names=True, locations=True) is None


def test_list_prints_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert rewrite("--list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [row.name for row in tc.rewrites.REWRITES]
    assert rewrite("--list", "--only", "clean-up") == 0
    assert all(" clean-up " in line for line in capsys.readouterr().out.splitlines())


def test_a_program_and_an_output_are_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert rewrite("m.tosa") == 2
    assert rewrite("-o", "n.tosa") == 2
    assert "--list" in capsys.readouterr().err


def test_a_program_that_stays_invalid_is_not_written(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = single("ADD", [("int8", (2,)), ("int16", (2,))], ("int8", (2,)))
    tc.save(graph, "bad.json")
    assert rewrite("bad.json", "-o", "n.tosa") == 3
    assert "add-input1-type" in capsys.readouterr().err
    assert not Path("n.tosa").exists()
    assert rewrite("bad.json", "-o", "n.tosa", "--no-validate") == 0
