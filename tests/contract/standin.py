"""A package called `mlir` laid out as upstream's, made of a wheel's own files.

Upstream's bindings are on no registry, but they are the same sources built under another name. Every
entry of the wheel's package is linked into a package `mlir`, so the extension is loaded as
`mlir._mlir_libs._mlir` and its classes are `mlir._mlir_libs._mlir.ir.Module` and so on. One thing
cannot be changed from outside: the package's name is compiled in where the extension looks for the
Python classes of a dialect's operations (`torch_mlir.dialects.func`) and names its capsules. So the
stand-in redirects imports of that package to itself; otherwise the wheel's own package would be loaded
as a second copy of the extension, which ends the process.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

WHEEL: Final = "torch_mlir"

_INIT: Final = f'''
import importlib
import importlib.abc
import importlib.util
import sys


class _Redirect(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """`{WHEEL}.x` is `mlir.x`; `{WHEEL}` itself is empty."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] != "{WHEEL}":
            return None
        return importlib.util.spec_from_loader(name, self, is_package=name == "{WHEEL}")

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        name = module.__spec__.name
        if name != "{WHEEL}":
            sys.modules[name] = importlib.import_module("mlir" + name[len("{WHEEL}"):])


sys.meta_path.insert(0, _Redirect())
'''


def make(folder: Path, wheel: Path) -> Path:
    """Put the package into a folder; returns what to put on the path."""
    package = folder / "mlir"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(_INIT, encoding="utf-8")
    for entry in wheel.iterdir():
        if entry.name in ("__init__.py", "__pycache__"):
            continue
        try:
            os.symlink(entry, package / entry.name, target_is_directory=entry.is_dir())
        except OSError:  # a system or a user without links
            if entry.is_dir():
                shutil.copytree(entry, package / entry.name)
            else:
                shutil.copy(entry, package / entry.name)
    return folder
