"""Frontends of other packages: the converter that calls theirs, in the child process."""

from __future__ import annotations

import importlib
from pathlib import Path

from tosa_convert.errors import TosaConvertError
from tosa_convert.extensions import broken, failed, find_extension
from tosa_convert.formats.write import save
from tosa_convert.frontends.process.request import PROGRAM_FILE, Interface, Request, Value
from tosa_convert.graph.model import Graph
from tosa_convert.io.options import WriteOptions


def lower(request: Request, folder: Path) -> Interface:
    """Let the extension convert the model, and write its program."""
    extension = find_extension("frontends", request.frontend)
    try:
        graph = importlib.import_module(extension.module).convert(request.source)
    except TosaConvertError:
        raise
    except (Exception, SystemExit) as error:
        raise failed(extension, f"{request.shown} was not converted", error) from error
    if not isinstance(graph, Graph):
        message = f"convert() returned {type(graph).__name__}, expected a tosa_convert.Graph"
        raise broken(extension.name, message)
    # Named by their places in the bytecode: the parent gives them these names.
    inputs = [Value(name=name) for name in graph.main.inputs]
    outputs = [Value(name=name) for name in graph.main.outputs]
    save(graph, folder / PROGRAM_FILE, "mlirbc", WriteOptions(validate=False))
    return Interface(inputs=inputs, outputs=outputs)
