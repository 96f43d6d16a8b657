"""`convert` of one file: read it, and write it in another format."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from tosa_convert.cli.messages import STDIN, ProgressDisplay, UsageError, standard_data
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.formats.read import Input, open_input, quoting, read
from tosa_convert.io import log
from tosa_convert.io.files import (
    STANDARD,
    file_error,
    refuse_same_file,
    standard_output,
    write_standard_output,
)
from tosa_convert.io.formats import FORMATS, MLIR_FORMATS, Format, of_path
from tosa_convert.io.option_table import refuse_inapplicable, refuse_weights
from tosa_convert.io.options import ReadOptions, WriteOptions, given_options

if TYPE_CHECKING:
    from tosa_convert.golden.running.run_options import Engine
    from tosa_convert.graph.model import Graph
    from tosa_convert.io.option_table import Form


# -- loads and saves graphs for verbs that have no options of their own for it ---------------------

_READ_OPTIONS = ReadOptions()
_WRITE_OPTIONS = WriteOptions()


def load_graph(path: str, options: ReadOptions = _READ_OPTIONS) -> Graph:
    """Load a program; MLIR gets the lowest TOSA version that expresses it, or the one it is for."""
    return load_input(path, options)[0]


def load_input(path: str, options: ReadOptions = _READ_OPTIONS) -> tuple[Graph, Input]:
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
    """Write a program; "-" is standard output. to: as --to says, else by the extension, or `like`."""
    if path != STANDARD:
        from tosa_convert.formats.write import save

        save(graph, path, to or of_path(path), options)
        return
    file_format = to or like
    refuse_terminal(file_format)
    write_to_standard_output(graph, file_format, options)


def edit_file(source: str, edit: Callable[[Graph], Graph], given: Mapping[str, Any]) -> Graph:
    """Read a program, edit it, and write the result; return the result. given: the verb's options."""
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
        from tosa_convert.remedies import with_file

        raise TosaConvertError(
            replace(row, hint=with_file(row.hint, path)) for row in error.findings
        ) from None


#: A direction of `ConvertOptions` -> the option that asks for it.
FLAGS_OF_DIRECTIONS: Final = {
    "export": "--export-to-flatbuffer",
    "import": "--import-from-flatbuffer",
}
#: Fields of `ConvertOptions` that are checked on their own, or in parts.
_NEVER_REFUSED: Final = ("read", "write", "to", "direction")


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class ConvertOptions:
    """The options of `convert`, for any number of files.

    to: the output's format, if --to names it. direction: "export" if only MLIR may become a flatbuffer,
    "import" if only a flatbuffer may become MLIR. consumer: the program that will open the output.
    """

    read: ReadOptions
    write: WriteOptions
    to: Format | None = None
    direction: Literal["", "export", "import"] = ""
    tosa_version: str = ""
    consumer: str | None = None
    input_names: tuple[str, ...] | None = None
    output_names: tuple[str, ...] | None = None
    via: str = ""
    python: str = ""
    timeout: float | None = None
    check: bool = False
    partial: bool = False
    split_input_file: bool = False
    random_weights: bool = False
    arrays: tuple[str, ...] = ()
    random: int | None = None
    engine: Engine = "auto"

    def given(self) -> set[str]:
        """Return the names of the options that have another value than their default."""
        given = {
            row.name
            for row in fields(self)
            if row.name not in _NEVER_REFUSED and getattr(self, row.name) != row.default
        }
        return given | given_options(self.read) | given_options(self.write)


def open_source(source: str, options: ConvertOptions, data: memoryview | None = None) -> Input:
    """Open an input, or `data`, standard input; refuse it if it does not fit the requested direction."""
    opened = open_path(source, options.read, data)
    found = FORMATS[opened.format]
    if options.direction == "export" and not opened.is_mlir:
        problem = f"--export-to-flatbuffer reads MLIR, found {found}"
    elif options.direction == "import" and opened.is_mlir:
        problem = f"--import-from-flatbuffer reads flatbuffers and their JSON, found {found}"
    else:
        return opened
    hint = "leave the option out to convert between any two formats"
    raise fail("unrecognised-input", opened.where, problem, hint)


def default_format(read_from: Format) -> Format:
    """Return the output's format: a flatbuffer for MLIR, MLIR text for everything else."""
    return "tosa" if read_from in MLIR_FORMATS else "mlir"


def output_format(output: str, options: ConvertOptions, like: Format = "tosa") -> Format:
    """Return an output's format: by --to, extension, or direction; `like` for standard output."""
    if options.to is not None:
        return options.to
    if output == STANDARD:
        return like
    try:
        file_format = of_path(output)
    except TosaConvertError:
        if options.direction:
            return "tosa" if options.direction == "export" else "mlir"
        raise
    if options.direction and (file_format in MLIR_FORMATS) != (options.direction == "import"):
        flag = FLAGS_OF_DIRECTIONS[options.direction]
        message = f"{flag} does not write {FORMATS[file_format]}"
        hint = "choose another extension, or leave the option out"
        raise fail("option-conflict", output, message, hint)
    return file_format


