"""Many texts of locations that are just a file, a line and a column, encoded all at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tosa_convert.mlir.bytecode.varint import encode_together, integers_of, join_together

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from tosa_convert.mlir.bytecode.varint import Numbers

#: A line or column of at most this many digits is known to fit.
DIGITS: Final = 9


def encode_plain(texts: Sequence[str], head: Callable[[str], bytes]) -> list[bytes] | None:
    """The encodings of locations in one file; None if one of them is anything else.

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
    if line is None or column is None or not encoded_head:
        return None
    parts = [encode_together(line), encode_together(column)]
    parts.insert(0, integers_of([encoded_head] * len(texts)))
    encoded, widths = (np.stack(column, 1) for column in zip(*parts, strict=True))
    joined, stops = (
        join_together(encoded.ravel(), widths.ravel()),
        np.cumsum(widths.sum(1)).tolist(),
    )
    return [joined[a:b] for a, b in zip([0, *stops], stops, strict=False)]


def _number(raw: npt.NDArray[np.uint8], start: Numbers, end: Numbers) -> Numbers | None:
    """The decimal numbers between these places; None if something else is between two of them."""
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
