"""`convert --split-input-file`: each part of an MLIR text is a module, as with tools of MLIR."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final

from tosa_convert.cli.convert_file import (
    ConvertOptions,
    convert_one,
    convert_opened,
    default_format,
    inside,
    output_format,
)
from tosa_convert.cli.files_in_directories import report_failure
from tosa_convert.cli.messages import UsageError, note, say
from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.read import Input
from tosa_convert.io.files import STANDARD, refuse_same_file
from tosa_convert.io.formats import Format
from tosa_convert.io.options import refuse_inapplicable
from tosa_convert.io.source_excerpt import SPLIT_MARKER

#: What a part without operations consists of.
_EMPTY: Final = re.compile(rb"(?:\s|//[^\n]*)*\Z")


def convert_parts(opened: Input, source: str, output: str | None, options: ConvertOptions) -> int:
    """Convert each part of a text; one that fails does not stop the others. Return the exit code."""
    refuse_inapplicable({"split_input_file"}, opened.where, read_from=opened.format)
    if not SPLIT_MARKER.search(opened.data):
        convert_one(opened, source, output, options)
        return 0
    codes: list[int] = []
    for number, part in parts_of(opened):
        try:
            target, file_format = _target(opened, source, output, number, options)
            if target == STANDARD and codes:
                say("// -----\n")
            convert_opened(part, target, file_format, options)
        except TosaConvertError as error:
            codes.append(report_failure(source, error))
        else:
            codes.append(0)
    note(f"{codes.count(0)} of {len(codes)} parts converted")
    return max(codes, default=0)


def parts_of(opened: Input) -> Iterator[tuple[int, Input]]:
    """Iterate over the parts of a text that have operations, with their numbers.

    The lines before a part are empty in it, so that its locations are those of the file.
    """
    data, start = opened.data, 0
    ends = [*SPLIT_MARKER.finditer(data), None]
    for number, marker in enumerate(ends):
        end = len(data) if marker is None else marker.start()
        part = bytes(data[start:end])
        if not _EMPTY.match(part):
            lines = b"\n" * bytes(data[:start]).count(b"\n")
            yield number, opened._replace(data=memoryview(lines + part))
        start = len(data) if marker is None else marker.end()


def _target(
    opened: Input, source: str, output: str | None, number: int, options: ConvertOptions
) -> tuple[str, Format]:
    """Return the file for a part, NAME.0.tosa and so on, and its format."""
    if output is None or output == STANDARD:
        if options.to != "mlir":
            raise UsageError(
                "several parts need files: name them with -o NAME or -o DIR, or --to mlir"
            )
        return STANDARD, "mlir"
    if os.path.isdir(output) or output.endswith(("/", os.sep)):
        output = inside(output, source, options.to or default_format(opened.format))
    file_format = output_format(output, options)
    stem, extension = os.path.splitext(output)
    target = f"{stem}.{number}{extension}"
    if opened.path:
        refuse_same_file(opened.path, target)
    return target, file_format
