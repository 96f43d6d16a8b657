"""The line of a text that an error is about, with a caret under the column."""

from __future__ import annotations

import re
from typing import Final

#: The line between two modules of one text of MLIR.
SPLIT_MARKER: Final = re.compile(rb"^// -----[ \t]*\r?$", re.MULTILINE)
#: Columns of a terminal that an excerpt takes at the most.
WIDTH: Final = 100
#: Columns that are shown to the left of the caret, at the most, when a line is shortened.
_LEFT: Final = 60
#: Bytes on each side of the caret that are read: more than can be shown, however they are encoded.
_WINDOW: Final = 8 * WIDTH
_TAB: Final = "    "
_CUT: Final = "..."


def excerpt_of(text_line: str | bytes, column: int) -> str:
    """Return a line, safe to print and cut to `WIDTH`, and below it a caret under a column."""
    position = max(column - 1, 0)
    left = _cells(text_line[max(0, position - _WINDOW) : position], slice(-WIDTH - 1, None))
    right = _cells(text_line[position : position + _WINDOW].rstrip(), slice(WIDTH + 1))
    # The caret takes a column, even at the end of the line.
    if _width(left) + max(_width(right), 1) <= WIDTH:
        return _drawn(left, right)
    room = WIDTH - 2 * len(_CUT)
    shown_left = _fitting(left[::-1], max(_LEFT, room - _width(right)))[::-1]
    shown_right = _fitting(right, room - _width(shown_left))
    if len(shown_left) < len(left):
        shown_left = [(_CUT, len(_CUT)), *shown_left]
    if len(shown_right) < len(right):
        shown_right = [*shown_right, (_CUT, len(_CUT))]
    return _drawn(shown_left, shown_right)


def excerpt_at(text: memoryview, offset: int) -> str:
    """Return the excerpt of the line that holds the byte at `offset` of a UTF-8 text."""
    before = bytes(text[max(0, offset - _WINDOW) : offset]).rpartition(b"\n")[2]
    after = bytes(text[offset : offset + _WINDOW]).partition(b"\n")[0]
    return excerpt_of(before + after, len(before) + 1)


def _cells(part: str | bytes, near: slice) -> list[tuple[str, int]]:
    """Return the text in printable pieces with their columns; those after `near` may be left out."""
    text = part if isinstance(part, str) else part.decode("utf-8", "replace")
    # Fast path of what follows; equal by test test_plain_lines_are_cut_like_others
    if text.isascii() and text.isprintable():
        return [(character, 1) for character in text[near]]
    import unicodedata  # only an error needs it

    cells: list[tuple[str, int]] = []
    for character in text:
        if character == "\t":
            cells.append((_TAB, len(_TAB)))
        elif not character.isprintable() or character == "\N{REPLACEMENT CHARACTER}":
            cells.append(("?", 1))
        elif unicodedata.combining(character):
            cells.append((character, 0))
        else:
            cells.append((character, 2 if unicodedata.east_asian_width(character) in "WF" else 1))
    return cells


def _width(cells: list[tuple[str, int]]) -> int:
    return sum(width for _, width in cells)


def _fitting(cells: list[tuple[str, int]], room: int) -> list[tuple[str, int]]:
    for index, (_, width) in enumerate(cells):
        room -= width
        if room < 0:
            return cells[:index]
    return cells


def _drawn(left: list[tuple[str, int]], right: list[tuple[str, int]]) -> str:
    line = "".join(text for text, _ in [*left, *right])
    return f"{line}\n{' ' * _width(left)}^"
