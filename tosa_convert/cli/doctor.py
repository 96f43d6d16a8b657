"""`doctor`: which programs read a file, why others do not, what helps, and what is installed."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.option import ReadPath, add_options, option
from tosa_convert.consumers.readers import READERS, every_reader, reader_named
from tosa_convert.errors import TosaConvertError, fail, printable

if TYPE_CHECKING:
    from tosa_convert.consumers.doctor import Diagnosis, StoredProgram
    from tosa_convert.formats.read import Input, Storage
    from tosa_convert.graph.model import Graph

#: The start of an operation of TOSA in custom form; in generic form its name is in quotes.
_CUSTOM_FORM = rb"(?m)^\s*(?:%[^=\n]*=\s*)?tosa\."


@click.command(
    "doctor",
    cls=Verb,
    epilog="Exit code: 1 if a program of --for does not read the file, or, without FILE, if packages "
    "do not fit one another; else 0; another one if the file cannot be read.",
)
@click.argument("file", type=ReadPath(), required=False)
@option(
    "--for",
    "readers",
    multiple=True,
    more="May be repeated. By default all are reported: " + ", ".join(every_reader()) + ".",
)
@add_options("--json --func")
def doctor(file: str | None, readers: tuple[str, ...], as_json: bool, func: str | None) -> int:
    """Name the programs that read FILE, why others do not, and what helps.

    The answers are facts that were found with the release of each program in the table. The programs
    are not run and need not be installed; the last column says which release this Python has.

    Without FILE, list the packages that read TOSA, convert to it or make models, and which of those that
    are installed do not fit one another.
    """
    if file is None:
        return _environment(as_json=as_json, has_options=bool(readers or func is not None))
    from tosa_convert.cli.convert_file import open_path
    from tosa_convert.cli.files_in_directories import read_one_of_many
    from tosa_convert.consumers.doctor import diagnose
    from tosa_convert.formats.read import read_as_stored
    from tosa_convert.io.options import ReadOptions

    options = ReadOptions(func=func)
    order = list(READERS)
    names = sorted(dict.fromkeys(readers), key=lambda name: order.index(reader_named(name).name))
    opened = open_path(file, options)
    graph, storage, is_old = read_one_of_many(opened, options, read_as_stored)
    stored = stored_program(file, opened, storage, graph, is_old=is_old)
    found = diagnose(graph, stored, names or None)
    click.echo((_as_json if as_json else _as_text)(stored, graph, found), nl=False)
    return 1 if readers and not all(row.reads for row in found) else 0


def stored_program(
    path: str, opened: Input, storage: tuple[Storage, ...], graph: Graph, *, is_old: bool = False
) -> StoredProgram:
    """Return how an opened file stores its program. is_old: the form of its operations was upgraded."""
    import re
    from functools import partial

    from tosa_convert.consumers.doctor import StoredProgram

    return StoredProgram(
        path,
        opened.format,
        frozenset(row.form for row in storage),
        sum(row.nbytes for row in storage),
        generic=opened.format == "mlir" and not re.search(_CUSTOM_FORM, opened.data),
        # A varint: all versions that exist are below 128 and take one byte.
        bytecode=opened.data[4] >> 1 if opened.format == "mlirbc" else 0,
        is_old=is_old,
        is_written_for=partial(_is_written_for, graph, opened),
    )


def _is_written_for(graph: Graph, opened: Input, month: str) -> bool:
    """Return whether a file has the bytes that its program has in the dialect of a month."""
    import re

    from tosa_convert.formats.write import dumps
    from tosa_convert.io.options import WriteOptions

    has_locations = opened.format != "mlir" or re.search(rb"\bloc\(", opened.data) is not None
    options = WriteOptions(dialect=month, locations=has_locations, validate=False)
    with suppress(TosaConvertError):
        return dumps(graph, opened.format, options) == opened.data
    return False


def _as_text(stored: StoredProgram, graph: Graph, found: list[Diagnosis]) -> str:
    from tosa_convert.cli.text_columns import aligned, one_line
    from tosa_convert.consumers.doctor import installed_release
    from tosa_convert.io.formats import FORMATS, WEIGHT_FILES

    places = {"embedded": "in the file", "offset": "after the flatbuffer"}
    places |= {form: row.where for form, row in WEIGHT_FILES.items()}
    weights = " and ".join(places[form] for form in places if form in stored.weights)
    lines = [
        f"{one_line(stored.path)}: {FORMATS[stored.format]}, TOSA {graph.version}"
        + (f", weights {weights}" if weights else "")
    ]
    table = [("program", "reads it", "found with", "in this Python")]
    for row in found:
        package, _, release = row.reader.release.partition(" ")
        here = "" if row.reader.source else installed_release(package)
        state = "installed" if here == release else f"{here} installed" if here else "not installed"
        table.append((row.reader.spelling, "yes" if row.reads else "no", row.reader.release, state))
    head, *rows = aligned(table)
    lines.append(head)
    for line, row in zip(rows, found, strict=True):
        lines += [line, *(f"    {text}" for text in _reasons(row))]
    return "".join(f"{printable(line)}\n" for line in lines)


def _reasons(row: Diagnosis) -> list[str]:
    """Return the findings, equal ones once, and what helps."""
    from tosa_convert.cli.text_columns import one_line

    places: dict[tuple[str, str], list[str]] = {}
    for finding in row.findings:
        places.setdefault((finding.message, finding.hint), []).append(finding.where)
    lines = [f"documented, not tried: {row.reader.source}"] if row.reader.source else []
    for (message, hint), where in places.items():
        text = message
        if where[0]:
            more = f" and {len(where) - 1} more" if len(where) > 1 else ""
            text += f": {one_line(where[0], 120)}{more}"
        lines += [text, *([f"    {hint}"] if hint else [])]
    if row.command:
        lines.append(f"$ {row.command}")
    return lines


def _as_json(stored: StoredProgram, graph: Graph, found: list[Diagnosis]) -> str:
    import json

    from tosa_convert.consumers.doctor import installed_release
    from tosa_convert.version import STAMP

    document = {
        **STAMP,
        "file": stored.path,
        "format": stored.format,
        "version": str(graph.version),
        "weights": sorted(stored.weights),
        "readers": [
            {
                "name": row.reader.spelling,
                "options": row.reader.options,
                "release": row.reader.release,
                "source": row.reader.source or None,
                "installed": installed_release(row.reader.release.partition(" ")[0]) or None,
                "reads": row.reads,
                "findings": [
                    {"where": finding.where, "message": finding.message, "hint": finding.hint}
                    for finding in row.findings
                ],
                "command": row.command or None,
            }
            for row in found
        ],
    }
    return json.dumps(document, indent=1) + "\n"


def _environment(*, as_json: bool, has_options: bool) -> int:
    """Print what is installed in this Python, and what does not fit; return the exit code."""
    import json
    import sys
    from dataclasses import asdict

    from tosa_convert.cli.text_columns import aligned
    from tosa_convert.consumers.doctor import FURTHER, installed_release, misfits
    from tosa_convert.frontends.table import FRONTENDS, RUNTIMES
    from tosa_convert.version import STAMP

    if has_options:
        raise fail("option-conflict", "--for and --func", "they need FILE")
    proved = dict(row.release.split() for row in READERS.values() if not row.source)
    of_models = (*(row.packages for row in FRONTENDS.values()), *RUNTIMES.values())
    names = [name for row in of_models for text in row.values() for name in text.split()]
    here = {name: installed_release(name) for name in (*proved, *names, *FURTHER)}
    found = list(misfits(here))
    if as_json:
        rows = [
            {"name": name, "installed": here[name] or None, "proved": proved.get(name)}
            for name in here
        ]
        document = {**STAMP, "python": sys.executable, "packages": rows}
        misfit = [
            {**asdict(row), "found": row.found or None, "command": row.command} for row in found
        ]
        click.echo(json.dumps({**document, "misfits": misfit}, indent=1))
        return 1 if found else 0
    table = [("package", "in this Python", "facts found with")]
    table += ((name, here[name] or "not installed", proved.get(name, "-")) for name in here)
    lines = [sys.executable, *aligned(table)]
    for row in found:
        lines += [str(row), f"    $ {row.command}"]
    if not found:
        lines.append("what is installed fits")
    lines.append("models that convert, and what others need: tosa-flatbuffer frontends")
    click.echo("\n".join(map(printable, lines)))
    return 1 if found else 0
