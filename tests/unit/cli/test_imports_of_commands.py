"""A command imports little: small files are converted at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tosa_convert as tc

_LIST = """
import sys
for name in ("pathlib", "urllib", "urllib.parse", "ipaddress", "fnmatch", "ntpath", "logging"):
    sys.modules.pop(name, None)  # those that the start of an editable environment has imported
{}
print("modules:", *sys.modules)
"""
_COMMAND = """
from tosa_convert.cli.start import exit_code
assert exit_code("", sys.argv[1:]) == 0
"""
#: Command line -> the most modules of ours and of others that it imports; each takes up to 0.4 ms.
MOST = {
    "convert INPUT.mlirbc -o m.tosa": (70, 100),
    "convert INPUT -o m.mlirbc": (73, 100),
    "convert INPUT -o m.tosa --weights offset": (56, 100),
    "convert INPUT -o m.json": (44, 100),
    "convert INPUT -o m.mlir": (81, 100),
    "convert INPUT.mlir -o m.tosa": (83, 100),
    "convert INPUT.json -o m.tosa": (59, 100),
    "validate INPUT": (57, 100),
    "diff INPUT INPUT.mlir": (81, 100),
    "repack INPUT -o m.tosa": (56, 100),
    "show INPUT": (68, 100),
    "--help": (43, 125),
    "convert --help": (20, 125),
}


def listed(code: str, *words: str) -> set[str]:
    """Return the modules that a new interpreter has imported after the code; words: its arguments."""
    command = [sys.executable, "-c", _LIST.format(code), *words]
    out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    return set(out.rpartition("modules:")[2].split())


@pytest.fixture(scope="module")
def program(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a program in a file of each format; the flatbuffer's has no extension."""
    path = tmp_path_factory.mktemp("imports") / "digits"
    graph = tc.load(tc.dumps(tc.load(root / "examples" / "digits_cnn.mlirbc"), "tosa"))
    for extension in ("mlirbc", "mlir", "json"):
        tc.save(graph, f"{path}.{extension}")
    path.write_bytes(tc.dumps(graph, "tosa"))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("line", MOST)
def test_small_jobs_import_few_modules_and_neither_numpy_nor_click(
    line: str, program: Path, tmp_path: Path
) -> None:
    words = line.replace("INPUT", str(program)).replace(" m.", f" {tmp_path}/m.").split()
    modules = listed(_COMMAND, *words)
    ours = {name for name in modules if name.partition(".")[0] == "tosa_convert"}
    most, most_of_others = MOST[line]
    assert len(ours) <= most
    assert len(modules - ours) <= most_of_others
    assert not {"numpy", "ml_dtypes", "logging", "subprocess"} & modules
    assert "click" not in modules or "--help" in line


_AT_THE_START_OF_A_CHILD = """
import os, subprocess

def started(*arguments, **options):
    print("modules:", *sys.modules, flush=True)
    os._exit(0)

subprocess.Popen = started
"""


def test_the_converter_of_a_model_starts_before_numpy_is_imported(tmp_path: Path) -> None:
    """Converter and import then take their time side by side."""
    model = tmp_path / "m.tflite"
    model.write_bytes(b"\x1c\0\0\0TFL3".ljust(64, b"\0"))
    modules = listed(
        f"{_AT_THE_START_OF_A_CHILD}{_COMMAND}",
        "convert",
        str(model),
        "-o",
        str(tmp_path / "m.tosa"),
    )
    assert "tosa_convert.frontends.process.run" in modules
    assert not modules & {"numpy", "tosa_convert.rewrites"}
