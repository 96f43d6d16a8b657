"""What all verbs share that click runs: options, help in sections, and usage errors."""

from __future__ import annotations

import functools
import sys
from copy import copy
from typing import Any, Final

import click

from tosa_convert.cli.ending import work_of_verb
from tosa_convert.cli.messages import UsageError, named_by_user
from tosa_convert.cli.option import (
    Option,
    ReadPath,
    declared,
    name_in_messages,
    option_sections,
    refuse_contradictions,
    refuse_shared_files,
    refuse_shared_streams,
)
from tosa_convert.cli.verbs import DESCRIBED, work_of
from tosa_convert.errors import Finding, TosaConvertError, refuse_unknown, suggest
from tosa_convert.version import version_text

#: Options that tools of MLIR have, too.
_OF_MLIR: Final = ("--export-to-flatbuffer", "--import-from-flatbuffer", "--split-input-file")
_HELP: Final = {"help_option_names": ["-h", "--help"]}


# -- verbs -----------------------------------------------------------------------------------------


class Verb(click.Command):
    """A verb. Before its work, but not for its help, the object of the context is called with its name.

    The entry points put there what a verb's work needs, and its help does not.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options.setdefault("context_settings", _HELP)
        super().__init__(*arguments, **options)
        self._parser: Any = None
        self.params += [
            Option(**declared(flag, {"expose_value": False, "callback": _remember}))
            for flag in ("--quiet", "--verbose")
        ]

    def make_parser(self, ctx: click.Context) -> Any:
        """Return the parser, which is made once: `parse_args` uses it twice."""
        if self._parser is None:
            self._parser = super().make_parser(ctx)
            for param in self.get_params(ctx):
                if param.opts[0] in _OF_MLIR:
                    # Tools of MLIR take one dash, too, and lines of its tests have one.
                    single = copy(param)
                    single.opts = [param.opts[0][1:]]
                    single.add_to_parser(self._parser, ctx)
        self._parser.ctx = ctx
        return self._parser

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse options that are given twice, which click would answer with the last one."""
        if not ctx.resilient_parsing:
            _, _, order = self.make_parser(ctx).parse_args(args=list(args))
            if not any(getattr(row, "is_eager", False) for row in order):
                refuse_contradictions(ctx, order)
        rest = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
            refuse_shared_streams(ctx)
            refuse_shared_files(ctx)
        return rest

    def invoke(self, ctx: click.Context) -> Any:
        """Do the verb's work, and say with --verbose how long it took."""
        try:
            return work_of_verb(
                self.name or "",
                functools.partial(super().invoke, ctx),
                ctx.obj,
                quiet="quiet" in ctx.meta,
                verbose="verbose" in ctx.meta,
            )
        except UsageError as error:
            raise click.UsageError(str(error), ctx) from None
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise
        except TosaConvertError as error:
            raise named_by_user(error) from None

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the whole first sentence: click would cut it off, and the list of verbs wraps lines."""
        return super().get_short_help_str(sys.maxsize)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, rows in option_sections(self, ctx):
            with formatter.section(heading):
                formatter.write_dl(rows)


@functools.cache
def described(name: str) -> click.Command:
    """Return a verb of the table of verbs, as click knows it."""
    row = DESCRIBED[name]

    def work(**given: Any) -> Any:
        return work_of(row)(**given)

    command = Verb(name, callback=work, help=row.help, epilog=row.epilog)
    command.params[:0] = [
        click.Argument(
            [argument],
            type=ReadPath(),
            metavar=metavar or None,
            nargs=-1 if metavar.endswith("...") else 1,
        )
        for argument, metavar in row.arguments.items()
    ]
    for flag in row.options.split():
        changes = dict(row.changes.get(flag, {}))
        parts = declared(flag, changes, changes.pop("name", ""), row.more.get(flag))
        command.params.append(Option(**parts))
    version = click.version_option(message=version_text("%(prog)s").rstrip())
    return version(command) if row.is_program else command


def _remember(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and param.name:
        ctx.meta[param.name] = True


class VerbGroup(click.Group):
    """Several verbs under one name."""

    command_class = Verb

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options.setdefault("context_settings", _HELP)
        super().__init__(*arguments, **options)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(2)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Refuse a verb that does not exist as all options do, with the nearest verb."""
        name = args[0]
        if not ctx.resilient_parsing and not name.startswith("-"):
            refuse_unknown(ctx.command_path, name, self.list_commands(ctx))
        return super().resolve_command(ctx, args)

    def get_short_help_str(self, limit: int = 45) -> str:
        return super().get_short_help_str(sys.maxsize)


# -- messages --------------------------------------------------------------------------------------


def usage_error(error: click.UsageError) -> TosaConvertError:
    """Return the error of a wrong command line in the form that all errors have."""
    path = error.ctx.command_path if error.ctx is not None else ""
    where, message, hint = path, error.message, f"see `{path} --help`" if path else ""
    if isinstance(error, click.NoSuchOption):
        known = [] if error.ctx is None else _flags(error.ctx)
        # Of `-name` click reads the first letter alone.
        words = sys.argv[1:] if error.option_name[1:2] != "-" else ()
        long = (
            f"-{word}".partition("=")[0] for word in words if word.startswith(error.option_name)
        )
        meant = next((word for word in long if word in known), "")
        message = f"there is no option {meant[1:] or error.option_name}"
        hint = suggest(meant or error.option_name, known, hint)
    elif isinstance(error, click.MissingParameter) and error.param is not None:
        message = f"{name_in_messages(error.param)} is missing"
    elif isinstance(error, click.BadParameter) and error.param is not None:
        where = name_in_messages(error.param)
    return TosaConvertError(Finding("option-conflict", where, message.rstrip("."), hint))


def _flags(ctx: click.Context) -> list[str]:
    return [
        name
        for param in ctx.command.get_params(ctx)
        if isinstance(param, click.Option)
        for name in param.opts
        if name.startswith("--")
    ]
