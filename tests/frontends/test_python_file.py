"""A factory in a Python file: what is run is what the file says now."""

from __future__ import annotations

import functools
import os
import py_compile
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tosa_convert as tc
from tosa_convert.frontends.process.python_file import call_factory, tuple_of_arguments
from tosa_convert.golden.backends import worker

ROOT = Path(__file__).resolve().parents[2]
_CALL = (
    "import pathlib, sys\n"
    "from tosa_convert.frontends.process.python_file import call_factory\n"
    "print(call_factory(pathlib.Path(sys.argv[1]), 'make'))"
)


def made(path: Path) -> str:
    """Return what the factory returns, in a process of its own, as in a conversion."""
    command = [sys.executable, "-c", _CALL, str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.run(
        command, check=True, capture_output=True, text=True, env=environment
    ).stdout.strip()


def write(path: Path, text: str) -> None:
    """Write a file, always with the same time of change."""
    path.write_text(text, encoding="utf-8")
    os.utime(path, (1_000_000_000, 1_000_000_000))


def test_a_file_that_changes_within_a_second_is_run_as_it_is_now(tmp_path: Path) -> None:
    factory, part = tmp_path / "net.py", tmp_path / "part.py"
    for value in (1, 2):
        write(part, f"value = {value}\n")
        write(factory, f"import part\ndef make():\n    return {value}, part.value\n")
        assert made(factory) == f"({value}, {value})"
    assert {path.name for path in tmp_path.iterdir()} == {"net.py", "part.py"}


def test_a_compiled_copy_that_another_program_made_is_not_read(tmp_path: Path) -> None:
    factory = tmp_path / "net.py"
    write(factory, "def make():\n    return 1\n")
    py_compile.compile(str(factory))
    write(factory, "def make():\n    return 2\n")
    assert made(factory) == "2"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "import sys\ndef make():\n    sys.exit('no data')\n",
            ":3: error: the file ends the process: no data",
        ),
        ("raise SystemExit\n", ":1: error: the file ends the process: sys.exit()"),
        ("def make(size):\n    return size\n", "make() is called without arguments"),
        ("from . import part\n", "import what is beside it by its name, without a dot"),
        (
            "def make():\n    return open('weights.npy')\n",
            "name a file beside it Path(__file__).with_name(NAME)",
        ),
        ("def make():\n    raise KeyError('a\\nb')\n", ":2: error: KeyError: "),
        ("def other():\n    pass\n", "the file has no function 'make'; it has other"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_line(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    monkeypatch.setattr(sys, "dont_write_bytecode", sys.dont_write_bytecode)
    path = tmp_path / "net.py"
    write(path, text)
    with pytest.raises(tc.TosaConvertError) as caught:
        call_factory(path, "make")
    assert caught.value.code == "frontend-failed"
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize("raises", [False, True])
def test_a_file_runs_in_the_folder_of_the_user_and_frameworks_do_not(
    raises: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    monkeypatch.setattr(sys, "dont_write_bytecode", sys.dont_write_bytecode)
    for name in ("users", "scratch", "code"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "scratch")
    (tmp_path / "users/weights").write_text("7")
    (tmp_path / "users/json_of_users.py").write_text("raise AssertionError")
    text = (
        "import importlib.util, pathlib\n"
        "early = pathlib.Path('weights').read_text()\n"
        "def make():\n"
        "    late = pathlib.Path('weights').read_text()\n"
        "    found = importlib.util.find_spec('json_of_users')\n"
    )
    write(
        tmp_path / "code/net.py",
        text + ("    1 / 0" if raises else "    return early, late, found"),
    )
    made = functools.partial(
        call_factory, tmp_path / "code/net.py", "make", str(tmp_path / "users")
    )
    if raises:
        with pytest.raises(tc.TosaConvertError, match="ZeroDivisionError"):
            made()
    else:
        assert made() == ("7", "7", None)
    assert Path.cwd() == tmp_path / "scratch"
    assert len(list((tmp_path / "users").iterdir())) == 2


def test_a_syntax_error_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    write(path, "import torch\ndef make(:\n")
    with pytest.raises(
        tc.TosaConvertError, match=r"net\.py:2: error: the Python file has a syntax error"
    ):
        tc.frontends.from_file(f"{path}:make")


_DRAWS = (
    "import random\nimport numpy\n"
    "early = random.random(), numpy.random.rand()\n"
    "def make():\n    return *early, random.random(), numpy.random.rand()\n"
)


def test_the_runtime_draws_the_weights_that_the_converter_drew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    monkeypatch.setattr(sys, "dont_write_bytecode", sys.dont_write_bytecode)
    write(tmp_path / "net.py", _DRAWS)
    converted = call_factory(tmp_path / "net.py", "make")
    run = worker._python_file(str(tmp_path / "net.py"), "net_of_the_runtime").make()
    assert converted == run == call_factory(tmp_path / "net.py", "make")


def test_an_array_that_is_not_in_a_tuple_is_the_only_argument() -> None:
    array = np.zeros((2, 3))
    assert tuple_of_arguments(array, "m") == worker._split(("m", array))[1][0] == (array,)
    assert tuple_of_arguments([1, 2], "m") == worker._split(("m", [1, 2]))[1][0] == (1, 2)
    for arguments, hint in (({"x": array}, "keyword come third"), (3.0, "put it into one")):
        with pytest.raises(tc.TosaConvertError, match=hint):
            tuple_of_arguments(arguments, "m")
