"""The tree of verbs as click knows it, and `run`, which parses a command line with it."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Final

import click

from tosa_convert.cli.command import VerbGroup, described, usage_error
from tosa_convert.cli.ending import before_own_work, before_work, exit_code_of
from tosa_convert.cli.messages import say
from tosa_convert.cli.verbs import DESCRIBED
from tosa_convert.errors import TosaConvertError
from tosa_convert.exit_codes import EXIT_INTERRUPTED
from tosa_convert.version import version_text

#: Heading in the help -> the verbs below it.
SECTIONS: Final = {
    "Convert": ("convert", "extensions", "frontends", "repack", "upgrade", "weights"),
    "Look": ("data", "diff", "doctor", "explain", "report", "show", "validate"),
    "Run and check": (
        *("bisect", "chain", "check", "fuzz", "generate", "power", "reduce", "run", "suite"),
    ),
    "Edit": ("extract", "rewrite"),
}
VERBS: Final = tuple(name for names in SECTIONS.values() for name in names)
#: Verbs of the folder `qualify`.
_OF_QUALIFICATION: Final = ("bisect", "chain", "fuzz", "generate", "power", "reduce", "suite")


class _AllVerbs(VerbGroup):
    """The verbs. Each is imported when it is used: a short command should not wait for the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        return verb(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, rows in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([(name, verb(name).get_short_help_str()) for name in rows])


def verb(name: str) -> click.Command:
    if name in DESCRIBED:
        return described(name)
    folder = "qualify.verbs" if name in _OF_QUALIFICATION else "cli"
    module = importlib.import_module(f"tosa_convert.{folder}.{name}")
    command: click.Command = getattr(module, name)
    return command


@click.command(cls=_AllVerbs)
@click.version_option(message=version_text("tosa-flatbuffer").rstrip())
def tosa_flatbuffer() -> None:
    """Convert, run and check TOSA programs: MLIR text and bytecode, flatbuffers, JSON."""


def run(
    command: click.Command, arguments: list[str] | None = None, *, own_process: bool = False
) -> int:
    """Run a command, in a process of its own or not; return its exit code. Only data goes to stdout."""
    return exit_code_of(lambda: _run(command, arguments, own_process))


def _run(command: click.Command, arguments: list[str] | None, own_process: bool) -> object:
    try:
        before = before_own_work if own_process else before_work
        return command.main(arguments, standalone_mode=False, obj=before)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.UsageError as error:
        say(str(usage_error(error)), err=True)
        return error.exit_code
    except click.Abort:
        return EXIT_INTERRUPTED


def usage_error_of(
    message: str, verb_name: str, words: Sequence[str], *, alone: bool
) -> TosaConvertError:
    """Return the error of a command line whose parts are right, and that cannot be done."""
    from click.utils import _detect_program_name

    program, command = _detect_program_name(), verb(verb_name)
    if alone:
        ctx = command.make_context(program, list(words))
    else:
        parent = click.Context(tosa_flatbuffer, info_name=program)
        ctx = command.make_context(verb_name, list(words), parent=parent)
    return usage_error(click.UsageError(message, ctx))
