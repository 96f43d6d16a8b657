"""`repack`: the same program with its weights stored elsewhere."""

from __future__ import annotations

from typing import Any

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.option import ReadPath
from tosa_convert.cli.shared_options import add_options, option
from tosa_convert.io.formats import FORMATS, MLIR_FORMATS


@click.command(cls=Verb)
@click.argument("source", type=ReadPath(), metavar="IN")
@option("--output", required=True, more="A .tosa or .json file.")
@option("--for", "consumer", more="The output gets a form that it opens; the rest is refused.")
@add_options("--to --weights --accept-changed-weights --verify --no-validate")
def repack(source: str, output: str, consumer: str | None, **given: Any) -> None:
    """Move a program's weights: into the file, after it, or into .npy files."""
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
        read=ReadOptions.of(given),
        write=WriteOptions.of(given),
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
