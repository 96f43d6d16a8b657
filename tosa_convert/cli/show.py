"""`show`: what is in a file, on one screen, as listings, as JSON or byte by byte."""

from __future__ import annotations

from typing import Any

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.option import ReadPath
from tosa_convert.cli.shared_options import add_options, option


@click.command(
    cls=Verb,
    epilog="Files of any format are recognised by their content. Of several files, and of the .tosa, "
    ".json, .mlir, .mlirbc and .bc files below a directory, a table shows a row each. Without FILES, or "
    "with -, the input is standard input. A TFLite or ONNX model or a .pt2 "
    "file is shown without its framework. Exit code: 0 if all files can be read, whatever the findings; "
    "another one for a file that cannot be read. `tosa-flatbuffer data` shows arrays.",
)
@click.argument("files", nargs=-1, type=ReadPath(), metavar="[FILES]...")
@option("--operators", is_flag=True, help="List the operators: a line each.")
@option("--tensors", is_flag=True, help="List the tensors and shapes: a row each.")
@option(
    "--constants",
    is_flag=True,
    old=("--weights",),
    help="List the constants with their range, mean, zeros and histogram. Reads all of them.",
)
@option(
    "--grep",
    needs=("--operators", "--tensors", "--constants", "--hex"),
    metavar="REGEX",
    help="List only what matches: operators, tensors and constants by their names, by the operators "
    "that compute or read them, or by location; bytes by their field.",
)
@option(
    "--hex",
    "as_hex",
    is_flag=True,
    excludes=("--operators", "--tensors", "--constants", "--json", "--func"),
    help="Show every byte of a .tosa file with the field that it belongs to.",
)
@option(
    "--all-bytes",
    is_flag=True,
    needs=("--hex",),
    help="With --hex: also show the bytes of large data in full.",
)
@option("--json", more="docs/show.md describes it.")
@add_options("--func --jobs --limit")
def show(files: tuple[str, ...], grep: str | None, jobs: int, **given: Any) -> int:
    """Show what is in a file: operators, constants, work, findings."""
    import os
    import re

    from tosa_convert.cli.show_files import LISTINGS, View, show_files, show_one, shown_model
    from tosa_convert.io.files import STANDARD
    from tosa_convert.io.formats import is_saved_model
    from tosa_convert.io.options import ReadOptions

    paths = list(files) or [STANDARD]
    several = len(paths) > 1 or (os.path.isdir(paths[0]) and not is_saved_model(paths[0]))
    listings = tuple(name for name in LISTINGS if given[name])
    if several and given["as_hex"]:
        raise click.UsageError("--hex shows one file")
    if several and listings and not given["as_json"]:
        raise click.UsageError("a listing is of one file; --json lists several")
    try:
        pattern = None if grep is None else re.compile(grep)
    except (re.error, OverflowError, RecursionError) as error:
        raise click.UsageError(f"--grep: not a regular expression: {error}") from None
    read = ReadOptions.of(given)
    if given["as_hex"]:
        from tosa_convert.cli.show_files import show_bytes

        if paths[0] != STANDARD:
            shown_model(paths[0], read, None, ["--hex"])
        return show_bytes(paths[0], read, pattern, in_full=given["all_bytes"])
    view = View(read=read, listings=listings, pattern=pattern, as_json=given["as_json"])
    return show_files(paths, view, jobs) if several else show_one(paths[0], view)
