"""Many texts of locations that are just a file, a line and a column, encoded all at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tosa_convert.formats.mlir.bytecode.varint import encode_together, join_together

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from tosa_convert.formats.mlir.bytecode.varint import Numbers

#: A line or column of at most this many digits is known to fit.
DIGITS: Final = 9
#: An encoding of more bytes is not joined with others at once.
_MAX_HEAD: Final = 7


class PlainLocations(NamedTuple):
    """Locations in one file.

    joined: the encodings of those that differ, one after the other. sizes: how many bytes each takes.
    which: the one that each text is, by its number among these.
    """

    joined: bytes
    sizes: Numbers
    which: Numbers


def encode_plain(texts: Sequence[str], head: Callable[[str], bytes]) -> PlainLocations | None:
    """Encode locations in one file; None if one of them is anything else.

    head: encodes what precedes the line, if that is the beginning of a location in a file.
    """
    # Fast path of LocationWriter.add_plain; equal by test test_locations_in_one_file_equal_others
    start = texts[0].partition(":")[0]
    rows = "\n" + "\n".join(texts) + "\n"
    if not rows.isascii() or rows.count(f"\n{start}:") != len(texts):
        return None
    raw = np.frombuffer(rows.encode(), np.uint8)
    ends, colons = np.flatnonzero(raw == ord("\n")), np.flatnonzero(raw == ord(":"))
    if len(ends) != len(texts) + 1 or len(colons) != 2 * len(texts):
        return None
    first, second, last = colons[0::2], colons[1::2], ends[1:] - 1
    # Each text has a colon after its start, and so the other one after that.
    if (first != ends[:-1] + 1 + len(start)).any() or (raw[last] != ord(")")).any():
        return None
    line, column = _number(raw, first + 1, second), _number(raw, second + 1, last)
    encoded_head = head(start) if line is not None and column is not None else b""
    if line is None or column is None or not 0 < len(encoded_head) <= _MAX_HEAD:
        return None
    chosen, which = _distinct(line, column)
    parts = [encode_together(line[chosen]), encode_together(column[chosen])]
    encoded = np.full((len(chosen), 3), int.from_bytes(encoded_head, "little"))
    widths = np.full((len(chosen), 3), len(encoded_head))
    for position, (numbers, sizes) in enumerate(parts, 1):
        encoded[:, position], widths[:, position] = numbers, sizes
    joined = join_together(encoded.ravel(), widths.ravel())
    return PlainLocations(joined, widths.sum(1), which)


def _distinct(line: Numbers, column: Numbers) -> tuple[Numbers, Numbers]:
    """Find the first positions of different places, in order; and each place's index among these."""
    keys = line << 32 | column
    if (keys[1:] > keys[:-1]).all():
        everything = np.arange(len(keys))
        return everything, everything
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return first[order], ranks[which]


def _number(raw: npt.NDArray[np.uint8], start: Numbers, end: Numbers) -> Numbers | None:
    """Parse the decimal integers between these places; None if anything else is between two of them."""
    lengths = end - start
    if not 0 < int(lengths.min()) <= int(lengths.max()) <= DIGITS:
        return None
    numbers = np.zeros(len(start), np.int64)
    for position in range(int(lengths.max())):
        chosen = np.flatnonzero(lengths > position)
        digits = raw[start[chosen] + position].astype(np.int64) - ord("0")
        if int(digits.min()) < 0 or int(digits.max()) > 9:
            return None
        numbers[chosen] = numbers[chosen] * 10 + digits
    return numbers
