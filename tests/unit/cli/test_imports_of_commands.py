"""A command imports the parts that its work needs and no others: small files are converted at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

#: Parts that no command of this file needs.
NEVER = {
    *(
        "api",
        "builder",
        "consumers.doctor",
        "eras",
        "frontends",
        "golden",
        "module_api",
        "rewrites",
    ),
    *("views", "formats.bindings", "formats.json", "formats.mlir.text", "formats.weights"),
}
#: Most modules of ours that a command imports. Each takes about 0.4 ms.
MOST_OF_HELP = 20
MOST_OF_WORK = 80

#: Modules of others that take milliseconds, or lead to many.
HEAVY = {
    *(
        "ast",
        "asyncio",
        "concurrent",
        "ctypes",
        "dataclasses",
        "email",
        "html",
        "http",
        "importlib.metadata",
        "inspect",
    ),
    *("json", "logging", "multiprocessing", "pickle", "socket", "ssl", "subprocess", "tempfile"),
    *(
        "unittest",
        "xml",
        "zipfile",
        "hypothesis",
        "pytest",
        "torch_mlir",
        "iree",
        "torch",
        "onnx",
    ),
}

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


def within(modules: set[str], parts: set[str]) -> set[str]:
    """Return the modules that belong to one of the parts."""
    return {name for name in modules if any(f"{name}.".startswith(f"{part}.") for part in parts)}


def listed(code: str, *words: str) -> set[str]:
    """Return the modules that a new interpreter has imported after the code; words: its arguments."""
    command = [sys.executable, "-c", _LIST.format(code), *words]
    out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    return set(out.rpartition("modules:")[2].split())


def imported(*words: str) -> tuple[set[str], set[str]]:
    """Return our modules that a command imports, and others that not every program of ours imports."""
    modules = listed(_COMMAND, *words)
    prefix = "tosa_convert."
    ours = {name.removeprefix(prefix) for name in modules if name.startswith(prefix)}
    return ours, modules - listed("import enum, re, threading")


@pytest.fixture(scope="module")
def example(root: Path) -> Path:
    return root / "examples" / "digits_cnn.mlirbc"


@pytest.fixture(scope="module")
def flatbuffer(example: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    import tosa_convert as tc

    path = tmp_path_factory.mktemp("imports") / "digits_cnn.tosa"
    tc.save(tc.load(example), path)
    return path


#: Fixture of the input, the output, and further parts that the conversion does not need.
CONVERSIONS = {
    "bytecode-to-flatbuffer": (
        "example",
        "m.tosa",
        {"formats.mlir.write", "formats.flatbuffer.read"},
    ),
    "flatbuffer-to-bytecode": ("flatbuffer", "m.mlirbc", {"formats.mlir.read.module"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CONVERSIONS)
def test_a_conversion_imports_what_reads_one_format_and_writes_the_other(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    source, target, further = CONVERSIONS[name]
    ours, others = imported(
        "convert", str(request.getfixturevalue(source)), "-o", str(tmp_path / target)
    )
    assert within(ours, NEVER | further) == set()
    assert 50 < len(ours) <= MOST_OF_WORK
    assert within(others, HEAVY | {"bz2", "lzma"}) == set()


@pytest.mark.slow
def test_validate_imports_what_reads_the_file_and_the_rules(flatbuffer: Path) -> None:
    ours, others = imported("validate", str(flatbuffer))
    assert within(ours, NEVER | {"formats.mlir", "formats.write"}) == set()
    assert 50 < len(ours) <= MOST_OF_WORK
    assert within(others, HEAVY) == set()


@pytest.mark.slow
def test_show_imports_no_reader_of_models(flatbuffer: Path) -> None:
    ours, others = imported("show", str(flatbuffer))
    assert within(ours, {"frontends"}) <= {"frontends", "frontends.table"}
    assert within(others, HEAVY | {"bz2", "lzma", "pathlib", "shutil", "urllib"}) == set()


@pytest.mark.slow
def test_help_of_convert_imports_its_options() -> None:
    ours, others = imported("convert", "--help")
    assert within(ours, NEVER | {"graph", "rules", "formats"}) == set()
    assert len(ours) <= MOST_OF_HELP
    assert within(others, HEAVY - {"ast", "inspect"}) == set()  # click imports these
    assert "numpy" not in listed(_COMMAND, "convert", "--help")


def test_modules_within_parts_are_found() -> None:
    modules = {"views", "views.pictures.static_formats", "viewsight", "cli.show"}
    assert within(modules, {"views"}) == {"views", "views.pictures.static_formats"}


def test_help_of_all_verbs_imports_neither_numpy_nor_the_graph() -> None:
    modules = listed(_COMMAND, "--help")
    assert not {"numpy", "ml_dtypes", "logging", "tosa_convert.graph"} & modules


_DEPTH = """
import sys

def note(event, arguments):
    if event == "import" and arguments[0] == "numpy":
        frame, count = sys._getframe(), 0
        while frame := frame.f_back:
            count += 1
        print("depth:", count)

sys.addaudithook(note)
"""


@pytest.mark.slow
@pytest.mark.parametrize("target", ["m.mlirbc", "m.tosa"])
def test_numpy_is_imported_while_few_functions_are_running(
    target: str, flatbuffer: Path, tmp_path: Path
) -> None:
    """Where many run, Python maps and unmaps memory for their frames thousands of times."""
    code = f"{_DEPTH}import tosa_convert.graph.lazy_numpy as few; few.FEW = 1{_COMMAND}"
    words = ["convert", str(flatbuffer), "-o", str(tmp_path / target)]
    command = [sys.executable, "-c", code, *words]
    out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert int(out.partition("depth:")[2].split()[0]) < 20


#: Command lines whose work on a small program needs neither numpy nor click.
WITHOUT_NUMPY = (
    "convert INPUT -o m.mlirbc",
    "convert INPUT -o m.tosa --weights offset",
    "convert INPUT -o m.json",
    "convert INPUT -o m.mlir",
    "validate INPUT",
    "diff INPUT INPUT",
    "repack INPUT -o m.tosa",
    "convert INPUT.mlir -o m.tosa",
    "convert INPUT.json -o m.tosa",
    "diff INPUT INPUT.mlir",
    "show INPUT",
)


@pytest.mark.slow
@pytest.mark.parametrize("line", WITHOUT_NUMPY)
def test_small_programs_need_neither_numpy_nor_click(
    line: str, flatbuffer: Path, tmp_path: Path
) -> None:
    import tosa_convert as tc

    for extension in ("mlir", "json"):
        if f".{extension}" in line.partition(" -o")[0]:
            tc.save(tc.load(flatbuffer), f"{flatbuffer}.{extension}")
    line = line.replace("INPUT", str(flatbuffer))
    words = line.replace(" m.", f" {tmp_path}/m.").split()
    assert not {"numpy", "ml_dtypes", "click"} & listed(_COMMAND, *words)


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
    code = f"import sys{_AT_THE_START_OF_A_CHILD}{_COMMAND}"
    words = [sys.executable, "-c", code, "convert", str(model), "-o", str(tmp_path / "m.tosa")]
    out = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120).stdout
    modules = set(out.rpartition("modules:")[2].split())
    assert "tosa_convert.frontends.process.run" in modules
    assert not {"numpy", "tosa_convert.graph", "tosa_convert.rewrites"} & modules
