"""The work of `diff`: load two programs, and print how they differ."""

from __future__ import annotations

import os
import sys
from typing import Any, Final

from tosa_convert.cli.convert_file import load_input
from tosa_convert.cli.messages import print_text
from tosa_convert.io.options import ReadOptions
from tosa_convert.views.structural_diff.diff import diff as compute
from tosa_convert.views.structural_diff.text import TextForm, as_statistics, as_text, plain

_COLOURS: Final = {"removed": "red", "added": "green", "changed": "yellow", "place": "cyan"}


def diff(*, left: str, right: str, **given: Any) -> int:
    """Do the work of `diff`; the arguments are its parameters. Returns the exit code."""
    loaded = [load_input(path, ReadOptions.of(given)) for path in (left, right)]
    graphs = [graph for graph, _ in loaded]
    found = compute(
        *graphs,
        names=given["compare_names"],
        locations=given["compare_locations"],
        order=not given["ignore_order"],
        # A module without a target says nothing about the version.
        version=all(graph.target or not opened.is_mlir for graph, opened in loaded),
    )
    form = TextForm((left, right), given["context"], given["everything"], _paint(given["color"]))
    print_text(_report(found, graphs[0], form, given))
    return 1 if found else 0


def _paint(when: str | None) -> Any:
    terminal = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    if when == "never" or (when != "always" and not terminal):
        return plain
    import click

    def paint(role: str, text: str) -> str:
        if role == "file":
            return click.style(text, bold=True)
        return click.style(text, fg=_COLOURS[role])

    return paint


def _report(found: Any, left: Any, form: Any, given: dict[str, Any]) -> str:
    if given["as_json"]:
        import json

        document = found.as_dict()
        for side, name in zip(("left", "right"), form.names, strict=True):
            document[side] = {"file": name, **document[side]}
        return json.dumps(document, indent=1) + "\n"
    lines = as_statistics(found) if given["stat"] else as_text(found, left, form)
    return "".join(f"{line}\n" for line in lines)
