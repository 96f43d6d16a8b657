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
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tosa_convert.errors import Finding, TosaConvertError
from tosa_convert.formats.bindings.packages import bindings_of
from tosa_convert.formats.mlir.locations import plain_location
from tosa_convert.io.files import PathLike

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tosa_convert.io.keywords import PassKeywords

#: Where a pass writes: a path, or a function that is called with the bytes of the file.
Target: TypeAlias = PathLike | Callable[[bytes], object]

__all__ = ["add_tosa_serialize", "add_tosa_serialize_json"]


def add_tosa_serialize(pass_manager: Any, path: Target, **options: Unpack[PassKeywords]) -> None:
    """Add the pass `tosa-serialize`, which writes the module as a flatbuffer and does not change it.

    When the pass runs, an expected failure fails the pass and writes no file: each finding is emitted as
    an MLIR error at the location of its operation, and `pass_manager.run` raises the MLIRError of the
    bindings with all of them. Its `__cause__` is the TosaConvertError, which has codes and hints.

    Args:
        pass_manager: A PassManager of any MLIR Python bindings, for modules or for functions.
        path: The file to write, whatever its extension; or a function that is called with its bytes.
        options: The options of `export_tosa_func_to_flatbuffer`, except `to`.

    Raises:
        TypeError: An option is unknown.
    """
    _add(pass_manager, "tosa-serialize", "Write a TOSA flatbuffer", path, "tosa", {**options})


def add_tosa_serialize_json(
    pass_manager: Any, path: Target, **options: Unpack[PassKeywords]
) -> None:
    """Add the pass `tosa-serialize-json`, which writes the flatbuffer as JSON.

    Args and errors are those of `add_tosa_serialize`.
    """
    _add(
        pass_manager,
        "tosa-serialize-json",
        "Write a TOSA flatbuffer as JSON",
        path,
        "json",
        {**options},
    )


def _add(
    pass_manager: Any,
    argument: str,
    description: str,
    path: Target,
    to: Literal["tosa", "json"],
    options: dict[str, Any],
) -> None:
    """Add a pass. argument: its name in pipelines; to: the format that it writes."""
    from tosa_convert import api

    export: Any = api.export_tosa_func_to_flatbuffer
    # An unknown option is a mistake of the caller, so it is reported here and not when the pass runs.
    inspect.signature(export).bind(None, path, to=to, **options)

    new_manager = type(pass_manager)  # not the manager itself, which holds the pass

    def run(operation: Any, running_pass: Any) -> None:
        try:
            if callable(path):
                path(export(operation, to=to, **options))
            else:
                export(operation, path, to=to, **options)
        except TosaConvertError as error:
            running_pass.signal_pass_failure()
            _fail(new_manager, operation, argument, error)

    pass_manager.add(run, name=argument, argument=argument, description=description)


def _fail(new_manager: Any, operation: Any, argument: str, error: TosaConvertError) -> None:
    """Emit findings at their operations, and raise the bindings' MLIRError, made by a failing pass."""
    places = _places(operation)

    def emit(root: Any, failing: Any) -> None:
        for finding in error.findings:
            place = _place_of(finding, places) or root.location
            place.emit_error(f"{argument}: {finding}")
        failing.signal_pass_failure()

    passes = new_manager("any")
    passes.add(emit)
    try:
        passes.run(operation)
    except bindings_of(operation).ir.MLIRError as failure:
        raise failure from error


def _places(operation: Any) -> dict[str, Any]:
    places: dict[str, Any] = {}
    pending = [operation]
    while pending:
        one = pending.pop()
        text = str(one.location)
        # Findings have the last component of a file's name, unless full paths are asked for.
        for name in (text, plain_location(text), os.path.basename(plain_location(text))):
            places.setdefault(name, one.location)
        pending += [inner for region in one.regions for block in region for inner in block]
    return places


def _place_of(finding: Finding, places: dict[str, Any]) -> Any:
    """Return the location with which a finding begins; None if no operation has it."""
    where = finding.where
    while where:
        if where in places:
            return places[where]
        where = where.rpartition(": ")[0]
    return None
