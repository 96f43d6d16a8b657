"""`--via`: other routes from a framework's model, with a double in place of the framework."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import tosa_convert as tc
from tosa_convert.cli.main import run, verb
from tosa_convert.frontends.table import FRONTENDS, OWN_PACKAGES, ROUTES


@pytest.fixture
def factory(tmp_path: Path) -> Path:
    path = tmp_path / "net.py"
    path.write_text("import torch\n\n\ndef make(): ...\n", encoding="utf-8")
    return path


def test_an_unknown_route_is_refused(factory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(verb("convert"), [f"{factory}:make", "-o", "m.tosa", "--via", "caffe"]) == 2
    error = capsys.readouterr().err
    assert "'caffe' is not" in error
    assert "executorch" in error
    with pytest.raises(tc.TosaConvertError, match="'caffe' is not a route of models for torch"):
        tc.frontends.from_file(f"{factory}:make", via="caffe")


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


@pytest.mark.slow
def test_the_verb_lists_routes(capsys: pytest.CaptureFixture[str]) -> None:
    run(verb("frontends"), [*ROUTES, "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert [row["frontend"] for row in rows] == list(ROUTES)
    assert [row["route_of"] for row in rows] == [FRONTENDS[name].route_of for name in ROUTES]
