"""MLIR files: text and bytecode, through MLIR's own parser and printer."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from tosa_convert.bindings.detach_weights import detach
from tosa_convert.bindings.diagnostics import diagnostics, form_of, refused_by_bindings
from tosa_convert.bindings.packages import Bindings
from tosa_convert.bindings.untrusted import bytecode, text
from tosa_convert.errors import fail
from tosa_convert.files import Sink
from tosa_convert.mlir.bytecode.detached import NO_DETACHED_WEIGHTS, DetachedWeights
from tosa_convert.mlir.bytecode.format import MAGIC

#: Bytes of a file that are looked at to tell how it is written.
_HEAD: Final = 1 << 16


@refused_by_bindings()
def parse(
    bindings: Bindings, context: Any, data: memoryview, path: str = ""
) -> tuple[Any, DetachedWeights]:
    """The module in `data`, and the weights of it that MLIR does not get to see.

    Where it is a file's content and keeps its weights, MLIR maps the file at `path` itself.
    Raises TosaConvertError("malformed-mlir") with MLIR's diagnostics as findings. Damaged bytecode that
    passes our own look at its structure may still crash MLIR's parser, and this process.
    """
    module = bindings.ir.Module
    binary = bytes(data[: len(MAGIC)]) == MAGIC
    if binary:
        taken = detach(data, bytecode.check(data, path))
        if taken is not None:
            with suppress(bindings.ir.MLIRError):
                return module.parse(taken[0], context), taken[1]
            # MLIR shall say what is wrong with the file itself.
    else:
        text.check(data, path)
    try:
        # parseFile leaves bytecode mapped, so that resources are not copied.
        if path and os.path.isfile(path):
            return module.parseFile(path, context), NO_DETACHED_WEIGHTS
        raw = bytes(data)
        return module.parse(raw if binary else raw.decode(), context), NO_DETACHED_WEIGHTS
    except UnicodeDecodeError as error:
        where = f"{path}: byte {error.start}" if path else f"byte {error.start}"
        raise fail("malformed-mlir", where, "the text is not UTF-8") from None
    except bindings.ir.MLIRError as error:
        raise diagnostics(bindings, error, path, form=form_of(bytes(data[:_HEAD]))) from None


def dump(module: Any, *, binary: bool, locations: bool = True) -> Callable[[Sink], None]:
    """What writes the module to a sink, as bytecode or as text with its locations.

    MLIR hands its output over piece by piece, so memory does not grow with the weights.
    """

    def write(sink: Sink) -> None:
        if binary:
            module.operation.write_bytecode(sink)
        else:
            module.operation.print(file=sink, binary=True, enable_debug_info=locations)
            sink.write(b"\n")

    return write
