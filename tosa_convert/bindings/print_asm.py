"""Attributes and types printed by MLIR, for those that `mlir.bytecode` does not decode."""

from __future__ import annotations

from tosa_convert.bindings.packages import Bindings
from tosa_convert.mlir.bytecode.opaque import KEY


def print_asm(bindings: Bindings, file: bytes) -> str:
    """The attribute `opaque.KEY` of the module in a bytecode file, as MLIR prints it.

    "..." if MLIR or its bindings cannot print it: text that is not UTF-8, a location.
    """
    ir = bindings.ir
    context = ir.Context()
    context.allow_unregistered_dialects = True
    try:
        module = ir.Module.parse(file, context)
        return str(module.operation.attributes[KEY])
    except (ir.MLIRError, RuntimeError, TypeError, UnicodeDecodeError):
        return "..."
