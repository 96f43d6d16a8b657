"""Text in columns, for people: aligned, and cut at the width of a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tosa_convert.errors import printable
from tosa_convert.views.inspection.value_statistics import Statistics

#: The bars of a histogram, from empty to full.
_BARS: Final = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def aligned(rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> Iterator[str]:
    """Return rows as lines whose columns start at the same place; `right`: columns aligned to the right.

    Example:
        >>> list(aligned([["a", "1"], ["bcd", "23"]], right=[1]))
        ['a     1', 'bcd  23']
    """
    cells = [list(row) for row in rows]
    count = max(map(len, cells), default=0)
    widths = [max((len(row[i]) for row in cells if i < len(row)), default=0) for i in range(count)]
    to_right = set(right)
    for row in cells:
        padded = (
            text.rjust(width) if index in to_right else text.ljust(width)
            for index, (text, width) in enumerate(zip(row, widths, strict=False))
        )
        yield "  ".join(padded).rstrip()


def fitted(lines: Iterable[str]) -> Iterator[str]:
    """Cut lines to the width of the terminal; return whole ones if the output is not a terminal."""
    if sys.stdout is None or not sys.stdout.isatty():
        yield from lines
        return
    import shutil

    width = shutil.get_terminal_size().columns
    for line in lines:
        yield line if len(line) <= width else f"{line[: max(0, width - 3)]}..."


def one_line(text: str, characters: int = 80) -> str:
    r"""Return a name or location on one line: what cannot be printed is escaped, the middle is cut.

    Example:
        >>> one_line("x" * 100, 10)
        'xxxx...xxx'
        >>> print(one_line("a" + chr(10) + "b") == r"a\nb")
        True
    """
    if len(text) > characters:
        text = f"{text[: (characters - 2) // 2]}...{text[len(text) - (characters - 3) // 2 :]}"
    return printable(text)


def size_text(count: int) -> str:
    """Return bytes in the unit that fits.

    Example:
        >>> size_text(1), size_text(1000), size_text(1536), size_text(5 << 30)
        ('1 byte', '1,000 bytes', '1.5 KiB', '5.0 GiB')
    """
    if count < 1024:
        return "1 byte" if count == 1 else f"{count:,} bytes"
    number, unit = float(count), 0
    while number >= 1023.95 and unit < len(_UNITS) - 1:
        number /= 1024
        unit += 1
    return f"{number:,.1f} {_UNITS[unit]}"


def number_text(number: float | int | None) -> str:
    """Return a value of a tensor in at most 5 significant digits; whole numbers are exact.

    Example:
        >>> number_text(1 / 3), number_text(-128), number_text(2.0), number_text(None)
        ('0.33333', '-128', '2', '')
    """
    if number is None:
        return ""
    return str(number) if isinstance(number, int) else f"{number:.5g}"


def bars(histogram: Sequence[int]) -> str:
    """Return a histogram in a line: a block for each bin, a blank for an empty one.

    Example:
        >>> bars([0, 1, 8, 4]) == " " + chr(0x2582) + chr(0x2588) + chr(0x2585)
        True
    """
    most = max(histogram, default=0)
    steps = len(_BARS) - 1
    return "".join(_BARS[-(-count * steps // most)] if count else " " for count in histogram)


def values_text(statistics: Statistics) -> str:
    """Return the values themselves if they are few, else their histogram.

    Example:
        >>> values_text(Statistics(3, 0, 1, values=((0, 2), (1, 1))))
        '0 (2x), 1'
    """
    if statistics.values:
        return ", ".join(
            number_text(value) + (f" ({count:,}x)" if count > 1 else "")
            for value, count in statistics.values
        )
    return bars(statistics.histogram)


STATISTICS_HEADER: Final = ("least", "greatest", "mean", "zeros", "NaN", "inf", "values")
#: Which of these columns hold numbers.
STATISTICS_NUMBERS: Final = range(6)


def statistics_cells(found: Statistics) -> tuple[str, ...]:
    """Return the statistics under `STATISTICS_HEADER`."""
    return (
        *map(number_text, (found.least, found.greatest, found.mean)),
        *(f"{count:,}" for count in (found.zeros, found.nans, found.infinities)),
        values_text(found),
    )
