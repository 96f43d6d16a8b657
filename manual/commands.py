"""The commands that click runs, for the reference in the site and for the man pages."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import NamedTuple

import click

from tosa_convert.cli.main import tosa_flatbuffer
from tosa_convert.cli.option import option_sections


class Documented(NamedTuple):
    """A command: its name after `tosa-flatbuffer`, how many groups it is in, and its context."""

    name: str
    depth: int
    context: click.Context

    @property
    def command(self) -> click.Command:
        return self.context.command

    def usage(self) -> str:
        """Return the usage in one line."""
        return " ".join(self.command.get_usage(self.context).removeprefix("Usage: ").split())

    def paragraphs(self) -> list[str]:
        """Return the help and the text after the options."""
        texts = filter(None, [self.command.help, self.command.epilog])
        return [re.sub(r"[\b\f]\n?", "", inspect.cleandoc(text)) for text in texts]

    def options(self) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        """The headings of the options, each with the names, the value and the text of its options."""
        yield from option_sections(self.command, self.context)


def verbs() -> Iterator[Documented]:
    """Yield all verbs, each before its own verbs; hidden ones are left out."""
    yield from _verbs(_context(tosa_flatbuffer, "tosa-flatbuffer"), 0, "")


def _context(
    command: click.Command, name: str, parent: click.Context | None = None
) -> click.Context:
    """Return the context that click makes for a command line: it knows that -h is help, too."""
    return click.Context(command, info_name=name, parent=parent, **command.context_settings)


def _verbs(parent: click.Context, depth: int, before: str) -> Iterator[Documented]:
    group = parent.command
    assert isinstance(group, click.Group)
    for name in group.list_commands(parent):
        command = group.get_command(parent, name)
        if command is None or command.hidden:
            continue
        context = _context(command, name, parent)
        yield Documented(f"{before}{name}", depth, context)
        if isinstance(command, click.Group):
            yield from _verbs(context, depth + 1, f"{before}{name} ")


def programs() -> Iterator[Documented]:
    """The installed programs: `tosa-flatbuffer`, and `tosa-flatbuffer-convert`, its verb `convert`."""
    yield Documented("tosa-flatbuffer", 0, _context(tosa_flatbuffer, "tosa-flatbuffer"))
    (convert,) = (verb.command for verb in verbs() if verb.name == "convert")
    name = "tosa-flatbuffer-convert"
    yield Documented(name, 0, _context(convert, name))
