"""The line of a text with a caret under the column that an error is about."""

from __future__ import annotations

import pytest

from tosa_convert.io.source_excerpt import excerpt_of


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


def test_plain_lines_are_cut_like_others() -> None:
    sizes = (0, 1, 40, 41, 59, 60, 61, 93, 94, 95, 99, 100, 101, 102, 300)
    for before in sizes:
        for after in sizes:
            plain, other = (c * before + "X" + c * after for c in ("a", "é"))
            assert excerpt_of(plain, before + 1).replace("a", "é") == excerpt_of(other, before + 1)
