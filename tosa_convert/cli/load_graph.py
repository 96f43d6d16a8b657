"""Loads and saves graphs for verbs that have no options of their own for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tosa_convert.cli.messages import UsageError
from tosa_convert.cli.standard_streams import STDIN, standard_data
from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.read import Input, open_input, read
from tosa_convert.io.files import STANDARD, refuse_same_file, standard_output, write_standard_output
from tosa_convert.io.formats import FORMATS, Format, of_path
from tosa_convert.io.options import ReadOptions, WriteOptions, given_options, refuse_inapplicable
from tosa_convert.records import replace
from tosa_convert.remedies import with_file

if TYPE_CHECKING:
    from tosa_convert.graph.model import Graph

_READ_OPTIONS = ReadOptions()
_WRITE_OPTIONS = WriteOptions()


def load_graph(path: str, options: ReadOptions = _READ_OPTIONS) -> Graph:
    """Load the program in a file.

    MLIR gets the lowest TOSA version that expresses it, or the one it is for.
    """
    return load_input(path, options)[0]


def load_input(path: str, options: ReadOptions = _READ_OPTIONS) -> tuple[Graph, Input]:
    """Load the program in a file, and return the file, too."""
    opened = open_path(path, options)
    refuse_inapplicable(given_options(options), opened.where, read_from=opened.format)
    graph = read(opened, options)
    if opened.is_mlir:
        from tosa_convert.formats.write import stamp

        graph = stamp(graph)
    return graph, opened


def open_path(path: str, options: ReadOptions, data: memoryview | None = None) -> Input:
    """Open an input; "-" is standard input. data: standard input, if it is read already."""
    if path != STANDARD:
        return open_input(path, options)
    return open_input(standard_data(options) if data is None else data, options, where=STDIN)


def save_graph(
    graph: Graph,
    path: str,
    to: Format | None = None,
    *,
    like: Format = "tosa",
    options: WriteOptions = _WRITE_OPTIONS,
) -> None:
    """Write a program; "-" is standard output.

    to: the format, if --to names it; else the extension of a file decides.
    like: the format for standard output, if --to does not name it.
    """
    if path != STANDARD:
        from tosa_convert.formats.write import save

        save(graph, path, to or of_path(path), options)
        return
    file_format = to or like
    refuse_terminal(file_format)
    write_to_standard_output(graph, file_format, options)


def edit_file(source: str, edit: Callable[[Graph], Graph], given: Mapping[str, Any]) -> Graph:
    """Read a program, edit it, and write the result; return the result.

    given: the options of the verb: --output, --to, and those of reading and writing.
    """
    graph, opened = load_input(source, ReadOptions.of(given))
    refuse_same_file(source, given["output"])
    result = edit(graph)
    options = WriteOptions.of(given)
    save_graph(result, given["output"], given["to"], like=opened.format, options=options)
    return result


def write_to_standard_output(
    graph: Graph, file_format: Format, write_options: WriteOptions
) -> None:
    """Write a program to standard output; all of it or nothing if it is verified."""
    from tosa_convert.formats.write import dumps, render

    if write_options.verify:
        write_standard_output([dumps(graph, file_format, write_options)])
    else:
        write_standard_output(render(graph, file_format, write_options))


def refuse_terminal(file_format: Format) -> None:
    """Raise UsageError if standard output is a terminal, and the format is not text."""
    if file_format in ("tosa", "mlirbc") and standard_output().isatty():
        raise UsageError(f"{FORMATS[file_format]} does not go to a terminal; use -o FILE or a pipe")


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Let hints of errors that are raised inside name a file in their commands."""
    try:
        yield
    except TosaConvertError as error:
        raise TosaConvertError(
            replace(row, hint=with_file(row.hint, path)) for row in error.findings
        ) from None
