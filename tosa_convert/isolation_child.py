"""The process that `tosa_convert.isolation` starts: it parses MLIR and leaves a flatbuffer in a folder.

It is run as a file, so nothing of the package is imported before `sys.path` is that of the parent.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def main(request: dict[str, Any]) -> int:
    """Write the program that the request names into its folder; returns the exit code.

    Args:
        request: `parent`, the process that this one ends with; `memory` (bytes) and `seconds` of
            processor time that this process may use; `options`, the fields of ReadOptions; `folder`,
            for the result; `source`, a path, or None for the bytes in standard input.
    """
    from tosa_convert.child_process import end_with_parent, limit_this_process

    end_with_parent(request["parent"])
    limit_this_process(memory=request["memory"], cpu_seconds=request["seconds"])
    from tosa_convert.errors import TosaConvertError
    from tosa_convert.isolation import FAILED, FINDINGS, MODULE
    from tosa_convert.options import ReadOptions, WriteOptions
    from tosa_convert.reading import load
    from tosa_convert.writing import save

    try:
        options = ReadOptions.from_dict(request["options"])
        source = request["source"]
        graph = load(sys.stdin.buffer.read() if source is None else source, options)
        target = os.path.join(request["folder"], MODULE)
        save(graph, target, "tosa", WriteOptions(validate=False))
    except TosaConvertError as error:
        rows = [(f.code, f.where, f.message, f.hint, f.excerpt) for f in error.findings]
        with open(os.path.join(request["folder"], FINDINGS), "w", encoding="utf-8") as file:
            json.dump(rows, file)
        return FAILED
    return 0


if __name__ == "__main__":
    arguments: dict[str, Any] = json.loads(sys.argv[1])
    sys.path[:] = arguments["path"]
    sys.exit(main(arguments))
