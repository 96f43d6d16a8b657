"""The work of `show`: read each file, and print what is in it, on a screen or byte by byte."""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.cli import show_text
from tosa_convert.cli.convert_file import open_path
from tosa_convert.cli.files_in_directories import (
    FileFailure,
    findings_of,
    inputs_below,
    outcomes,
    read_one_of_many,
    refuse_no_inputs,
    report_failure,
)
from tosa_convert.cli.messages import UsageError, say, standard_data
from tosa_convert.cli.show_text import Shown, ShownModel
from tosa_convert.cli.text_columns import fitted, one_line
from tosa_convert.errors import CODES, fail, printable
from tosa_convert.formats.read import (
    Input,
    Storage,
    annotate,
    open_input,
    programs,
    read_with_storage,
)
from tosa_convert.io.files import STANDARD, map_file, write_standard_output
from tosa_convert.io.formats import is_saved_model, model_kind
from tosa_convert.io.option_table import refuse_inapplicable
from tosa_convert.io.options import ReadOptions, given_options
from tosa_convert.views.inspection.summary import summarize

if TYPE_CHECKING:
    from pathlib import Path

    from tosa_convert.formats.read import Annotation
    from tosa_convert.graph.model import Graph

#: What `--operators`, `--tensors` and `--constants` list.
LISTINGS: Final = {
    "operators": (show_text.operator_lines, show_text.operators),
    "tensors": (show_text.tensor_lines, show_text.tensors),
    "constants": (show_text.constant_lines, show_text.constants),
}
#: A listing -> its member in the JSON, where that is another name.
_KEYS: Final = {"constants": "weights"}


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """How files are read, and what is shown of them.

    listings: names of `LISTINGS`. pattern: rows of listings must have a text that it matches.
    """

    read: ReadOptions
    listings: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    as_json: bool = False

    def wanted(self, texts: Iterator[str]) -> bool:
        return self.pattern is None or any(map(self.pattern.search, texts))


@dataclass(frozen=True, slots=True)
class Result:
    """What was found of a file.

    shown: None if the file cannot be read, or if only listings are wanted.
    content: its object in the JSON. failure: why it cannot be read.
    """

    name: str
    shown: Shown | ShownModel | None = None
    content: dict[str, Any] = field(default_factory=dict)
    failure: FileFailure | None = None


def show_one(path: str, view: View) -> int:
    """Show a file, or standard input; returns the exit code."""
    data = standard_data(view.read) if path == STANDARD else None
    if model := shown_model(path, view.read, data, [f"--{name}" for name in view.listings]):
        if view.as_json:
            _print([show_text.document([show_text.model_row(model)])])
        else:
            _print(_as_lines(fitted(show_text.model_screen(model))))
        return 0
    opened = open_path(path, view.read, data)
    names, others = programs(opened)
    if len(names) > 1 and view.read.func is None and not view.listings:
        return _show_programs(opened, names, others, view)
    graph, storage = read_one_of_many(opened, view.read, read_with_storage)
    if view.as_json:
        shown = _shown(opened, graph, storage)
        _print([show_text.document([_content(shown, graph, view)])])
    elif view.listings:
        _print(_listed(graph, view))
    else:
        _print(_as_lines(fitted(show_text.screen(_shown(opened, graph, storage)))))
    return 0


def _show_programs(opened: Input, names: list[str], others: list[str], view: View) -> int:
    rows = []
    for name in names:
        read = replace(view.read, func=name)
        rows.append(_shown(opened, *read_one_of_many(opened, read, read_with_storage), name))
    if view.as_json:
        _print([show_text.document(list(map(show_text.file_row, rows)))])
    else:
        _print(_as_lines(fitted(show_text.programs_screen(rows, others))))
    return 0


def shown_model(
    path: str, read: ReadOptions, data: memoryview | None, flags: Sequence[str]
) -> ShownModel | None:
    """Describe a model of a framework; None for another file."""
    is_described = True
    if data is None:
        try:
            from tosa_convert.frontends.table import is_file, recognize
        except ModuleNotFoundError:
            return None  # the core alone reads programs
        model = recognize(path)
        where, frontend = path, "" if model is None else model.frontend
        is_described = model is None or is_file(model)
    else:
        where, frontend = "<stdin>", model_kind(data)
    if not frontend:
        return None
    from tosa_convert.frontends.model_summary import KINDS, describe_data, not_described

    if frontend not in KINDS or not is_described:
        raise not_described(where, frontend)
    refuse_inapplicable(given_options(read), where, read_from="model")
    if flags:
        message = f"{flags[0]} is for programs, and the input is a model of a framework"
        hint = "convert it first: tosa-flatbuffer-convert MODEL -o MODEL.tosa"
        raise fail("option-conflict", where, message, hint)
    if data is None:
        data = map_file(path, limit=read.limits.input_bytes)
    return ShownModel(where, describe_data(data, frontend, where, read.func))


def _shown(opened: Input, graph: Graph, storage: tuple[Storage, ...], function: str = "") -> Shown:
    size = len(opened.data)
    return Shown(opened.where, opened.format, size, storage, summarize(graph), function)


