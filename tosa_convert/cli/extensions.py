"""`extensions`: the backends, frontends, rewrites and CUSTOM operators that packages add."""

from __future__ import annotations

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.option import add_options
from tosa_convert.errors import printable


@click.command(
    "extensions",
    cls=Verb,
    epilog="Exit code: 0 if each of them can be used, else 1; 0 without any.",
)
@add_options("--json")
def extensions(as_json: bool) -> int:
    """List the backends, frontends, rewrites and CUSTOM operators that installed packages add.

    They are read, not imported: nothing of another package runs.
    """
    import json
    from dataclasses import asdict

    from tosa_convert.cli.text_columns import aligned
    from tosa_convert.extensions import installed_extensions

    found = installed_extensions()
    if as_json:
        click.echo(json.dumps([asdict(row) for row in found], indent=1))
        return 1 if any(row.problem for row in found) else 0
    if not found:
        click.echo("no package in this Python adds anything")
        return 0
    table = [("name", "kind", "module", "package")]
    table += [(row.name, row.kind.removesuffix("s"), row.module, row.package) for row in found]
    head, *lines = aligned(table)
    click.echo(printable(head))
    for line, row in zip(lines, found, strict=True):
        click.echo(printable(line))
        if row.problem:
            click.echo(f"    cannot be used: {printable(row.problem)}")
    return 1 if any(row.problem for row in found) else 0
