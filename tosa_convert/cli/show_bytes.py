"""`show --hex`: every byte of a `.tosa` file and the field that it belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tosa_convert.cli.command import say
from tosa_convert.cli.load_graph import open_path
from tosa_convert.cli.text_columns import fitted, one_line
from tosa_convert.errors import CODES, printable
from tosa_convert.formats.read import annotate
from tosa_convert.io.files import write_standard_output
from tosa_convert.io.options import ReadOptions

if TYPE_CHECKING:
    from tosa_convert.formats.read import Annotation

#: Bytes of a line, and lines of a field unless all bytes are wanted.
_PER_LINE: Final = 8
_MOST_LINES: Final = 4
_DAMAGED: Final = "malformed-flatbuffer"


def show_bytes(
    path: str, options: ReadOptions, pattern: re.Pattern[str] | None, *, in_full: bool
) -> int:
    """Show the bytes of a file whose field matches; returns the exit code.

    in_full: also all bytes of large data.
    """
    opened = open_path(path, options)
    found = annotate(opened)
    lines = fitted(byte_lines(found, pattern, in_full=in_full))
    write_standard_output(f"{printable(line)}\n".encode() for line in lines)
    for error in found.errors:
        where = f"{printable(opened.where)}: byte {error.offset}"
        place = f"{error.path}: " if error.path else ""
        say(f"{where}: error: {place}{error.message} [{_DAMAGED}]", err=True)
    return int(CODES[_DAMAGED][0]) if found.errors else 0


def byte_lines(
    found: Annotation, pattern: re.Pattern[str] | None, *, in_full: bool
) -> Iterator[str]:
    """Iterate over the lines of all rows.

    Each has an offset and bytes; the first line of a row also has the field with its value.
    """
    digits = max(4, len(f"{found.size:x}"))
    most = found.size if in_full else _MOST_LINES * _PER_LINE
    for row in found.rows():
        parts = (row.path, row.what, row.value)
        text = "  ".join(one_line(part, 200) for part in parts if part)
        if pattern is not None and not pattern.search(text):
            continue
        end = min(row.end, row.start + most)
        for start in range(row.start, end, _PER_LINE):
            raw = found.buffer[start : min(start + _PER_LINE, end)].hex(" ")
            line = f"{start:0{digits}x}  {raw:<{3 * _PER_LINE - 1}}  {text}"
            yield line.rstrip()
            text = ""
        if end < row.end:
            yield f"{'':{digits}}  ... {row.end - end:,} more bytes"
