"""Completes the program of the converter: adds what it leaves out, and corrects what it writes wrongly.

This runs in the child process, as the converter does: everything here follows from the model's file.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.read import open_input
from tosa_convert.formats.write import save
from tosa_convert.frontends.process.interface import PROGRAM_FILE
from tosa_convert.frontends.process.request import Request
from tosa_convert.frontends.read_result import read_program
from tosa_convert.frontends.tflite.correct import with_corrections
from tosa_convert.frontends.tflite.decompose import with_decompositions
from tosa_convert.frontends.tflite.lowerings.find import Decomposed, Wanted
from tosa_convert.io import log
from tosa_convert.io.options import ReadOptions, WriteOptions


def import_adapters() -> None:
    """Import what reads and writes programs; numpy is most of it."""
    import tosa_convert.formats.mlir.read.module
    import tosa_convert.formats.mlir.write.module  # noqa: F401


def complete_program(
    decomposed: Decomposed | None,
    corrections: Sequence[Wanted],
    request: Request,
    folder: Path,
    *,
    file: str,
    func: str,
) -> list[str]:
    """Add decompositions and corrections to the program; return the warnings of reading it.

    A program in which operators of other dialects stayed is left as it is.

    Args:
        decomposed: the operators that are added, if there are any.
        corrections: the lowerings that are corrected.
        request: `narrow` applies.
        folder: has the program.
        file: the name of the converted file, for locations.
        func: the function of the program; "" for the only one.

    Raises:
        TosaConvertError: "not-lowered" for a lowering that cannot be corrected; what reading raises.
    """
    options = ReadOptions(
        func=func or None,
        narrow=request.narrow,
        full_paths=True,
        pass_captured=True,
        copy=os.name == "nt",
    )
    source = request.shown or request.source
    opened = open_input(folder / PROGRAM_FILE, options, where=source)
    with log.collected_warnings() as warnings:
        try:
            graph = read_program(opened, options)
        except TosaConvertError as error:
            if all(finding.code != "foreign-operator" for finding in error.findings):
                raise
            return []
        if decomposed is not None:
            graph = with_decompositions(graph, decomposed, file)
        if corrections:
            graph = with_corrections(graph, corrections, source)
        save(graph, folder / PROGRAM_FILE, "mlirbc", WriteOptions(validate=False))
    return warnings
