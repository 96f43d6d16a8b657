"""What a shell completes: names in lists, and functions and tensors of the file that is named."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import click

from tosa_convert.cli.option import ReadPath
from tosa_convert.errors import TosaConvertError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from tosa_convert.formats.read import Input
    from tosa_convert.graph.model import Graph

#: Names that a value may have. They are made when they are needed: some are expensive.
Choices = Callable[[], Iterable[str]]
#: What click calls for the completions of a value.
Completer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]

#: Bytes of text, and of other files, above which nothing is completed: a shell waits for the answer.
_MOST_TEXT: Final = 1 << 22
_MOST_BINARY: Final = 1 << 26


def complete_from(choices: Choices) -> Completer:
    """Return what completes the last name of a list that is separated by commas."""

    def complete(
        ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return _in_list(choices(), incomplete)

    return complete


def complete_functions(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the functions of the module on the command line."""

    def functions(opened: Input) -> Iterable[str]:
        from tosa_convert.formats.read import function_names

        return function_names(opened)

    return _items(_from_file(ctx, functions), incomplete)


def tensors_of(graph: Graph) -> Iterable[str]:
    """Return the names of the tensors and shapes of a program, outside regions."""
    return (*graph.main.tensors, *graph.main.shapes)


def complete_tensors(names_of: Callable[[Graph], Iterable[str]], before: str = "") -> Completer:
    """Return what completes names of the program on the command line."""

    def complete(
        ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        def names(opened: Input) -> Iterable[str]:
            from tosa_convert.formats.read import read
            from tosa_convert.io.options import ReadOptions

            return names_of(read(opened, ReadOptions(func=ctx.params.get("func"))))

        found = []
        if not before:
            found = _in_list(_from_file(ctx, names), incomplete)
        elif before not in incomplete:
            found = _items((f"{name}{before}" for name in _from_file(ctx, names)), incomplete)
        return [*found, *param.type.shell_complete(ctx, param, incomplete)]

    return complete


def _from_file(ctx: click.Context, read: Callable[[Input], Iterable[str]]) -> Iterable[str]:
    """Return the names in the first file on the command line; none if it cannot be read at once."""
    path = _path(ctx)
    if not os.path.isfile(path):
        return ()
    from tosa_convert.formats.read import open_input
    from tosa_convert.io import log

    log.choose_level(quiet=True)
    try:
        size = os.path.getsize(path)
        if size > _MOST_BINARY:
            return ()
        opened = open_input(path)
        if opened.format in ("mlir", "json") and size > _MOST_TEXT:
            return ()
        return read(opened)
    except (TosaConvertError, OSError):
        return ()
    finally:
        log.choose_level()


def _path(ctx: click.Context) -> str:
    """Return the first argument that is the name of a file, or ""."""
    for row in ctx.command.params:
        value = ctx.params.get(row.name or "")
        if isinstance(row, click.Argument) and isinstance(row.type, ReadPath) and value:
            return str(value[0] if isinstance(value, tuple) else value)
    # click stops before the arguments where the last option has no value yet.
    return ctx.args[0] if ctx.args else ""


def _in_list(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    before, comma, last = incomplete.rpartition(",")
    return _items((f"{before}{comma}{name}" for name in names), f"{before}{comma}{last}")


def _items(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    """Return the names that begin with the text and that are one plain word for a shell."""
    from shlex import quote

    from click.shell_completion import CompletionItem

    wanted = incomplete.lower()
    return [
        CompletionItem(name)
        for name in names
        if name.lower().startswith(wanted) and quote(name) == name
    ]
