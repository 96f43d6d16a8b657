"""Export as a pass: `frontend -> TOSA -> serialize -> backend` in one pipeline.

    from tosa_convert.bindings.passes import add_tosa_serialize

    manager = PassManager()              # of any bindings
    manager.add("canonicalize")
    add_tosa_serialize(manager, "model.tosa", tosa_version="1.0")
    manager.run(module.operation)        # the IR is what it was; model.tosa is there

The passes are defined in Python, so a pipeline with one cannot be printed and parsed again. This is
an entry point like the command-line tool, and so the one module here that stands above the api.
"""

from __future__ import annotations

import inspect
from typing import Any

from tosa_convert.errors import TosaConvertError
from tosa_convert.files import PathLike


def add_tosa_serialize(pass_manager: Any, path: PathLike, **options: Any) -> None:
    """Add the pass `tosa-serialize`, which writes the module as a flatbuffer and does not change it.

    options: those of `export_tosa_func_to_flatbuffer`. Raises TypeError for others.

    When the pass runs, an expected failure is emitted as MLIR errors, one for each finding, and
    fails the pass: the pass manager's `run` then raises the bindings' own MLIRError with them, and
    there is no file.
    """
    _add(pass_manager, "tosa-serialize", "Write a TOSA flatbuffer", path, "tosa", options)


def add_tosa_serialize_json(pass_manager: Any, path: PathLike, **options: Any) -> None:
    """Add the pass `tosa-serialize-json`: as `add_tosa_serialize`, but the flatbuffer as JSON."""
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
    from tosa_convert import api

    export: Any = api.export_tosa_func_to_flatbuffer
    # A wrong option is the caller's mistake: say so here, not in the middle of a pipeline.
    inspect.signature(export).bind(None, path, to=to, **options)

    def run(operation: Any, running_pass: Any) -> None:
        try:
            export(operation, path, to=to, **options)
        except TosaConvertError as error:
            for finding in error.findings:
                operation.location.emit_error(f"{argument}: {finding}")
            running_pass.signal_pass_failure()

    pass_manager.add(run, name=argument, argument=argument, description=description)
