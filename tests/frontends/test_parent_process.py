"""What this process imports while a child lowers a model: no framework, and nothing that lowers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from frontends import fake_framework
from unit.building import example

import tosa_convert as tc
from tosa_convert.frontends.table import FRONTENDS

#: Lowers a model with the Python of a framework, and prints the modules of this process.
LOWER: Final = """
import json, sys
from tosa_convert.frontends.lower_model import FrontendOptions, lowered
from tosa_convert.frontends.table import Recognised
name, path, python = sys.argv[1:]
with lowered(Recognised(name, path, path), FrontendOptions(python=python)) as found:
    assert found.graph.main.outputs
print(json.dumps(sorted(sys.modules)))
"""
PACKAGES: Final = {package for row in FRONTENDS.values() for package in row.packages}
#: Folder of the modules of a framework.
FOLDERS: Final = {row.converter.rpartition(".")[0] for row in FRONTENDS.values()}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(row.name, marks=[pytest.mark.slow] if row.name != "tflite" else [])
        for row in FRONTENDS.values()
        if not row.route_of
    ],
)
def test_the_parent_imports_no_framework_and_nothing_that_lowers(name: str, tmp_path: Path) -> None:
    if sys.platform == "win32":
        pytest.skip("Windows does not start a script by its first line")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {fake_framework.__file__} "$@"\n')
    python.chmod(0o755)
    tc.save(example(), tmp_path / "m.tosa")
    command = [sys.executable, "-c", LOWER, name, str(tmp_path / "m.model"), str(python)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    modules = set(json.loads(ended.stdout))
    assert "tosa_convert.frontends.read_result" in modules
    inside = {one for one in modules if any(one.startswith(f"{folder}.") for folder in FOLDERS)}
    assert inside == set()
    assert modules & PACKAGES == set()


def test_what_reads_the_result_is_imported_while_the_child_runs() -> None:
    code = (
        "import sys\n"
        "from tosa_convert.frontends import lower_model\n"
        "name = 'tosa_convert.frontends.read_result'\n"
        "assert name not in sys.modules\n"
        "lower_model._import_finish()\n"
        "assert name in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
