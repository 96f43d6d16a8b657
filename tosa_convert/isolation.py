"""MLIR that nobody has vouched for, read in a process of its own.

MLIR's parsers are written for files that MLIR wrote: damaged bytecode can crash them, hang them or make
them ask for any amount of memory. Here a child process parses, and hands a flatbuffer back, which is
checked like any other. The child has limits; what it dies of is a finding.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.files import map_file

if TYPE_CHECKING:
    from tosa_convert.graph.model import Graph

#: Seconds of processor time that the child may take, and further ones for each mebibyte.
SECONDS: Final = 4.0
SECONDS_PER_MIB: Final = 2.0
#: How much longer it may take by the clock: the machine may be busy.
PATIENCE: Final = 15.0
#: Address space of the child: MLIR's libraries alone take about one GiB. Linux keeps to it.
MEMORY_FREE: Final = 4 << 30
MEMORY_PER_BYTE: Final = 32

#: What the child runs, once it has our own path instead of one that begins in the working folder,
#: which may be where the untrusted file came with others.
CHILD: Final = "from tosa_convert.cli.isolation_child import main; sys.exit(main(*sys.argv[1:]))"

#: How the child ends that wrote findings instead of a program.
FAILED: Final = 3
#: How a child ends that has used up its time.
_LATE: Final = {-getattr(signal, "SIGXCPU", 0)} - {0}
_HINT: Final = "the input is damaged, or a defect of MLIR's: it did not happen in this process"


def load(data: memoryview, where: str, **options: Any) -> Graph:
    """The graph of an MLIR module in text or bytecode; `options` are those of `api.load`.

    Raises TosaConvertError as `api.load` does, and ("malformed-mlir") if the child crashes or does not
    end in time.
    """
    from tosa_convert.flatbuffer.read import read

    with tempfile.TemporaryDirectory(prefix="tosa-convert-") as folder:
        target = Path(folder, "module.tosa")
        code = f"import sys; sys.path[:] = {sys.path!r}\n{CHILD}"
        memory = MEMORY_FREE + MEMORY_PER_BYTE * len(data)
        seconds = math.ceil(SECONDS + SECONDS_PER_MIB * len(data) / (1 << 20))
        limits = json.dumps([memory, seconds])
        command = [sys.executable, "-c", code, limits, json.dumps(options), str(target)]
        # A file is left where it is: its name stands in locations.
        named = os.path.isfile(where)
        if named:
            command.append(os.path.abspath(where))
        try:
            child = subprocess.run(
                command,
                input=b"" if named else data,
                stdout=subprocess.PIPE,
                timeout=seconds + PATIENCE,
                check=False,
            )
            late = child.returncode in _LATE
        except subprocess.TimeoutExpired:
            late = True
        if late:
            message = f"MLIR did not read it within {seconds} seconds"
            raise fail("malformed-mlir", where, message, _HINT)
        if child.returncode == FAILED:
            rows = json.loads(child.stdout)
            raise TosaConvertError(
                Finding(
                    code, place.replace(os.path.abspath(where), where) if where else place, *texts
                )
                for code, place, *texts in rows
            )
        if child.returncode:
            message = f"MLIR crashed while it read it: {_death(child.returncode)}"
            raise fail("malformed-mlir", where, message, _HINT)
        content = map_file(target)
        # Windows cannot remove a file that is mapped.
        return read(content if os.name == "posix" else bytes(content), where)


def _death(code: int) -> str:
    if code < 0:
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"
    return f"exit code {code}"
