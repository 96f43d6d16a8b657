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


def test_only_chooses_rewrites_and_groups(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert rewrite("m.tosa", "-o", "n.tosa", "--only", "repair") == 0
    assert "unused-operators" not in capsys.readouterr().err
    assert rewrite("m.tosa", "-o", "o.tosa", "--only", "casts", "--only", "clean-up") == 0
    assert "o.tosa: 0 changes" in capsys.readouterr().err
    assert rewrite("m.tosa", "-o", "p.tosa", "--only", "nothing") == 2
    assert "pow-by-constant" in capsys.readouterr().err
    assert not Path("p.tosa").exists()


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


def test_the_input_is_not_overwritten(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = Path("m.tosa").read_bytes()
    assert rewrite("m.tosa", "-o", "m.tosa") == 2
    assert "would-overwrite-input" in capsys.readouterr().err
    assert Path("m.tosa").read_bytes() == before


def test_a_program_that_stays_invalid_is_not_written(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = single("ADD", [("int8", (2,)), ("int16", (2,))], ("int8", (2,)))
    tc.save(graph, "bad.json")
    assert rewrite("bad.json", "-o", "n.tosa") == 3
    assert "add-input1-type" in capsys.readouterr().err
    assert not Path("n.tosa").exists()
    assert rewrite("bad.json", "-o", "n.tosa", "--no-validate") == 0


def test_an_unsound_program_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tc.dumps(tc.load("m.tosa"), "json").decode()
    Path("bad.json").write_text(text.replace('"x"', '"z"', 1), encoding="utf-8")
    assert rewrite("bad.json", "-o", "n.tosa") == 3
    assert "undefined-name" in capsys.readouterr().err


def test_modules_are_read_with_the_options_of_convert(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Path("m.mlir").write_text(
        "func.func @f(%x: tensor<2xi64>, %c: tensor<i1>) -> tensor<2xi64> {\n"
        "  %r = tosa.cond_if %c (%j = %x) : tensor<i1> (tensor<2xi64>) -> tensor<2xi64> {\n"
        "  ^bb0(%j: tensor<2xi64>):\n"
        "    tosa.yield %x : tensor<2xi64>\n"
        "  } else {\n"
        "  ^bb0(%j: tensor<2xi64>):\n"
        "    tosa.yield %j : tensor<2xi64>\n"
        "  }\n"
        "  return %r : tensor<2xi64>\n"
        "}\n",
        encoding="utf-8",
    )
    assert rewrite("m.mlir", "-o", "n.tosa") == 4
    flags = ["--func", "f", "--narrow", "i64", "--pass-captured"]
    assert rewrite("m.mlir", "-o", "n.tosa", *flags) == 0
    assert "passed 1 captured value" in caplog.text
    assert rewrite("m.tosa", "-o", "n.tosa", "--func", "f") == 2
