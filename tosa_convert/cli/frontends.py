"""`frontends`: which models can be converted, and what is missing for the others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.option import add_options, complete_from, frontend_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tosa_convert.frontends.table import Installed


@click.command(
    "frontends", cls=Verb, epilog="Exit code: 0 if all that were asked for are installed, else 1."
)
@click.argument(
    "names", nargs=-1, metavar="[NAME]...", shell_complete=complete_from(frontend_names)
)
@add_options("--python --json")
def frontends(names: tuple[str, ...], python: str, as_json: bool) -> int:
    """List the frameworks whose models convert, and what others need.

    NAME is a frontend; by default all.
    """
    from tosa_convert.frontends.process.run import packages_of
    from tosa_convert.frontends.table import FRONTENDS, frontend

    wanted = [frontend(name).name for name in names] or list(FRONTENDS)
    found = packages_of(wanted, python)
    text = _as_json(found, python) if as_json else "\n".join(_as_text(found, python))
    click.echo(text)
    return 1 if any(row.missing for row in found) else 0


def _as_text(found: Sequence[Installed], python: str) -> Iterator[str]:
    from tosa_convert.frontends.table import FRONTENDS
    from tosa_convert.golden.models.compare_model import missing_for_check

    for row in found:
        have = [
            f"{name} {version}".strip()
            for name, version in row.versions.items()
            if version is not None
        ]
        state = f"missing {', '.join(row.missing)}" if row.missing else "installed"
        yield f"{row.frontend:12}  {FRONTENDS[row.frontend].reads}"
        yield f"              {state}" + (f"; has {', '.join(have)}" if have else "")
        if row.missing:
            yield f"              {FRONTENDS[row.frontend].install(python)}"
        for finding in missing_for_check(row, python):
            yield f"              for --check: {finding.message}: {finding.hint}"


def _as_json(found: Sequence[Installed], python: str) -> str:
    from tosa_convert.frontends.table import FRONTENDS
    from tosa_convert.golden.models.compare_model import missing_for_check

    rows = [
        {
            "frontend": row.frontend,
            "reads": FRONTENDS[row.frontend].reads,
            "route_of": FRONTENDS[row.frontend].route_of,
            "versions": row.versions,
            "missing": row.missing,
            "missing_for_check": [one.message for one in missing_for_check(row, python)],
            "install": FRONTENDS[row.frontend].install(python),
        }
        for row in found
    ]
    return json.dumps(rows, indent=1)
