"""What writes a program refuses one that TOSA forbids, unless asked to write it all the same."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from unit.building import graph, op, tensor

import tosa_convert as tc
from tosa_convert.cli.main import run, tosa_flatbuffer
from tosa_convert.formats.bindings.passes import add_tosa_serialize
from tosa_convert.graph import Graph, compare


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


@pytest.mark.parametrize("name", ["tosa", "mlirbc", "mlir"])
def test_a_program_that_tosa_forbids_is_not_written(tmp_path: Path, name: Any) -> None:
    path = tmp_path / f"m.{name}"
    path.write_bytes(b"old")
    assert_refused(lambda: tc.save(forbidden(), path))
    assert path.read_bytes() == b"old"
    assert_refused(lambda: tc.dumps(forbidden(), name))


@pytest.mark.parametrize("name", ["tosa", "mlirbc", "mlir"])
def test_a_forbidden_program_is_written_on_request(tmp_path: Path, name: Any) -> None:
    path = tmp_path / f"m.{name}"
    tc.save(forbidden(), path, validate=False)
    assert path.stat().st_size
    assert len(tc.dumps(forbidden(), name, validate=False))


def test_json_is_for_looking_at_any_program(tmp_path: Path) -> None:
    tc.save(forbidden(), tmp_path / "m.json")
    assert compare(tc.load(tmp_path / "m.json"), forbidden()) is None


def test_text_that_leaves_constants_out_is_for_looking_at_any_program() -> None:
    assert b"tosa.add" in tc.dumps(forbidden(), "mlir", elide=8)


def test_reading_does_not_validate() -> None:
    data = tc.dumps(forbidden(), validate=False)
    assert compare(tc.load(data), forbidden()) is None


def test_a_module_is_made_of_a_valid_program(torch_mlir: Any) -> None:
    assert_refused(lambda: tc.to_module(forbidden()))
    data = tc.dumps(forbidden(), validate=False)
    assert_refused(lambda: tc.import_tosa_func_from_flatbuffer(data))
    # MLIR's verifier has the same opinion.
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.to_module(forbidden(), validate=False)
    assert caught.value.code == "malformed-mlir"


@pytest.fixture
def deep(torch_mlir: Any) -> Any:
    """Return a module that MLIR's verifier accepts and TOSA forbids."""
    text = """func.func @f(%x: tensor<2xf32>) -> tensor<2xi4> {
      %0 = tosa.cast %x : (tensor<2xf32>) -> tensor<2xi4>
      return %0 : tensor<2xi4>
    }"""
    return torch_mlir.ir.Module.parse(text, torch_mlir.new_context())


def test_what_mlir_accepts_is_validated_too(deep: Any, tmp_path: Path) -> None:
    export: Any = tc.export_tosa_func_to_flatbuffer
    with pytest.raises(tc.TosaConvertError) as caught:
        export(deep)
    assert {finding.rule for finding in caught.value.findings} == {"cast-output-type"}
    assert export(deep, validate=False)[4:8] == b"TOSA"
    export(deep, tmp_path / "m.json")
    assert (tmp_path / "m.json").exists()
    with pytest.raises(tc.TosaConvertError, match="the option validate"):
        export(deep, to="json", validate=False)


def test_the_pass_validates(deep: Any, torch_mlir: Any, tmp_path: Path) -> None:
    from torch_mlir import passmanager

    with deep.context:
        for name, options in (("m.tosa", {}), ("n.tosa", {"validate": False})):
            manager = passmanager.PassManager()
            add_tosa_serialize(manager, tmp_path / name, **options)  # type: ignore[arg-type]
            if options:
                manager.run(deep.operation)
            else:
                with pytest.raises(torch_mlir.ir.MLIRError, match="cast-output-type"):
                    manager.run(deep.operation)
    assert not (tmp_path / "m.tosa").exists()
    assert (tmp_path / "n.tosa").exists()


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
