"""What is kept of a case that does not pass, and inputs that are reduced for it."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tosa_convert.golden.arrays.by_name import Array, OutputFolder
from tosa_convert.golden.arrays.npz import npz_pieces
from tosa_convert.qualify.reduction.shrinking import nonzero_elements, reduce_data
from tosa_convert.records import dataclass

_LOG: Final = "log.txt"
#: The files that are kept of a case.
_KEPT: Final = ("model.tosa", "inputs.npz", "reference.npz", "found.npz", _LOG)
#: What the command that runs a case again begins with.
_COMMAND: Final = "tosa-flatbuffer suite"


@dataclass(frozen=True, slots=True)
class Failed:
    """A case, and where it is kept if it does not pass.

    name: its name. source: its program. folder: where it is kept, None for nowhere.
    command: runs it again.
    """

    name: str
    source: Path
    folder: Path | None
    command: str

    def keep(
        self,
        inputs: Mapping[str, Array],
        message: str,
        reference: Mapping[str, Array] | None = None,
        found: Mapping[str, Array] | None = None,
    ) -> None:
        """Keep what shows the failure: the program, the inputs, the results, and what was said.

        reference, found: the results of the reference and of the backend, if there are any.
        Raises TosaConvertError("file-error").
        """
        if self.folder is None:
            return
        with OutputFolder(self.folder) as target:
            target.write("model.tosa", [self.source.read_bytes()])
            target.write("inputs.npz", npz_pieces(dict(inputs)))
            if reference is not None:
                target.write("reference.npz", npz_pieces(dict(reference)))
            if found is not None:
                target.write("found.npz", npz_pieces(dict(found)))
            text = f"{self.name}\n{message}\n\n{self.command}\n"
            target.write(_LOG, [text.encode()])


def remove_kept(keep: Path, name: str, case_folder: Path) -> None:
    """Remove what an earlier run kept of a case, which runs again: it may pass now.

    keep: the folder of what is kept. Nothing else is removed, nor the case itself if it is there.
    """
    folder = keep / name
    try:
        text = (folder / _LOG).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return
    is_ours = text.startswith(f"{name}\n") and f"\n\n{_COMMAND} " in text
    if not is_ours or folder.resolve() == case_folder.resolve():
        return
    for file in _KEPT:
        (folder / file).unlink(missing_ok=True)
    for path in folder.glob("failed-*"):
        shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):  # something else is there
        while folder != keep:
            folder.rmdir()
            folder = folder.parent


def reduced(
    inputs: dict[str, Array], wrong_on: Callable[[dict[str, Array]], str]
) -> tuple[dict[str, Array], str]:
    """Return inputs with as many zeros as possible on which a case is still wrong, and a text.

    wrong_on: says what is wrong on other inputs; "" if nothing is.
    """
    smallest = reduce_data(inputs, lambda arrays: bool(wrong_on(arrays)))
    count, total = nonzero_elements(smallest)
    said = "\n".join(f"  {line}" for line in wrong_on(smallest).splitlines())
    return smallest, f"\nreduced: {count} of {total} input elements are not zero\n{said}"


def nearby(path: str) -> str:
    """Return a path from the working folder; the path itself on another drive."""
    try:
        return os.path.relpath(path)
    except ValueError:
        return path
