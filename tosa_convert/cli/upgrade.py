"""`upgrade`: a program of any release since 2022 in the form of TOSA 1.0."""

from __future__ import annotations

from typing import Any

import click

from tosa_convert.cli.command import Verb, note, option
from tosa_convert.cli.shared_options import (
    func_option,
    narrow_option,
    no_validate_option,
    to_option,
)
from tosa_convert.errors import printable


@click.command(
    cls=Verb,
    epilog="Files of older releases are upgraded by all verbs that read them, with a warning. This verb "
    "treats its input as an old program even if nothing else shows its age: operands of different rank, "
    "strides that do not divide, and values that regions use from outside have their old meaning. It "
    "reports each kind of change, and refuses what has no form in TOSA 1.0.",
)
@click.argument("source", type=click.Path(), metavar="IN")
@option("-o", "--output", required=True, type=click.Path(), help="The file to write.")
@to_option
@func_option
@narrow_option
@option("--report", type=click.Path(), metavar="FILE", help="Write the changes as JSON, too.")
@option("--verify", is_flag=True, help="Read the result back and compare it bit for bit.")
@no_validate_option
def upgrade(source: str, output: str, report: str | None, **given: Any) -> None:
    """Bring a program of an older TOSA to the form of TOSA 1.0, and report each change."""
    from tosa_convert.cli.convert_file import (
        ConvertOptions,
        applicable,
        open_source,
        output_format,
        write_output,
    )
    from tosa_convert.formats.read import quoting, read_upgraded
    from tosa_convert.io.files import refuse_same_file
    from tosa_convert.io.options import ReadOptions, WriteOptions, narrow_types

    options = ConvertOptions(
        read=ReadOptions(func=given["func"], narrow=narrow_types(given["narrow"])),
        write=WriteOptions(verify=given["verify"], validate=not given["no_validate"]),
        to=given["to"],
    )
    opened = open_source(source, options)
    file_format = output_format(output, options, opened.format)
    refuse_same_file(source, output)
    if report is not None:
        refuse_same_file(source, report)
    write_options = applicable(opened, file_format, options)
    with quoting(opened):
        graph, changes = read_upgraded(opened, options.read)
        write_output(graph, output, file_format, write_options, options)
    for line in changes.lines():
        note(printable(line))
    if not changes:
        note("nothing to upgrade: the program has the form of TOSA 1.0")
    if report is not None:
        _write(report, source, changes)


def _write(path: str, source: str, changes: Any) -> None:
    import json

    from tosa_convert.io.files import replace_file

    rows = [change._asdict() for change in changes.changes()]
    text = json.dumps({"input": source, "changes": rows}, indent=2) + "\n"
    replace_file(path, [text.encode()])
