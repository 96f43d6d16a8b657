"""The process that `tosa_convert.isolation` starts: it parses MLIR, and hands a flatbuffer back."""

from __future__ import annotations

import json
import sys

from tosa_convert import api
from tosa_convert.errors import TosaConvertError
from tosa_convert.isolation import FAILED


def main(limits: str, options: str, target: str, *source: str) -> int:
    """Write the program in the file `source`, or in standard input, to `target`; the exit code.

    limits: bytes of memory and seconds of processor time, as JSON; options: those of `api.load`.
    """
    limit(*json.loads(limits))
    try:
        graph = api.load(source[0] if source else sys.stdin.buffer.read(), **json.loads(options))
        api.save(graph, target, to="tosa")
    except TosaConvertError as error:
        rows = [(f.code, f.where, f.message, f.hint, f.excerpt) for f in error.findings]
        sys.stdout.write(json.dumps(rows))
        return FAILED
    return 0


def limit(memory: int, seconds: int) -> None:
    """Let this process have no more than that, as far as the system keeps to it."""
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
