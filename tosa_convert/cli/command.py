"""Shared by all verbs: `-h`, help that is not truncated, set-up before work, and bug reports."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from tosa_convert.errors import printable, printable_lines
from tosa_convert.version import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: The exit code after an exception that is not an expected failure.
EXIT_BUG: Final = 70
_HELP: Final = {"help_option_names": ["-h", "--help"]}

_own_process = False


def declare_own_process() -> None:
    """Declare that this process is the command's own, and not that of a test or another program."""
    global _own_process
    _own_process = True


def is_own_process() -> bool:
    """Whether this process is the command's own, and may fork."""
    return _own_process


class Verb(click.Command):
    """A verb. Before its work, but not for its help, the object of the context is called with its name.

    The entry points put there what a verb's work needs, and its help does not.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options.setdefault("context_settings", _HELP)
        super().__init__(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        if ctx.obj is not None:
            ctx.obj(self.name)
        return super().invoke(ctx)

    def get_short_help_str(self, limit: int = 45) -> str:
        """The whole first sentence: the list of verbs wraps long lines, and click would cut them off."""
        return super().get_short_help_str(sys.maxsize)


class Verbs(click.Group):
    """Several verbs under one name."""

    command_class = Verb

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options.setdefault("context_settings", _HELP)
        super().__init__(*arguments, **options)

    def get_short_help_str(self, limit: int = 45) -> str:
        """The whole first sentence, as for a verb."""
        return super().get_short_help_str(sys.maxsize)


def complete_file_name(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """For options whose value is more than a path, such as NAME=FILE: the shell completes file names."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def say(text: str, *, err: bool = False) -> None:
    """Print lines for people. Characters that a terminal would obey are escaped."""
    click.echo(printable_lines(text), err=err)


def report_bug(trace: str, where: str = "") -> None:
    """Print the traceback of an unexpected exception and say that it is our fault.

    where: the file that was being worked on, where there are several.
    """
    prefix = f"{printable(where)}: " if where else ""
    say(
        f"{trace}{prefix}internal error in tosa-convert {__version__}: "
        "please report it with the command and, if you can share it, the input",
        err=True,
    )
