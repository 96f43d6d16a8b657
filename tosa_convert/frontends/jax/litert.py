"""Functions of JAX through TFLite, by litert-converter, which has some that we do not lower."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tosa_convert.frontends.jax.convert import (
    failures_of,
    made_function,
    not_lowered,
    write_example_arguments,
)
from tosa_convert.frontends.jax.lowering import Arguments, Traced, trace
from tosa_convert.frontends.jax.tflite_model import OWN_WAY, TfliteModel, tflite_model
from tosa_convert.frontends.process.interface import PROGRAM_FILE, Interface, NotLowered
from tosa_convert.frontends.process.request import Request
from tosa_convert.frontends.process.run import run_converter
from tosa_convert.frontends.read_result import finish
from tosa_convert.frontends.source_places import line_of
from tosa_convert.frontends.tflite.read import read_tflite
from tosa_convert.graph.model import Graph
from tosa_convert.io.options import ReadOptions

_NAME: Final = "litert-converter"


def lower(request: Request, folder: Path) -> Interface:
    """Lower the function that a factory in a Python file returns, with its example arguments."""
    path = Path(request.source)
    function, arguments = made_function(path, request)
    with failures_of(path):
        traced = trace(function, arguments, shapes=request.input_shapes)
    model = tflite_model(traced)
    if not isinstance(model, TfliteModel):
        return Interface(not_lowered=model)
    write_example_arguments(request, folder, arguments)
    return _lowered(model, traced, folder, request.member)


def graph_of(
    function: Callable[..., Any],
    arguments: Arguments,
    names: Sequence[str] | None,
    has_full_paths: bool,
) -> Graph:
    """Return the program of a function of this process; see `tosa_convert.frontends.from_jax`."""
    traced = trace(function, arguments, names)
    model = tflite_model(traced)
    if not isinstance(model, TfliteModel):
        raise not_lowered(function, model)
    name = getattr(function, "__name__", type(function).__name__)
    with tempfile.TemporaryDirectory(
        prefix="tosa-frontend-", ignore_cleanup_errors=True
    ) as scratch:
        folder = Path(scratch)
        interface = _lowered(model, traced, folder, "model")
        request = Request(frontend=_NAME, source=str(folder / interface.model), shown=name)
        options = ReadOptions(full_paths=has_full_paths, copy=True)
        return finish(request, interface, folder, options)


def _lowered(model: TfliteModel, traced: Traced, folder: Path, name: str) -> Interface:
    """Lower a TFLite model, in a process of its own: the converter forks, which JAX forbids."""
    inner = folder / "tflite"
    inner.mkdir()
    path = inner / f"{name}.tflite"
    path.write_bytes(model.data)
    interface = run_converter(Request(frontend="tflite", source=str(path), shown=name), inner)
    program = inner / PROGRAM_FILE
    if program.exists():
        program.rename(folder / PROGRAM_FILE)
    interface.inputs, interface.outputs = traced.inputs, traced.outputs
    interface.places, interface.operators = model.places, {}
    # They are about metadata of the TFLite model, which the user does not see.
    interface.remarks = []
    if interface.not_lowered:
        interface.not_lowered = list(_with_lines(interface.not_lowered, model))
    return interface


def _with_lines(rows: Sequence[NotLowered], model: TfliteModel) -> Iterator[NotLowered]:
    """Iterate over operators of a TFLite model that do not lower, with their source lines."""
    names = {index: name for name, index in read_tflite(model.data).operator_making().items()}
    for row in rows:
        name = "" if row.index is None else names.get(row.index, "")
        where = line_of(model.places.get(name, "")) or row.where
        yield replace(row, where=where, hint=row.hint or OWN_WAY)
