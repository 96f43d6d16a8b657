"""Locations in one file added to a bytecode, all at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from tosa_convert.formats.mlir.bytecode.operation_columns import encode_together, join_together
from tosa_convert.formats.mlir.names import PLAIN_LOCATION
from tosa_convert.graph.lazy_numpy import np

if TYPE_CHECKING:
    import numpy.typing as npt

    from tosa_convert.formats.mlir.bytecode.operation_columns import Numbers

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
    """Encode locations in one file, each after the `head` of it; None if one is anything else."""
    # Fast path of LocationWriter.add_plain; equal by test test_locations_in_one_file_equal_others
    first_text = PLAIN_LOCATION.fullmatch(texts[0])
    if first_text is None:
        return None
    start = first_text[1]
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
    line, column = _numbers_between(raw, first + 1, second), _numbers_between(raw, second + 1, last)
    if line is None or column is None:
        return None
    encoded_head = head(start)
    if len(encoded_head) > _MAX_HEAD:
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


def _numbers_between(raw: npt.NDArray[np.uint8], start: Numbers, end: Numbers) -> Numbers | None:
    """Parse the decimal integers between these places; None if anything else is between two of them."""
    lengths = end - start
    if not 0 < int(lengths.min()) <= int(lengths.max()) <= 9:
        return None
    numbers = np.zeros(len(start), np.int64)
    for position in range(int(lengths.max())):
        chosen = np.flatnonzero(lengths > position)
        digits = raw[start[chosen] + position].astype(np.int64) - ord("0")
        if int(digits.min()) < 0 or int(digits.max()) > 9:
            return None
        numbers[chosen] = numbers[chosen] * 10 + digits
    return numbers
