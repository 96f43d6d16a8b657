"""The scripts in examples/ that convert a framework's model, where its framework is installed."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

#: How far results are from the framework's: by roundings, or not at all on some processors.
ERROR = r"largest error (0|\S*e-0[6-9])\n"
#: Script -> the packages that it needs, and what it prints.
SCRIPTS = {
    "convert_torch_counter.py": (
        ("torch",),
        rf"(call \d: {ERROR}){{3}}",
    ),
    "convert_onnx_resize.py": (
        ("onnx", "onnxruntime"),
        ERROR,
    ),
    "convert_tflite_int8.py": (
        ("tensorflow",),
        r"0 of 5 elements differ\n",
    ),
    "convert_keras_classifier.py": (
        ("keras", "jax"),
        ERROR,
    ),
    "convert_jax_decoder.py": (("jax",), r"(token \d: word \d+, as in JAX\n){6}"),
}


@pytest.mark.parametrize("name", list(SCRIPTS))
def test_the_program_of_a_script_gives_what_the_framework_gives(
    root: Path, tmp_path: Path, name: str
) -> None:
    packages, printed = SCRIPTS[name]
    for package in (*packages, "tosa_reference_model"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    command = [sys.executable, "-W", "ignore", str(root / "examples" / name)]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert re.search(printed, done.stdout), done.stdout
    assert [path.suffix for path in tmp_path.iterdir()] == [".tosa"]


def test_the_readme_names_every_example(root: Path) -> None:
    text = (root / "examples" / "README.md").read_text(encoding="utf-8")
    names = {path.name for path in (root / "examples").iterdir() if path.is_file()} - {"README.md"}
    assert [name for name in sorted(names) if f"`{name}`" not in text] == []
    converting = {name for name in names if name.startswith("convert_")}
    assert converting == SCRIPTS.keys()
