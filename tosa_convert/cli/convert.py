"""`convert`: any format into any other."""

from __future__ import annotations

import os
from typing import Any, cast

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.input_shapes import input_shape_option, parsed
from tosa_convert.file_consumers import CONSUMERS, weights_for
from tosa_convert.formats import FORMATS, MLIR_FORMATS, WEIGHTS, Format
from tosa_convert.limits import LIMITS


@click.command(
    cls=Verb,
    epilog="The input is recognised by its content, the output by its extension or --to. "
    "- and no argument mean standard input, no -o means standard output.",
)
@click.argument("inputs", nargs=-1, type=click.Path(), metavar="[IN]...")
@click.option("-o", "--output", type=click.Path(), help="A file; for several inputs a directory.")
@click.option(
    "--to",
    type=click.Choice(list(FORMATS)),
    help="Format of the output: "
    + ", ".join(f"{name} ({what})" for name, what in FORMATS.items())
    + ". By default what the extension says, else the other side: MLIR becomes tosa, "
    "everything else mlir.",
)
@click.option("--export-to-flatbuffer", is_flag=True, help="MLIR in, a flatbuffer out; for pipes.")
@click.option(
    "--import-from-flatbuffer", is_flag=True, help="A flatbuffer in, MLIR out; for pipes."
)
@click.option("--func", metavar="NAME", help="The function to export, where there are several.")
@click.option(
    "--names",
    type=click.Choice(["retain", "generate"]),
    default="retain",
    show_default=True,
    help="Keep the names the module carries and generate the others, or generate all as tosa-opt does.",
)
@click.option(
    "--tosa-version",
    type=click.Choice(["1.0", "1.1"]),
    help="Version to stamp; by default the lowest that expresses the function, and for a "
    "flatbuffer the one it has.",
)
@click.option(
    "--weights",
    type=click.Choice(list(WEIGHTS)),
    default="auto",
    show_default=True,
    help="Where constants go: inside the flatbuffer, behind it, or inside unless it would pass 2 GiB.",
)
@click.option(
    "--for",
    "consumer",
    type=click.Choice(list(CONSUMERS)),
    help="A program that is to read the output; a form it does not open is refused.",
)
@click.option(
    "--narrow",
    metavar="TYPES",
    default="",
    help="Element types to convert, separated by commas: i64 to i32, f64 to f32. Each tensor it "
    "touches is reported.",
)
@input_shape_option
@click.option("--verify", is_flag=True, help="Read the result back and compare it bit for bit.")
@click.option(
    "--accept-changed-weights",
    is_flag=True,
    help="Take .npy weights whose checksum is not the one in their manifest.",
)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Processes that convert several inputs side by side; by default as many as there are cores "
    "for many small files, else one.",
)
@click.option("--full-paths", is_flag=True, help="Keep the folders of file names in locations.")
@click.option(
    "--isolate",
    is_flag=True,
    help="Parse MLIR in a process of its own: its parser can crash on damaged bytecode.",
)
@click.option(
    "--limit",
    "limits",
    metavar="NAME=N",
    multiple=True,
    help="What an input may ask for: " + ", ".join(LIMITS) + ". May be repeated.",
)
@click.option("--bindings", metavar="PACKAGE", default="", help="MLIR bindings to use.")
@click.version_option(package_name="tosa-convert")
def convert(inputs: tuple[str, ...], output: str | None, **options: Any) -> int:
    """Convert TOSA programs between MLIR text, MLIR bytecode, flatbuffers and JSON."""
    # Not for --help, which should not wait for what reads and writes.
    from tosa_convert.cli.convert_file import convert_one, set_limits
    from tosa_convert.files import STANDARD

    to = _target(options)
    set_limits(options["limits"])
    options["input_shapes"] = parsed(options["input_shapes"])
    if options["consumer"] is not None:
        options["weights"] = weights_for(options["consumer"], options["weights"])
    paths = list(inputs) or [STANDARD]
    if len(paths) > 1 or os.path.isdir(paths[0]):
        from tosa_convert.cli.convert_files import convert_many

        return convert_many(paths, output, to, options)
    convert_one(paths[0], output, to, options)
    return 0


def _target(options: dict[str, Any]) -> Format | None:
    """The output's format, as far as the options tell."""
    to = cast("Format | None", options["to"])
    exports, imports = options["export_to_flatbuffer"], options["import_from_flatbuffer"]
    if exports and imports:
        raise click.UsageError(
            "--export-to-flatbuffer and --import-from-flatbuffer exclude each other"
        )
    if exports:
        if to in MLIR_FORMATS:
            raise click.UsageError(f"--export-to-flatbuffer does not write {FORMATS[to]}")
        return to or "tosa"
    if imports:
        if to is not None and to not in MLIR_FORMATS:
            raise click.UsageError(f"--import-from-flatbuffer does not write {FORMATS[to]}")
        return to or "mlir"
    return to
