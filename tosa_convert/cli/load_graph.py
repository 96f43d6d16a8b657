"""Loads and saves graphs for verbs that have no options of their own for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tosa_convert.applicable_options import refuse_inapplicable
from tosa_convert.files import STANDARD, standard_input
from tosa_convert.formats import of_path
from tosa_convert.options import ReadOptions, WriteOptions, given_options
from tosa_convert.reading import Input, open_input, read
from tosa_convert.writing import save, stamp

if TYPE_CHECKING:
    from tosa_convert.graph.model import Graph

_READ_OPTIONS = ReadOptions()


def load_graph(path: str, options: ReadOptions = _READ_OPTIONS) -> Graph:
    """The program in a file. MLIR gets the lowest TOSA version that expresses it, or the one it is for.

    Raises:
        TosaConvertError: as `tosa_convert.load` does.
    """
    return load_input(path, options)[0]


def load_input(path: str, options: ReadOptions = _READ_OPTIONS) -> tuple[Graph, Input]:
    """The program in a file, and the file."""
    opened = open_input(path, options)
    refuse_inapplicable(given_options(options), opened.where, read_from=opened.format)
    graph = read(opened, options)
    return stamp(graph) if opened.is_mlir else graph, opened


def open_path(path: str, options: ReadOptions) -> Input:
    """An opened input; "-" is standard input, which must not be a terminal."""
    if path != STANDARD:
        return open_input(path, options)
    if standard_input().isatty():
        raise click.UsageError("no input: name files, or pipe one in (see --help)")
    return open_input(standard_input().buffer, options, where="<stdin>")


def save_any(graph: Graph, path: str) -> None:
    """Write a program for a bug report: TOSA need not allow it."""
    save(graph, path, of_path(path), WriteOptions(validate=False))
