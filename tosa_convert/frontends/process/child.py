"""Lowers one model with its framework: of `request.json`, or many with SERVE and a frontend's name.

Without a request it writes `installed.json`. Until the converter is imported it needs the standard
library only, so that any Python can run it.
"""

from __future__ import annotations

import gc
import importlib
import json
import sys
import textwrap
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from tosa_convert.errors import TosaConvertError
from tosa_convert.frontends.process.python_file import assumed
from tosa_convert.frontends.process.request import (
    INSTALLED_FILE,
    INTERFACE_FILE,
    REQUEST_FILE,
    SERVE,
    STARTED_FILE,
    Interface,
    Request,
    say_stage,
)
from tosa_convert.frontends.table import Frontend, absent, all_installed, frontend
from tosa_convert.process.workers import serve

#: Lines of an exception's text that are repeated, and their width.
_MOST_LINES: Final = 12
_LINE_WIDTH: Final = 70
_PLEASE: Final = "please report it"
#: Objects after which the garbage collector runs: frameworks make many that stay. At Python's own
#: number it takes an eighth of a conversion from torch.
_NEW_OBJECTS: Final = 50_000


def run(arguments: Sequence[str]) -> int:
    """Do what the arguments say: the folder of one model, or SERVE and a frontend."""
    gc.set_threshold(_NEW_OBJECTS, 20, 100)
    if arguments[0] == SERVE:
        return _serve(arguments[1])
    return main(Path(arguments[0]))


def main(folder: Path) -> int:
    """Do what a folder's request says; returns the exit code."""
    (folder / STARTED_FILE).touch()
    if not (folder / REQUEST_FILE).exists():
        rows = [asdict(row) for row in all_installed()]
        (folder / INSTALLED_FILE).write_text(json.dumps(rows), encoding="utf-8")
        return 0
    request = Request.from_json((folder / REQUEST_FILE).read_text(encoding="utf-8"))
    row = frontend(request.frontend)
    say_stage(folder, f"importing the converter for {request.frontend}")
    if distributions := absent(row):
        interface = Interface(absent=distributions)
    else:
        interface = _lower(row, request, folder)
    # Last: the parent takes its absence as a failure.
    (folder / INTERFACE_FILE).write_text(interface.to_json(), encoding="utf-8")
    return 0


def _lower(row: Frontend, request: Request, folder: Path) -> Interface:
    try:
        converter = importlib.import_module(row.converter)
        say_stage(folder, "loading the model")
        interface: Interface = converter.lower(request, folder)
    except TosaConvertError as error:
        return Interface(findings=list(error.findings))
    except Exception as error:
        # The parent repeats the end of stderr: the text says more there than a traceback.
        sys.exit(_words(error))
    interface.versions = {**_versions(row), **interface.versions}
    interface.remarks = [*assumed, *interface.remarks]
    return interface


def _versions(row: Frontend) -> dict[str, str]:
    """Return the versions of the packages that the converter imported, as they state them."""
    modules = {name: sys.modules.get(package) for package, name in row.packages.items()}
    found = {name: getattr(module, "__version__", None) for name, module in modules.items()}
    return {name: version for name, version in found.items() if isinstance(version, str)}


def _words(error: Exception) -> str:
    """Return the text of an exception, with the innermost line of this package that it came through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "tosa_convert" in Path(frame.filename).parts]
    place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
    said = [part for line in str(error).splitlines() for part in textwrap.wrap(line, _LINE_WIDTH)]
    if ours[-1] is frames[-1]:
        place += f", a defect of tosa-convert: {_PLEASE}"
    head = type(error).__name__
    lines = [f"{head}: {said[0]}" if said else head, *said[1:_MOST_LINES], f"({place})"]
    return "\n".join(lines)


# -- many models ---------------------------------------------------------------------------------


def _serve(name: str) -> int:
    """Import a frontend's converter once, and lower the model of each folder in a fork."""

    def prepare() -> bool:
        row = frontend(name)
        if not absent(row):
            converter = importlib.import_module(row.converter)
            getattr(converter, "warm_up", lambda: None)()
        return True

    return serve(prepare, lambda: main(Path(sys.argv[1])))
