"""Lists of bytes to text and back, block by block, without a Python object for each number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]


#: The indentation of one level of the text.
STEP: Final = "  "
#: Bytes that are formatted at a time; each becomes about 20 bytes of text.
BLOCK: Final = 1 << 16

#: Fills the rows of the table up to one width; UTF-8 text does not contain it.
_FILLER: Final = 0xFF


class ByteListFormatter:
    """Formats bytes as a list of numbers, one a line, at one indentation."""

    def __init__(self, indent: str) -> None:
        self.indent = indent
        member = f",\n{indent}{STEP}"
        width = len(member) + 3
        rows = np.full((256, width), _FILLER, np.uint8)
        for value in range(256):
            text = f"{member}{value}".encode()
            rows[value, : len(text)] = np.frombuffer(text, np.uint8)
        self.rows: npt.NDArray[Any] = rows.reshape(-1).view(f"V{width}")

    def members(self, data: memoryview) -> bytes:
        """Return a line for each byte, with the comma and line break that precede it."""
        lines: bytes = self.rows.take(np.frombuffer(data, np.uint8)).tobytes()
        return lines.translate(None, bytes([_FILLER]))

    def pieces(self, chunks: Iterator[memoryview]) -> Iterator[str | bytes]:
        """Iterate over the text of a list, of data that comes in chunks."""
        first = True
        for chunk in chunks:
            for start in range(0, len(chunk), BLOCK):
                lines = self.members(chunk[start : start + BLOCK])
                # The first member has no comma before it.
                yield b"[" + lines[1:] if first else lines
                first = False
        yield f"[\n\n{self.indent}]" if first else f"\n{self.indent}]"


def parse_byte_list(raw: bytes, *, last: bool) -> Bytes | None:
    """Parse the values of a text "1, 2, 3," without comments; return None unless it is exactly that.

    last: the comma after the last number may be absent.
    """
    text = np.frombuffer(raw, np.uint8)
    digits = text - ord("0") < 10
    count = int(np.count_nonzero(digits[1:] > digits[:-1])) + int(digits[:1].sum())
    dense = raw.translate(None, b" \t\r\n")
    if last and dense and not dense.endswith(b","):
        dense += b","
    text = np.frombuffer(dense, np.uint8)
    commas = np.flatnonzero(text == ord(","))
    # As many numbers as commas before white space was removed: white space has split none of them.
    if len(commas) != count or np.count_nonzero(text - ord("0") < 10) != len(text) - count:
        return None
    if not count:
        return np.zeros(0, np.uint8) if not dense else None
    lengths = np.diff(commas, prepend=-1) - 1
    if lengths.min() < 1 or lengths.max() > 3:
        return None
    values = (text[commas - 1] - ord("0")).astype(np.uint16)
    # An index before a number's first digit is in the previous number; the mask drops that digit.
    for place, weight in ((2, 10), (3, 100)):
        present = lengths >= place
        digit = np.where(present, text[commas - place] - ord("0"), 0).astype(np.uint16)
        # JSON has no leading zeros.
        if ((lengths == place) & (digit == 0)).any():
            return None
        values += digit * np.uint16(weight)
    if values.max() > 0xFF:
        return None
    result: Bytes = values.astype(np.uint8)
    return result
