"""What all verbs have in common: `-h`, and that only work waits for what only work needs."""

from __future__ import annotations

from typing import Any, Final

import click

_HELP: Final = {"help_option_names": ["-h", "--help"]}


class Verb(click.Command):
    """A verb. Before it does its work, and not to tell its help, the context's object is called.

    The entry points put there what costs time to import: logging, and a process that survives MLIR.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options.setdefault("context_settings", _HELP)
        super().__init__(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        if ctx.obj is not None:
            ctx.obj()
        return super().invoke(ctx)


class Verbs(click.Group):
    """Several verbs under one name."""

    command_class = Verb

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options.setdefault("context_settings", _HELP)
        super().__init__(*arguments, **options)
