"""Modules parsed and verified by torch-mlir in a child process, which damaged bytecode may end."""

from __future__ import annotations

import io
import os
import pickle
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

from tosa_convert.formats.bindings.packages import Bindings, default_bindings

#: Mutants that one process judges: its context keeps all constants.
_PER_WORKER: Final = 2000
#: Seconds after which a process is ended: MLIR never returns from some damaged bytecode.
_PATIENCE: Final = 5
#: The exit code of a process that has judged so many.
_NEXT: Final = 3
_LENGTH: Final = struct.Struct("<q")


class Read(NamedTuple):
    """What MLIR says of a module: its message of refusal, or "" and the module as bytecode."""

    refusal: str
    module: bytes = b""


def serve() -> None:
    """Judge the modules on standard input until it ends.

    MLIR may end the process on damaged bytecode, so that a fork judges. To import MLIR again would take
    longer than to judge a hundred modules.
    """
    bindings = default_bindings("torch_mlir")
    status = _NEXT
    while status:
        worker = os.fork()
        if not worker:
            os._exit(_work(bindings))
        status = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
        if status not in (0, _NEXT):
            _write(1, pickle.dumps(("MLIR ends the process", b"")))


def _work(bindings: Bindings) -> int:
    """Judge modules; the exit code is `_NEXT` if there may be more."""
    ir, context = bindings.ir, bindings.new_context()
    for _ in range(_PER_WORKER):
        data = _read(0)
        if data is None:
            return 0
        signal.alarm(_PATIENCE)
        try:
            # Resources of one name get another one in a context that has the name.
            own = bindings.new_context() if b"dense_resource" in data else context
            found = Read("", _bytecode_of(ir.Module.parse(data, own)))
        except ir.MLIRError as error:
            found = Read(str(error) or "refused")
        signal.alarm(0)  # the next module may be long in coming
        _write(1, pickle.dumps(tuple(found)))
    return _NEXT


def _read(descriptor: int) -> bytes | None:
    """Return the bytes after their length.

    None at the end. Unbuffered: several processes read in turn.
    """
    size = os.read(descriptor, _LENGTH.size)
    if len(size) < _LENGTH.size:
        return None
    (left,) = _LENGTH.unpack(size)
    parts = []
    while left:
        parts.append(os.read(descriptor, left))
        left -= len(parts[-1])
    return b"".join(parts)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(_LENGTH.pack(len(data)) + data)
    while view:
        view = view[os.write(descriptor, view) :]


def _bytecode_of(module: Any) -> bytes:
    stream = io.BytesIO()
    module.operation.write_bytecode(stream)
    return stream.getvalue()


class Mlir:
    """MLIR in a child process."""

    def __init__(self) -> None:
        self.child = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def __call__(self, data: bytes) -> Read:
        """Return what MLIR says of a module."""
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        _write(self.child.stdin.fileno(), data)
        answer = _read(self.child.stdout.fileno())
        assert answer is not None, "the child ended"
        return Read(*pickle.loads(answer))

    def close(self) -> None:
        """End the child."""
        self.child.communicate()


if __name__ == "__main__":
    serve()
