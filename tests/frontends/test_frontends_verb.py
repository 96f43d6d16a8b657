"""`tosa-flatbuffer frontends`, and the table of frontends that it prints."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest

import tosa_convert as tc
from tosa_convert.cli.main import run, verb
from tosa_convert.frontends.table import FRONTENDS, RUNTIMES
from tosa_convert.golden.models.compare_model import require_for_check

if sys.version_info >= (3, 11):
    import tomllib


class Listing(NamedTuple):
    code: int
    out: str


def listed(capsys: pytest.CaptureFixture[str], *words: str) -> Listing:
    code = run(verb("frontends"), list(words))
    return Listing(code, capsys.readouterr().out)


def test_every_frontend_is_listed_with_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    with mock.patch.object(importlib.util, "find_spec", return_value=None):
        code, out = listed(capsys)
    assert code == 1
    for row in FRONTENDS.values():
        assert f"{row.name} " in out
        assert f" {row.reads}\n" in out
        assert (row.install() in out) is bool(row.packages)


def test_what_is_installed_has_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = listed(capsys, "tflite", "--json")
    assert code == 0
    (row,) = json.loads(out)
    assert (row["missing"], row["versions"]) == ([], {})
    pytest.importorskip("torch_mlir", reason="torch-mlir is not installed")
    (row,) = json.loads(listed(capsys, "torch-mlir", "--json").out)
    assert row["versions"]["torch-mlir"]


def test_another_python_says_what_it_has(
    program: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """-S leaves out site-packages, as an interpreter does that has nothing installed."""
    code = f"import os, sys\nos.execv({sys.executable!r}, ['python', '-S', '-E', *sys.argv[1:]])"
    found = listed(capsys, "onnx", "--json", "--python", program(code))
    assert found.code == 1
    assert json.loads(found.out)[0]["missing"] == ["onnx"]


def test_a_python_that_fails_is_an_error(
    program: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(verb("frontends"), ["--python", program("raise SystemExit('broken')")]) == 4
    assert "broken" in capsys.readouterr().err


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is part of Python 3.11")
def test_every_extra_exists_and_installs_the_packages(root: Path) -> None:
    with open(root / "pyproject.toml", "rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    for row in FRONTENDS.values():
        installs = " ".join(extras[row.extra])
        for included in re.findall(r"tosa-convert\[([\w,-]+)\]", installs):
            installs += " ".join(" ".join(extras[name]) for name in included.split(","))
        for distribution in row.packages.values():
            assert distribution in installs, f"{row.extra} does not install {distribution}"


def test_the_child_starts_without_numpy() -> None:
    """Until the converter is imported any Python can run it."""
    code = (
        "import sys\n"
        "import tosa_convert.frontends.process.child\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert not {"numpy", "ml_dtypes", "click"} & set(out.split())


def test_what_check_needs_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    with mock.patch.object(importlib.util, "find_spec", return_value=None):
        out = listed(capsys, "tflite").out
        (row,) = json.loads(listed(capsys, "tflite", "--json").out)
    assert "for --check: ai-edge-litert is not installed" in out
    assert any("ai-edge-litert" in text for text in row["missing_for_check"])


@pytest.mark.parametrize("name", list(FRONTENDS))
def test_check_names_everything_that_is_missing_at_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOSA_REFERENCE_MODEL", "/no/such/program")
    absent = mock.patch.object(importlib.util, "find_spec", return_value=None)
    with absent, pytest.raises(tc.TosaConvertError) as caught:
        require_for_check(name)
    codes = {finding.code for finding in caught.value.findings}
    assert codes >= {
        "missing-refmodel",
        *(["frontend-missing"] if FRONTENDS[name].packages else []),
    }
    said = str(caught.value)
    assert all(distribution in said for distribution in FRONTENDS[name].packages.values())
    if name == "tflite":
        hints = {row.hint for row in caught.value.findings if row.code != "missing-refmodel"}
        assert [hint.partition(",")[0].endswith("[check]'") for hint in hints] == [True]
    runtimes = RUNTIMES.get(FRONTENDS[name].runtime, {})
    assert not runtimes or any(distribution in said for distribution in runtimes.values())
