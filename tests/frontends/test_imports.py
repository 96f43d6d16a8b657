"""What converters use of a framework exists once the framework is imported."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tosa_convert
from tosa_convert.frontends.table import FRONTENDS

PACKAGE = Path(tosa_convert.__file__).parent
FILES = (
    *sorted((PACKAGE / "frontends").rglob("*.py")),
    PACKAGE / "golden" / "backends" / "worker.py",
)
FRAMEWORKS = sorted({name for row in FRONTENDS.values() for name in row.packages})
pytestmark = pytest.mark.slow  # it starts a process for each package
#: Prints each chain of attributes that a package does not have after its import alone.
LOOK = """
import importlib, json, sys
package = importlib.import_module(sys.argv[1])
for place, names in json.load(sys.stdin):
    found = package
    for name in names.split(".")[1:]:
        if not hasattr(found, name):
            print(f"{place}: {names}")
            break
        found = getattr(found, name)
"""


def used(package: str, source: str) -> list[tuple[int, str]]:
    """Return line and name of each attribute that a file uses of a package that it imports as a whole.

    Those of a submodule that it imports itself, as `import package.sub`, are left out, and operators of
    torch, which other packages register.
    """
    tree = ast.parse(source)
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.asname is None
    }
    found = []
    for node in ast.walk(tree):
        parts: list[str] = []
        inner = node
        while isinstance(inner, ast.Attribute):
            parts.append(inner.attr)
            inner = inner.value
        if not isinstance(node, ast.Attribute) or not isinstance(inner, ast.Name):
            continue
        if inner.id == package and package in imported:
            name = ".".join([package, *reversed(parts)])
            elsewhere = {"torch.ops", *imported} - {package}
            if not any(f"{name}.".startswith(f"{one}.") for one in elsewhere):
                found.append((node.lineno, name))
    return found


@pytest.mark.parametrize("package", FRAMEWORKS)
def test_a_submodule_that_a_converter_uses_is_imported(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    rows = [
        (f"{path.name}:{line}", name)
        for path in FILES
        for line, name in used(package, path.read_text(encoding="utf-8"))
    ]
    command = [sys.executable, "-W", "ignore", "-c", LOOK, package]
    ended = subprocess.run(command, input=json.dumps(rows), text=True, capture_output=True)
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr


def imported(module: str, seen: set[str]) -> set[str]:
    """Return the packages that the import of one of our modules imports, ours too."""
    path = PACKAGE.parent.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if module in seen or not path.exists():  # A function of the module before.
        return set()
    seen.add(module)
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            top = name.partition(".")[0]
            found |= imported(name, seen) if top == PACKAGE.name else {top}
    return found


@pytest.mark.parametrize("name", list(FRONTENDS))
def test_a_converter_imports_no_framework_that_its_extra_leaves_out(name: str) -> None:
    row = FRONTENDS[name]
    found = imported(row.converter, set()) & set(FRAMEWORKS)
    assert found - row.packages.keys() == set()


def test_uses_are_found() -> None:
    source = "import onnx\nimport onnx.helper\nonnx.inliner.inline(onnx.load(onnx.helper.make()))\n"
    names = [name for _, name in used("onnx", source)]
    assert sorted(names) == ["onnx.inliner", "onnx.inliner.inline", "onnx.load"]


@pytest.mark.parametrize("package", ["jax", "keras", "onnx", "torch"])
def test_the_files_are_those_that_use_frameworks(package: str) -> None:
    pattern = re.compile(rf"^\s*(import|from) {package}\b", re.MULTILINE)
    assert any(pattern.search(path.read_text(encoding="utf-8")) for path in FILES)
