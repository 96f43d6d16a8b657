"""The page of the command line, made from the commands that click runs."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Final

import click

from tosa_convert.cli.main import tosa_flatbuffer

_INTRODUCTION: Final = """\
# Command line

`tosa-flatbuffer VERB` has all verbs. `tosa-flatbuffer-convert` is the verb `convert` by itself. The text
of this page is what `--help` prints. All verbs have the same
[exit codes](../project/overview.md#exit-codes).
"""


def markdown() -> str:
    """The page: a section for each verb, with all arguments and options."""
    return "\n".join([_INTRODUCTION, *_group(tosa_flatbuffer, "tosa-flatbuffer", None, 2)])


def _group(
    group: click.Group, name: str, parent: click.Context | None, level: int
) -> Iterator[str]:
    context = click.Context(group, info_name=name, parent=parent)
    for verb in group.list_commands(context):
        command = group.get_command(context, verb)
        if command is None or command.hidden:
            continue
        yield from _command(command, verb, context, level)
        if isinstance(command, click.Group):
            yield from _group(command, verb, context, level + 1)


def _command(command: click.Command, name: str, parent: click.Context, level: int) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent, max_content_width=88)
    words = context.command_path.removeprefix("tosa-flatbuffer ")
    yield f"{'#' * level} {words}\n"
    yield "```text"
    yield " ".join(command.get_usage(context).removeprefix("Usage: ").split())
    yield "```\n"
    for text in filter(None, [command.help, command.epilog]):
        yield f"{_escaped(inspect.cleandoc(text))}\n"
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and record[1] and "--help" not in parameter.opts:
            yield f"`{record[0]}`\n:   {_escaped(record[1])}\n"


def _escaped(text: str) -> str:
    """Help as Markdown: names in backticks are code, all other signs are themselves."""
    text = re.sub(r"[\b\f]\n?", "", text)
    parts = text.split("`")
    parts[::2] = [re.sub(r"([\\*_<>\[\]#|])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)
