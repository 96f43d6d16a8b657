"""Untrusted MLIR text, parsed in a separate process.

MLIR's parser is native code: damaged text can crash it, hang it or make it allocate any amount of
memory. Here a child process parses, and returns a flatbuffer, which is checked like any other. The child
has limits; a crash or a timeout becomes a finding.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tosa_convert.child_process import describe_exit, run_child
from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.files import map_file
from tosa_convert.options import ReadOptions

if TYPE_CHECKING:
    from tosa_convert.graph.model import Graph

#: Processor time for each mebibyte of the input, in seconds, besides `limits.isolated_seconds`.
SECONDS_PER_MIB: Final = 2.0
#: Additional wall-clock time of the child, in seconds: the machine may be busy.
PATIENCE: Final = 15.0
#: Address space for each byte of the input, in bytes, besides `limits.isolated_memory`: MLIR's
#: libraries alone take about one GiB. Only Linux enforces it.
MEMORY_PER_BYTE: Final = 32

#: The program of the child. As a file and with -I, so that nothing is imported from the working folder,
#: which may contain other untrusted files.
CHILD: Final = Path(__file__).with_name("isolation_child.py")

#: The child's output in the folder that it is given: a program, or the findings about the input.
MODULE: Final = "module.tosa"
FINDINGS: Final = "findings.json"
#: Exit code of a child that wrote findings instead of a program.
FAILED: Final = 3
#: Exit codes of a child that used up its processor time.
_TIMED_OUT: Final = {-getattr(signal, "SIGXCPU", 0)} - {0}
_HINT: Final = "the input is damaged, or MLIR has a defect; this process is not affected"


def load(data: memoryview, where: str, options: ReadOptions) -> Graph:
    """The graph of an MLIR module in text.

    Args:
        data: the content of the input.
        where: its path, or "" for bytes in memory.
        options: as for `tosa_convert.load`; the child gets all of them.

    Raises:
        TosaConvertError: as `tosa_convert.load` does, and "malformed-mlir" if the child crashes or
            exceeds a limit.
    """
    from tosa_convert.flatbuffer.read import read

    limits = options.limits
    memory = limits.isolated_memory + MEMORY_PER_BYTE * len(data)
    seconds = math.ceil(limits.isolated_seconds + SECONDS_PER_MIB * len(data) / (1 << 20))
    with tempfile.TemporaryDirectory(prefix="tosa-convert-") as folder:
        # A file stays where it is, because locations contain its name.
        is_file = os.path.isfile(where)
        request = {
            "path": sys.path,
            "parent": os.getpid(),
            "memory": memory,
            "seconds": seconds,
            "options": dataclasses.asdict(dataclasses.replace(options, isolate=False)),
            "folder": folder,
            "source": os.path.abspath(where) if is_file else None,
        }
        command = [sys.executable, "-I", os.fspath(CHILD), json.dumps(request)]
        child = run_child(
            command,
            timeout=seconds + PATIENCE,
            input_bytes=b"" if is_file else data,
            inherit_stderr=True,
        )
        if child.timed_out or child.code in _TIMED_OUT:
            message = f"MLIR did not read the file within {seconds} seconds"
            raise fail("malformed-mlir", where, message, _HINT)
        if child.code == FAILED:
            raise _refusal(Path(folder, FINDINGS), where)
        if child.code:
            message = f"MLIR crashed while it read the file: {describe_exit(child.code)}"
            raise fail("malformed-mlir", where, message, _HINT)
        # Windows cannot remove a file that is mapped.
        content = map_file(Path(folder, MODULE), copy=options.copy or os.name != "posix")
        return read(content, where, limits=limits)


def _refusal(findings: Path, where: str) -> TosaConvertError:
    """The child's findings, with the path of the input as the caller wrote it."""
    absolute = os.path.abspath(where)
    return TosaConvertError(
        Finding(code, place.replace(absolute, where) if where else place, *texts)
        for code, place, *texts in json.loads(findings.read_bytes())
    )
