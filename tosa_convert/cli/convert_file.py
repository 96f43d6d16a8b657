"""What `convert` does with a file: read it, and write it in the other format."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tosa_convert import api
from tosa_convert.cli.progress import WriteProgress
from tosa_convert.errors import fail
from tosa_convert.files import (
    STANDARD,
    map_file,
    read_standard_input,
    standard_input,
    standard_output,
    write_standard_output,
)
from tosa_convert.formats import FORMATS, MLIR_FORMATS, Format, of_path, sniff
from tosa_convert.limits import set_limit

if TYPE_CHECKING:
    from tosa_convert.graph.model import Graph

Options = dict[str, Any]


def set_limits(given: tuple[str, ...]) -> None:
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not value.isdecimal():
            raise click.UsageError(f"--limit {text}: expected NAME=N, a whole number")
        set_limit(name, int(value))


def read_graph(
    source: str, to: Format | None, options: Options, context: Callable[[int], Any] | None = None
) -> tuple[Format, Graph]:
    """What the input holds, and the format it is to have.

    context: makes or has an MLIR context for an input of so many bytes; by default each has its own.
    """
    standard = source == STANDARD
    if standard and standard_input().isatty():
        raise click.UsageError("no input: give a file, or pipe one in (--help tells more)")
    data = read_standard_input() if standard else map_file(source)
    where = "<stdin>" if standard else source
    found = sniff(data, where)
    _check_direction(found, where, options)
    to = to or ("tosa" if found in MLIR_FORMATS else "mlir")
    # What is no regular file, such as a pipe, can be read only once.
    graph = api.load(
        data if standard or not os.path.isfile(source) else source,
        func=options["func"],
        names=options["names"],
        bindings=options["bindings"],
        full_paths=options["full_paths"],
        narrow=[kind.strip() for kind in options["narrow"].split(",") if kind.strip()],
        input_shapes=options["input_shapes"],
        accept_changed_weights=options["accept_changed_weights"],
        isolate=options["isolate"],
        context=context(len(data)) if context and found in MLIR_FORMATS else None,
    )
    if found in MLIR_FORMATS or options["tosa_version"]:
        graph = api.stamp(graph, options["tosa_version"] or "")
    # A flatbuffer keeps the version it has, whatever it holds.
    return to, graph


def _check_direction(found: Format, where: str, options: Options) -> None:
    is_mlir = found in MLIR_FORMATS
    if options["export_to_flatbuffer"] and not is_mlir:
        raise fail(
            "unrecognised-input",
            where,
            f"--export-to-flatbuffer reads MLIR, found {FORMATS[found]}",
            "leave the option out to convert anything to anything",
        )
    if options["import_from_flatbuffer"] and is_mlir:
        raise fail(
            "unrecognised-input",
            where,
            f"--import-from-flatbuffer reads flatbuffers and their JSON, found {FORMATS[found]}",
            "leave the option out to convert anything to anything",
        )


def convert_one(source: str, output: str | None, to: Format | None, options: Options) -> None:
    if output is not None and output != STANDARD:
        if os.path.isdir(output):
            raise click.UsageError(f"-o {output} is a directory; for one input give a file")
        to = to or of_path(output)
        if source != STANDARD:
            api.refuse_same_file(source, output)
        save(read_graph(source, to, options)[1], output, to, options)
        return
    kind, graph = read_graph(source, to, options)
    if kind in ("tosa", "mlirbc") and standard_output().isatty():
        raise click.UsageError(f"{FORMATS[kind]} does not go to a terminal; use -o FILE or a pipe")
    pieces = api.render(
        graph,
        kind,
        weights=options["weights"],
        names=options["names"],
        bindings=options["bindings"],
    )
    write_standard_output(pieces)


def save(graph: Graph, output: str | Path, to: Format, options: Options) -> None:
    with WriteProgress(str(output), sum(data.nbytes for _, data in graph.constants())) as progress:
        api.save(
            graph,
            output,
            to=to,
            weights=options["weights"],
            names=options["names"],
            bindings=options["bindings"],
            verify=options["verify"],
            progress=progress,
        )
