"""`repack`: the same program with its weights stored elsewhere."""

from __future__ import annotations

from typing import Any

import click

from tosa_convert.cli.command import Verb, option
from tosa_convert.cli.shared_options import consumer_option, no_validate_option, to_option
from tosa_convert.io.formats import FORMATS, MLIR_FORMATS
from tosa_convert.io.options import WEIGHTS


@click.command(cls=Verb)
@click.argument("source", type=click.Path(), metavar="IN")
@option("-o", "--output", required=True, type=click.Path(), help="A .tosa or .json file.")
@to_option
@option(
    "--weights",
    type=click.Choice(WEIGHTS),
    default="auto",
    show_default=True,
    help="Where constants are stored. embedded: in the file; offset: appended after the flatbuffer; "
    "npy: .npy files beside it; auto: embedded up to 2 GiB.",
)
@consumer_option
@option("--accept-changed-weights", is_flag=True, help="Accept .npy weights that were edited.")
@option("--verify", is_flag=True, help="Read the result back and compare it bit for bit.")
@no_validate_option
def repack(source: str, output: str, consumer: str | None, **given: Any) -> None:
    """Store a program's weights elsewhere: in the file, after the flatbuffer, or in .npy files."""
    from tosa_convert.cli.convert_file import (
        ConvertOptions,
        convert_opened,
        open_source,
        output_format,
    )
    from tosa_convert.errors import fail
    from tosa_convert.io.files import refuse_same_file
    from tosa_convert.io.options import ReadOptions, WriteOptions

    options = ConvertOptions(
        read=ReadOptions(accept_changed_weights=given["accept_changed_weights"]),
        write=WriteOptions(
            weights=given["weights"], verify=given["verify"], validate=not given["no_validate"]
        ),
        to=given["to"],
        consumer=consumer,
    )
    opened = open_source(source, options)
    file_format = output_format(output, options, opened.format)
    if opened.is_mlir or file_format in MLIR_FORMATS:
        raise fail(
            "option-conflict",
            source,
            "repack is for flatbuffers and their JSON, "
            f"found {FORMATS[opened.format]} -> {FORMATS[file_format]}",
            "use convert",
        )
    refuse_same_file(source, output)
    convert_opened(opened, output, file_format, options)
