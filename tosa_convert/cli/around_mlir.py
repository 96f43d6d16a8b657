"""What the command does before MLIR reads, imported only for inputs that MLIR reads: MLIR text."""

from __future__ import annotations

from contextlib import AbstractContextManager


def around_mlir(where: str) -> AbstractContextManager[None]:
    """`supervise.reading`: let MLIR read the file `where` in a child process that may crash."""
    from tosa_convert.cli import supervise

    return supervise.reading(where)