def _content(shown: Shown, graph: Graph, view: View) -> dict[str, Any]:
    """Return the file's object in the JSON."""
    content = show_text.file_row(shown)
    for name in view.listings:
        content[_KEYS.get(name, name)] = list(LISTINGS[name][1](graph, view.wanted))
    return content


def _listed(graph: Graph, view: View) -> Iterator[str]:
    for index, name in enumerate(view.listings):
        if index:
            yield "\n"
        yield from _as_lines(fitted(LISTINGS[name][0](graph, view.wanted)))


# -- several files ---------------------------------------------------------------------------------


def show_files(paths: Sequence[str], view: View, processes: int) -> int:
    """Show a row for each file, unreadable ones as errors; return the highest exit code."""
    files = [source for given in paths for source, _ in inputs_below(given, models=True)]
    refuse_no_inputs(paths, files, models=True)
    work = functools.partial(_read, view=view)
    with contextlib.closing(outcomes(work, files, files, processes)) as found:
        results = [
            one
            if isinstance(one, Result)
            else Result(str(path), None, show_text.unreadable(str(path), findings_of(one)[0]), one)
            for path, one in zip(files, found, strict=True)
        ]
    if view.as_json:
        _print([show_text.document([result.content for result in results])])
    else:
        _print(_as_lines(fitted(show_text.table([r.shown for r in results if r.shown]))))
    failures = ((result.name, result.failure) for result in results if result.failure is not None)
    return max((report_failure(*row) for row in failures), default=0)


def _read(path: Path, view: View) -> Result:
    name = str(path)
    if model := shown_model(name, view.read, None, [f"--{name}" for name in view.listings]):
        return Result(name, model, show_text.model_row(model))
    opened = open_input(name, view.read)
    graph, storage = read_one_of_many(opened, view.read, read_with_storage)
    shown = _shown(opened, graph, storage)
    return Result(name, shown, _content(shown, graph, view) if view.as_json else {})


# -- output ----------------------------------------------------------------------------------------


def _as_lines(lines: Iterable[str]) -> Iterator[str]:
    return (f"{printable(line)}\n" for line in lines)


def _print(texts: Iterable[str]) -> None:
    write_standard_output(text.encode("utf-8", "backslashreplace") for text in texts)


#: Bytes of a line, and lines of a field unless all bytes are wanted.
_PER_LINE: Final = 8
_MOST_LINES: Final = 4
_DAMAGED: Final = "malformed-flatbuffer"


def show_bytes(
    path: str, options: ReadOptions, pattern: re.Pattern[str] | None, *, in_full: bool
) -> int:
    """Show the bytes of a file whose field matches; `in_full`: also all bytes of large data."""
    opened = open_path(path, options)
    found = annotate(opened)
    lines = fitted(byte_lines(found, pattern, in_full=in_full))
    write_standard_output(f"{printable(line)}\n".encode() for line in lines)
    for error in found.errors:
        where = f"{printable(opened.where)}: byte {error.offset}"
        place = f"{error.path}: " if error.path else ""
        say(f"{where}: error: {place}{error.message} [{_DAMAGED}]", err=True)
    return int(CODES[_DAMAGED][0]) if found.errors else 0


def byte_lines(
    found: Annotation, pattern: re.Pattern[str] | None, *, in_full: bool
) -> Iterator[str]:
    """Iterate over lines of an offset and bytes, of which the first of a row also has the field."""
    digits = max(4, len(f"{found.size:x}"))
    most = found.size if in_full else _MOST_LINES * _PER_LINE
    for row in found.rows():
        parts = (row.path, row.what, row.value)
        text = "  ".join(one_line(part, 200) for part in parts if part)
        if pattern is not None and not pattern.search(text):
            continue
        end = min(row.end, row.start + most)
        for start in range(row.start, end, _PER_LINE):
            raw = found.buffer[start : min(start + _PER_LINE, end)].hex(" ")
            line = f"{start:0{digits}x}  {raw:<{3 * _PER_LINE - 1}}  {text}"
            yield line.rstrip()
            text = ""
        if end < row.end:
            yield f"{'':{digits}}  ... {row.end - end:,} more bytes"


def show(*, files: tuple[str, ...], grep: str | None, jobs: int, **given: Any) -> int:
    """Do the work of `show`; the arguments are its parameters. Returns the exit code."""
    paths = list(files) or [STANDARD]
    several = len(paths) > 1 or (os.path.isdir(paths[0]) and not is_saved_model(paths[0]))
    listings = tuple(name for name in LISTINGS if given[name])
    if several and given["as_hex"]:
        raise UsageError("--hex shows one file")
    if several and listings and not given["as_json"]:
        raise UsageError("a listing is of one file; --json lists several")
    try:
        pattern = None if grep is None else re.compile(grep)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"--grep: not a regular expression: {error}") from None
    read = ReadOptions.of(given)
    if given["as_hex"]:
        if paths[0] != STANDARD:
            shown_model(paths[0], read, None, ["--hex"])
        return show_bytes(paths[0], read, pattern, in_full=given["all_bytes"])
    view = View(read=read, listings=listings, pattern=pattern, as_json=given["as_json"])
    return show_files(paths, view, jobs) if several else show_one(paths[0], view)
