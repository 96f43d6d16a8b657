"""ir.Module -> Graph, with the Python bindings to which the module belongs."""

from __future__ import annotations

from typing import Any, Final

from tosa_convert.errors import fail
from tosa_convert.formats.bindings.diagnostics import diagnostics, refused_by_bindings
from tosa_convert.formats.bindings.packages import Bindings, bindings_of
from tosa_convert.formats.bindings.write_bytecode import bytecode_of
from tosa_convert.formats.mlir.locations import plain_location
from tosa_convert.formats.mlir.read.module import read_module
from tosa_convert.formats.mlir.read.select_function import FUNCTION, MODULE
from tosa_convert.graph.model import Graph
from tosa_convert.io.options import ReadOptions
from tosa_convert.records import replace

_READ_OPTIONS: Final = ReadOptions()


@refused_by_bindings()
def read(module_or_func: Any, options: ReadOptions = _READ_OPTIONS) -> Graph:
    """Read the graph of one function of a module, through the bytecode that MLIR writes of it."""
    bindings = bindings_of(module_or_func)
    operation = operation_of(bindings, module_or_func)
    if operation.name not in (MODULE, FUNCTION):
        message = f"found the operation '{operation.name}', expected a {MODULE} or a {FUNCTION}"
        raise fail("not-an-mlir-object", plain_location(str(operation.location)), message)
    try:
        operation.verify()
    except bindings.ir.MLIRError as error:
        raise diagnostics(bindings, error, "module") from None
    if operation.name == FUNCTION:
        module = enclosing_module(operation)
        if module is not None:
            options = replace(options, func=symbol_name(operation))
            operation = module
    return read_module(bytecode_of(bindings, operation), options)


def operation_of(bindings: Bindings, thing: Any) -> Any:
    """Return the ir.Operation of a module, an operation view or an operation.

    Raises TosaConvertError("not-an-mlir-object") for other objects.
    """
    operation = getattr(thing, "operation", thing)
    if not isinstance(operation, bindings.ir.Operation):
        message = f"found a {type(thing).__name__} of {bindings}, expected a module or a function"
        hint = "give an ir.Module, a func.FuncOp or the ir.Operation of one"
        raise fail("not-an-mlir-object", "", message, hint)
    return operation


def symbol_name(operation: Any) -> str:
    """Return the name of a function or variable, without "@"."""
    return str(operation.attributes["sym_name"].value)


def enclosing_module(operation: Any) -> Any:
    """Return the innermost builtin.module that an operation is or is in, or None."""
    while operation is not None and operation.name != MODULE:
        try:
            operation = operation.parent
        except ValueError:  # a detached operation
            return None
        operation = getattr(operation, "operation", operation)
    return operation
