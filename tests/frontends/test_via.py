"""`--via`: other routes from a framework's model, with a double in place of the framework."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tosa_convert as tc
from tosa_convert.cli.main import run, verb
from tosa_convert.frontends.table import FRONTENDS, OWN_PACKAGES, ROUTES, on_route

Program = Callable[[str], str]
#: Writes down which frontend was asked for, and fails.
_RECORDS = """
import json, pathlib, sys
folder = pathlib.Path(sys.argv[-1])
request = json.loads((folder / "request.json").read_text())
pathlib.Path(request["source"]).with_name("asked").write_text(request["frontend"])
raise SystemExit("it was asked")
"""


@pytest.fixture
def factory(tmp_path: Path) -> Path:
    path = tmp_path / "net.py"
    path.write_text("import torch\n\n\ndef make(): ...\n", encoding="utf-8")
    return path


def asked(path: Path) -> str:
    return path.with_name("asked").read_text(encoding="utf-8")


def recording(program: Program) -> str:
    return program(_RECORDS)


@pytest.mark.parametrize("via", [None, "executorch"])
def test_the_route_that_is_asked_for_is_taken(
    factory: Path, via: str | None, program: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"{factory}:make", "-o", str(factory.with_name("m.tosa"))]
    words += ["--python", recording(program), *(["--via", via] if via else [])]
    assert run(verb("convert"), words) == 4
    assert "it was asked" in capsys.readouterr().err
    assert asked(factory) == (via or "torch")


def test_the_python_functions_take_the_route(factory: Path, program: Program) -> None:
    with pytest.raises(tc.TosaConvertError, match="it was asked"):
        tc.frontends.from_file(f"{factory}:make", via="executorch", python=recording(program))
    assert asked(factory) == "executorch"


def test_a_partial_conversion_takes_the_route(factory: Path, program: Program) -> None:
    words = [f"{factory}:make", "-o", str(factory.with_name("m.tosa")), "--partial"]
    words += ["--via", "executorch", "--python", recording(program)]
    assert run(verb("convert"), words) == 4
    assert asked(factory) == "executorch"


def test_an_unknown_route_is_refused(factory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(verb("convert"), [f"{factory}:make", "-o", "m.tosa", "--via", "caffe"]) == 2
    error = capsys.readouterr().err
    assert "'caffe' is not" in error
    assert "executorch" in error
    with pytest.raises(tc.TosaConvertError, match="'caffe' is not a route of models for torch"):
        tc.frontends.from_file(f"{factory}:make", via="caffe")


@pytest.mark.parametrize("via", ROUTES)
def test_a_route_of_another_framework_is_refused(
    empty_model: Path, via: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(empty_model), "-o", str(empty_model.with_name("m.tosa")), "--via", via]
    assert run(verb("convert"), words) == 2
    error = capsys.readouterr().err
    assert f"{via!r} is not a route of models for tflite, there is only one" in error
    assert "[option-conflict]" in error


def test_a_program_has_no_route(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.mlir").write_text("module {}\n", encoding="utf-8")
    words = [str(tmp_path / "m.mlir"), "-o", str(tmp_path / "m.tosa"), "--via", ROUTES[0]]
    assert run(verb("convert"), words) == 2
    assert "via (--via) does not apply" in capsys.readouterr().err


def test_what_a_route_needs_is_named_with_its_command(factory: Path) -> None:
    """-S leaves out site-packages, as an interpreter does that has nothing installed."""
    if sys.platform == "win32":
        pytest.skip("Windows does not start a script by its first line")
    python = factory.with_name("bare")
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    for via in ROUTES:
        if FRONTENDS[via].route_of != "torch":
            continue
        with pytest.raises(tc.TosaConvertError) as caught:
            tc.frontends.from_file(f"{factory}:make", via=via, python=str(python))
        row = FRONTENDS[via]
        names = [*row.packages.values(), *(OWN_PACKAGES.values() if row.reads_programs else ())]
        assert [finding.code for finding in caught.value.findings] == ["frontend-missing"] * len(
            names
        )
        for name, finding in zip(names, caught.value.findings, strict=True):
            assert f"{name} is not installed" in finding.message
            assert f"[{FRONTENDS[via].extra}]'" in finding.hint


def test_each_route_starts_at_a_frontend() -> None:
    for name in ROUTES:
        row = FRONTENDS[name]
        assert not FRONTENDS[row.route_of].route_of
        assert on_route(row.route_of, name) is row
        assert f"--via {name}" in row.reads


@pytest.mark.slow
def test_the_verb_lists_routes(capsys: pytest.CaptureFixture[str]) -> None:
    run(verb("frontends"), [*ROUTES, "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert [row["frontend"] for row in rows] == list(ROUTES)
    assert [row["route_of"] for row in rows] == [FRONTENDS[name].route_of for name in ROUTES]
