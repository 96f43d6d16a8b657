"""What writes a program refuses one that TOSA forbids, unless asked to write it all the same."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from refusing import refused
from unit.building import graph, op, tensor

import tosa_convert as tc
from tosa_convert.cli.main import run, tosa_flatbuffer
from tosa_convert.graph import Graph


def forbidden() -> Graph:
    """Return a sum of tensors that do not broadcast: `verify` accepts it, and TOSA forbids it."""
    shapes = {"x": (2, 3), "y": (5, 7), "z": (9, 9)}
    values = [tensor(name, shape=shape) for name, shape in shapes.items()]
    return graph("x y", "z", values, [op("ADD", "x y", "z")])


def assert_refused(call: Callable[[], object]) -> None:
    """All findings are in the error."""
    with pytest.raises(tc.TosaConvertError) as caught:
        call()
    assert [finding.rule for finding in caught.value.findings] == ["add-broadcast"] * 2
    assert caught.value.exit_code == 3


def test_a_module_is_made_of_a_valid_program(torch_mlir: Any) -> None:
    assert_refused(lambda: tc.to_module(forbidden()))
    data = tc.dumps(forbidden(), validate=False)
    assert_refused(lambda: tc.import_tosa_func_from_flatbuffer(data))
    # MLIR's verifier has the same opinion.
    with refused("malformed-mlir"):
        tc.to_module(forbidden(), validate=False)


# -- the command line ------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    tc.save(forbidden(), tmp_path / "m.tosa", validate=False)
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        ["convert", "m.tosa", "-o", "n.mlirbc"],
        ["repack", "m.tosa", "-o", "n.tosa", "--weights", "offset"],
        ["extract", "m.tosa", "--outputs", "z", "-o", "n.tosa"],
        ["weights", "import", "m.tosa", "m.weights", "-o", "n.tosa"],
    ],
)
def test_a_verb_that_writes_a_program_validates_it(folder: Path, command: list[str]) -> None:
    tc.export_weights(forbidden(), folder / "m.weights")
    target = folder / command[command.index("-o") + 1]
    assert run(tosa_flatbuffer, command) == 3
    assert not target.exists()
    assert run(tosa_flatbuffer, [*command, "--no-validate"]) == 0
    assert target.exists()


def test_a_program_for_a_bug_report_is_not_validated(folder: Path) -> None:
    assert run(tosa_flatbuffer, ["weights", "strip", "m.tosa", "-o", "n.tosa"]) == 0
    (folder / "check.py").write_text(
        "import sys, tosa_convert as tc\nsys.exit(bool(tc.load(sys.argv[1]).main.operators))\n"
    )
    command = f"{sys.executable} check.py {{model}}"
    reduce = ["reduce", "m.tosa", "-o", "o.tosa", "--command", command, "--work", "work"]
    assert run(tosa_flatbuffer, reduce) == 0
    for name in ("n.tosa", "o.tosa"):
        assert tc.validate(tc.load(folder / name))
