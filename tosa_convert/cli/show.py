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
    "with -, the input is standard input. A TFLite or ONNX model, a .pt2 file, a GraphDef, and text of "
    "StableHLO or the torch dialect are shown without their framework. Exit code: 0 if all files can be "
    "read, whatever the findings; another one for a file that cannot be read. `tosa-flatbuffer data` "
    "shows arrays.",
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
def show(**given: Any) -> int:
    """Show what is in a file: operators, constants, work, findings."""
    from tosa_convert.cli import show_files

    return show_files.show(**given)
