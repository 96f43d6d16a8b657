"""The line of a text with a caret under the column that an error is about."""

from __future__ import annotations

import doctest
import unicodedata

import pytest

from tosa_convert.io import source_excerpt
from tosa_convert.io.source_excerpt import WIDTH, excerpt_at, excerpt_of


def columns(text: str) -> int:
    """Columns that a terminal gives to a text."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def marked(excerpt: str) -> str:
    """Return the text of an excerpt from the caret's column on."""
    line, caret = excerpt.split("\n")
    for index in range(len(line) + 1):
        if columns(line[:index]) == len(caret) - 1:
            return line[index:]
    raise AssertionError("the caret is within a character")


def test_the_documented_example_runs() -> None:
    assert doctest.testmod(source_excerpt).attempted


@pytest.mark.parametrize(
    ("line", "column", "expected"),
    [
        ("abc", 1, "abc\n^"),
        ("abc", 3, "abc\n  ^"),
        ("abc", 4, "abc\n   ^"),
        ("", 1, "\n^"),
        ("  abc  \r", 3, "  abc\n  ^"),
        ("\t\tabc", 3, "        abc\n        ^"),
        ("重みabc", 3, "重みabc\n    ^"),
        ("e\N{COMBINING ACUTE ACCENT}x", 3, "e\N{COMBINING ACUTE ACCENT}x\n ^"),
        ("a\x1b[2Jb\N{RIGHT-TO-LEFT OVERRIDE}c", 6, "a?[2Jb?c\n     ^"),
    ],
)
def test_the_caret_is_under_the_column(line: str, column: int, expected: str) -> None:
    assert excerpt_of(line, column) == expected


def test_a_column_of_bytes_counts_bytes() -> None:
    assert excerpt_of("é重x".encode(), 6) == "é重x\n   ^"
    assert excerpt_of(b"a\xffb", 3) == "a?b\n  ^"


@pytest.mark.parametrize("character", ["-", "重", "\t"])
@pytest.mark.parametrize("before", [0, 1, 40, 59, 70, 500, 5000])
@pytest.mark.parametrize("after", [0, 1, 40, 59, 70, 500, 5000])
def test_a_long_line_is_shortened_around_the_column(
    character: str, before: int, after: int
) -> None:
    text = character * before + "X" + character * after
    for excerpt in (
        excerpt_of(text, before + 1),
        excerpt_at(memoryview(text.encode()), len((character * before).encode())),
    ):
        line, _ = excerpt.split("\n")
        assert columns(line) <= WIDTH
        assert marked(excerpt).startswith("X")
        shown_all = character not in "\t" and columns(text) <= WIDTH
        assert ("..." in line) is not shown_all or character == "\t"


def test_plain_lines_are_cut_like_others() -> None:
    sizes = (0, 1, 40, 41, 59, 60, 61, 93, 94, 95, 99, 100, 101, 102, 300)
    for before in sizes:
        for after in sizes:
            plain, other = (c * before + "X" + c * after for c in ("a", "é"))
            assert excerpt_of(plain, before + 1).replace("a", "é") == excerpt_of(other, before + 1)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_only_the_line_of_the_offset_is_shown(newline: str) -> None:
    text = newline.join(("first", "second", "third", "")).encode()
    view = memoryview(text)
    assert excerpt_at(view, text.index(b"first")) == "first\n^"
    assert excerpt_at(view, text.index(b"cond")) == "second\n  ^"
    assert excerpt_at(view, text.index(b"third") + 5) == "third\n     ^"
    assert excerpt_at(view, len(text)) == "\n^"