def convert_one(opened: Input, source: str, output: str | None, options: ConvertOptions) -> None:
    """Convert the only input. A directory as output gets a file of the input's name, as with `cp`."""
    if output is None or output == STANDARD:
        file_format = options.to or default_format(opened.format)
        convert_opened(opened, STANDARD, file_format, options)
        return
    output = file_for(output, source, options.to or default_format(opened.format))
    if opened.path:
        refuse_same_file(opened.path, output)
    convert_opened(opened, output, output_format(output, options), options)


def file_for(output: str, source: str, file_format: Format) -> str:
    """Return the file for an input: in a directory, which is made if necessary, one of its name."""
    if not (os.path.isdir(output) or output.endswith(("/", os.sep))):
        return output
    if source == STANDARD:
        raise UsageError(f"-o {output} is a directory; name a file for standard input")
    try:
        os.makedirs(output, exist_ok=True)
    except OSError as error:
        raise file_error(output, error, "made") from None
    name, _ = os.path.splitext(os.path.basename(source))
    return os.path.join(output, f"{name}.{file_format}")


def convert_opened(
    opened: Input, output: str, file_format: Format, options: ConvertOptions
) -> None:
    if output == STANDARD:
        refuse_terminal(file_format)
    write_options = applicable(opened.format, opened.where, file_format, options)
    with quoting(opened):
        graph = _read(opened, options)
        write_output(graph, output, file_format, write_options, options)


def write_output(
    graph: Graph,
    output: str,
    file_format: Format,
    write_options: WriteOptions,
    options: ConvertOptions,
) -> None:
    """Write a file, with a bar on a terminal if it takes long; "-" is standard output."""
    graph = for_reader(graph, file_format, options)
    _refuse_unread(graph, file_format, options)
    if output == STANDARD:
        refuse_terminal(file_format)
        write_to_standard_output(graph, file_format, write_options)
        return
    from tosa_convert.formats.write import save

    # Most conversions end before a total is shown.
    with ProgressDisplay(
        output, lambda: sum(data.nbytes for _, data in graph.constants())
    ) as progress:
        save(graph, output, file_format, write_options, progress)


def applicable(
    read_from: Form, where: str, file_format: Format, options: ConvertOptions
) -> WriteOptions:
    """Return the options for writing; refuse together all that do not apply to input and output."""
    write_options = options.write
    refuse_inapplicable(options.given(), where, read_from=read_from, written_as=file_format)
    refuse_weights(file_format, write_options.weights)
    if options.consumer is not None:
        from tosa_convert.consumers.readers import options_for, reader_named

        row = reader_named(options.consumer)
        write_options = options_for(row, file_format, write_options)
    return write_options


def for_reader(graph: Graph, file_format: Format, options: ConvertOptions) -> Graph:
    """Return the graph in a form that the program of --for reads, and say if that is another one."""
    if options.consumer is None:
        return graph
    from tosa_convert.consumers.readers import reader_named

    reader = reader_named(options.consumer)
    if not reader.rewrites:
        return graph
    from tosa_convert.consumers.unread import adapted
    from tosa_convert.graph.verify import verify

    if verify(graph):
        return graph  # It is refused before it is written.
    changed = adapted(graph, reader, mlir=file_format in MLIR_FORMATS)
    if changed is not graph:
        names = ", ".join(reader.rewrites)
        log.warning("changed for %s, and computes the same: %s", options.consumer, names)
    return changed


def _refuse_unread(graph: Graph, file_format: Format, options: ConvertOptions) -> None:
    """Refuse what the program of --for does not read."""
    if options.consumer is None:
        return
    from tosa_convert.consumers.readers import reader_named
    from tosa_convert.consumers.unread import program_findings
    from tosa_convert.graph.verify import refuse_unsound

    refuse_unsound(graph)
    row = reader_named(options.consumer)
    findings = list(program_findings(graph, row, mlir=file_format in MLIR_FORMATS))
    if findings:
        raise TosaConvertError(findings)


def _read(opened: Input, options: ConvertOptions) -> Graph:
    from tosa_convert.formats.write import stamp

    graph = read(opened, options.read)
    if opened.is_mlir or options.tosa_version:
        graph = stamp(graph, options.tosa_version)
    # Otherwise a flatbuffer keeps its version, whatever it contains.
    return renamed(graph, options)


def renamed(graph: Graph, options: ConvertOptions) -> Graph:
    if options.input_names or options.output_names:
        from tosa_convert.graph.derived import rename

        graph = rename(graph, options.input_names, options.output_names)
    return graph
