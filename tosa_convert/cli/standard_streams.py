"""`-` in place of the name of a file: standard input and standard output."""

from __future__ import annotations

import os
from typing import Final

from tosa_convert.cli.messages import UsageError
from tosa_convert.errors import TosaConvertError
from tosa_convert.io.files import (
    STANDARD,
    Pieces,
    read_at_most,
    replace_file,
    standard_input,
    standard_output,
    write_standard_output,
)
from tosa_convert.io.options import ReadOptions
from tosa_convert.records import replace

#: The name of standard input in messages.
STDIN: Final = "<stdin>"
_READ_OPTIONS: Final = ReadOptions()
#: First bytes of a file -> its extension, for readers that go by it.
_EXTENSIONS: Final = {b"PK": ".npz", b"\x93NUMPY": ".npy"}
#: The key in the context's `meta` of the copy of standard input.
_COPY: Final = "copy of standard input"


def standard_data(options: ReadOptions = _READ_OPTIONS) -> memoryview:
    """Read standard input."""
    refuse_terminal_input()
    return read_at_most(standard_input().buffer, options.limits.input_bytes, STDIN)


def refuse_terminal_input() -> None:
    """Raise UsageError if standard input is a terminal."""
    if standard_input().isatty():
        raise UsageError("no input: give a file, or pipe one in")


def copy_standard_input(path: str) -> str:
    """Return the path of a file to read: that of a copy, which the verb removes, of standard input.

    path: what the user gave. Any other path than "-" is returned as it is.
    """
    if path != STANDARD:
        return path
    import click

    from tosa_convert.process.child import temporary_folder

    ctx = click.get_current_context()
    if _COPY in ctx.meta:  # it is one option's, which is read again
        return str(ctx.meta[_COPY])
    data = standard_data()
    folder = ctx.with_resource(temporary_folder("tosa-stdin-"))
    start = data[:6].tobytes()
    extensions = [name for magic, name in _EXTENSIONS.items() if start.startswith(magic)]
    copy = os.path.join(folder, "".join(["stdin", *extensions]))
    replace_file(copy, [data])
    ctx.meta[_COPY] = copy
    return copy


def named_by_user(error: TosaConvertError) -> TosaConvertError:
    """Return an error that names standard input instead of its copy."""
    import click

    copy = click.get_current_context().meta.get(_COPY)
    if copy is None:
        return error
    return TosaConvertError(
        replace(row, where=row.where.replace(copy, STDIN), message=row.message.replace(copy, STDIN))
        for row in error.findings
    )


def write_file(path: str, pieces: Pieces, what: str = "") -> None:
    """Write a file; "-" is standard output.

    what: the kind of a file that is not text, and so does not go to a terminal.
    """
    if path != STANDARD:
        replace_file(path, pieces)
        return
    if what and standard_output().isatty():
        raise UsageError(f"{what} does not go to a terminal; use -o FILE or a pipe")
    write_standard_output(pieces)
