"""The child process: lowers one model with its framework.

It reads `request.json` of a folder, and writes `program.mlirbc` and `interface.json` there. Without a
request it writes `installed.json`, which says what of the frontends is installed. Until the
converter is imported it needs Python's standard library only, so that any Python can run it.
"""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import asdict
from pathlib import Path

from tosa_convert.errors import TosaConvertError
from tosa_convert.frontends.installed import absent, all_installed
from tosa_convert.frontends.interface import INSTALLED_FILE, INTERFACE_FILE, Interface
from tosa_convert.frontends.request import REQUEST_FILE, Request
from tosa_convert.frontends.table import Frontend, frontend


def main(folder: Path) -> int:
    """Do what a folder's request says; returns the exit code."""
    if not (folder / REQUEST_FILE).exists():
        rows = [asdict(row) for row in all_installed()]
        (folder / INSTALLED_FILE).write_text(json.dumps(rows), encoding="utf-8")
        return 0
    request = Request.from_json((folder / REQUEST_FILE).read_text(encoding="utf-8"))
    row = frontend(request.frontend)
    if distributions := absent(row):
        interface = Interface(absent=distributions)
    else:
        interface = _lower(row, request, folder)
    # Last: the parent takes its absence as a failure.
    (folder / INTERFACE_FILE).write_text(interface.to_json(), encoding="utf-8")
    return 0


def _lower(row: Frontend, request: Request, folder: Path) -> Interface:
    try:
        interface: Interface = importlib.import_module(row.converter).lower(request, folder)
    except TosaConvertError as error:
        return Interface(findings=list(error.findings))
    except Exception as error:
        # The parent repeats the end of stderr: one line says more there than a traceback.
        sys.exit(f"{type(error).__name__}: {error} ({_place(error)})")
    interface.versions = {**_versions(row), **interface.versions}
    return interface


def _versions(row: Frontend) -> dict[str, str]:
    """The versions of the packages that the converter imported, as they state them."""
    modules = {name: sys.modules.get(package) for package, name in row.packages.items()}
    found = {name: getattr(module, "__version__", None) for name, module in modules.items()}
    return {name: version for name, version in found.items() if isinstance(version, str)}


def _place(error: Exception) -> str:
    """The innermost line of this package that an exception came through."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "tosa_convert" in Path(frame.filename).parts]
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
