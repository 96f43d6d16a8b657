"""`upgrade`: a program of any release since 2022 in the form of TOSA 1.0."""

from __future__ import annotations

from typing import Any

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.messages import note
from tosa_convert.cli.option import ReadPath, add_options, option
from tosa_convert.errors import printable


@click.command(
    cls=Verb,
    epilog="Files of older releases are upgraded by all verbs that read them, with a warning. This verb "
    "treats its input as an old program even if nothing else shows its age: operands of different rank, "
    "strides that do not divide, and values that regions use from outside have their old meaning. It "
    "reports each kind of change, and refuses what has no form in TOSA 1.0.",
)
@click.argument("source", type=ReadPath(), metavar="IN")
@option("--output", required=True)
@option("--json-report", old=("--report",))
@add_options("--to --func --narrow --verify --no-validate")
def upgrade(source: str, output: str, json_file: str | None, **given: Any) -> None:
    """Bring a program of an older TOSA to TOSA 1.0, and report each change."""
    from tosa_convert.cli.convert_file import (
        ConvertOptions,
        applicable,
        open_source,
        output_format,
        write_output,
    )
    from tosa_convert.formats.read import quoting, read_upgraded
    from tosa_convert.io.files import refuse_same_file
    from tosa_convert.io.options import ReadOptions, WriteOptions

    options = ConvertOptions(
        read=ReadOptions.of(given), write=WriteOptions.of(given), to=given["to"]
    )
    opened = open_source(source, options)
    file_format = output_format(output, options, opened.format)
    refuse_same_file(source, output)
    if json_file is not None:
        refuse_same_file(source, json_file)
    write_options = applicable(opened.format, opened.where, file_format, options)
    with quoting(opened):
        graph, changes = read_upgraded(opened, options.read)
        write_output(graph, output, file_format, write_options, options)
    for line in changes.lines():
        note(printable(line))
    if not changes:
        note("nothing to upgrade: the program has the form of TOSA 1.0")
    if json_file is not None:
        _write(json_file, source, changes)


def _write(path: str, source: str, changes: Any) -> None:
    import json

    from tosa_convert.cli.messages import write_file

    rows = [change._asdict() for change in changes.changes()]
    text = json.dumps({"input": source, "changes": rows}, indent=2) + "\n"
    write_file(path, [text.encode()])
