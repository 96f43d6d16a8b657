"""Export as an MLIR pass: `frontend -> TOSA -> serialize -> backend` in one pipeline.

The passes are defined in Python, so a pipeline that contains one cannot be printed and parsed again.
This module is an entry point like the command-line tool, so it is the only one in this folder that
imports the api.

Example:
    >>> from torch_mlir.ir import Context, Module
    >>> from torch_mlir.passmanager import PassManager
    >>> from tosa_convert.formats.bindings.passes import add_tosa_serialize
    >>> with Context():
    ...     with open("digits_cnn.mlirbc", "rb") as file:
    ...         module = Module.parse(file.read())
    ...     passes = PassManager()
    ...     passes.add("canonicalize")
    ...     add_tosa_serialize(passes, "digits.tosa", tosa_version="1.0")
    ...     passes.run(module.operation)
    >>> import tosa_convert
    >>> tosa_convert.load("digits.tosa").version
    Version(major=1, minor=0, patch=0, draft=False)
"""

from __future__ import annotations

import inspect
from typing import Any

from tosa_convert.errors import TosaConvertError
from tosa_convert.io.files import PathLike

__all__ = ["add_tosa_serialize", "add_tosa_serialize_json"]


def add_tosa_serialize(pass_manager: Any, path: PathLike, **options: Any) -> None:
    """Add the pass `tosa-serialize`, which writes the module as a flatbuffer and does not change it.

    When the pass runs, an expected failure fails the pass and writes no file: each finding is emitted as
    an MLIR error, and `pass_manager.run` raises the MLIRError of the bindings with all of them.

    Args:
        pass_manager: A PassManager of any MLIR Python bindings, for modules or for functions.
        path: The file to write, whatever its extension.
        options: The options of `export_tosa_func_to_flatbuffer`, except `to`.

    Raises:
        TypeError: An option is unknown.
    """
    _add(pass_manager, "tosa-serialize", "Write a TOSA flatbuffer", path, "tosa", options)


def add_tosa_serialize_json(pass_manager: Any, path: PathLike, **options: Any) -> None:
    """Add the pass `tosa-serialize-json`, which writes the flatbuffer as JSON.

    Args and errors are those of `add_tosa_serialize`.
    """
    _add(
        pass_manager,
        "tosa-serialize-json",
        "Write a TOSA flatbuffer as JSON",
        path,
        "json",
        options,
    )


def _add(
    pass_manager: Any,
    argument: str,
    description: str,
    path: PathLike,
    to: str,
    options: dict[str, Any],
) -> None:
    """Add a pass. argument: its name in pipelines; to: the format that it writes."""
    from tosa_convert import api

    export: Any = api.export_tosa_func_to_flatbuffer
    # An unknown option is a mistake of the caller, so it is reported here and not when the pass runs.
    inspect.signature(export).bind(None, path, to=to, **options)

    def run(operation: Any, running_pass: Any) -> None:
        try:
            export(operation, path, to=to, **options)
        except TosaConvertError as error:
            for finding in error.findings:
                operation.location.emit_error(f"{argument}: {finding}")
            running_pass.signal_pass_failure()

    pass_manager.add(run, name=argument, argument=argument, description=description)
