"""MLIR files: text and bytecode, through MLIR's own parser and printer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from tosa_convert.mlir.bindings import Bindings
from tosa_convert.mlir.diagnostics import diagnostics


def parse(bindings: Bindings, context: Any, data: memoryview, path: str = "") -> Any:
    """The module in `data`; where it is a file's content, MLIR maps the file at `path` itself.

    Raises TosaConvertError("malformed-mlir") with MLIR's diagnostics as findings.
    """
    module = bindings.ir.Module
    try:
        # parseFile leaves bytecode mapped, so that resources are not copied.
        if path and os.path.isfile(path):
            return module.parseFile(path, context)
        raw = bytes(data)
        return module.parse(raw if raw.startswith(b"ML\xefR") else raw.decode(), context)
    except bindings.ir.MLIRError as error:
        raise diagnostics(bindings, error, path, parsing=True) from None


def dump(module: Any, *, binary: bool, locations: bool = True) -> Iterator[bytes]:
    """The module as bytecode, or as text with its locations."""
    operation = module.operation
    if not binary:
        text = operation.get_asm(enable_debug_info=locations)
        yield text.encode() if isinstance(text, str) else text
        yield b"\n"
        return
    pieces: list[bytes] = []

    class Sink:
        @staticmethod
        def write(piece: bytes) -> int:
            pieces.append(piece)
            return len(piece)

    operation.write_bytecode(Sink())
    yield from pieces
