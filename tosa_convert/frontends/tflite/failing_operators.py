"""Which operators of a TFLite model make its converter fail."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Final, NoReturn

from tosa_convert.frontends.process.request import NotLowered
from tosa_convert.frontends.tflite.edit_bytes import without_operators
from tosa_convert.frontends.tflite.read import TfliteFile, operator_name
from tosa_convert.frontends.unlowered import place_text

#: Types of tensors whose operators are not tried alone: a handle of a variable is made by
#: another operator.
_HANDLES: Final = frozenset({"resource", "variant"})
_STDERR: Final = 2


def failing_operators(
    model: TfliteFile, data: bytes | memoryview, path: Path, convert: Callable[[Path], object]
) -> list[NotLowered]:
    """Find the operators with which the converter fails, each tried alone."""
    rows = []
    for operator in model.operators:
        operands = [number for number in operator.inputs if number >= 0]
        tensors = [model.tensors[number] for number in (*operands, *operator.outputs)]
        if any(tensor.dtype in _HANDLES for tensor in tensors):
            continue
        given = [number for number in dict.fromkeys(operands) if not model.tensors[number].data]
        alone = TfliteFile(model.tensors, given, operator.outputs, [operator])
        path.write_bytes(without_operators(data, alone))
        with words_on_stderr() as words:
            try:
                convert(path)
                continue
            except CrashError as error:
                crash = str(error)
            except RuntimeError:
                crash = ""
        types = ", ".join(dict.fromkeys(tensor.dtype for tensor in tensors))
        said = crash or _said(words)
        made = (model.tensors[one].name for one in operator.outputs)
        rows.append(
            NotLowered(
                operator=operator_name(operator.code),
                where=place_text(operator.index, *made),
                reason=f"the converter fails for {types}" + (f": {said}" if said else ""),
                index=operator.index,
            )
        )
    return rows


class CrashError(RuntimeError):
    """The converter ended the process that it ran in."""


def in_fork(convert: Callable[[], object], meanwhile: Callable[[], object]) -> None:
    """Run a converter in a fork of this process, which it may end; meanwhile run another function here.

    Raises RuntimeError if it does; CrashError if it ended with a signal.
    """
    with tempfile.TemporaryFile() as file:
        child = os.fork()
        if not child:
            _convert_and_exit(convert, file)
        meanwhile()
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            raise CrashError(f"it ends with {signal.Signals(-code).name}")
        if code:
            file.seek(0)
            raise RuntimeError(file.read().decode(errors="replace"))


def _convert_and_exit(convert: Callable[[], object], file: IO[bytes]) -> NoReturn:
    """Run a converter, and write what it says if it fails; end this process with the code 0 or 1."""
    code = 1
    try:
        convert()
        code = 0
    except RuntimeError as error:
        file.write(str(error).encode())
    finally:
        file.flush()
        os._exit(code)


@contextlib.contextmanager
def words_on_stderr() -> Iterator[list[str]]:
    """Collect the lines that foreign code writes to stderr in the block. They are filled in after it."""
    lines: list[str] = []
    with tempfile.TemporaryFile() as file:
        kept = os.dup(_STDERR)
        os.dup2(file.fileno(), _STDERR)
        try:
            yield lines
        finally:
            os.dup2(kept, _STDERR)
            os.close(kept)
            file.seek(0)
            lines += file.read().decode(errors="replace").splitlines()


def _said(lines: list[str]) -> str:
    """Return the first error of MLIR, without its location, or ""."""
    errors = (found[1] for line in lines if (found := re.search(r"\berror: (.*)", line)))
    return next((error for error in errors if "Failed VHLO" not in error), "")
